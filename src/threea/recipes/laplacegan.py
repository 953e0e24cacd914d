"""`laplacegan`: a generator trained against a discriminator behind Laplace noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from threea.adapt.laplace_gan import ROWS, NoisyGradients, NoisyInputs
from threea.adapt.ntk import NETS
from threea.errors import SettingError
from threea.framework import Recipe

_FORMS = ("input", "gradient")


@dataclass(frozen=True, kw_only=True)
class LaplaceGAN(Recipe):
    """A generative adversarial network whose discriminator sees the rows through Laplace noise, with a proof.

    The paper draws fresh noise within the discriminator whenever a row passes, and counts it once: its proof does not
    hold. Here are two forms whose proof does; in brackets shares of the budget:

    `input`: 1. Count the rows of each class [.05]. 2. Shorten rows in L1 and noise them once [.95], in slots of a
    public number: one or a few rows each, so that how many there are stays hidden. 3. Train discriminator and
    generator: what the discriminator sees of generated rows is shortened, mixed and noised as the private ones were.

    `gradient`: 1. Count the rows of each class [.05]. 2. In every step, sum over all rows the discriminator's gradient,
    clipped in L1, with Laplace noise [.95 for all steps]. 3. The generator follows the discriminator.

    Args:
        form: ``input`` or ``gradient``.
        iterations: Steps of training; 0 for the form's own number. Those of `gradient` cost, those of `input` do not.
        width: Of the discriminator's hidden layer. In form `gradient` noise grows with it.

    Example:
        >>> LaplaceGAN(form="input").guarantee.value
        'proven'

    Reference:
        Della Pella, Using GAN's to generate private synthetic data; Bora, Price and Dimakis 2018, AmbientGAN, for
        training on noised rows.
    """

    name: ClassVar[str] = "laplacegan"
    summary: ClassVar[str] = "a generator network trained against a discriminator behind Laplace noise"
    needs: ClassVar[Mapping[str, str]] = NETS
    form: str = "input"
    iterations: int = 0
    width: int = 64

    def __post_init__(self) -> None:
        if self.form not in _FORMS:
            raise SettingError(f"form ({self.form}) must be {' or '.join(_FORMS)}")
        super().__post_init__()

    def training(self, size: int) -> float:
        """Return the multiplications of all steps, for rows of so many numbers, without those at private rows."""
        return float(self.approximate.iterations * 3 * ROWS * (128 * (128 + size) + self.width * size))

    @property
    def approximate(self) -> NoisyInputs | NoisyGradients:
        """L1: all steps."""
        if self.form == "input":
            return NoisyInputs(iterations=self.iterations or 2000, width=self.width)
        return NoisyGradients(iterations=self.iterations or 200, width=self.width)
