"""How many rows there are in each class, and which classes there are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Plan
from threea.anonymize.query import Count, Marginal
from threea.approximate.denoise import grouped, proportions
from threea.table.cells import Bins, Cells, Merged

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


def counted_label(table: PrivateTable, plan: Plan, ranges: int = RANGES) -> tuple[Merged | None, Floats, Floats]:
    """Count the rows per class; a number's classes are so many ranges that hold about equally many."""
    schema = table.schema
    if schema.target is None:
        return None, np.ones((1, 1)), table.measure(Count(), plan[CLASSES]).value.reshape(1)
    cells = schema[schema.target].cells(64)
    counts = table.measure(Marginal((cells,)), plan[CLASSES]).value
    groups = tuple(range(cells.size))
    if isinstance(cells, Bins):
        kept = np.where(counts > _STANDS_OUT * counted_stddev(table, plan), counts, 0.0)
        counts = kept if kept.any() else counts
        groups = grouped(cells, counts, ranges)
    label = Merged(cells=cells, groups=groups)
    spread = np.zeros((label.size, cells.size))
    for group in range(label.size):
        inside = np.asarray(groups) == group
        spread[group, inside] = proportions(counts[inside])
    return label, spread, np.asarray(np.bincount(groups, weights=counts), np.float64)


def counted_stddev(table: PrivateTable, plan: Plan) -> float:
    """Return the noise on the number of rows per class."""
    return table.stddev(Count(), plan[CLASSES])


def combined(
    label: Merged | None, counted: Floats, stddev: float, tables: Sequence[Floats], table_stddev: float
) -> Floats:
    """Return the rows per class as all answers tell them, each by its precision; classes of noise alone have none."""
    answers = np.array([counted, *(counts.sum(axis=1) for counts in tables)])
    precision = 1 / np.array([stddev**2, *(counts.shape[1] * table_stddev**2 for counts in tables)])
    sizes: Floats = np.maximum((precision[:, None] * answers).sum(axis=0) / precision.sum(), 0.0)
    return existing(label.cells if label else None, sizes, 1 / float(np.sqrt(precision.sum())))


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
