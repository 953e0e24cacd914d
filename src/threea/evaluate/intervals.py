"""Intervals for what an attack measures: shares, quantiles, areas under the curve, and risk over a control set.

All are two-sided at `LEVEL`. An attack speaks up when an interval lies wholly above what rows that the release never
saw would give; `attacks` decides at most 17 such figures, each wrong upwards in one of 400 releases that remember
nothing, so all together in about 4 of 100.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.995
Interval = tuple[float, float]
Vector = NDArray[np.float64]


def normal_quantile() -> float:
    """Return how many standard errors the interval reaches to each side."""
    from scipy.special import ndtri

    return float(ndtri((1 + LEVEL) / 2))


def figure(
    name: str, value: float, interval: Interval, how: str, baseline: float | None = None, *, decides: bool = False
) -> dict[str, Any]:
    """Return one measured number as plain data.

    Args:
        name: What it is.
        value: The estimate.
        interval: Where it may lie.
        how: How the interval was made.
        baseline: What a release that remembers nothing would give, if known or measured on the control rows.
        decides: Whether an interval above the baseline is a sign of memory.
    """
    return {
        "name": name,
        "value": _plain(value),
        "interval": [_plain(interval[0]), _plain(interval[1])],
        "how": f"{how}, level {LEVEL:.1%}",
        "baseline": None if baseline is None else _plain(baseline),
        "decides": decides,
    }


def _plain(value: float) -> float:
    return round(float(value), 6)


def clopper_pearson(successes: float, trials: float, level: float = LEVEL) -> Interval:
    """Return the exact interval of a share; whole numbers are not required, so that effective counts can be given.

    Example:
        >>> clopper_pearson(0, 0)
        (0.0, 1.0)
    """
    from scipy.special import betaincinv

    tail = (1 - level) / 2
    low = float(betaincinv(successes, trials - successes + 1, tail)) if successes > 0 else 0.0
    high = float(betaincinv(successes + 1, trials - successes, 1 - tail)) if successes < trials else 1.0
    return low, high


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Return the middle and the half width of Wilson's interval (1927)."""
    z = normal_quantile()
    middle = (successes + z * z / 2) / (trials + z * z)
    half = z / (trials + z * z) * math.sqrt(successes * (trials - successes) / max(trials, 1) + z * z / 4)
    return middle, half


def excess(train: NDArray[np.bool_], control: NDArray[np.bool_]) -> tuple[float, Interval]:
    """Return how much more often an attack succeeds on training rows than on control rows, with its interval.

    Reference:
        Newcombe (1998), Interval estimation for the difference between independent proportions, method 10.

    Example:
        >>> value, (low, high) = excess(np.ones(1000, bool), np.zeros(1000, bool))
        >>> value, bool(low > 0.98)
        (1.0, True)
    """
    share, base = float(train.mean()), float(control.mean())
    (middle, half), (other, width) = (wilson(int(hits.sum()), len(hits)) for hits in (train, control))
    low = share - base - math.hypot(share - (middle - half), (other + width) - base)
    high = share - base + math.hypot((middle + half) - share, base - (other - width))
    return share - base, (max(low, -1.0), min(high, 1.0))


def risk(train: NDArray[np.bool_], control: NDArray[np.bool_]) -> tuple[float, Interval]:
    """Return the share of what control rows leave to be won that the attack wins on training rows.

    Reference:
        Giomi, Boenisch, Wehmeyer, Tasnádi (2022), A unified framework for quantifying privacy risk in synthetic
        data, section 3: Wilson's estimates, with their errors propagated.
    """
    (attack, attack_error), (base, base_error) = (wilson(int(hits.sum()), len(hits)) for hits in (train, control))
    value = (attack - base) / (1 - base)
    error = math.hypot(attack_error / (1 - base), base_error * (1 - attack) / (1 - base) ** 2)
    return min(max(value, 0.0), 1.0), (min(max(value - error, 0.0), 1.0), min(max(value + error, 0.0), 1.0))


def quantile(values: Vector, share: float) -> tuple[float, Interval]:
    """Return a quantile; its interval runs between order statistics and assumes nothing of the distribution."""
    from scipy.special import bdtr

    ordered, tail, count = np.sort(values), (1 - LEVEL) / 2, len(values)
    below = bdtr(np.arange(count), count, share)
    low, high = max(int(np.searchsorted(below, tail)) - 1, 0), int(np.searchsorted(below, 1 - tail))
    high = min(high, count - 1)
    return float(np.quantile(ordered, share)), (float(ordered[low]), float(ordered[high]))


def clustered_share(hits: NDArray[np.bool_], clusters: NDArray[np.int64]) -> tuple[float, Interval]:
    """Return a share of votes, where votes of one cluster are one piece of evidence.

    Reference:
        Korn and Graubard (1998): the exact interval at the effective number of votes.

    Example:
        >>> hits, nearest = np.array([True] * 50 + [False] * 50), np.repeat([1, 2], 50)
        >>> clustered_share(hits, nearest)[1] == clopper_pearson(1.0, 2.0)
        True
    """
    if not len(hits):
        return 0.5, (0.0, 1.0)
    votes = np.unique(clusters, return_counts=True)[1].astype(np.float64)
    effective = float(votes.sum() ** 2 / (votes**2).sum())
    value = float(hits.mean())
    return value, clopper_pearson(value * effective, effective)


def area(train: Vector, control: Vector) -> tuple[float, Interval]:
    """Return the probability that a training row scores higher than a control row (the AUC); ties count half.

    Reference:
        DeLong, DeLong, Clarke-Pearson (1988); the interval is made on the log-odds scale, as Qin and Hotilovac
        (2008) advise.

    Example:
        >>> area(np.array([3.0, 4.0]), np.array([1.0, 3.0]))[0]
        0.875
    """
    many, few = len(train), len(control)
    above, below = _outdone(train, control), 1 - _outdone(control, train)
    value = float(above.mean())
    if value in (0.0, 1.0):
        # Complete separation leaves no spread to measure: the exact bound of as many successes without a failure.
        bound = clopper_pearson(value * min(many, few), min(many, few))
        return value, bound
    error = math.sqrt(np.var(above, ddof=1) / many + np.var(below, ddof=1) / few)
    middle, reach = math.log(value / (1 - value)), normal_quantile() * error / (value * (1 - value))
    return value, (1 / (1 + math.exp(reach - middle)), 1 / (1 + math.exp(-reach - middle)))


def _outdone(scores: Vector, others: Vector) -> Vector:
    """Return the share of other scores that each score exceeds; ties count half."""
    ordered = np.sort(others)
    return (np.searchsorted(ordered, scores, "left") + np.searchsorted(ordered, scores, "right")) / (2 * len(ordered))
