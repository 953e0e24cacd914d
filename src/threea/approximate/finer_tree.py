"""A tree of features told in finer cells, in finer ranges of a number to predict, or without it.

What a tree says within its merged cells, and within a class, is that nothing there depends on anything else. So it can
be written with finer cells, without changing what is drawn: room for a teacher that knows better.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from threea.approximate.denoise import grouped
from threea.approximate.feature import Feature
from threea.approximate.tree_model import Edge, TreeModel
from threea.table.cells import Merged

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

_MOST_NUMBERS = 1 << 21
"""Of all edges' tables together: 16 MB in a model's file. Chosen."""


def with_finer_features(model: TreeModel, most: int, least: float) -> TreeModel:
    """Return the tree with each feature's merged cells cut into finer ones, each a part of one of the former.

    Args:
        model: A tree.
        most: About how many cells a feature may have.
        least: The smallest share of the rows that a new cell may hold.
    """
    return _with_features(model, _finer_features(model, most, least))


def with_informative_cells(model: TreeModel, most: int, least: float, clear: float) -> TreeModel:
    """Return the tree with finer cells where, by the noisy counts, these tell more of the classes than the former.

    Args:
        model: A tree.
        most: About how many cells a feature may have.
        least: The smallest share of the rows that a new cell may hold.
        clear: By how many standard deviations of noise and chance they must tell more.
    """
    pairs = zip(model.features, _finer_features(model, most, least), strict=True)
    return _with_features(
        model, tuple(new if new.informative_within(old.merged, model.sizes) > clear else old for old, new in pairs)
    )


def _finer_features(model: TreeModel, most: int, least: float) -> tuple[Feature, ...]:
    numbers = len(model.sizes) * max(len(model.edges), 1)
    most = min(most, math.isqrt(_MOST_NUMBERS // numbers)) if model.edges else most
    return tuple(_finer_feature(feature, model.weights, most, least) for feature in model.features)


def _with_features(model: TreeModel, finer: tuple[Feature, ...]) -> TreeModel:
    edges = []
    for edge in model.edges:
        left, right = (_within(model.features[index], finer[index]) for index in (edge.parent, edge.child))
        joint = np.einsum("cab,cax,cby->cxy", edge.joint, left, right, optimize=True)
        edges.append(replace(edge, joint=joint))
    return replace(model, features=finer, edges=tuple(edges))


def _finer_feature(feature: Feature, weight: Floats, most: int, least: float) -> Feature:
    wanted = grouped(feature.cells, weight @ feature.given, most, least)
    groups = _numbered(np.asarray(feature.merged.groups), np.asarray(wanted))
    return replace(feature, merged=Merged(cells=feature.cells, groups=tuple(groups.tolist())))


def _within(feature: Feature, finer: Feature) -> Floats:
    """Return how a merged cell's rows spread over its finer cells, shape (classes, cells, finer cells)."""
    before, after = np.asarray(feature.merged.groups), np.asarray(finer.merged.groups)
    parts = np.zeros((len(feature.given), feature.merged.size, finer.merged.size))
    for row, shares in zip(parts, feature.given, strict=True):
        np.add.at(row, (before, after), shares)
    # A cell that a class has no rows of spreads as evenly as it can: its joint share is 0 anyway.
    member = np.zeros(parts.shape[1:])
    member[before, after] = 1.0
    empty = parts.sum(axis=2, keepdims=True) <= 0
    parts = np.where(empty, member, parts)
    return np.asarray(parts / parts.sum(axis=2, keepdims=True))


def with_finer_ranges(model: TreeModel, most: int) -> TreeModel:
    """Return the tree with the label's ranges cut into about `most`, each a part of one of the former."""
    assert model.label is not None
    cells, spread = model.label.cells, model.spread
    wanted = grouped(cells, np.maximum(model.sizes, 0.0) @ spread, max(most, 2))
    before = np.asarray(model.label.groups)
    groups = _numbered(before, np.asarray(wanted))
    label = Merged(cells=cells, groups=tuple(groups.tolist()))
    former = np.zeros(label.size, np.int64)
    former[groups] = before
    parts = np.where(groups == np.arange(label.size)[:, None], spread[former], 0.0)
    share = parts.sum(axis=1)
    parts = np.where(share[:, None] > 0, parts, groups == np.arange(label.size)[:, None])
    # Every range has its share of a count, and of its noise: they add up to what was measured.
    narrower = math.sqrt(len(model.sizes) / label.size)
    features = tuple(
        replace(f, counts=f.counts[former] * share[:, None], given=f.given[former], stddev=f.stddev * narrower)
        for f in model.features
    )
    return replace(
        model,
        label=label,
        spread=parts / parts.sum(axis=1, keepdims=True),
        sizes=model.sizes[former] * share,
        features=features,
        edges=tuple(Edge(edge.parent, edge.child, edge.joint[former], edge.gap) for edge in model.edges),
        stddev=model.stddev * narrower,
    )


def without_label(model: TreeModel) -> TreeModel:
    """Return the tree of the features alone: as each occurs, and as pairs along the tree do, whatever the label."""
    ratio = model.ratio
    features = tuple(
        replace(f, counts=f.counts.sum(axis=0, keepdims=True), given=(ratio @ f.given)[None]) for f in model.features
    )
    edges = tuple(replace(edge, joint=np.tensordot(ratio, edge.joint, 1)[None]) for edge in model.edges)
    sizes = model.sizes.sum(keepdims=True)
    return replace(model, label=None, spread=np.ones((1, 1)), sizes=sizes, features=features, edges=edges)


def _numbered(before: Whole, wanted: Whole) -> Whole:
    """Return the groups of cells that are together in both, numbered from 0."""
    return np.asarray(np.unique(before * (int(wanted.max()) + 1) + wanted, return_inverse=True)[1], np.int64)
