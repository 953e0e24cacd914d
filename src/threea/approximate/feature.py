"""A feature given the label: noisy counts by class, denoised, and merged until cells stand out from the noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from threea.approximate.denoise import draw, grouped, proportions, with_missing, without_phantoms
from threea.approximate.runs import emptied
from threea.table.cells import Bins, Cells, Merged
from threea.table.schema import Column

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

_FEWEST_BINS = 32
_SINGLE = 4
"""Values are counted one by one where they are at most so many times as many as bins would be. Chosen."""


def fine_cells(column: Column, bins: int) -> Cells:
    """Return a column's cells: one for each value where these are few enough, otherwise about so many bins.

    Of given edges, which lie where the rows are, every so many are kept. Evenly spaced ones must not be too few: most
    rows may lie in a small part of the range.
    """
    single = column.cells(max(_SINGLE * bins, _FEWEST_BINS))
    if isinstance(single, Bins) and single.single:
        return single
    cells = column.cells(max(bins, _FEWEST_BINS))
    if not isinstance(cells, Bins) or not column.edges or len(cells.edges) <= bins + 1:
        return cells
    kept = np.unique(np.round(np.linspace(0, len(cells.edges) - 1, bins + 1)).astype(int))
    return replace(cells, edges=tuple(cells.edges[position] for position in kept))


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature given the label.

    Args:
        cells: Its fine cells.
        counts: Noisy counts per class and cell.
        given: Its distribution in each class.
        merged: Fewer cells, wide enough to stand out from the noise.
        stddev: Of the noise on a count.
    """

    cells: Cells
    counts: Floats
    given: Floats
    merged: Merged
    stddev: float

    @classmethod
    def of(cls, cells: Cells, counts: Floats, sizes: Floats, stddev: float) -> Feature:
        """Read off a distribution for each class.

        Counts are not drawn to those of all classes, however noisy: in small tables that hid from learners what the
        classes differ by.
        """
        rows = float(sizes.sum())
        told = emptied(cells, without_phantoms(cells, counts, rows, stddev), stddev, sizes > 0)
        given = with_missing(cells, np.array([proportions(row) for row in told]), rows, stddev)
        return cls(cells, counts, given, Merged(cells=cells, groups=tuple(range(cells.size))), stddev)

    def seen_again(self, counts: Floats, sizes: Floats, stddev: float) -> Feature:
        """Put a second, independent count of the same cells together with the first, each by its precision."""
        first, second = self.stddev**-2, stddev**-2
        both = (first * self.counts + second * counts) / (first + second)
        return Feature.of(self.cells, both, sizes, (first + second) ** -0.5)

    def coarser(self, most: int, weight: Floats, least: float) -> Feature:
        """Merge cells into at most `most`, about equally heavy and of at least this weight."""
        mass = weight @ self.given
        return replace(self, merged=Merged(cells=self.cells, groups=grouped(self.cells, mass, most, least)))

    def told_by(self, margins: Sequence[tuple[Floats, float]]) -> Feature:
        """Put counts of its merged cells in other tables together with its own, each by its precision.

        Args:
            margins: Noisy counts per class and merged cell, and the variance of the noise on them.
        """
        groups = np.asarray(self.merged.groups)
        own = np.array([np.bincount(groups, weights=row, minlength=self.merged.size) for row in self.counts])
        precision = 1 / np.maximum(np.bincount(groups) * self.stddev**2, 1e-9)
        total = own * precision
        for counts, variance in margins:
            total, precision = total + counts / max(variance, 1e-9), precision + 1 / max(variance, 1e-9)
        known = np.array([proportions(row) for row in np.where(self.coarse > 0, total / precision, 0.0)])
        moved = np.divide(known, self.coarse, out=np.zeros_like(known), where=self.coarse > 0)
        given = self.given * moved[:, groups]
        return replace(self, given=np.array([proportions(row) for row in given]))

    @property
    def coarse(self) -> Floats:
        """Its distribution over the merged cells, in each class."""
        groups = np.asarray(self.merged.groups)
        return np.array([np.bincount(groups, weights=row, minlength=self.merged.size) for row in self.given])

    def informative(self, sizes: Floats) -> float:
        """Return a test statistic: by how many standard deviations classes differ more than by noise and chance.

        Pearson's chi-squared, less its mean and over its standard deviation were the classes alike.
        """
        groups = np.asarray(self.merged.groups)
        counts = np.array([np.bincount(groups, weights=row) for row in self.counts])
        overall = np.maximum(proportions(counts.sum(axis=0)), 0.0)
        expected = sizes[:, None] * overall
        variance = np.bincount(groups) * self.stddev**2 + expected * (1 - expected / max(float(sizes.sum()), 1.0))
        freedom = max((len(sizes) - 1) * (len(overall) - 1), 1)
        return float((((counts - expected) ** 2 / variance).sum() - freedom) / math.sqrt(2 * freedom))

    def parts_of(self, coarser: Merged) -> Whole:
        """Return which cell of a coarser merging each merged cell is a part of."""
        parts = np.zeros(self.merged.size, np.int64)
        parts[np.asarray(self.merged.groups)] = np.asarray(coarser.groups)
        return parts

    def informative_within(self, coarser: Merged, sizes: Floats) -> float:
        """Return the same statistic of what its cells tell beyond the coarser ones that they are parts of."""
        groups, parts = np.asarray(self.merged.groups), self.parts_of(coarser)
        counts = np.array([np.bincount(groups, weights=row) for row in self.counts])[sizes > 0]
        if not len(counts):
            # By the noisy counts no class has a row: nothing to tell apart.
            return -math.inf
        whole = np.array([np.bincount(parts, weights=row)[parts] for row in np.maximum(counts, 0.0)])
        share = whole / np.maximum(whole.sum(axis=0), 1e-9)
        total = np.maximum(counts.sum(axis=0), 0.0)
        noise, chance = np.bincount(groups) * self.stddev**2, share * total
        variance = np.maximum(noise + chance, 1e-9)
        # What a cell has of all classes is noisy, too, and follows from what the others of its part have.
        likely = noise * ((1 - share) ** 2 + (len(counts) - 1) * share**2) + chance * (1 - share)
        usual = float((likely / variance * (1 - 1 / np.bincount(parts)[parts])).sum())
        missed = (counts - share * total) ** 2 / variance
        return (float(missed.sum()) - usual) / math.sqrt(2 * max(usual, 1.0))

    def likelihood(self, fitting: Floats) -> Floats:
        """Return how likely a value fits in each class and merged cell, given which share of each fine cell does."""
        groups, count = np.asarray(self.merged.groups), self.merged.size
        inside = np.array([np.bincount(groups, weights=row, minlength=count) for row in self.given * fitting])
        return np.asarray(np.divide(inside, self.coarse, out=np.zeros_like(inside), where=inside > 0))

    def refined(self, coarse: Whole, group: Whole, rng: np.random.Generator, fitting: Floats | None = None) -> Whole:
        """Draw a fine cell for each merged one, by the share of it that fits."""
        classes, size = self.given.shape
        inside = np.zeros((classes, self.merged.size, size))
        given = self.given if fitting is None else self.given * fitting
        inside[:, np.asarray(self.merged.groups), np.arange(size)] = given
        return draw(inside.reshape(-1, size), group * self.merged.size + coarse, rng)
