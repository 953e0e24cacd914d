"""The file under the ledger: SQLite, checked when opened, every change in one transaction, safe across forks.

Whatever goes wrong with the file is told in one line: which ledger, what, and what to do.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from threea.errors import InternalError, LedgerError

_APPLICATION_ID = 0x33414C47
_BUSY_SECONDS = 60.0

_TABLES = """
CREATE TABLE migrations (name TEXT PRIMARY KEY, applied TEXT NOT NULL);
CREATE TABLE secret (key BLOB NOT NULL CHECK (length(key) = 32), opened TEXT NOT NULL);
CREATE TABLE datasets (name TEXT PRIMARY KEY, created TEXT NOT NULL, terms TEXT NOT NULL,
    cap REAL CHECK (cap IS NULL OR (typeof(cap) = 'real' AND cap > 0)));
CREATE TABLE fingerprints (fingerprint TEXT PRIMARY KEY, dataset TEXT NOT NULL REFERENCES datasets (name));
CREATE TABLE releases (id TEXT PRIMARY KEY, dataset TEXT NOT NULL REFERENCES datasets (name),
    recipe TEXT NOT NULL, created TEXT NOT NULL,
    epsilon REAL NOT NULL CHECK (typeof(epsilon) = 'real' AND epsilon > 0),
    delta REAL NOT NULL CHECK (typeof(delta) = 'real' AND delta BETWEEN 0 AND 1));
CREATE TABLE lines (release TEXT NOT NULL REFERENCES releases (id), name TEXT NOT NULL, event TEXT NOT NULL,
    count INTEGER NOT NULL CHECK (typeof(count) = 'integer' AND count > 0), PRIMARY KEY (release, name));
CREATE TABLE charges (seq INTEGER PRIMARY KEY, release TEXT NOT NULL, line TEXT NOT NULL,
    number INTEGER NOT NULL, event TEXT NOT NULL, epsilon REAL NOT NULL, delta REAL NOT NULL,
    created TEXT NOT NULL, UNIQUE (release, line, number),
    FOREIGN KEY (release, line) REFERENCES lines (release, name))"""

MIGRATIONS: dict[str, tuple[str, ...]] = {
    "0001-tables": (f"PRAGMA application_id = {_APPLICATION_ID}", *_TABLES.split(";")),
    "0002-append-only": tuple(
        f"CREATE TRIGGER {table}_no_{act} BEFORE {act} ON {table}"
        f" BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        for table in ("fingerprints", "releases", "lines", "charges")
        for act in ("update", "delete")
    ),
}
"""Statements by name, oldest first; each applied once, in one transaction; never edited, only added to."""

DAMAGED = "is damaged; restore it from a backup (a new ledger would forget what was spent)"
_NOT_OURS = "is not a threea ledger; give the path of one, or of a file that does not exist yet"
_READ_ONLY = "cannot be written; make the file and its folder writable, or give another path"
_FAILURES = {
    sqlite3.SQLITE_BUSY: f"was locked by another process for {_BUSY_SECONDS:g} s; try again later",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; check that it is there and that its folder is writable",
    sqlite3.SQLITE_FULL: "cannot be written, the disk is full; free some space",
    sqlite3.SQLITE_IOERR: "cannot be read or written, disk I/O error; check the disk, or use a local one",
    sqlite3.SQLITE_NOTADB: _NOT_OURS,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
}


class LedgerFile:
    """An open ledger file, or one in memory.

    Guarantees:
        - A file that cannot be written, or read whole, is refused at opening.
        - What a transaction wrote is on disk when it ends.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._given = None if path is None else os.fspath(path)
        self._connection: sqlite3.Connection | None = None
        self._closed, self._pid = False, os.getpid()
        with _LOCK:
            self._file = None if self._given is None else self._claim(self._given)
        try:
            self._key = self._prepare()
        except BaseException:
            self.close()
            raise
        if self._file is not None:
            _ON_DISK.add(self)

    @property
    def path(self) -> str:
        """The path as it was given, on one line, for display."""
        given = "in memory" if self._given is None else self._given
        return given if given.isprintable() else repr(given)

    def close(self) -> None:
        """Close the file; closing twice is fine."""
        with _LOCK:
            self._closed = True
            self._disconnect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path})"

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        """Pickle as the path: another process opens the file itself."""
        if self._file is None:
            raise TypeError("a ledger in memory belongs to one process and cannot be pickled; give it a file")
        return type(self), (self._file,)

    def _claim(self, given: str) -> str:
        """Make the file if it is new, and check that a ledger can live there."""
        try:
            file = os.path.realpath(given)
            # Never open a file that exists: closing it drops the locks SQLite holds on it in this process.
            # Only the owner may read a new one, for it holds the key of the fingerprints.
            os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            pass
        except (FileNotFoundError, NotADirectoryError):
            raise self.error("cannot be made, its folder does not exist; make the folder first") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", error)
            raise self.error(f"cannot be made ({reason}); give another path") from None
        if not os.path.isfile(file):
            kind = "a folder" if os.path.isdir(file) else "not a regular file"
            raise self.error(f"is {kind}; give the path of a file, such as ledger.db")
        if not os.access(file, os.R_OK | os.W_OK):
            raise self.error(_READ_ONLY)
        return file

    def _connect(self) -> sqlite3.Connection:
        # mode=rw: a file that vanished since it was claimed must not come back empty.
        where = ":memory:" if self._file is None else f"{Path(self._file).as_uri()}?mode=rw"
        self._connection = sqlite3.connect(
            where, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=True
        )
        # fullfsync: without it macOS calls a commit done before the disk has it.
        for pragma in ("synchronous = FULL", "fullfsync = ON", "foreign_keys = ON"):
            self._connection.execute(f"PRAGMA {pragma}")
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def _examine(self, connection: sqlite3.Connection) -> None:
        """Refuse a file that is not a whole ledger of ours."""
        (mark,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        if mark != _APPLICATION_ID and (mark or tables):
            raise self.error(_NOT_OURS)
        if not _applied(connection) <= MIGRATIONS.keys():
            raise self.error("was made by a newer threea; upgrade threea to use it")
        if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise self.error(DAMAGED)

    def _prepare(self) -> bytes:
        """Check the file, apply what migrations are missing, return the secret key, made once."""
        # In one transaction, or a ledger that another process is just making would look foreign halfway.
        with self.transaction() as connection:
            self._examine(connection)
        with _LOCK, self._explained():
            if self._file is not None and _write_ahead(connection) != "wal":
                raise self.error("is on a file system without write-ahead logging; put it on a local disk")
        for name, statements in MIGRATIONS.items():
            with self.transaction() as connection:
                if name not in _applied(connection):
                    for statement in statements:
                        connection.execute(statement)
                    connection.execute("INSERT INTO migrations VALUES (?, ?)", (name, now()))
        with self.transaction() as connection:
            new = "INSERT INTO secret SELECT ?, ? WHERE NOT EXISTS (SELECT 1 FROM secret)"
            connection.execute(new, (secrets.token_bytes(32), now()))
            # Written at every opening, to learn now and not in mid-release that the disk takes no writes.
            connection.execute("UPDATE secret SET opened = ?", (now(),))
            key: bytes = connection.execute("SELECT key FROM secret").fetchone()[0]
        return key

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Write all or nothing, alone; on disk when it ends."""
        with _LOCK, self._explained():
            if self._closed:
                raise InternalError(f"ledger {self.path} was closed")
            if self._file is None and self._pid != os.getpid():
                raise self.error("belongs to the process that made it; give a file to share it")
            connection = self._connection or self._connect()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what SQLite says into one line for the user, or into a bug of ours."""
        try:
            yield
        except (sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.ProgrammingError) as error:
            raise InternalError(f"ledger {self.path}: {error}") from error
        except (sqlite3.Error, UnicodeDecodeError) as error:
            # UnicodeDecodeError: SQLite quotes damaged text in its own messages.
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
            raise self.error(_FAILURES.get(code, DAMAGED)) from None

    def error(self, what: str) -> LedgerError:
        """Make an error that names this ledger."""
        return LedgerError(f"ledger {self.path} {what}")


# SQLite's locks do not survive a fork, and even a new connection in the child is unsafe while an inherited
# one is open. So no connection to a file lives through a fork; both sides connect again at their next use.
_LOCK = threading.Lock()
_ON_DISK: weakref.WeakSet[LedgerFile] = weakref.WeakSet()


def _before_fork() -> None:
    _LOCK.acquire()
    for ledger in list(_ON_DISK):
        ledger._disconnect()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


def now() -> str:
    """Return the time in UTC, as text."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _applied(connection: sqlite3.Connection) -> set[str]:
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'migrations'").fetchone() is None:
        return set()
    return {name for (name,) in connection.execute("SELECT name FROM migrations")}


def _write_ahead(connection: sqlite3.Connection) -> str:
    # SQLite does not wait for other processes when it changes the journal's kind, so the waiting is ours.
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            mode: str = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            return mode
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
