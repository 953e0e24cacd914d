"""What the door worked out about its rows and may need again: their cells, their scores. It never leaves the door.

A recipe asks many questions about the same cells. Reading and encoding the rows again for each would take most of its
time, so their cell numbers are kept, in a byte or two each, as long as they fit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.query import Rows
from threea.anonymize.selection import QualityScores
from threea.table.schema import Chunk

MOST_BYTES = 1 << 30


class Fill:
    """What one pass over the rows worked out, as long as it fits.

    Args:
        keys: What of it to keep.
        room: How many bytes it may take.
    """

    def __init__(self, keys: tuple[Hashable, ...], room: int) -> None:
        self.keys, self._room = keys, room if keys else -1
        self.chunks: list[Rows] = []

    def add(self, rows: Rows) -> None:
        """Keep what a chunk's rows have under the keys, and nothing else of them."""
        self._room -= sum(rows.cached[key].nbytes for key in self.keys)
        if self.fits:
            kept = Rows({}, rows.count)
            kept.cached = {key: rows.cached[key] for key in self.keys}
            self.chunks.append(kept)
        else:
            self.chunks.clear()

    @property
    def fits(self) -> bool:
        """Whether all chunks so far were kept."""
        return self._room >= 0

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled: what is known of rows leaves by the door only."""
        raise TypeError("what the door remembers cannot be copied or pickled")


class Cache:
    """Chunks of rows by what was worked out about them.

    What queries work out from chunks they recall (merged cells) is kept too, until there is too much of it.

    Args:
        most_bytes: How much to keep; beyond that rows are read again.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._chunks: list[Rows] = []
        self._keys: set[Hashable] = set()
        self._scored: tuple[QualityScores | None, NDArray[np.int64]] = None, np.zeros(0, np.int64)
        self._columns: Chunk = {}
        self._count: int | None = None
        self._too_large = False

    def columns(self, names: Sequence[str], read: Callable[[Sequence[str]], Iterator[Rows]]) -> Rows | None:
        """Return whole columns, encoded, reading those that are not known; None if they take more than the room."""
        missing = [name for name in names if name not in self._columns]
        if missing or self._count is None:
            chunks = self._read(missing, read)
            if chunks is None:
                return None
            self._count = sum(rows.count for rows in chunks)
            for name in missing:
                self._columns[name] = np.concatenate([rows.values[name] for rows in chunks])
        return Rows({name: self._columns[name] for name in names}, self._count)

    def _read(self, names: Sequence[str], read: Callable[[Sequence[str]], Iterator[Rows]]) -> list[Rows] | None:
        """Return a whole pass over some columns; None, also ever after, if they do not fit."""
        chunks, size = [], self._used
        for rows in () if self._too_large else read(names):
            chunks.append(rows)
            size += sum(rows.values[name].nbytes for name in names)
            self._too_large |= size > self._most
            if self._too_large:
                break
        return None if self._too_large else chunks

    def recall(self, keys: tuple[Hashable, ...]) -> list[Rows] | None:
        """Return all rows, chunk by chunk, if everything under these keys is known."""
        if not (self._chunks and keys and all(key in self._keys for key in keys)):
            return None
        if _size(self._chunks) > self._most:
            self._forget()
        return self._chunks

    def fill(self, keys: tuple[Hashable, ...]) -> Fill:
        """Return an empty fill for the room that is left."""
        if keys:
            self._forget()
        return Fill(keys, self._most - self._used)

    @property
    def _used(self) -> int:
        return _size(self._chunks) + sum(values.nbytes for values in self._columns.values())

    def learn(self, fill: Fill) -> None:
        """Keep a fill from a whole pass."""
        if not fill.fits:
            return
        if [chunk.count for chunk in self._chunks] != [chunk.count for chunk in fill.chunks]:
            # Cut otherwise, so what was known does not fit beside it.
            self._chunks, self._keys = fill.chunks, set(fill.keys)
            return
        self._keys.update(fill.keys)
        for known, new in zip(self._chunks, fill.chunks, strict=True):
            known.cached.update(new.cached)

    def _forget(self) -> None:
        """Keep what lessons taught and no more: the rest can be worked out from it."""
        for chunk in self._chunks:
            chunk.cached = {key: chunk.cached[key] for key in self._keys}

    def has_scored(self, gaps: QualityScores) -> bool:
        """Return whether these candidates are the last ones asked about."""
        return self._scored[0] is gaps

    def scores(self, gaps: QualityScores, work_out: Callable[[], NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return the exact scores of these candidates, the last ones asked about being known."""
        if not self.has_scored(gaps):
            self._scored = gaps, work_out()
        return self._scored[1]

    def __repr__(self) -> str:
        return "Cache()"

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled: what is known of rows leaves by the door only."""
        raise TypeError("what the door remembers cannot be copied or pickled")


def _size(chunks: Iterable[Rows]) -> int:
    arrays: list[Any] = [array for rows in chunks for array in rows.cached.values()]
    return sum(array.nbytes for array in arrays)
