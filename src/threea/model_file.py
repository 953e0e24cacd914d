"""A release as one file, `model.threea`: rows can be drawn from it at any time, on any machine, for free.

The file is a zip archive of `release.json` (everything but arrays) and `arrays.npz` (NumPy's own format), neither of
them compressed. Its comment, the last 64 bytes of the file, is the SHA-256 of all bytes before it: the file checks
itself. It holds what follows from the schema and charged answers, as a `Release` does, and nothing else.

Guarantees:
    - Reading runs no code from the file: there is no pickle, and only classes on a closed list are made.
    - A file that differs from what was written in any bit is refused.
    - What is read takes no more memory than a few times the file's size, and that has a limit: sizes and shapes in it
      are at most that size (`plain_data.restored`). A column of dates takes a number more for each day between its
      bounds, which has a limit, too (`table.calendar.MOST_DAYS`).
    - Whatever is wrong in a file, found on reading or only when rows are drawn, is told as the file's fault, in a line.
    - Equal releases are written as equal bytes.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import math
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from threea.errors import InputError, ThreeaError
from threea.parts import CERTIFICATE, MODEL, certificate_in, check_parts
from threea.plain_data import KINDS, NotPlain, restored, simplified
from threea.threads import in_order

if TYPE_CHECKING:
    from threea.linked import LinkedRelease
    from threea.release import Release
    from threea.table.schema import Schema

NAME = MODEL
VERSION = 1
MOST_BYTES = 1 << 30
"""Larger files are neither written nor read. Chosen: a hundred times a large model's."""
_FORMAT, _JSON, _ARRAYS = "threea release", "release.json", "arrays.npz"
_ONE, _TWO = "Release", "LinkedRelease"
_DIGEST = 64
_START_OF_1980 = (1980, 1, 1, 0, 0, 0)


def packed(release: Release | LinkedRelease) -> bytes | None:
    """Return a release, of one table or of two, as a file's bytes.

    Returns:
        None if the model, or something else in the release, is not of threea's own making, or the file too large.
    """
    arrays: list[NDArray[Any]] = []
    try:
        data = {"format": _FORMAT, "version": VERSION, "release": simplified(_public(release), arrays)}
    except NotPlain:
        return None
    text = json.dumps(data, allow_nan=False, separators=(",", ":"), ensure_ascii=True).encode("ascii")
    file = _sealed({_JSON: text, _ARRAYS: _npz(arrays)})
    return file if len(file) <= MOST_BYTES else None


def _public(release: Any) -> Any:
    """Return a release whose schemas have no digest of a draft's section that was edited since: a draft is private."""
    if hasattr(release, "children"):
        own = replace(release.children, schema=_undrafted(release.children.schema))
        return replace(release, parents=_public(release.parents), children=own)
    return replace(release, schema=_undrafted(release.schema))


def _undrafted(schema: Schema) -> Schema:
    columns = (c if c.as_read in ("", c.digest) else replace(c, as_read="") for c in schema.columns)
    return replace(schema, columns=tuple(columns))


def load_release(path: str | PathLike[str]) -> Release:
    """Read a release that was saved, to draw more rows from it.

    The rows drawn with a seed are those that the release drew with it when it was saved.

    Cost:
        Nothing: what can be drawn follows from answers that were paid for.

    Args:
        path: The release's folder, or its `model.threea`.

    Raises:
        InputError: There is no such file, it is damaged, too large, of a later version, of two tables, or one of the
            files beside it is not the one that the certificate names.
    """
    loaded: Release = _loaded(path, _ONE)
    return loaded


def load_tables(path: str | PathLike[str]) -> LinkedRelease:
    """Read a release of two tables that was saved, to draw more parents and their children from it; as `load_release`.

    Raises:
        InputError: As of `load_release`, or the release is of one table.
    """
    loaded: LinkedRelease = _loaded(path, _TWO)
    return loaded


def _loaded(path: str | PathLike[str], kind: str) -> Any:
    file = Path(path) / NAME if Path(path).is_dir() else Path(path)
    data = _bytes_of(file)
    beside = file.parent / CERTIFICATE
    if file.name == NAME and beside.is_file():
        check_parts(file.parent, certificate_in(file.parent))
    with blamed(file):
        found, release = _unpacked(data, file)
    if found != kind:
        what = (
            "two tables; read it in Python with load_tables"
            if found == _TWO
            else "one table; read it with load_release"
        )
        raise InputError(f"{file} is a release of {what}")
    return release


@contextmanager
def blamed(file: Path | None) -> Iterator[None]:
    """Tell of any error as a model file's fault; of none where no file is to blame, but us.

    Raises:
        InputError: Something failed that is neither a user's mistake nor a lack of memory.
    """
    try:
        yield
    except (ThreeaError, MemoryError):
        raise
    except Exception:
        # What Arrow, NumPy or zip say is of no use to a reader.
        if file is None:
            raise
        raise _damaged(file) from None


def blamed_in_order(file: Path | None, draw: Callable[[int], Any], starts: range) -> Iterator[Any]:
    """Draw chunks as `threads.in_order` does; for what fails the model file is to blame, if there is one."""
    with blamed(file):
        yield from in_order(draw, starts)


def _damaged(file: Path) -> InputError:
    return InputError(f"{file} is damaged, or no model of threea's; take it from the release again")


def _bytes_of(file: Path) -> bytes:
    try:
        size = file.stat().st_size
        if size > MOST_BYTES:
            raise InputError(f"{file} has {size:,} bytes, more than a model's {MOST_BYTES:,}; is it a {NAME}?")
        data = file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{file} does not exist; give the folder of a release, or its {NAME}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "the path cannot be used"
        raise InputError(f"{file} cannot be read: {reason}; check the path") from None
    if hashlib.sha256(data[:-_DIGEST]).hexdigest().encode() != data[-_DIGEST:]:
        raise _damaged(file)
    return data


def _sealed(files: dict[str, bytes]) -> bytes:
    """Return an archive whose comment is the hash of all before it."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as zipped:
        for name, content in files.items():
            zipped.writestr(zipfile.ZipInfo(name, _START_OF_1980), content)
        zipped.comment = b"0" * _DIGEST
    data = archive.getvalue()[:-_DIGEST]
    return data + hashlib.sha256(data).hexdigest().encode()


def _npz(arrays: list[NDArray[Any]]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as zipped:
        for index, array in enumerate(arrays):
            content = io.BytesIO()
            little = array.astype(array.dtype.newbyteorder("<"))
            np.lib.format.write_array(content, little, version=(1, 0), allow_pickle=False)
            zipped.writestr(zipfile.ZipInfo(f"{index}.npy", _START_OF_1980), content.getvalue())
    return buffer.getvalue()


def _unpacked(data: bytes, file: Path) -> tuple[str, Any]:
    """Return which class of release a file's bytes hold, and the release."""
    files = _stored(data)
    if set(files) != {_JSON, _ARRAYS}:
        raise NotPlain("other files than expected")
    content = json.loads(files[_JSON])
    if content["format"] != _FORMAT or not isinstance(content["version"], int):
        raise NotPlain("another format")
    if content["version"] != VERSION:
        raise InputError(f"the model is of version {content['version']}, this threea reads {VERSION}; update threea")
    kind = content["release"]["class"]
    if kind not in (_ONE, _TWO):
        raise NotPlain("not a release")
    arrays = _stored(files[_ARRAYS])
    try:
        numbers = [_array(arrays[f"{index}.npy"], len(data)) for index in range(len(arrays))]
        release = restored(content["release"], numbers, len(data))
        # A model that was not made by `packed` may be of the right classes and still not hang together.
        next(release.draws(1, seed=0))
    except ThreeaError as error:
        # A class refused a value: nothing that whoever reads the file could change.
        raise NotPlain(str(error)) from None
    return kind, _read_from(release, file)


def _read_from(release: Any, file: Path) -> Any:
    """Return a release that knows whom to blame should no rows come of it."""
    if hasattr(release, "children"):
        return replace(release, parents=_read_from(release.parents, file))
    return replace(release, file=file)


def _stored(data: bytes) -> dict[str, bytes]:
    """Return an archive's files. None is compressed, so together they are no longer than the archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as zipped:
        entries = zipped.infolist()
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
            raise NotPlain("compressed")
        if sum(entry.file_size for entry in entries) > len(data):
            raise NotPlain("longer than its archive")
        return {entry.filename: zipped.read(entry) for entry in entries}


def _array(data: bytes, most: int = MOST_BYTES) -> NDArray[Any]:
    """Read an array of numbers, after checking that its header asks for as many bytes as there are.

    An empty one may say any shape: the numbers in it are sizes, too.
    """
    if data[:8] != b"\x93NUMPY\x01\x00":
        raise NotPlain("not an array")
    start = 10 + int.from_bytes(data[8:10], "little")
    header = ast.literal_eval(data[10:start].decode("latin-1"))
    kind, shape = np.dtype(str(header["descr"])), header["shape"]
    if kind.kind not in KINDS or not all(type(n) is int and n >= 0 for n in shape):
        raise NotPlain("not an array of numbers")
    if math.prod(shape) * kind.itemsize != len(data) - start or math.prod(max(n, 1) for n in shape) > most:
        raise NotPlain("an array of another size")
    # In the order it had in memory: sums over it are then rounded as they were.
    values = np.frombuffer(data, kind, offset=start).reshape(shape, order="F" if header["fortran_order"] else "C")
    return values.astype(kind.newbyteorder("="), order="K")
