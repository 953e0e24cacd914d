"""`threea ledger`: what was spent, and whether the ledger holds what certificates say."""

import json
import math
import shutil
import sys

import pytest

from threea import cli, hospital, synthesize
from threea.ledger import Ledger

EVENT = {"event": "Gaussian", "noise_multiplier": 4.0}


@pytest.fixture
def threea(capsys, monkeypatch, tmp_path):
    """Return a function that runs a command; it gives exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["threea", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return end.value.code, out, err

    return run


def spend(ledger, name="stays", recipe="labeltree", epsilon=1.0):
    release = ledger.reserve(name, epsilon=epsilon, delta=1e-6, lines=[("count", EVENT, 2)], recipe=recipe)
    ledger.charge(release, "count")
    return ledger.head


def certify(folder, head):
    folder.mkdir(parents=True)
    stated = {"epsilon": 1.0, "delta": 1e-6, "adjacency": "add-remove", "unit": "row"}
    stated["events"] = [{"name": "count", **EVENT, "count": 1}]
    stated["ledger_head"] = None if head is None else head.to_json()
    (folder / "certificate.json").write_text(json.dumps(stated))
    return folder


@pytest.fixture
def releases(tmp_path):
    """Make a ledger with two releases, an older copy of it, and a folder with a certificate for each release."""
    with Ledger(tmp_path / "ledger.db", create=True) as ledger:
        ledger.register("stays", lambda key: "rows", cap=4.0, terms="add-remove, row")
        first = certify(tmp_path / "first", spend(ledger))
        shutil.copy(tmp_path / "ledger.db", tmp_path / "older.db")
        second = certify(tmp_path / "second", spend(ledger))
    return first, second


def test_it_shows_spending_by_dataset_and_release(threea, releases):
    code, out, err = threea("ledger", "ledger.db")
    assert (code, err) == (0, "")
    assert "stays: epsilon 2 spent, delta 2e-06; cap 4, left 2\n" in out
    assert out.count("1 of 2") == out.count("labeltree") == 2
    assert threea("ledger", "ledger.db", "--dataset", "stays")[1] == out
    code, _, err = threea("ledger", "ledger.db", "--dataset", "other")
    assert (code, err.count("\n")) == (2, 1)


def test_verify_finds_each_release_in_its_ledger(threea, releases, tmp_path):
    _, second = releases
    code, out, err = threea("ledger", "ledger.db", "--verify", "first", second / "certificate.json")
    assert (code, err) == (0, "")
    whole, one, two = out.splitlines()
    with Ledger(tmp_path / "ledger.db") as ledger:
        assert whole == f"ledger ledger.db is whole: {ledger.head}"
    assert one == "release first: in the ledger, up to entry 4, as its certificate says"
    assert two == f"release {second}/certificate.json: in the ledger, up to entry 6, as its certificate says"
    assert threea("ledger", "ledger.db", "--verify")[:2] == (0, whole + "\n")


def test_verify_knows_an_older_copy(threea, releases):
    code, out, err = threea("ledger", "older.db", "--verify", *releases)
    assert code == 2
    assert f"release {releases[0]}: in the ledger" in out
    assert err.count("\n") == 1
    assert "saw entry 6 of its ledger, this one ends at 4: an older copy, or another ledger; " in err


def test_verify_knows_another_ledger_of_the_same_length_or_longer(threea, releases, tmp_path):
    with Ledger(tmp_path / "other.db", create=True) as ledger:
        ledger.register("stays", lambda key: "rows", cap=4.0, terms="add-remove, row")
        for _ in range(4):
            spend(ledger)
    code, _, err = threea("ledger", "other.db", "--verify", *releases)
    assert (code, err.count("\n")) == (2, 2)
    assert "second is not in this ledger: entry 6 is another; " in err


def test_verify_knows_a_copy_that_went_its_own_way(threea, releases, tmp_path):
    with Ledger(tmp_path / "older.db") as ledger:
        spend(ledger)
    code, out, err = threea("ledger", "older.db", "--verify", *releases)
    assert code == 2
    assert "first: in the ledger" in out
    assert "second is not in this ledger" in err


EDITS = {
    "epsilon": ({"epsilon": 0.01}, "epsilon is 0.01, and 1 in the ledger"),
    "epsilon in words": ({"epsilon": "1.0e-2"}, "epsilon is 0.01, and 1 in the ledger"),
    "an epsilon past all numbers": ({"epsilon": 10**400}, "without budget, unit or events"),
    "an epsilon that is none": ({"epsilon": math.nan}, "epsilon is nan, and 1 in the ledger"),
    "no epsilon": ({"epsilon": None}, "without budget, unit or events"),
    "delta": ({"delta": 1e-9}, "delta is 1e-09, and 1e-06 in the ledger"),
    "adjacency": ({"adjacency": "replace"}, "it protects (replace, row), and (add-remove, row) in the ledger"),
    "unit": ({"unit": "all rows of one person"}, "it protects (add-remove, all rows of one person), and"),
    "no events": ({"events": []}, "0 of its events are not the ledger's, 1 of the ledger's not in it"),
    "an event with more noise": (
        {"events": [{"name": "count", **EVENT, "noise_multiplier": 40.0, "count": 1}]},
        "1 of its events are not the ledger's, 1 of the ledger's not in it",
    ),
    "an event once more": ({"events": [{"name": "count", **EVENT, "count": 2}]}, "1 of its events are not"),
    "an event a little more often": ({"events": [{"name": "count", **EVENT, "count": 1.7}]}, "1 of its events are not"),
    "an event without a count": ({"events": [{"name": "count"}]}, "without budget, unit or events"),
    "events of another kind": ({"events": 3}, "without budget, unit or events"),
    "an event that is none": ({"events": ["count"]}, "without budget, unit or events"),
}


@pytest.mark.parametrize(("edit", "said"), EDITS.values(), ids=EDITS)
def test_verify_compares_what_a_certificate_says(threea, releases, tmp_path, edit, said):
    certificate = json.loads((tmp_path / "second/certificate.json").read_text())
    (tmp_path / "second/certificate.json").write_text(json.dumps({**certificate, **edit}))
    code, out, err = threea("ledger", "ledger.db", "--verify", "first", "second")
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("error: release second ")
    assert said in err
    assert "release first: in the ledger" in out


def test_verify_knows_a_certificate_that_was_given_to_a_later_release(threea, releases, tmp_path):
    """Its own, of epsilon 2, put on the head of a release of epsilon 1."""
    with Ledger(tmp_path / "ledger.db") as ledger:
        spend(ledger, epsilon=2.0)
    stated = json.loads((tmp_path / "second/certificate.json").read_text()) | {"epsilon": 2.0}
    (tmp_path / "second/certificate.json").write_text(json.dumps(stated))
    code, _, err = threea("ledger", "ledger.db", "--verify", "second")
    assert code == 2
    assert "epsilon is 2, and 1 in the ledger" in err


def test_verify_knows_rows_that_were_handed_out(threea, tmp_path):
    """They are entered as a release of their own, whose certificate states them beside the rest."""
    exposed = {"event": "NonPrivate", "reason": "for a method"}
    with Ledger(tmp_path / "ledger.db", create=True) as ledger:
        ledger.register("stays", lambda key: "rows", terms="add-remove, row")
        for _ in range(2):
            line = [("expose", exposed, 1)]
            ledger.charge(ledger.reserve("stays", epsilon=float("inf"), delta=0.0, lines=line), "expose")
        alone = certify(tmp_path / "alone", ledger.head)
        both = certify(tmp_path / "both", spend(ledger))
        none = certify(tmp_path / "none", ledger.head)
    event = {"name": "expose", **exposed, "count": 1}
    for folder, events in ((alone, [event]), (alone, [event, event]), (both, [event, event])):
        stated = json.loads((folder / "certificate.json").read_text())
        kept = [kept for kept in stated["events"] if kept["name"] == "count" and folder == both]
        (folder / "certificate.json").write_text(json.dumps({**stated, "events": [*kept, *events]}))
        assert threea("ledger", "ledger.db", "--verify", folder)[0] == 0
    assert threea("ledger", "ledger.db", "--verify", none)[0] == 0
    stated = json.loads((both / "certificate.json").read_text())
    (both / "certificate.json").write_text(json.dumps({**stated, "events": [*stated["events"], event]}))
    assert threea("ledger", "ledger.db", "--verify", both)[0] == 2


# --- whole releases ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Make a release of one table with a ledger; its folder is not to be changed."""
    folder = tmp_path_factory.mktemp("made")
    options = {"recipe": "independent", "rows": 50, "ledger": str(folder / "ledger.db"), "dataset": "stays"}
    stays, schema = hospital.stays(300), hospital.schema()
    synthesize(stays, schema=schema, epsilon=0.5, unit="patient_id", max_rows_per_unit=2, **options).save(folder / "r")
    return folder


@pytest.fixture
def copied(made, tmp_path):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


def rewritten(path, act):
    path.write_bytes(act(path.read_bytes()))


def edited(**changes):
    return lambda text: json.dumps({**json.loads(text), **changes}).encode()


def test_verify_and_sample_take_a_release_as_it_was_written(threea, copied):
    code, out, err = threea("ledger", "ledger.db", "--verify", "r")
    assert (code, err) == (0, "")
    assert out.endswith("as its certificate says; 4 files are those that it names\n")
    assert threea("sample", "r", "--rows", 5, "--out", "more.csv")[0] == 0


def test_verify_takes_a_certificate_of_an_earlier_version_for_what_it_has(threea, copied):
    certificate = json.loads((copied / "r/certificate.json").read_text())
    del certificate["report_sha256"]
    (copied / "r/certificate.json").write_text(json.dumps(certificate))
    code, out, _ = threea("ledger", "ledger.db", "--verify", "r")
    assert code == 0
    assert "; 3 files are those that it names" in out
    assert threea("sample", "r", "--rows", 5, "--out", "more.csv")[0] == 0


PARTS = ("report.html", "schema.toml", "synthetic.parquet", "model.threea")


@pytest.mark.parametrize("name", PARTS)
def test_verify_and_sample_refuse_a_file_that_was_changed(threea, copied, name):
    rewritten(copied / "r" / name, lambda stored: stored[:200] + bytes([stored[200] ^ 1]) + stored[201:])
    code, _, err = threea("ledger", "ledger.db", "--verify", "r")
    assert (code, err.count("\n")) == (2, 1)
    assert f"{name} is not the" in err
    code, _, err = threea("sample", "r", "--rows", 5, "--out", "more.csv")
    assert (code, err.count("\n")) == (2, 1)
    assert not (copied / "more.csv").exists()


@pytest.mark.parametrize(
    ("name", "key"), [("schema.toml", "schema"), ("synthetic.parquet", "synthetic"), ("model.threea", "model")]
)
def test_a_file_that_was_changed_is_not_taken_because_its_hash_was_removed(threea, copied, name, key):
    rewritten(copied / "r" / name, lambda stored: stored[:200] + bytes([stored[200] ^ 1]) + stored[201:])
    certificate = json.loads((copied / "r/certificate.json").read_text())
    del certificate[f"{key}_sha256"]
    (copied / "r/certificate.json").write_text(json.dumps(certificate))
    code, _, err = threea("ledger", "ledger.db", "--verify", "r")
    assert (code, err.count("\n")) == (2, 1)
    assert f"{name} is not the" in err
    assert threea("sample", "r", "--rows", 5, "--out", "more.csv")[0] == 2


def test_verify_refuses_an_edited_certificate_of_a_release(threea, copied):
    for changes in ({"epsilon": 0.01}, {"unit": "row"}, {"adjacency": "replace"}, {"delta": 0.0}):
        stored = (copied / "r/certificate.json").read_bytes()
        rewritten(copied / "r/certificate.json", edited(**changes))
        code, _, err = threea("ledger", "ledger.db", "--verify", "r")
        assert (code, err.count("\n")) == (2, 1)
        assert "has a certificate that was changed: " in err
        (copied / "r/certificate.json").write_bytes(stored)


def test_a_folder_of_parts_that_were_sent_alone_is_taken(threea, copied):
    for name in ("report.html", "synthetic.parquet", "schema.toml"):
        (copied / "r" / name).unlink()
    assert threea("sample", "r", "--rows", 5, "--out", "more.csv")[0] == 0
    assert threea("ledger", "ledger.db", "--verify", "r")[0] == 0


DEEP = "[" * 200_000
NOT_CERTIFICATES = {
    "null": "null",
    "a number": "17",
    "a list": "[1]",
    "broken": '{"ledger_head": ',
    "deep": DEEP,
    "deep within": '{"ledger_head": ' + DEEP,
    "not UTF-8": b'{"\xff": 1}',
    "empty": "",
    "long number": '{"ledger_head": ' + "9" * 10_000 + "}",
    "head a number": '{"ledger_head": 3}',
    "head a list": '{"ledger_head": [3]}',
    "head without hash": '{"ledger_head": {"entries": 3}}',
    "hash with escapes": '{"ledger_head": {"entries": 3, "sha256": "\\u001b[31m"}}',
    "no head": "{}",
    "head null": '{"ledger_head": null}',
}


@pytest.mark.parametrize("content", NOT_CERTIFICATES.values(), ids=NOT_CERTIFICATES)
def test_verify_says_in_one_line_what_is_no_certificate_of_a_ledger(threea, releases, tmp_path, content):
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad/certificate.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    code, out, err = threea("ledger", "ledger.db", "--verify", "bad", "first")
    assert code == 2
    assert err.startswith("error: release bad ")
    assert err.count("\n") == 1
    assert err[:-1].isprintable()
    assert "release first: in the ledger" in out, "the others are still looked up"


def test_verify_says_what_is_not_there(threea, releases, tmp_path):
    (tmp_path / "empty").mkdir()
    code, _, err = threea("ledger", "ledger.db", "--verify", "empty", "gone", "/dev/null")
    assert (code, err.count("\n")) == (2, 3)
    assert err.count("has no certificate that can be read") == 3


def test_verify_refuses_a_damaged_ledger(threea, releases, tmp_path):
    content = (tmp_path / "ledger.db").read_bytes()
    (tmp_path / "ledger.db").write_bytes(content.replace(b'"cap":4.0', b'"cap":9.0'))
    for arguments in (["--verify"], ["--verify", "first"], []):
        code, out, err = threea("ledger", "ledger.db", *arguments)
        assert (code, out, err) == (2, "", f"error: ledger ledger.db {err.split('ledger.db ')[1]}")
        assert "is damaged; restore it" in err


def test_a_release_without_verify_is_refused(threea, releases):
    code, out, err = threea("ledger", "ledger.db", "first")
    assert (code, out) == (2, "")
    assert "--verify" in err


def test_a_missing_ledger_is_not_made(threea, tmp_path):
    code, _, err = threea("ledger", "missing.db")
    assert code == 2
    assert "missing.db does not exist; is the path mistyped?" in err
    assert list(tmp_path.iterdir()) == []


def test_escape_sequences_never_reach_the_terminal(threea, tmp_path):
    """No name with such characters can be registered, but a file may come from elsewhere."""
    evil = "\x1b]0;owned\x07\x1b[31m\u202e"
    with Ledger(tmp_path / "ledger.db", create=True) as ledger:
        with ledger.transaction():
            dataset = {"name": evil, "fingerprint": "rows", "terms": evil, "cap": None}
            ledger.write({"kind": "dataset", **dataset})
        spend(ledger, evil, recipe=evil)
    bad = certify(tmp_path / evil.replace("/", ""), None)
    for arguments in ([], ["--dataset", evil], ["--dataset", evil + "?"], ["--verify", bad], [bad]):
        _, out, err = threea("ledger", "ledger.db", *arguments)
        assert (out + err).replace("\n", "").isprintable()
    assert "\\x1b[31m\\u202e: epsilon 1 spent" in threea("ledger", "ledger.db")[1]
