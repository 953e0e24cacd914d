"""Junction trees: a distribution over many columns as small tables, each given what it shares with the one before it.

Columns are numbered, and a table's axes are its columns in rising order. A distribution is kept as one table per
clique: the clique's new columns given its separator, the columns it shares with its parent. So rows are drawn clique by
clique, and conditions are passed from the leaves to the roots, both exactly.

Reference: Lauritzen and Spiegelhalter 1988; Koller and Friedman 2009, chapter 10.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from threea.approximate.table_algebra import Clique, inverse, projected, spread

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True)
class JunctionTree:
    """Cliques of columns such that those that share a column hang together.

    Args:
        sizes: How many cells each column has.
        cliques: Parents first; columns in rising order.
        parents: For each clique, the position of the one it hangs on; -1 for a root.
    """

    sizes: tuple[int, ...]
    cliques: tuple[Clique, ...]
    parents: tuple[int, ...]

    @classmethod
    def of(cls, sizes: Sequence[int], tables: Iterable[Clique]) -> JunctionTree:
        """Return a tree in which every table's columns are in one clique: of the column whose clique is smallest first.

        Example:
            >>> JunctionTree.of((2, 3, 4), [(0, 1), (1, 2)]).cliques
            ((1, 2), (0, 1))
        """
        beside = beside_of(len(sizes), tables)
        made: list[Clique] = []
        after: list[int] = []
        for column in eliminated(sizes, beside):
            made.append(tuple(sorted({column, *beside[column]})))
            after.append(column)
        # A clique hangs on that of the first of its other columns to be eliminated after it.
        place = {column: position for position, column in enumerate(after)}
        hung = [
            min((place[other] for other in clique if other != column), default=-1)
            for clique, column in zip(made, after, strict=True)
        ]
        return _pruned(tuple(sizes), made, hung)

    @property
    def cells(self) -> int:
        """How many numbers its tables hold."""
        return sum(math.prod(self.shape(clique)) for clique in self.cliques)

    @cached_property
    def separators(self) -> tuple[Clique, ...]:
        """For each clique, the columns that it shares with its parent."""
        return tuple(
            tuple(c for c in clique if parent >= 0 and c in self.cliques[parent])
            for clique, parent in zip(self.cliques, self.parents, strict=True)
        )

    def shape(self, clique: Clique) -> tuple[int, ...]:
        """Return the shape of a table of these columns."""
        return tuple(self.sizes[column] for column in clique)

    def home(self, columns: Clique) -> int:
        """Return the position of the smallest clique that holds all these columns; there must be one."""
        holding = [i for i, clique in enumerate(self.cliques) if set(columns) <= set(clique)]
        return min(holding, key=lambda i: math.prod(self.shape(self.cliques[i])))

    def homes(self, tables: Iterable[Clique]) -> dict[Clique, int]:
        """Return for each table the position of the clique that holds it."""
        return {table: self.home(table) for table in tables}

    def collected(self, weights: Sequence[Floats]) -> tuple[list[Floats], bool]:
        """Return the distribution that is the product of these weights, and whether there is any.

        From the leaves up, every clique tells its parent what its columns weigh in all, given the separator.
        """
        given, possible = list(weights), True
        for i in reversed(range(len(self.cliques))):
            clique, parent, separator = self.cliques[i], self.parents[i], self.separators[i]
            told = projected(given[i], clique, separator)
            # What is told is scaled, for a product of many small numbers would vanish.
            largest = float(told.max())
            possible &= largest > 0
            given[i] = given[i] * spread(inverse(told), separator, clique)
            if parent >= 0:
                given[parent] = given[parent] * spread(told / max(largest, 1e-300), separator, self.cliques[parent])
        return given, possible

    def marginals(self, given: Sequence[Floats]) -> list[Floats]:
        """Return every clique's own distribution, from the roots down."""
        found: list[Floats] = []
        for table, clique, parent, separator in zip(given, self.cliques, self.parents, self.separators, strict=True):
            if parent < 0:
                found.append(table)
            else:
                above = projected(found[parent], self.cliques[parent], separator)
                found.append(table * spread(above, separator, clique))
        return found


def beside_of(columns: int, tables: Iterable[Clique]) -> list[set[int]]:
    """Return for each column the others that share a table with it."""
    beside: list[set[int]] = [set() for _ in range(columns)]
    for table in tables:
        for column in table:
            beside[column] |= set(table) - {column}
    return beside


def eliminated(sizes: Sequence[int], beside: list[set[int]]) -> Iterable[int]:
    """Yield the columns, that with the smallest clique first; those beside it are tied to one another then."""
    cells = [sizes[column] * math.prod(sizes[other] for other in beside[column]) for column in range(len(sizes))]
    left = set(range(len(sizes)))
    while left:
        column = min(left, key=lambda each: (cells[each], each))
        left.remove(column)
        yield column
        for other in beside[column]:
            beside[other] |= beside[column] - {other}
            beside[other].discard(column)
        for other in beside[column]:
            cells[other] = sizes[other] * math.prod(sizes[each] for each in beside[other])


def model_cells(sizes: Sequence[int], tables: Iterable[Clique]) -> int:
    """Return how many numbers a junction tree of these tables holds, at most."""
    beside = beside_of(len(sizes), tables)
    return sum(sizes[c] * math.prod(sizes[other] for other in beside[c]) for c in eliminated(sizes, beside))


def _pruned(sizes: tuple[int, ...], made: list[Clique], hung: list[int]) -> JunctionTree:
    """Leave out cliques that lie within their parent or their child, and put parents first."""
    parents = list(hung)
    kept = [True] * len(made)
    # Eliminated last means nearest to the root; a clique within a child of it gives way to that child.
    for i in range(len(made)):
        while kept[i] and (parent := parents[i]) >= 0 and set(made[parent]) <= set(made[i]):
            above, kept[parent] = parents[parent], False
            parents = [i if each == parent else each for each in parents]
            parents[i] = above
    order: list[int] = []
    waiting = [i for i in reversed(range(len(made))) if kept[i] and parents[i] < 0]
    while waiting:
        i = waiting.pop(0)
        order.append(i)
        waiting += [j for j in range(len(made)) if kept[j] and parents[j] == i]
    position = {i: place for place, i in enumerate(order)}
    return JunctionTree(
        sizes,
        tuple(made[i] for i in order),
        tuple(position[parents[i]] if parents[i] >= 0 else -1 for i in order),
    )
