"""Which bins hold rows, and which hold noise alone: runs of neighbouring bins that noisy counts cannot tell apart.

A single empty bin often looks as if it held a row or two; a run of empty bins does not, and is emptied. So of a column
with ten different rates, or a code 999 far from all else, no values are drawn that nobody has.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from threea.table.cells import Bins, Cells

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

_EMPTY, _HELD = 2.0, 3.0
"""A run is empty if its rows are fewer than so many standard deviations of their noise: of all classes together, and of
each alone, so that a tail which only a rare class has is kept. Chosen."""


def runs(counts: Floats, stddev: float) -> Whole:
    """Return where each run of bins starts, for the least squares of noise and a price for every run.

    Args:
        counts: Noisy counts, a row for each class: all classes have the same runs.
        stddev: Of the noise.

    Example:
        >>> runs(np.array([[3.0, -2.0, 1.0, 90.0, 2.0, 60.0, 61.0]]), stddev=2.0)
        array([0, 3, 4, 5])

    Reference:
        Jackson et al. 2005, An algorithm for optimal partitioning of data on an interval.
    """
    classes, count = counts.shape
    # Silent noise is taken for very little.
    least = max(1e-6 * float(np.abs(counts).max(initial=0.0)), 1e-9)
    sums = np.pad(np.cumsum(counts, axis=1), ((0, 0), (1, 0))) / max(stddev, least)
    # A run within another costs two: the square sum of so many normal numbers exceeds that in one of `count`² cases.
    surely = 2 * math.log(count)
    price = (classes + 2 * math.sqrt(classes * surely) + 2 * surely) / 2
    best, before = np.zeros(count + 1), np.zeros(count + 1, np.int64)
    lengths = np.arange(count, 0, -1, dtype=np.float64)
    for end in range(1, count + 1):
        explained = ((sums[:, end, None] - sums[:, :end]) ** 2).sum(axis=0) / lengths[count - end :]
        costs = best[:end] - explained + price
        before[end] = np.argmin(costs)
        best[end] = costs[before[end]]
    starts = []
    while count > 0:
        count = int(before[count])
        starts.append(count)
    return np.array(starts[::-1], np.int64)


def emptied(cells: Cells, counts: Floats, stddev: float, existing: NDArray[np.bool_] | None = None) -> Floats:
    """Return noisy counts by class, 0 in runs of bins that noise alone explains.

    Args:
        cells: A column's cells.
        counts: Noisy counts, a row for each class.
        stddev: Of the noise.
        existing: Which classes there are: counts of others are noise alone. All of them if None.

    Example:
        >>> hours = Bins(column="hours", edges=tuple(map(float, range(8))), missing=False, whole=True)
        >>> emptied(hours, np.array([[3.0, -2.0, 1.0, 90.0, 2.0, 60.0, 61.0]]), stddev=2.0)
        array([[ 0.,  0.,  0., 90.,  0., 60., 61.]])
    """
    if not isinstance(cells, Bins):
        return counts
    first, bins = len(cells.special), len(cells.edges) - 1
    seen = counts[existing] if existing is not None and existing.any() else counts
    inside = seen[:, first : first + bins]
    starts = runs(inside, stddev)
    lengths = np.diff(starts, append=bins)
    held = np.add.reduceat(inside.sum(axis=0), starts) >= _EMPTY * stddev * np.sqrt(lengths * len(seen))
    held |= (np.add.reduceat(inside, starts, axis=1) >= _HELD * stddev * np.sqrt(lengths)).any(axis=0)
    special = seen[:, :first].sum(axis=0) >= _EMPTY * stddev * math.sqrt(len(seen))
    if not held.any() and not special.any():
        # Where nothing stands out there is nothing to go by.
        return counts
    kept = counts.copy()
    kept[:, first : first + bins][:, ~np.repeat(held, lengths)] = 0.0
    return kept
