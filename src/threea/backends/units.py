"""At most so many rows of each person: the view of a table that a privacy unit of many rows needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from threea.backends.base import RowBackend, no_rows
from threea.backends.coins import ROWS_KEY, Coins, numbers_among_equals
from threea.backends.hashing import row_hashes
from threea.errors import InputError


class UnitBackend(RowBackend):
    """A table in which each unit has at most `max_rows` rows.

    Which rows stay depends on that unit's rows and a key alone, not on their place nor on other units; so adding or
    removing a unit changes at most `max_rows` rows. Rows without a unit count as one unit together.
    """

    __slots__ = ("_backend", "_keep", "_unit", "_units")

    def __init__(self, backend: RowBackend, unit: str, max_rows: int, key: bytes) -> None:
        self._backend, self.layout, self._unit = backend, backend.layout, (unit, key)
        self._units = _codes(backend, unit)
        priority = np.concatenate(
            [np.zeros(0, np.uint64), *(row_hashes(batch, key) for batch in backend.batches(self.layout.names))]
        )
        order = np.lexsort((priority, self._units))
        ordered = self._units[order]
        first = np.searchsorted(ordered, ordered, side="left")
        self._keep = np.zeros(len(order), np.bool_)
        self._keep[order[np.arange(len(order)) - first < max_rows]] = True

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that stay."""
        yield from _filtered(self._backend, columns, self._keep)

    def sample(self, rate: float, key: bytes) -> RowBackend:
        """Return the view of the units whose coins fall so."""
        coins = Coins(rate, key, self._unit)
        batches = self.batches([self._unit[0]])
        fallen = [coins.chosen(batch, np.zeros(batch.num_rows, np.uint64)) for batch in batches]
        return FilteredBackend(self, np.concatenate([np.zeros(0, np.bool_), *fallen]))

    def sampled(self, chosen: NDArray[np.bool_]) -> RowBackend:
        """Return the view of the units chosen."""
        return FilteredBackend(self._backend, self._keep & chosen[self._units])

    @property
    def unit_of(self) -> NDArray[np.int64]:
        """The unit of each row that stays, in their order. Private, too."""
        return self._units[self._keep]

    @property
    def units(self) -> int:
        """How many units there are. Private: for drawing samples inside the door."""
        return int(self._units.max()) + 1 if len(self._units) else 0


class FilteredBackend(RowBackend):
    """Those rows of an engine that are marked.

    Args:
        backend: The rows.
        keep: Whether each of them stays.
    """

    __slots__ = ("_backend", "_keep")

    def __init__(self, backend: RowBackend, keep: NDArray[np.bool_]) -> None:
        self._backend, self.layout, self._keep = backend, backend.layout, keep

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that stay."""
        yield from _filtered(self._backend, columns, self._keep)


def sampled_rows(backend: RowBackend, rate: float, key: bytes) -> RowBackend:
    """Return the view of an engine's rows whose coins fall so, each by itself, equal rows too."""
    batches = backend.batches(backend.layout.names)
    hashes = np.concatenate([np.zeros(0, np.uint64), *(row_hashes(batch, ROWS_KEY) for batch in batches)])
    words = np.column_stack([hashes, numbers_among_equals(hashes)])
    return FilteredBackend(backend, Coins(rate, key, None).fall(words))


def _filtered(backend: RowBackend, columns: Sequence[str], keep: NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
    start = 0
    for batch in backend.batches(columns):
        if start + batch.num_rows > len(keep):
            break
        yield batch.filter(pa.array(keep[start : start + batch.num_rows]))
        start += batch.num_rows
    if start != len(keep):
        # Who is kept was decided on other rows.
        raise InputError("the table has other rows than when it was opened; leave it alone, and start again")


def _codes(backend: RowBackend, unit: str) -> NDArray[np.int64]:
    """Number the units from 0 up, exactly: no two share a number."""
    pieces = [batch.column(unit) for batch in backend.batches([unit])]
    column = pa.chunked_array(pieces or [no_rows(backend.layout).column(unit)])
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
