"""A privacy budget as a value, and the closed forms of Gaussian differential privacy.

mu-GDP (Dong, Roth and Su 2019) is the privacy of telling N(0, 1) from N(mu, 1). Gaussian sums compose in it exactly:
mu² adds up. So a budget (epsilon, delta) is turned into mu once, shared out by weights, and turned back.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from threea.errors import SettingError

LEAST_EPSILON, MOST_EPSILON, LEAST_DELTA = 1e-5, 1e6, 1e-15
"""Within these, the closed forms below were compared with 60-digit arithmetic."""


class Adjacency(StrEnum):
    """Which two tables count as neighbours."""

    ADD_REMOVE = "add-remove"
    """One has a privacy unit more than the other."""
    REPLACE = "replace"
    """Equally many units, one of them differs."""


def check_epsilon(epsilon: float) -> None:
    """Refuse an epsilon that is no privacy budget.

    Raises:
        SettingError: Unless it is a number within the range whose arithmetic was checked.
    """
    if not _is_number(epsilon) or not LEAST_EPSILON <= epsilon <= MOST_EPSILON:
        bounds = f"from {LEAST_EPSILON:g} to {MOST_EPSILON:g}"
        raise SettingError(f"epsilon ({epsilon}) must be a number > 0, {bounds}; 1 is a common choice")


def check_delta(delta: float) -> None:
    """Refuse a delta that is no privacy budget.

    Raises:
        SettingError: Unless it is 0, or a number within the range whose arithmetic was checked.
    """
    if not _is_number(delta) or not (delta == 0 or LEAST_DELTA <= delta < 1):
        advice = "choose well under one in the number of rows, such as 1e-6, or 0 for pure epsilon"
        raise SettingError(f"delta ({delta}) must be 0, or from {LEAST_DELTA:g} to below 1; {advice}")


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class Budget:
    """What a release may cost at most: (epsilon, delta)-differential privacy under an adjacency.

    Args:
        epsilon: Bound on the privacy loss, > 0.
        delta: Probability with which the bound may fail, in [0, 1). With 0, pure epsilon-differential privacy, nothing
            but Laplace noise and private choices can be afforded.
        adjacency: ``add-remove`` (default) or ``replace``.

    Raises:
        SettingError: A value is outside its bounds.

    Example:
        >>> Budget(1.0, 1e-5).mu
        0.2680...
        >>> [round(part.mu ** 2, 4) for part in Budget(1.0, 1e-5).split([3, 1])]
        [0.0539, 0.018]
    """

    epsilon: float
    delta: float = 1e-6
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)
        try:
            object.__setattr__(self, "adjacency", Adjacency(self.adjacency))
        except ValueError:
            raise SettingError(f"adjacency ({self.adjacency}) must be add-remove or replace") from None

    @property
    def mu(self) -> float:
        """The mu of Gaussian differential privacy that this budget affords; none without a delta."""
        return mu_from(self.epsilon, self.delta) if self.delta else 0.0

    def split(self, weights: Sequence[float]) -> tuple[Budget, ...]:
        """Share the budget out by weights.

        Guarantees:
            - The parts, spent on Gaussian mechanisms, compose to the whole: their mu² add up to this mu². Without a
              delta their epsilons do.
            - Every part is stated at this budget's delta.

        Args:
            weights: Positive numbers; a part's mu² is its share of the sum.

        Raises:
            SettingError: A weight is not a positive number, or leaves too little.
        """
        if not weights or not all(math.isfinite(weight) and weight > 0 for weight in weights):
            raise SettingError(f"weights ({list(weights)}) must be positive numbers")
        shares = [weight / math.fsum(weights) for weight in weights]
        if self.delta:
            parts = [epsilon_from(self.mu * math.sqrt(share), self.delta) for share in shares]
        else:
            parts = [self.epsilon * share * (1 - 1e-15) for share in shares]
        if min(parts) < LEAST_EPSILON:
            raise SettingError(f"weights ({list(weights)}) leave a part too small; make them more even")
        return tuple(Budget(part, self.delta, self.adjacency) for part in parts)


def delta_from(mu: float, epsilon: float) -> float:
    """Return the delta of mu-GDP at epsilon (Dong, Roth and Su 2019, Corollary 2.13); epsilon may be negative.

    Example:
        >>> f"{delta_from(0.2880, 1.0):.2e}"
        '3.07e-05'
    """
    left, right = -epsilon / mu + mu / 2, -epsilon / mu - mu / 2
    return max(math.erfc(-left / _ROOT) / 2 - min(_shifted_tail(epsilon, left, right), 1.0), 0.0)


def _shifted_tail(epsilon: float, left: float, right: float) -> float:
    """Return e^epsilon times the normal tail below `right`, where neither factor alone may be a number."""
    depth = -right / _ROOT
    if depth < _DEEP:
        tail = math.erfc(depth) / 2
        return math.exp(epsilon) * tail if epsilon < _DEEP**2 else math.exp(epsilon + math.log(tail))
    # The tail is its density times Mills' ratio, and e^epsilon times the density at `right` is the density at `left`.
    ratio, term = 0.0, 1.0
    for order in range(1, 10):
        ratio += term
        term *= -(2 * order - 1) / (2 * depth**2)
    return math.exp(-(left**2) / 2) * ratio / (2 * depth * math.sqrt(math.pi))


_ROOT = math.sqrt(2)
_DEEP = 25.0
"""From here on nine terms of Mills' ratio's asymptotic series are exact to the last digit."""


def epsilon_from(mu: float, delta: float) -> float:
    """Return the epsilon of mu-GDP at delta, rounded up by 5e-10 relative."""
    return least_epsilon(lambda epsilon: delta_from(mu, epsilon), delta)


def least_epsilon(delta_at: Callable[[float], float], delta: float) -> float:
    """Return the epsilon from which on a falling curve of deltas is at most delta, rounded up by 5e-10 relative."""
    if delta_at(0.0) <= delta:
        return 0.0
    upper = 1.0
    while delta_at(upper) > delta:
        upper *= 2
    return _crossing(lambda epsilon: delta_at(epsilon) <= delta, upper)[1] * (1 + 5e-10)


def mu_from(epsilon: float, delta: float) -> float:
    """Return the largest mu whose Gaussian mechanism is (epsilon, delta)-DP, rounded down by 1e-9 relative.

    Example:
        >>> round(mu_from(1, 1 / 32561), 4), round(mu_from(10, 1 / 32561), 4)
        (0.288, 2.0893)
    """
    upper = 1.0
    while delta_from(upper, epsilon) < delta:
        upper *= 2
    return _crossing(lambda mu: delta_from(mu, epsilon) > delta, upper)[0] * (1 - 1e-9)


def choice_range(mu: float) -> float:
    """Return how far apart the privacy losses of a choice may lie for it to be mu-GDP, rounded down by 1e-12 relative.

    The exponential mechanism's losses lie within such a range; 2 ln(Phi(mu/2) / Phi(-mu/2)) is the widest that mu-GDP
    covers. Proof: docs/proofs/exponential-mechanism.md.

    Example:
        >>> round(choice_range(0.5), 4), round(choice_range(80.0), 1)
        (0.8002, 1609.2)
    """
    half = mu / 2
    if half < 5:
        # Phi(x) - Phi(-x) is erf(x / sqrt(2)), and ln((1+e) / (1-e)) is twice the inverse hyperbolic tangent of e.
        odds = 2 * math.atanh(math.erf(half / _ROOT))
    elif half < _DEEP:
        odds = math.log1p(-math.erfc(half / _ROOT) / 2) - math.log(math.erfc(half / _ROOT) / 2)
    else:
        # The tail is at most its density over x.
        odds = half**2 / 2 + math.log(half * math.sqrt(2 * math.pi))
    return 2 * odds * (1 - 1e-12)


def _crossing(beyond: Callable[[float], bool], upper: float) -> tuple[float, float]:
    """Return two numbers next to one another, to 13 digits, between which a question's answer turns to yes."""
    low, high = 0.0, upper
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if beyond(middle) else (middle, high)
    return low, high
