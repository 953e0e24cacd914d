"""Tables of some columns' cells, multiplied and summed: axes are columns in rising order.

A clique's table may have millions of cells, and tables of two of its columns a few hundred. So products are taken of
small tables first, and sums are taken of sums.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Clique = tuple[int, ...]


def projected(table: Floats, clique: Clique, onto: Clique) -> Floats:
    """Sum a table over the columns that are not asked for."""
    return np.asarray(table.sum(axis=tuple(axis for axis, column in enumerate(clique) if column not in onto)))


def spread(table: Floats, columns: Clique, clique: Clique) -> Floats:
    """Give a table an axis for every column of a clique, so that it can be multiplied with one of the clique's."""
    sizes = dict(zip(columns, table.shape, strict=True))
    return table.reshape([sizes.get(column, 1) for column in clique])


def inverse(table: Floats) -> Floats:
    """Return 1 / x, and 0 for 0 and for what is so near that 1 / x is no number.

    Example:
        >>> inverse(np.array([0.0, 5e-324, 4.0]))
        array([0.  , 0.  , 0.25])
    """
    return np.divide(1.0, table, out=np.zeros_like(table), where=table >= np.finfo(np.float64).tiny)


def projections(table: Floats, clique: Clique, wanted: Iterable[Clique]) -> dict[Clique, Floats]:
    """Return a table's sums onto several sets of its columns.

    Example:
        >>> projections(np.ones((2, 3)), (4, 7), [(4,), (7,)])
        {(4,): array([3., 3.]), (7,): array([2., 2., 2.])}
    """
    left, found = list(dict.fromkeys(wanted)), dict[Clique, Floats]()
    # The widest column is summed over first: what is left of the table is smallest then.
    for column in sorted(clique, key=lambda each: -table.shape[clique.index(each)]):
        without = [columns for columns in left if column not in columns]
        if len(left) > 1 and len(without) > 1 and len(clique) > 1:
            rest = tuple(each for each in clique if each != column)
            found |= projections(table.sum(axis=clique.index(column)), rest, without)
            left = [columns for columns in left if column in columns]
    return found | {columns: projected(table, clique, columns) for columns in left}


def multiplied(table: Floats, clique: Clique, factors: Mapping[Clique, Floats]) -> Floats:
    """Multiply a table with smaller ones of some of its columns.

    Example:
        >>> multiplied(np.ones((2, 2)), (4, 7), {(4,): np.array([1.0, 2.0]), (7,): np.array([3.0, 5.0])})
        array([[ 3.,  5.],
               [ 6., 10.]])
    """
    small, sizes = dict(factors), dict(zip(clique, table.shape, strict=True))
    while len(small) > 1:
        unions = {pair: tuple(sorted({*pair[0], *pair[1]})) for pair in combinations(small, 2)}
        one, other = min(unions, key=lambda pair: math.prod(sizes[column] for column in unions[pair]))
        union = unions[one, other]
        if len(union) == len(clique):
            break
        both = spread(small.pop(one), one, union) * spread(small.pop(other), other, union)
        small[union] = small[union] * both if union in small else both
    product = table.copy()
    for columns, factor in small.items():
        product *= spread(factor, columns, clique)
    return product
