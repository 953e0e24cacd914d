"""A generator trained against a critic that sees the private rows through noisy gradients alone (DP-GAN).

The critic tells private rows from generated ones. Its gradients at private rows are clipped row by row, summed over a
sample and noised; its gradients at generated rows, and all of the generator's training, are post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from threea.adapt.embedding_targets import gated
from threea.adapt.generator_model import GeneratorModel, LabelShares
from threea.adapt.networks import Layers, activated, apply, initial, key_of, members
from threea.adapt.ntk import load
from threea.anonymize.door import PrivateTable
from threea.anonymize.events import Sampled
from threea.anonymize.network_gradient import NetworkGradient, aligned
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
FAKES = 512
"""Rows that the generator makes in a step. Chosen."""
_CLIP = 50.0
"""Gradients at private rows are clipped to this percentile of the lengths of those at generated rows. Chosen."""
_WEIGHTS = 0.1
"""What the critic's weights are cut off at. Chosen."""
_CRITIC_RATE, _GENERATOR_RATE = 2e-3, 1e-3
"""Of learning, at the start; they fall to nothing along a cosine. Chosen."""
_TEMPERATURE = 0.5
"""Of the relaxed draws of categories in training. Chosen."""
_KEPT = 0.98
"""Of the generator's moving average, in every step. Chosen."""
_TOLD = 50
"""How often, at most, progress is told of."""
_SEED = 20_180_219
"""Of training; it knows nothing of the rows, so any number will do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateGan:
    """Train a generator against a private critic.

    Args:
        epochs: How often every row is in a sample, on average.
        rate: Probability with which a row is in a step's sample.
        width: Of the critic's two hidden layers; the generator's are twice as wide.

    Raises:
        SettingError: A setting is outside its bounds.
    """

    prepays: ClassVar[bool] = True
    epochs: float
    rate: float
    width: int

    def __post_init__(self) -> None:
        if not 1e-6 <= self.rate <= 1:
            raise SettingError(f"rate ({self.rate}) must be from 0.000001 to 1")
        if not self.rate <= self.epochs <= 100_000 * self.rate:
            most = f"{100_000 * self.rate:g}"
            raise SettingError(f"epochs ({self.epochs}) must be from {self.rate:g} to {most}, at this rate")
        if not (isinstance(self.width, int) and 1 <= self.width <= 512):
            raise SettingError(f"width ({self.width}) must be a whole number from 1 to 512")

    @property
    def rounds(self) -> int:
        """How many steps of the critic, and of the generator."""
        return round(self.epochs / self.rate)

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Ask for the classes and, if there are features, for a gradient in every step."""
        if not schema.features:
            return (Step(name=CLASSES, weight=1.0),)
        gradients = Step(name=GRADIENTS, weight=1 - _ROWS, kind=Sampled, count=self.rounds, rate=self.rate)
        return Step(name=CLASSES, weight=_ROWS), gradients

    def fit(self, table: PrivateTable, plan: Plan) -> GeneratorModel:
        """Count the classes, pay for all steps, and train."""
        labels, vectors = LabelShares.counted(table, plan), RowVectors.of(table.schema.features)
        noise = {CLASSES: labels.stddev}
        if not vectors.columns:
            return GeneratorModel(labels, (), (), _LATENT, noise=noise)
        table.prepay(plan[GRADIENTS], self.rounds)
        layers, curve, noise[GRADIENTS] = self._train(table, plan, labels, vectors)
        return GeneratorModel(labels, vectors.columns, layers, _LATENT, noise=noise, curves={"critic": curve})

    def _train(
        self, table: PrivateTable, plan: Plan, labels: LabelShares, vectors: RowVectors
    ) -> tuple[Layers, tuple[float, ...], float]:
        """Return the generator, how far apart the critic found private and generated rows, and the last noise."""
        jax, rng, shape = load("jax"), np.random.default_rng(_SEED), Shape.of(vectors, labels)
        critic, generator = self._networks(shape, rng)
        sampled, rows = table.sampled(self.rate), max(labels.row_counts.rows, 1 / self.rate)
        state, key, clip, distances = start(critic, generator), key_of(rng), 1.0, list[float]()
        stretch = max(-(-self.rounds // _TOLD), 1)
        for number in range(self.rounds):
            query = NetworkGradient(function=missed, layers=critic, inputs=vectors.columns, label=labels.label, l2=clip)
            answer = sampled.measure(query, plan[GRADIENTS])
            noisy = query.as_layers(answer.value / (self.rate * rows))
            limits = np.array([clip, (1 + math.cos(math.pi * number / self.rounds)) / 2], np.float32)
            state, key, distance, length = _round()(state, key, noisy, limits, shape.arrays)
            critic, clip = jax.tree.map(np.asarray, state[0]), min(max(float(length), 1e-6), 1e6)
            distances.append(float(distance))
            if (number + 1) % stretch == 0:
                tell(f"training, distance {np.mean(distances[-stretch:]):.3g}", number + 1, self.rounds)
        curve = (float(np.mean(distances[first : first + stretch])) for first in range(0, self.rounds, stretch))
        return shape.trimmed(jax.tree.map(np.asarray, state[2])), tuple(curve), answer.stddev

    def _networks(self, shape: Shape, rng: np.random.Generator) -> tuple[Layers, Layers]:
        width, classes = shape.place.shape[1], len(shape.ratio)
        critic = initial((width, self.width, self.width, 1), rng)
        generator = initial((_LATENT + classes, 2 * self.width, 2 * self.width, width), rng)
        return tuple((np.clip(weights, -_WEIGHTS, _WEIGHTS), biases) for weights, biases in critic), generator


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """How generated rows are laid out, as arrays: as the critic gets private ones, filled up with zeros.

    Args:
        choices: What `members` says of a row's numbers.
        groups: For each number which choice it belongs to; one more than there are for a place.
        gates: What `gated` says of them.
        features: 1 for the numbers of a feature.
        ratio: Share of each class.
        place: For each class, where in a row its indicator is.
        latent: How many random numbers and classes, and how many features.
    """

    choices: NDArray[np.float32]
    groups: NDArray[np.int32]
    gates: NDArray[np.float32]
    features: NDArray[np.float32]
    ratio: NDArray[np.float32]
    place: NDArray[np.float32]
    sizes: tuple[int, int]

    @classmethod
    def of(cls, vectors: RowVectors, labels: LabelShares) -> Shape:
        """Fill everything up, so that tables of about the same size are trained by the same compiled code."""
        width = vectors.width
        whole, classes = aligned(width + (labels.classes if labels.label else 0)), aligned(labels.classes)
        choices, groups = np.zeros((whole, whole), np.float32), np.full(whole, whole, np.int32)
        found = members(vectors.groups)
        choices[:width, : found.shape[1]] = found
        groups[:width] = np.where(vectors.groups < 0, whole, vectors.groups)
        place = np.zeros((classes, whole), np.float32)
        if labels.label:
            place[range(labels.classes), range(width, width + labels.classes)] = 1
        ratio = np.append(labels.ratio, np.zeros(classes - labels.classes)).astype(np.float32)
        gates = np.append(gated(vectors.columns), np.zeros(whole - width)).astype(np.float32)
        features = (np.arange(whole) < width).astype(np.float32)
        return cls(choices, groups, gates, features, ratio, place, (_LATENT + labels.classes, width))

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """What `made` takes."""
        return self.choices, self.groups, self.gates, self.features, self.ratio, self.place

    def trimmed(self, layers: Layers) -> Layers:
        """Return a generator without what was filled up."""
        (first, *rest), (inputs, outputs) = layers, self.sizes
        *between, (weights, biases) = [(first[0][:inputs], first[1]), *rest]
        return (*between, (weights[:, :outputs], biases[:outputs]))


def missed(critic: Layers, row: Any) -> Any:
    """Return how little a critic thinks of a row: at private ones it learns to lessen that, at generated ones to raise.

    Without the last bias, which is the same for all rows: its gradient would only be noise.
    """
    return critic[-1][1][0] - apply(critic, row, load("jax.numpy"))[0]


def made(generator: Any, key: Any, choices: Any, groups: Any, gates: Any, features: Any, ratio: Any, place: Any) -> Any:
    """Return generated rows with their classes, as the critic sees private ones: one category of each choice."""
    jax, jnp = load("jax"), load("jax.numpy")
    drawn, latent, gumbel = jax.random.split(key, 3)
    classes = jax.nn.one_hot(jax.random.choice(drawn, len(ratio), (FAKES,), p=ratio), len(ratio))
    outputs = apply(generator, jnp.concatenate([jax.random.normal(latent, (FAKES, _LATENT)), classes], axis=1), jnp)
    relaxed = (outputs + jax.random.gumbel(gumbel, outputs.shape)) / _TEMPERATURE
    chosen = groups < len(groups)
    soft = activated(jnp.where(chosen, relaxed, outputs), choices, jnp)
    largest = jax.ops.segment_max(relaxed.T, groups, num_segments=len(groups) + 1)[groups].T
    # Forward the category itself, backward its relaxed draw.
    rows = soft + jax.lax.stop_gradient(jnp.where(chosen, (relaxed >= largest) - soft, 0.0))
    rows = jnp.where(gates > 0, rows * jnp.roll(rows, -1, axis=1), rows)
    return rows * features + classes @ place


def lengths(gradients: Any) -> Any:
    """Return the L2 norm of each row's gradient."""
    jax, jnp = load("jax"), load("jax.numpy")
    return jnp.sqrt(sum((part**2).reshape(len(part), -1).sum(axis=1) for part in jax.tree.leaves(gradients)))


def start(critic: Layers, generator: Layers) -> Any:
    """Return where training starts: both networks, the generator's moving average, and the optimizers' states."""
    squares, moments = _optimizers()
    return critic, generator, generator, squares.init(critic), moments.init(generator)


def _optimizers() -> tuple[Any, Any]:
    optax = load("optax")
    return optax.scale_by_rms(), optax.scale_by_adam(b1=0.5)


@lru_cache(maxsize=1)
def _round() -> Any:
    """Return what moves the critic by its noisy gradient, then the generator; compiled once for every shape."""
    jax, jnp = load("jax"), load("jax.numpy")
    rms, adam = _optimizers()

    def moved(layers: Any, moves: Any, rate: Any) -> Any:
        return jax.tree.map(lambda part, move: part - rate * move, layers, moves)

    def score(generator: Any, critic: Any, key: Any, arrays: Any) -> Any:
        return jax.vmap(missed, (None, 0))(critic, made(generator, key, *arrays)).mean()

    def run(state: Any, key: Any, noisy: Any, limits: Any, arrays: Any) -> Any:
        critic, generator, mean, squares, moments = state
        (clip, falling), (key, *own) = limits, jax.random.split(key, 3)
        rows = made(generator, own[0], *arrays)
        each = jax.vmap(jax.grad(missed), (None, 0))(critic, rows)
        long = lengths(each)
        # Clipped as private rows are, or the critic would tell them apart by that alone.
        fakes = jax.tree.map(lambda part: jnp.tensordot(jnp.minimum(1.0, clip / long), part, 1) / len(rows), each)
        # The last layer is linear: its noisy gradient tells the mean score of private rows.
        distance = jax.vmap(missed, (None, 0))(critic, rows).mean() - (critic[-1][0] * noisy[-1][0]).sum()
        moves, squares = rms.update(jax.tree.map(jnp.subtract, noisy, fakes), squares)
        critic = moved(critic, moves, _CRITIC_RATE * falling)
        critic = tuple((jnp.clip(weights, -_WEIGHTS, _WEIGHTS), biases) for weights, biases in critic)
        moves, moments = adam.update(jax.grad(score)(generator, critic, own[1], arrays), moments)
        generator = moved(generator, moves, _GENERATOR_RATE * falling)
        mean = jax.tree.map(lambda old, new: _KEPT * old + (1 - _KEPT) * new, mean, generator)
        return (critic, generator, mean, squares, moments), key, distance, jnp.percentile(long, _CLIP)

    return jax.jit(run)
