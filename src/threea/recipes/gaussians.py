"""`gaussians`: wide numeric rows and images, a Gaussian per class in a public basis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from threea.adapt.separation import Separation
from threea.approximate.gaussians import ClassGaussians
from threea.errors import SettingError
from threea.framework import Recipe

SEPARATION = 0.05
"""Share of the budget for how far apart two classes are. Chosen."""


@dataclass(frozen=True, kw_only=True)
class Gaussians(Recipe):
    """Approximate wide numeric rows by a Gaussian per class; adapt how far apart two classes are.

    In brackets the share of the budget, of which 7 takes a part from the others:

    1. Count the rows of each class [.01] and the cells of every column [.06]; a column's cells are scored by where they
       lie between its bounds, less the mean by its noisy histogram.
    2. Turn a scored row into coefficients of the discrete cosine transform (DCT): of an image's height and width, or
       along the columns.
    3. Count how long rows are [.02]: longer ones than most are shortened, so that a row's bound is small.
    4. Sum the squares of the coefficients [.08]: their power, smoothed.
    5. Sum the coefficients by class [.4]: their means, shrunk to the common one as far as noise explains them.
    6. Sum the outer products of the strongest coefficients by class [.43]: their second moments. The eigenvalues of
       the pooled covariance that noise explains are set to 0, and each class's is shrunk to it, as the means are.
    7. Of two classes: count the rows by class and by what Fisher's discriminant scores them [.05], and move the means
       until the Gaussians' scores are as far apart, beside their spread, as the rows'.
    8. Draw a class, coefficients from its Gaussian, turn them back, and take the value of the same rank in each
       column's histogram: a Gaussian copula.

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
        """L1: the distribution of the rows (steps 1 to 6)."""
        return ClassGaussians(bins=self.bins, image=(self.image[0], self.image[1]) if self.image else None)

    @property
    def adapt(self) -> Separation:
        """L2: what a classifier loses to classes that are drawn too far apart, or too near (step 7)."""
        return Separation(weight=SEPARATION / (1 - SEPARATION))


def _listed(sides: tuple[int, ...]) -> str:
    return ",".join(map(str, sides))
