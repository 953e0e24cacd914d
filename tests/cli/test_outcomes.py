"""However a release ends, it ends in files or says what became of the charge; what can be foreseen costs nothing."""

import errno
import json
import os
import signal
import sys

import pyarrow.parquet as pq
import pytest

from threea import cli, errors, hospital, place, publish
from threea.approximate.histograms import LabelHistograms
from threea.framework import Recipe
from threea.ledger import Ledger

CANARY = "Xanthippe-7731"
FILES = {"synthetic.parquet", "certificate.json", "model.threea", "report.html", "schema.toml"}
STAYS = "what was charged stays charged"
AGAIN = f"{STAYS}; the same again with --resume (in Python, resume=True) goes on with it"
NOTHING = "nothing was charged"


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Run a release of a small table in this process; return exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(hospital.stays(200), "stays.parquet")
    (tmp_path / "described.toml").write_text(hospital.schema().to_toml())
    Ledger("ledger.db", create=True).close()
    data, described = tmp_path / "stays.parquet", ["--schema", tmp_path / "described.toml", "--recipe", "independent"]

    def release(*arguments, ledger=tmp_path / "ledger.db", epsilon=1):
        options = [*described, "--epsilon", epsilon, "--ledger", ledger, *arguments]
        monkeypatch.setattr(sys, "argv", ["threea", *map(os.fsdecode, map(_word, ["release", data, *options]))])
        with pytest.raises(SystemExit) as end:
            cli.main()
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        assert CANARY not in err
        assert err.count("\n") == (end.value.code != 0), err
        return end.value.code, out, err

    return release


def _word(word):
    return word if isinstance(word, bytes | os.PathLike) else str(word)


def spent(ledger="ledger.db"):
    with Ledger(ledger) as book:
        return sum(row.epsilon for row in book.releases())


def left_behind(tmp_path):
    return sorted(path.name for path in tmp_path.rglob(f"{place.STAGING}*"))


PLACES = {
    "a folder that cannot be renamed onto": "busy",
    "a link to an empty folder": "link",
    "a link to a missing folder": "dangling",
    "the working folder": ".",
    "not UTF-8": b"\xff\xfe",
    "300 characters": "x" * 300,
    "255 bytes": "\N{OGHAM LETTER BEITH}" * 85,
}


@pytest.mark.parametrize("out", PLACES.values(), ids=PLACES)
def test_a_place_is_written_or_costs_nothing(run, tmp_path, monkeypatch, out):
    real = os.rename

    def rename(source, target):
        if os.fspath(target) == str(tmp_path / "busy"):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    for name in ("busy", "there", "here"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("there")
    (tmp_path / "dangling").symlink_to("missing")
    monkeypatch.chdir(tmp_path / "here")
    where = out if out == "." else os.path.join(os.fsencode(tmp_path), os.fsencode(out))
    code, _, err = run("--out", where)
    if code:
        assert code == 2
        assert (spent("../ledger.db"), "cannot be used: File name too long" in err) == (0, True)
    else:
        assert {os.fsdecode(name) for name in os.listdir(where)} == FILES
        assert spent("../ledger.db") == 1
    assert (code == 2) == (out == "x" * 300)
    assert not left_behind(tmp_path)


@pytest.mark.parametrize("ledger", ["r", "r/ledger.db", "r/deeper/ledger.db", "link/ledger.db"])
def test_the_ledger_is_never_in_the_release(run, tmp_path, ledger):
    (tmp_path / "r" / "deeper").mkdir(parents=True)
    (tmp_path / "link").symlink_to("r")
    (tmp_path / "r" / "deeper").rmdir()
    code, _, err = run("--out", "r", ledger=ledger)
    assert (code, "must not hold the ledger" in err) == (2, True)
    assert not list((tmp_path / "r").iterdir())


def test_too_little_room_costs_nothing(run, tmp_path, monkeypatch):
    monkeypatch.setattr(place.Place, "free", 3_000_000)
    code, _, err = run("--out", "r", "--rows", 1_000_000)
    assert (code, spent()) == (2, 0)
    assert "too little room: 3.0 MB free, " in err
    assert "MB and 8 files needed; make room, choose another place or ask for fewer rows" in err
    assert not left_behind(tmp_path)
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)


def test_a_full_disk_after_the_charge_says_that_it_stays(run, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(publish, "RowWriter", full)
    code, _, err = run("--out", "r")
    assert (code, spent()) == (2, 1)
    assert "No space left on device" in err
    assert err.endswith(f"no result was written; {AGAIN}\n")
    assert not (tmp_path / "r").exists()


def interrupting(monkeypatch, owner, name, *, after=False):
    """Have an interrupt come right before or after something is done."""
    real = getattr(owner, name)

    def act(*arguments, **options):
        done = real(*arguments, **options) if after else None
        signal.raise_signal(signal.SIGINT)
        return done

    monkeypatch.setattr(owner, name, act)


@pytest.fixture(autouse=True)
def _interrupts():
    # Whoever runs the tests in the background may have them ignore interrupts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("owner", "name", "after", "said"),
    [
        ("threea.session", "prepare", False, f"no result was written; {NOTHING}"),
        ("threea.session", "prepare", True, f"no result was written; {NOTHING}"),
        ("threea.anonymize.spending.Spending", "pay", False, f"no result was written; {NOTHING}"),
        ("threea.ledger.Ledger", "reserve", True, f"no result was written; {AGAIN}"),
        ("threea.anonymize.spending.Spending", "pay", True, f"no result was written; {AGAIN}"),
        ("threea.release.Release", "batches", False, f"no result was written; {AGAIN}"),
        ("threea.place.Place", "publish", False, f"no result was written; {AGAIN}"),
        ("os", "rename", True, f"the release was written; {STAYS}"),
        ("threea.place.Place", "publish", True, f"the release was written; {STAYS}"),
    ],
)
def test_an_interrupt_says_what_became_of_charge_and_files(run, tmp_path, monkeypatch, owner, name, after, said):
    from pkgutil import resolve_name

    if name == "rename":
        # That of the rehearsal is another one.
        real = place.Place.publish
        interrupt = (monkeypatch, os, "rename")
        monkeypatch.setattr(place.Place, "publish", lambda self: (interrupting(*interrupt, after=True), real(self))[1])
    else:
        interrupting(monkeypatch, resolve_name(owner), name, after=after)
    code, _, err = run("--out", "r")
    assert (code, err) == (130, f"interrupted: {said}\n")
    monkeypatch.undo()
    assert spent(tmp_path / "ledger.db") == (STAYS in said)
    assert (tmp_path / "r").exists() == ("was written" in said and "no result" not in said)
    assert not left_behind(tmp_path)


@pytest.mark.parametrize(("step", "said"), [("plan", NOTHING), ("run", NOTHING), ("made", AGAIN)])
def test_a_bug_says_what_became_of_the_charge_and_quotes_nobody(run, monkeypatch, step, said):
    def broken(*_, **__):
        error = ValueError(CANARY)
        error.add_note(CANARY)
        raise error

    if step == "made":
        monkeypatch.setattr("threea.release.Release.made", broken)
    else:
        monkeypatch.setattr(Recipe, step, broken)
    code, _, err = run("--out", "r")
    assert code == 1
    assert "internal error: ValueError" in err
    assert err.endswith(f"no result was written; {said}; please report it\n")
    assert spent() == (said == AGAIN)


def test_a_refused_budget_charges_nothing(run, tmp_path):
    assert run("--out", "first", "--cap", 1.5)[0] == 0
    code, _, err = run("--out", "second")
    assert (code, spent()) == (3, 1)
    assert err.endswith(f"no result was written; {NOTHING}\n")
    assert not (tmp_path / "second").exists()


def test_a_mistake_that_is_found_before_says_no_more_than_the_mistake(run):
    code, _, err = run("--out", "r", epsilon=-1)
    assert code == 2
    assert "charged" not in err
    assert "written" not in err


@pytest.mark.parametrize("fate", ["removed", "emptied", "older"])
@pytest.mark.parametrize("moment", ["asking", "writing"])
def test_a_ledger_that_is_lost_meanwhile_stops_the_release(run, tmp_path, monkeypatch, fate, moment):
    ledger = tmp_path / "ledger.db"
    older = ledger.read_bytes()

    def lose():
        ledger.unlink()
        if fate != "removed":
            ledger.write_bytes(older if fate == "older" else b"")

    owner, name = (LabelHistograms, "fit") if moment == "asking" else (publish, "_fill")
    real = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *arguments: (real(*arguments), lose())[0])
    code, _, err = run("--out", "r")
    assert code == 2
    assert "ledger" in err
    assert err.endswith(f"no result was written; {AGAIN}\n")
    assert not (tmp_path / "r").exists()
    assert not left_behind(tmp_path)


def test_the_certificate_repeats_the_head_of_the_ledger(run, tmp_path):
    from threea.ledger.chain import LedgerHead

    assert run("--out", "r")[0] == 0
    head = json.loads((tmp_path / "r" / "certificate.json").read_text())["ledger_head"]
    with Ledger(tmp_path / "ledger.db") as book:
        assert book.head.to_json() == head
    assert run("--out", "second")[0] == 0
    with Ledger(tmp_path / "ledger.db") as book:
        assert book.head.to_json() != head
        assert book.holds(LedgerHead.from_json(head))


def test_without_a_file_there_is_no_head(tmp_path):
    from threea import synthesize

    release = synthesize(hospital.stays(200), schema=hospital.schema(), epsilon=1.0, rows=5, recipe="independent")
    assert release.certificate().ledger_head is None


def test_an_error_tells_the_fate_of_a_release_and_nothing_else():
    error = ValueError("x")
    error.add_note(CANARY)
    assert errors.fate_of(error) is None
    inner, outer = errors.stated(charged=True, written=True), errors.stated(charged=True, written=False)
    with pytest.raises(ValueError, match="x"), errors.outcome(lambda: outer), errors.outcome(lambda: inner):
        raise error
    assert errors.fate_of(error) == f"the release was written; {STAYS}"
