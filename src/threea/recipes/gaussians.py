"""`gaussians`: wide numeric rows and images, a Gaussian per class in a public basis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from threea.approximate.gaussians import Gaussians
from threea.framework import Recipe


@dataclass(frozen=True, kw_only=True)
class GaussiansRecipe(Recipe):
    """Approximate wide numeric rows by a Gaussian per class.

    Args:
        bins: How many bins numeric columns are cut into; fewer are used where noise drowns them.

    Example:
        >>> GaussiansRecipe(bins=8)
        GaussiansRecipe(bins=8)
    """

    name: ClassVar[str] = "gaussians"
    summary: ClassVar[str] = "a Gaussian per class in a public basis; for images and hundreds of numeric columns"
    bins: int = 16

    def __post_init__(self) -> None:
        Gaussians(bins=self.bins)

    @property
    def approximate(self) -> Gaussians:
        """Lengths, means and products of cosines, and every column's histogram."""
        return Gaussians(bins=self.bins)
