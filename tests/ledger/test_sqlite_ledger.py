"""A ledger of the first versions, in SQLite, becomes a log within its file: by all its paths at once, or not yet."""

import errno
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import threea
from threea.errors import LedgerError
from threea.ledger import Ledger, LedgerHead, log
from threea.ledger.chain import canonical, entry_hash

SOURCE = Path(threea.__file__).parents[1]
GOLDEN = Path(__file__).parents[1] / "golden" / "ledger-1.sqlite"
"""Made by version 0.1: a dataset, two releases of epsilon 1 and 0.5, two charges of each."""
HEAD = LedgerHead(8, "780972878533a642f32b9fd7323895e74d3c15773beb346228b4e9f6a3755893")
EVENT = {"event": "Gaussian", "noise_multiplier": 4.0}


@pytest.fixture
def path(tmp_path):
    return Path(shutil.copy(GOLDEN, tmp_path / "l.db"))


def reserve(ledger, epsilon=1.0):
    return ledger.reserve("stays", epsilon=epsilon, delta=0.0, lines=[("step", {}, 3)])


def refused_by_sqlite(path):
    with closing(sqlite3.connect(path)) as connection, pytest.raises(sqlite3.DatabaseError, match="not a database"):
        connection.execute("SELECT * FROM entries")
    return True


def long_entry(head):
    plan = {"id": "c" * 16, "dataset": "stays", "recipe": "", "epsilon": 0.25, "delta": 0.0}
    lines = [[f"line {number}", EVENT, 1] for number in range(500)]
    content = canonical({"kind": "release", **plan, "lines": lines, "created": ""})
    return head.entries + 1, content, entry_hash(head.sha256, content)


def begun(path):
    """Make a long entry; return the file after it, and the journal that undoes it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        # So that the journal on disk is whole before the commit.
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO entries VALUES (?, ?, ?)", long_entry(HEAD))
        connection.execute(f"PRAGMA user_version = {HEAD.entries + 1}")
        journal = path.with_name(f"{path.name}-journal").read_bytes()
        connection.execute("COMMIT")
    return path.read_bytes(), journal


def in_mid_transaction(path):
    """Leave a file and its journal as a crash does after the first page of a transaction was written."""
    before = path.read_bytes()
    after, journal = begun(path)
    path.write_bytes(after[:4096] + before[4096:] + after[len(before) :])
    path.with_name(f"{path.name}-journal").write_bytes(journal)


def test_it_is_shown_as_it_is_and_not_changed(path):
    stored = path.read_bytes()
    path.chmod(0o444)
    with Ledger(path, reading=True) as ledger:
        (row,) = ledger.datasets()
        assert (row.name, row.cap, row.spent, row.releases) == ("stays", 10.0, 1.5, 2)
        assert [(row.epsilon, row.charged) for row in ledger.releases()] == [(1.0, 3), (0.5, 3)]
        assert ledger.head == HEAD
        ledger.check()
    assert path.read_bytes() == stored
    assert os.listdir(path.parent) == ["l.db"]


def test_writing_converts_it_and_keeps_every_entry_and_head(path):
    linked = path.with_name("linked.db")
    os.link(path, linked)
    with Ledger(path) as ledger:
        assert ledger.head == HEAD, "certificates made before it are found"
        assert not ledger.new
        reserve(ledger)
    assert not (path.read_bytes()[: log.PAGE]).startswith(b"SQLite")
    assert refused_by_sqlite(path)
    assert refused_by_sqlite(linked)
    assert b"CREATE TABLE" not in path.read_bytes()
    with Ledger(linked) as ledger:
        assert ledger.holds(HEAD)
        assert ledger.datasets()[0].spent == 2.5
        reserve(ledger)
    with Ledger(path, reading=True) as ledger:
        assert ledger.datasets()[0].spent == 3.5
        assert [row.charged for row in ledger.releases()] == [3, 3, 0, 0]
    assert sorted(os.listdir(path.parent)) == ["l.db", "linked.db"]


def test_who_reads_meanwhile_goes_on(path):
    with Ledger(path, reading=True) as reader:
        assert reader.head == HEAD
        with Ledger(path) as ledger:
            reserve(ledger)
        assert reader.datasets()[0].spent == 2.5
        reader.check()
        assert reader.head.entries == 9


def test_a_database_put_back_in_use_is_noticed(path):
    older = path.read_bytes()
    with Ledger(path) as ledger:
        reserve(ledger)
        path.write_bytes(older)
        for act in (lambda: reserve(ledger), ledger.check, ledger.datasets):
            with pytest.raises(LedgerError, match="no longer holds what was written to it"):
                act()


KILLED = """
import os, signal, sys
from threea.ledger import Ledger
acts = 0
def count(frame, event, function):
    global acts
    names = ("pwrite", "fsync", "ftruncate", "flock", "lockf", "unlink")
    if event in ("c_call", "c_return") and function.__name__ in names:
        acts += 1
        if acts == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
sys.setprofile(count)
Ledger(sys.argv[1])
sys.setprofile(None)
print(acts)
"""


def run(path, act):
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-c", KILLED, str(path), str(act)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_killed_at_any_step_it_is_the_one_or_the_other_by_every_path(path):
    linked, stored, states = path.with_name("linked.db"), path.read_bytes(), set()
    os.link(path, linked)
    acts = int(run(path, 0).stdout)
    assert acts > 15
    for act in range(1, acts + 1):
        with path.open("r+b") as file:
            file.write(stored)
            file.truncate()
        assert run(path, act).returncode == -signal.SIGKILL
        content = path.read_bytes()
        states.add((content.startswith(b"SQLite"), len(content) > len(stored), b"CREATE TABLE" in content))
        if content.startswith(b"SQLite"):
            assert content.startswith(stored), "not a byte of the database is changed"
            with closing(sqlite3.connect(linked)) as connection:
                assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
                assert connection.execute("SELECT COUNT(*) FROM entries").fetchone() == (8,)
        else:
            assert refused_by_sqlite(linked)
        with Ledger(linked, reading=True) as ledger:
            assert ledger.head == HEAD
        with Ledger(linked) as ledger:
            assert ledger.head == HEAD
            reserve(ledger)
        with Ledger(path) as ledger:
            assert ledger.datasets()[0].spent == 2.5
        assert b"CREATE TABLE" not in path.read_bytes()
    assert {(True, False, True), (True, True, True), (False, True, True), (False, True, False)} == states


@pytest.mark.parametrize("name", ["pwrite", "fsync"])
def test_a_full_disk_leaves_it_as_it_was(path, monkeypatch, name):
    stored, real = path.read_bytes(), getattr(os, name)

    def full(*given):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, name, full)
    with pytest.raises(LedgerError, match="the disk is full, and nothing was entered"):
        Ledger(path)
    monkeypatch.setattr(os, name, real)
    assert path.read_bytes() == stored
    with Ledger(path) as ledger:
        assert ledger.head == HEAD


def test_versions_that_use_sqlite_are_kept_out_while_it_is_converted(path, monkeypatch):
    monkeypatch.setattr(log, "BUSY_SECONDS", 0.1)
    holder = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); c.execute('BEGIN IMMEDIATE');"
    )
    holder += "print('held', flush=True); sys.stdin.readline()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-c", holder, str(path)], text=True, **pipes)
    try:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(LedgerError, match="was locked by another process"):
            Ledger(path)
    finally:
        process.communicate("\n", timeout=60)
    with Ledger(path) as ledger:
        assert ledger.head == HEAD


def test_a_transaction_that_was_cut_short_is_rolled_back(path):
    in_mid_transaction(path)
    stored = path.read_bytes()
    with Ledger(path, reading=True) as ledger:
        assert (ledger.head, ledger.datasets()[0].spent) == (HEAD, 1.5)
    assert path.read_bytes() == stored
    with Ledger(path) as ledger:
        assert (ledger.head, ledger.datasets()[0].spent) == (HEAD, 1.5)
    assert os.listdir(path.parent) == ["l.db"], "the journal is of no more use"


def test_a_transaction_that_was_cut_short_without_its_journal_is_damage(path):
    in_mid_transaction(path)
    path.with_name("l.db-journal").unlink()
    for reading in (True, False):
        with pytest.raises(LedgerError, match="is damaged"):
            Ledger(path, reading=reading)


def test_a_journal_that_a_kill_left_at_this_path_does_not_roll_back_what_came_by_another(path):
    """How version 0.1 forgot: killed by one name, it went on by another, and was opened by the first again."""
    _, journal = begun(Path(shutil.copy(path, path.with_name("killed.db"))))
    # Killed before it wrote a page; then somebody spends by another name.
    entry = {"kind": "charge", "release": "8845b6c4508a148c", "line": "step", "times": 1, "created": ""}
    content = canonical({**entry, "epsilon": 1.5, "delta": 2e-6})
    head = LedgerHead(HEAD.entries + 1, entry_hash(HEAD.sha256, content))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO entries VALUES (?, ?, ?)", (head.entries, content, head.sha256))
        connection.execute(f"PRAGMA user_version = {head.entries}")
        connection.execute("COMMIT")
    path.with_name("l.db-journal").write_bytes(journal)
    shutil.copy(path, path.with_name("lost.db"))
    shutil.copy(path.with_name("l.db-journal"), path.with_name("lost.db-journal"))
    with closing(sqlite3.connect(path.with_name("lost.db"))) as connection:
        assert connection.execute("SELECT COUNT(*) FROM entries").fetchone() == (8,), "SQLite forgets the charge"
    for reading in (True, False):
        with Ledger(path, reading=reading) as ledger:
            assert ledger.head == head
            assert ledger.releases()[1].charged == 4
    assert not path.with_name("l.db-journal").exists()


@pytest.mark.parametrize(
    "change",
    [
        "PRAGMA journal_mode = WAL",
        "CREATE TABLE note (x)",
        "DROP TRIGGER entries_no_update",
        "PRAGMA user_version = 7",
        "PRAGMA user_version = 9",
        "INSERT INTO entries VALUES (9, '{}', 'x')",
    ],
)
def test_one_laid_out_otherwise_is_refused_and_left_alone(path, change):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(change)
    stored = path.read_bytes()
    for reading in (True, False):
        with pytest.raises(LedgerError, match="is damaged, or was made by another version of threea; "):
            Ledger(path, reading=reading)
    assert path.read_bytes() == stored


def test_a_database_that_was_cut_or_changed_is_refused(path):
    stored = path.read_bytes()
    for length in [*range(16, 140, 7), *range(140, len(stored), 509)]:
        path.write_bytes(stored[:length])
        with pytest.raises(LedgerError, match=r"is damaged|is not a threea ledger"):
            Ledger(path)
    path.write_bytes(stored.replace(b'"cap":10.0', b'"cap":90.0'))
    with pytest.raises(LedgerError, match="is damaged"):
        Ledger(path)
