"""`rongauss-published`: a noisy Gaussian of each class's rows after a random projection, after its paper."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from threea.anonymize.door import PrivateTable
from threea.anonymize.events import Pure
from threea.anonymize.plan import Plan, Step
from threea.approximate.points import Points
from threea.certificate import Guarantee
from threea.errors import SettingError
from threea.framework import Recipe
from threea.published.exposed_rows import ExposedRows
from threea.published.mcgen_sanitizer import square_root
from threea.published.numeric_features import SCALED, Floats, NumericFeatures, check_width
from threea.table.schema import Schema

NAME, STEP, REASON = "rongauss-published", "gaussians", "RON-Gauss as published"
MOST_DIMENSIONS = 2000

ASSUMPTIONS = (
    "there are as many synthetic rows of each class as private ones, and their number sets the noise: it is taken as "
    "public, and a row is taken to be replaced by one of its class, whatever the adjacency",
    "the mean of n rows of length 1 is taken to change by sqrt(m) / n in all, as in the authors' code; replacing a row "
    "can change it by twice as much",
    "the second moments are taken to change by 2 sqrt(p) / n in all; replacing a row can change these p^2 numbers by "
    "about p / n in all, which is more from p = 5 on",
    SCALED,
    "rows are put back to the private rows' own mean length, which is not paid for",
    "noise is drawn in floating point",
)
"""What the claim takes for granted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectedGaussians:
    """A Gaussian per class, on a random subspace: all of RON-Gauss for classification.

    Args:
        dimensions: p, of the subspace; all of it if there are fewer features.
        mean_share: What share of epsilon the mean gets.
    """

    dimensions: int
    mean_share: float

    def __post_init__(self) -> None:
        if not (isinstance(self.dimensions, int) and 1 <= self.dimensions <= MOST_DIMENSIONS):
            raise SettingError(f"dimensions ({self.dimensions}) must be a whole number from 1 to {MOST_DIMENSIONS}")
        if not 0 < self.mean_share < 1:
            raise SettingError(f"mean_share ({self.mean_share}) must be > 0 and < 1")

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Reserve epsilon for the mean and the covariance together.

        Raises:
            SettingError: The columns may have too many features.
        """
        check_width(NAME, schema)
        return (Step(name=STEP, weight=1.0, kind=Pure),)

    def fit(self, table: PrivateTable, plan: Plan) -> Points:
        """Read the rows and draw as many of each class.

        Cost:
            A `NonPrivate` event.
        """
        check_width(NAME, table.schema)
        epsilon = plan[STEP].expect(Pure).epsilon
        exposed = ExposedRows.of(table, REASON)
        features = NumericFeatures.of(exposed.columns, exposed.chunk)
        values = features.encode(exposed.chunk)
        drawn = np.empty_like(values)
        for label in np.unique(exposed.labels):
            own = exposed.labels == label
            drawn[own] = self.synthesized(values[own], epsilon / exposed.rows_per_unit, exposed.rng)
        chunk = features.decode(drawn * np.linalg.norm(values, axis=1).mean())
        if exposed.target:
            chunk[exposed.target.name] = exposed.labels
        return Points(chunk)

    def synthesized(self, values: Floats, epsilon: float, rng: np.random.Generator) -> Floats:
        """Return as many rows, around length 1, drawn from a noisy Gaussian on a random subspace."""
        n, m = values.shape
        p = min(self.dimensions, m)
        epsilon_mean, epsilon_covariance = self.mean_share * epsilon, (1 - self.mean_share) * epsilon
        x = _unit(values)
        mean = x.mean(axis=0) + rng.laplace(0.0, math.sqrt(m) / (n * epsilon_mean), m)
        projection, _ = np.linalg.qr(rng.standard_normal((m, p)))
        x = _unit(x - mean) @ projection
        noisy = x.T @ x / n + rng.laplace(0.0, 2 * math.sqrt(p) / (n * epsilon_covariance), (p, p))
        # Noise is on each of p^2 numbers, as in the paper; that of a pair of them is then averaged.
        root = square_root((noisy + noisy.T) / 2)
        drawn: Floats = (mean @ projection + rng.standard_normal((n, p)) @ root) @ projection.T
        return drawn


def _unit(rows: Floats) -> Floats:
    """Return rows at length 1."""
    unit: Floats = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    return unit


@dataclass(frozen=True, kw_only=True)
class RonGaussPublished(Recipe):
    """Draw rows of each class from a noisy Gaussian, on a random subspace, after the paper.

    With n rows of a class and m features from -1 to 1 (`numeric_features`):

    1. Rows are put at length 1.
    2. Their mean gets Laplace noise of scale sqrt(m) / (n epsilon_mean) on each number; rows less this mean are put at
       length 1 again.
    3. They are projected to p random orthonormal directions, where they look nearly Gaussian.
    4. Their second moments there get Laplace noise of scale 2 sqrt(p) / (n epsilon_covariance) on each number.
    5. Rows are drawn from the Gaussian with this mean and these moments, and taken back to m features.

    What was chosen here, because the authors' code leaves it open or it does not fit a table: second moments that are
    none are projected to the nearest that are; directions are uniform; rows are put back to the private rows' mean
    length; the default dimensions and share. What the claim misses is in the assumptions, and in
    docs/mcgen-published.md.

    Args:
        dimensions: p, how many directions.
        mean_share: What share of epsilon the mean gets.

    Example:
        >>> RonGaussPublished().guarantee.value
        'claimed'

    Reference:
        Chanyaswad, Liu and Mittal 2019, RON-Gauss: Enhancing utility in non-interactive private data release.
    """

    name: ClassVar[str] = NAME
    summary: ClassVar[str] = "a noisy Gaussian per class on a random subspace, after its paper, without a proof"
    guarantee: ClassVar[Guarantee] = Guarantee.CLAIMED
    assumptions: ClassVar[tuple[str, ...]] = ASSUMPTIONS
    fixed: ClassVar[bool] = True
    dimensions: int = 10
    mean_share: float = 0.3

    @property
    def approximate(self) -> ProjectedGaussians:
        """All steps."""
        return ProjectedGaussians(dimensions=self.dimensions, mean_share=self.mean_share)
