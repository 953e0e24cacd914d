"""A generator whose rows have, in each class, the noisy mean embedding of the private ones (DP-MERF).

Three looks at the rows: how many there are in each class, histograms of every column by class, and the sum of their
random Fourier features by class. Training a generator until its rows have the same means is post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.adapt.embedding_targets import Waves, gated, given_label, placed, random_radians, scores, told_by_histograms
from threea.adapt.generator_model import GeneratorModel, LabelShares
from threea.adapt.networks import activated, apply, initial, members, train
from threea.adapt.ntk import load
from threea.anonymize.door import PrivateTable
from threea.anonymize.mean_embedding import MeanEmbedding, frequencies_of
from threea.anonymize.plan import Plan, Step
from threea.anonymize.query import Marginal, Stack
from threea.approximate.gaussians import grid_of
from threea.approximate.label_counts import CLASSES
from threea.errors import SettingError
from threea.model_summary import Histogram
from threea.table.cells import Cells
from threea.table.row_vectors import RowVectors
from threea.table.schema import Schema

Floats = NDArray[np.float64]

HISTOGRAMS, EMBEDDING = "histograms given the label", "mean embedding given the label"
_ROWS, _HISTOGRAMS = 0.02, 0.3
"""Shares of the budget for counts and histograms; the embedding has the rest. Chosen."""
_WIDE = 128
"""From so many columns on there are no histograms: their noise grows with the number of columns. Chosen."""
_BINS, _WIDE_BINS = 64, 16
_LATENT = 16
"""Random numbers that a row is made of. Chosen."""
_TEMPERATURE = 0.5
"""Of the relaxed draws of categories in training. Chosen."""
_SEED = 20_210_412
"""Of frequencies and training; they know nothing of the rows, so any number will do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingGenerator:
    """Fit a generator to noisy mean embeddings.

    Args:
        features: How many random frequencies.
        length_scale: Of the kernel, in units of the distance of rows that differ in all columns.
        iterations: How many steps of training.
        batch: Rows that the generator makes in a step.
        width: Of its two hidden layers.
        learning_rate: Adam's.

    Raises:
        SettingError: A setting is outside its bounds.
    """

    features: int
    length_scale: float
    iterations: int
    batch: int
    width: int
    learning_rate: float = 2e-3

    def __post_init__(self) -> None:
        for name, most in (("features", 16_384), ("iterations", 100_000), ("batch", 65_536), ("width", 4096)):
            value = getattr(self, name)
            if not (isinstance(value, int) and 1 <= value <= most):
                raise SettingError(f"{name} ({value}) must be a whole number from 1 to {most}")
        if not 1e-3 <= self.length_scale <= 1e3:
            raise SettingError(f"length_scale ({self.length_scale}) must be from 0.001 to 1000")

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Ask for the classes and, if there are features, for their embedding and, if not many, their histograms."""
        if not schema.features:
            return (Step(name=CLASSES, weight=1.0),)
        histograms = 0.0 if wide(schema) else _HISTOGRAMS
        asked = (Step(name=CLASSES, weight=_ROWS), Step(name=EMBEDDING, weight=1 - _ROWS - histograms))
        return (*asked, Step(name=HISTOGRAMS, weight=histograms)) if histograms else asked

    def fit(self, table: PrivateTable, plan: Plan) -> GeneratorModel:
        """Count, sum the features of rows, and train."""
        schema, labels = table.schema, LabelShares.counted(table, plan)
        noise, histograms, shares = {CLASSES: labels.stddev}, dict[str, Histogram](), tuple[Floats, ...]()
        if not schema.features:
            return GeneratorModel(labels, (), (), _LATENT, noise=noise)
        cells = tuple(column.cells(_WIDE_BINS if wide(schema) else _BINS) for column in schema.features)
        if not wide(schema):
            shares, histograms, noise[HISTOGRAMS] = self._histograms(table, plan, labels, cells)
        columns, rng = placed(schema.features, cells, shares, labels), np.random.default_rng(_SEED)
        radians = random_radians(columns, grid_of(schema), self.features, self.length_scale, rng)
        query = MeanEmbedding(scores=scores(cells, columns), frequencies=frequencies_of(radians), by=labels.label)
        sums, noise[EMBEDDING] = query.read(table.measure(query, plan[EMBEDDING]))
        # Of a class that is no more than noise nothing is known; it is not drawn either.
        means = sums / np.maximum(labels.sizes, 3 * labels.stddev + 1)[:, None]
        waves = Waves(radians, np.array(np.split(means, 2, axis=1)), np.full(self.features, 1 / self.features))
        waves += told_by_histograms(columns, cells, shares) if shares else nothing(waves)
        layers, curve = self._train(labels, RowVectors(columns), waves, rng)
        return GeneratorModel(labels, columns, layers, _LATENT, histograms, noise, {"generator": curve})

    def _histograms(
        self, table: PrivateTable, plan: Plan, labels: LabelShares, cells: tuple[Cells, ...]
    ) -> tuple[tuple[Floats, ...], dict[str, Histogram], float]:
        """Count every column by class; return shares by class, and counts over all classes for looking at."""
        by = (labels.label,) if labels.label else ()
        answer = table.measure(Stack(tuple(Marginal((*by, own)) for own in cells)), plan[HISTOGRAMS])
        stddev = answer.stddev * np.sqrt(labels.classes)
        totals = (part.value.reshape(labels.classes, -1).sum(axis=0) for part in answer.parts)
        shown = {own.column: Histogram(own, total, stddev) for own, total in zip(cells, totals, strict=True)}
        return given_label(labels, answer), shown, answer.stddev

    def _train(self, labels: LabelShares, vectors: RowVectors, waves: Waves, rng: np.random.Generator) -> Any:
        seen, width = np.flatnonzero(labels.ratio), vectors.width
        each = max(self.batch // (2 * len(seen)), 2)
        classes, choices = np.eye(labels.classes)[seen], members(vectors.groups)
        coordinates, frequencies, kinds = roomy(width, 32), roomy(waves.radians.shape[1], 64), len(seen)
        fixed = (
            padded(waves.radians, coordinates, frequencies),
            padded(waves.means[:, seen], 2, kinds, frequencies),
            padded(np.outer(np.ones(len(seen)), waves.weights) / len(seen), kinds, frequencies),
            padded(classes, kinds, roomy(labels.classes, 4)),
            padded(choices, coordinates, roomy(choices.shape[1], 8)),
            padded(gated(vectors.columns), coordinates),
            np.zeros((each, _LATENT), np.float32),
        )
        layers, curve = train(
            mismatch,
            initial((_LATENT + fixed[3].shape[1], self.width, self.width, coordinates), rng),
            fixed,
            steps=self.iterations,
            learning_rate=self.learning_rate,
            rng=rng,
            stage="training the generator",
        )
        (first, bias), *inner, (last, ends) = layers
        return ((first[: _LATENT + labels.classes], bias), *inner, (last[:, :width], ends[:width])), curve


def roomy(count: int, of: int) -> int:
    """Return a multiple of a number that is no smaller: tables of about one size are compiled once."""
    return -(-count // of) * of


def padded(values: NDArray[Any], *shape: int) -> NDArray[np.float32]:
    """Return an array with zeros after its values, in every direction."""
    room = np.zeros(shape, np.float32)
    room[tuple(slice(size) for size in values.shape)] = values
    return room


def wide(schema: Schema) -> bool:
    """Return whether a table has too many columns for histograms."""
    return len(schema.features) >= _WIDE


def nothing(waves: Waves) -> Waves:
    """Return no frequencies at all."""
    return Waves(waves.radians[:, :0], waves.means[:, :, :0], waves.weights[:0])


def mismatch(
    layers: Any, key: Any, radians: Any, means: Any, weights: Any, classes: Any, choices: Any, gates: Any, latent: Any
) -> Any:
    """Return how far a generator's means are from those told, squared.

    Two halves of a batch are compared with the means, and the differences multiplied: without bias. The square of one
    batch's difference would also count how much rows vary, and a generator would learn to make them all alike.

    Args:
        layers: The generator.
        key: Draws its random numbers.
        radians: For each coordinate a row, for each frequency a column.
        means: First of the cosines, then of the sines: for each class and frequency.
        weights: How much each class and frequency counts.
        classes: The classes' indicators, one a row.
        choices: What `members` says of a vector's numbers.
        gates: What `gated` says of them.
        latent: Any array of the shape of half a class's random numbers.
    """
    jax, jnp = load("jax"), load("jax.numpy")
    (each, size), (count, width) = latent.shape, classes.shape
    for_latent, for_choices = jax.random.split(key)
    drawn = jax.random.normal(for_latent, (2, count, each, size))
    hot = jnp.broadcast_to(classes[None, :, None, :], (2, count, each, width))
    outputs = apply(layers, jnp.concatenate([drawn, hot], axis=-1).reshape(-1, size + width), jnp)
    if choices.shape[1]:
        relaxed = (outputs + jax.random.gumbel(for_choices, outputs.shape)) / _TEMPERATURE
        outputs = jnp.where(choices.sum(axis=1) > 0, relaxed, outputs)
    vectors = activated(outputs, choices, jnp)
    vectors = jnp.where(gates > 0, vectors * jnp.roll(vectors, -1, axis=1), vectors)
    phases = (vectors @ radians).reshape(2, count, each, -1)
    apart = jnp.stack([jnp.cos(phases).mean(axis=2), jnp.sin(phases).mean(axis=2)]) - means[:, None]
    return (apart[:, 0] * apart[:, 1] * weights).sum()
