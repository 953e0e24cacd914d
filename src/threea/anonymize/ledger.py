"""The ledger: what each dataset has spent, kept so that no crash or race forgets it.

A release reserves its whole plan before its first answer, then logs one charge per look at the rows,
committed before that look's noise is drawn. The ledger only ever grows, so nothing spent comes back.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from threea.errors import BudgetRefused, InternalError, LedgerError, SettingError

_APPLICATION_ID = 0x33414C47
_BUSY_SECONDS = 60.0
_ROUNDING = 1e-9  # so that 0.1 and 0.2 fit a cap of 0.3

_TABLES = """
CREATE TABLE migrations (name TEXT PRIMARY KEY, applied TEXT NOT NULL);
CREATE TABLE secret (key BLOB NOT NULL CHECK (length(key) = 32), opened TEXT NOT NULL);
CREATE TABLE datasets (name TEXT PRIMARY KEY, created TEXT NOT NULL,
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

_DAMAGED = "is damaged; restore it from a backup (a new ledger would forget what was spent)"
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


@dataclass(frozen=True, slots=True)
class DatasetRow:
    """One dataset: its cap (None: no cap), its releases, and the epsilon and delta they reserved."""

    name: str
    created: str
    cap: float | None
    releases: int
    spent: float
    delta: float


@dataclass(frozen=True, slots=True)
class ReleaseRow:
    """One reservation, and how many of its planned charges were made."""

    id: str
    dataset: str
    recipe: str
    created: str
    epsilon: float
    delta: float
    charged: int
    planned: int


@dataclass(frozen=True, slots=True)
class ChargeRow:
    """One look at the rows; epsilon and delta are all the dataset had reserved at that moment."""

    seq: int
    line: str
    number: int
    created: str
    epsilon: float
    delta: float
    event: dict[str, Any]


class Ledger:
    """A record of what was spent on each dataset, in one SQLite file.

    Guarantees:
        - Never overspends: of processes that race, only those whose releases fit the cap together pass.
        - Never refunds: what was reserved or charged is on disk when the call returns, and stays there.
        - Notices at opening, before the rows are asked anything, a file that cannot be written or read whole.
        - Notices the same rows under a second name.

    Args:
        path: The file, made if it does not exist. None keeps the ledger in memory, for this process alone.

    Raises:
        LedgerError: The file cannot serve as a ledger; the message says why and what to do.

    Example:
        >>> with Ledger() as ledger:
        ...     ledger.register("patients", lambda key: "fingerprint of the rows", cap=2.0)
        ...     plan = [("count", {"event": "Pure", "epsilon": 1.0}, 1)]
        ...     release = ledger.reserve("patients", epsilon=1.0, delta=0.0, lines=plan)
        ...     ledger.charge(release, "count")
        ...     [(row.name, row.spent, row.cap) for row in ledger.datasets()]
        [('patients', 1.0, 2.0)]
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

    def register(self, dataset: str, fingerprint: Callable[[bytes], str], *, cap: float | None = None) -> None:
        """Enter a dataset under its owner's name, or meet it again.

        The same name with other rows is a table that grew; the same rows with another name, a second budget.

        Args:
            dataset: The owner's name for the data: 1 to 200 printable characters.
            fingerprint: Gives the fingerprint of the rows under the ledger's secret key.
            cap: Epsilon that all releases together may spend. It can be lowered later, never raised.

        Raises:
            LedgerError: The rows are in this ledger under another name, or the cap would be raised.
            SettingError: The name or the cap is outside its bounds.
        """
        if not (dataset.strip() and len(dataset) <= 200 and dataset.isprintable()):
            raise SettingError(f"dataset name ({dataset[:200]!r}) must be 1 to 200 printable characters")
        if cap is not None and not 0 < cap < math.inf:
            raise SettingError(f"cap ({cap}) must be > 0 and finite; for no cap leave it out")
        mark = fingerprint(self._key)
        with self._transaction() as connection:
            owners = connection.execute("SELECT dataset FROM fingerprints WHERE fingerprint = ?", (mark,))
            for (owner,) in owners.fetchall():
                if owner != dataset:
                    raise self._error(f"holds these rows under the name {owner!r}; use --dataset {owner}")
            connection.execute("INSERT OR IGNORE INTO datasets VALUES (?, ?, NULL)", (dataset, _now()))
            connection.execute("INSERT OR IGNORE INTO fingerprints VALUES (?, ?)", (mark, dataset))
            if cap is not None:
                old = _cap(connection, dataset)
                if old is not None and cap > old:
                    what = f"caps {dataset!r} at {old:g}, asked for {cap:g}; a cap can only be lowered"
                    raise self._error(f"{what}, so leave --cap out")
                connection.execute("UPDATE datasets SET cap = ? WHERE name = ?", (float(cap), dataset))

    def reserve(
        self,
        dataset: str,
        *,
        epsilon: float,
        delta: float,
        lines: Sequence[tuple[str, dict[str, Any], int]],
        recipe: str = "",
    ) -> str:
        """Reserve a release's whole plan, or refuse it whole.

        Releases add up by basic composition: epsilons and deltas are summed. That is a valid privacy filter
        even when later budgets are chosen after seeing earlier releases, which tighter composition theorems
        do not give for free.

        Args:
            dataset: A registered name.
            epsilon: Epsilon of the whole release; infinity for rows handed out, which no cap allows.
            delta: Delta of the whole release.
            lines: For each kind of look at the rows: name, event as JSON data, how often it may be charged.
            recipe: Who asked, for display.

        Returns:
            The release's id.

        Raises:
            BudgetRefused: The dataset's cap does not cover the release. Nothing is reserved.

        Reference:
            Rogers, Roth, Ullman, Vadhan (2016), Privacy Odometers and Filters: Pay-as-you-Go Composition.
        """
        if not epsilon > 0 or not 0 <= delta <= 1:
            raise SettingError(f"epsilon ({epsilon}) must be > 0 and delta ({delta}) from 0 to 1")
        if len({name for name, _, _ in lines}) < len(lines) or any(count < 1 for _, _, count in lines):
            raise InternalError("the lines of a plan need different names and counts of at least 1")
        release = secrets.token_hex(8)
        with self._transaction() as connection:
            cap, (spent, _) = _cap(connection, dataset), _spent(connection, dataset)
            if cap is not None and spent + epsilon > cap * (1 + _ROUNDING):
                what = f"dataset {dataset!r} in ledger {self.path}"
                remedy = "ask for no more than is left" if spent < cap else "no release from it can follow"
                raise BudgetRefused(what, requested=epsilon, spent=spent, cap=cap, remedy=remedy)
            row = (release, dataset, recipe, _now(), float(epsilon), float(delta))
            connection.execute("INSERT INTO releases VALUES (?, ?, ?, ?, ?, ?)", row)
            rows = [(release, name, json.dumps(event), count) for name, event, count in lines]
            connection.executemany("INSERT INTO lines VALUES (?, ?, ?, ?)", rows)
        return release

    def charge(self, release: str, line: str) -> None:
        """Log one look at the rows, on disk when this returns; only then may its noise be drawn.

        Raises:
            InternalError: The line was not reserved, or was charged as often as reserved.
        """
        query = """SELECT dataset, event, count,
            (SELECT COALESCE(MAX(number), 0) FROM charges WHERE release = ?1 AND line = ?2)
            FROM lines JOIN releases ON id = release WHERE release = ?1 AND name = ?2"""
        with self._transaction() as connection:
            plan = connection.execute(query, (release, line)).fetchone()
            if plan is None:
                raise InternalError(f"release {release!r} reserved no line {line!r}")
            dataset, event, count, made = plan
            if made >= count:
                raise InternalError(f"line {line!r} of release {release!r} was charged all {count} times")
            row = (release, line, made + 1, event, *_spent(connection, dataset), _now())
            connection.execute("INSERT INTO charges VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", row)

    def datasets(self) -> list[DatasetRow]:
        """List the datasets, by name."""
        query = """SELECT name, created, cap, (SELECT COUNT(*) FROM releases WHERE dataset = name)
            FROM datasets ORDER BY name"""
        with self._transaction() as connection:
            rows = connection.execute(query).fetchall()
            values = [(*row, *_spent(connection, row[0])) for row in rows]
        return [DatasetRow(*row) for row in values]

    def releases(self, dataset: str | None = None) -> list[ReleaseRow]:
        """List the reservations, oldest first, of one dataset or of all."""
        query = """SELECT id, dataset, recipe, created, epsilon, delta,
            (SELECT COUNT(*) FROM charges WHERE release = id),
            (SELECT COALESCE(SUM(count), 0) FROM lines WHERE release = id)
            FROM releases WHERE ?1 IS NULL OR dataset = ?1 ORDER BY releases.rowid"""
        with self._transaction() as connection:
            rows = connection.execute(query, (dataset,)).fetchall()
        return [ReleaseRow(*row) for row in rows]

    def charges(self, release: str) -> list[ChargeRow]:
        """List a release's charges, oldest first."""
        query = """SELECT seq, line, number, created, epsilon, delta, event
            FROM charges WHERE release = ? ORDER BY seq"""
        with self._transaction() as connection:
            rows = connection.execute(query, (release,)).fetchall()
        try:
            values = [(*row[:-1], json.loads(row[-1])) for row in rows]
        except ValueError:
            raise self._error(_DAMAGED) from None
        return [ChargeRow(*row) for row in values]

    def close(self) -> None:
        """Close the file; closing twice is fine."""
        with _LOCK:
            self._closed = True
            self._disconnect()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({self.path})"

    def __reduce__(self) -> tuple[type[Ledger], tuple[str]]:
        """Pickle as the path: another process opens the file itself."""
        if self._file is None:
            raise TypeError("a ledger in memory belongs to one process and cannot be pickled; give it a file")
        return Ledger, (self._file,)

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
            raise self._error("cannot be made, its folder does not exist; make the folder first") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", error)
            raise self._error(f"cannot be made ({reason}); give another path") from None
        if not os.path.isfile(file):
            kind = "a folder" if os.path.isdir(file) else "not a regular file"
            raise self._error(f"is {kind}; give the path of a file, such as ledger.db")
        if not os.access(file, os.R_OK | os.W_OK):
            raise self._error(_READ_ONLY)
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
            raise self._error(_NOT_OURS)
        if not _applied(connection) <= MIGRATIONS.keys():
            raise self._error("was made by a newer threea; upgrade threea to use it")
        if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise self._error(_DAMAGED)

    def _prepare(self) -> bytes:
        """Check the file, apply what migrations are missing, return the secret key, made once."""
        # In one transaction, or a ledger that another process is just making would look foreign halfway.
        with self._transaction() as connection:
            self._examine(connection)
        with _LOCK, self._explained():
            if self._file is not None and _write_ahead(connection) != "wal":
                raise self._error("is on a file system without write-ahead logging; put it on a local disk")
        for name, statements in MIGRATIONS.items():
            with self._transaction() as connection:
                if name not in _applied(connection):
                    for statement in statements:
                        connection.execute(statement)
                    connection.execute("INSERT INTO migrations VALUES (?, ?)", (name, _now()))
        with self._transaction() as connection:
            new = "INSERT INTO secret SELECT ?, ? WHERE NOT EXISTS (SELECT 1 FROM secret)"
            connection.execute(new, (secrets.token_bytes(32), _now()))
            # Written at every opening, to learn now and not in mid-release that the disk takes no writes.
            connection.execute("UPDATE secret SET opened = ?", (_now(),))
            key: bytes = connection.execute("SELECT key FROM secret").fetchone()[0]
        return key

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with _LOCK, self._explained():
            if self._closed:
                raise InternalError(f"ledger {self.path} was closed")
            if self._file is None and self._pid != os.getpid():
                raise self._error("belongs to the process that made it; give a file to share it")
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
            raise self._error(_FAILURES.get(code, _DAMAGED)) from None

    def _error(self, what: str) -> LedgerError:
        return LedgerError(f"ledger {self.path} {what}")


# SQLite's locks do not survive a fork, and even a new connection in the child is unsafe while an inherited
# one is open. So no connection to a file lives through a fork; both sides connect again at their next use.
_LOCK = threading.Lock()
_ON_DISK: weakref.WeakSet[Ledger] = weakref.WeakSet()


def _before_fork() -> None:
    _LOCK.acquire()
    for ledger in list(_ON_DISK):
        ledger._disconnect()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _applied(connection: sqlite3.Connection) -> set[str]:
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'migrations'").fetchone() is None:
        return set()
    return {name for (name,) in connection.execute("SELECT name FROM migrations")}


def _cap(connection: sqlite3.Connection, dataset: str) -> float | None:
    rows: list[tuple[float | None]] = connection.execute(
        "SELECT cap FROM datasets WHERE name = ?", (dataset,)
    ).fetchall()
    if not rows:
        raise InternalError(f"dataset {dataset!r} must be registered before it is used")
    return rows[0][0]


def _spent(connection: sqlite3.Connection, dataset: str) -> tuple[float, float]:
    # Summed here, for what SQLite's sum makes of infinities differs by version.
    rows = connection.execute("SELECT epsilon, delta FROM releases WHERE dataset = ?", (dataset,)).fetchall()
    return math.fsum(epsilon for epsilon, _ in rows), math.fsum(delta for _, delta in rows)


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
