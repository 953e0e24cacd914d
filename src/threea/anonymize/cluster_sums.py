"""Clusters of rows: a row goes to the nearest public centroid of its class.

Each column's cell has whole-number scores. Distances to whole-number centroids are exact in a double, so a row's
cluster does not depend on its neighbours; nor do its scores.

Proofs: docs/proofs/lookup-sums.md, cluster-sums.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.lookup_sums import (
    MOST_NUMBERS,
    Floats,
    Integers,
    blocks,
)
from threea.anonymize.query import Rows
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
