"""Columns of every kind on one scale: a score for each cell, the mean of a standard normal number in its place.

Numbers have their own order. Categories are put in order of what they say about the class, by the noisy histograms; of
ordinal ones, or without classes, the listed order is kept. All of it is made from noisy histograms, so it is public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.cluster_sums import Scores
from threea.anonymize.query import Norm
from threea.approximate.coordinates import UNIT, whole
from threea.approximate.feature import Feature
from threea.approximate.tree_model import TreeModel
from threea.table.cells import Bins
from threea.table.schema import Kind, Schema

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

_FURTHEST = 3.0
"""Scores end here. Chosen: of a thousand rows three lie beyond."""
_SLACK = 1.5
"""Rows are shortened whose length, to the power of its norm, is so many standard deviations above the mean. Chosen."""


@dataclass(frozen=True, slots=True)
class ScoredColumn:
    """A column's cells in an order, each with a score.

    Args:
        feature: The column's histogram given the class.
        order: The cells, from the lowest score to the highest.
        scores: Of each cell, in whole units of 2**-8.
        overall: The share of all rows in each cell.
    """

    feature: Feature
    order: Whole
    scores: Whole
    overall: Floats

    @classmethod
    def of(cls, feature: Feature, weights: Floats, kind: Kind) -> ScoredColumn:
        """Score a column, given the classes' weights."""
        overall = weights @ feature.given
        places = _places(feature, weights, kind)
        known = np.flatnonzero(np.isfinite(places))
        known = known[np.argsort(places[known], kind="stable")]
        scores = np.zeros(len(overall))
        share = np.maximum(overall[known], 1e-9)
        scores[known] = np.clip(normal_parts(share / share.sum()) / (share / share.sum()), -_FURTHEST, _FURTHEST)
        return cls(feature, np.argsort(scores, kind="stable"), whole(scores[:, None])[:, 0], overall)

    @property
    def points(self) -> Floats:
        """The scores in units of 1."""
        return self.scores / UNIT

    @property
    def variance(self) -> float:
        """Of the scores over all rows."""
        return max(float(self.overall @ (self.points - self.overall @ self.points) ** 2), 1e-4)


def scored(base: TreeModel, schema: Schema) -> tuple[ScoredColumn, ...]:
    """Score all features."""
    kinds = {column.name: column.kind for column in schema.features}
    share = base.sizes / base.sizes.sum() if base.sizes.sum() > 0 else np.full(len(base.sizes), 1 / len(base.sizes))
    return tuple(ScoredColumn.of(feature, share, kinds[feature.cells.column]) for feature in base.features)


def normal_parts(share: Floats) -> Floats:
    """Return, of a standard normal number cut into consecutive parts of these shares, the mean of each times its share.

    Shares are along the last axis and add up to 1.

    Example:
        >>> normal_parts(np.array([0.5, 0.5])).round(4)
        array([-0.3989,  0.3989])
    """
    from scipy.special import ndtri

    ends = ndtri(np.clip(np.cumsum(share, axis=-1), 0.0, 1.0))
    density = np.exp(-(ends**2) / 2) / math.sqrt(2 * math.pi)
    density[..., -1] = 0.0
    return np.asarray(-np.diff(density, axis=-1, prepend=0.0))


def tables(columns: Sequence[ScoredColumn]) -> Scores:
    """Return the columns' scores as a query looks them up."""
    cells = tuple(column.feature.cells for column in columns)
    return Scores(cells, tuple(column.scores[:, None] for column in columns))


def radius_of(columns: Sequence[ScoredColumn], norm: Norm) -> float:
    """Return a length that not many rows' scores exceed, and that some row can reach: public, and free."""
    powers = [np.abs(column.points) ** norm.power for column in columns]
    means = [float(column.overall @ power) for column, power in zip(columns, powers, strict=True)]
    spread = sum(float(column.overall @ power**2) for column, power in zip(columns, powers, strict=True))
    usual = sum(means) + _SLACK * math.sqrt(max(spread - sum(mean**2 for mean in means), 0.0))
    most = sum(float(power.max()) for power in powers)
    return float(max(min(usual, most), 1e-3) ** (1 / norm.power))


def _places(feature: Feature, weights: Floats, kind: Kind) -> Floats:
    """Return where each cell lies in the order; a missing number nowhere, which is in the middle."""
    cells = feature.cells
    if isinstance(cells, Bins):
        edges = np.array(cells.edges)
        middles = np.concatenate([cells.special, (edges[:-1] + edges[1:]) / 2])
        return np.append(middles, np.full(int(cells.missing), np.nan))
    if kind is Kind.ORDINAL or not np.ptp(feature.given, axis=0).any():
        return np.arange(cells.size, dtype=np.float64)
    # The first axis of correspondence analysis: the order that tells the classes apart best.
    overall = np.maximum(weights @ feature.given, 1e-9)
    apart = np.sqrt(weights)[:, None] * (feature.given - overall) / np.sqrt(overall)
    axis = np.linalg.svd(apart, full_matrices=False)[2][0] / np.sqrt(overall)
    return np.asarray(np.round(axis, 9))
