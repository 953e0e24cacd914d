"""The distribution that fits noisy tables, and is otherwise as even as it can be: mirror descent on a junction tree.

Reference: McKenna, Sheldon and Miklau 2019, Graphical-model based estimation and inference for differential privacy,
Algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from threea.approximate.junction_tree import JunctionTree
from threea.approximate.table_algebra import Clique, multiplied, projections

Floats = NDArray[np.float64]

_DOUBLED, _GROWN, _SHRUNK = 2.0, 1.1, 0.5
"""A step that went well makes the next one longer, the more so before the first that did not; such a one is taken back
and made shorter. Chosen."""
_ENOUGH = 0.5
"""A fit whose squared errors are so much of what noise alone makes of them is good enough: a better one would fit the
noise (Morozov's discrepancy principle). Chosen."""
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
    """A product of tables, and the same on a junction tree.

    Args:
        potentials: Logarithms of the tables, by their columns.
        tree: Holds each table in a clique.
        given: Every clique's columns given its separator.
    """

    potentials: Mapping[Clique, Floats]
    tree: JunctionTree
    given: tuple[Floats, ...]

    @classmethod
    def product(cls, sizes: Sequence[int], potentials: Mapping[Clique, Floats]) -> Distribution:
        """Return the distribution that is the product of some tables, given by their logarithms."""
        tree = JunctionTree.of(sizes, potentials)
        factors = {clique: np.exp(table - table.max()) for clique, table in potentials.items()}
        ones = [np.ones(tree.shape(clique)) for clique in tree.cliques]
        return cls(potentials, tree, tuple(_times(tree, ones, factors, tree.homes(potentials))))

    def holding(self, tables: Iterable[Clique]) -> Distribution:
        """Return the same distribution, as a product of these tables too."""
        sizes = self.tree.sizes
        even = {clique: np.zeros([sizes[column] for column in clique]) for clique in tables}
        return Distribution.product(sizes, even | dict(self.potentials))

    def marginals(self) -> list[Floats]:
        """Return every clique's own distribution."""
        return self.tree.marginals(self.given)

    def tables(self, homes: Mapping[Clique, int]) -> dict[Clique, Floats]:
        """Return the distributions of some columns, given which clique holds them."""
        found: dict[Clique, Floats] = {}
        for i, (clique, table) in enumerate(zip(self.tree.cliques, self.marginals(), strict=True)):
            found |= projections(table, clique, [columns for columns, home in homes.items() if home == i])
        return found

    def moved(self, homes: Mapping[Clique, int], by: Mapping[Clique, Floats]) -> Distribution:
        """Return it with something added to the logarithms of its tables."""
        potentials = {clique: table + by.get(clique, 0.0) for clique, table in self.potentials.items()}
        factors = {clique: np.exp(change) for clique, change in by.items()}
        return Distribution(potentials, self.tree, tuple(_times(self.tree, self.given, factors, homes)))


def _times(
    tree: JunctionTree, given: Sequence[Floats], factors: Mapping[Clique, Floats], homes: Mapping[Clique, int]
) -> list[Floats]:
    """Return a distribution's product with some tables."""
    held: list[dict[Clique, Floats]] = [{} for _ in tree.cliques]
    for clique, factor in factors.items():
        held[homes[clique]][clique] = factor
    weights = [multiplied(*each) for each in zip(given, tree.cliques, held, strict=True)]
    return tree.collected(weights)[0]


def estimated(start: Distribution, tables: Tables, rows: float, steps: int) -> Distribution:
    """Fit a distribution to noisy tables, by so many steps of mirror descent from another one.

    A step that does not lower the loss by half of what its slope promises is taken back (Armijo's rule).

    Args:
        start: From where; a product of tables of the same columns.
        tables: By their columns.
        rows: How many rows the tables are of.
        steps: How many.
    """
    homes = start.tree.homes(tables)
    found, expected = start, start.tables(homes)
    loss, slope = _loss(expected, tables, rows)
    length = 1 / (rows * sum(float((each.stddev**-2).max()) for each in tables.values()))
    growth, enough = _DOUBLED, _ENOUGH * sum(each.counts.size for each in tables.values()) / 2
    for _ in range(steps):
        if loss <= enough:
            break
        by = {clique: np.clip(-length * slope[clique], -_STEEPEST, _STEEPEST) for clique in tables}
        moved = found.moved(homes, by)
        after = moved.tables(homes)
        new_loss, new_slope = _loss(after, tables, rows)
        promised = rows * sum(float((slope[clique] * (expected[clique] - after[clique])).sum()) for clique in tables)
        if loss - new_loss >= 0.5 * promised:
            found, expected, loss, slope, length = moved, after, new_loss, new_slope, length * growth
        else:
            length, growth = length * _SHRUNK, _GROWN
    return found


def _loss(expected: Mapping[Clique, Floats], tables: Tables, rows: float) -> tuple[float, dict[Clique, Floats]]:
    """Return half of the squared errors, each in units of its noise, and their slope."""
    loss, gradient = 0.0, {}
    for clique, measured in tables.items():
        error = (rows * expected[clique] - measured.counts) / measured.stddev
        loss += float((error**2).sum()) / 2
        gradient[clique] = error / measured.stddev
    return loss, gradient
