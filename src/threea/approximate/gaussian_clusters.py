"""A class, clusters of its rows in every feature set, and a Gaussian in each; columns keep their noisy histograms.

The Gaussian is drawn on the scale of normal scores, and each column's number becomes a cell by its rank: a Gaussian
copula. So the histograms, bent to the cluster's mean and spread, are kept to, whatever their shape.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from threea.approximate.conditioning import distributions, posterior, resampled
from threea.approximate.denoise import draw
from threea.approximate.tree_model import TreeModel
from threea.model_summary import ModelSummary
from threea.table.cells import Cells
from threea.table.conditions import Given, fitting
from threea.table.schema import Chunk

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

LOOSE = 0.02
"""Share of a feature's variance that no other tells. Chosen: small enough to change nothing that can be seen."""
_POOL, _FEWEST = 4, 4096
"""Under conditions on several columns of a set, so many rows are drawn for each one wanted, and at least so many in
all, and chosen among by their weights. Chosen."""


@dataclass(frozen=True, slots=True)
class FeatureSet:
    """Clusters of the rows in some of the features, and a Gaussian in each.

    Args:
        members: Positions of the features.
        classes: The class of each cluster.
        sizes: Noisy number of rows of each cluster.
        shares: For each feature, its distribution over its cells in each cluster.
        factors: For each cluster, how a few independent normal numbers move the features.
        alone: For each cluster, standard deviation of every feature besides; all variances add up to 1.
    """

    members: tuple[int, ...]
    classes: Whole
    sizes: Floats
    shares: tuple[Floats, ...]
    factors: Floats
    alone: Floats

    def within(self, classes: int) -> Floats:
        """Return the clusters' shares of each class."""
        return distributions(np.where(self.classes[None, :] == np.arange(classes)[:, None], self.sizes, 0.0))

    def drawn(self, cluster: Whole, rng: np.random.Generator) -> Floats:
        """Draw normal numbers for rows of these clusters."""
        numbers = rng.standard_normal((len(cluster), len(self.members)))
        few = rng.standard_normal((len(cluster), self.factors.shape[2]))
        for code in np.unique(cluster):
            rows = cluster == code
            numbers[rows] = numbers[rows] * self.alone[code] + few[rows] @ self.factors[code].T
        return numbers

    def correlations(self, cluster: int, columns: Sequence[int]) -> Floats:
        """Return the correlations of all features, in a cluster, with some of them."""
        factors = self.factors[cluster]
        found = factors @ factors[list(columns)].T
        found[list(columns), np.arange(len(columns))] = 1.0
        return np.asarray(found)


@dataclass(frozen=True, slots=True)
class GaussianClusters:
    """The class, in every feature set a cluster of that class, and a Gaussian in each.

    Args:
        base: The classes, and the columns' histograms given the class.
        orders: For each feature, its cells from the lowest score to the highest.
        sets: The feature sets; rows are joined across them by their class.
        noise: Of every answer, in rows, by the plan's line.
    """

    base: TreeModel
    orders: tuple[Whole, ...]
    sets: tuple[FeatureSet, ...]
    noise: Mapping[str, float]

    @property
    def summary(self) -> ModelSummary:
        """That of the histograms, and the noise on the clusters."""
        return replace(self.base.summary, noise=self.noise)

    def sample(self, rows: int, rng: np.random.Generator, given: Given | None = None) -> Chunk:
        """Draw classes, clusters, normal numbers and, by their ranks, cells.

        Conditions hold exactly. Under several on columns of one set, rows are chosen by weight from a bounded pool.
        """
        if given:
            return self._given(rows, rng, given)
        group = draw(self.base.ratio[None, :], np.zeros(rows, np.int64), rng)
        codes: dict[int, Whole] = {}
        for part in self.sets:
            cluster = draw(part.within(len(self.base.sizes)), group, rng)
            codes |= self._cells(part, cluster, part.drawn(cluster, rng))
        return self.base.decoded(group, [codes[index] for index in range(len(codes))], rng)

    def _cells(self, part: FeatureSet, cluster: Whole, numbers: Floats) -> dict[int, Whole]:
        """Return the cell of each normal number, by its rank in the cluster's histogram."""
        from scipy.special import ndtr

        ranks, codes = ndtr(numbers), {}
        for column, (member, shares) in enumerate(zip(part.members, part.shares, strict=True)):
            order = self.orders[member]
            ends = np.cumsum(shares[:, order], axis=1)
            # Rounding may leave the last that has any rows a little below 1.
            ends = np.where(ends >= ends[:, -1:], 1.0, ends)
            ladder = (ends + np.arange(len(ends))[:, None]).ravel()
            place = np.searchsorted(ladder, np.minimum(ranks[:, column], 1 - 1e-12) + cluster, side="right")
            codes[member] = order[np.clip(place - cluster * len(order), 0, len(order) - 1)]
        return codes

    def _given(self, rows: int, rng: np.random.Generator, given: Given) -> Chunk:
        """Draw what is asked for first, class and clusters by Bayes' rule, and the rest given that."""
        asked = [_Asked.of(part, self._columns(part), given) for part in self.sets]
        weights = [own.part.within(len(self.base.sizes)) * own.likelihood for own in asked]
        likelihoods = (self.base.label_likelihood(given), *(weight.sum(axis=1) for weight in weights))
        shares = posterior(self.base.ratio, likelihoods, given)
        pool = max(_POOL * rows, _FEWEST) if any(len(own.columns) > 1 for own in asked) else rows
        group = draw(shares[None, :], np.zeros(pool, np.int64), rng)
        drawn = [own.drawn(draw(weight, group, rng), rng) for own, weight in zip(asked, weights, strict=True)]
        if pool > rows:
            logs = np.sum([own.log_weights(found) for own, found in zip(asked, drawn, strict=True)], axis=0)
            kept = resampled(np.exp(logs - np.max(logs)), rows, rng, given)
            group, drawn = group[kept], [found.kept(kept) for found in drawn]
        codes: dict[int, Whole] = {}
        for own, found in zip(asked, drawn, strict=True):
            codes |= self._cells(own.part, found.cluster, own.joined(found, rng)) | found.cells
        return self.base.decoded(group, [codes[index] for index in range(len(codes))], rng, given)

    def _columns(self, part: FeatureSet) -> list[tuple[Cells, Whole]]:
        return [(self.base.features[member].cells, self.orders[member]) for member in part.members]


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Rows of a feature set, as far as conditions go: their clusters, the asked columns' cells and normal numbers."""

    cluster: Whole
    cells: dict[int, Whole]
    numbers: Floats

    def kept(self, rows: Whole) -> _Drawn:
        return _Drawn(self.cluster[rows], {m: code[rows] for m, code in self.cells.items()}, self.numbers[rows])


@dataclass(frozen=True, slots=True)
class _Asked:
    """Conditions on some columns of a feature set.

    Args:
        part: The set.
        columns: Their positions in it.
        orders: For each, its cells from the lowest score to the highest.
        fitting: For each, which share of each cluster's rows lies in a cell and fits.
        likelihood: How likely all fit in each cluster, were they independent.
    """

    part: FeatureSet
    columns: list[int]
    orders: list[Whole]
    fitting: list[Floats]
    likelihood: Floats

    @classmethod
    def of(cls, part: FeatureSet, columns: list[tuple[Cells, Whole]], given: Given) -> _Asked:
        """Find a set's conditions."""
        asked = [place for place, (cells, _) in enumerate(columns) if cells.column in given]
        fit = [part.shares[p] * fitting(columns[p][0], given[columns[p][0].column]) for p in asked]
        likely = np.prod([np.ones(len(part.sizes)), *(table.sum(axis=1) for table in fit)], axis=0)
        return cls(part, asked, [columns[place][1] for place in asked], fit, np.asarray(likely))

    def drawn(self, cluster: Whole, rng: np.random.Generator) -> _Drawn:
        """Draw cells that fit, each column by itself, and normal numbers in their places."""
        from scipy.special import ndtri

        cells, numbers = {}, np.zeros((len(cluster), len(self.columns)))
        for place, (column, order) in enumerate(zip(self.columns, self.orders, strict=True)):
            code, shares = draw(self.fitting[place], cluster, rng), self.part.shares[column]
            ends = np.zeros_like(shares)
            ends[:, order] = np.cumsum(shares[:, order], axis=1)
            rank = ends[cluster, code] - shares[cluster, code] * rng.random(len(code))
            cells[self.part.members[column]] = code
            numbers[:, place] = ndtri(np.clip(rank, 1e-12, 1 - 1e-12))
        return _Drawn(cluster, cells, numbers)

    def log_weights(self, found: _Drawn) -> Floats:
        """Return how much likelier the numbers are together than each by itself."""
        weights = np.zeros(len(found.numbers))
        for code in np.unique(found.cluster) if len(self.columns) > 1 else ():
            own = self.part.correlations(code, self.columns)[self.columns]
            rows = found.cluster == code
            numbers = found.numbers[rows]
            apart = np.linalg.inv(own) - np.eye(len(own))
            weights[rows] = -(np.einsum("ri,ij,rj->r", numbers, apart, numbers) + np.linalg.slogdet(own)[1]) / 2
        return weights

    def joined(self, found: _Drawn, rng: np.random.Generator) -> Floats:
        """Draw all columns given the numbers of some: free draws, moved by what these differ by (Matheron's rule)."""
        free = self.part.drawn(found.cluster, rng)
        for code in np.unique(found.cluster) if self.columns else ():
            rows = np.flatnonzero(found.cluster == code)
            beside: Floats = self.part.correlations(code, self.columns)
            off: Floats = (found.numbers[rows] - free[rows][:, self.columns]).T
            free[rows] += (beside @ np.linalg.solve(beside[self.columns], off)).T
        return free


def correlated(matrix: Floats) -> tuple[Floats, Floats]:
    """Return factors and what is left alone, of the correlation matrix nearest to a symmetric one of about unit spread.

    Negative eigenvalues become 0, and a little independence is left to every feature, so that none is a function of
    the others.
    """
    full = np.array(matrix)
    np.fill_diagonal(full, 1.0)
    values, vectors = np.linalg.eigh(full)
    factors = vectors * np.sqrt(np.maximum(values, 0.0))
    lengths = np.maximum(np.sqrt((factors**2).sum(axis=1, keepdims=True)), 1e-9)
    return factors / lengths * math.sqrt(1 - LOOSE), np.full(len(full), math.sqrt(LOOSE))
