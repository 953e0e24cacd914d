"""Intervals for distances between two tables: leave out a tenth of both tables' people at a time, and see what moves.

A bootstrap would not do: rows drawn twice make any two tables look further apart than they are.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

GROUPS, LEVEL = 10, 0.95
INTERVAL = {
    "method": "delete-a-group jackknife over the persons of both tables (over rows where no column names them), "
    "Student's t, cut off at the figure's own bounds",
    "groups": GROUPS,
    "level": LEVEL,
}


def groups(rows: int, seed: int, units: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """Put rows into groups, at random: all rows of a person into one, and equally many persons into each."""
    person = np.arange(rows) if units is None else np.unique(units, return_inverse=True)[1]
    persons = int(person.max(initial=-1)) + 1
    group: NDArray[np.int64] = (np.random.default_rng([seed, rows]).permutation(persons) % GROUPS)[person]
    return group


def without_each(counts: Floats) -> Floats:
    """Turn counts per group into shares: of all rows first, then of the rows without each group.

    Args:
        counts: First axis the groups, last axis the cells.
    """
    total = counts.sum(axis=0, keepdims=True)
    left = np.concatenate([total, total - counts])
    shares: Floats = left / np.maximum(left.sum(axis=-1, keepdims=True), 1e-300)
    return shares


def summary(values: Floats, lowest: float = 0.0, highest: float = 1.0) -> dict[str, Any]:
    """Return a figure and its interval; None where undefined.

    Args:
        values: The figure on all rows, then without each group.
        lowest: The least that it can be.
        highest: The most that it can be.
    """
    from scipy.stats import t

    if np.isnan(values).any():
        value = None if math.isnan(values[0]) else float(values[0])
        return {"value": value, "interval": None}
    parts = values[1:]
    error = math.sqrt((GROUPS - 1) / GROUPS * float(((parts - parts.mean()) ** 2).sum()))
    reach = float(t.ppf((1 + LEVEL) / 2, GROUPS - 1)) * error
    value = float(values[0])
    return {"value": value, "interval": [max(value - reach, lowest), min(value + reach, highest)]}
