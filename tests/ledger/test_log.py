"""Disks that are full or fail, file systems without locks, clocks that run backwards: nothing is half entered."""

import errno
import fcntl
import os
import shutil

import pytest

from threea.errors import LedgerError
from threea.ledger import Ledger, log
from threea.ledger import file as module


def reserve(ledger, epsilon=1.0):
    return ledger.reserve("d", epsilon=epsilon, delta=0.0, lines=[("step", {}, 3)])


@pytest.fixture
def path(tmp_path):
    with Ledger(tmp_path / "l.db", create=True) as ledger:
        ledger.register("d", lambda key: "rows", cap=10.0)
        reserve(ledger)
    return tmp_path / "l.db"


def failing(monkeypatch, name, code, after=0, when=lambda *given: True):
    """Let a call of the system fail, once it was made so often; return what undoes it."""
    real, made = getattr(os, name), []

    def act(*given):
        if when(*given):
            made.append(given)
            if len(made) > after:
                raise OSError(code, os.strerror(code))
        return real(*given)

    monkeypatch.setattr(os, name, act)
    return lambda: monkeypatch.setattr(os, name, real)


def is_line(descriptor, data, offset):
    return offset >= log.PAGE


# --- a disk that takes no more -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (errno.ENOSPC, "cannot be written, the disk is full, and nothing was entered; free some space"),
        (errno.EDQUOT, "the disk is full"),
        (errno.EROFS, "cannot be written; make the file writable"),
        (errno.EIO, r"cannot be read or written \(Input/output error\); check the disk"),
        (errno.EFBIG, r"cannot be read or written \(File too large\)"),
    ],
)
@pytest.mark.parametrize("part", [0, 1, 40])
def test_an_entry_that_cannot_be_written_is_not_entered(path, monkeypatch, code, said, part):
    """Whatever part of its line the disk took is cut off again."""
    stored, pwrite = path.read_bytes(), os.pwrite

    def short(descriptor, data, offset):
        if offset > len(stored) or not part:
            raise OSError(code, os.strerror(code))
        return pwrite(descriptor, data[:part], offset)

    with Ledger(path) as ledger:
        monkeypatch.setattr(os, "pwrite", short)
        with pytest.raises(LedgerError, match=said):
            reserve(ledger)
        monkeypatch.setattr(os, "pwrite", pwrite)
        assert path.read_bytes() == stored
        assert ledger.datasets()[0].spent == 1.0
        reserve(ledger)
        assert ledger.datasets()[0].spent == 2.0
    with Ledger(path, reading=True) as ledger:
        assert ledger.datasets()[0].spent == 2.0


def test_what_cannot_be_cut_off_again_is_a_torn_line_to_all_who_follow(path, monkeypatch):
    stored, pwrite = path.read_bytes(), os.pwrite

    def short(descriptor, data, offset):
        if offset > len(stored):
            raise OSError(errno.ENOSPC, "No space left on device")
        return pwrite(descriptor, data[:40], offset)

    with Ledger(path) as ledger:
        mend = failing(monkeypatch, "ftruncate", errno.EIO)
        monkeypatch.setattr(os, "pwrite", short)
        with pytest.raises(LedgerError, match="the disk is full"):
            reserve(ledger)
        monkeypatch.setattr(os, "pwrite", pwrite)
        assert len(path.read_bytes()) == len(stored) + 40
        with Ledger(path, reading=True) as other:
            assert other.datasets()[0].spent == 1.0
        assert len(path.read_bytes()) == len(stored) + 40, "looking changes nothing"
        mend()
        reserve(ledger)
    with Ledger(path) as ledger:
        assert ledger.datasets()[0].spent == 2.0


def test_a_full_disk_does_not_keep_anyone_from_looking(path, monkeypatch):
    for name in ("pwrite", "ftruncate", "fsync"):
        failing(monkeypatch, name, errno.ENOSPC)
    with Ledger(path, reading=True) as ledger:
        ledger.check()
        assert (ledger.datasets()[0].spent, len(ledger.releases())) == (1.0, 1)


@pytest.mark.parametrize("tail", [b"3 ", b"4 00 {}", b"\0" * 50, b"4 \0\0\0\n", b"\0\0\n\0\0\n"])
def test_a_line_torn_by_a_crash_is_cut_off_by_the_next_writer_alone(path, tail):
    stored = path.read_bytes()
    path.write_bytes(stored + tail)
    with Ledger(path, reading=True) as ledger:
        assert ledger.head.entries == 3
    assert path.read_bytes() == stored + tail
    with Ledger(path) as ledger:
        assert path.read_bytes() == stored
        path.write_bytes(stored + tail)
        reserve(ledger)
        assert ledger.datasets()[0].spent == 2.0
    with Ledger(path, reading=True) as ledger:
        assert ledger.head.entries == 4


def test_a_committed_line_that_is_torn_is_damage(path):
    stored = path.read_bytes()
    for cut in (1, 2, 50, 200):
        path.write_bytes(stored[:-cut])
        for reading in (True, False):
            with pytest.raises(LedgerError, match="is damaged; restore it from a backup"):
                Ledger(path, reading=reading)
        assert path.read_bytes() == stored[:-cut]


# --- a disk that does not say what it holds ----------------------------------------------------------------


@pytest.mark.parametrize("fault", ["line not synced", "number not written", "number not synced"])
def test_a_ledger_whose_disk_fails_in_mid_commit_is_not_used_further(path, monkeypatch, fault):
    """Nobody knows what is on disk. Whoever opens it next finds the entry, or not, and the ledger whole."""
    with Ledger(path) as ledger:
        head = ledger.head
        if fault == "number not written":
            mend = failing(monkeypatch, "pwrite", errno.EIO, when=lambda *given: not is_line(*given))
        else:
            mend = failing(monkeypatch, "fsync", errno.EIO, after=fault == "number not synced")
        with pytest.raises(LedgerError, match="may not hold what was last written to it: the disk failed; check"):
            reserve(ledger)
        mend()
        for act in (lambda: reserve(ledger), ledger.check, ledger.datasets):
            with pytest.raises(LedgerError, match="may not hold what was last written"):
                act()
    with Ledger(path) as ledger:
        assert ledger.holds(head)
        assert ledger.datasets()[0].spent == 2.0, "the line was written whole"
        reserve(ledger)


def test_a_disk_that_fails_is_noticed_at_opening(path, monkeypatch):
    mend = failing(monkeypatch, "fsync", errno.EIO)
    with pytest.raises(LedgerError, match="the disk failed"):
        Ledger(path)
    mend()
    assert Ledger(path).datasets()[0].spent == 1.0


# --- locks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lock", [lambda *given: None, None])
def test_a_file_system_whose_locks_keep_nobody_out_is_refused(path, monkeypatch, lock):
    """As on some network disks: the call does nothing, or is not known."""

    def unknown(descriptor, kind):
        raise OSError(errno.ENOLCK, "No locks available")

    stored = path.read_bytes()
    monkeypatch.setattr(fcntl, "flock", lock or unknown)
    with pytest.raises(LedgerError, match=r"cannot be locked, so another .*; put it on a local disk"):
        Ledger(path)
    with pytest.raises(LedgerError, match="cannot be locked"):
        Ledger(path.with_name("new.db"), create=True)
    assert path.read_bytes() == stored


def test_two_machines_that_do_not_see_each_others_locks_do_not_forget_in_silence(path, monkeypatch):
    """The one whose entry was overwritten learns so at its next act, or at the check before it publishes."""
    with Ledger(path) as one, Ledger(path) as other:
        before = path.read_bytes()
        reserve(one, 2.0)
        reserved = path.read_bytes()
        path.write_bytes(before)  # what the other machine still has in its cache
        reserve(other, 3.0)
        assert path.read_bytes() != reserved
        for act in (one.check, lambda: reserve(one), one.datasets):
            with pytest.raises(LedgerError, match="no longer holds what was written to it"):
                act()


def test_a_writer_keeps_readers_out_and_readers_keep_writers_out(path, monkeypatch):
    monkeypatch.setattr(log, "BUSY_SECONDS", 0.05)
    with Ledger(path) as ledger, Ledger(path, reading=True) as reader:
        with log.locked(path, writing=False):
            assert reader.datasets() == ledger.datasets(), "readers share"
            with pytest.raises(LedgerError, match="was locked by another process"):
                reserve(ledger)
        with log.locked(path, writing=True), pytest.raises(LedgerError, match="was locked by another process"):
            reader.datasets()
        reserve(ledger)


# --- time and chance ---------------------------------------------------------------------------------------


def test_a_clock_that_runs_backwards_changes_nothing_but_what_is_shown(path, monkeypatch):
    times = iter(range(40, 0, -1))
    monkeypatch.setattr(module, "now", lambda: f"20{next(times)}-01-01T00:00:00.000+00:00")
    with Ledger(path) as ledger, Ledger(path) as other:
        release = reserve(ledger)
        for book in (other, ledger, other):
            book.charge(release, "step")
        assert ledger.datasets()[0].spent == other.datasets()[0].spent == 2.0
        ledger.check()
        dates = [row.created for row in ledger.charges(release)]
        assert dates == sorted(dates, reverse=True)
    with Ledger(path, reading=True) as ledger:
        assert ledger.head == other.head


def test_a_head_is_a_commitment_with_fresh_randomness(path, monkeypatch):
    """The same acts on the same rows at the same time, in two copies of one ledger, which share its key."""
    monkeypatch.setattr(module, "now", lambda: "now")
    heads = set()
    for name in ("a.db", "b.db"):
        shutil.copy(path, path.with_name(name))
        with Ledger(path.with_name(name)) as ledger:
            ledger.register("d", lambda key: "rows")
            heads.add(ledger.head)
    assert len(heads) == 2
    assert {head.entries for head in heads} == {4}


def test_a_ledger_opened_for_reading_writes_nothing(path):
    stored = path.read_bytes()
    with Ledger(path, reading=True) as ledger:
        with pytest.raises(Exception, match="opened for reading alone"):
            reserve(ledger)
        with pytest.raises(Exception, match="opened for reading alone"):
            ledger.register("e", lambda key: "others")
    assert path.read_bytes() == stored
