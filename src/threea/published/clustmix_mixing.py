"""ClustMix's Adapt and Anonymize stages as published: adapt the centroids, mix the rows around each, add noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from threea.adapt.kip import check, induce
from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Plan, Step
from threea.approximate.points import Points
from threea.errors import SettingError
from threea.published.clustmix_clusters import Clusters
from threea.published.constrained_gmm import means, squared_distances
from threea.published.size_constrained_assignment import assign
from threea.table.schema import Schema

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixing:
    """Adapt centroids by kernel inducing points, release noisy means of rows around them (Algorithm 2, 10 to 22).

    Eq. 5 puts alpha on the distance to the first centroids, so alpha = 1 keeps them and alpha = 0 follows the loss
    alone; the text below Algorithm 1 says the opposite. This follows Eq. 5.

    Args:
        alpha: How much staying near the centroids counts against the loss of a classifier, from 0 to 1.
        regularisation: lambda of the kernel ridge regression.
        recompute: Whether rows go to the nearest adapted centroid, as Algorithm 2 says; not if clusters are random.

    Reference:
        Madl, Xu, Choudhury, Howard 2023, Algorithm 2 and Eq. 5 to 7.
    """

    alpha: float = 1.0
    regularisation: float = 1e-3
    recompute: bool = True

    def __post_init__(self) -> None:
        check(self.alpha, self.regularisation)

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Nothing: the noise is planned with the clusters."""
        return ()

    def adapt(self, model: Clusters, table: PrivateTable, plan: Plan) -> Points:
        """Adapt, mix and add noise.

        Raises:
            SettingError: The model is no clusters of rows.
        """
        if not isinstance(model, Clusters):
            raise SettingError(f"mixing needs clusters of rows, not a {type(model).__name__}")
        return self.anonymized(model)

    def anonymized(self, clusters: Clusters) -> Points:
        """Return noisy means of clusters around adapted centroids (Algorithm 2, from line 10)."""
        exposed = clusters.exposed
        centroids = clusters.centroids if self.alpha == 1 else self._kernel_inducing_points(clusters)
        memberships = self._recomputed(clusters, centroids) if self.recompute else clusters.memberships
        sigma = clusters.sigma_l / np.bincount(memberships)
        noise = sigma[:, None] * exposed.rng.standard_normal(centroids.shape)
        chunk = clusters.scaling.decode(means(clusters.values, memberships) + noise)
        if exposed.target:
            chunk[exposed.target.name] = clusters.labels
        return Points(chunk)

    def _kernel_inducing_points(self, clusters: Clusters) -> Floats:
        """Move the centroids of each slice down Eq. 5, with its rows as the target (lines 10, 11)."""
        centroids, exposed = clusters.centroids, clusters.exposed
        for region in np.unique(clusters.regions):
            inside, rows = clusters.slices == region, clusters.regions == region
            centroids[inside] = induce(
                centroids[inside],
                clusters.labels[inside],
                clusters.values[rows],
                exposed.labels[rows],
                alpha=self.alpha,
                regularisation=self.regularisation,
                rng=exposed.rng,
            ).points
        return centroids

    @staticmethod
    def _recomputed(clusters: Clusters, centroids: Floats) -> Integers:
        """Return each row's cluster: the nearest adapted centroid of its class, with l_min rows or more (line 14)."""
        memberships = clusters.memberships.copy()
        for rows, inside in clusters.blocks:
            l_min = min(clusters.l_min, len(rows))
            chosen, _ = assign(squared_distances(clusters.values[rows], centroids[inside]), l_min)
            memberships[rows] = inside[chosen]
        return memberships
