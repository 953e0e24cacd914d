"""What the events of a release add up to.

Gaussian events are first merged in closed form (mu² adds up). Pure ones are randomized responses at worst, whose losses
are few numbers: with them, too, the whole has a closed form. What remains, samples, is composed as privacy loss
distributions by dp-accounting, rounded so that the true loss is never above the one reported.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from threea.anonymize.events import Event, Gaussian, NonPrivate, PartitionSelection, Pure, Sampled, to_json
from threea.budget import Adjacency, delta_from, epsilon_from, least_epsilon
from threea.errors import SettingError

_GRID_POINTS = 20_000
_MOST_LOSSES = 4_096
"""Pure events with more losses than this are composed on a grid."""


@dataclass(frozen=True, slots=True)
class Line:
    """A priced line of a plan: the event it charges, `count` times."""

    name: str
    event: Event
    count: int = 1
    share: float = 0.0
    """Share of the budget, in mu², for display."""

    def __post_init__(self) -> None:
        if not isinstance(self.count, int) or self.count < 1:
            raise SettingError(f"count ({self.count}) of line {self.name} must be a whole number, at least 1")

    def to_json(self) -> dict[str, Any]:
        """Return the line as plain JSON data."""
        return {"name": self.name, **to_json(self.event), "count": self.count}


def epsilon_of(lines: Iterable[Line], delta: float, adjacency: Adjacency) -> float:
    """Return the epsilon at which the lines' events together are (epsilon, delta)-DP.

    Guarantees:
        - Never below the true privacy loss: every approximation is rounded up.

    Args:
        lines: What was or will be charged.
        delta: The delta to state it at.
        adjacency: Matters for `Sampled` only; the other events are already in units of the sensitivity.

    Returns:
        Epsilon, infinite if the rows were handed out or delta does not cover the thresholds. At delta 0, the sum of the
        pure events' epsilons, infinite if there are others.
    """
    return _epsilon_of(tuple(lines), delta, adjacency)


@lru_cache(maxsize=256)
def _epsilon_of(lines: tuple[Line, ...], delta: float, adjacency: Adjacency) -> float:
    if any(isinstance(line.event, NonPrivate) for line in lines):
        return math.inf
    if delta == 0 and all(isinstance(line.event, Pure) for line in lines):
        return math.fsum(line.event.epsilon * line.count for line in lines if isinstance(line.event, Pure))
    delta -= math.fsum(line.event.delta * line.count for line in lines if isinstance(line.event, PartitionSelection))
    if delta <= 0:
        return math.inf
    mu = math.sqrt(
        math.fsum(
            line.count / line.event.noise_multiplier**2
            for line in lines
            if isinstance(line.event, Gaussian | PartitionSelection)
        )
    )
    others = [line for line in lines if isinstance(line.event, Pure | Sampled)]
    if not others:
        return epsilon_from(mu, delta) if mu else 0.0
    if all(isinstance(line.event, Pure) for line in others) and _losses(others) <= _MOST_LOSSES:
        return _epsilon_of_choices(mu, others, delta)
    return _epsilon_of_pairs(mu, others, delta, adjacency)


def _losses(lines: Sequence[Line]) -> int:
    return math.prod(line.count + 1 for line in lines)


def _epsilon_of_choices(mu: float, lines: Sequence[Line], delta: float) -> float:
    """Compose randomized responses and one Gaussian exactly.

    The loss of the responses is one of finitely many numbers, independent of the Gaussian's. So delta at epsilon is the
    mean, over these, of the Gaussian's delta at epsilon less that number.
    """
    masses = [(1.0, 0.0)]
    for line in lines:
        assert isinstance(line.event, Pure)
        masses = [(m * p, loss + more) for m, loss in masses for p, more in _responses(line.event.epsilon, line.count)]

    def delta_at(epsilon: float) -> float:
        return math.fsum(mass * _delta_beyond(mu, epsilon - loss) for mass, loss in masses if mass)

    # Probabilities and deltas are off by less than this.
    return least_epsilon(delta_at, delta * (1 - 1e-11))


def _delta_beyond(mu: float, epsilon: float) -> float:
    """Return the delta of mu-GDP at epsilon; without a Gaussian, of a loss of 0."""
    if mu:
        return delta_from(mu, epsilon)
    return -math.expm1(epsilon) if epsilon < 0 else 0.0


def _responses(epsilon: float, count: int) -> list[tuple[float, float]]:
    """Return probability and value of each loss of `count` randomized responses."""
    log_true, log_false = -math.log1p(math.exp(-epsilon)), -epsilon - math.log1p(math.exp(-epsilon))
    whole = math.lgamma(count + 1)
    return [
        (
            math.exp(
                whole
                - math.lgamma(lies + 1)
                - math.lgamma(count - lies + 1)
                + (count - lies) * log_true
                + lies * log_false
            ),
            (count - 2 * lies) * epsilon,
        )
        for lies in range(count + 1)
    ]


def _epsilon_of_pairs(mu: float, lines: Sequence[Line], delta: float, adjacency: Adjacency) -> float:
    """Compose the dominating pairs of all events as privacy loss distributions."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    # A grid that grows with the losses keeps time and memory bounded at any epsilon; coarser only rounds up more.
    grid = _widest_loss(mu, lines) / _GRID_POINTS
    total = pld.identity(value_discretization_interval=grid)
    if mu:
        total = total.compose(pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=grid))
    for line in lines:
        total = total.compose(_pair(line.event, adjacency, grid).self_compose(line.count))
    return float(total.get_epsilon_for_delta(delta))


def _pair(event: Event, adjacency: Adjacency, grid: float) -> Any:
    """Return the privacy loss distribution of an event's dominating pair."""
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import privacy_loss_distribution as pld

    if isinstance(event, Pure):
        # Every epsilon-DP mechanism is a post-processing of this one (Kairouz, Oh and Viswanath 2015).
        flip = 2 / (1 + math.exp(event.epsilon))
        return pld.from_randomized_response(flip, 2, value_discretization_interval=grid)
    assert isinstance(event, Sampled)
    replace = adjacency is Adjacency.REPLACE
    return pld.from_gaussian_mechanism(
        event.noise_multiplier,
        sampling_prob=event.rate,
        value_discretization_interval=grid,
        neighboring_relation=(NeighboringRelation.REPLACE_ONE if replace else NeighboringRelation.ADD_OR_REMOVE_ONE),
    )


def _widest_loss(mu: float, lines: Sequence[Line]) -> float:
    """Estimate the range of privacy losses, far into the tails, that the grid is to cover."""
    tails = 11.0
    widest = mu * tails + mu**2
    for line in lines:
        if isinstance(line.event, Pure):
            widest += line.event.epsilon * min(line.count, tails * math.sqrt(line.count))
        elif isinstance(line.event, Sampled):
            each, bare = 2 * line.event.rate / line.event.noise_multiplier, 1 / line.event.noise_multiplier
            widest += max(tails * each * math.sqrt(line.count) + each**2 * line.count, tails * bare + bare**2 / 2)
    return widest
