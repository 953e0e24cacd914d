"""`dpgan`: a generator trained against a critic that sees private rows through noisy gradients alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from threea.adapt.ntk import NETS
from threea.adapt.private_gan import FAKES, PrivateGan
from threea.framework import Recipe


@dataclass(frozen=True, kw_only=True)
class DPGan(Recipe):
    """A Wasserstein GAN whose critic is private, given the class; in brackets shares of the budget.

    1. Count the rows of each class [.02].
    2. Take a Poisson sample of the rows; at each of them clip the gradient of the critic's score, sum, and add Gaussian
       noise [.98 for all steps, accounted as a sampled Gaussian; paid for before the first step].
    3. Move the critic up the noisy gradient at private rows and down the gradient at generated rows, which are clipped
       alike, and cut its weights off.
    4. Move the generator up the critic's score at generated rows: it sees private rows through the critic alone. Go on
       with 2.
    5. Draw a class, random numbers, and a row.

    The paper derives a bound on gradients from that on the weights, for rows within a ball. Here each row's gradient is
    clipped, to the median length of those at generated rows, which are public. How many rows there are is private, so a
    step has a rate, not a batch size, and the number of steps is `epochs` / `rate`.

    Args:
        epochs: How often every row is in a sample, on average.
        rate: Probability with which a row is in a step's sample.
        width: Of the critic's two hidden layers; the generator's are twice as wide.

    Example:
        >>> DPGan(epochs=5).guarantee.value
        'proven'

    Reference:
        Xie, Lin, Wang, Wang and Zhou 2018, Differentially private generative adversarial network, algorithm 1.
    """

    name: ClassVar[str] = "dpgan"
    summary: ClassVar[str] = "a generator network trained against a critic with private gradients"
    needs: ClassVar[Mapping[str, str]] = NETS
    epochs: float = 10.0
    rate: float = 0.02
    width: int = 64

    def training(self, size: int) -> float:
        """Return the multiplications of all steps, for rows of so many numbers, without those at private rows."""
        critic, generator = self.width * (self.width + size), 2 * self.width * (2 * self.width + size)
        return float(self.approximate.rounds * FAKES * 3 * (2 * critic + generator))

    @property
    def approximate(self) -> PrivateGan:
        """L1: all steps."""
        return PrivateGan(epochs=self.epochs, rate=self.rate, width=self.width)
