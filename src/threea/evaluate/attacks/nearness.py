"""How far rows of mixed columns lie apart, and which are nearest: Gower's distance, in blocks.

A column becomes one number: a category its code, a number its place between the schema's bounds (on a log scale where
the schema says so), a special or missing value a place of its own at least 1 away from all else. Two values then lie
``min(|a - b|, 1)`` apart, whatever the kind, and two rows the sum of that over the columns.

Reference:
    Gower (1971), A general coefficient of similarity and some of its properties.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from threea.evaluate.evidence import matrices
from threea.table.schema import Column, Schema

Scaled = NDArray[np.float32]
"""One row each, one column a column of the table."""
Indices = NDArray[np.int64]

BLOCK = 1 << 18  # pairs of rows at a time: a few of these fit a core's own cache
CELLS = 20
"""Into how many cells numbers are cut where an attack needs frequencies."""
FEW = 256
"""Columns of at most so many values have a cell for each of them."""


def raw_values(tables: Sequence[pa.Table], schema: Schema) -> list[NDArray[np.float64]]:
    """Return the tables' modelled columns, in the schema's order, as numbers that share their codes."""
    columns = schema.valued
    target = schema.target or columns[-1].name
    features = [index for index, column in enumerate(columns) if column.name != target]
    coded = []
    for matrix in matrices(tables, replace(schema, target=target)):
        values = np.empty((len(matrix.target), len(columns)))
        values[:, features] = matrix.values
        values[:, [index for index in range(len(columns)) if index not in features]] = matrix.target[:, None]
        coded.append(values)
    return coded


def scaled(values: NDArray[np.float64], schema: Schema) -> Scaled:
    """Return the rows with each column scaled, so that distances are sums over columns of ``min(|a - b|, 1)``."""
    columns = [_scaled_column(values[:, number], column) for number, column in enumerate(schema.valued)]
    return np.column_stack(columns).astype(np.float32)


def _scaled_column(values: NDArray[np.float64], column: Column) -> NDArray[np.float64]:
    missing = np.isnan(values)
    if column.kind.listed:
        return np.where(missing, -1.0, values)
    assert column.lower is not None
    assert column.upper is not None
    inside = np.clip(np.where(missing, column.lower, values), column.lower, column.upper)
    if column.log:
        position = np.log(inside / column.lower) / np.log(column.upper / column.lower)
    else:
        position = (inside - column.lower) / max(column.upper - column.lower, np.finfo(np.float64).tiny)
    for number, special in enumerate(column.special):
        position = np.where(values == special, 2.0 * (number + 1), position)
    return np.where(missing, -1.0, position)


@dataclass(frozen=True, slots=True)
class Pool:
    """Rows to look for neighbours among.

    Args:
        columns: One array a column, so that a column lies in one piece of memory.
        weights: What a difference in each column counts; if given, differences are weighted, squared and summed.
    """

    columns: Scaled
    weights: NDArray[np.float32] | None = None

    @classmethod
    def of(cls, rows: Scaled, weights: NDArray[np.float64] | None = None) -> Pool:
        """Make a pool of rows."""
        return cls(np.ascontiguousarray(rows.T), None if weights is None else weights.astype(np.float32))

    @property
    def size(self) -> int:
        """Number of rows."""
        return int(self.columns.shape[1])

    def blocks(self, rows: Scaled) -> Iterator[slice]:
        """Cut rows into blocks whose distances to the pool fit the cache."""
        step = max(1, BLOCK // max(self.size, 1))
        for start in range(0, len(rows), step):
            yield slice(start, min(start + step, len(rows)))

    def distances(self, rows: Scaled, chosen: Sequence[int] | None = None) -> Scaled:
        """Return the distances of a block of rows to the whole pool, over the chosen columns or all."""
        total = np.zeros((len(rows), self.size), np.float32)
        gap = np.empty_like(total)
        for number in range(len(self.columns)) if chosen is None else chosen:
            np.subtract(rows[:, number, None], self.columns[number], out=gap)
            np.abs(gap, out=gap)
            np.minimum(gap, np.float32(1), out=gap)
            if self.weights is not None:
                np.multiply(gap, self.weights[number], out=gap)
                np.multiply(gap, gap, out=gap)
            np.add(total, gap, out=total)
        return total

    def nearest(self, rows: Scaled, count: int) -> tuple[Scaled, Indices]:
        """Return each row's nearest distances, increasing, and where in the pool they are."""
        parts = [smallest(self.distances(rows[block]), count) for block in self.blocks(rows)]
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def smallest(distances: Scaled, count: int) -> tuple[Scaled, Indices]:
    """Return the smallest distances of each row, increasing, and their positions."""
    count = min(count, distances.shape[1])
    if count == 1:
        positions = distances.argmin(axis=1)[:, None]
    else:
        positions = np.argpartition(distances, count - 1, axis=1)[:, :count]
    chosen = np.take_along_axis(distances, positions, axis=1)
    order = np.argsort(chosen, axis=1, kind="stable")
    return np.take_along_axis(chosen, order, axis=1), np.take_along_axis(positions, order, axis=1)


def cells(column: Scaled, model: Scaled) -> tuple[Indices, Indices]:
    """Sort two samples of a column into cells made from the second.

    Returns:
        The cells of the first sample, and of the second; numbered from 0.
    """
    values = np.unique(model)
    if len(values) > FEW:
        edges = np.unique(np.quantile(model, np.linspace(0, 1, CELLS + 1)[1:-1]))
        return np.searchsorted(edges, column, side="right"), np.searchsorted(edges, model, side="right")
    nearest = np.minimum(np.searchsorted(values, column), len(values) - 1)
    # A value that the second sample lacks has a cell of its own, which is empty there.
    return np.where(values[nearest] == column, nearest, len(values)), np.searchsorted(values, model)


def entropies(rows: Scaled) -> NDArray[np.float64]:
    """Return each column's entropy over its cells, in nats."""
    entropy = np.zeros(rows.shape[1])
    for number in range(rows.shape[1]):
        counts = np.bincount(cells(rows[:, number], rows[:, number])[1])
        shares = counts[counts > 0] / len(rows)
        entropy[number] = -(shares * np.log(shares)).sum()
    return entropy
