"""The distribution that fits noisy tables best, and is otherwise as even as it can be: mirror descent on a junction tree.

Reference: McKenna, Sheldon and Miklau 2019, Graphical-model based estimation and inference for differential privacy,
Algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from threea.approximate.junction_tree import Clique, JunctionTree, projected, spread

Floats = NDArray[np.float64]

_GROWN, _SHRUNK = 1.1, 0.5
"""A step that went well makes the next one longer, one that did not is taken back and made shorter. Chosen."""
_STEEPEST = 30.0
"""By how much the logarithm of a number may change in a step: e to this power is far from overflowing."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A noisy table.

    Args:
        counts: One axis for each column.
        stddev: Of the noise on each count.
    """

    counts: Floats
    stddev: Floats

    @classmethod
    def alike(cls, counts: Floats, stddev: float) -> Measured:
        """Return a table whose counts are all as noisy."""
        return cls(counts, np.full(counts.shape, stddev))

    def and_again(self, other: Measured) -> Measured:
        """Put a second, independent count of the same cells together with this one, each by its precision."""
        first, second = self.stddev**-2, other.stddev**-2
        both = (first * self.counts + second * other.counts) / (first + second)
        return Measured(both, (first + second) ** -0.5)

    @property
    def total(self) -> tuple[float, float]:
        """The number of rows, and the variance of the noise on it."""
        return float(self.counts.sum()), float((self.stddev**2).sum())


Tables = Mapping[Clique, Measured]


def total_of(tables: Iterable[Measured]) -> tuple[float, float]:
    """Return the number of rows as all tables tell it, each by its precision, and the noise on it."""
    found = [each.total for each in tables]
    precision = sum(1 / variance for _, variance in found)
    return sum(total / variance for total, variance in found) / precision, 1 / math.sqrt(precision)


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution on a junction tree: every clique's columns given its separator."""

    tree: JunctionTree
    given: tuple[Floats, ...]

    @classmethod
    def uniform(cls, sizes: Sequence[int]) -> Distribution:
        """Return the distribution in which all columns are even and independent."""
        tree = JunctionTree.of(sizes, ())
        return cls(tree, tuple(tree.uniform()))

    def on(self, tables: Iterable[Clique]) -> Distribution:
        """Return the same distribution on a tree in which each of these tables is within a clique.

        Raises:
            StopIteration: Never, as long as a tree's own cliques are among what the other must hold.
        """
        tree = JunctionTree.of(self.tree.sizes, (*self.tree.cliques, *tables))
        weights = [np.ones(tree.shape(clique)) for clique in tree.cliques]
        for table, clique in zip(self.given, self.tree.cliques, strict=True):
            home = tree.home(clique)
            weights[home] = weights[home] * spread(table, clique, tree.cliques[home])
        return Distribution(tree, tuple(tree.collected(weights)[0]))

    def marginals(self) -> list[Floats]:
        """Return every clique's own distribution."""
        return self.tree.marginals(self.given)

    def tables(self, cliques: Iterable[Clique]) -> dict[Clique, Floats]:
        """Return the distributions of some columns that lie within a clique together."""
        found = self.marginals()
        homes = {clique: self.tree.home(clique) for clique in cliques}
        return {clique: projected(found[i], self.tree.cliques[i], clique) for clique, i in homes.items()}


def estimated(start: Distribution, tables: Tables, rows: float, steps: int) -> Distribution:
    """Fit a distribution to noisy tables, by so many steps of mirror descent from another one.

    Args:
        start: From where; its tree must hold every table.
        tables: By their columns.
        rows: How many rows the tables are of.
        steps: At most.
    """
    tree, given = start.tree, start.given
    homes = {clique: tree.home(clique) for clique in tables}
    expected = start.tables(tables)
    loss, gradient = _loss(expected, tables, rows)
    length = 1 / (rows * sum(float((each.stddev**-2).max()) for each in tables.values()))
    for _ in range(steps):
        weights = list(given)
        for clique, slope in gradient.items():
            home = homes[clique]
            factor = np.exp(np.clip(-length * slope, -_STEEPEST, _STEEPEST))
            weights[home] = weights[home] * spread(factor, clique, tree.cliques[home])
        moved = Distribution(tree, tuple(tree.collected(weights)[0]))
        after = moved.tables(tables)
        new_loss, new_gradient = _loss(after, tables, rows)
        promised = rows * sum(float((gradient[c] * (expected[c] - after[c])).sum()) for c in tables)
        if loss - new_loss >= 0.5 * promised:
            given, expected, loss, gradient, length = moved.given, after, new_loss, new_gradient, length * _GROWN
        else:
            length *= _SHRUNK
    return Distribution(tree, given)


def _loss(expected: Mapping[Clique, Floats], tables: Tables, rows: float) -> tuple[float, dict[Clique, Floats]]:
    """Return half of the squared errors, each in units of its noise, and their slope."""
    loss, gradient = 0.0, {}
    for clique, measured in tables.items():
        error = (rows * expected[clique] - measured.counts) / measured.stddev
        loss += float((error**2).sum()) / 2
        gradient[clique] = error / measured.stddev
    return loss, gradient
