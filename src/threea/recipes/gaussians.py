"""`gaussians`: wide numeric rows and images, a Gaussian per class in a public basis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from threea.approximate.gaussians import ClassGaussians
from threea.errors import SettingError
from threea.framework import Recipe


@dataclass(frozen=True, kw_only=True)
class Gaussians(Recipe):
    """Approximate wide numeric rows by a Gaussian per class.

    Args:
        bins: How many bins numeric columns are cut into; fewer are used where noise drowns them.
        image: Height and width, if the numeric columns are an image's pixels by rows; guessed if empty.

    Example:
        >>> Gaussians(image=(28, 28))
        Gaussians(bins=16, image=(28, 28))
    """

    name: ClassVar[str] = "gaussians"
    summary: ClassVar[str] = "a Gaussian per class in a public basis; for images and hundreds of numeric columns"
    bins: int = 16
    image: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.image and (len(self.image) != 2 or min(self.image) < 1):
            raise SettingError(f"image ({_listed(self.image)}) must be a height and a width, such as 28,28")
        ClassGaussians(bins=self.bins)

    @property
    def approximate(self) -> ClassGaussians:
        """Lengths, means and products of cosines, and every column's histogram."""
        return ClassGaussians(bins=self.bins, image=(self.image[0], self.image[1]) if self.image else None)


def _listed(sides: tuple[int, ...]) -> str:
    return ",".join(map(str, sides))
