"""What an adversary can learn at an epsilon, as a picture and in plain words. Follows from the budget alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

from threea.report import words

COMPARED = (0.1, 1.0, 3.0, 10.0)
"""Drawn beside the one chosen."""
_SIZE = 300.0
_FALSE = 0.05


@dataclass(frozen=True, slots=True)
class Curve:
    """What can be reached at one epsilon: a path in a square, its label and where that stands."""

    epsilon: float
    path: str
    label: str
    x: str
    y: str


@dataclass(frozen=True, slots=True)
class Odds:
    """What an epsilon means, in numbers that a person can picture."""

    epsilon: str
    guess: str
    """How often a guess at even odds is right, at most."""
    factor: str
    found: str
    """Of the people in the table, how many are found by who accuses at most one in twenty of the others."""
    weak: str


def most_found(false_alarms: float, epsilon: float, delta: float) -> float:
    """Return the largest share of people in the table that any test finds, at a share of false alarms.

    Reference:
        Kairouz, Oh and Viswanath (2015), The Composition Theorem for Differential Privacy, Theorem 2.1.

    Example:
        >>> round(most_found(0.05, 1.0, 1e-6), 3), most_found(0.05, 100.0, 0.0)
        (0.136, 1.0)
    """
    growth = math.exp(min(epsilon, 700.0))
    return min(growth * false_alarms + delta, 1 - (1 - delta - false_alarms) / growth, 1.0)


def odds(epsilon: float, delta: float) -> Odds:
    """Say what an epsilon means.

    Example:
        >>> odds(1.0, 1e-6)
        Odds(epsilon='1', guess='73.1%', factor='2.718', found='13.6%', weak='')
    """
    return Odds(
        words.number(epsilon),
        words.percent(words.best_guess(epsilon, delta)),
        words.factor(epsilon),
        words.percent(most_found(_FALSE, epsilon, delta)),
        words.weakness(epsilon, delta),
    )


def curve(epsilon: float, delta: float) -> Curve:
    """Draw the border of what can be reached: from the lower left, never above it."""
    corner = (1 - delta) / (1 + math.exp(min(epsilon, 700.0)))
    points = [(0.0, delta), (corner, most_found(corner, epsilon, delta)), (1 - delta, 1.0), (1.0, 1.0)]
    path = "M" + " L".join(f"{_SIZE * x:.1f} {_SIZE * (1 - y):.1f}" for x, y in points)
    # Beside the corner, where curves lie furthest apart.
    label_x, label_y = _SIZE * corner + 6, _SIZE * (1 - points[1][1]) + 14
    return Curve(epsilon, path, f"ε {words.number(epsilon)}", f"{label_x:.1f}", f"{label_y:.1f}")
