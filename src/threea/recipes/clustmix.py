"""`clustmix`: clusters within each class, centroids adapted to the task, and mixtures of the rows around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from threea.adapt.clustmix_adapt import InducedMixture
from threea.approximate.mixture import Mixture
from threea.certificate import Guarantee
from threea.errors import SettingError
from threea.framework import Recipe
from threea.published.clustmix_clusters import SizeConstrained
from threea.published.clustmix_mixing import ASSUMPTIONS, SEARCHED, Mixing
from threea.published.clustmix_search import Search
from threea.published.scaling import Name

Mode = Literal["proven", "published"]

HISTOGRAMS, CLUSTERS, MIXTURES = 0.15, 0.2, 0.65
"""Proven: shares of the budget to score the columns, to find the clusters, and to measure the adapted ones."""


@dataclass(frozen=True, kw_only=True)
class ClustMix(Recipe):
    """Approximate by clusters, adapt by kernel inducing points, anonymize by mixing the rows of each cluster.

    | Algorithm 2 | proven | published |
    |---|---|---|
    | lines 3 to 9: clusters of at least l_min rows | noisy k-means, a sum per iteration | mixture fitted to the rows |
    | lines 10, 11: Eq. 5 | against points drawn from the private density | against the rows |
    | lines 12 to 21: noisy means | one noisy count and sum per cluster | noise by Eq. 7 |
    | line 22 | rows drawn from the mixture | the means themselves |

    Args:
        mode: `proven` pays for every look at the rows; `published` reads them, and its claim rests on assumptions that
            the certificate lists.
        sigma_max: The most noise on a coordinate of a cluster's mean: more means more and smaller clusters.
        alpha: On the distance to the clusters' centroids, as in Eq. 5: 1 keeps them, 0 is all for the task. Less than 1
            needs the extra `nets`.
        regularisation: Of the kernel ridge regression; lambda in the paper.
        iterations: Proven: how often the centroids of the clusters move.
        scaling: Published: `minmax` or `quantile`.
        slices: Published: how many random slices the rows are cut into, at least.
        covariance: Published: of a cluster's Gaussian; `isotropic`, `diagonal` or `full`.
        search: Published: how many settings to try on the private rows, which is not paid for; 0 for none. The
            certificate states those that were kept.

    Example:
        >>> ClustMix(alpha=0.5).guarantee.value, ClustMix(mode="published").guarantee.value
        ('proven', 'claimed')

    Reference:
        Madl, Xu, Choudhury and Howard 2023, Approximate, Adapt, Anonymize (3A), Algorithm 2 and Eq. 5.
    """

    name: ClassVar[str] = "clustmix"
    summary: ClassVar[str] = "clusters within each class, adapted to the task, and mixtures of the rows around them"
    mode: Mode = "proven"
    sigma_max: float = 0.05
    alpha: float = 1.0
    regularisation: float = 1e-3
    iterations: int = 3
    scaling: Name = "quantile"
    slices: int = 1
    covariance: Literal["isotropic", "diagonal", "full"] = "isotropic"
    search: int = 0

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise SettingError(f"mode ({self.mode}) must be proven or published")
        if self.search and (self.search < 0 or self.mode == "proven"):
            raise SettingError(f"search ({self.search}) must be 0, or more with mode=published")
        # Settings are checked by the stages that use them, those of the other mode too.
        Mixture(sigma_max=self.sigma_max, iterations=self.iterations)
        _ = self._clusters, self._mixing

    @property
    def guarantee(self) -> Guarantee:
        """Proven, unless set to be as published."""
        return Guarantee.PROVEN if self.mode == "proven" else Guarantee.CLAIMED

    @property
    def assumptions(self) -> tuple[str, ...]:
        """None, unless set to be as published."""
        if self.mode == "proven":
            return ()
        return (*ASSUMPTIONS, SEARCHED) if self.search else ASSUMPTIONS

    @property
    def needs(self) -> dict[str, str]:
        """JAX where points are moved; what the search learns with."""
        moved = {"jax": "nets", "optax": "nets"} if self.alpha < 1 or self.search else {}
        return moved | ({"optuna": "published", "lightgbm": "evaluate"} if self.search else {})

    @property
    def fixed(self) -> bool:
        """As published, its rows are the clusters' noisy means."""
        return self.mode == "published"

    @property
    def approximate(self) -> Mixture | SizeConstrained:
        """L1: clusters within each class (lines 3 to 9)."""
        if self.mode == "published":
            return self._clusters
        return Mixture(sigma_max=self.sigma_max, iterations=self.iterations, histograms=HISTOGRAMS, clusters=CLUSTERS)

    @property
    def adapt(self) -> InducedMixture | Mixing | Search:
        """L2: inducing points, and mixtures around them (lines 10 to 22)."""
        if self.mode == "proven":
            return InducedMixture(alpha=self.alpha, regularisation=self.regularisation, weight=MIXTURES)
        return (
            Search(approximate=self._clusters, mixing=self._mixing, trials=self.search) if self.search else self._mixing
        )

    @property
    def _clusters(self) -> SizeConstrained:
        return SizeConstrained(
            sigma_max=self.sigma_max, scaling=self.scaling, slices=self.slices, covariance=self.covariance
        )

    @property
    def _mixing(self) -> Mixing:
        return Mixing(alpha=self.alpha, regularisation=self.regularisation)
