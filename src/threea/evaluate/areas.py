"""The area under the curve of scores that should tell training from control rows, person by person."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.evaluate.intervals import Interval, clopper_pearson, excess, figure
from threea.evaluate.pairs import Vector, by_person, chance_of_sum


def area_figure(
    name: str, rows: tuple[Vector, Vector], pair: NDArray[np.int64], rng: np.random.Generator
) -> dict[str, Any]:
    """Return the probability that a training row scores higher than a control row, as a figure that decides.

    Args:
        name: What it is.
        rows: The scores of training rows and of control rows.
        pair: The pair of people that each row of a side is of, from 0.
        rng: Swaps the pairs.
    """
    train, control = (np.column_stack([by_person(p, pair) for p in side.T]) for side in places(*rows, weights(pair)))
    # A place among the rows of both sides does not change when sides are swapped: so the test may swap places.
    p = chance_of_sum(train.mean(axis=1) - control.mean(axis=1), rng)
    return figure(name, *area(train[:, 1], control[:, 0]), "DeLong over persons", 0.5, p)


def weights(pair: NDArray[np.int64]) -> Vector:
    """Return how much each row of a side counts: as much for each person, and 1 together."""
    rows = np.bincount(pair)
    each: Vector = 1 / (len(rows) * rows[pair])
    return each


def places(train: Vector, control: Vector, weights: Vector) -> tuple[Vector, Vector]:
    """Return each row's place, from 0 to 1, among training rows (first column) and control rows; ties share the middle.

    Args:
        train: Scores of training rows.
        control: Scores of control rows.
        weights: How much each row of a side counts, adding up to 1.

    Example:
        >>> half = np.array([0.5, 0.5])
        >>> [side.tolist() for side in places(np.array([3.0, 4.0]), np.array([1.0, 3.0]), half)]
        [[[0.25, 0.75], [0.75, 1.0]], [[0.0, 0.25], [0.25, 0.75]]]
    """
    _, group = np.unique(np.concatenate([train, control]), return_inverse=True)
    sides = np.split(group, [len(train)])
    masses = [np.bincount(side, weights, minlength=int(group.max()) + 1) for side in sides]
    middle = np.column_stack([np.cumsum(mass) - mass / 2 for mass in masses])
    return middle[sides[0]], middle[sides[1]]


def area(train: Vector, control: Vector) -> tuple[float, Interval]:
    """Return the area under the curve and its interval.

    Args:
        train: The mean place of each training person's rows among the control rows.
        control: The mean place of each control person's rows among the training rows.

    Reference:
        DeLong, DeLong, Clarke-Pearson (1988): both sides' places vary; here each by an interval that stays within 0 to
        1, put together as in Newcombe (1998).
    """
    value, fewest = float(train.mean()), min(len(train), len(control))
    if math.isclose(value, round(value), abs_tol=1e-12):
        # Complete separation leaves no spread to measure: the exact bound of as many successes without a failure.
        return round(value), clopper_pearson(round(value) * fewest, fewest)
    twice, (low, high) = excess(train, control)
    return value, (max(value - (twice - low), 0.0), min(value + (high - twice), 1.0))
