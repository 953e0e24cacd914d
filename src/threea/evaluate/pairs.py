"""Training persons set against as many persons who were held out, and a test that swaps them.

If a release never saw its training rows, nothing tells a training person from one who was held out. Swapping the two
sides of any pair then changes nothing but by chance, and a coin for each pair says what chance does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from threea.evaluate.units import Units

Vector = NDArray[np.float64]
Swapped = NDArray[np.bool_]
"""Whether the sides of each pair are swapped: one row a trial, one column a pair."""

SWAPS = 4_999
_CELLS = 4_000_000


@dataclass(frozen=True, slots=True)
class Pairs:
    """Persons two by two, with equally many rows.

    Args:
        train: Which training rows, pair by pair.
        holdout: Which rows held out, as many of each pair.
        pair: The pair of each of these rows, the same for both sides, from 0.
    """

    train: NDArray[np.int64]
    holdout: NDArray[np.int64]
    pair: NDArray[np.int64]

    @classmethod
    def of(cls, train: Units, holdout: Units, rng: np.random.Generator, most: int) -> Pairs:
        """Pair persons at random: as many as there are on both sides, and of each pair equally many rows.

        A person on both sides makes a pair alone: rows that were released against rows that were held out.

        Args:
            train: Whose each training row is.
            holdout: Whose each row held out is.
            rng: Makes the pairs.
            most: How many rows a side may have; more persons come before more rows of a person.
        """
        both = np.intersect1d(train, holdout)
        alone = [rng.permutation(np.setdiff1d(units, both)) for units in (train, holdout)]
        count = min(map(len, alone))
        order = rng.permutation(len(both) + count)[:most]
        sides = [
            _rows(units, np.concatenate([both, other[:count]])[order], rng)
            for units, other in zip((train, holdout), alone, strict=True)
        ]
        fewest = np.minimum(*(np.bincount(pair, minlength=len(order)) for _, pair, _ in sides))
        fewest = np.minimum(fewest, most // max(len(order), 1))
        left, right = (rows[within < fewest[pair]] for rows, pair, within in sides)
        return cls(left, right, np.repeat(np.arange(len(order)), fewest))

    @property
    def count(self) -> int:
        """Number of pairs."""
        return int(self.pair[-1]) + 1 if len(self.pair) else 0

    def first(self, count: int) -> Pairs:
        """Return so many of the pairs."""
        rows = int(np.searchsorted(self.pair, count))
        return Pairs(self.train[:rows], self.holdout[:rows], self.pair[:rows])


def one_row_each(train: Units, holdout: Units, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Return one training row, or one row held out, of each person: of a person on both sides, a coin says which.

    Args:
        train: Whose each training row is.
        holdout: Whose each row held out is.
        rng: Draws the rows.
    """
    mixed = rng.permutation(len(train) + len(holdout))
    units = np.concatenate([train, holdout])
    trained = rng.random(int(units.max()) + 1) < 0.5
    both = np.isin(units, np.intersect1d(train, holdout))
    kept = ~both | (trained[units] == (np.arange(len(units)) < len(train)))
    mixed = mixed[kept[mixed]]
    rows = mixed[np.unique(units[mixed], return_index=True)[1]]
    return [np.sort(rows[rows < len(train)]), np.sort(rows[rows >= len(train)]) - len(train)]


def chance_of_hits(train: NDArray[np.bool_], holdout: NDArray[np.bool_]) -> float:
    """Return how likely training persons have so many of the hits, if any persons may be those held out.

    Reference:
        Fisher (1935), the exact test of two shares.

    Example:
        >>> round(chance_of_hits(np.array([True] * 3), np.array([False] * 3)), 6)
        0.05
    """
    from scipy.stats import hypergeom

    hits, people = int(train.sum()) + int(holdout.sum()), len(train) + len(holdout)
    return float(hypergeom.sf(int(train.sum()) - 1, people, hits, len(train)))


def _rows(
    units: Units, persons: Units, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of some persons, person by person; which person it is; and numbers within the person."""
    if not len(persons):
        return (np.zeros(0, np.int64),) * 3
    ranked = np.argsort(persons)
    nearest = ranked[np.minimum(np.searchsorted(persons, units, sorter=ranked), len(persons) - 1)]
    mixed = rng.permutation(np.flatnonzero(persons[nearest] == units))
    rows = mixed[np.argsort(nearest[mixed], kind="stable")]
    person = nearest[rows]
    return rows, person, np.arange(len(rows)) - np.searchsorted(person, person)


def by_person(scores: NDArray[np.float64] | NDArray[np.bool_], pair: NDArray[np.int64]) -> Vector:
    """Return the mean of each person's rows."""
    means: Vector = np.bincount(pair, scores) / np.bincount(pair)
    return means


def chance_of_sum(differences: Vector, rng: np.random.Generator) -> float:
    """Return how likely so large a sum of differences between the sides of pairs is, if swapping changes nothing."""
    moved = differences[differences != 0]
    return chance(lambda swapped: np.where(swapped, -1.0, 1.0) @ moved, len(moved), len(moved), rng)


def chance(statistic: Callable[[Swapped], Vector], pairs: int, width: int, rng: np.random.Generator) -> float:
    """Return how likely so large a statistic is, if swapping the sides of a pair changes nothing.

    Guarantees:
        - If swapping changes nothing, it is at most p with probability at most p, whatever the statistic, however
          rows of one person hang together, and for any number of pairs.

    Args:
        statistic: From swaps of the pairs to a value each.
        pairs: How many pairs there are.
        width: How many numbers a swap takes.
        rng: Throws the coins.

    Reference:
        Fisher (1935), The design of experiments, section 21; the observed value counts as a trial (Phipson and Smyth
        2010).
    """
    least = float(statistic(np.zeros((1, pairs), np.bool_))[0]) - 1e-9
    step, reached = max(_CELLS // max(width, 1), 1), 1
    for start in range(0, SWAPS, step):
        swapped = rng.integers(0, 2, (min(step, SWAPS - start), pairs), np.int8).astype(np.bool_)
        reached += int(np.count_nonzero(statistic(swapped) >= least))
    return reached / (SWAPS + 1)


def holm(chances: list[float]) -> list[float]:
    """Return the chances, adjusted so that one of them is at most p with probability at most p.

    Reference:
        Holm (1979), A simple sequentially rejective multiple test procedure.

    Example:
        >>> holm([0.25, 0.01, 0.5])
        [0.5, 0.03, 0.5]
    """
    values = np.array(chances)
    order = np.argsort(values, kind="stable")
    adjusted = np.empty(len(values))
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1)), 1.0)
    return [float(value) for value in adjusted]
