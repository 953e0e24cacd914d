"""How many rows there are in each class, and which classes there are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Plan
from threea.anonymize.query import Count, Marginal
from threea.approximate.denoise import grouped, proportions
from threea.model_summary import Histogram
from threea.table.cells import Bins, Categories, Cells, Merged

Floats = NDArray[np.float64]

CLASSES = "rows per class"
"""The plan's line that pays for it."""
RARE = 5.0
"""Of two classes, one counts for a teacher as at most this many times the other. Chosen (credit, LightGBM on three
splits: AUC .970 with 5, .939 with 20)."""
RARE_OF_MANY = 20.0
"""The same of more than two classes: frequent ones have one another to be told from, under the same noise. Chosen on
half of the splits of diabetes130 (log loss of the teacher .90 with 5, .88 with 20 and 40)."""
RARE_CELLS = 20.0
"""The same where cells are chosen, of any classes: a frequent one can tell of its own features as finely as its
rows allow. Chosen."""
RANGES = 12
"""Ranges of a numeric target. Chosen."""
_STANDS_OUT = 2.0
"""Cells of a numeric target with fewer rows than so many standard deviations of the noise count as empty. Chosen: a few
rows too many in a long tail are worth more to a regression than all others."""


@dataclass(frozen=True, slots=True)
class RowCounts:
    """How many private rows there are, and how many by the target's cells: noisy, and not moved to be drawn from.

    Args:
        rows: The noisy number of rows.
        rows_stddev: Of the noise on it.
        target: Noisy counts of the target's cells; None without a target.
    """

    rows: float
    rows_stddev: float
    target: Histogram | None

    @classmethod
    def told_by(cls, label: Merged | None, spread: Floats, sizes: Floats, stddev: float) -> RowCounts:
        """Read them off the rows per class, where that is all that is known: of a model file of before, say."""
        target = None if label is None else Histogram(label.cells, sizes @ spread, stddev)
        noise = stddev * math.sqrt(label.cells.size if label else 1)
        return cls(float(sizes.sum()), noise, target)

    @property
    def histograms(self) -> dict[str, Histogram]:
        """The target's, by its name."""
        return {self.target.cells.column: self.target} if self.target else {}


@dataclass(frozen=True, slots=True)
class CountedLabel:
    """The target's noisy counts, and the classes that they are put together into.

    Args:
        label: The classes: the target's cells, or ranges of a number; None without a target.
        spread: The target's distribution over its cells, in each class.
        sizes: Noisy number of rows per class; a number's cells of noise alone count as empty.
        counts: Noisy number of rows in each of the target's cells, as they were answered.
        stddev: Of the noise on each.
    """

    label: Merged | None
    spread: Floats
    sizes: Floats
    counts: Floats
    stddev: float

    @property
    def cells(self) -> Cells | None:
        """The target's; None without a target."""
        return self.label.cells if self.label else None

    def combined(self, tables: Sequence[Floats] = (), stddev: float = 0.0) -> tuple[Floats, RowCounts]:
        """Return the rows per class as all answers tell them, each by its precision, and how many rows there are.

        Classes of noise alone have none. What is said of the number of rows and of the target's cells is not moved so:
        only then is its noise what it is said to be.

        Args:
            tables: Noisy counts of the features, a row for each class.
            stddev: Of the noise on these.
        """
        variances = np.array([self.stddev**2, *(counts.shape[1] * stddev**2 for counts in tables)])
        answers = np.array([self.sizes, *(counts.sum(axis=1) for counts in tables)])
        precision = 1 / variances
        told, noise = precision @ answers / precision.sum(), 1 / math.sqrt(precision.sum())
        sizes = existing(self.cells, np.maximum(told, 0.0), noise)
        # A number's range has the noise of all its cells, and each of the other tables that of all classes.
        totals = np.array([self.counts.sum(), *answers[1:].sum(axis=1)])
        exact = 1 / (variances * np.array([len(self.counts), *(len(self.sizes) for _ in tables)]))
        target = None
        if self.cells is not None:
            by_class = isinstance(self.cells, Categories)
            target = Histogram(self.cells, told if by_class else self.counts, noise if by_class else self.stddev)
        return sizes, RowCounts(float(exact @ totals / exact.sum()), 1 / math.sqrt(exact.sum()), target)


def counted_label(table: PrivateTable, plan: Plan, ranges: int = RANGES) -> CountedLabel:
    """Count the rows per class; a number's classes are so many ranges that hold about equally many."""
    schema, stddev = table.schema, table.stddev(Count(), plan[CLASSES])
    if schema.target is None:
        counts = table.measure(Count(), plan[CLASSES]).value.reshape(1)
        return CountedLabel(None, np.ones((1, 1)), counts, counts, stddev)
    cells = schema[schema.target].cells(64)
    answered = counts = table.measure(Marginal((cells,)), plan[CLASSES]).value
    groups = tuple(range(cells.size))
    if isinstance(cells, Bins):
        kept = np.where(counts > _STANDS_OUT * stddev, counts, 0.0)
        counts = kept if kept.any() else counts
        groups = grouped(cells, counts, ranges)
    label = Merged(cells=cells, groups=groups)
    spread = np.zeros((label.size, cells.size))
    for group in range(label.size):
        inside = np.asarray(groups) == group
        spread[group, inside] = proportions(counts[inside])
    sizes = np.asarray(np.bincount(groups, weights=counts), np.float64)
    return CountedLabel(label, spread, sizes, answered, stddev)


def existing(label: Cells | None, sizes: Floats, stddev: float) -> Floats:
    """Return the rows per class, none in listed classes that noise alone explains, but for the two largest.

    A handful of rows of a class that does not exist can throw a learner off.

    Args:
        label: The target's cells, one for each class unless they are ranges of a number; None without a target.
        sizes: Noisy number of rows per class.
        stddev: Of the noise on it.

    Example:
        >>> from threea.table.cells import Categories
        >>> existing(Categories(column="y", count=3, missing=True), np.array([70.0, 2.0, 40.0, -1.0]), stddev=5.0)
        array([70.,  0., 40.,  0.])
    """
    if label is None or isinstance(label, Bins) or len(sizes) < 2:
        return sizes
    return np.where(sizes >= min(3 * stddev, np.sort(sizes)[-2]), sizes, 0.0)


def balanced(label: Merged | None, sizes: Floats, stddev: float, most: float = RARE) -> Floats:
    """Return rows per class, none counted as more than `most` times the rarest that stands out from the noise.

    A number's ranges are not rebalanced: its distribution is part of the task.
    """
    if label is None or isinstance(label.cells, Bins):
        return np.maximum(sizes, 0.0) if (sizes > 0).any() else np.ones_like(sizes)
    seen = sizes[sizes > 3 * stddev]
    return np.minimum(sizes, most * seen.min()) if len(seen) else np.maximum(sizes, 1.0)
