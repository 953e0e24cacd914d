"""MC-GEN's independent feature sets: features that go together, by agglomerative clustering of their correlations.

Every row has a say in them, and nothing of it is paid for.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def feature_distances(values: Floats) -> Floats:
    """Return 2n * (1 - corr) between all features (Eq. 5); one that is constant correlates with none."""
    centred = values - values.mean(axis=0)
    lengths = np.sqrt((centred**2).sum(axis=0))
    scaled = np.divide(centred, lengths, out=np.zeros_like(centred), where=lengths > 0)
    distances: Floats = 2 * len(values) * (1 - np.clip(scaled.T @ scaled, -1.0, 1.0))
    np.fill_diagonal(distances, 0.0)
    return distances


def davies_bouldin(distances: Floats, sets: Integers) -> float:
    """Return the Davies-Bouldin index of sets of features: small where sets are tight and far apart.

    Features have distances and no centroids, so, as in the authors' code, a set is as wide as the mean distance of its
    pairs (0 for a single feature), and two sets are as far apart as the mean distance across.

    Args:
        distances: Between all features.
        sets: Each feature's set, counted from 0; at least two.

    Reference:
        Davies and Bouldin 1979, A cluster separation measure.
    """
    members = np.eye(int(sets.max()) + 1)[:, sets]
    return _index(members @ distances @ members.T, members.sum(axis=1))


def independent_feature_sets(values: Floats, count: int = 0) -> list[Integers]:
    """Divide the features by UPGMA on 2n * (1 - corr).

    Args:
        values: The rows' features.
        count: How many sets; 0 for the number, from 2 to one less than there are features, whose Davies-Bouldin index
            is least. Fewer than three features then are one set.

    Returns:
        The features of each set, in increasing order.
    """
    d = values.shape[1]
    if d < 2 or count == 1 or (count == 0 and d < 3):
        return [np.arange(d)] if d else []
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    distances = feature_distances(values)
    tree = linkage(squareform(distances, checks=False), method="average")
    return _cut(tree, d, min(count, d) if count else _least_index(distances, tree))


def _least_index(distances: Floats, tree: Floats) -> int:
    """Return the number of sets whose index is least, the smallest such number; sets are merged one by one."""
    d = len(distances)
    nodes, sums, sizes = list(range(d)), distances.copy(), np.ones(d)
    best, lowest = 2, np.inf
    for step in range(d - 2):
        kept, gone = sorted(nodes.index(int(node)) for node in tree[step, :2])
        sums[kept] += sums[gone]
        sums[:, kept] += sums[:, gone]
        sizes[kept] += sizes[gone]
        sums, sizes = np.delete(np.delete(sums, gone, 0), gone, 1), np.delete(sizes, gone)
        nodes[kept] = d + step
        del nodes[gone]
        index = _index(sums, sizes)
        if index <= lowest:
            best, lowest = len(nodes), index
    return best


def _index(sums: Floats, sizes: Floats) -> float:
    """Return the index, from the sums of distances within and between sets, each pair within counted twice."""
    width = np.diag(sums) / np.maximum(sizes * (sizes - 1), 1.0)
    apart = sums / np.outer(sizes, sizes)
    # Sets that are not apart at all are as badly divided as can be, however tight they are.
    ratio = np.divide(width[:, None] + width, apart, out=np.full_like(apart, np.inf), where=apart > 0)
    np.fill_diagonal(ratio, 0.0)
    return float(ratio.max(axis=1).mean())


def _cut(tree: Floats, d: int, count: int) -> list[Integers]:
    """Return the features of each set once so many sets are left."""
    sets = {feature: [feature] for feature in range(d)}
    for step in range(d - count):
        left, right = (sets.pop(int(node)) for node in tree[step, :2])
        sets[d + step] = left + right
    return sorted((np.sort(np.array(features)) for features in sets.values()), key=lambda features: int(features[0]))
