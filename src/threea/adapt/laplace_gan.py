"""Generators trained against a discriminator that sees private rows through Laplace noise alone.

Two ways. `NoisyInputs`: rows are noised once, in the private table, and what the discriminator sees of generated rows
is noised alike. `NoisyGradients`: the gradients of the discriminator at private rows are clipped in L1, summed, and
noised at every step. All else is post-processing of these answers.
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
from threea.anonymize.clipping import step_of
from threea.anonymize.door import PrivateTable
from threea.anonymize.events import Pure
from threea.anonymize.network_gradient import NetworkGradient
from threea.anonymize.plan import Plan, Step
from threea.anonymize.query import Norm
from threea.anonymize.slot_sums import SlotSums, between
from threea.approximate.label_counts import CLASSES
from threea.errors import SettingError
from threea.progress import tell
from threea.table.row_vectors import RowVectors
from threea.table.schema import Schema

Floats = NDArray[np.float64]

INPUTS, GRADIENTS = "noisy rows", "gradients of the discriminator"
_ROWS = 0.05
"""Share of the budget for the rows per class. Chosen."""
_LATENT = 16
_BATCH = 64
"""Slots, or generated rows, that the discriminator sees in a step. Chosen."""
_NUMBERS = 1 << 18
"""Numbers in an answer of noisy rows, at most: Laplace noise is drawn exactly, one by one. Chosen."""
_MIXED = 32
"""Generated rows that stand for those of a slot, at most. Chosen."""
ROWS = _BATCH * _MIXED
"""Generated in a step, at most."""
_RADIUS, _FEW = 0.5, 8
"""Rows are shortened to this share of the longest row there can be, unless they have fewer columns. Chosen."""
_TEMPERATURE = 0.5
_RATES = (1e-3, 1e-3)
"""Adam's for discriminator and generator."""
_CLIP = 50.0
"""Gradients at private rows are clipped to this percentile of the lengths of those at generated rows. Chosen."""
_KEPT = 0.98
"""Of the generator's moving average, at every step."""
_TOLD = 50
_SEED = 20_220_507
"""Of training; it knows nothing of the rows, so any number will do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaplaceGan:
    """What both forms have in common.

    Args:
        iterations: How many steps of training.
        width: Of the discriminator's hidden layer; the generator's two are 128 wide.

    Raises:
        SettingError: A setting is outside its bounds.
    """

    iterations: int
    width: int

    def __post_init__(self) -> None:
        for name, most in (("iterations", 100_000), ("width", 512)):
            value = getattr(self, name)
            if not (isinstance(value, int) and 1 <= value <= most):
                raise SettingError(f"{name} ({value}) must be a whole number from 1 to {most}")

    def _start(self, labels: LabelShares, vectors: RowVectors, rng: np.random.Generator) -> tuple[Any, Any]:
        """Return the networks with their optimizers, and what is fixed."""
        optax = load("optax")
        discriminator = initial((vectors.width + labels.classes, self.width, 1), rng)
        generator = initial((_LATENT + labels.classes, 128, 128, vectors.width), rng)
        adam = optax.scale_by_adam(b1=0.5)
        state = (discriminator, generator, generator, adam.init(discriminator), adam.init(generator))
        fixed = (members(vectors.groups), gated(vectors.columns), places(vectors))
        return state, tuple(np.asarray(part, np.float32) for part in fixed)


class NoisyInputs(LaplaceGan):
    """Train against rows that were noised once."""

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Ask for the classes and, if there are features, for the rows in slots."""
        if not schema.features:
            return (Step(name=CLASSES, weight=1.0, kind=Pure),)
        return Step(name=CLASSES, weight=_ROWS, kind=Pure), Step(name=INPUTS, weight=1 - _ROWS, kind=Pure)

    def fit(self, table: PrivateTable, plan: Plan) -> GeneratorModel:
        """Count the classes, look at the noisy rows, and train."""
        labels, noise = LabelShares.counted(table, plan), {}
        noise[CLASSES] = labels.stddev
        if not table.schema.features:
            return GeneratorModel(labels, (), (), _LATENT, noise=noise)
        vectors, rng = RowVectors.of(table.schema.features), np.random.default_rng(_SEED)
        counts = np.maximum(labels.ratio * min(max(labels.row_counts.rows, 1.0), _NUMBERS // vectors.width), 1).astype(
            int
        )
        longest = sum(part.numeric + (part.choices > 0) for part in vectors.columns)
        radius = longest * (_RADIUS if len(vectors.columns) >= _FEW else 1.0)
        query = SlotSums(inputs=vectors.columns, counts=tuple(counts.tolist()), radius=radius, by=labels.label)
        answer = table.measure(query, plan[INPUTS])
        slots, stddev = query.read(answer, step_of(query.l1), Norm.L1)
        noise[INPUTS] = stddev
        each = np.maximum(labels.sizes, 1.0) / counts
        state, fixed = self._start(labels, vectors, rng)
        fixed = (*fixed, np.float32(stddev / math.sqrt(2)), np.float32(radius))
        state, curve = self._train(state, fixed, slots, counts, each, rng)
        return GeneratorModel(
            labels, vectors.columns, _arrays(state[2]), _LATENT, noise=noise, curves={"discriminator": curve}
        )

    def _train(self, state: Any, fixed: Any, slots: Floats, counts: Any, each: Floats, rng: np.random.Generator) -> Any:
        group = np.repeat(np.arange(len(counts)), counts)
        mixed = min(max(math.ceil(float(each.max())), 1), _MIXED)
        run, key, curve = _ambient_round(mixed), key_of(rng), list[float]()
        for number in range(self.iterations):
            chosen = rng.integers(0, len(slots), _BATCH)
            hot = np.eye(len(counts), dtype=np.float32)[group[chosen]]
            rows = each[group[chosen]].astype(np.float32)
            state, key, loss = run(state, key, slots[chosen].astype(np.float32), hot, rows, fixed)
            curve.append(float(loss))
            _told(number, self.iterations, curve)
        return state, _stretches(curve)


class NoisyGradients(LaplaceGan):
    """Train against private rows, by gradients with Laplace noise."""

    prepays: ClassVar[bool] = True

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Ask for the classes and, if there are features, for a gradient over all rows in every step."""
        if not schema.features:
            return (Step(name=CLASSES, weight=1.0, kind=Pure),)
        gradients = Step(name=GRADIENTS, weight=1 - _ROWS, kind=Pure, count=self.iterations)
        return Step(name=CLASSES, weight=_ROWS, kind=Pure), gradients

    def fit(self, table: PrivateTable, plan: Plan) -> GeneratorModel:
        """Count the classes, pay for all steps, and train."""
        labels, noise = LabelShares.counted(table, plan), {}
        noise[CLASSES] = labels.stddev
        if not table.schema.features:
            return GeneratorModel(labels, (), (), _LATENT, noise=noise)
        vectors, rng = RowVectors.of(table.schema.features), np.random.default_rng(_SEED)
        state, fixed = self._start(labels, vectors, rng)
        ratio = np.asarray(labels.ratio, np.float32)
        # Without a target, what the discriminator sees of a private row ends in a zero.
        told = np.float32(labels.label is not None)
        table.prepay(plan[GRADIENTS], self.iterations)
        run, key, curve, bound = _gradient_round(), key_of(rng), list[float](), 1.0
        for number in range(self.iterations):
            query = NetworkGradient(
                function=doubted,
                layers=_arrays(state[0]),
                inputs=vectors.columns,
                label=labels.label,
                l2=bound,
                l1=bound,
            )
            answer = table.measure(query, plan[GRADIENTS])
            noisy = query.as_layers(answer.value / max(labels.row_counts.rows, 1.0))
            state, key, loss, length = run(state, key, noisy, np.float32(bound), ratio, told, fixed)
            bound = min(max(float(length), 1e-6), 1e6)
            curve.append(float(loss))
            _told(number, self.iterations, curve)
        noise[GRADIENTS] = answer.stddev
        return GeneratorModel(
            labels,
            vectors.columns,
            _arrays(state[2]),
            _LATENT,
            noise=noise,
            curves={"discriminator": _stretches(curve)},
        )


def doubted(discriminator: Layers, row: Any) -> Any:
    """Return how far a discriminator is from taking a row for a private one: the logistic loss."""
    return load("jax").nn.softplus(-apply(discriminator, row, load("jax.numpy"))[0])


def places(vectors: RowVectors) -> Floats:
    """Return 1 for the numbers of a vector that are places."""
    zeros = np.zeros((1, vectors.width))
    return np.asarray(between(zeros, vectors.columns)[0] * 2)


def generated(generator: Any, key: Any, hot: Any, choices: Any, gates: Any) -> Any:
    """Return rows of given classes, their categories drawn, relaxed so that gradients pass."""
    jax, jnp = load("jax"), load("jax.numpy")
    latent, gumbel = jax.random.split(key)
    outputs = apply(generator, jnp.concatenate([jax.random.normal(latent, (len(hot), _LATENT)), hot], axis=1), jnp)
    relaxed = (outputs + jax.random.gumbel(gumbel, outputs.shape)) / _TEMPERATURE
    rows = activated(jnp.where(choices.sum(axis=1) > 0, relaxed, outputs), choices, jnp)
    return jnp.where(gates > 0, rows * jnp.roll(rows, -1, axis=1), rows)


@lru_cache(maxsize=4)
def _ambient_round(mixed: int) -> Any:
    """Return what trains both networks once: generated rows are shortened, mixed and noised as private ones were."""
    jax, jnp = load("jax"), load("jax.numpy")

    def slots(generator: Any, key: Any, hot: Any, rows: Any, fixed: Any) -> Any:
        choices, gates, place, scale, radius = fixed
        made, often, noise = jax.random.split(key, 3)
        vectors = generated(generator, made, jnp.repeat(hot, mixed, axis=0), choices, gates)
        vectors = jnp.clip(jnp.where(place > 0, (vectors + 1) / 2, vectors), 0.0, 1.0)
        vectors = vectors * (radius / jnp.maximum(vectors.sum(axis=1), radius))[:, None]
        mean = vectors.reshape(len(hot), mixed, -1).mean(axis=1)
        counts = jax.random.poisson(often, rows).astype(jnp.float32)
        return mean * counts[:, None] + scale * jax.random.laplace(noise, mean.shape)

    def judged(discriminator: Any, sums: Any, hot: Any, scale: Any, rows: Any) -> Any:
        # On a scale that is public: what the noise and the number of rows make of it.
        return apply(discriminator, jnp.concatenate([sums / (scale + rows[:, None]), hot], axis=1), jnp)[:, 0]

    def loss(discriminator: Any, real: Any, fake: Any, hot: Any, scale: Any, rows: Any) -> Any:
        own, made = (judged(discriminator, sums, hot, scale, rows) for sums in (real, fake))
        return (jax.nn.softplus(-own) + jax.nn.softplus(made)).mean()

    def run(state: Any, key: Any, real: Any, hot: Any, rows: Any, fixed: Any) -> Any:
        key, one, two = jax.random.split(key, 3)
        scale = fixed[3]
        fake = slots(state[1], one, hot, rows, fixed)
        value, slope = jax.value_and_grad(loss)(state[0], real, fake, hot, scale, rows)

        def fooled(generator: Any, discriminator: Any) -> Any:
            sums = slots(generator, two, hot, rows, fixed)
            return jax.nn.softplus(-judged(discriminator, sums, hot, scale, rows)).mean()

        return _moved(state, slope, fooled), key, value

    return jax.jit(run)


@lru_cache(maxsize=1)
def _gradient_round() -> Any:
    """Return what trains both networks once, given the noisy gradient at private rows."""
    jax, jnp = load("jax"), load("jax.numpy")

    def rows_of(generator: Any, key: Any, ratio: Any, told: Any, fixed: Any) -> Any:
        own, made = jax.random.split(key)
        hot = jax.nn.one_hot(jax.random.choice(own, len(ratio), (4 * _BATCH,), p=ratio), len(ratio))
        return jnp.concatenate([generated(generator, made, hot, *fixed[:2]), told * hot], axis=1)

    def taken(discriminator: Any, row: Any) -> Any:
        return jax.nn.softplus(apply(discriminator, row, jnp)[0])

    def run(state: Any, key: Any, noisy: Any, bound: Any, ratio: Any, told: Any, fixed: Any) -> Any:
        key, one, two = jax.random.split(key, 3)
        rows = rows_of(state[1], one, ratio, told, fixed)
        values, each = jax.vmap(jax.value_and_grad(taken), (None, 0))(state[0], rows)
        factors = jnp.minimum(1.0, bound / jnp.maximum(_lengths(each), 1e-12))
        slope = jax.tree.map(lambda own, parts: own + jnp.tensordot(factors, parts, 1) / len(rows), noisy, each)

        def fooled(generator: Any, discriminator: Any) -> Any:
            return jax.vmap(doubted, (None, 0))(discriminator, rows_of(generator, two, ratio, told, fixed)).mean()

        lengths = _lengths(jax.vmap(jax.grad(doubted), (None, 0))(state[0], rows))
        return _moved(state, slope, fooled), key, values.mean(), jnp.percentile(lengths, _CLIP)

    return jax.jit(run)


def _moved(state: Any, slope: Any, fooled: Any) -> Any:
    """Move the discriminator down its slope, then the generator down its own; keep a moving average of the latter."""
    jax, adam = load("jax"), load("optax").scale_by_adam(b1=0.5)
    discriminator, generator, mean, first, second = state
    updates, first = adam.update(slope, first)
    discriminator = jax.tree.map(lambda part, move: part - _RATES[0] * move, discriminator, updates)
    updates, second = adam.update(jax.grad(fooled)(generator, discriminator), second)
    generator = jax.tree.map(lambda part, move: part - _RATES[1] * move, generator, updates)
    mean = jax.tree.map(lambda old, new: _KEPT * old + (1 - _KEPT) * new, mean, generator)
    return discriminator, generator, mean, first, second


def _lengths(gradients: Any) -> Any:
    """Return the L1 norm of each row's gradient."""
    jax, jnp = load("jax"), load("jax.numpy")
    return sum(jnp.abs(part).reshape(len(part), -1).sum(axis=1) for part in jax.tree.leaves(gradients))


def _arrays(layers: Any) -> Any:
    return load("jax").tree.map(np.asarray, layers)


def _told(number: int, iterations: int, curve: list[float]) -> None:
    stretch = max(iterations // _TOLD, 1)
    if number % stretch == stretch - 1:
        tell(f"training, loss of the discriminator {np.mean(curve[-stretch:]):.4g}", number + 1, iterations)


def _stretches(curve: list[float]) -> tuple[float, ...]:
    """Return the mean in each of up to fifty stretches."""
    return tuple(float(part.mean()) for part in np.array_split(np.array(curve), min(len(curve), _TOLD)))
