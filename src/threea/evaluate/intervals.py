"""Intervals for what an attack measures: shares, areas under the curve, and risk over a control set.

All are two-sided at `LEVEL`, and count persons: a person's rows are one piece of evidence. They say how large an effect
may be; whether there is one is decided by `pairs`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.95
Interval = tuple[float, float]
Vector = NDArray[np.float64]


def normal_quantile() -> float:
    """Return how many standard errors the interval reaches to each side."""
    from scipy.special import ndtri

    return float(ndtri((1 + LEVEL) / 2))


def figure(
    name: str, value: float, interval: Interval, how: str, baseline: float | None = None, p: float | None = None
) -> dict[str, Any]:
    """Return one measured number as plain data.

    Args:
        name: What it is.
        value: The estimate.
        interval: Where it may lie.
        how: How the interval was made.
        baseline: What a release that remembers nothing would give, if known or measured on the control rows.
        p: How likely it is so far above the baseline by chance; None if it decides nothing.
    """
    return {
        "name": name,
        "value": _plain(value),
        "interval": [_plain(interval[0]), _plain(interval[1])],
        "how": f"{how}, level {LEVEL:.0%}",
        "baseline": None if baseline is None else _plain(baseline),
        "decides": p is not None,
        "p": p,
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


def wilson(successes: float, trials: float) -> tuple[float, float]:
    """Return the middle and the half width of Wilson's interval (1927)."""
    z = normal_quantile()
    middle = (successes + z * z / 2) / (trials + z * z)
    half = z / (trials + z * z) * math.sqrt(successes * (trials - successes) / max(trials, 1) + z * z / 4)
    return middle, half


def effective(scores: Vector) -> float:
    """Return how many yes-or-no trials would tell the mean of persons' scores between 0 and 1 as precisely.

    Reference:
        Korn and Graubard (1998), Confidence intervals for proportions with small expected number of positive counts.

    Example:
        >>> effective(np.array([0.0, 1.0, 1.0, 0.0])), effective(np.array([0.5, 0.5]))
        (4.0, 2.0)
    """
    mean, variance = float(scores.mean()), float(scores.var())
    return len(scores) * mean * (1 - mean) / variance if variance > 1e-12 else float(len(scores))


def share(scores: Vector) -> tuple[float, Interval]:
    """Return the mean of persons' scores between 0 and 1: an exact interval at the effective number of trials."""
    trials, mean = effective(scores), float(scores.mean())
    return mean, clopper_pearson(mean * trials, trials)


def excess(train: Vector, control: Vector) -> tuple[float, Interval]:
    """Return how much higher the scores of training persons are than those of control persons.

    Reference:
        Newcombe (1998), Interval estimation for the difference between independent proportions, method 10; with
        effective numbers of trials.

    Example:
        >>> value, (low, high) = excess(np.ones(1000), np.zeros(1000))
        >>> value, bool(low > 0.98)
        (1.0, True)
    """
    one, other = float(train.mean()), float(control.mean())
    (middle, half), (base, width) = _wilsons(train, control)
    low = one - other - math.hypot(one - (middle - half), (base + width) - other)
    high = one - other + math.hypot((middle + half) - one, other - (base - width))
    return one - other, (max(low, -1.0), min(high, 1.0))


def risk(train: Vector, control: Vector) -> tuple[float, Interval]:
    """Return the share of what control persons leave to be won that the attack wins on training persons.

    Reference:
        Giomi, Boenisch, Wehmeyer, Tasnádi (2022), A unified framework for quantifying privacy risk in synthetic
        data, section 3: Wilson's estimates, with their errors propagated.
    """
    (attack, attack_error), (base, base_error) = _wilsons(train, control)
    value = (attack - base) / (1 - base)
    error = math.hypot(attack_error / (1 - base), base_error * (1 - attack) / (1 - base) ** 2)
    return min(max(value, 0.0), 1.0), (min(max(value - error, 0.0), 1.0), min(max(value + error, 0.0), 1.0))


def _wilsons(*sides: Vector) -> list[tuple[float, float]]:
    trials = [effective(side) for side in sides]
    return [wilson(float(side.mean()) * count, count) for side, count in zip(sides, trials, strict=True)]


def quantile(values: Vector, share: float) -> tuple[float, Interval]:
    """Return a quantile; its interval runs between order statistics and assumes nothing of the distribution."""
    from scipy.special import bdtr

    ordered, tail, count = np.sort(values), (1 - LEVEL) / 2, len(values)
    below = bdtr(np.arange(count), count, share)
    low, high = max(int(np.searchsorted(below, tail)) - 1, 0), int(np.searchsorted(below, 1 - tail))
    high = min(high, count - 1)
    return float(np.quantile(ordered, share)), (float(ordered[low]), float(ordered[high]))


def clustered_share(train: Vector, control: Vector) -> tuple[float, Interval]:
    """Return the share of votes for training persons, where the votes for one person are one piece of evidence.

    Args:
        train: How many votes each training person has.
        control: How many votes each control person has.

    Example:
        >>> clustered_share(np.array([50.0]), np.array([50.0]))[1] == clopper_pearson(1.0, 2.0)
        True
    """
    votes = np.concatenate([train, control])
    if not votes.any():
        return 0.5, (0.0, 1.0)
    trials = float(votes.sum() ** 2 / (votes**2).sum())
    value = float(train.sum() / votes.sum())
    return value, clopper_pearson(value * trials, trials)
