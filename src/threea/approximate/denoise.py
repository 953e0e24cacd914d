"""From noisy counts to distributions, and draws from them: all of it post-processing."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from threea.table.cells import Bins, Cells

Floats = NDArray[np.float64]

_UNSEEN, _MOST_UNSEEN = 0.5, 0.02
"""Missing numbers are drawn at least as often as so many standard deviations of the noise, up to this share of rows."""
_STANDS_OUT, _MOST_HIDDEN = 3.0, 0.02
"""But not where fewer than so many standard deviations were counted, and these are no more than this share of rows."""


def proportions(counts: Floats) -> Floats:
    """Return the distribution nearest to noisy counts: shifted down together until what stays positive adds up.

    Cutting negative counts off at 0 would give the many empty cells of a long tail too much.

    Example:
        >>> proportions(np.array([70.0, 31.0, 2.0, -3.0])).round(4)
        array([0.69, 0.3 , 0.01, 0.  ])
    """
    total = counts.sum()
    if total <= 0:
        return np.full(len(counts), 1 / len(counts))
    ordered = np.sort(counts)[::-1]
    shifts = (np.cumsum(ordered) - total) / np.arange(1, len(counts) + 1)
    shift = shifts[np.flatnonzero(ordered > shifts)[-1]]
    nearest: Floats = np.maximum(counts - shift, 0.0) / np.maximum(counts - shift, 0.0).sum()
    return nearest


def shrunk(counts: Floats, expected: Floats, stddev: float) -> Floats:
    """Move noisy counts towards what is expected, all the way if they differ by no more than noise.

    Reference:
        James and Stein 1961.

    Example:
        >>> shrunk(np.array([12.0, 8.0]), np.array([10.0, 10.0]), stddev=5.0)
        array([10., 10.])
    """
    difference = counts - expected
    noise = max(counts.shape[-1] * stddev**2, 1e-300)
    signal = 1 - noise / np.maximum((difference**2).sum(axis=-1, keepdims=True), noise)
    moved: Floats = expected + signal * difference
    return moved


def without_phantoms(cells: Cells, counts: Floats, rows: float, stddev: float) -> Floats:
    """Return noisy counts by class, with no missing or other values where noise alone explains them.

    Only where the noise cannot hide many: see `with_missing`.

    Args:
        cells: A column's cells.
        counts: Noisy counts, a row for each class.
        rows: Noisy number of rows, in all classes.
        stddev: Of the noise on a count.

    Example:
        >>> from threea.table.cells import Categories
        >>> sex = Categories(column="sex", count=3, missing=True, other=True)
        >>> without_phantoms(sex, np.array([[700.0, 500.0, 4.0, -2.0]]), rows=1200.0, stddev=3.0)
        array([[700., 500.,   0.,   0.]])
    """
    seen = _STANDS_OUT * stddev * math.sqrt(len(counts))
    if seen > _MOST_HIDDEN * rows:
        return counts
    kept = counts.copy()
    kept[:, [cell for cell in cells.unlisted if counts[:, cell].sum() < seen]] = 0.0
    return kept


def with_missing(cells: Cells, given: Floats, rows: float, stddev: float) -> Floats:
    """Return distributions that have missing numbers, where the schema allows them and noise may hide many.

    A learner that never saw a missing number takes one for a 0.

    Args:
        cells: A column's cells.
        given: Its distribution in each class.
        rows: Noisy number of rows, in all classes.
        stddev: Of the noise on a count.

    Example:
        >>> age = Bins(column="age", edges=(0.0, 50.0, 100.0), missing=True)
        >>> with_missing(age, np.array([[0.5, 0.5, 0.0]]), rows=1000.0, stddev=20.0).round(3)
        array([[0.495, 0.495, 0.01 ]])
        >>> with_missing(age, np.array([[0.5, 0.5, 0.0]]), rows=50_000.0, stddev=20.0).round(3)
        array([[0.5, 0.5, 0. ]])
    """
    if not isinstance(cells, Bins) or not cells.missing:
        return given
    if _STANDS_OUT * stddev * math.sqrt(len(given)) <= _MOST_HIDDEN * rows:
        return given
    least = min(_UNSEEN * stddev / max(rows, 1.0), _MOST_UNSEEN)
    seen = np.column_stack([given[:, :-1], np.maximum(given[:, -1], least)])
    return np.asarray(seen / seen.sum(axis=1, keepdims=True))


def fitted(counts: Floats, left: Floats, right: Floats, stddev: float) -> Floats:
    """Return the joint distribution of two features that noisy counts tell of, with these margins.

    Args:
        counts: Noisy counts, one row for each cell of the left feature.
        left: The left feature's distribution.
        right: The right one's.
        stddev: Of the noise.
    """
    alone = np.outer(left, right)
    # In each row the right feature is what it is overall, unless the counts say more than noise would.
    joint = np.maximum(shrunk(counts, np.maximum(counts.sum(axis=1), 0.0)[:, None] * right, stddev), 0.0)
    joint = np.asarray(joint / max(float(joint.sum()), 1e-300) + 1e-6 * alone)
    for _ in range(20):
        joint *= np.divide(left, joint.sum(axis=1), out=np.zeros_like(left), where=left > 0)[:, None]
        joint *= np.divide(right, joint.sum(axis=0), out=np.zeros_like(right), where=right > 0)
    return joint


def grouped(cells: Cells, mass: Floats, most: int, least: float = 0.0) -> tuple[int, ...]:
    """Put cells together into at most `most` groups of about equal mass.

    Neighbouring bins go together; of listed values the lightest do. Special values and missing ones stay alone, if
    they weigh at least `least`; groups that weigh less are put together.

    Args:
        cells: A column's cells.
        mass: Their weights, adding up to any total.
        most: How many groups, special and missing values not counted; at least 2.
        least: Share of the total.

    Returns:
        The group of each cell.
    """
    share = proportions(mass)
    if isinstance(cells, Bins):
        groups = np.empty(cells.size, np.int64)
        first, count = len(cells.special), len(cells.edges) - 1
        room = max(most - first - cells.missing, 2)
        groups[first : first + count] = _neighbours(share[first : first + count], room)
        alone = np.r_[np.arange(first), np.arange(first + count, cells.size)]
        groups[alone] = room + np.arange(len(alone))
    else:
        groups = np.full(cells.size, min(cells.size, most) - 1)
        heaviest = np.argsort(-share, kind="stable")[: most - 1]
        groups[heaviest] = np.arange(len(heaviest))
    weight = np.bincount(groups, weights=share)
    light = np.flatnonzero(weight < least)
    groups[np.isin(groups, light[1:])] = light[0] if len(light) else 0
    return tuple(int(group) for group in np.unique(groups, return_inverse=True)[1])


def _neighbours(share: Floats, room: int) -> NDArray[np.int64]:
    """Return the group of each bin: at most `room` of neighbours, the heaviest of them as light as may be."""
    low, high = 0.0, float(share.sum())
    ends = np.cumsum(share)
    best = _filled(ends, high)
    while high - low > 1e-4 * max(ends[-1], 1e-300):
        middle = (low + high) / 2
        tried = _filled(ends, middle)
        low, high, best = (low, middle, tried) if tried[-1] < room else (middle, high, best)
    return best


def _filled(ends: Floats, most: float) -> NDArray[np.int64]:
    """Return groups of bins that are each filled up to a weight, from the first bin on."""
    groups = np.zeros(len(ends), np.int64)
    start = group = 0
    while start < len(ends):
        below = ends[start - 1] if start else 0.0
        stop = max(int(np.searchsorted(ends, below + most * (1 + 1e-9), side="right")), start + 1)
        groups[start:stop] = group
        start, group = stop, group + 1
    return groups


def draw(weights: Floats, row: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw a column for each entry of `row`, by the weights in that row; evenly from a row without any.

    Of all entries with the same row, as many get a column as its weight says, but for one or two: stratified sampling.
    """
    heavy = np.where(weights.sum(axis=1, keepdims=True) > 0, weights, 1.0)
    cumulative = np.cumsum(heavy, axis=1)
    ladder = (cumulative / cumulative[:, -1:] + np.arange(len(weights))[:, None]).ravel()
    drawn = _places(ladder, row + _stratified(row, rng)) - row * weights.shape[1]
    return np.asarray(np.clip(drawn, 0, weights.shape[1] - 1))


def _stratified(row: NDArray[np.int64], rng: np.random.Generator) -> Floats:
    """Return a number from 0 to 1 for each entry, one in each of as many equal parts as entries are the same."""
    shuffled = rng.permutation(len(row))
    order = shuffled[np.argsort(row[shuffled], kind="stable")]
    often = np.bincount(row)
    rank = np.arange(len(row)) - np.repeat(np.cumsum(often) - often, often)
    points = np.empty(len(row))
    points[order] = (rank + rng.random(len(row))) / often[row[order]]
    # Below 1, whatever is rounded: 1 would be the next row's.
    return np.minimum(points, np.nextafter(1.0, 0.0))


def _places(ladder: Floats, values: Floats) -> NDArray[np.int64]:
    """Return what `np.searchsorted(ladder, values, side="right")` does, of many values from 0 up, in less time.

    Which of equal stretches a value lies in grows with the value, so its place is among the rungs of its stretch.
    """
    stretches = 4 * len(ladder)
    if len(values) < stretches:
        return np.searchsorted(ladder, values, side="right")
    scale = (stretches - 1) / max(float(ladder[-1]), float(values.max()), 1e-300)
    below = np.bincount((ladder * scale).astype(np.int64), minlength=stretches).cumsum()
    stretch = (values * scale).astype(np.int64)
    places = np.where(stretch > 0, below[stretch - 1], 0)
    # Most stretches have at most one rung.
    behind = np.flatnonzero(places < below[stretch])
    behind = behind[ladder[places[behind]] <= values[behind]]
    places[behind] = np.searchsorted(ladder, values[behind], side="right")
    return places
