"""`dpmix`: rows that are noisy means of a few random rows each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from threea.approximate.random_mixing import RandomMixing
from threea.certificate import Guarantee
from threea.errors import SettingError
from threea.framework import Recipe
from threea.published.clustmix_clusters import RandomGroups
from threea.published.clustmix_mixing import Mixing

Mode = Literal["proven", "published"]

ASSUMPTIONS = (
    "a row is taken to change the mean of one group only, but one row more groups all others of its class anew",
    "the columns are scaled by the rows' own smallest and largest values, which is not paid for",
    "the number of points of each class tells about how many rows it has, which is not paid for",
    "a class with fewer rows than a group needs is a single point with more noise than the largest allowed",
    "noise is the same under either adjacency, and drawn in floating point",
)
"""What the published form takes for granted."""


@dataclass(frozen=True, kw_only=True)
class DPMix(Recipe):
    """Mix random rows of a class, and add noise.

    An early method, here to compare with: means of many rows lie close to one another, so that models trained on them
    learn little more than how the classes differ on average. Do not expect much of it.

    Args:
        mode: `proven` asks for every mixture through the door; `published` reads the rows, and its claim rests on
            assumptions that the certificate lists.
        points: Proven: how many rows of each class to make. Each is a look at the private rows: more have more noise.
        rate: Proven: probability with which a private row is mixed into a synthetic one. At a low rate noise takes
            over, for few rows hide it; at a high one all mixtures are alike.
        sigma_max: Published: the largest standard deviation that the noise may have, where all columns reach from 0 to
            1; groups are as large as that asks for.

    Example:
        >>> DPMix(points=50)
        DPMix(mode='proven', points=50, rate=0.005, sigma_max=0.2)

    Reference:
        Lee et al. 2019, Synthesizing differentially private datasets using random mixing. Theirs mixes a fixed number
        of rows; in proven mode each joins by a coin of its own, which the accounting of samples is proven for.
    """

    name: ClassVar[str] = "dpmix"
    summary: ClassVar[str] = "noisy means of a few random rows each; for comparison"
    mode: Mode = "proven"
    points: int = 100
    rate: float = 0.005
    sigma_max: float = 0.2

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise SettingError(f"mode ({self.mode}) must be proven or published")
        RandomMixing(points=self.points, rate=self.rate)
        RandomGroups(sigma_max=self.sigma_max)

    @property
    def guarantee(self) -> Guarantee:
        """Proven, unless set to be as published."""
        return Guarantee.PROVEN if self.mode == "proven" else Guarantee.CLAIMED

    @property
    def assumptions(self) -> tuple[str, ...]:
        """None, unless set to be as published."""
        return () if self.mode == "proven" else ASSUMPTIONS

    @property
    def fixed(self) -> bool:
        """Its rows are a set of their own size."""
        return True

    @property
    def approximate(self) -> RandomMixing | RandomGroups:
        """Mixtures of random rows: asked for one by one, or groups of all rows."""
        if self.mode == "proven":
            return RandomMixing(points=self.points, rate=self.rate)
        return RandomGroups(sigma_max=self.sigma_max)

    @property
    def adapt(self) -> Mixing | None:
        """As published, noise on the groups' means; proven mixtures have theirs."""
        return None if self.mode == "proven" else Mixing(alpha=1.0, recompute=False)
