"""`threea ledger`: what was spent, and whether the ledger holds what certificates say."""

import json
import shutil
import sys

import pytest

from threea import cli
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


def spend(ledger, name="stays", recipe="labeltree"):
    release = ledger.reserve(name, epsilon=1.0, delta=1e-6, lines=[("count", EVENT, 2)], recipe=recipe)
    ledger.charge(release, "count")
    return ledger.head


def certify(folder, head):
    folder.mkdir(parents=True)
    (folder / "certificate.json").write_text(json.dumps({"ledger_head": None if head is None else head.to_json()}))
    return folder


@pytest.fixture
def releases(tmp_path):
    """Make a ledger with two releases, an older copy of it, and a folder with a certificate for each release."""
    with Ledger(tmp_path / "ledger.db", create=True) as ledger:
        ledger.register("stays", lambda key: "rows", cap=4.0)
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
    assert one == "release first: in the ledger, up to entry 4"
    assert two == f"release {second}/certificate.json: in the ledger, up to entry 6"
    assert threea("ledger", "ledger.db", "--verify")[:2] == (0, whole + "\n")


def test_verify_knows_an_older_copy(threea, releases):
    code, out, err = threea("ledger", "older.db", "--verify", *releases)
    assert code == 2
    assert f"release {releases[0]}: in the ledger" in out
    assert err.count("\n") == 1
    assert "saw entry 6 of its ledger, this one ends at 4: an older copy, or another ledger; " in err


def test_verify_knows_another_ledger_of_the_same_length_or_longer(threea, releases, tmp_path):
    with Ledger(tmp_path / "other.db", create=True) as ledger:
        ledger.register("stays", lambda key: "rows", cap=4.0)
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
            dataset = {"name": evil, "fingerprint": "rows", "terms": "", "cap": None}
            ledger.write({"kind": "dataset", **dataset})
        spend(ledger, evil, recipe=evil)
    bad = certify(tmp_path / evil.replace("/", ""), None)
    for arguments in ([], ["--dataset", evil], ["--dataset", evil + "?"], ["--verify", bad], [bad]):
        _, out, err = threea("ledger", "ledger.db", *arguments)
        assert (out + err).replace("\n", "").isprintable()
    assert "\\x1b[31m\\u202e: epsilon 1 spent" in threea("ledger", "ledger.db")[1]
