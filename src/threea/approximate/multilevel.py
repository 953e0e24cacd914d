"""Multi-level clustering: feature sets, clusters of the rows in each, and a noisy Gaussian in each cluster.

Reference:
    MC-GEN: Li, Zhuang and Chang 2023, Multi-level clustering for private synthetic data generation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.clipping import Norm, step_of
from threea.anonymize.cluster_moments import ClusterMoments, NoisyMoments
from threea.anonymize.door import PrivateTable
from threea.anonymize.events import Gaussian, Pure
from threea.anonymize.plan import Plan, Step
from threea.anonymize.products import pairs
from threea.anonymize.query import Stack
from threea.approximate.class_histograms import HISTOGRAMS, class_histograms
from threea.approximate.coordinates import whole
from threea.approximate.denoise import draw
from threea.approximate.feature_sets import Sets, feature_sets, pieces
from threea.approximate.fitted_gaussians import fitted
from threea.approximate.gaussian_clusters import GaussianClusters
from threea.approximate.label_counts import CLASSES
from threea.approximate.scored_columns import ScoredColumn, radius_of, scored, tables
from threea.approximate.tree_model import TreeModel
from threea.errors import SettingError
from threea.table.schema import Schema

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

CORRELATIONS, CLUSTERS, MOMENTS = "correlations", "clusters", "moments"
SHARES = {CLASSES: 0.02, HISTOGRAMS: 0.4, CORRELATIONS: 0.05, CLUSTERS: 0.1, MOMENTS: 0.53}
"""Of the budget. Chosen, as all settings here, on Pima and on halves of Adult and Phishing: histograms are what columns
look like, moments how they go together and, in small tables, how classes differ."""
KINDS: dict[str, type[Gaussian] | type[Pure]] = {"gaussian": Gaussian, "laplace": Pure}
MOST_NUMBERS = 1 << 20
"""About how many noisy products are asked for at once, at most. Chosen: so many draws of noise take seconds."""
_COUNT, _SUMS = 0.2, 1.0
"""Weights of the count and the sums beside the products. Chosen."""
STANDS_OUT = 60.0
"""Histograms are by class if a class has as many rows as this many standard deviations of their noise; otherwise the
moments tell the classes apart. Chosen."""
_STAND_OUT = 4.0
"""A cluster has at least as many rows as this many standard deviations of the noise on a sum. Chosen."""
_START = 20_260_101
"""Seeds the first centroids, which are drawn from noisy histograms: any number will do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiLevel:
    """Feature sets by noisy correlations, row clusters by noisy k-means, and noisy moments of each cluster.

    Args:
        k: Rows in a cluster, as a share of all.
        feature_sets: Whether features are put into sets; otherwise all are in one.
        iterations: How often the centroids of the clusters move, if a class has several.
        noise: ``gaussian`` or ``laplace``.

    Raises:
        SettingError: A setting is outside its bounds.
    """

    k: float = 1.0
    feature_sets: bool = True
    iterations: int = 2
    noise: str = "gaussian"

    def __post_init__(self) -> None:
        if not 0.01 <= self.k <= 1:
            raise SettingError(f"k ({self.k}) must be from 0.01 to 1, a share of the rows; 1 is a cluster per class")
        if not 1 <= self.iterations <= 100:
            raise SettingError(f"iterations ({self.iterations}) must be from 1 to 100")
        if self.noise not in KINDS:
            raise SettingError(f"noise ({self.noise}) must be gaussian or laplace")

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Count the classes and each column by class; then the sets, the clusters and their moments."""
        count = len(schema.features)
        lines = {CLASSES: 1}
        if count:
            self._check_size(schema)
            lines |= {HISTOGRAMS: 1}
            lines |= {CORRELATIONS: 1} if self._finds_sets(count) else {}
            lines |= {CLUSTERS: self.iterations} if self.k < 1 else {}
            lines |= {MOMENTS: 1}
        return tuple(
            Step(name=name, weight=SHARES[name], kind=KINDS[self.noise], count=times) for name, times in lines.items()
        )

    def fit(self, table: PrivateTable, plan: Plan) -> GaussianClusters:
        """Ask for one level after another."""
        base = class_histograms(table, plan, STANDS_OUT)
        if not base.features:
            return GaussianClusters(base, (), (), base.noise)
        asking = _Asking(table, plan, base, scored(base, table.schema), Norm.L1 if self.noise == "laplace" else Norm.L2)
        every = tuple(range(len(base.features)))
        sets: Sets = feature_sets(asking.correlations()) if self._finds_sets(len(every)) else (every,)
        classes = asking.clusters(self.k) if self.k < 1 else np.arange(len(base.sizes))
        # Classes that were found on the way may be many: products of all clusters together stay below the limit.
        sets = pieces(sets, max(2 * MOST_NUMBERS // (len(classes) * len(every)), 1))
        centroids = asking.start(sets, classes)
        for _ in range(self.iterations if self.k < 1 else 0):
            centroids = asking.moved(sets, classes, centroids)
        return asking.model(sets, classes, centroids)

    def _finds_sets(self, count: int) -> bool:
        return self.feature_sets and count > 2

    def _check_size(self, schema: Schema) -> None:
        """Refuse a table whose products would be too many: public facts decide."""
        count = len(schema.features)
        target = schema[schema.target] if schema.target else None
        classes = 1 if self.feature_sets else max(len(target.categories) if target else 1, 1)
        if classes * pairs(count) > MOST_NUMBERS:
            remedy = "use gaussians or fewer columns" if self.feature_sets else "use mcgen, gaussians or fewer columns"
            raise SettingError(
                f"products ({classes * pairs(count)}) of {count} columns must be at most {MOST_NUMBERS}; {remedy}"
            )


@dataclass(frozen=True, slots=True)
class _Asking:
    """What the levels are asked with."""

    table: PrivateTable
    plan: Plan
    base: TreeModel
    columns: tuple[ScoredColumn, ...]
    norm: Norm

    def correlations(self) -> Floats:
        """Ask for the moments of all rows; return the correlations of all features' scores."""
        centre = np.zeros((1, len(self.columns)), np.int64)
        query = self._query(self.columns, centre, (0,), products=True, by_class=False)
        moments = query.read(
            self.table.measure(query, self.plan[CORRELATIONS]), step_of(self.norm.bound(query)), self.norm
        )
        rows = max(float(self.base.sizes.sum()), 1.0)
        means = moments.sums[0] / rows
        spread = np.sqrt([column.variance for column in self.columns])
        return np.asarray((moments.products[0] / rows - np.outer(means, means)) / np.outer(spread, spread))

    def clusters(self, k: float) -> Whole:
        """Return the class of each cluster: as many of a class as it has times `k` of all rows, if noise allows."""
        stack = self._stack((tuple(range(len(self.columns))),), np.zeros(1, np.int64), None, products=False)
        moments = stack.queries[0]
        assert isinstance(moments, ClusterMoments)
        noise = self.table.stddev(stack, self.plan[CLUSTERS]) * moments.radius / moments.weights[1]
        sizes = self.base.sizes
        count = np.minimum(sizes / max(k * float(sizes.sum()), 1e-9), sizes / max(_STAND_OUT * noise, 1e-9))
        return np.repeat(np.arange(len(sizes)), np.maximum(count, 1).astype(np.int64))

    def start(self, sets: Sets, classes: Whole) -> list[Whole]:
        """Draw the first centroids of each class from its histograms; alone in its class, one is in the middle."""
        rng = np.random.default_rng(_START)
        alone = np.bincount(classes)[classes] == 1
        places = []
        for column in self.columns:
            given = column.feature.given[classes]
            drawn = column.points[draw(given, np.arange(len(classes)), rng)]
            places.append(np.where(alone, given @ column.points, drawn))
        return [whole(np.column_stack([places[member] for member in part])) for part in sets]

    def moved(self, sets: Sets, classes: Whole, centroids: list[Whole]) -> list[Whole]:
        """Ask for counts and sums; return the clusters' means, of those that stand out from the noise."""
        found = self._ask(self._stack(sets, classes, centroids, products=False), CLUSTERS)
        return [
            np.where(
                (moments.counts > _STAND_OUT * moments.stddevs[1])[:, None],
                whole(moments.sums / np.maximum(moments.counts, 1.0)[:, None]),
                before,
            )
            for moments, before in zip(found, centroids, strict=True)
        ]

    def model(self, sets: Sets, classes: Whole, centroids: list[Whole]) -> GaussianClusters:
        """Ask for the moments of all clusters of all sets at once."""
        stack = self._stack(sets, classes, centroids, products=True)
        found = self._ask(stack, MOMENTS)
        parts = tuple(
            fitted(self.base, [self.columns[member] for member in part], part, classes, moments)
            for part, moments in zip(sets, found, strict=True)
        )
        lines = {line.name: line for line in self.plan.lines}
        noise = {
            name: self.table.stddev(stack, self.plan[name])
            for name in (CORRELATIONS, CLUSTERS, MOMENTS)
            if name in lines
        }
        return GaussianClusters(
            self.base, tuple(column.order for column in self.columns), parts, {**self.base.noise, **noise}
        )

    def _ask(self, stack: Stack, line: str) -> list[NoisyMoments]:
        answer, step = self.table.measure(stack, self.plan[line]), step_of(self.norm.bound(stack))
        pairs_ = zip(stack.queries, answer.parts, strict=True)
        return [query.read(part, step, self.norm) for query, part in pairs_ if isinstance(query, ClusterMoments)]

    def _stack(self, sets: Sets, classes: Whole, centroids: list[Whole] | None, *, products: bool) -> Stack:
        """Return one query for each feature set."""
        queries = []
        for place, part in enumerate(sets):
            columns = [self.columns[member] for member in part]
            middle = np.zeros((len(classes), len(part)), np.int64) if centroids is None else centroids[place]
            queries.append(self._query(columns, middle, tuple(classes.tolist()), products=products))
        return Stack(tuple(queries))

    def _query(
        self,
        columns: Sequence[ScoredColumn],
        centroids: Whole,
        classes: tuple[int, ...],
        *,
        products: bool,
        by_class: bool = True,
    ) -> ClusterMoments:
        scores, width = tables(columns), len(columns)
        weights = (_COUNT, _SUMS * math.sqrt(width), float(width))
        return ClusterMoments(
            space=scores,
            centroids=centroids,
            classes=classes,
            summed=scores,
            radius=radius_of(columns, self.norm),
            weights=weights if products else weights[:2],
            by=self.base.label if by_class else None,
        )
