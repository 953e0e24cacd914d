"""What the events of a release add up to, and how much noise a budget buys.

The parameters of a plan are fixed before its first answer, so ordinary composition holds even though later queries
may depend on earlier answers. Gaussian events are first merged in closed form (mu² adds up); what remains is composed
as privacy loss distributions by dp-accounting, rounded so that the true loss is never above the one reported.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from threea.anonymize.events import Event, Gaussian, NonPrivate, Pure, Sampled, Threshold, to_json
from threea.budget import Adjacency, Budget, epsilon_from
from threea.errors import SettingError

THRESHOLD_SHARE = 0.1
"""Share of a budget's delta that a plan's thresholds use up, if it has any."""
_GRID_POINTS = 20_000
_USED = 0.998
"""A plan that uses up this much of a budget's epsilon is good enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A line of a plan before it is priced.

    Args:
        name: What the step measures, in the recipe's words.
        weight: Its share of the budget, relative to the other steps.
        kind: The class of event it will charge: `Gaussian`, `Pure`, `Sampled` or `Threshold`.
        count: How many times it will be charged.
        rate: For `Sampled`, the probability with which a unit is in a sample.
    """

    name: str
    weight: float
    kind: type[Event] = Gaussian
    count: int = 1
    rate: float = 1.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.weight) and self.weight > 0):
            raise SettingError(f"weight ({self.weight}) of step {self.name} must be a positive number")
        if self.count < 1:
            raise SettingError(f"count ({self.count}) of step {self.name} must be at least 1")
        if not 0 < self.rate <= 1:
            raise SettingError(f"rate ({self.rate}) of step {self.name} must be > 0 and <= 1")


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


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything a release will spend, fixed before its first answer."""

    budget: Budget
    lines: tuple[Line, ...]
    recipe: str = ""
    """On whose behalf, for the ledger."""

    @classmethod
    def calibrate(cls, budget: Budget, steps: Sequence[Step], recipe: str = "") -> Plan:
        """Price steps so that together they use up a budget.

        Guarantees:
            - The accountant's epsilon for the plan's events, at the budget's delta, is at most the budget's epsilon.
            - It is at least 0.99 of it: no noise is added for nothing.

        Args:
            budget: What the steps may cost together.
            steps: What will be asked, with weights.
            recipe: On whose behalf, for the ledger.

        Raises:
            SettingError: No steps, or two of the same name.
        """
        names = [step.name for step in steps]
        if not steps or len(set(names)) != len(names):
            raise SettingError(f"steps ({names}) must be named, each name once")
        if all(step.kind is Gaussian for step in steps):
            return cls(budget, _price(steps, budget.mu, 0.0), recipe)
        thresholds = sum(step.count for step in steps if step.kind is Threshold)
        delta = THRESHOLD_SHARE * budget.delta / thresholds if thresholds else 0.0

        low, high, mu, growth = 0.0, math.inf, budget.mu, 1.0
        before: tuple[float, float] | None = None
        while high - low > 1e-3 * low:
            cost = epsilon_of(_price(steps, mu, delta), budget.delta, budget.adjacency)
            low, high = (mu, high) if cost <= budget.epsilon else (low, mu)
            if _USED * budget.epsilon <= cost <= budget.epsilon:
                break
            # Epsilon grows as a power of mu, the last two costs say which: a guess by it is soon near, halving is sure.
            if before and 0 < cost != before[1] < math.inf and cost < math.inf:
                growth = max(math.log(cost / before[1]) / math.log(mu / before[0]), 0.1)
            before = (mu, cost) if 0 < cost < math.inf else None
            guess = mu * ((1 + _USED) / 2 * budget.epsilon / cost) ** (1 / growth) if before else math.inf
            sure = (low + high) / 2 if high < math.inf else 2 * mu
            mu = guess if low * (1 + 1e-4) < guess < high * (1 - 1e-4) else sure
        return cls(budget, _price(steps, low, delta), recipe)

    def __getitem__(self, name: str) -> Charge:
        """Return what a knock for this line must present."""
        if all(line.name != name for line in self.lines):
            raise KeyError(name)
        return Charge(self, name)

    @property
    def epsilon(self) -> float:
        """What the accountant says of all lines, at the budget's delta."""
        return epsilon_of(self.lines, self.budget.delta, self.budget.adjacency)


@dataclass(frozen=True, slots=True)
class Charge:
    """A line of a plan, presented at the door. Knocking with it reserves the whole plan first."""

    plan: Plan
    name: str

    @property
    def line(self) -> Line:
        """The line of the plan."""
        return next(line for line in self.plan.lines if line.name == self.name)

    @property
    def event(self) -> Event:
        """The event that this charge pays for."""
        return self.line.event

    def expect(self, *kinds: type[Any]) -> Any:
        """Return the event that this charge pays for, or refuse the charge before it is paid.

        Raises:
            SettingError: The event is of none of these kinds.
        """
        if not isinstance(self.event, kinds):
            wanted = " or ".join(kind.__name__ for kind in kinds)
            raise SettingError(f"the charge pays for a {type(self.event).__name__} event; this needs {wanted}")
        return self.event


def _price(steps: Sequence[Step], mu: float, threshold_delta: float) -> tuple[Line, ...]:
    """Price steps so that, were all of them Gaussian, they would compose to mu-GDP."""
    total = math.fsum(step.weight for step in steps)

    def line(step: Step) -> Line:
        share = step.weight / total
        each = mu * math.sqrt(share / step.count)
        return Line(step.name, _event(step, each, threshold_delta), step.count, share)

    return tuple(line(step) for step in steps)


def _event(step: Step, mu: float, threshold_delta: float) -> Event:
    if step.kind is Gaussian:
        return Gaussian(1 / mu)
    if step.kind is Threshold:
        return Threshold(1 / mu, threshold_delta)
    if step.kind is Sampled:
        # A sample at rate q hides a unit about 1/q times better, so the same mu affords q times the noise.
        return Sampled(step.rate, step.rate / mu)
    if step.kind is Pure:
        # epsilon-DP costs at most epsilon²/2 of concentrated privacy, as does mu-GDP mu²/2.
        return Pure(mu)
    raise SettingError(f"step {step.name} cannot be planned as {step.kind.__name__}")


def epsilon_of(lines: Iterable[Line], delta: float, adjacency: Adjacency) -> float:
    """Return the epsilon at which the lines' events together are (epsilon, delta)-DP.

    Guarantees:
        - Never below the true privacy loss: every approximation is rounded up.

    Args:
        lines: What was or will be charged.
        delta: The delta to state it at.
        adjacency: Matters for `Sampled` only; the other events are already in units of the sensitivity.

    Returns:
        Epsilon, infinite if the rows were handed out or delta does not cover the thresholds.
    """
    return _epsilon_of(tuple(lines), delta, adjacency)


@lru_cache(maxsize=256)
def _epsilon_of(lines: tuple[Line, ...], delta: float, adjacency: Adjacency) -> float:
    if any(isinstance(line.event, NonPrivate) for line in lines):
        return math.inf
    delta -= math.fsum(line.event.delta * line.count for line in lines if isinstance(line.event, Threshold))
    if delta <= 0:
        return math.inf
    mu = math.sqrt(
        math.fsum(
            line.count / line.event.noise_multiplier**2
            for line in lines
            if isinstance(line.event, Gaussian | Threshold)
        )
    )
    others = [line for line in lines if isinstance(line.event, Pure | Sampled)]
    if not others:
        return epsilon_from(mu, delta) if mu else 0.0
    return _epsilon_of_pairs(mu, others, delta, adjacency)


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
