"""Tables of all pairs of columns, also of those that share no clique: from clique to clique along a junction tree."""

from __future__ import annotations

import string
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from threea.approximate.junction_tree import JunctionTree
from threea.approximate.table_algebra import Clique, inverse, projected, spread

Floats = NDArray[np.float64]


def pair_tables(tree: JunctionTree, marginals: Sequence[Floats]) -> dict[Clique, Floats]:
    """Return the distribution of every pair of columns.

    From the cliques that hold a column, what is known of it and of the separator is passed on to the next clique, which
    has its other columns given the separator; columns of another tree are independent of it.

    Args:
        tree: Of all columns.
        marginals: Every clique's own distribution.
    """
    passed = _Passing(tree, marginals)
    return {
        pair: table
        for column in range(len(tree.sizes))
        for pair, table in passed.from_column(column).items()
        if pair[0] == column
    }


class _Passing:
    """What is passed from clique to clique; what does not depend on where it came from is worked out once."""

    def __init__(self, tree: JunctionTree, marginals: Sequence[Floats]) -> None:
        self._tree, self._marginals = tree, marginals
        self._known: dict[tuple[int, Clique], Floats] = {}
        self._beside: list[list[tuple[int, Clique]]] = [[] for _ in tree.cliques]
        for i, (parent, separator) in enumerate(zip(tree.parents, tree.separators, strict=True)):
            if parent >= 0:
                self._beside[i].append((parent, separator))
                self._beside[parent].append((i, separator))

    def from_column(self, column: int) -> dict[Clique, Floats]:
        """Return the tables of one column and each later one, the column's cells first."""
        tree, found = self._tree, dict[int, Floats]()
        holding = [i for i, clique in enumerate(tree.cliques) if column in clique]
        waiting: list[tuple[int, Clique, Floats]] = []
        for i in holding:
            for other in tree.cliques[i]:
                if other > column and other not in found:
                    found[other] = self._of(i, (column, other))
            for j, separator in self._beside[i]:
                if column not in tree.cliques[j]:
                    both = self._of(i, (column, *separator))
                    waiting.append((j, separator, both))
        seen = set(holding)
        while waiting:
            i, separator, both = waiting.pop()
            seen.add(i)
            for other in tree.cliques[i]:
                if other > column and other not in found:
                    found[other] = self._through(i, separator, both, (other,))
            for j, onward in self._beside[i]:
                if j not in seen:
                    waiting.append((j, onward, self._through(i, separator, both, onward)))
        alone = self._of(holding[0], (column,))
        for other in range(column + 1, len(tree.sizes)):
            if other not in found:
                found[other] = np.outer(alone, self._of(tree.home((other,)), (other,)))
        return {(column, other): table for other, table in found.items()}

    def _of(self, i: int, columns: Clique) -> Floats:
        """Return a clique's table of some of its columns, in the order asked for."""
        rising = tuple(sorted(columns))
        if (i, rising) not in self._known:
            self._known[i, rising] = projected(self._marginals[i], self._tree.cliques[i], rising)
        return np.transpose(self._known[i, rising], [rising.index(column) for column in columns])

    def _through(self, i: int, separator: Clique, both: Floats, onward: Clique) -> Floats:
        """Pass a table of a column and a separator through a clique, to other columns of that clique."""
        union = tuple(sorted({*separator, *onward}))
        given = self._of(i, union) * spread(inverse(self._of(i, separator)), separator, union)
        letters = dict(zip(union, string.ascii_lowercase[1:], strict=False))
        inside, outside = ("".join(letters[column] for column in columns) for columns in (separator, onward))
        whole = "".join(letters[column] for column in union)
        return np.asarray(np.einsum(f"a{inside},{whole}->a{outside}", both, given, optimize=True))
