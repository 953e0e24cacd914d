"""A place for a folder of files: claimed before anything is spent, filled out of sight, then moved under its name.

A new folder appears by one rename. An existing empty one (a mount point, the working folder, where a link leads) is
filled in place, from a staging folder inside it, and the file written last is moved last.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from threea.errors import SettingError

STAGING = ".threea-staging-"
"""How the names of staging folders begin."""
_TRIES, _PAUSE = 40, 0.05
_BLOCK = 1 << 20
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)


def check_folder(out: str | PathLike[str]) -> Path:
    """Refuse a folder that holds something already, or whose parent does not exist.

    Raises:
        SettingError: A release cannot be written there.
    """
    folder = Path(out)
    with _refusing(f"out ({folder}) cannot be used", "choose another"):
        final = _resolved(folder)
        if _taken(final):
            raise SettingError(f"out ({folder}) must be a new or empty folder; choose another")
    parent = final.parent
    if not parent.is_dir():
        raise SettingError(f"out ({folder}): folder {parent} does not exist; make it first")
    if not os.access(parent, os.W_OK) and not final.is_dir():
        raise SettingError(f"out ({folder}): folder {parent} is not writable; choose another")
    return folder


class Place:
    """A folder that is claimed: nobody else's meanwhile, and tried for all that writing it will need.

    Guarantees:
        - Making it tries to make, sync and rename files or folders of these names in that place, or refuses.
        - One living process has it at a time.
        - A new folder appears whole or not at all; an existing one gets all files or, whatever fails, none.
        - Files and folders are on disk when `publish` returns, and files are before they have their names.
        - What a killed process left is removed by the next claim in the same parent folder; what a living one holds
          is not.

    Args:
        out: A new or empty folder.
        form: The format of what will be written there.

    Raises:
        SettingError: The folder cannot be used, or another process is writing there.
    """

    def __init__(self, out: str | PathLike[str], form: str = "parquet") -> None:
        self.folder, self.form = Path(out), form
        self._names: list[str] = []
        self._moving = False
        with _refusing(f"out ({self.folder}) cannot be used", "choose another"):
            self._final = _resolved(self.folder)
            clean(self._final.parent)
            clean(self._final)
        check_folder(self.folder)
        self._exists = self._final.is_dir()
        home = self._final if self._exists else self._final.parent
        self._staging = home / (STAGING + hashlib.sha256(os.fsencode(self._final.name)).hexdigest()[:16])
        self._contents, self._room = self._staging / "contents", self._staging / "room"
        with _refusing(f"out ({self.folder}) cannot be used", "choose another, or make it, empty, and try again"):
            self._lock = self._claimed()
            try:
                self._rehearse()
            except BaseException:
                self.close()
                raise

    def _claimed(self) -> int:
        """Make the staging folder and hold its lock, for as long as this process lives."""
        for _ in range(_TRIES):
            lock = _locked(self._staging, made=_made(self._staging))
            if lock is not None:
                _clear(self._staging)
                return lock
            # Another process may hold it for a moment, to see whether it is to be removed.
            time.sleep(_PAUSE)
        raise SettingError(f"out ({self.folder}) is being written by another process; choose another")

    def _rehearse(self) -> None:
        """Do once what the end will need, out of sight: a name that is too long, say, fails here."""
        self._contents.mkdir()
        probe, moved = self._staging / "probe", self._contents / self._final.name
        if not self._exists:
            probe.mkdir()
        with _synced(probe if self._exists else probe / "file") as file:
            file.write(b"probe")
        os.rename(probe, moved)
        _sync_folder(self._contents)
        moved.unlink() if self._exists else shutil.rmtree(moved)

    @property
    def final(self) -> Path:
        """The folder beyond all links, where the files will be."""
        return self._final

    @property
    def free(self) -> int | None:
        """How many bytes can be written there; None if the file system does not say."""
        usage = shutil.disk_usage(self._staging)
        return usage.free if usage.total else None

    def reserve(self, size: int, files: int) -> None:
        """Take room for so many files, of so many bytes together, until the first of them is written.

        Raises:
            SettingError: There is not so much.
        """
        needed = f"{size / 1e6:,.1f} MB and {files} files needed"
        remedy = "make room, choose another place or ask for fewer rows"
        free = self.free
        told = "" if free is None else f"{free / 1e6:,.1f} MB free, "
        if free is not None and free < size:
            raise SettingError(f"out ({self.folder}) has too little room: {told}{needed}; {remedy}")
        try:
            self._room.mkdir()
            for number in range(files):
                (self._room / str(number)).touch()
            with _synced(self._room / "bytes") as file:
                _allocate(file, size)
        except OSError as error:
            self._release_room()
            reason = error.strerror or type(error).__name__
            raise SettingError(f"out ({self.folder}) has too little room: {told}{needed}: {reason}; {remedy}") from None

    def _release_room(self) -> None:
        shutil.rmtree(self._room, ignore_errors=True)

    @property
    def published(self) -> bool:
        """Whether the files are under the final name, also where an interrupt came right after."""
        return self._moving and not (self._contents.is_dir() and os.listdir(self._contents))

    def holds(self, path: str | PathLike[str]) -> bool:
        """Whether a path is, or would be, the folder or in it."""
        real = Path(os.path.realpath(path))
        return self._final in (real, *real.parents)

    def path(self, name: str) -> Path:
        """Return where a file is until it is published."""
        return self._contents / name

    @contextmanager
    def file(self, name: str) -> Iterator[BinaryIO]:
        """Open a file to be published, possibly in a folder of its own (``folder/file``); it is on disk when closed."""
        self._release_room()
        top, inside, _ = name.partition("/")
        if top not in self._names:
            self._names.append(top)
        if inside:
            self.path(top).mkdir(exist_ok=True)
        with _synced(self.path(name)) as file:
            yield file

    def publish(self) -> list[Path]:
        """Give the files their final names; return them.

        Raises:
            OSError: The folder was taken meanwhile, or the disk failed; nothing was published.
        """
        for name in self._names:
            if self.path(name).is_dir():
                _sync_folder(self.path(name))
        _sync_folder(self._contents)
        self._moving = True
        if self._exists:
            self._fill()
        else:
            os.rename(self._contents, self._final)
            _sync_folder(self._final.parent)
        return [self.folder / name for name in sorted(self._names)]

    def _fill(self) -> None:
        """Move the files into the folder. What is written down first lets anyone undo half of it."""
        if os.listdir(self._final) != [self._staging.name]:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))
        moves = {name: self.path(name).stat().st_ino for name in self._names}
        with _synced(self._staging / "moves") as file:
            file.write(json.dumps(moves).encode())
        _sync_folder(self._staging)
        for name in self._names:
            if name == self._names[-1]:
                _sync_folder(self._final)
            os.rename(self.path(name), self._final / name)
        _sync_folder(self._final)

    def close(self) -> None:
        """Let go of the place: what is not published is removed. Closing twice is fine."""
        self._moving = self.published
        if self._lock >= 0:
            _removed(self._staging)
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def clean(folder: Path) -> None:
    """Remove what killed processes of this user left in a folder, as far as they can be told from living ones."""
    with suppress(OSError):
        for staging in folder.glob(f"{STAGING}*"):
            with suppress(OSError):
                if (lock := _locked(staging)) is not None:
                    _removed(staging)
                    os.close(lock)


def _locked(staging: Path, *, made: bool = False) -> int | None:
    """Return an open lock on a staging folder, or None if another process has it or has just removed it.

    Where the file system has no locks, a folder is the process's that made it, and nobody can tell when that ends.
    """
    path = staging / "lock"
    try:
        found = staging.lstat()
        # Never through a link, and never another user's: what is in it will be removed.
        if not made and (not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid()):
            return None
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Whoever had it before may have removed the folder on letting go.
        if os.path.samestat(os.fstat(lock), os.lstat(path)):
            return lock
    except FileNotFoundError:
        pass
    except OSError as error:
        if made and error.errno in _NO_LOCKS:
            return lock
    os.close(lock)
    return None


def _removed(staging: Path) -> None:
    """Remove a staging folder that this process has locked."""
    with suppress(OSError):
        _clear(staging)
        # The lock goes last: until then nobody takes the rest for a new folder.
        (staging / "lock").unlink()
        staging.rmdir()


def _clear(staging: Path) -> None:
    """Empty a staging folder but for its lock, and undo what was moved out of it if not all was."""
    with suppress(OSError, ValueError, TypeError):
        if os.listdir(staging / "contents"):
            moves = json.loads((staging / "moves").read_bytes())
            for file in staging.parent.iterdir():
                # By its number, too, for a file of this name may be somebody else's.
                if file.name in moves and file.lstat().st_ino == moves[file.name]:
                    shutil.rmtree(file) if file.is_dir() and not file.is_symlink() else file.unlink()
    for entry in staging.iterdir():
        if entry.name != "lock":
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()


def _made(folder: Path) -> bool:
    """Make a folder that only its owner may read; return False if it is there."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return False
    return True


def _taken(final: Path) -> bool:
    try:
        final.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return not final.is_dir() or bool(os.listdir(final))


def _resolved(folder: Path) -> Path:
    """Return where a folder is or will be, beyond all links."""
    return Path(os.path.realpath(folder))


@contextmanager
def _synced(path: Path) -> Iterator[BinaryIO]:
    """Open a new file; it is on disk when this ends."""
    with path.open("xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _allocate(file: BinaryIO, size: int) -> None:
    """Have a file take so many bytes of the disk."""
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file.fileno(), 0, size)
            return
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS):
                raise
    for start in range(0, size, _BLOCK):
        file.write(bytes(min(_BLOCK, size - start)))


def _sync_folder(folder: Path) -> None:
    """Put a folder's entries on disk, where the file system can be told to."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


@contextmanager
def _refusing(what: str, remedy: str) -> Iterator[None]:
    """Turn what the system says of a path into one line."""
    try:
        yield
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SettingError(f"{what}: {reason}; {remedy}") from None
