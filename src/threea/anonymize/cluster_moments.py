"""Moments of clusters of rows: a row goes to the nearest public centroid of its class and adds to that cluster alone.

It adds 1, its scores and their products: what a Gaussian per cluster needs. The bound is imposed in L2 or in L1, so
that noise may be Gaussian or Laplace.

Proofs: docs/proofs/lookup-sums.md, cluster-moments.md.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.cluster_sums import UNIT, Scores, check_clusters, nearest, whole_table
from threea.anonymize.lookup_sums import (
    TOO_LONG,
    Floats,
    Integers,
    LookupSum,
    added,
    keys_of,
    lengths_in,
    shortened,
    squared,
)
from threea.anonymize.products import longest_row, pairs, product_norms, read_products, summed_products
from threea.anonymize.projection import Projection
from threea.anonymize.query import Answer, Norm, Rows
from threea.errors import SettingError
from threea.table.cells import AnyCells

_LEAST, _MOST, _ABOVE = 2.0**-20, 2.0**20, 1 + 2.0**-40


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ClusterMoments(LookupSum):
    """For each cluster, how many rows it has, the sums of their scores and, if asked for, of their products.

    A row is in the cluster of the nearest centroid of its class, of equally near ones in the first. Scores longer than
    the radius, in the norm that is bounded, are shortened to it; then the count, the scores over the radius and their
    products over its square are multiplied by the weights. A row without a class, or whose class has no centroid, adds
    nothing.

    Args:
        space: The coordinates in which rows and centroids are near one another or far.
        centroids: One row of whole numbers, in the space's units, for each cluster. They are copied.
        classes: The class of each centroid.
        summed: What is summed.
        radius: The length at which scores are shortened, from 2**-20 to 2**20.
        weights: Of the count, of the sums and of the products, from 2**-20 to 2**20; without the last no products.
        by: The cells that say which class a row is of; without, all rows are of class 0.

    Raises:
        SettingError: The parts do not fit one another, or a number is out of range.
    """

    space: Scores
    centroids: Integers
    classes: tuple[int, ...]
    summed: Scores | Projection
    radius: float
    weights: tuple[float, ...]
    by: AnyCells | None = None
    nonnegative = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "centroids", whole_table(self.centroids))
        if not _LEAST <= self.radius <= _MOST:
            raise SettingError(f"radius ({self.radius}) must be from 2**-20 to 2**20")
        if len(self.weights) not in (2, 3) or not all(_LEAST <= weight <= _MOST for weight in self.weights):
            raise SettingError(f"weights {self.weights} must be two or three numbers from 2**-20 to 2**20")
        check_clusters(self.space, self.centroids, self.classes, self.by)

    @property
    def _cells(self) -> tuple[AnyCells, ...]:
        return (*((self.by,) if self.by else ()), *self.space.cells, *self.summed.cells)

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The label and the scored columns."""
        return tuple(dict.fromkeys(cells.column for cells in self._cells))

    @property
    def keys(self) -> tuple[Hashable, ...]:  # type: ignore[override]
        """Cells say it all."""
        return keys_of(*self._cells)

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """For each cluster the count, then the sums, then the products: the upper triangle by rows."""
        width = self.summed.width
        return (len(self.classes), 1 + width + (pairs(width) if self._products else 0))

    @property
    def l2(self) -> float:  # type: ignore[override]
        """All parts at their longest, and no rounding below that."""
        return math.hypot(*self.weights) * _ABOVE

    @property
    def l1(self) -> float:  # type: ignore[override]
        """All parts at their longest, and no rounding below that."""
        return math.fsum(self.weights) * _ABOVE

    @property
    def _products(self) -> bool:
        return len(self.weights) == 3

    def contributions(self, rows: Rows, step: float, norm: Norm) -> Iterator[_Members]:
        """Find the rows' clusters, shorten their scores, round to whole numbers."""
        cluster = nearest(rows, self.space, self.centroids, self.classes, self.by)
        one, longest, factor = self._lengths(step, norm)
        for block, scores in self.summed.blocks(rows):
            lengths, radius = lengths_in(scores, norm), self.radius * UNIT
            factors = shortened(scores, lengths, radius, factor, norm) if self._products else None
            yield _Members(cluster[block], one, shortened(scores, lengths, radius, longest, norm), factors, norm)

    def read(self, answer: Answer, step: float, norm: Norm) -> NoisyMoments:
        """Return what an answer says, in units of 1, which is 2**8 scores.

        Args:
            answer: What the door answered.
            step: The grid's step.
            norm: That of the noise.
        """
        one, longest, factor = self._lengths(step, norm)
        width, value = self.summed.width, answer.value.reshape(self.shape)
        unit, product = max(longest, 1) * step / self.radius, (max(factor, 1) / self.radius) ** 2 * step
        matrices, spread = np.zeros((len(value), 0, 0)), 0.0
        if self._products:
            matrices, spread = read_products(value[:, 1 + width :] / product, answer.stddev / product, width, norm)
        counted = max(one, 1) * step
        return NoisyMoments(
            value[:, 0] / counted,
            value[:, 1 : 1 + width] / unit,
            matrices,
            (answer.stddev / counted, answer.stddev / unit, spread),
        )

    def _lengths(self, step: float, norm: Norm) -> tuple[int, int, int]:
        """Return in whole numbers what a row's count is, how long its scores may be, and the factors of products."""
        one, longest = (math.floor(weight / step) for weight in self.weights[:2])
        return one, longest, longest_row(math.floor(self.weights[2] / step), norm) if self._products else 0


@dataclass(frozen=True, slots=True)
class NoisyMoments:
    """Noisy counts, sums and products of clusters.

    Args:
        counts: How many rows each cluster has.
        sums: Of their scores.
        products: Of all pairs of scores: a symmetric matrix for each cluster, of size 0 if not asked for.
        stddevs: Of the noise on a count, a sum, and a product beside the diagonal.
    """

    counts: Floats
    sums: Floats
    products: Floats
    stddevs: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class _Members:
    """A block of rows: the cluster of each (-1: none), what its count is, its scores and factors, in whole numbers."""

    cluster: Integers
    one: int
    scores: Floats
    factors: Floats | None
    norm: Norm

    @property
    def norms(self) -> Integers:
        own = added(self.scores) if self.norm is Norm.L1 else squared(self.scores)
        products = 0 if self.factors is None else product_norms(self.factors, self.norm)
        # Half of `TOO_LONG` is beyond every bound, and the sum stays below 2**63.
        norms: Integers = np.minimum(own, TOO_LONG // 2) + np.minimum(products, TOO_LONG // 2)
        norms += self.one**self.norm.power
        return norms

    def add(self, sums: Integers, admitted: NDArray[np.bool_]) -> None:
        width = self.scores.shape[1]
        rows = np.flatnonzero(admitted & (self.cluster >= 0))
        if not len(rows):
            return
        # In the order of the clusters, so that each cluster's rows lie together.
        rows = rows[np.argsort(self.cluster[rows], kind="stable")]
        present, starts, counts = np.unique(self.cluster[rows], return_index=True, return_counts=True)
        sums[present, 0] += counts * self.one
        sums[present, 1 : 1 + width] += np.add.reduceat(self.scores[rows], starts, axis=0).astype(np.int64)
        if self.factors is not None:
            for cluster, members in zip(present, np.split(rows, starts[1:]), strict=True):
                sums[cluster, 1 + width :] += summed_products(self.factors[members], self.norm)
