"""`rongauss`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from threea.approximate.projected_gaussians import ProjectedGaussians
from threea.framework import Recipe


@dataclass(frozen=True, kw_only=True)
class RonGauss(Recipe):
    """RON-Gauss."""

    name: ClassVar[str] = "rongauss"
    summary: ClassVar[str] = "rows on the unit sphere, projected at random, and a noisy Gaussian per class"
    dimensions: int = 256
    seed: int = 0
    noise: str = "gaussian"

    def __post_init__(self) -> None:
        _ = self.approximate

    @property
    def approximate(self) -> ProjectedGaussians:
        """L1."""
        return ProjectedGaussians(dimensions=self.dimensions, seed=self.seed, noise=self.noise)
