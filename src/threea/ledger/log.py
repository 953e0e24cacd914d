"""The bytes of a ledger: one file, locked by its inode, to which entries are appended.

A page of 4096 bytes says how many entries were committed, and where the first begins. Then comes a line for each entry:
number, hash, content. An entry is committed in this order:

1. its line is appended, and synced;
2. the number of entries is raised in place, within the file's first 512 bytes, and synced.

So whatever a crash leaves behind the committed entries was never acknowledged: a whole line stands, for it may be
there for good; a torn one, without its end, is cut off by whoever writes next. Committed lines that are missing or not
as written are damage. No file beside this one is ever read, so it does not matter by which path the file is reached.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

PAGE = 4096
BUSY_SECONDS = 60.0
MAGIC = b"threea ledger "
OLD_MAGIC, OLD_MARK = b"SQLite format 3\0", b"3ALG"
"""How a ledger of the first versions begins, a database, and what it has from byte 68 on."""
_HEADER = re.compile(rb"threea ledger 2, entries (\d{20}), from byte (\d{20})\n")
_HEADER_BYTES = 78
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL)


class Busy(Exception):
    """Another process has held the lock for `BUSY_SECONDS`."""


class NoLocks(Exception):
    """The file system has no locks, or has some that exclude nobody."""


@contextmanager
def locked(file: str, *, writing: bool) -> Iterator[int]:
    """Open a file that exists, and lock it against writers, or against everyone; give its descriptor.

    The lock (`flock`) belongs to the inode and to this descriptor: it holds between threads and processes, through
    hard links and bind mounts, and ends with the process however that ends.

    Raises:
        Busy, NoLocks: It cannot be locked.
        OSError: It cannot be opened.
    """
    descriptor = os.open(file, (os.O_RDWR if writing else os.O_RDONLY) | os.O_CLOEXEC)
    try:
        wait(lambda: fcntl.flock(descriptor, (fcntl.LOCK_EX if writing else fcntl.LOCK_SH) | fcntl.LOCK_NB))
        yield descriptor
    finally:
        os.close(descriptor)


def wait(lock: Callable[[], object]) -> None:
    """Try to lock until it succeeds, for as long as `BUSY_SECONDS`."""
    deadline, pause = time.monotonic() + BUSY_SECONDS, 0.0005
    while True:
        try:
            lock()
            return
        except BlockingIOError:
            pass
        except OSError as error:
            if error.errno in _NO_LOCKS:
                raise NoLocks from None
            raise
        if time.monotonic() > deadline:
            raise Busy
        time.sleep(pause)
        pause = min(2 * pause, 0.02)


def refuse_shared(file: str) -> None:
    """Try, while this process has a file locked, to lock it a second time.

    Raises:
        NoLocks: It succeeds, so the first lock kept nobody out.
    """
    descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    try:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            raise NoLocks
    finally:
        os.close(descriptor)


def is_ledger(path: str | os.PathLike[str]) -> bool:
    """Whether a file's header says that it is a ledger; nothing else of it is looked at, and nothing is locked."""
    try:
        with open(path, "rb") as file:
            begin = file.read(72)
    except OSError:
        return False
    return begin.startswith(MAGIC) or (begin.startswith(OLD_MAGIC) and begin[68:] == OLD_MARK)


def is_old(descriptor: int) -> bool:
    """Whether a file is a database, as ledgers first were."""
    return os.pread(descriptor, len(OLD_MAGIC), 0) == OLD_MAGIC


def header(entries: int, start: int = PAGE) -> bytes:
    """Return the line that says how many entries were committed, and at which byte the first begins."""
    return b"threea ledger 2, entries %020d, from byte %020d\n" % (entries, start)


def first_page(entries: int) -> bytes:
    """Return the page before the first entry: the header alone on it, so that no lost page takes both."""
    return header(entries).ljust(PAGE - 1) + b"\n"


def read_header(descriptor: int) -> tuple[int, int]:
    """Return how many entries were committed, and where the first begins.

    Raises:
        ValueError: The file does not begin so.
    """
    match = _HEADER.fullmatch(os.pread(descriptor, _HEADER_BYTES, 0))
    if match is None or int(match[2]) > os.fstat(descriptor).st_size:
        raise ValueError("not the header of a ledger")
    return int(match[1]), int(match[2])


def lines(descriptor: int, offset: int) -> Iterator[bytes]:
    """Give the whole lines from a byte on; a torn one, without an end or with bytes never written in it, ends them."""
    with open(descriptor, "rb", closefd=False) as stream:
        stream.seek(offset)
        for line in stream:
            if not line.endswith(b"\n") or b"\0" in line:
                return
            yield line


def append(descriptor: int, end: int, data: bytes) -> None:
    """Write at a byte with which the file then ended; where that fails the file ends there again, or is torn there."""
    try:
        write(descriptor, end, data)
    except BaseException:
        with suppress(OSError):
            os.ftruncate(descriptor, end)
        raise


def write(descriptor: int, offset: int, data: bytes) -> None:
    """Write all of the data at a byte."""
    while data:
        written = os.pwrite(descriptor, data, offset)
        data, offset = data[written:], offset + written


def commit(descriptor: int, entries: int, start: int) -> None:
    """Have all lines on disk, and then that so many entries are committed."""
    sync(descriptor)
    write(descriptor, 0, header(entries, start))
    sync(descriptor)


def blank(descriptor: int, start: int) -> None:
    """Overwrite what is left of a database before a log, lest SQLite take it for one again."""
    begin = _HEADER_BYTES
    if os.pread(descriptor, start - begin, begin).strip():
        write(descriptor, begin, b" " * (start - begin - 1) + b"\n")
        sync(descriptor)


def sync(descriptor: int) -> None:
    """Have on disk what was written."""
    if hasattr(fcntl, "F_FULLFSYNC"):  # macOS: its fsync leaves the data in the disk's own cache
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)
