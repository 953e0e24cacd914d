"""`clustmix`: clusters within each class, centroids adapted to the task, and mixtures of the rows around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from threea.adapt.clustmix_adapt import InducedMixture
from threea.adapt.ntk import NETS
from threea.approximate.mixture import Mixture
from threea.framework import Recipe

HISTOGRAMS, CLUSTERS, MIXTURES = 0.15, 0.2, 0.65
"""Shares of the budget: to score the columns, to find the clusters, and to measure the adapted ones. Chosen: the last
answer is the one that rows are drawn from. Counting the classes takes 0.02 more."""


@dataclass(frozen=True, kw_only=True)
class ClustMix(Recipe):
    """Approximate by clusters, adapt by kernel inducing points, anonymize by mixing the rows of each cluster.

    The steps of Algorithm 2, each look at the rows a noisy sum; in brackets its share of the budget:

    1. Count the rows of each class [.02], and every column by class [.15]: these score the columns by their noisy
       ranks, so that 0 <= x_i <= 1, D columns (line 1).
    2. l_min = sqrt(D) / (mu*sigma_max): so many rows have a mean with noise of at most sigma_max (line 2, Eq. 7; there
       is no C, for a row is in one cluster of one class).
    3. Noisy k-means in each class, with at most rows / l_min clusters: a count and a sum per cluster for every move of
       the centroids [.2 for all] (lines 3 to 9).
    4. Move the centroids X0 to X by alpha * distance to X0 + (1 - alpha) * loss (Eq. 5), with y_s their classes. What
       they learn to predict is drawn from the private density: nothing is asked (lines 10, 11).
    5. Rows go to the nearest adapted centroid of their class: one more count and sum per cluster [.65] (lines 12 to
       21).
    6. Draw rows: a class, one of its clusters, and every column given the cluster (line 22).

    Args:
        sigma_max: The most noise on a coordinate of a cluster's mean: more means more and smaller clusters.
        alpha: On the distance to the clusters' centroids, as in Eq. 5: 1 keeps them, 0 is all for the task. Less than 1
            needs the extra `nets`.
        regularisation: Of the kernel ridge regression; lambda in the paper.
        iterations: How often the centroids of the clusters move.

    Example:
        >>> ClustMix(alpha=0.5).guarantee.value
        'proven'

    Reference:
        Madl, Xu, Choudhury and Howard 2023, Approximate, Adapt, Anonymize (3A), Algorithm 2 and Eq. 5.
    """

    name: ClassVar[str] = "clustmix"
    summary: ClassVar[str] = "clusters within each class, adapted to the task, and mixtures of the rows around them"
    sigma_max: float = 0.05
    alpha: float = 1.0
    regularisation: float = 1e-3
    iterations: int = 3

    @property
    def needs(self) -> dict[str, str]:
        """JAX where centroids are moved."""
        return NETS if self.alpha < 1 else {}

    @property
    def approximate(self) -> Mixture:
        """L1: clusters within each class (lines 1 to 9)."""
        return Mixture(sigma_max=self.sigma_max, iterations=self.iterations, histograms=HISTOGRAMS, clusters=CLUSTERS)

    @property
    def adapt(self) -> InducedMixture:
        """L2: inducing points, and mixtures around them (lines 10 to 22)."""
        return InducedMixture(alpha=self.alpha, regularisation=self.regularisation, weight=MIXTURES)
