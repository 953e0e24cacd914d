"""`mcgen-published`: MC-GEN as in its paper, or with the noise of its authors' code; it reads the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from threea.anonymize.door import PrivateTable
from threea.anonymize.events import Pure
from threea.anonymize.plan import Plan, Step
from threea.approximate.points import Points
from threea.certificate import Guarantee
from threea.errors import SettingError
from threea.framework import Recipe
from threea.published.exposed_rows import ExposedRows
from threea.published.feature_sets import independent_feature_sets
from threea.published.mcgen_sanitizer import NoisyGaussian, Scales, algorithm_scales, code_scales
from threea.published.mdav import mdav
from threea.published.numeric_features import SCALED, Floats, NumericFeatures, check_width
from threea.table.schema import Schema

Noise = Literal["algorithm", "code"]
Draw = Literal["gaussian", "means"]
NAME, STEP, REASON = "mcgen-published", "sanitizer", "MC-GEN as published"
MOST_SETS = 10_000

ASSUMPTIONS = (
    "a row is taken to change one cluster (in each feature set), but MDAV's clusters depend on every row: one row can "
    "move many others to another cluster, and a mean by far more than its share",
    "the feature sets follow from the correlations of the rows, which is not paid for",
    SCALED,
    "there are as many synthetic rows of each class as private ones, and the size of a cluster sets its noise: both "
    "are taken as public, and a row is taken to be replaced by one of its class, whatever the adjacency",
    "which clusters' draws stand together in a row follows from the private row in that place, without noise",
    "noise is drawn in floating point",
)
"""What the published proof takes for granted."""
COVARIANCE = (
    "the mean and the covariance of a cluster each spend all of its epsilon, and the covariance is taken to be as "
    "sensitive as the mean, which is not shown"
)
"""What drawing from Gaussians adds to that."""
CODE = (
    "noise is that of the authors' code, which is smaller than the paper asks for by about the number of rows of a "
    "class: it reproduces the paper's figures and protects nobody"
)
"""What their code's noise adds to that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiLevelClustering:
    """Clusters of features and of rows, noise on what describes each, and rows drawn from that: all of MC-GEN.

    Args:
        k: The least size of a cluster, as a share of the rows of a class.
        feature_sets: How many; 0 for what the Davies-Bouldin index says.
        noise: `algorithm` or `code`.
        draw: `gaussian` or `means`.
    """

    k: float
    feature_sets: int
    noise: Noise
    draw: Draw

    def __post_init__(self) -> None:
        if not 0 < self.k <= 1:
            raise SettingError(f"k ({self.k}) must be > 0 and <= 1, a share of the rows of a class")
        if not (isinstance(self.feature_sets, int) and 0 <= self.feature_sets <= MOST_SETS):
            raise SettingError(f"feature_sets ({self.feature_sets}) must be a whole number from 0 to {MOST_SETS}")
        if self.noise not in get_args(Noise):
            raise SettingError(f"noise ({self.noise}) must be algorithm or code")
        if self.draw not in get_args(Draw):
            raise SettingError(f"draw ({self.draw}) must be gaussian or means")

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Reserve epsilon for the sanitizer.

        Raises:
            SettingError: The columns may have too many features.
        """
        check_width(NAME, schema)
        return (Step(name=STEP, weight=1.0, kind=Pure),)

    def fit(self, table: PrivateTable, plan: Plan) -> Points:
        """Read the rows, cluster them, and draw as many.

        Cost:
            A `NonPrivate` event.
        """
        check_width(NAME, table.schema)
        epsilon = plan[STEP].expect(Pure).epsilon
        exposed = ExposedRows.of(table, REASON)
        features = NumericFeatures.of(exposed.columns, exposed.chunk)
        values = features.encode(exposed.chunk)
        drawn = np.empty_like(values)
        for feature_set in independent_feature_sets(values, self.feature_sets):
            epsilon_m = epsilon * len(feature_set) / values.shape[1]
            for label in np.unique(exposed.labels):
                own = np.ix_(exposed.labels == label, feature_set)
                drawn[own] = self._drawn(values[own], epsilon_m, exposed)
        chunk = features.decode(drawn)
        if exposed.target:
            chunk[exposed.target.name] = exposed.labels
        return Points(chunk)

    def _drawn(self, values: Floats, epsilon_m: float, exposed: ExposedRows) -> Floats:
        """Return a draw in the place of each row of a class, from the cluster that the row is in."""
        n, d_m = values.shape
        drawn = np.empty_like(values)
        for cluster in mdav(values, max(1, round(self.k * n))):
            if self.noise == "code":
                scales = code_scales(d_m, len(cluster), epsilon_m, n)
            else:
                scales = algorithm_scales(d_m, len(cluster), epsilon_m, exposed.rows_per_unit)
            drawn[cluster] = self._cluster(values[cluster], scales, exposed.rng)
        return drawn

    def _cluster(self, values: Floats, scales: Scales, rng: np.random.Generator) -> Floats:
        if self.draw == "gaussian":
            return NoisyGaussian.of(values, scales, rng).draw(len(values), rng)
        return np.tile(values.mean(axis=0) + rng.laplace(0.0, scales.mean, values.shape[1]), (len(values), 1))


@dataclass(frozen=True, kw_only=True)
class MCGenPublished(Recipe):
    """Draw rows from noisy Gaussians of clusters, within sets of features that go together.

    In the paper's words and letters, with d features from -1 to 1 (`numeric_features`):

    - Feature level clustering (4.3.1): independent feature sets by UPGMA on 2n(1 - corr), their number by the
      Davies-Bouldin index (`feature_sets`).
    - Sample level clustering (4.3.2): in each set and class, MDAV with at least k rows in a cluster (`mdav`).
    - Privacy sanitizer (Algorithm 1): Laplace noise of scale Delta / (|c_i| epsilon_m) on the mean and the covariance
      of each cluster, with epsilon_m = epsilon d_m / d (Eq. 7) for a set of d_m features (`mcgen_sanitizer`).
    - Synthetic data generator (4.5): for each row, a draw from the Gaussian of its cluster in each set, joined by the
      row's place.

    What was chosen here: a covariance that is none is projected to the nearest that is one, and not drawn again; draws
    beyond a column's bounds are at them; a category is that with the largest feature.

    Why it is not proven: docs/mcgen-published.md.

    Args:
        k: The least size of a cluster, as a share of the rows of a class; the paper tries 0.2 to 1.
        feature_sets: How many; 0 for what the Davies-Bouldin index says; 1 is the paper's NOIFS.
        noise: `algorithm`, the paper's, or `code`, its authors': about as many times less as a class has rows, to
            reproduce their figures, with no guarantee.
        draw: `gaussian`, or `means`: every row is its cluster's noisy mean, which is microaggregation with noise.

    Example:
        >>> MCGenPublished().guarantee.value, MCGenPublished(noise="code").guarantee.value
        ('claimed', 'none')

    Reference:
        Li, Zhuang and Chang 2023, MC-GEN: Multi-level clustering for private synthetic data generation; Soria-Comas
        and Domingo-Ferrer 2017, Differentially private data sets based on microaggregation and record perturbation.
    """

    name: ClassVar[str] = NAME
    summary: ClassVar[str] = "mcgen as in its paper, or with the noise of its code, without a proof"
    fixed: ClassVar[bool] = True
    k: float = 0.2
    feature_sets: int = 0
    noise: Noise = "algorithm"
    draw: Draw = "gaussian"

    @property
    def guarantee(self) -> Guarantee:
        """The paper's claim; none for the noise of its authors' code."""
        return Guarantee.NONE if self.noise == "code" else Guarantee.CLAIMED

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the claim takes for granted."""
        gaussian = (COVARIANCE,) if self.draw == "gaussian" else ()
        return (*ASSUMPTIONS, *gaussian, *((CODE,) if self.noise == "code" else ()))

    @property
    def approximate(self) -> MultiLevelClustering:
        """All steps."""
        return MultiLevelClustering(k=self.k, feature_sets=self.feature_sets, noise=self.noise, draw=self.draw)
