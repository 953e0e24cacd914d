"""`adsgan`: a GAN that makes a row of each private one and keeps away from it; no differential privacy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from threea.adapt.networks import activated, apply, initial, members
from threea.adapt.ntk import NETS, load
from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Plan, Step
from threea.approximate.points import Points
from threea.certificate import Guarantee
from threea.framework import Recipe
from threea.published.adversaries import Rows, check_number, check_whole, generated, play
from threea.published.exposed_rows import ExposedRows
from threea.table.schema import Schema

STEP, REASON = "training", "ADS-GAN"
_PENALTY = 10.0
"""On the discriminator's gradient, as in the paper."""

ASSUMPTIONS = (
    "it is not differentially private, and does not claim to be: a synthetic row may be made of one private row alone",
    "its identifiability counts how many synthetic rows are nearer to their original than any other private row is; "
    "nothing bounds what an attacker learns",
)
"""Why it promises nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identifiability:
    """Train a generator of rows given private ones, against a discriminator with a gradient penalty.

    Args:
        identifiability: lambda, the weight of the distance to the private row.
        latent: How many random numbers a row is made of, besides the private row.
        width: Of all hidden layers.
        iterations: Steps of the generator.
        critics: Steps of the discriminator before each.
        batch: Rows of a step.
        learning_rate: Of both networks.
    """

    identifiability: float
    latent: int
    width: int
    iterations: int
    critics: int
    batch: int
    learning_rate: float

    def __post_init__(self) -> None:
        whole = {"latent": (1, 4096), "width": (2, 4096), "iterations": (1, 1_000_000), "batch": (1, 65_536)}
        check_whole(self, {**whole, "critics": (1, 100)})
        check_number(self, {"identifiability": (0.0, 1e6), "learning_rate": (1e-6, 1.0)})

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Reserve a budget, which is of no account."""
        return (Step(name=STEP, weight=1.0),)

    def fit(self, table: PrivateTable, plan: Plan) -> Points:
        """Read the rows, train, and make a row of each.

        Cost:
            A `NonPrivate` event.
        """
        rows = Rows.of(ExposedRows.of(table, REASON))
        rng, width, classes = rows.exposed.rng, rows.vectors.width, rows.exposed.classes
        discriminator = initial((width + classes, self.width, self.width, 1), rng)
        generator = initial((self.latent + width + classes, self.width, self.width, self.width, width), rng)
        choices = members(rows.vectors.groups)
        fixed = (choices, np.zeros(self.latent, np.float32), np.float32(self.identifiability))
        generator, _ = play(
            (_discriminate, _generate),
            (discriminator, generator),
            rows,
            fixed,
            iterations=self.iterations,
            batch=self.batch,
            critics=self.critics,
            learning_rate=self.learning_rate,
        )
        numbers = rng.uniform(-1.0, 1.0, (len(rows.inputs), self.latent))
        made = activated(apply(generator, np.hstack([numbers, rows.inputs, rows.classes])), choices)
        chunk = rows.vectors.decode(made, rng)
        if rows.exposed.target:
            chunk[rows.exposed.target.name] = rows.exposed.labels
        return Points(chunk)


def _made(generator: Any, key: Any, batch: Any, choices: Any, latent: Any) -> Any:
    jax = load("jax")
    numbers = jax.random.uniform(key, (len(batch[0]), len(latent)), minval=-1.0, maxval=1.0)
    return generated(generator, jax.numpy.hstack([numbers, *batch]), choices)


def _scores(discriminator: Any, vectors: Any, classes: Any) -> Any:
    xp = load("jax.numpy")
    return apply(discriminator, xp.hstack([vectors, classes]), xp)[:, 0]


def _discriminate(
    discriminator: Any, generator: Any, key: Any, batch: Any, choices: Any, latent: Any, identifiability: Any
) -> Any:
    jax = load("jax")
    first, second = jax.random.split(key)
    real, classes = batch
    fake = _made(generator, first, batch, choices, latent)
    part = jax.random.uniform(second, (len(real), 1))
    between = part * real + (1 - part) * fake
    slopes = jax.grad(lambda vectors: _scores(discriminator, vectors, classes).sum())(between)
    steepness = jax.numpy.sqrt((slopes**2).sum(axis=1) + 1e-8)
    apart = _scores(discriminator, fake, classes).mean() - _scores(discriminator, real, classes).mean()
    return apart + _PENALTY * ((steepness - 1) ** 2).mean()


def _generate(
    generator: Any, discriminator: Any, key: Any, batch: Any, choices: Any, latent: Any, identifiability: Any
) -> Any:
    xp = load("jax.numpy")
    fake = _made(generator, key, batch, choices, latent)
    distance = xp.sqrt(((batch[0] - fake) ** 2).sum(axis=1) + 1e-8).mean()
    return -_scores(discriminator, fake, batch[1]).mean() - identifiability * distance


@dataclass(frozen=True, kw_only=True)
class ADSGAN(Recipe):
    """Make a row of each private one that looks real and is far from it, after the paper.

    1. The generator takes random numbers and a private row, and makes another of the same class.
    2. The discriminator tells those from private rows: a Wasserstein critic with a gradient penalty of 10.
    3. The generator's loss is the critic's less lambda times the mean distance of a row to the one it was made of: the
       identifiability loss.

    What was chosen here, because the paper's way does not fit a table: columns are vectors by the schema alone
    (`row_vectors`), the class is given to both networks and kept, lambda's default, sizes and steps.

    Args:
        identifiability: lambda, the weight of the distance to the private row.
        latent: How many random numbers a row is made of, besides the private row.
        width: Of all hidden layers.
        iterations: Steps of the generator.
        critics: Steps of the discriminator before each.
        batch: Rows of a step.
        learning_rate: Of both networks.

    Example:
        >>> ADSGAN().guarantee.value
        'none'

    Reference:
        Yoon, Drumright and van der Schaar 2020, Anonymization through data synthesis using generative adversarial
        networks (ADS-GAN).
    """

    name: ClassVar[str] = "adsgan"
    summary: ClassVar[str] = "a GAN that keeps away from the rows it imitates; no differential privacy"
    guarantee: ClassVar[Guarantee] = Guarantee.NONE
    assumptions: ClassVar[tuple[str, ...]] = ASSUMPTIONS
    needs: ClassVar[Mapping[str, str]] = NETS
    fixed: ClassVar[bool] = True
    identifiability: float = 0.1
    latent: int = 32
    width: int = 128
    iterations: int = 3000
    critics: int = 5
    batch: int = 128
    learning_rate: float = 3e-4

    def training(self, size: int) -> float:
        """Return about how many multiplications training takes, given how many numbers a row is."""
        weights = self.width * (2 * size + 3 * self.width)
        return 10.0 * self.iterations * self.batch * (self.critics + 1) * weights

    @property
    def approximate(self) -> Identifiability:
        """All steps."""
        return Identifiability(
            identifiability=self.identifiability,
            latent=self.latent,
            width=self.width,
            iterations=self.iterations,
            critics=self.critics,
            batch=self.batch,
            learning_rate=self.learning_rate,
        )
