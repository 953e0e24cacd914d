"""The file under the ledger: entries in a log, chained, checked before anything is decided by them.

Whatever goes wrong with the file is told in one line: which ledger, what, and what to do.
"""

from __future__ import annotations

import errno
import os
import secrets
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Self

from threea.errors import InternalError, LedgerError
from threea.ledger import log
from threea.ledger.books import Books, UnknownEntry
from threea.ledger.chain import Chain, LedgerHead, canonical, entry_hash, line_of

_RESTORE = "restore it from a backup (a new ledger would forget what was spent)"
_DAMAGED = f"is damaged; {_RESTORE}"
_NOT_OURS = "is not a threea ledger; give the path of one, or of a file that does not exist yet"
_MISSING = "does not exist; is the path mistyped? a new one is made by --new-ledger (in Python: create=True)"
_EMPTY = f"is an empty file: it was a ledger and lost its content, or never was one; if it was, {_RESTORE}"
_OTHER = f"is damaged, or was made by another version of threea; use that version, or {_RESTORE}"
_READ_ONLY = "cannot be written; make the file writable, or give another path"
_UNREADABLE = "cannot be read; make the file readable, or give another path"
_REPLACED = f"was removed or replaced while in use; put it back, or {_RESTORE}"
_OLDER = f"no longer holds what was written to it, an older copy may be in its place; {_RESTORE}"
_FULL = "cannot be written, the disk is full, and nothing was entered; free some space"
_NO_LOCKS = "lies where files cannot be locked, so another process could spend at the same time; put it on a local disk"
_UNSURE = "may not hold what was last written to it: the disk failed; check the disk, then run the command again"
_FAILURES = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EACCES: _READ_ONLY,
    errno.EPERM: _READ_ONLY,
    errno.EROFS: _READ_ONLY,
}


class LedgerFile:
    """An open ledger file, or one in memory.

    Guarantees:
        - A file that cannot be written, or is not whole, is refused at opening.
        - What a transaction decides by is what was written: verified at opening, and what came since then in the
          transaction itself.
        - What a transaction wrote is on disk when it ends.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None = None, *, create: bool = False, reading: bool = False
    ) -> None:
        self._given = None if path is None else os.fspath(path)
        self._books = Books()
        self._reading, self._unsure = reading, False
        self._descriptor: int | None = None
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
        with self.transaction(writing=False):
            # A transaction found the head in its place; what lies before it is read again here.
            if self._descriptor is not None:
                self._books = self._examined(self._descriptor)

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
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", error)
            raise self.error(f"cannot be made ({reason}); give another path") from None
        if not os.path.isfile(file):
            kind = "a folder" if os.path.isdir(file) else "not a regular file"
            raise self.error(f"is {kind}; give the path of a file, such as ledger.db")
        if not os.access(file, os.R_OK | (0 if self._reading else os.W_OK)):
            raise self.error(_UNREADABLE if self._reading else _READ_ONLY)
        if not os.path.getsize(file):
            raise self.error(_EMPTY)
        return file

    def _open(self) -> None:
        with _LOCK, self._explained(), self._alone(writing=not self._reading) as descriptor:
            if not self._reading:
                log.refuse_shared(str(self._file))
                if log.is_old(descriptor):
                    self._convert(descriptor)
            self._books = self._examined(descriptor)
            if not self._reading:
                # Written at every opening, to learn now and not in mid-release that the disk takes no writes.
                self._settle(descriptor, committed=0)
                log.blank(descriptor, self._books.chain.start)

    @contextmanager
    def transaction(self, *, writing: bool = True) -> Iterator[Books]:
        """Give the books, up to date; what is written meanwhile is written whole or not at all, alone."""
        with _LOCK, self._explained():
            self._refuse_unusable(writing=writing)
            self._written = []
            if self._file is None:
                yield self._books
            else:
                with self._alone(writing=writing) as descriptor:
                    committed = self._read_anew(descriptor)
                    yield self._books
                    if self._written:
                        self._settle(descriptor, committed)
                        self._append(descriptor)
                self._refuse_replaced()
            self._enter(self._books, self._written)

    def write(self, entry: dict[str, Any]) -> None:
        """Chain an entry to the last one, within a transaction.

        Its fresh randomness makes its hash, which certificates show, a commitment: nobody without the ledger can test
        what it stands for.
        """
        content = canonical({**entry, "created": now(), "nonce": secrets.token_hex(16)})
        before = self._written[-1][1] if self._written else self.head.sha256
        self._written.append((content, entry_hash(before, content)))

    def _refuse_unusable(self, *, writing: bool) -> None:
        if self._closed or (writing and self._reading):
            raise InternalError(f"ledger {self.path} was {'closed' if self._closed else 'opened for reading alone'}")
        if self._file is None and self._pid != os.getpid():
            raise self.error("belongs to the process that made it; give a file to share it")
        if self._unsure:
            raise self.error(_UNSURE)

    @contextmanager
    def _alone(self, *, writing: bool) -> Iterator[int]:
        """Open the file and lock it, for one transaction that nobody else writes in.

        Anew each time: no descriptor, and so no lock, may live through a fork.
        """
        self._refuse_replaced()
        with log.locked(str(self._file), writing=writing) as descriptor:
            self._refuse_replaced(descriptor)
            self._descriptor = descriptor
            try:
                yield descriptor
            finally:
                self._descriptor = None

    def _refuse_replaced(self, descriptor: int | None = None) -> None:
        if _identity(str(self._file) if descriptor is None else descriptor) != self._identity:
            raise self.error(_REPLACED)

    def _read_anew(self, descriptor: int) -> int:
        """Bring the books up to date; return how many entries are committed."""
        old = log.is_old(descriptor)
        committed, start = (0, 0) if old else self._header(descriptor)
        if not old and start == self._books.chain.start:
            self._read_on(descriptor, self._books, committed)
            return committed
        # Another layout than before: it may be that of a ledger in SQLite, read until somebody writes to it.
        books = self._examined(descriptor) if self._reading else Books()
        if not books.chain.holds(self.head):
            raise self.error(_OLDER)
        self._books = books
        return committed

    def _examined(self, descriptor: int) -> Books:
        """Read the whole file, and refuse one that is not a whole ledger of ours."""
        if log.is_old(descriptor):
            books = Books()
            self._enter(books, books.chain.verified(self._old_lines(descriptor), after=0))
            return books
        committed, start = self._header(descriptor)
        books = Books(start)
        self._read_on(descriptor, books, committed)
        return books

    def _header(self, descriptor: int) -> tuple[int, int]:
        try:
            return log.read_header(descriptor)
        except ValueError:
            begin = os.pread(descriptor, len(log.MAGIC), 0)
            known = _DAMAGED if self.head.entries else _NOT_OURS
            raise self.error(_OTHER if begin == log.MAGIC else known) from None

    def _read_on(self, descriptor: int, books: Books, committed: int) -> None:
        """Enter in the books what was written after what they hold, entry by entry, each verified."""
        chain = books.chain
        head = chain.head
        # From the last entry that they hold, which must still be there.
        after = max(head.entries - 1, 0)
        entries = chain.verified(log.lines(descriptor, chain.last_line), after=after)
        try:
            if head.entries and next(entries, ("", ""))[1] != head.sha256:
                raise self.error(_OLDER)
        except ValueError:
            raise self.error(_OLDER) from None
        self._enter(books, entries)
        if not 0 < committed <= chain.head.entries:
            raise self.error(_DAMAGED)

    def _enter(self, books: Books, entries: Iterable[tuple[str, str]]) -> None:
        following = iter(entries)
        while True:
            try:
                entry = next(following, None)
            except ValueError:
                raise self.error(_DAMAGED) from None
            if entry is None:
                return
            try:
                books.enter(*entry)
            except UnknownEntry:
                raise self.error("was written to by a newer threea; upgrade threea to use it") from None
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                raise self.error(_OTHER) from None

    def _settle(self, descriptor: int, committed: int) -> None:
        """Cut off a torn line, and commit whole ones whose writer was cut short."""
        chain = self._books.chain
        if os.fstat(descriptor).st_size > chain.end:
            os.ftruncate(descriptor, chain.end)
        if committed < chain.head.entries:
            with self._for_sure():
                log.commit(descriptor, chain.head.entries, chain.start)

    def _append(self, descriptor: int) -> None:
        chain, first = self._books.chain, self.head.entries + 1
        lines = [line_of(number, *entry) for number, entry in enumerate(self._written, start=first)]
        log.append(descriptor, chain.end, b"".join(lines))
        with self._for_sure():
            log.commit(descriptor, self.head.entries + len(lines), chain.start)

    @contextmanager
    def _for_sure(self) -> Iterator[None]:
        """Refuse all further use after a failure of which nobody knows what is on disk."""
        try:
            yield
        except OSError:
            self._unsure = True
            raise self.error(_UNSURE) from None

    def _old_lines(self, descriptor: int) -> list[bytes]:
        from threea.ledger import sqlite_ledger

        sqlite_ledger.keep_out(descriptor, writing=not self._reading)
        try:
            return sqlite_ledger.entries(descriptor, str(self._file))
        except sqlite_ledger.Foreign:
            raise self.error(_NOT_OURS) from None
        except ValueError:
            raise self.error(_OTHER) from None

    def _convert(self, descriptor: int) -> None:
        """Turn a ledger of the first versions, in SQLite, into a log."""
        from threea.ledger import sqlite_ledger

        lines = self._old_lines(descriptor)
        self._enter(Books(), Chain().verified(lines, after=0))
        sqlite_ledger.convert(descriptor, str(self._file), lines)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what the system says into one line for the user."""
        try:
            yield
        except log.Busy:
            raise self.error(f"was locked by another process for {log.BUSY_SECONDS:g} s; try again later") from None
        except log.NoLocks:
            raise self.error(_NO_LOCKS) from None
        except FileNotFoundError:
            raise self.error(_REPLACED) from None
        except OSError as error:
            told = _FAILURES.get(error.errno or 0, f"cannot be read or written ({error.strerror}); check the disk")
            raise self.error(told) from None

    def error(self, what: str) -> LedgerError:
        """Make an error that names this ledger."""
        return LedgerError(f"ledger {self.path} {what}")


# One transaction at a time in a process, and none across a fork: a child would share its lock.
_LOCK = threading.Lock()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


def now() -> str:
    """Return the time in UTC, as text."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


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
        descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            log.write(descriptor, 0, log.first_page(1) + line_of(1, *_first_entry()))
            log.sync(descriptor)
        finally:
            os.close(descriptor)
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


def _identity(file: str | int) -> tuple[int, int] | None:
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_dev, status.st_ino
