"""A parent table and a child table as two views: parents with their number of children, children with their parent.

A unit is a value of the key: its rows in both tables. Rows without a key, and children whose key no parent has, are in
no view. Which rows are in a view, and what stands beside them, follows from each unit's own rows
(docs/proofs/linked-tables.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from threea.backends.base import RowBackend, no_rows
from threea.backends.units import FilteredBackend
from threea.errors import InputError
from threea.table.codec import values_of
from threea.table.layout import declared
from threea.table.linked_columns import COUNT, PARENT

Whole = NDArray[np.int64]


class JoinedBackend(RowBackend):
    """Those rows of an engine that have a partner in another table, with the partner's columns beside their own.

    Args:
        backend: The rows.
        partner: For each of them, the partner's position in the other table; -1 for none.
        beside: The other table, in memory; its columns have other names.
    """

    __slots__ = ("_beside", "_own", "_partner")

    def __init__(self, backend: RowBackend, partner: Whole, beside: pa.RecordBatch) -> None:
        self._own, self._beside = FilteredBackend(backend, partner >= 0), beside
        self._partner = partner[partner >= 0]
        self.layout = pa.schema([*backend.layout, *declared(beside.schema)])

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that have a partner."""
        names = self._own.layout.names
        layout = pa.schema([self.layout.field(name) for name in columns])
        start = 0
        for batch in self._own.batches([name for name in columns if name in names] or names[:1]):
            partners = pa.array(self._partner[start : start + batch.num_rows])
            start += batch.num_rows
            arrays = [
                batch.column(name) if name in names else self._beside.column(name).take(partners) for name in columns
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=layout)


def linked(
    parents: RowBackend, children: RowBackend, *, key: str, most: int, read: int, carried: Sequence[str], secret: bytes
) -> tuple[RowBackend, RowBackend]:
    """Return the two views: a row per parent, and a few rows of the children of each.

    Args:
        parents: The parent table.
        children: The child table.
        key: The column that names a parent, in both tables.
        most: Up to how many children of a parent are counted.
        read: How many of them are in the second view, at most.
        carried: The parents' columns that stand beside a child, besides `COUNT`.
        secret: Decides which rows of a unit count.
    """
    names, own = _keys(parents, key), _keys(children, key)
    known = names.unique().drop_null()
    child_of = _positions(own, known)
    counts = np.minimum(np.bincount(child_of[child_of >= 0], minlength=len(known)), most)
    column = pa.RecordBatch.from_arrays([pa.array(counts, pa.int64())], schema=_COUNTED)
    each = JoinedBackend(parents, _positions(names, known), column).bounded(key, 1, secret)
    # One row of each key is left, in any order.
    kept = _positions(_keys(each, key), known)
    row_of = np.empty(len(known), np.int64)
    row_of[kept] = np.arange(len(kept))
    partner = np.where(child_of >= 0, np.append(row_of, -1)[child_of], -1)
    return each, JoinedBackend(children, partner, _beside(each, carried)).bounded(key, read, secret)


_COUNTED = pa.schema([pa.field(COUNT, pa.int64(), nullable=False)])


def _keys(backend: RowBackend, key: str) -> pa.Array:
    """Return the key of each row as text; whole numbers have one way to be written."""
    pieces = [values_of(batch.column(key)).cast(pa.large_string()) for batch in backend.batches([key])]
    return pa.chunked_array(pieces, pa.large_string()).combine_chunks()


def _positions(keys: pa.Array, known: pa.Array) -> Whole:
    """Return where each key is among those known, -1 for nowhere and for none."""
    found = pc.fill_null(pc.index_in(keys, value_set=known), -1)
    return np.asarray(found.to_numpy(zero_copy_only=False), np.int64)


def _beside(parents: RowBackend, carried: Sequence[str]) -> pa.RecordBatch:
    """Return the parents' rows in some columns, under the names that they have beside a child."""
    names = [*carried, COUNT]
    layout = pa.schema([parents.layout.field(name) for name in names])
    batches = list(parents.batches(names))
    whole = pa.Table.from_batches(batches, layout).combine_chunks().to_batches() if batches else []
    if len(whole) > 1:
        raise InputError(
            "a text column of the parent table has more than 2 GB; list its values as categories, or drop it"
        )
    return (whole or [no_rows(layout)])[0].rename_columns([f"{PARENT}{name}" for name in names])
