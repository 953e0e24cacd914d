"""`laplacegan-published`: a GAN whose discriminator has a layer of Laplace noise, after its paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from threea.adapt.generator_model import GeneratorModel
from threea.adapt.networks import LEAK, apply, initial, members
from threea.adapt.ntk import NETS, load
from threea.anonymize.door import PrivateTable
from threea.anonymize.events import Pure
from threea.anonymize.plan import Plan, Step
from threea.certificate import Guarantee
from threea.framework import Recipe
from threea.published.adversaries import Rows, check_number, check_whole, generated, play
from threea.published.exposed_rows import ExposedRows
from threea.table.schema import Schema

STEP, REASON = "noise layer", "Laplace-GAN as published"

ASSUMPTIONS = (
    "the weights below the noise layer are trained by gradients that use the rows as they are, so what the layer hides "
    "is learned there without noise",
    "the layer's sensitivity is taken to be the setting of that name; nothing bounds what a row does to it",
    "each step is taken to cost nothing more than the first: thousands of looks at the rows are never added up",
    "there are as many classes, in the same ratio, as in the private rows",
    "noise is drawn in floating point",
)
"""What the paper's proof takes for granted, and is not so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyDiscriminator:
    """Train a generator against a discriminator with a layer of Laplace noise.

    Args:
        sensitivity: |b|; noise has scale |b| / epsilon.
        latent: How many random numbers a row is made of.
        width: Of the first hidden layer, and the last of the generator; others have half.
        iterations: Steps of each network.
        batch: Rows of a step.
        learning_rate: Of both networks.
    """

    sensitivity: float
    latent: int
    width: int
    iterations: int
    batch: int
    learning_rate: float

    def __post_init__(self) -> None:
        whole = {"latent": (1, 4096), "width": (2, 4096), "iterations": (1, 1_000_000), "batch": (1, 65_536)}
        check_whole(self, whole)
        check_number(self, {"sensitivity": (0.0, 1e6), "learning_rate": (1e-6, 1.0)})

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Reserve epsilon for the layer."""
        return (Step(name=STEP, weight=1.0, kind=Pure),)

    def fit(self, table: PrivateTable, plan: Plan) -> GeneratorModel:
        """Read the rows and train.

        Cost:
            A `NonPrivate` event.
        """
        rows = Rows.of(ExposedRows.of(table, REASON))
        rng, width, classes = rows.exposed.rng, rows.vectors.width, rows.exposed.classes
        half = max(self.width // 2, 1)
        discriminator = initial((width + classes, self.width, half, 1), rng)
        generator = initial((self.latent + classes, half, self.width, width), rng)
        scale = np.float32(self.sensitivity / plan[STEP].expect(Pure).epsilon)
        generator, curves = play(
            (_discriminate, _generate),
            (discriminator, generator),
            rows,
            (members(rows.vectors.groups), np.zeros(self.latent, np.float32), scale),
            iterations=self.iterations,
            batch=self.batch,
            critics=1,
            learning_rate=self.learning_rate,
        )
        return rows.model(generator, self.latent, curves)


def _logits(discriminator: Any, vectors: Any, classes: Any, key: Any, scale: Any) -> Any:
    """Return how real rows seem: Laplace noise is added to the first hidden layer."""
    jax = load("jax")
    (weights, biases), *above = discriminator
    hidden = jax.numpy.hstack([vectors, classes]) @ weights + biases
    hidden = jax.numpy.where(hidden > 0, hidden, LEAK * hidden)
    noisy = hidden + scale * jax.random.laplace(key, hidden.shape)
    return apply(tuple(above), noisy, jax.numpy)[:, 0]


def _made(generator: Any, key: Any, classes: Any, choices: Any, latent: Any) -> Any:
    jax = load("jax")
    numbers = jax.random.normal(key, (len(classes), len(latent)))
    return generated(generator, jax.numpy.hstack([numbers, classes]), choices)


def _discriminate(
    discriminator: Any, generator: Any, key: Any, batch: Any, choices: Any, latent: Any, scale: Any
) -> Any:
    jax = load("jax")
    real, classes = batch
    first, second, third = jax.random.split(key, 3)
    fake = _made(generator, first, classes, choices, latent)
    seen = _logits(discriminator, real, classes, second, scale)
    made = _logits(discriminator, fake, classes, third, scale)
    return (jax.nn.softplus(-seen) + jax.nn.softplus(made)).mean()


def _generate(generator: Any, discriminator: Any, key: Any, batch: Any, choices: Any, latent: Any, scale: Any) -> Any:
    jax = load("jax")
    first, second = jax.random.split(key)
    fake = _made(generator, first, batch[1], choices, latent)
    return jax.nn.softplus(-_logits(discriminator, fake, batch[1], second, scale)).mean()


@dataclass(frozen=True, kw_only=True)
class LaplaceGANPublished(Recipe):
    """A GAN with Laplace noise inside the discriminator, after the paper.

    1. A generator makes rows of random numbers and a class; a discriminator tells them from the private ones.
    2. The discriminator's first hidden layer gets Laplace noise of scale |b| / epsilon on every number, in every step.
    3. Both are trained in turn, by Adam and the usual loss.

    What was chosen here, because the paper leaves it open: which layer is noisy, |b|, the sizes, learning rate and
    number of steps; and that both networks know the class, so that rows can be drawn with one. Columns are vectors by
    the schema alone (`row_vectors`).

    Args:
        sensitivity: |b|, of the noisy layer: taken, not bounded.
        latent: How many random numbers a row is made of.
        width: Of the wide hidden layers; the others have half.
        iterations: Steps of each network.
        batch: Rows of a step.
        learning_rate: Of both networks.

    Example:
        >>> LaplaceGANPublished().guarantee.value
        'none'

    Reference:
        Della Pella, Using GANs to generate private synthetic data.
    """

    name: ClassVar[str] = "laplacegan-published"
    summary: ClassVar[str] = "a GAN with Laplace noise inside its discriminator, after its paper, which protects nobody"
    guarantee: ClassVar[Guarantee] = Guarantee.NONE
    assumptions: ClassVar[tuple[str, ...]] = ASSUMPTIONS
    needs: ClassVar[Mapping[str, str]] = NETS
    sensitivity: float = 1.0
    latent: int = 64
    width: int = 256
    iterations: int = 8000
    batch: int = 128
    learning_rate: float = 3e-4

    def training(self, size: int) -> float:
        """Return about how many multiplications training takes, given how many numbers a row is."""
        weights = self.width * (size + self.width // 2 + self.width)
        return 10.0 * self.iterations * self.batch * weights

    @property
    def approximate(self) -> NoisyDiscriminator:
        """All steps."""
        return NoisyDiscriminator(
            sensitivity=self.sensitivity,
            latent=self.latent,
            width=self.width,
            iterations=self.iterations,
            batch=self.batch,
            learning_rate=self.learning_rate,
        )
