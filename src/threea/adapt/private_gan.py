"""A generator trained against a critic that sees the private rows through noisy gradients alone (DP-GAN).

The critic tells private rows from generated ones. Its gradients at private rows are clipped row by row, summed over a
sample and noised; its gradients at generated rows, and all of the generator's training, are post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from threea.adapt.embedding_targets import gated
from threea.adapt.generator_model import GeneratorModel, LabelShares
from threea.adapt.networks import Layers, activated, apply, initial, key_of, members
from threea.adapt.ntk import load
from threea.anonymize.door import PrivateTable
from threea.anonymize.events import Sampled
from threea.anonymize.network_gradient import NetworkGradient
from threea.anonymize.plan import Plan, Step
from threea.approximate.label_counts import CLASSES
from threea.errors import SettingError
from threea.progress import tell
from threea.table.row_vectors import RowVectors
from threea.table.schema import Schema

GRADIENTS = "gradients of the critic"
_ROWS = 0.02
"""Share of the budget for the rows per class. Chosen."""
_LATENT = 16
"""Random numbers that a row is made of. Chosen."""
_FAKES = 512
"""Rows that the generator makes in a step. Chosen."""
_CLIP = 1.0
_WEIGHTS = 0.1
"""What the critic's weights are cut off at. Chosen."""
_RATE_CRITIC, _RATE_GENERATOR = 2e-3, 1e-3
_TEMPERATURE = 0.5
"""Of the relaxed draws of categories in training. Chosen."""
_KEPT = 0.98
"""Of the generator's moving average, at every step. Chosen."""
_TOLD = 50
"""How often, at most, progress is told of."""
_SEED = 20_180_219
"""Of training; it knows nothing of the rows, so any number will do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateGan:
    """Train a generator against a private critic.

    Args:
        epochs: How often every row is looked at, on average.
        rate: Probability with which a row is in a step's sample.
        width: Of the critic's two hidden layers; the generator's are twice as wide.
        generator_steps: Steps of the generator for each of the critic.

    Raises:
        SettingError: A setting is outside its bounds.
    """

    epochs: float
    rate: float
    width: int
    generator_steps: int = 1

    def __post_init__(self) -> None:
        if not 1e-6 <= self.rate <= 1:
            raise SettingError(f"rate ({self.rate}) must be from 0.000001 to 1")
        if not (math.isfinite(self.epochs) and self.rate <= self.epochs <= 100_000 * self.rate):
            raise SettingError(f"epochs ({self.epochs}) must be from {self.rate:g} to {100_000 * self.rate:g}")
        for name, most in (("width", 512), ("generator_steps", 100)):
            value = getattr(self, name)
            if not (isinstance(value, int) and 1 <= value <= most):
                raise SettingError(f"{name} ({value}) must be a whole number from 1 to {most}")

    @property
    def rounds(self) -> int:
        """How many steps of the critic."""
        return round(self.epochs / self.rate)

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Ask for the classes and, if there are features, for a gradient in every step."""
        if not schema.features:
            return (Step(name=CLASSES, weight=1.0),)
        gradients = Step(name=GRADIENTS, weight=1 - _ROWS, kind=Sampled, count=self.rounds, rate=self.rate)
        return Step(name=CLASSES, weight=_ROWS), gradients

    def fit(self, table: PrivateTable, plan: Plan) -> GeneratorModel:
        """Count the classes, pay for all steps, and train."""
        labels, noise = LabelShares.counted(table, plan), {}
        noise[CLASSES] = labels.stddev
        if not table.schema.features:
            return GeneratorModel(labels, (), (), _LATENT, noise=noise)
        vectors, rng = RowVectors.of(table.schema.features), np.random.default_rng(_SEED)
        critic = initial((vectors.width + labels.classes, self.width, self.width, 1), rng)
        critic = tuple((np.clip(weights, -_WEIGHTS, _WEIGHTS), biases) for weights, biases in critic)
        generator = initial((_LATENT + labels.classes, 2 * self.width, 2 * self.width, vectors.width), rng)
        fixed = tuple(
            np.asarray(part, np.float32) for part in (members(vectors.groups), gated(vectors.columns), labels.ratio)
        )
        table.prepay(plan[GRADIENTS], self.rounds)
        sampled, rows = table.sampled(self.rate), max(labels.rows, 1 / self.rate)
        run, state, key = _round(self.generator_steps), _start(critic, generator), key_of(rng)
        curve: list[float] = []
        stretch = max(-(-self.rounds // _TOLD), 1)
        for number in range(self.rounds):
            query = NetworkGradient(
                function=missed, layers=critic, inputs=vectors.columns, label=labels.label, l2=_CLIP
            )
            answer = sampled.measure(query, plan[GRADIENTS])
            noisy = query.as_layers(answer.value / (self.rate * rows))
            falling = np.float32((1 + math.cos(math.pi * number / self.rounds)) / 2)
            state, key, distance = run(state, key, noisy, falling, fixed)
            critic = load("jax").tree.map(np.asarray, state[0])
            curve.append(float(distance))
            if number % stretch == stretch - 1:
                tell(f"training against the critic, distance {np.mean(curve[-stretch:]):.4g}", number + 1, self.rounds)
        noise[GRADIENTS] = answer.stddev
        curve = [float(np.mean(curve[start : start + stretch])) for start in range(0, len(curve), stretch)]
        layers = load("jax").tree.map(np.asarray, state[2])
        return GeneratorModel(labels, vectors.columns, layers, _LATENT, noise=noise, curves={"generator": tuple(curve)})


def missed(critic: Layers, row: Any) -> Any:
    """Return how little a critic thinks of a private row: what it learns to lessen."""
    return -apply(critic, row, load("jax.numpy"))[0]


def made(generator: Any, key: Any, choices: Any, gates: Any, ratio: Any) -> Any:
    """Return generated rows with their classes, as the critic sees private ones: one category of each choice."""
    jax, jnp = load("jax"), load("jax.numpy")
    drawn, latent, gumbel = jax.random.split(key, 3)
    classes = jax.nn.one_hot(jax.random.choice(drawn, ratio.shape[0], (_FAKES,), p=ratio), ratio.shape[0])
    outputs = apply(generator, jnp.concatenate([jax.random.normal(latent, (_FAKES, _LATENT)), classes], axis=1), jnp)
    chosen = choices.sum(axis=1) > 0
    relaxed = jnp.where(chosen, (outputs + jax.random.gumbel(gumbel, outputs.shape)) / _TEMPERATURE, outputs)
    soft = activated(relaxed, choices, jnp)
    # Forward the category itself, backward its relaxed draw.
    largest = jnp.max(jnp.where(choices.T[None] > 0, soft[:, None], 0.0), axis=2) @ choices.T
    hard = jnp.where(chosen, (soft >= largest).astype(soft.dtype), soft)
    rows = soft + jax.lax.stop_gradient(hard - soft)
    rows = jnp.where(gates > 0, rows * jnp.roll(rows, -1, axis=1), rows)
    return jnp.concatenate([rows, classes], axis=1)


def _start(critic: Layers, generator: Layers) -> Any:
    optax = load("optax")
    return critic, generator, generator, optax.scale_by_rms().init(critic), optax.scale_by_adam(b1=0.5).init(generator)


@lru_cache(maxsize=4)
def _round(generator_steps: int) -> Any:
    """Return what moves the critic once, by its noisy gradient, and the generator some times."""
    jax, jnp, optax = load("jax"), load("jax.numpy"), load("optax")

    def clipped(gradient: Any) -> Any:
        length = jnp.sqrt(sum(jnp.vdot(part, part) for part in jax.tree.leaves(gradient)))
        return jax.tree.map(lambda part: part * jnp.minimum(1.0, _CLIP / length), gradient)

    def at_fakes(critic: Any, rows: Any) -> Any:
        """Return the mean gradient of the critic's score at generated rows, each clipped as a private row's is."""
        each = jax.vmap(lambda row: clipped(jax.grad(missed)(critic, row)))(rows)
        return jax.tree.map(lambda parts: -parts.mean(axis=0), each)

    def generated(generator: Any, critic: Any, key: Any, fixed: Any) -> Any:
        return -apply(critic, made(generator, key, *fixed), jnp).mean()

    def run(state: Any, key: Any, noisy: Any, falling: Any, fixed: Any) -> Any:
        critic, generator, mean, squares, moments = state
        key, *own = jax.random.split(key, generator_steps + 2)
        rows = made(generator, own[0], *fixed)
        gradient = jax.tree.map(jnp.add, noisy, at_fakes(critic, rows))
        # The last layer is linear, so its noisy gradient tells the score that it has on average.
        distance = -sum((part * own).sum() for part, own in zip(critic[-1], noisy[-1], strict=True))
        distance -= apply(critic, rows, jnp).mean()
        updates, squares = optax.scale_by_rms().update(gradient, squares)
        critic = jax.tree.map(lambda part, move: part - _RATE_CRITIC * falling * move, critic, updates)
        critic = tuple((jnp.clip(weights, -_WEIGHTS, _WEIGHTS), biases) for weights, biases in critic)
        for one in own[1:]:
            slope = jax.grad(generated)(generator, critic, one, fixed)
            updates, moments = optax.scale_by_adam(b1=0.5).update(slope, moments)
            generator = jax.tree.map(lambda part, move: part - _RATE_GENERATOR * falling * move, generator, updates)
        mean = jax.tree.map(lambda old, new: _KEPT * old + (1 - _KEPT) * new, mean, generator)
        return (critic, generator, mean, squares, moments), key, distance

    return jax.jit(run)
