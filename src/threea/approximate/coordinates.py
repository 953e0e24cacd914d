"""A column's cells as coordinates: where a row lies, what is summed of it, and what noisy sums say of a cluster.

All of it is made from noisy histograms, so it is public; reading sums is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.cluster_sums import MOST_SCORE, SCORE_BITS
from threea.approximate.denoise import proportions, shrunk
from threea.approximate.feature import Feature
from threea.table.cells import Bins

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

UNIT = 1 << SCORE_BITS
_FEWEST_GROUPS = 4
_FURTHEST = 2.5
"""Normal scores end here."""
_CAUTION, _STEEPEST, _NEWTON = 10.0, 40.0, 12
"""Of tilting: how much noise counts, the largest tilt, and how many steps."""


@dataclass(frozen=True, slots=True)
class Coordinates:
    """How a column is scored.

    Args:
        feature: The column's histogram, and its cells put together into groups.
        place: Whole numbers per cell, in which rows are near one another: normal scores of numbers, indicators of
            categories, of about unit variance.
        table: Whole numbers per cell that are summed: indicators of all groups but the heaviest, or, where noise would
            drown them, the normal score and its square.
        heaviest: The group without an indicator; None where scores are summed.
        known: Variance of what the histograms tell of a group in a class; infinite if they were not by class.
    """

    feature: Feature
    place: Whole
    table: Whole
    heaviest: int | None
    known: float

    @classmethod
    def of(cls, feature: Feature, weight: Floats, groups: int, known: float) -> Coordinates:
        """Score a column, given the classes' weights and how many groups of cells stand out from the noise."""
        overall = weight @ feature.given
        numeric = isinstance(feature.cells, Bins)
        if isinstance(feature.cells, Bins):
            scores = normal_scores(feature.cells, overall)
            spread = math.sqrt(max(float(overall @ scores**2), 0.01))
            place = whole(scores[:, None] / spread)
        if numeric and groups < _FEWEST_GROUPS:
            inside = scores / _FURTHEST
            return cls(feature, place, whole(np.column_stack([inside, inside**2])), None, known)
        feature = feature.coarser(max(groups, 2), weight, 0.0)
        index = np.asarray(feature.merged.groups)
        share = np.bincount(index, weights=overall)
        if len(share) == 1:
            nothing = np.zeros((len(index), 1), np.int64)
            return cls(feature, nothing, nothing, None, known)
        hot = np.eye(len(share))[index]
        heaviest = int(share.argmax())
        if not numeric:
            place = whole(hot / math.sqrt(max(1 - float((share**2).sum()), 0.1)))
        return cls(feature, place, whole(np.delete(hot, heaviest, axis=1)), heaviest, known * len(index) / len(share))

    def shares(self, sums: ClusterAnswer, sizes: Floats, part: slice) -> Floats:
        """Return the column's distribution over its cells in each cluster, denoised towards the class's."""
        given, scored = self.feature.given[sums.classes], sums.sums[:, part]
        if self.heaviest is None:
            return tilted(given, self.table / UNIT, scored / sums.counts[:, None], sums.stddevs / sums.counts)
        index = np.asarray(self.feature.merged.groups)
        groups = self.feature.merged.size
        counts = np.insert(scored, self.heaviest, sums.counts - scored.sum(axis=1), axis=1)
        coarse = self.feature.coarse
        denoised = np.empty((len(counts), groups))
        for code in range(len(coarse)):
            members = np.flatnonzero(sums.classes == code)
            # What the clusters add up to and the histograms both tell the class's distribution, each with its noise.
            variance = float((sums.stddevs[members] ** 2).sum())
            total = counts[members].sum(axis=0)
            total = total + (sizes[code] * coarse[code] - total) * variance / max(variance + self.known, 1e-300)
            expected = sums.counts[members, None] * proportions(total)
            stddev = np.maximum(sums.stddevs[members, None], 1e-9)
            denoised[members] = shrunk(counts[members] / stddev, expected / stddev, 1.0) * stddev
        wide = np.array([proportions(row) for row in denoised])
        inside = np.divide(given, coarse[sums.classes][:, index], out=np.zeros_like(given), where=given > 0)
        # A group that the class has none of is spread evenly over its cells.
        even = (1 / np.bincount(index))[index]
        return np.asarray(wide[:, index] * np.where(coarse[sums.classes][:, index] > 0, inside, even))


def whole(scores: Floats) -> Whole:
    """Return scores in whole units, as far as they may go."""
    return np.clip(np.rint(scores * UNIT), -MOST_SCORE, MOST_SCORE).astype(np.int64)


def normal_scores(cells: Bins, share: Floats) -> Floats:
    """Return the normal quantile of each cell's middle rank; missing values are in the middle.

    The paper's normal quantile transform, of a noisy histogram. Special values have their place among the bins.
    """
    from scipy.special import ndtri

    edges = np.array(cells.edges)
    middles = np.concatenate([cells.special, (edges[:-1] + edges[1:]) / 2])
    order = np.argsort(middles, kind="stable")
    known = np.maximum(share[: len(middles)][order], 1e-12)
    known = known / known.sum()
    scores = np.zeros(len(share))
    scores[order] = np.clip(ndtri(np.cumsum(known) - known / 2), -_FURTHEST, _FURTHEST)
    return scores


def tilted(given: Floats, scores: Floats, means: Floats, stddevs: Floats) -> Floats:
    """Tilt distributions so that their scores have given noisy means, as far as these are sure.

    Minimises the Kullback-Leibler divergence from `given` plus the squared misfit over the noise's variance: an
    exponential tilt whose few parameters are found by Newton's method. The noise is one number for each distribution,
    or one for each of its means.
    """
    tilt = np.zeros(means.shape)
    ridge = np.maximum(_CAUTION * stddevs**2, 1e-6).reshape(len(means), -1)
    moved = given
    for _ in range(_NEWTON):
        mean = moved @ scores
        second = np.einsum("kc,ci,cj->kij", moved, scores, scores) - mean[:, :, None] * mean[:, None, :]
        second += ridge[:, :, None] * np.eye(scores.shape[1])
        move = np.linalg.solve(second, (means - mean - ridge * tilt)[:, :, None])[:, :, 0]
        tilt = np.clip(tilt + np.clip(move, -1.0, 1.0), -_STEEPEST, _STEEPEST)
        logits = tilt @ scores.T
        moved = given * np.exp(logits - logits.max(axis=1, keepdims=True))
        moved = moved / np.maximum(moved.sum(axis=1, keepdims=True), 1e-300)
    return moved


@dataclass(frozen=True, slots=True)
class ClusterAnswer:
    """Noisy counts and sums of clusters, those too small put together with others."""

    classes: Whole
    counts: Floats
    sums: Floats
    stddevs: Floats
    """Standard deviation of the noise on each cluster's numbers."""

    @classmethod
    def of(
        cls, classes: Whole, centroids: Whole, counts: Floats, sums: Floats, stddev: float, l_min: float
    ) -> ClusterAnswer:
        """Merge clusters of fewer than `l_min` rows into the nearest of their class."""
        parent = np.arange(len(classes))
        for code in np.unique(classes):
            members = np.flatnonzero(classes == code)
            large = members[counts[members] >= l_min]
            if not len(large):
                large = members[[counts[members].argmax()]]
            distances = (centroids[large] ** 2).sum(axis=1) - 2 * centroids[members] @ centroids[large].T
            parent[members] = large[distances.argmin(axis=1)]
            parent[large] = large
        kept, merging = np.unique(parent, return_inverse=True)
        merged = np.zeros((len(kept), 1 + sums.shape[1]))
        np.add.at(merged, merging, np.column_stack([counts, sums]))
        return cls(classes[kept], np.maximum(merged[:, 0], 1.0), merged[:, 1:], stddev * np.sqrt(np.bincount(merging)))
