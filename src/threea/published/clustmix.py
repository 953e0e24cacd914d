"""`clustmix-published`: ClustMix as in its paper, which reads the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from threea.adapt.ntk import NETS
from threea.certificate import Guarantee
from threea.errors import SettingError
from threea.framework import Recipe
from threea.published.clustmix_clusters import Grouping, SizeConstrained
from threea.published.clustmix_mixing import Mixing
from threea.published.clustmix_search import Search
from threea.published.constrained_gmm import Covariance
from threea.published.scaling import Name

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


@dataclass(frozen=True, kw_only=True)
class ClustMixPublished(Recipe):
    """Approximate by clusters, adapt by kernel inducing points, anonymize by mixing the rows of each cluster.

    Algorithm 2 in the paper's letters, with C classes, D columns scaled to [0, 1], and mu the Gaussian differential
    privacy that (epsilon, delta) amounts to:

    - Line 2: l_min = ceil(sqrt(C*D) / (mu*sigma_max)), by Eq. 7 (`clustmix_clusters`).
    - Lines 3 to 9: in each class n = floor(rows / l_min) clusters of at least l_min rows, a mixture of Gaussians that
      maximizes Eq. 3 (`constrained_gmm`, `size_constrained_assignment`); their means are X0.
    - Lines 10, 11: X starts at X0 and is moved down
      alpha * tr((X - X0)'(X - X0)) / tr(X0'X0) + (1 - alpha) / 2 * ||y_t - K_ts (K_ss + lambda I)^-1 y_s||^2 (Eq. 5),
      with y_s the classes of X, and (X_t, y_t) the rows (`adapt.kip`).
    - Line 14: rows go to the nearest x_t of their class, at least l_min to each (`clustmix_mixing`, as the rest).
    - Lines 15, 16: with l rows in cluster t, sigma_t = sqrt(C*D) / (mu*l), by Eq. 7.
    - Lines 17 to 22: a point is the mean of these l rows, plus N(0, sigma_t^2) on each column.
    - "Hyperparameter tuning": all of it again with other settings; the points from which a classifier learns most
      about the rows are kept (`clustmix_search`).

    Why it is not proven: docs/published-is-not-private.md.

    Args:
        sigma_max: The most noise on a coordinate of a cluster's mean: more means more and smaller clusters.
        alpha: On the distance to the clusters' centroids, as in Eq. 5: 1 keeps them, 0 is all for the task. Less than 1
            needs the extra `nets`.
        regularisation: Of the kernel ridge regression; lambda in the paper.
        scaling: `minmax` or `quantile`.
        slices: How many random slices the rows are cut into, at least.
        covariance: Of a cluster's Gaussian; `isotropic`, `diagonal` or `full`.
        clusters: `constrained`, or `random` to see what clusters add: rows of a class are put together at random.
        search: How many settings to try on the private rows, which is not paid for; 0 for none. The certificate states
            those that were kept.

    Example:
        >>> ClustMixPublished(alpha=0.5).guarantee.value
        'claimed'

    Reference:
        Madl, Xu, Choudhury and Howard 2023, Approximate, Adapt, Anonymize (3A), Algorithm 2 and Eq. 3 to 7.
    """

    name: ClassVar[str] = "clustmix-published"
    summary: ClassVar[str] = "clustmix as in its paper, without a proof"
    guarantee: ClassVar[Guarantee] = Guarantee.CLAIMED
    fixed: ClassVar[bool] = True
    sigma_max: float = 0.05
    alpha: float = 1.0
    regularisation: float = 1e-3
    scaling: Name = "quantile"
    slices: int = 1
    covariance: Covariance = "isotropic"
    clusters: Grouping = "constrained"
    search: int = 0

    def __post_init__(self) -> None:
        if self.search < 0:
            raise SettingError(f"search ({self.search}) must be at least 0")
        super().__post_init__()

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the claim takes for granted."""
        return (*ASSUMPTIONS, SEARCHED) if self.search else ASSUMPTIONS

    @property
    def needs(self) -> dict[str, str]:
        """JAX where points are moved; what the search learns with."""
        moved = NETS if self.alpha < 1 or self.search else {}
        return moved | ({"optuna": "published", "lightgbm": "evaluate"} if self.search else {})

    @property
    def approximate(self) -> SizeConstrained:
        """L1: clusters within each class (lines 2 to 9)."""
        return SizeConstrained(
            sigma_max=self.sigma_max,
            scaling=self.scaling,
            slices=self.slices,
            covariance=self.covariance,
            clusters=self.clusters,
        )

    @property
    def adapt(self) -> Mixing | Search:
        """L2: inducing points, and noisy means of the rows around them (lines 10 to 22)."""
        recompute = self.clusters == "constrained"
        mixing = Mixing(alpha=self.alpha, regularisation=self.regularisation, recompute=recompute)
        return Search(approximate=self.approximate, mixing=mixing, trials=self.search) if self.search else mixing
