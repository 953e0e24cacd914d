"""Approximate: clusters within each class, by noisy k-means; within a cluster columns are independent.

Histograms given the label come first. They score the cells of every column (the private form of the paper's normal
quantile transform) and give the first centroids. Rows then go to their nearest centroid, a public function of a row,
and noisy counts and sums of each cluster give the next centroids: `ClusterMoments`, one bounded sum per iteration.

Reference:
    ClustMix, Algorithm 2. Blum, Dwork, McSherry and Nissim 2005, Practical privacy: the SuLQ framework (k-means).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.clipping import step_of
from threea.anonymize.cluster_moments import ClusterMoments
from threea.anonymize.cluster_sums import Scores
from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Plan, Step
from threea.anonymize.query import Count, Norm
from threea.approximate.class_histograms import HISTOGRAMS, class_histograms
from threea.approximate.conditioning import distributions, posterior
from threea.approximate.coordinates import UNIT, ClusterAnswer, Coordinates, whole
from threea.approximate.denoise import draw
from threea.approximate.label_counts import CLASSES
from threea.approximate.tree_model import TreeModel
from threea.errors import SettingError
from threea.model_summary import ModelSummary
from threea.table.conditions import Given, fitting
from threea.table.schema import Chunk, Schema

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

CLUSTERS, MIXTURES = "clusters", "mixtures"
# Settings, all of them chosen.
_MOST_CLUSTERS = 256
"""More would make each pass over the rows slow."""
_MOST_GROUPS = 24
"""Into so many groups a column's cells are merged, at most."""
_STAND_OUT = 1.0
"""A group has at least as many rows as this many standard deviations of the noise while centroids move."""
_SLACK = 1.3
"""Rows are shortened whose scores' square is more than this many times the expected one."""
_START = 20_250_101
"""Seeds the first centroids, which are drawn from noisy histograms: any number will do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """Noisy k-means within each class.

    Args:
        sigma_max: The most noise on a coordinate of a cluster's mean, where an indicator counts 1: with it a cluster
            needs ``l_min`` rows (Eq. 7). Fewer and larger clusters have less noise.
        iterations: How often centroids move.
        histograms: Weight of the histograms in the budget.
        clusters: Weight of all iterations together.

    Raises:
        SettingError: A setting is outside its bounds.
    """

    sigma_max: float = 0.02
    iterations: int = 3
    histograms: float = 0.15
    clusters: float = 0.2

    def __post_init__(self) -> None:
        if not 0.0001 <= self.sigma_max <= 10:
            raise SettingError(f"sigma_max ({self.sigma_max}) must be from 0.0001 to 10")
        if not 1 <= self.iterations <= 100:
            raise SettingError(f"iterations ({self.iterations}) must be from 1 to 100")

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Count the classes, each column by class, and the rows of each cluster, time and again."""
        first = Step(name=CLASSES, weight=0.02)
        if not schema.features:
            return (first,)
        return (
            first,
            Step(name=HISTOGRAMS, weight=self.histograms),
            Step(name=CLUSTERS, weight=self.clusters, count=self.iterations),
        )

    def fit(self, table: PrivateTable, plan: Plan) -> MixtureModel:
        """Score the cells by their histograms, then move centroids drawn from these."""
        base = class_histograms(table, plan)
        if not base.features:
            return MixtureModel(base, (), (), np.arange(len(base.sizes)), base.sizes, base.noise)
        columns, l_min = _scored(base, table, plan, self.sigma_max)
        model = _start(base, columns, l_min, self.sigma_max)
        for _ in range(self.iterations):
            model = model.measured(table, plan, CLUSTERS)
        return model


@dataclass(frozen=True, slots=True)
class MixtureModel:
    """The class, a cluster of that class, and every column given the cluster.

    Args:
        base: The classes, and the columns' histograms given the class.
        columns: How columns are scored.
        shares: For each column, its distribution over its cells in each cluster.
        classes: The class of each cluster.
        sizes: Noisy number of rows of each cluster.
        noise: Of every answer, in rows, by the plan's line.
        sigma_max: The most noise on a cluster's mean.
    """

    base: TreeModel
    columns: tuple[Coordinates, ...]
    shares: tuple[Floats, ...]
    classes: Whole
    sizes: Floats
    noise: Mapping[str, float]
    sigma_max: float = 1.0

    @property
    def summary(self) -> ModelSummary:
        """That of the histograms, and the noise on the clusters."""
        return replace(self.base.summary, noise=self.noise)

    @property
    def centroids(self) -> Floats:
        """The mean of each cluster, in the coordinates in which rows are near one another."""
        pairs = zip(self.shares, self.columns, strict=True)
        return np.hstack([shares @ column.place for shares, column in pairs]) / UNIT

    def drawn(self, rows: int, rng: np.random.Generator) -> tuple[Floats, Whole]:
        """Draw points of the mixture, in the centroids' coordinates, and their classes."""
        cluster, codes = self._draw(rows, rng)
        pairs = zip(codes, self.columns, strict=True)
        return np.hstack([column.place[code] for code, column in pairs]) / UNIT, self.classes[cluster]

    def measured(self, table: PrivateTable, plan: Plan, line: str, centroids: Floats | None = None) -> MixtureModel:
        """Send rows to their nearest centroid, and describe the clusters by noisy counts and sums."""
        cells = tuple(column.feature.cells for column in self.columns)
        placed = whole(self.centroids if centroids is None else centroids)
        radius = _radius(self.base, self.columns)
        query = ClusterMoments(
            space=Scores(cells, tuple(column.place for column in self.columns)),
            centroids=placed,
            classes=tuple(self.classes.tolist()),
            summed=Scores(cells, tuple(column.table for column in self.columns)),
            radius=radius,
            weights=(1.0, radius),
            by=self.base.label,
        )
        answer = table.measure(query, plan[line])
        moments = query.read(answer, step_of(query.l2), Norm.L2)
        l_min = answer.stddev / self.sigma_max
        clusters = ClusterAnswer.of(self.classes, placed, moments.counts, moments.sums, moments.stddevs[1], l_min)
        ends = np.cumsum([0, *(column.table.shape[1] for column in self.columns)])
        shares = tuple(
            column.shares(clusters, self.base.sizes, slice(ends[index], ends[index + 1]))
            for index, column in enumerate(self.columns)
        )
        noise = {**self.noise, line: answer.stddev}
        return replace(self, shares=shares, classes=clusters.classes, sizes=clusters.counts, noise=noise)

    def sample(self, rows: int, rng: np.random.Generator, given: Given | None = None) -> Chunk:
        """Draw classes, clusters, and every column given its cluster; conditions hold exactly."""
        cluster, codes = self._given(rows, rng, given) if given else self._draw(rows, rng)
        return self.base.decoded(self.classes[cluster], codes, rng, given)

    def _draw(self, rows: int, rng: np.random.Generator) -> tuple[Whole, list[Whole]]:
        group = draw(self.base.ratio[None, :], np.zeros(rows, np.int64), rng)
        cluster = draw(self._within, group, rng)
        return cluster, [draw(shares, cluster, rng) for shares in self.shares]

    @property
    def _within(self) -> Floats:
        """The clusters' sizes, by class."""
        return np.where(self.classes[None, :] == np.arange(len(self.base.sizes))[:, None], self.sizes, 0.0)

    def _given(self, rows: int, rng: np.random.Generator, given: Given) -> tuple[Whole, list[Whole]]:
        """Draw clusters by Bayes' rule, then what fits of every column."""
        tables = []
        for column, shares in zip(self.columns, self.shares, strict=True):
            cells = column.feature.cells
            tables.append(distributions(shares) * fitting(cells, given.get(cells.column)))
        prior = self.base.ratio @ distributions(self._within)
        label = self.base.label_likelihood(given)[self.classes]
        clusters = posterior(prior, (label, *(table.sum(axis=1) for table in tables)), given)
        cluster = draw(clusters[None, :], np.zeros(rows, np.int64), rng)
        return cluster, [draw(table, cluster, rng) for table in tables]


def _radius(base: TreeModel, columns: Sequence[Coordinates]) -> float:
    """Return a length that few rows' scores exceed, by the histograms: public, and free."""
    squares = [((column.table / UNIT) ** 2).sum(axis=1) for column in columns]
    expected = sum(float(base.weights @ column.feature.given @ s) for column, s in zip(columns, squares, strict=True))
    most = sum(float(s.max()) for s in squares)
    return math.sqrt(max(min(_SLACK * expected + 1, most), 0.25))


def _scored(
    base: TreeModel, table: PrivateTable, plan: Plan, sigma_max: float
) -> tuple[tuple[Coordinates, ...], float]:
    """Score every column, with as many groups as noise allows; return also the fewest rows of a cluster.

    A row's length is at most about the square root of the number of columns, D. So with mu of noise per length a
    cluster's mean has noise of at most sigma_max from ``l_min = sqrt(D) / (mu * sigma_max)`` rows on, as Eq. 7 says
    (without its C: a row is in one cluster of one class).
    """
    stddev = table.stddev(Count(), plan[CLUSTERS]) * math.sqrt(1 + len(base.features))
    l_min = stddev / sigma_max
    seen = base.sizes[base.sizes > 3 * base.stddev]
    smallest = float((seen / np.maximum(seen // l_min, 1)).min(initial=l_min))
    groups = int(np.clip(smallest / (_STAND_OUT * stddev), 1, _MOST_GROUPS))
    known = base.stddev**2 if base.stddev == base.noise[HISTOGRAMS] else math.inf
    return tuple(Coordinates.of(feature, base.weights, groups, known) for feature in base.features), l_min


def _start(base: TreeModel, columns: tuple[Coordinates, ...], l_min: float, sigma_max: float) -> MixtureModel:
    """Draw the first centroids of each class from its histograms."""
    rng = np.random.default_rng(_START)
    count = np.maximum(base.sizes // l_min, 1).astype(np.int64)
    count = np.maximum(count * min(1.0, _MOST_CLUSTERS / count.sum()), 1).astype(np.int64)
    classes = np.repeat(np.arange(len(count)), count)
    shares = []
    for column in columns:
        given = column.feature.given[classes]
        hot = np.zeros(given.shape)
        hot[np.arange(len(hot)), draw(given, np.arange(len(classes)), rng)] = 1.0
        # Alone in its class, a cluster starts in the middle.
        shares.append(np.where((count[classes] > 1)[:, None], hot, given))
    sizes = (base.sizes / count)[classes]
    return MixtureModel(base, columns, tuple(shares), classes, sizes, base.noise, sigma_max)
