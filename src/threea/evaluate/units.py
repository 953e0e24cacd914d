"""Whose each real row is. Rows of one person say the same thing again, so that persons are counted, not rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from threea.describe import ids
from threea.table.schema import Kind, Schema

Units = NDArray[np.int64]
MANY = 60
"""Fewer values are those of a code, such as a ward's, unless the schema says that they are ids."""


def numbered(tables: Sequence[pa.Table], column: str | None) -> list[Units]:
    """Number the persons behind the rows of several tables; without a name, a row is a person of its own.

    Example:
        >>> tables = pa.table({"p": ["a", "b", "a"]}), pa.table({"p": ["b", None]})
        >>> [units.tolist() for units in numbered(tables, "p")]
        [[0, 1, 0], [1, 9]]
    """
    rows = [table.num_rows for table in tables]
    units = np.arange(sum(rows)) + sum(rows)
    if column is not None:
        ids = pa.chunked_array(
            [chunk for table in tables for chunk in table[column].cast(pa.string()).chunks], "string"
        )
        # Whoever has no id may be anyone.
        named = ids.combine_chunks().dictionary_encode().indices.cast(pa.int64())
        units = pc.if_else(named.is_valid(), named, pa.array(units)).to_numpy(zero_copy_only=False)
    return np.split(units, np.cumsum(rows)[:-1])


def guessed(schema: Schema, train: pa.Table) -> str | None:
    """Return the id column that rows share most, which may name persons; None if no two rows share an id.

    Of the columns that the release leaves out, those named as ids are, with many values, may too.
    """
    own = [column.name for column in schema.columns if column.kind is Kind.ID]
    released = {column.name for column in schema.columns}
    others = [name for name in train.column_names if name not in released and ids.named(name)]
    counts = {name: pc.count_distinct(train[name]).as_py() for name in (*own, *others)}
    shared = [name for name, count in counts.items() if count < train.num_rows and (name in own or count >= MANY)]
    return min(shared, key=lambda name: counts[name], default=None)


def doubts(tables: Sequence[pa.Table], column: str | None, *, known: bool) -> list[str]:
    """Return what the owner should do about persons: name them, or divide the table by them.

    Args:
        tables: The training rows, and the holdout.
        column: Which column names the person.
        known: Whether the owner said so; else it is a guess.
    """
    if column is None:
        return []
    train, holdout = (np.unique(units) for units in numbered(tables, column))
    both = len(np.intersect1d(train, holdout))
    divided = f"{both} of the {len(holdout)} {column} of the holdout are in the training rows too"
    cure = f"divide the table with `threea split --unit {column}`"
    if known:
        return [f"{divided}: {cure} and release again, or scores flatter"] if both else []
    guess = f"several rows share a {column}, which was taken for a person; say `--unit {column}` if it names persons"
    return [f"{guess}; {divided}: if so, {cure} and release again with it" if both else guess]
