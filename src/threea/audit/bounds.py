"""From how often two tables are told apart to a lower bound on epsilon, with confidence.

A threshold on a statistic is chosen on the first half of the runs and judged on the second, so that choosing costs no
confidence. Error rates are bounded above by Clopper and Pearson's exact intervals, and then bound epsilon from below:

- **direct**: under (epsilon, delta)-DP every test has FPR * e^epsilon + FNR >= 1 - delta, and the same with the two
  rates exchanged (Kairouz, Oh and Viswanath 2015).
- **gaussian**: under mu-GDP, Phi^-1(1 - FPR) - Phi^-1(FNR) <= mu (Dong, Roth and Su 2019). It holds against a claim
  that is a Gaussian trade-off curve only, and is then much tighter: it reads epsilon off an error rate of 0.3, where
  the direct bound needs events as rare as epsilon is large.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from threea.budget import epsilon_from

Vector = NDArray[np.float64]

INTERVALS = 4
"""How many one-sided intervals one statistic takes: two error rates at each of two thresholds."""
_CANDIDATES = 64
_TINY = 1e-300


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A lower bound on epsilon, and the error rates it was read off.

    Args:
        epsilon: The lower bound.
        false_positives: The share of runs without the target that were taken for runs with it.
        false_positives_upper: Its upper confidence bound.
        false_negatives: The share of runs with the target that were taken for runs without it.
        false_negatives_upper: Its upper confidence bound.
    """

    epsilon: float
    false_positives: float
    false_positives_upper: float
    false_negatives: float
    false_negatives_upper: float


def upper_rate(errors: NDArray[np.int64] | int, trials: int, alpha: float) -> Vector:
    """Return the exact upper confidence bound on a probability (Clopper and Pearson 1934).

    Args:
        errors: How often it happened.
        trials: Out of how many.
        alpha: The probability with which the bound may be too low.

    Example:
        >>> upper_rate(0, 100, 0.05).round(4).item()
        0.0295
    """
    from scipy.special import betaincinv

    counts = np.asarray(errors, np.float64)
    upper: Vector = np.where(
        counts >= trials, 1.0, betaincinv(counts + 1, np.maximum(trials - counts, 1e-9), 1 - alpha)
    )
    return upper


def direct_epsilon(false_positives: Vector, false_negatives: Vector, delta: float) -> Vector:
    """Return the least epsilon at which (epsilon, delta)-DP allows two error rates; not above 0 if it always does.

    Example:
        >>> direct_epsilon(np.array(0.25), np.array(0.25), 0.0).round(4).item()  # log(0.75 / 0.25)
        1.0986
    """
    forward = np.maximum(1 - delta - false_negatives, _TINY) / false_positives
    backward = np.maximum(1 - delta - false_positives, _TINY) / false_negatives
    epsilon: Vector = np.log(np.maximum(forward, backward))
    return epsilon


def gaussian_mu(false_positives: Vector, false_negatives: Vector) -> Vector:
    """Return the least mu at which mu-GDP allows two error rates; not above 0 if it always does."""
    from scipy.special import ndtri

    mu: Vector = -ndtri(false_positives) - ndtri(false_negatives)
    return mu


def direct_bound(left: Vector, right: Vector, *, delta: float, alpha: float) -> Bound:
    """Bound epsilon from below by an event that one side shows and the other seldom does.

    Guarantees:
        - With probability at least 1 - 2 * alpha, epsilon is no more than the true one at this delta.

    Args:
        left: A statistic's values over independent runs on one table, in the order of the runs.
        right: Its values over as many runs on the other.
        delta: At which delta.
        alpha: The probability with which each error rate's bound may be too low.
    """
    chosen = _chosen(left, right, alpha, lambda fpr, fnr: direct_epsilon(fpr, fnr, delta))
    return _judged(left, right, chosen, alpha, lambda fpr, fnr: float(direct_epsilon(fpr, fnr, delta)))


def gaussian_bound(left: Vector, right: Vector, *, delta: float, alpha: float) -> Bound:
    """Bound epsilon from below through the Gaussian trade-off curve.

    Guarantees:
        - If the mechanism is mu-GDP for some mu, then with probability at least 1 - 2 * alpha epsilon is no more than
          that of the smallest such mu at this delta.

    Args:
        left: A statistic's values over independent runs on one table, in the order of the runs.
        right: Its values over as many runs on the other.
        delta: At which delta.
        alpha: The probability with which each error rate's bound may be too low.
    """

    def epsilon(false_positives: Vector, false_negatives: Vector) -> float:
        mu = float(gaussian_mu(false_positives, false_negatives))
        # Below this mu, epsilon is 0 at any delta of use, and the root finder has nothing to find.
        return epsilon_from(mu, delta) if mu > 1e-6 else 0.0

    return _judged(left, right, _chosen(left, right, alpha, gaussian_mu), alpha, epsilon)


def most_direct(trials: int, delta: float, alpha: float) -> float:
    """Return the direct bound of two tables that are always told apart: what so many runs can show at most."""
    rate = upper_rate(0, trials - trials // 2, alpha)
    return float(direct_epsilon(rate, rate, delta))


@dataclass(frozen=True, slots=True)
class _Rule:
    """Says "with the target" of a run whose value, times the sign, is at least the threshold."""

    sign: float
    threshold: float

    def accepts(self, values: Vector) -> NDArray[np.bool_]:
        accepted: NDArray[np.bool_] = self.sign * values >= self.threshold
        return accepted


def _chosen(left: Vector, right: Vector, alpha: float, gain: Callable[[Vector, Vector], Vector]) -> _Rule:
    """Return the rule that does best on the first half of the runs."""
    without, within = left[: len(left) // 2], right[: len(right) // 2]
    best, rule = -math.inf, _Rule(1.0, math.inf)
    for sign in (1.0, -1.0):
        pooled = np.unique(sign * np.concatenate([without, within]))
        places = np.linspace(0, len(pooled) - 1, min(len(pooled), _CANDIDATES)).round().astype(np.int64)
        thresholds = pooled[places]
        positives = len(without) - np.searchsorted(np.sort(sign * without), thresholds, side="left")
        negatives = np.searchsorted(np.sort(sign * within), thresholds, side="left")
        gains = gain(upper_rate(positives, len(without), alpha), upper_rate(negatives, len(within), alpha))
        top = int(np.argmax(gains))
        if gains[top] > best:
            best, rule = float(gains[top]), _Rule(sign, float(thresholds[top]))
    return rule


def _judged(
    left: Vector, right: Vector, rule: _Rule, alpha: float, epsilon: Callable[[Vector, Vector], float]
) -> Bound:
    """Judge a rule on the second half of the runs."""
    without, within = left[len(left) // 2 :], right[len(right) // 2 :]
    positives, negatives = int(rule.accepts(without).sum()), int((~rule.accepts(within)).sum())
    positives_upper = upper_rate(positives, len(without), alpha)
    negatives_upper = upper_rate(negatives, len(within), alpha)
    return Bound(
        epsilon=max(epsilon(positives_upper, negatives_upper), 0.0),
        false_positives=positives / len(without),
        false_positives_upper=float(positives_upper),
        false_negatives=negatives / len(within),
        false_negatives_upper=float(negatives_upper),
    )
