"""The moments accountant of PATE-GAN's paper, which looks at the exact votes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ORDERS = np.arange(1, 101)
"""Moments that are tried; the paper leaves their number open."""


@dataclass(slots=True)
class MomentsAccountant:
    """Adds up what noisy votes cost, by how far the exact votes are apart.

    Args:
        votes_noise: lambda; votes have Laplace noise of scale 1 / lambda.
        delta: Of the claim.

    Reference:
        Papernot et al. 2017, Semi-supervised knowledge transfer (PATE), theorems 2 and 3; Jordon, Yoon and van der
        Schaar 2019, Algorithm 1.
    """

    votes_noise: float
    delta: float
    moments: Floats = field(default_factory=lambda: np.zeros(len(ORDERS)))

    def add(self, apart: Floats) -> None:
        """Add the moments of some votes, given by how many more one side has than the other."""
        self.moments = self.moments + moments(self.votes_noise, apart).sum(axis=0)

    @property
    def epsilon(self) -> float:
        """What the votes so far are claimed to cost."""
        return float(((self.moments - np.log(self.delta)) / ORDERS).min())


def moments(votes_noise: float, apart: Floats) -> Floats:
    """Return the log moments of the privacy loss of each vote, by order: the smaller of two bounds.

    Example:
        >>> far, near = moments(0.1, np.array([200.0, 0.0]))[:, 19]
        >>> bool(far < 1e-5), round(float(near), 2)
        (True, 8.4)
    """
    twice, order = 2 * votes_noise, ORDERS[None, :].astype(np.float64)
    anyhow = 2 * votes_noise**2 * order * (order + 1)
    margin = votes_noise * np.abs(apart)[:, None]
    # How likely noise turns the vote; the bound by it holds where that is rare.
    wrong = (2 + margin) / (4 * np.exp(margin))
    holds = wrong < np.expm1(twice) / np.expm1(2 * twice)
    rare = np.where(holds, wrong, 0.0)
    with np.errstate(over="ignore"):
        usual = np.log1p(-rare) + order * (np.log1p(-rare) - np.log1p(-np.exp(twice) * rare))
        turned = np.log(np.maximum(rare, 1e-300)) + twice * order
    return np.where(holds, np.minimum(anyhow, np.logaddexp(usual, turned)), anyhow)
