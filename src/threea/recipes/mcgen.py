"""`mcgen`: sets of features that go together, clusters of the rows in each, and a noisy Gaussian in each cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from threea.approximate.multilevel import MultiLevel
from threea.framework import Recipe


@dataclass(frozen=True, kw_only=True)
class MCGen(Recipe):
    """Multi-level clustering, each look at the rows a noisy sum; in brackets its share of the budget.

    1. Count the rows of each class [.02], and every column by class [.4]: these put all columns on one scale, normal
       scores, in place of the paper's [-1, 1] and one-hot.
    2. Feature level clustering: independent feature sets (IFS) by UPGMA on ``1 - |correlation|``, their number by the
       Davies-Bouldin index (section 4.3.1). The correlations are one noisy sum of [1, x, xxT] over all rows [.05].
    3. Sample level clustering within each IFS and class: noisy k-means in place of MDAV, whose clusters depend on all
       rows (4.3.2). With k = 1 there is one cluster, and nothing is asked; otherwise [.1 for all moves].
    4. Statistic extraction and sanitizer: one noisy [count, sum, outer product] per cluster of every IFS, in one
       question for all [.53] (Algorithm 1). What noise explains of a correlation is taken off, and what remains is
       projected to the positive semidefinite cone.
    5. Draw: a class, for each IFS a cluster of that class, a Gaussian; features are joined across the IFSs.

    The drawn numbers become values by their ranks in the noisy histograms, a Gaussian copula. This departs from the
    paper: a Gaussian of one-hot columns draws no category, and few columns are normal.

    Args:
        k: Rows in a cluster, as a share of all rows, from 0.01 to 1: fewer rows, more clusters. Noise may demand
            fewer clusters; a class has at least one.
        iterations: How often the centroids of the clusters move, if k < 1.
        noise: ``gaussian``, or ``laplace`` as in the paper: every step is then epsilon-DP with no delta of its own.

    Example:
        >>> MCGen(k=0.5, noise="laplace").guarantee.value
        'proven'

    Reference:
        Li, Zhuang and Chang 2023, MC-GEN: Multi-level clustering for private synthetic data generation.
    """

    name: ClassVar[str] = "mcgen"
    summary: ClassVar[str] = "feature sets, clusters of the rows in each, and a noisy Gaussian in each cluster"
    k: float = 1.0
    iterations: int = 2
    noise: str = "gaussian"

    @property
    def approximate(self) -> MultiLevel:
        """L1: all levels."""
        return MultiLevel(k=self.k, iterations=self.iterations, noise=self.noise)
