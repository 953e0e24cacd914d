"""Distances between the marginals of two tables: columns, pairs and triples of columns."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from threea.evaluate.fidelity import jackknife
from threea.table import codec
from threea.table.cells import Bins, Cells
from threea.table.schema import Chunk, Schema

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

BINS = 20
PAIRS, TRIPLES = 500, 100


@dataclass(frozen=True, slots=True)
class Sorted:
    """A table whose values are sorted into cells.

    Args:
        columns: Each row's cell, per column; a value without a cell has one more of its own.
        sizes: Number of cells per column.
        chunk: The encoded values.
        groups: Each row's group for the jackknife.
    """

    columns: tuple[Integers, ...]
    sizes: tuple[int, ...]
    chunk: dict[str, NDArray[np.float64]]
    groups: Integers

    @classmethod
    def of(cls, table: pa.Table, schema: Schema, seed: int) -> Sorted:
        """Sort a table's rows into the schema's cells."""
        return cls.into([column.cells(BINS) for column in schema.valued], codec.encode(table, schema), seed)

    @classmethod
    def into(cls, cells: Sequence[Cells], chunk: Chunk, seed: int, units: Integers | None = None) -> Sorted:
        """Sort encoded rows, which are of these people, into cells."""
        sizes = tuple(cell.size + 1 for cell in cells)
        placed = (np.where(_strange(cell, chunk), cell.size, cell.index(chunk[cell.column])) for cell in cells)
        rows = len(next(iter(chunk.values()))) if chunk else 0
        return cls(tuple(placed), sizes, chunk, jackknife.groups(rows, seed, units))

    def joint(self, columns: Sequence[int]) -> Integers:
        """Return each row's cell in the joint table of some columns."""
        cell = np.zeros(len(self.groups), np.int64)
        for column in columns:
            cell = cell * self.sizes[column] + self.columns[column]
        return cell


def _strange(cells: Cells, chunk: Chunk) -> NDArray[np.bool_]:
    """Return which values the schema has no place for: missing ones where none may be, and categories not listed."""
    values = chunk[cells.column]
    absent = np.isnan(values) if isinstance(cells, Bins) else values < 0
    return np.asarray(absent & (not cells.missing))


def subsets(columns: int, size: int, limit: int, seed: int) -> list[tuple[int, ...]]:
    """Return all subsets of so many columns, or a fixed random sample of them."""
    count = math.comb(columns, size)
    if count <= limit:
        return list(itertools.combinations(range(columns), size))
    rng = np.random.default_rng([seed, size])
    chosen: set[tuple[int, ...]] = set()
    while len(chosen) < limit:
        chosen.add(tuple(sorted(int(column) for column in rng.choice(columns, size, replace=False))))
    return sorted(chosen)


def total_variation(left: Sorted, right: Sorted, columns: Sequence[int]) -> Floats:
    """Return the total variation distance of two tables' marginals: of all rows, then without each group."""
    cells, size = _shared(left, right, columns)
    parts = [_counts(cell, table.groups, size) for cell, table in zip(cells, (left, right), strict=True)]
    shares = [jackknife.without_each(part) for part in parts]
    distances: Floats = np.abs(shares[0] - shares[1]).sum(axis=-1) / 2
    return distances


def mean_total_variation(left: Sorted, right: Sorted, seed: int) -> dict[str, float]:
    """Return the mean total variation distance of columns, pairs and triples, as ``tv1``, ``tv2`` and ``tv3``.

    Pairs and triples are all there are, or a fixed random sample. Sizes that the tables have too few columns for are
    left out.
    """
    distances = {}
    for size, limit in ((1, len(left.sizes)), (2, PAIRS), (3, TRIPLES)):
        chosen = subsets(len(left.sizes), size, limit, seed)
        if chosen:
            distances[f"tv{size}"] = float(np.mean([_distance(left, right, columns) for columns in chosen]))
    return distances


def _distance(left: Sorted, right: Sorted, columns: Sequence[int]) -> float:
    cells, size = _shared(left, right, columns)
    shares = [np.bincount(cell, minlength=size) / max(len(cell), 1) for cell in cells]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def _shared(left: Sorted, right: Sorted, columns: Sequence[int]) -> tuple[list[Integers], int]:
    """Return both tables' cells in the joint table of some columns, and how many cells there are to count."""
    cells = [left.joint(columns), right.joint(columns)]
    size = math.prod(left.sizes[column] for column in columns)
    if size > 4 * (len(cells[0]) + len(cells[1])):
        # Most cells of a large joint table are empty: number those that are not.
        _, numbered = np.unique(np.concatenate(cells), return_inverse=True)
        cells, size = np.split(numbered, [len(cells[0])]), int(numbered.max()) + 1
    return cells, size


def _counts(cells: Integers, groups: Integers, size: int) -> Floats:
    return np.bincount(groups * size + cells, minlength=jackknife.GROUPS * size).reshape(-1, size).astype(float)


def wasserstein(left: Sorted, right: Sorted, column: str, width: float) -> Floats:
    """Return the Wasserstein-1 distance of a numeric column, as a share of a width.

    Missing values are left out. NaN if one of the tables has nothing else.
    """
    values = [table.chunk[column] for table in (left, right)]
    known = [~np.isnan(value) for value in values]
    if not all(mask.any() for mask in known):
        return np.full(jackknife.GROUPS + 1, np.nan)
    pooled = np.concatenate([value[mask] for value, mask in zip(values, known, strict=True)])
    order = np.argsort(pooled, kind="stable")
    steps = np.diff(pooled[order]) / max(width, 1e-300)
    group = np.concatenate([table.groups[mask] for table, mask in zip((left, right), known, strict=True)])[order]
    first = (np.arange(len(pooled)) < known[0].sum())[order]

    def distance(kept: NDArray[np.bool_]) -> float:
        sides = [kept & first, kept & ~first]
        if not all(side.any() for side in sides):
            return float("nan")
        below = [np.cumsum(side)[:-1] / side.sum() for side in sides]
        return float(np.abs(below[0] - below[1]) @ steps)

    every = np.ones(len(pooled), np.bool_)
    return np.array([distance(every), *(distance(group != number) for number in range(jackknife.GROUPS))])
