"""A column as a graphical model sees it: fine cells with noisy counts, merged where these do not stand out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from threea.approximate.denoise import draw, proportions
from threea.table.cells import Cells, Merged
from threea.table.conditions import Condition, draw_fitting, fitting
from threea.table.schema import Chunk

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

_COMMON = 3.0
"""So many standard deviations a cell's count must have, to be a cell of its own: the paper's."""


@dataclass(frozen=True, slots=True)
class GraphColumn:
    """A column's cells.

    Args:
        merged: The cells that other columns are related to.
        counts: Noisy counts of the fine cells, from the column alone.
        shares: The fine cells' distribution within each merged one.
        stddev: Of the noise on a count.
    """

    merged: Merged
    counts: Floats
    shares: Floats
    stddev: float

    @classmethod
    def of(cls, cells: Cells, counts: Floats, stddev: float, most: int) -> GraphColumn:
        """Put cells of less than three standard deviations together, and of the others all but the most frequent.

        Example:
            >>> from threea.table.cells import Categories
            >>> ward = Categories(column="ward", count=4, missing=False)
            >>> GraphColumn.of(ward, np.array([90.0, 2.0, 40.0, -3.0]), stddev=4.0, most=8).merged.groups
            (0, 2, 1, 2)
        """
        heaviest = np.argsort(-counts, kind="stable")[: max(most - 1, 1)]
        common = np.isin(np.arange(cells.size), heaviest) & (counts >= _COMMON * stddev)
        if (~common).sum() == 1:
            common[:] = True
        groups = np.where(common, np.cumsum(common) - 1, common.sum())
        shares = np.ones(cells.size)
        if not common.all():
            shares[~common] = proportions(counts[~common])
        return cls(Merged(cells=cells, groups=tuple(groups.tolist())), counts, shares, stddev)

    @property
    def name(self) -> str:
        """The column's."""
        return self.merged.column

    @property
    def merged_counts(self) -> tuple[Floats, Floats]:
        """Noisy counts of the merged cells, and the noise on them: more on those of many cells."""
        counts: Floats = np.bincount(self.merged.groups, weights=self.counts).astype(np.float64)
        return counts, self.stddev * np.sqrt(np.bincount(self.merged.groups))

    def without_phantoms(self) -> tuple[GraphColumn, Floats]:
        """Return the column with no missing or other values where noise alone explains them, and what is left of cells.

        Returns:
            The column, and the share of each merged cell that stays.

        Example:
            >>> from threea.table.cells import Categories
            >>> sex = Categories(column="sex", count=3, missing=True, other=True)
            >>> column = GraphColumn.of(sex, np.array([70.0, 50.0, 4.0, -1.0]), stddev=3.0, most=8)
            >>> column.without_phantoms()[1]
            array([1., 1., 0.])
        """
        stay = np.ones(len(self.counts))
        stay[[cell for cell in self.merged.cells.unlisted if self.counts[cell] < _COMMON * self.stddev]] = 0.0
        groups = np.asarray(self.merged.groups)
        left: Floats = np.bincount(groups, weights=self.shares * stay).astype(np.float64)
        inside = np.divide(1.0, left, out=np.zeros_like(left), where=left > 0)
        alone = np.bincount(groups)[groups] == 1
        # The share of a cell that was not merged is 1.
        return replace(self, shares=np.where(alone, stay, self.shares * stay * inside[groups])), left

    def likelihood(self, condition: Condition | None) -> Floats:
        """Return how likely a value of each merged cell fits."""
        fit = self.shares * fitting(self.merged.cells, condition)
        return np.bincount(self.merged.groups, weights=fit, minlength=self.merged.size).astype(np.float64)

    def drawn(self, cell: Whole, rng: np.random.Generator, condition: Condition | None) -> Chunk:
        """Draw a value for each merged cell, one that fits."""
        cells, groups = self.merged.cells, np.asarray(self.merged.groups)
        _, first, count = np.unique(groups, return_index=True, return_counts=True)
        fine = first[cell]
        for group in np.flatnonzero(count > 1):
            inside, rows = (groups == group) * self.shares * fitting(cells, condition), cell == group
            fine[rows] = draw(inside[None, :], np.zeros(int(rows.sum()), np.int64), rng)
        return {self.name: draw_fitting(cells, fine, rng, condition)}
