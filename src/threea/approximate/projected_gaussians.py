"""Rows on the unit sphere, projected to a few public random directions, and a noisy Gaussian per class there.

Reference:
    RON-Gauss: Chanyaswad, Liu and Mittal 2019, RON-Gauss: enhancing utility in non-interactive private data release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.clipping import Norm, step_of
from threea.anonymize.cluster_moments import ClusterMoments, NoisyMoments
from threea.anonymize.cluster_sums import Scores
from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Plan, Step
from threea.anonymize.products import pairs
from threea.anonymize.projection import Projection
from threea.anonymize.vectors import BASIS_BITS
from threea.approximate.class_histograms import HISTOGRAMS, class_histograms
from threea.approximate.covariance_denoising import covariances, second_moment, shrunk_means
from threea.approximate.fitted_gaussians import alike, bent, slopes_of
from threea.approximate.gaussian_clusters import LOOSE, FeatureSet, GaussianClusters
from threea.approximate.label_counts import CLASSES
from threea.approximate.multilevel import KINDS, MOMENTS, MOST_NUMBERS, STANDS_OUT
from threea.approximate.scored_columns import ScoredColumn, scored, tables
from threea.approximate.tree_model import TreeModel
from threea.errors import SettingError
from threea.table.schema import Schema

Floats = NDArray[np.float64]

SHARES = {CLASSES: 0.02, HISTOGRAMS: 0.3, MOMENTS: 0.68}
"""Of the budget. Chosen."""
WEIGHTS = (0.2, 0.8, 1.0)
"""Of the count, the sums and the products. Chosen."""
_LONG = 1.1
"""Projected rows are shortened that are longer than this many times what is usual. Chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectedGaussians:
    """A Gaussian per class of projected rows, by noisy moments.

    Args:
        dimensions: How many directions rows are projected to; at most as many as there are features are used.
        seed: Of the directions, which are public.
        noise: ``gaussian`` or ``laplace``.

    Raises:
        SettingError: A setting is outside its bounds.
    """

    dimensions: int = 256
    seed: int = 0
    noise: str = "gaussian"

    def __post_init__(self) -> None:
        if not 1 <= self.dimensions <= 512:
            raise SettingError(f"dimensions ({self.dimensions}) must be from 1 to 512")
        if not 0 <= self.seed < 1 << 63:
            raise SettingError(f"seed ({self.seed}) must be from 0 to 2**63 - 1")
        if self.noise not in KINDS:
            raise SettingError(f"noise ({self.noise}) must be gaussian or laplace")

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Count the classes and each column by class; then the classes' moments."""
        lines = SHARES if schema.features else {CLASSES: 1.0}
        target = schema[schema.target] if schema.target else None
        numbers = max(len(target.categories) if target else 1, 1) * pairs(min(self.dimensions, len(schema.features)))
        if numbers > MOST_NUMBERS:
            raise SettingError(f"products ({numbers}) must be at most {MOST_NUMBERS}; choose fewer dimensions")
        return tuple(Step(name=name, weight=weight, kind=KINDS[self.noise]) for name, weight in lines.items())

    def fit(self, table: PrivateTable, plan: Plan) -> GaussianClusters:
        """Score and centre the columns by their histograms, project, and ask for the moments of every class."""
        base = class_histograms(table, plan, STANDS_OUT)
        if not base.features:
            return GaussianClusters(base, (), (), base.noise)
        columns, norm = scored(base, table.schema), Norm.L1 if self.noise == "laplace" else Norm.L2
        # Classes that were found on the way may be many: all their products together stay below the limit.
        most = max((math.isqrt(8 * (MOST_NUMBERS // len(base.sizes)) + 1) - 1) // 2, 1)
        basis = directions(len(columns), min(self.dimensions, most), self.seed)
        query = _query(base, columns, basis, norm)
        answer = table.measure(query, plan[MOMENTS])
        moments = query.read(answer, step_of(norm.bound(query)), norm)
        part = _lifted(base, columns, basis / 2.0**BASIS_BITS, moments)
        noise = {**base.noise, MOMENTS: answer.stddev}
        return GaussianClusters(base, tuple(column.order for column in columns), (part,), noise)


def directions(width: int, count: int, seed: int) -> NDArray[np.int64]:
    """Return random orthonormal directions, one a column, rounded to whole numbers that count 2**-14."""
    drawn = np.random.default_rng(seed).standard_normal((width, min(count, width)))
    return np.rint(np.linalg.qr(drawn)[0] * 2.0**BASIS_BITS).astype(np.int64)


def _query(base: TreeModel, columns: tuple[ScoredColumn, ...], basis: NDArray[np.int64], norm: Norm) -> ClusterMoments:
    """Return the moments by class; a class is a cluster, wherever its rows lie."""
    width, kept = basis.shape
    # Directions of a sphere are nearly normal numbers; in L1 a unit vector is at most sqrt(p) long.
    usual = math.sqrt(kept / width) if norm is Norm.L2 else kept * math.sqrt(2 / (math.pi * width))
    most = 1.0 if norm is Norm.L2 else math.sqrt(kept)
    nowhere = Scores((columns[0].feature.cells,), (np.zeros((len(columns[0].scores), 1), np.int64),))
    classes = len(base.sizes)
    return ClusterMoments(
        space=nowhere,
        centroids=np.zeros((classes, 1), np.int64),
        classes=tuple(range(classes)),
        summed=Projection(tables(columns), basis),
        radius=min(_LONG * usual, most),
        weights=WEIGHTS,
        by=base.label,
    )


def _lifted(base: TreeModel, columns: tuple[ScoredColumn, ...], basis: Floats, moments: NoisyMoments) -> FeatureSet:
    """Return the classes' Gaussians, in all columns: what the directions leave unexplained is independent.

    Scores have about the length of the expected one; so have rows that are turned back.
    """
    length = math.sqrt(sum(float(column.overall @ column.points**2) for column in columns))
    sizes, kept = np.maximum(base.sizes, 1.0), np.arange(basis.shape[1])
    rows = float(sizes.sum())
    spread = moments.stddevs[2]
    pooled = second_moment(moments.products, spread, np.zeros(len(kept)), kept, rows)
    means = shrunk_means(moments.sums / sizes[:, None], moments.stddevs[1] / sizes, sizes, pooled)
    matrices = covariances(moments.products, spread, means, sizes, sizes)
    classes = np.arange(len(sizes))
    centres = length * means @ basis.T
    blur = np.zeros(len(sizes)), np.full(len(sizes), 1e3)
    shares = bent(columns, classes, alike(base, classes), sizes, (centres, np.zeros_like(centres)), blur)
    values, vectors = np.linalg.eigh(matrices)
    factors = length * basis @ (vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :])
    factors /= slopes_of(columns, shares)[:, :, None]
    told = (factors**2).sum(axis=2)
    factors *= np.sqrt(np.minimum((1 - LOOSE) / np.maximum(told, 1e-12), 1.0))[:, :, None]
    alone = np.sqrt(1 - (factors**2).sum(axis=2))
    return FeatureSet(tuple(range(len(columns))), classes, base.sizes, shares, factors, alone)
