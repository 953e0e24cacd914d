"""The file under the ledger: entries in one SQLite table, chained, checked before anything is decided by them.

Whatever goes wrong with the file is told in one line: which ledger, what, and what to do.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from threea.errors import InternalError, LedgerError
from threea.ledger.books import Books, UnknownEntry
from threea.ledger.chain import Chain, LedgerHead, canonical, entry_hash

_APPLICATION_ID = 0x33414C47
_BUSY_SECONDS = 60.0

# No other table and no index: nothing that could disagree with the entries. The file's header keeps their number
# (user_version), on another page than the last entry, so that neither can be lost without the other telling.
_SCHEMA = (
    "CREATE TABLE entries (number INTEGER PRIMARY KEY, content TEXT NOT NULL, sha256 TEXT NOT NULL)",
    "CREATE TRIGGER entries_no_update BEFORE UPDATE ON entries"
    " BEGIN SELECT RAISE(ABORT, 'entries is append-only'); END",
    "CREATE TRIGGER entries_no_delete BEFORE DELETE ON entries"
    " BEGIN SELECT RAISE(ABORT, 'entries is append-only'); END",
)

# EXTRA: the folder, too, is synced when a transaction's journal is deleted, or power loss could bring the journal
# back and with it the state before. fullfsync: without it macOS calls a commit done before the disk has it.
_PRAGMAS = ("synchronous = EXTRA", "fullfsync = ON", "trusted_schema = OFF", "cell_size_check = ON")

_RESTORE = "restore it from a backup (a new ledger would forget what was spent)"
_DAMAGED = f"is damaged; {_RESTORE}"
_NOT_OURS = "is not a threea ledger; give the path of one, or of a file that does not exist yet"
_MISSING = "does not exist; is the path mistyped? a new one is made by --new-ledger (in Python: create=True)"
_EMPTY = f"is an empty file: it was a ledger and lost its content, or never was one; if it was, {_RESTORE}"
_OTHER = f"is damaged, or was made by another version of threea; use that version, or {_RESTORE}"
_READ_ONLY = "cannot be written; make the file and its folder writable, or give another path"
_REPLACED = f"was removed or replaced while in use; put it back, or {_RESTORE}"
_OLDER = f"no longer holds what was written to it, an older copy may be in its place; {_RESTORE}"
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
        - A file that cannot be written, or is not whole, is refused at opening.
        - What a transaction decides by is what was written: verified at opening, and what came since then in the
          transaction itself.
        - What a transaction wrote is on disk when it ends.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, create: bool = False) -> None:
        self._given = None if path is None else os.fspath(path)
        self._books = Books()
        self._connection: sqlite3.Connection | None = None
        self._written: list[tuple[str, str]] = []
        self._closed, self._pid = False, os.getpid()
        self.new = False
        if self._given is None:
            self._file = None
            self._enter(self._books, [_first_entry()])
        else:
            with _LOCK:
                self._file = self._claim(self._given, create)
                self._identity = _identity(self._file)
            self._open()

    @property
    def path(self) -> str:
        """The path as it was given, on one line, for display."""
        given = "in memory" if self._given is None else self._given
        return given if given.isprintable() else repr(given)

    @property
    def head(self) -> LedgerHead:
        """Where the ledger stood when it was last read or written by this process."""
        return self._books.chain.head

    def holds(self, head: LedgerHead) -> bool:
        """Whether the ledger went through this head: all that was written until then is still in it."""
        return self._books.chain.holds(head)

    def check(self) -> None:
        """Read the whole file again; call it before publishing what was paid for.

        Raises:
            LedgerError: The file is gone, another one, damaged, or without something this process saw in it.
        """
        with self.transaction():
            # A transaction found the head in its place; what lies before it is read again here.
            if self._connection is not None:
                self._books = self._examined(self._connection)

    def close(self) -> None:
        """Refuse further use; closing twice is fine. Nothing is held open between transactions."""
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path})"

    @property
    def on_disk(self) -> bool:
        """Whether there is a file, which outlives this process."""
        return self._file is not None

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        """Pickle as the path: another process opens the file itself."""
        if self._file is None:
            raise TypeError("a ledger in memory belongs to one process and cannot be pickled; give it a file")
        return type(self), (self._file,)

    def _claim(self, given: str, create: bool) -> str:
        """Make the file if it is new and may be, and check that a ledger can live there."""
        try:
            file = os.path.realpath(given)
            if not os.path.lexists(file):
                if not create:
                    raise self.error(_MISSING)
                self.new = _make(file)
        except (FileNotFoundError, NotADirectoryError):
            raise self.error("cannot be made, its folder does not exist; make the folder first") from None
        except (OSError, ValueError, sqlite3.Error) as error:
            reason = getattr(error, "strerror", error)
            raise self.error(f"cannot be made ({reason}); give another path") from None
        if not os.path.isfile(file):
            kind = "a folder" if os.path.isdir(file) else "not a regular file"
            raise self.error(f"is {kind}; give the path of a file, such as ledger.db")
        if not os.access(file, os.R_OK | os.W_OK):
            raise self.error(_READ_ONLY)
        if not os.path.getsize(file):
            raise self.error(_EMPTY)
        return file

    def _open(self) -> None:
        with _LOCK, self._explained(), self._alone() as connection:
            self._books = self._examined(connection)
            # Written at every opening, to learn now and not in mid-release that the disk takes no writes.
            connection.execute(f"PRAGMA user_version = {self.head.entries}")

    @contextmanager
    def transaction(self) -> Iterator[Books]:
        """Give the books, up to date; what is written meanwhile is written whole or not at all, alone."""
        with _LOCK, self._explained():
            if self._closed:
                raise InternalError(f"ledger {self.path} was closed")
            self._written = []
            if self._file is None:
                if self._pid != os.getpid():
                    raise self.error("belongs to the process that made it; give a file to share it")
                yield self._books
            else:
                with self._alone() as connection:
                    self._read_on(connection, self._books)
                    yield self._books
                self._refuse_replaced()
            self._enter(self._books, self._written)

    def write(self, entry: dict[str, Any]) -> None:
        """Chain an entry to the last one, within a transaction."""
        content = canonical({**entry, "created": now()})
        head = self.head
        number, before = head.entries + len(self._written) + 1, self._written[-1][1] if self._written else head.sha256
        self._written.append((content, entry_hash(before, content)))
        if self._connection is not None:
            self._connection.execute("INSERT INTO entries VALUES (?, ?, ?)", (number, *self._written[-1]))
            self._connection.execute(f"PRAGMA user_version = {number}")

    @contextmanager
    def _alone(self) -> Iterator[sqlite3.Connection]:
        """Connect, for one transaction that nobody else writes in.

        Anew each time: what an earlier connection had read could hide what has become of the file since, and no
        connection may live through a fork.
        """
        self._refuse_replaced()
        with closing(_connect(str(self._file))) as connection:
            self._connection = connection
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
            finally:
                self._connection = None

    def _refuse_replaced(self) -> None:
        if _identity(str(self._file)) != self._identity:
            raise self.error(_REPLACED)

    def _examined(self, connection: sqlite3.Connection) -> Books:
        """Read the whole file, and refuse one that is not a whole ledger of ours."""
        (mark,) = connection.execute("PRAGMA application_id").fetchone()
        if mark != _APPLICATION_ID:
            raise self.error(_OTHER if _schema(connection) == _SCHEMA else _NOT_OURS)
        if connection.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
            raise self.error(_DAMAGED)
        books = Books()
        self._read_on(connection, books)
        return books

    def _read_on(self, connection: sqlite3.Connection, books: Books) -> None:
        """Enter in the books what was written after what they hold, once all of it is verified."""
        if _schema(connection) != _SCHEMA or connection.execute("PRAGMA journal_mode").fetchone() != ("delete",):
            raise self.error(_OTHER)
        (count,) = connection.execute("PRAGMA user_version").fetchone()
        head = books.chain.head
        query = "SELECT number, content, sha256 FROM entries WHERE number >= ? ORDER BY number"
        rows = connection.execute(query, (head.entries,)).fetchall()
        if head.entries and (not rows or (rows[0][0], rows[0][2]) != (head.entries, head.sha256)):
            raise self.error(_OLDER)
        try:
            entries = books.chain.verified(rows[1:] if head.entries else rows)
        except ValueError:
            raise self.error(_DAMAGED) from None
        if head.entries + len(entries) != count or not count:
            raise self.error(_DAMAGED)
        self._enter(books, entries)

    def _enter(self, books: Books, entries: list[tuple[str, str]]) -> None:
        try:
            for content, sha256 in entries:
                books.enter(content, sha256)
        except UnknownEntry:
            raise self.error("was written to by a newer threea; upgrade threea to use it") from None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise self.error(_OTHER) from None

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what SQLite says into one line for the user, or into a bug of ours."""
        try:
            yield
        except (sqlite3.InterfaceError, sqlite3.ProgrammingError) as error:
            raise InternalError(f"ledger {self.path}: {error}") from error
        except (sqlite3.Error, UnicodeDecodeError) as error:
            # UnicodeDecodeError: SQLite quotes damaged text in its own messages.
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
            raise self.error(_FAILURES.get(code, _DAMAGED)) from None

    def error(self, what: str) -> LedgerError:
        """Make an error that names this ledger."""
        return LedgerError(f"ledger {self.path} {what}")


# One transaction at a time in a process, and none across a fork: SQLite's locks do not survive one.
_LOCK = threading.Lock()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


def now() -> str:
    """Return the time in UTC, as text."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def is_ledger(path: str | os.PathLike[str]) -> bool:
    """Whether a file's header says that it is a ledger; nothing else of it is looked at, and nothing is locked."""
    try:
        with Path(path).open("rb") as file:
            header = file.read(72)
    except OSError:
        return False
    return header.startswith(b"SQLite format 3\0") and header[68:] == _APPLICATION_ID.to_bytes(4, "big")


def _first_entry() -> tuple[str, str]:
    """Return the entry that a new ledger begins with; its secret is what keeps every later hash from being guessed."""
    content = canonical({"kind": "ledger", "key": secrets.token_hex(32), "created": now()})
    return content, entry_hash(Chain().head.sha256, content)


def _make(file: str) -> bool:
    """Make a new ledger, which appears whole; return False if another process was first."""
    folder = os.path.dirname(file)
    draft = os.path.join(folder, f".threea-{secrets.token_hex(8)}.new")
    try:
        # Only the owner may read it, for it holds the key of the fingerprints.
        os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        with closing(_connect(draft)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            for statement in (f"PRAGMA application_id = {_APPLICATION_ID}", "PRAGMA user_version = 1", *_SCHEMA):
                connection.execute(statement)
            connection.execute("INSERT INTO entries VALUES (1, ?, ?)", _first_entry())
            connection.execute("COMMIT")
        os.link(draft, file)
    except FileExistsError:
        return False
    finally:
        with suppress(OSError):
            os.unlink(draft)
    _sync(folder)
    return True


def _sync(folder: str) -> None:
    """Have a new file's name on disk, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _connect(file: str) -> sqlite3.Connection:
    # mode=rw: a file that vanished must not come back empty.
    where = f"{Path(file).as_uri()}?mode=rw"
    connection = sqlite3.connect(where, timeout=_BUSY_SECONDS, isolation_level=None, uri=True)
    try:
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        connection.close()
        raise
    return connection


def _schema(connection: sqlite3.Connection) -> tuple[str, ...]:
    return tuple(sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master"))


def _identity(file: str) -> tuple[int, int] | None:
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_dev, status.st_ino
