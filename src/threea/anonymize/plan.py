"""A plan: everything a release will ask, priced before its first answer.

The parameters of a plan are fixed before its first answer, so ordinary composition holds even though later queries
may depend on earlier answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from threea.anonymize.accountant import Line, epsilon_of
from threea.anonymize.events import Event, Gaussian, PartitionSelection, Pure, Sampled
from threea.budget import Budget
from threea.errors import SettingError

PARTITION_SELECTION_SHARE = 0.1
"""Share of a budget's delta that a plan's thresholds use up, if it has any."""
_USED = 0.998
"""A plan that uses up this much of a budget's epsilon is good enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A line of a plan before it is priced.

    Args:
        name: What the step measures, in the recipe's words.
        weight: Its share of the budget, relative to the other steps.
        kind: The class of event it will charge: `Gaussian`, `Pure`, `Sampled` or `PartitionSelection`.
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
        if not budget.delta:
            return cls(budget, _price_pure(steps, budget.epsilon), recipe)
        if all(step.kind is Gaussian for step in steps):
            return cls(budget, _price(steps, budget.mu, 0.0), recipe)
        thresholds = sum(step.count for step in steps if step.kind is PartitionSelection)
        delta = PARTITION_SELECTION_SHARE * budget.delta / thresholds if thresholds else 0.0

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

    def part(self, prefix: str) -> Plan:
        """Return the lines whose names begin so, by the rest of their names; what they charge is this plan's."""
        own = (line for line in self.lines if line.name.startswith(prefix))
        return _Part(
            self.budget,
            tuple(replace(line, name=line.name.removeprefix(prefix)) for line in own),
            self.recipe,
            whole=self,
            prefix=prefix,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part(Plan):
    """Some lines of a plan under shorter names. Whoever pays from it pays from the whole."""

    whole: Plan
    prefix: str

    def __getitem__(self, name: str) -> Charge:
        return self.whole[f"{self.prefix}{name}"]


@dataclass(frozen=True, slots=True)
class Charge:
    """A line of a plan, presented at the door. Knocking with it reserves the whole plan first.

    Args:
        plan: What is paid from.
        name: Which line.
        units: How many of the line's charges are paid at once, for one answer.
    """

    plan: Plan
    name: str
    units: int = 1

    def times(self, units: int) -> Charge:
        """Return a charge of so many units: an answer with as much less noise.

        Of a Gaussian line alone: its units together are one Gaussian event, since mu² adds up. How the planned units
        are spent may so follow from earlier answers; how many there are may not.

        Raises:
            SettingError: Less than one, or the line is not Gaussian.
        """
        if not isinstance(units, int) or units < 1:
            raise SettingError(f"units ({units}) of a charge must be a whole number, at least 1")
        if units > 1 and not isinstance(self.line.event, Gaussian):
            raise SettingError(f"units ({units}) of line {self.name} must be 1: only Gaussian charges add up to one")
        return replace(self, units=units)

    @property
    def line(self) -> Line:
        """The line of the plan."""
        return next(line for line in self.plan.lines if line.name == self.name)

    @property
    def event(self) -> Event:
        """The event that this charge pays for, all its units together."""
        event = self.line.event
        if self.units > 1 and isinstance(event, Gaussian):
            return Gaussian(event.noise_multiplier / math.sqrt(self.units))
        return event

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


def _price_pure(steps: Sequence[Step], epsilon: float) -> tuple[Line, ...]:
    """Price steps so that their epsilons add up, each by its weight: without a delta there is no other noise."""
    for step in steps:
        if step.kind is PartitionSelection:
            raise SettingError("delta (0) cannot pay for finding the schema; give a schema, or a delta such as 1e-6")
        if step.kind is not Pure:
            remedy = "set noise=laplace in a recipe that has it, or give a delta such as 1e-6"
            raise SettingError(f"delta (0) affords no Gaussian noise, which {step.name} has; {remedy}")
    total = math.fsum(step.weight for step in steps)
    # Rounded down, so that the sum is not above epsilon.
    return tuple(
        Line(step.name, Pure(epsilon * (share := step.weight / total) / step.count * (1 - 1e-14)), step.count, share)
        for step in steps
    )


def _event(step: Step, mu: float, threshold_delta: float) -> Event:
    if step.kind is Gaussian:
        return Gaussian(1 / mu)
    if step.kind is PartitionSelection:
        return PartitionSelection(1 / mu, threshold_delta)
    if step.kind is Sampled:
        # A sample at rate q hides a unit about 1/q times better, so the same mu affords q times the noise.
        return Sampled(step.rate, step.rate / mu)
    if step.kind is Pure:
        # epsilon-DP costs at most epsilon²/2 of concentrated privacy, as does mu-GDP mu²/2.
        return Pure(mu)
    raise SettingError(f"step {step.name} cannot be planned as {step.kind.__name__}")
