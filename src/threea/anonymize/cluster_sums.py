"""Sums over clusters of rows: a row goes to the nearest public centroid of its class and adds to that cluster alone.

Each column's cell has whole-number scores. Distances to whole-number centroids are exact in a double, so a row's
cluster does not depend on its neighbours; nor do its scores.

Proofs: docs/proofs/lookup-sums.md, cluster-sums.md.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.lookup_sums import (
    MOST_NUMBERS,
    Floats,
    Integers,
    LookupSum,
    blocks,
    keys_of,
    lengths_of,
    shortened,
    squared,
)
from threea.anonymize.query import Answer, Norm, Rows
from threea.errors import SettingError
from threea.table.cells import AnyCells

SCORE_BITS = 8
MOST_SCORE = 1 << (SCORE_BITS + 3)
"""Scores count 2**-SCORE_BITS; they are from -8 to 8."""
UNIT = 2.0**SCORE_BITS


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Public coordinates of a row: what its cells are looked up as, column after column.

    Args:
        cells: The columns' cells.
        tables: For each column, a whole number per cell and coordinate. They are copied. A value without a cell has 0.

    Raises:
        SettingError: The parts do not fit one another, or a score is too large.
    """

    cells: tuple[AnyCells, ...]
    tables: tuple[Integers, ...]

    def __post_init__(self) -> None:
        if [len(table) for table in self.tables] != [cells.size for cells in self.cells]:
            raise SettingError("each cell needs its scores")
        object.__setattr__(self, "tables", tuple(whole_table(table) for table in self.tables))
        if not self.cells or not 1 <= self.width <= MOST_NUMBERS:
            raise SettingError(f"a row needs from 1 to {MOST_NUMBERS} scores")

    @property
    def width(self) -> int:
        """How many coordinates a row has."""
        return sum(table.shape[1] for table in self.tables)

    def blocks(self, rows: Rows) -> Iterator[tuple[slice, Floats]]:
        """Yield blocks of rows: which, and their coordinates, whole numbers that count 2**-8."""
        index = [rows.index(cells) for cells in self.cells]
        for block in blocks(rows.count, self.width):
            yield block, self.coordinates([cell[block] for cell in index])

    def coordinates(self, codes: Sequence[NDArray[Any]]) -> Floats:
        """Return rows' coordinates, whole numbers that count 2**-8, from their cell in every column."""
        coordinates, start = np.empty((len(codes[0]), self.width)), 0
        for table, cell in zip(self.tables, codes, strict=True):
            # A value without a cell has number -1: the last entry, which is 0.
            coordinates[:, start : start + table.shape[1]] = np.pad(table, ((0, 1), (0, 0)))[cell]
            start += table.shape[1]
        return coordinates


def whole_table(table: Integers) -> Integers:
    """Return a copy that nobody changes, having checked that it holds small whole numbers."""
    copy = np.array(table)
    if copy.ndim != 2 or copy.dtype.kind not in "iu" or np.abs(copy.astype(np.float64)).max(initial=0.0) > MOST_SCORE:
        raise SettingError(f"scores and centroids must be tables of whole numbers from {-MOST_SCORE} to {MOST_SCORE}")
    copy = copy.astype(np.int64)
    copy.setflags(write=False)
    return copy


def check_clusters(space: Scores, centroids: Integers, classes: tuple[int, ...], by: AnyCells | None) -> None:
    """Refuse clusters whose parts do not fit one another."""
    if not classes or centroids.shape != (len(classes), space.width):
        raise SettingError(f"centroids {centroids.shape} must be {space.width} numbers for each class")
    if not all(0 <= label < (by.size if by else 1) for label in classes):
        raise SettingError(f"classes {classes} must be cells of the label")


def nearest(rows: Rows, space: Scores, centroids: Integers, classes: tuple[int, ...], by: AnyCells | None) -> Integers:
    """Return each row's cluster, that of the nearest centroid of its class; -1 for none."""
    label = rows.index(by) if by else np.zeros(rows.count, np.int64)
    found = np.full(rows.count, -1, np.int64)
    exact = centroids + 0.0
    lengths = (exact * exact).sum(axis=1)
    candidates = {code: np.flatnonzero(np.array(classes) == code) for code in dict.fromkeys(classes)}
    for block, coordinates in space.blocks(rows):
        for code, clusters in candidates.items():
            members = np.flatnonzero(label[block] == code)
            distances = lengths[clusters] - 2 * (coordinates[members] @ exact[clusters].T)
            found[block][members] = clusters[distances.argmin(axis=1)]
    return found


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ClusterSums(LookupSum):
    """For each cluster, how many rows it has, and the sums of their scores.

    A row is in the cluster of the nearest centroid of its class, of equally near ones in the first. It adds 1 to the
    count and its scores to the sums; longer scores are shortened to the radius. A row without a class, or whose class
    has no centroid, adds nothing.

    Args:
        space: The coordinates in which rows and centroids are near one another or far.
        centroids: One row of whole numbers, in the space's units, for each cluster. They are copied.
        classes: The class of each centroid.
        summed: What is summed.
        radius: The length at which scores are shortened, from 2**-20 to 2**20.
        by: The cells that say which class a row is of; without, all rows are of class 0.

    Raises:
        SettingError: The parts do not fit one another, or a number is out of range.
    """

    space: Scores
    centroids: Integers
    classes: tuple[int, ...]
    summed: Scores
    radius: float
    by: AnyCells | None = None
    nonnegative = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "centroids", whole_table(self.centroids))
        if not 2.0**-20 <= self.radius <= 2.0**20:
            raise SettingError(f"radius ({self.radius}) must be from 2**-20 to 2**20")
        check_clusters(self.space, self.centroids, self.classes, self.by)

    @property
    def _cells(self) -> tuple[AnyCells, ...]:
        return (*((self.by,) if self.by else ()), *self.space.cells, *self.summed.cells)

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The label and the scored columns."""
        return tuple(dict.fromkeys(cells.column for cells in self._cells))

    @property
    def keys(self) -> tuple[Hashable, ...]:  # type: ignore[override]
        """Cells say it all."""
        return keys_of(*self._cells)

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """For each cluster the count, then the sums."""
        return (len(self.classes), 1 + self.summed.width)

    @property
    def l2(self) -> float:  # type: ignore[override]
        """One for the count, and the radius."""
        return math.sqrt(1 + self.radius**2)

    def contributions(self, rows: Rows, step: float, norm: Norm) -> Iterator[_Members]:
        """Find the rows' clusters, shorten their scores, round to whole numbers."""
        cluster = nearest(rows, self.space, self.centroids, self.classes, self.by)
        one, longest = self._lengths(step)
        for block, scores in self.summed.blocks(rows):
            whole = shortened(scores, lengths_of(scores), self.radius * UNIT, longest)
            yield _Members(cluster[block], one, whole)

    def read(self, answer: Answer, step: float) -> tuple[Floats, Floats, float, float]:
        """Return counts and sums, and the standard deviation of the noise on each count and on each sum.

        Sums are in units of 1, which is 2**8 scores.

        Args:
            answer: What the door answered.
            step: The grid's step.
        """
        one, longest = self._lengths(step)
        counted, scored = one * step, max(longest, 1) * step / self.radius
        value = answer.value.reshape(self.shape)
        return value[:, 0] / counted, value[:, 1:] / scored, answer.stddev / counted, answer.stddev / scored

    def _lengths(self, step: float) -> tuple[int, int]:
        """Return what the count of a row is in whole numbers, and how long its scores may be."""
        longest, one = math.floor(self.l2 / step), math.floor(1 / step)
        return one, math.isqrt(longest**2 - one**2)


@dataclass(frozen=True, slots=True)
class _Members:
    """A block of rows: the cluster of each (-1: none), what its count is, and its scores, in whole numbers."""

    cluster: Integers
    one: int
    scores: Floats

    @property
    def norms(self) -> Integers:
        return squared(self.scores) + self.one**2

    def add(self, sums: Integers, admitted: NDArray[np.bool_]) -> None:
        rows = np.flatnonzero(admitted & (self.cluster >= 0))
        # In the order of the clusters, so that each one's rows lie together.
        rows = rows[np.argsort(self.cluster[rows], kind="stable")]
        if len(rows):
            present, starts, counts = np.unique(self.cluster[rows], return_index=True, return_counts=True)
            sums[present, 0] += counts * self.one
            sums[present, 1:] += np.add.reduceat(self.scores[rows], starts, axis=0).astype(np.int64)
