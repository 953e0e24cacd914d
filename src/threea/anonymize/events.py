"""What a look at the rows cost, as data.

An event describes the pair of output distributions that is hardest to tell apart over all neighbouring tables, in
units where the query's sensitivity is 1. It never changes meaning; `accountant` interprets it.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from threea.errors import SettingError

_LEAST_NOISE, _MOST_NOISE = 1e-6, 1e9
"""Less noise would show the grid, and more would leave the int64 range."""


def _check(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise SettingError(f"{name} ({value}) of an event must be from {least:g} to {most:g}")


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Gaussian noise on a sum: N(0, s²) against N(1, s²).

    Args:
        noise_multiplier: s, the noise's standard deviation over the sum's L2 sensitivity.
    """

    noise_multiplier: float

    def __post_init__(self) -> None:
        _check("noise_multiplier", self.noise_multiplier, _LEAST_NOISE, _MOST_NOISE)


@dataclass(frozen=True, slots=True)
class Pure:
    """Any epsilon-DP mechanism (Laplace noise, a private choice), at its worst: one randomized response.

    Args:
        epsilon: Bound on the privacy loss.
    """

    epsilon: float

    def __post_init__(self) -> None:
        _check("epsilon", self.epsilon, 1 / _MOST_NOISE, 1 / _LEAST_NOISE)


@dataclass(frozen=True, slots=True)
class Sampled:
    """Gaussian noise on a sum over a Poisson sample of the units.

    Args:
        rate: Probability with which a unit is in the sample.
        noise_multiplier: The noise's standard deviation over one unit's L2 bound.
    """

    rate: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        _check("rate", self.rate, math.ulp(0.0), 1.0)
        _check("noise_multiplier", self.noise_multiplier, _LEAST_NOISE, _MOST_NOISE)


@dataclass(frozen=True, slots=True)
class PartitionSelection:
    """Gaussian noise on the counts of values nobody listed, those above a threshold shown.

    Args:
        noise_multiplier: As in `Gaussian`.
        delta: Bound on the probability that a value held by a single unit is shown.
    """

    noise_multiplier: float
    delta: float

    def __post_init__(self) -> None:
        _check("noise_multiplier", self.noise_multiplier, _LEAST_NOISE, _MOST_NOISE)
        _check("delta", self.delta, math.ulp(0.0), 1.0)


@dataclass(frozen=True, slots=True)
class NonPrivate:
    """The rows were handed out.

    Args:
        reason: Why, for the certificate.
    """

    reason: str


Event: TypeAlias = Gaussian | Pure | Sampled | PartitionSelection | NonPrivate

_KINDS: dict[str, type[Event]] = {
    kind.__name__: kind for kind in (Gaussian, Pure, Sampled, PartitionSelection, NonPrivate)
}


def to_json(event: Event) -> dict[str, Any]:
    """Return an event as plain JSON data.

    Example:
        >>> to_json(Gaussian(4.0))
        {'event': 'Gaussian', 'noise_multiplier': 4.0}
    """
    return {"event": type(event).__name__, **asdict(event)}


def from_json(data: dict[str, Any]) -> Event:
    """Read an event back.

    Example:
        >>> from_json({"event": "Pure", "epsilon": 0.5})
        Pure(epsilon=0.5)
    """
    fields = dict(data)
    return _KINDS[fields.pop("event")](**fields)
