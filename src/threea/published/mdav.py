"""Microaggregation by maximum distance to the average vector (MDAV): clusters of at least k near rows each.

Which rows are together depends on all of them, and nothing of it is paid for.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def mdav(values: Floats, k: int) -> list[Integers]:
    """Divide rows into clusters of k to 2k - 1.

    While 3k rows are left, the one farthest from their mean takes its k - 1 nearest, and then the one farthest from it
    does. Of 2k to 3k - 1 rows, the one farthest from the mean takes its k - 1 nearest, and the rest are a cluster.
    Fewer than 2k are a cluster. Of rows that are equally far, the first counts.

    Args:
        values: The rows.
        k: At least 1; a table of fewer rows is one cluster.

    Returns:
        The rows of each cluster, in increasing order. It takes time in proportion to n^2 / k.

    Reference:
        Domingo-Ferrer and Torra 2005, Ordinal, continuous and heterogeneous k-anonymity through microaggregation.
    """
    clusters: list[Integers] = []
    rows, left = np.arange(len(values)), values

    def take(center: Floats) -> None:
        """Make a cluster of the k rows nearest to a center, and go on without them."""
        nonlocal rows, left
        inside = np.zeros(len(rows), np.bool_)
        inside[_nearest(squared_distances(left, center), k)] = True
        clusters.append(rows[inside])
        rows, left = rows[~inside], left[~inside]

    while len(rows) >= 3 * k:
        r = left[squared_distances(left, left.mean(axis=0)).argmax()]
        take(r)
        take(left[squared_distances(left, r).argmax()])
    if len(rows) >= 2 * k:
        take(left[squared_distances(left, left.mean(axis=0)).argmax()])
    return [*clusters, rows] if len(rows) else clusters


def squared_distances(values: Floats, center: Floats) -> Floats:
    """Return each row's squared distance to a center."""
    apart = values - center
    distances: Floats = np.einsum("ij,ij->i", apart, apart)
    return distances


def _nearest(distances: Floats, k: int) -> Integers:
    """Return the k nearest; of those that are equally far, the first."""
    farthest = np.partition(distances, k - 1)[k - 1]
    nearer = np.flatnonzero(distances < farthest)
    return np.concatenate([nearer, np.flatnonzero(distances == farthest)[: k - len(nearer)]])
