"""From noisy moments of clusters to Gaussians between columns that keep their histograms: all of it post-processing."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.cluster_moments import NoisyMoments
from threea.approximate.class_histograms import HISTOGRAMS
from threea.approximate.coordinates import tilted
from threea.approximate.covariance_denoising import shrunk_means, spiked
from threea.approximate.denoise import proportions
from threea.approximate.gaussian_clusters import FeatureSet, correlated
from threea.approximate.scored_columns import ScoredColumn, normal_parts
from threea.approximate.tree_model import TreeModel

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

_MOST_STRETCH = 3.0
"""Moments are stretched at most so much to make up for long rows that were shortened. Chosen."""
_FLATTEST = 0.05
"""A column that moves less with its normal number than this is independent of the others. Chosen."""


def fitted(
    base: TreeModel, columns: Sequence[ScoredColumn], members: tuple[int, ...], classes: Whole, moments: NoisyMoments
) -> FeatureSet:
    """Return a feature set's clusters: their histograms bent to the means and squares, and their correlations.

    Args:
        base: The classes and histograms.
        columns: How the set's features are scored.
        members: Their positions.
        classes: The class of each cluster.
        moments: The clusters' noisy counts, sums and products.
    """
    sizes = cluster_sizes(base, classes, moments.counts)
    rows = np.maximum(sizes, 1.0)
    stretch = _stretch(columns, moments, float(rows.sum()))
    means, products = (
        moments.sums * math.sqrt(stretch) / rows[:, None],
        moments.products * stretch / rows[:, None, None],
    )
    blur = math.sqrt(stretch) * moments.stddevs[1] / rows, stretch * moments.stddevs[2] / rows
    pooled = np.einsum("k,kij->ij", rows / rows.sum(), products)
    common = spiked(pooled, float(rows @ blur[1]) / float(rows.sum()) / math.sqrt(len(rows)))
    means = shrunk_means(means, blur[0], rows, common)
    blur = np.zeros(len(rows)), blur[1]
    shares = bent(columns, classes, alike(base, classes), rows, (means, np.diagonal(products, axis1=1, axis2=2)), blur)
    slopes = slopes_of(columns, shares)
    apart = products - means[:, :, None] * means[:, None, :]
    factors, alone = _correlations(apart / (slopes[:, :, None] * slopes[:, None, :]), blur[1], slopes, rows)
    return FeatureSet(members, classes, sizes, shares, factors, alone)


def cluster_sizes(base: TreeModel, classes: Whole, counts: Floats) -> Floats:
    """Return the clusters' numbers of rows, which add up to those of the classes."""
    sizes = np.zeros(len(classes))
    for code in np.unique(classes):
        own = classes == code
        sizes[own] = base.sizes[code] * proportions(counts[own])
    return sizes


def alike(base: TreeModel, classes: Whole) -> Whole:
    """Return the same number for clusters that have the same histograms: those of a class, or all."""
    return classes if base.stddev == base.noise[HISTOGRAMS] else np.zeros_like(classes)


def bent(
    columns: Sequence[ScoredColumn],
    classes: Whole,
    same: Whole,
    rows: Floats,
    moments: tuple[Floats, Floats],
    blur: tuple[Floats, Floats],
) -> tuple[Floats, ...]:
    """Return each column's distribution in every cluster: its histogram, tilted by how the cluster differs.

    Args:
        columns: How features are scored.
        classes: The class of each cluster.
        same: Clusters of the same number here have the same histograms; alone with its own, one is not tilted.
        rows: In each cluster.
        moments: Means of scores and of their squares.
        blur: The noise on a mean and on a product beside the diagonal, in each cluster.
    """
    off = [moment.copy() for moment in moments]
    for code in np.unique(same):
        own = same == code
        for moment in off:
            moment[own] -= rows[own] @ moment[own] / rows[own].sum()
    shares = []
    for place, column in enumerate(columns):
        given = column.feature.given[classes]
        inside = np.column_stack([column.points, column.points**2])
        wanted = given @ inside + np.column_stack([moment[:, place] for moment in off])
        noise = np.column_stack([blur[0], math.sqrt(2) * blur[1]])
        shares.append(tilted(given, inside, wanted, noise))
    return tuple(shares)


def slopes_of(columns: Sequence[ScoredColumn], shares: Sequence[Floats]) -> Floats:
    """Return by how much each column's score grows with its normal number, in each cluster.

    Two columns' scores then covary by their slopes times the correlation of their normal numbers, as far as a line
    tells: the first term of Mehler's formula. Columns of few cells covary less than the normal numbers behind them.
    """
    slopes = np.empty((len(shares[0]), len(columns)))
    for place, (column, share) in enumerate(zip(columns, shares, strict=True)):
        slopes[:, place] = normal_parts(share[:, column.order]) @ column.points[column.order]
    return np.maximum(slopes, _FLATTEST)


def _stretch(columns: Sequence[ScoredColumn], moments: NoisyMoments, rows: float) -> float:
    """Return what makes up for long rows that were shortened: the squares' sum as the histograms tell it, over ours."""
    expected = sum(float(column.overall @ column.points**2) for column in columns) * rows
    found = float(np.trace(moments.products.sum(axis=0)))
    sure = moments.stddevs[2] * math.sqrt(2 * len(columns) * len(moments.counts))
    return float(np.clip(expected / max(found, 1e-9), 1.0, _MOST_STRETCH)) if found > 4 * sure else 1.0


def _correlations(matrices: Floats, blur: Floats, slopes: Floats, rows: Floats) -> tuple[Floats, Floats]:
    """Denoise correlations: what all clusters have in common, and what noise does not explain of each one's own."""
    weight = rows / rows.sum()
    steep = (slopes**-2.0).mean(axis=1)
    for matrix in matrices:
        np.fill_diagonal(matrix, 0.0)
    common = np.einsum("k,kij->ij", weight, matrices)
    noise = math.sqrt(float((weight**2 * (blur * steep) ** 2).sum()))
    shared = spiked(common, noise)
    factors, alone = np.empty(matrices.shape), np.empty(matrices.shape[:2])
    for place, matrix in enumerate(matrices):
        own = math.sqrt(max((blur[place] * steep[place]) ** 2 * (1 - 2 * weight[place]) + noise**2, 0.0))
        more = spiked(matrix - common, own) if len(matrices) > 1 else 0.0
        factors[place], alone[place] = correlated(shared + more)
    return factors, alone
