"""`rongauss`: rows on the unit sphere, projected to random directions, and a noisy Gaussian per class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from threea.approximate.projected_gaussians import ProjectedGaussians
from threea.framework import Recipe


@dataclass(frozen=True, kw_only=True)
class RonGauss(Recipe):
    """Random orthonormal projection and Gaussians, each look at the rows a noisy sum; in brackets its share.

    1. Count the rows of each class [.02], and every column by class [.3]: these put all columns on one scale, normal
       scores, and centre them by their noisy mean.
    2. Normalise: a row's scores are divided by their length.
    3. Project to p public random orthonormal directions: projections of such rows are nearly Gaussian.
    4. One noisy [count, sum, outer product] of the projected rows per class [.68]; without a target, or with one class,
       one Gaussian.
    5. Draw a class and its Gaussian, and turn back. What the directions do not tell of a column is independent.

    The paper releases projected rows; here columns come back as they were, by their ranks in the noisy histograms.

    Args:
        dimensions: p, from 1 to 512; at most as many as there are features.
        seed: Of the directions, which are public.
        noise: ``gaussian``, or ``laplace`` as in the paper: every step is then epsilon-DP with no delta of its own.

    Example:
        >>> RonGauss(dimensions=16).guarantee.value
        'proven'

    Reference:
        Chanyaswad, Liu and Mittal 2019, RON-Gauss: enhancing utility in non-interactive private data release.
    """

    name: ClassVar[str] = "rongauss"
    summary: ClassVar[str] = "rows on the unit sphere, projected at random, and a noisy Gaussian per class"
    dimensions: int = 256
    seed: int = 0
    noise: str = "gaussian"

    @property
    def approximate(self) -> ProjectedGaussians:
        """L1: Gaussians of projected rows."""
        return ProjectedGaussians(dimensions=self.dimensions, seed=self.seed, noise=self.noise)
