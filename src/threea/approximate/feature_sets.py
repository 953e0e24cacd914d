"""Independent feature sets (IFS): features that go together, by UPGMA on a noisy correlation matrix.

Reference:
    MC-GEN, section 4.3.1. Davies and Bouldin 1979, A cluster separation measure.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Sets = tuple[tuple[int, ...], ...]


def feature_sets(correlations: Floats) -> Sets:
    """Return disjoint sets that hold every feature.

    The distance of two features is ``1 - |correlation|``: Eq. 5 without its factor 2n, which changes no order, and
    without the sign, which is a matter of how a column is written down. The number of sets is the one with the smallest
    Davies-Bouldin index, from 2 to half as many as there are features: an index of 0 for all features alone says
    nothing. With one or two features there is one set.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    count = len(correlations)
    if count < 3:
        return (tuple(range(count)),)
    distances = 1 - np.clip(np.abs(correlations), 0.0, 1.0)
    np.fill_diagonal(distances, 0.0)
    merges = linkage(squareform(distances, checks=False), "average")
    cuts = [fcluster(merges, number, "maxclust") for number in range(2, max(count // 2, 2) + 1)]
    best = min(cuts, key=lambda labels: davies_bouldin(distances, labels))
    return tuple(tuple(np.flatnonzero(best == label).tolist()) for label in np.unique(best))


def davies_bouldin(distances: Floats, labels: NDArray[np.int64]) -> float:
    """Return the Davies-Bouldin index of sets of features, of which distances alone are known.

    The features themselves are not at hand, so a set's centre is its medoid, the feature nearest to the others; its
    scatter is the mean distance to it, and two sets are as far apart as their medoids. One set alone has no index.

    Example:
        >>> near, far = 0.1, 0.8
        >>> distances = np.array([[0, near, far, far], [near, 0, far, far], [far, far, 0, near], [far, far, near, 0]])
        >>> round(davies_bouldin(distances, np.array([1, 1, 2, 2])), 3)
        0.125
    """
    names = np.unique(labels)
    if len(names) < 2:
        return math.inf
    medoids, scatter = [], []
    for name in names:
        members = np.flatnonzero(labels == name)
        inner = distances[np.ix_(members, members)].mean(axis=1)
        medoids.append(members[inner.argmin()])
        scatter.append(inner.min())
    between = np.maximum(distances[np.ix_(medoids, medoids)], 1e-9)
    ratios = np.add.outer(scatter, scatter) / between
    np.fill_diagonal(ratios, 0.0)
    return float(ratios.max(axis=1).mean())


def pieces(sets: Sets, most: int) -> Sets:
    """Cut sets into parts of at most so many features."""
    return tuple(part[start : start + most] for part in sets for start in range(0, len(part), most))
