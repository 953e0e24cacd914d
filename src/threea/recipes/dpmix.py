"""`dpmix`: rows that are noisy means of a few random rows each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from threea.approximate.random_mixing import RandomMixing
from threea.framework import Recipe


@dataclass(frozen=True, kw_only=True)
class DPMix(Recipe):
    """Mix random rows of a class, and add noise.

    An early method, here to compare with: means of many rows lie close to one another, so that models trained on them
    learn little more than how the classes differ on average. Do not expect much of it.

    | step | what is done | asked of the rows | share |
    |---|---|---|---|
    | 1 | a sample of the rows, each in it with probability `rate` | nothing | |
    | 2 | its rows per class are counted and added up, with noise | a count and a sum per class, `points` times | all |
    | 3 | sum over count is a synthetic row of the class | nothing | |

    Args:
        points: How many rows of each class to make. Each is a look at the private rows: more have more noise.
        rate: Probability with which a private row is mixed into a synthetic one. At a low rate noise takes over, for
            few rows hide it; at a high one all mixtures are alike.

    Example:
        >>> DPMix(points=50)
        DPMix(points=50, rate=0.005)

    Reference:
        Lee et al. 2019, Synthesizing differentially private datasets using random mixing. Theirs mixes a fixed number
        of rows (`dpmix-published`); here each joins by a coin of its own, which the accounting of samples is proven
        for, and the number of rows is asked for too.
    """

    name: ClassVar[str] = "dpmix"
    summary: ClassVar[str] = "noisy means of a few random rows each; for comparison"
    fixed: ClassVar[bool] = True
    points: int = 100
    rate: float = 0.005

    @property
    def approximate(self) -> RandomMixing:
        """All steps: mixtures of random rows, asked for one by one."""
        return RandomMixing(points=self.points, rate=self.rate)
