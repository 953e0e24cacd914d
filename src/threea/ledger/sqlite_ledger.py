"""Ledgers as they were first written, in SQLite: read, and turned into a log within the same file.

SQLite names its journal after the path by which a file was opened, so a ledger with two paths could be rolled back to
an older state through one of them. Here a ledger is read as its own bytes stand; SQLite never opens the file but to
finish a transaction that was cut short.

The log is written behind the database, in the same file, and synced. Until then every byte of the database is as it
was. Then one write of fewer than 512 bytes puts the log's header over SQLite's: from there on the file is a log, by
all of its paths, and versions that want SQLite refuse it. Last, what is left of the database is blanked.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from threea.ledger import log
from threea.ledger.chain import Chain, line_of

SCHEMA = (
    "CREATE TABLE entries (number INTEGER PRIMARY KEY, content TEXT NOT NULL, sha256 TEXT NOT NULL)",
    "CREATE TRIGGER entries_no_update BEFORE UPDATE ON entries"
    " BEGIN SELECT RAISE(ABORT, 'entries is append-only'); END",
    "CREATE TRIGGER entries_no_delete BEFORE DELETE ON entries"
    " BEGIN SELECT RAISE(ABORT, 'entries is append-only'); END",
)
_JOURNAL = "-journal"
_LOCK_BYTES = (512, 0x40000000)  # how many bytes SQLite locks, and where; an exclusive lock keeps it out altogether


class Foreign(ValueError):
    """A database that is no ledger."""


def entries(descriptor: int, file: str) -> list[bytes]:
    """Return the lines that the entries would be in a log.

    They are read as the database's own bytes stand, if these are whole; else as SQLite makes of a copy of them, and of
    the journal beside this path, what stood before a transaction that was cut short. A journal that goes back further
    is of no use: the file was written to by another path since.

    Args:
        descriptor: The file, locked.
        file: The path by which it was opened.

    Raises:
        Foreign: It is another program's.
        ValueError: It is damaged.
    """
    stored = b"".join(_read(descriptor))
    if stored[68:72] != log.OLD_MARK:
        raise Foreign
    try:
        return _lines(stored)
    except ValueError:
        journal = Path(f"{file}{_JOURNAL}")
        if not journal.exists():
            raise
    lines = _lines(_rolled_back(stored, journal.read_bytes()))
    if len(lines) < _count(stored) - 1:
        raise ValueError("the journal is older than the file")
    return lines


def _lines(stored: bytes) -> list[bytes]:
    image = stored[: _size(stored)]
    if image[18:20] != b"\1\1":
        raise ValueError("not laid out as a ledger was")
    try:
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.deserialize(image)
            schema = tuple(sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master"))
            if schema != SCHEMA or connection.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
                raise ValueError("not laid out as a ledger was")
            rows = connection.execute("SELECT number, content, sha256 FROM entries ORDER BY number").fetchall()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise ValueError("not a database that can be read") from error
    if len(rows) != _count(image) or not all(isinstance(content, str) for _, content, _ in rows):
        raise ValueError("entries are missing")
    lines = [line_of(*row) for row in rows]
    deque(Chain().verified(lines, after=0), maxlen=0)
    return lines


def _rolled_back(stored: bytes, journal: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "copy")
        copy.write_bytes(stored)
        copy.with_name(f"copy{_JOURNAL}").write_bytes(journal)
        try:
            with closing(sqlite3.connect(copy)) as connection:
                connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        except sqlite3.Error as error:
            raise ValueError("the journal cannot be used") from error
        return copy.read_bytes()


def convert(descriptor: int, file: str, lines: list[bytes]) -> None:
    """Turn a ledger in SQLite into a log of the same entries.

    Guarantees:
        - Killed at any moment, the file is the one or the other, whole, by every path that leads to it.

    Args:
        descriptor: The file, locked against everyone, SQLite as well.
        file: The path by which it was opened.
        lines: What `entries` returned under this lock, verified.
    """
    size = os.fstat(descriptor).st_size
    start = -(-size // log.PAGE) * log.PAGE
    try:
        log.write(descriptor, start, b"".join(lines))
        log.commit(descriptor, len(lines), start)
    except OSError:
        if log.is_old(descriptor):
            with suppress(OSError):
                os.ftruncate(descriptor, size)
        raise
    log.blank(descriptor, start)
    with suppress(OSError):
        os.unlink(f"{file}{_JOURNAL}")


def keep_out(descriptor: int, *, writing: bool) -> None:
    """Wait for SQLite's own locks, which versions that use it take; they are held until the file is closed."""
    kind = fcntl.LOCK_EX if writing else fcntl.LOCK_SH
    log.wait(lambda: fcntl.lockf(descriptor, kind | fcntl.LOCK_NB, *_LOCK_BYTES))


def _size(stored: bytes) -> int:
    """Return the database's size by its own header, for a killed process may have begun a log behind it."""
    page = int.from_bytes(stored[16:18], "big")
    return (65536 if page == 1 else page) * int.from_bytes(stored[28:32], "big")


def _read(descriptor: int) -> Iterator[bytes]:
    offset = 0
    while part := os.pread(descriptor, 1 << 24, offset):
        yield part
        offset += len(part)


def _count(stored: bytes) -> int:
    """Return the number of entries that the header keeps (user_version)."""
    return int.from_bytes(stored[60:64], "big")
