"""ClustMix's Adapt and Anonymize stages as published: bend the centroids, mix the rows around each, add noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Plan, Step
from threea.errors import InternalError, SettingError
from threea.framework import Model
from threea.model_summary import Histogram
from threea.published.clustmix_clusters import Clusters
from threea.published.constrained_gmm import means, squared_distances
from threea.published.size_constrained_assignment import assign
from threea.table.schema import Chunk, Schema

Floats = NDArray[np.float64]

ASSUMPTIONS = (
    "a row is taken to change the mean of one cluster (in each class) only, but the clusters depend on every row: "
    "one row can move many others to another cluster",
    "kernel inducing points read the rows, and what one row can do to them is not bounded or paid for",
    "the columns are scaled by the rows' own smallest and largest values or ranks, which is not paid for",
    "the number of points of each class tells about how many rows it has, which is not paid for",
    "a class with fewer rows than a cluster needs is a single point with more noise than the largest allowed",
    "noise is calibrated to the paper's Eq. 7 whatever the adjacency, and drawn in floating point",
)
"""What the published proof takes for granted."""
SEARCHED = (
    "sigma_max, alpha, lambda and the scaling were chosen by how well a classifier trained on the points does on the "
    "private rows; the runs that were not kept and the choice itself are not paid for"
)
"""What the search for settings adds to that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixing:
    """Adapt centroids by kernel inducing points, then release noisy means of the rows around them (Algorithm 2, 10-22).

    Eq. 5 puts alpha on the distance to the first centroids, so alpha = 1 keeps them and alpha = 0 follows the loss
    alone; the text below Algorithm 1 says the opposite. This follows Eq. 5.

    Args:
        alpha: How much staying near the centroids counts against the loss of a classifier, from 0 to 1.
        regularisation: lambda of the kernel ridge regression.
        recompute: Whether clusters are made anew around the adapted centroids, as Algorithm 2 says; DPMix does not.

    Reference:
        Madl, Xu, Choudhury, Howard 2023, Algorithm 2 and Eq. 5 to 7.
    """

    alpha: float = 1.0
    regularisation: float = 1e-3
    recompute: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise SettingError(f"alpha ({self.alpha}) must be from 0 to 1")
        if not 0 < self.regularisation < np.inf:
            raise SettingError(f"regularisation ({self.regularisation}) must be a number > 0")

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Nothing: the noise is planned with the clusters."""
        return ()

    def adapt(self, model: Model, table: PrivateTable, plan: Plan) -> Points:
        """Adapt, mix and add noise."""
        if not isinstance(model, Clusters):
            raise InternalError("mixing needs clusters of rows")
        return self.anonymized(model)

    def anonymized(self, clusters: Clusters) -> Points:
        """Return noisy means of clusters around adapted centroids."""
        centroids = clusters.centroids if self.alpha == 1 else self._induced(clusters)
        memberships = clusters.memberships.copy()
        for rows, inside in clusters.blocks if self.recompute else ():
            least = min(clusters.least, len(rows))
            chosen, _ = assign(squared_distances(clusters.values[rows], centroids[inside]), least)
            memberships[rows] = inside[chosen]
        source = clusters.source
        sigma = source.reach / np.bincount(memberships)
        noise = sigma[:, None] * source.rng.standard_normal(centroids.shape)
        chunk = clusters.scaling.decode(means(clusters.values, memberships) + noise)
        if source.target:
            chunk[source.target.name] = clusters.labels
        return Points(chunk)

    def _induced(self, clusters: Clusters) -> Floats:
        """Move the centroids of each slice by the loss on its rows."""
        from threea.adapt.kip import induce

        centroids, source = clusters.centroids, clusters.source
        for region in np.unique(clusters.regions):
            inside, rows = clusters.slices == region, clusters.regions == region
            centroids[inside] = induce(
                centroids[inside],
                clusters.labels[inside],
                clusters.values[rows],
                source.labels[rows],
                alpha=self.alpha,
                regularisation=self.regularisation,
                rng=source.rng,
            ).points
        return centroids


@dataclass(frozen=True, slots=True)
class Points:
    """A finite set of synthetic rows: Algorithm 2's S.

    Args:
        chunk: Encoded columns.
        settings: What a search chose to make them with, by the names in the recipe; empty without a search.
    """

    chunk: Chunk
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(next(iter(self.chunk.values())))

    @property
    def histograms(self) -> Mapping[str, Histogram]:
        """None: there are no noisy counts."""
        return {}

    def points(self, start: int, stop: int) -> Chunk:
        """Return the rows from one position up to, not including, another."""
        return {name: values[start:stop] for name, values in self.chunk.items()}

    def sample(self, rows: int, rng: np.random.Generator) -> Chunk:
        """Draw from them with replacement."""
        places = rng.integers(0, self.rows, rows)
        return {name: values[places] for name, values in self.chunk.items()}
