"""A generator whose rows have, in each class, the noisy mean embedding of the private ones (DP-MERF).

Three looks at the rows: how many there are in each class, histograms of every column by class, and the sum of their
random Fourier features by class. Training a generator until its rows have the same means is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.adapt.generator_model import GeneratorModel, LabelShares
from threea.adapt.networks import activated, apply, initial, members, train
from threea.adapt.ntk import load
from threea.anonymize.cluster_sums import MOST_SCORE, SCORE_BITS, Scores
from threea.anonymize.door import PrivateTable
from threea.anonymize.mean_embedding import MeanEmbedding, frequencies_of
from threea.anonymize.plan import Plan, Step
from threea.anonymize.query import Answer, Marginal, Stack
from threea.approximate.denoise import proportions, shrunk
from threea.approximate.label_counts import CLASSES
from threea.errors import SettingError
from threea.model_summary import Histogram
from threea.table.cells import Bins, Cells
from threea.table.row_vectors import RowVectors, VectorColumn
from threea.table.schema import Schema

Floats = NDArray[np.float64]

HISTOGRAMS, EMBEDDING = "histograms given the label", "mean embedding given the label"
_ROWS, _HISTOGRAMS = 0.02, 0.5
"""Shares of the budget; the embedding has the rest. Chosen."""
_BINS = 64
_ALONG = 8
"""Frequencies along a number's own coordinate that its histogram tells. Chosen."""
_TEMPERATURE = 0.5
"""Of the relaxed draws of categories while training. Chosen."""
_LATENT = 16
_SEED = 20_210_412
"""Of frequencies and training; they know nothing of the rows, so any number will do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingGenerator:
    """Fit a generator to noisy mean embeddings.

    Args:
        features: How many random frequencies.
        bandwidths: Length scales of the kernel, in units of the average distance of random rows between the bounds.
        histograms: Share of the budget for histograms by class; 0 asks for none.
        steps_: How many steps of training.
        batch: Rows drawn in a step.
        width: Of the generator's two hidden layers.

    Raises:
        SettingError: A setting is outside its bounds.
    """

    features: int = 1000
    bandwidths: tuple[float, ...] = (0.5, 1.0)
    histograms: float = _HISTOGRAMS
    iterations: int = 2000
    batch: int = 512
    width: int = 256
    along: float = 1.0
    rate: float = 1e-3
    latent: int = _LATENT
    tau: float = _TEMPERATURE
    bins: int = _BINS

    def __post_init__(self) -> None:
        pass

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Ask for the classes, and, if there are features, for their histograms and their embedding."""
        if not schema.features:
            return (Step(name=CLASSES, weight=1.0),)
        found = (Step(name=CLASSES, weight=_ROWS), Step(name=EMBEDDING, weight=1 - _ROWS - self.histograms))
        return (*found, Step(name=HISTOGRAMS, weight=self.histograms)) if self.histograms else found

    def fit(self, table: PrivateTable, plan: Plan) -> GeneratorModel:
        """Ask, then train."""
        schema, labels = table.schema, LabelShares.counted(table, plan)
        noise = {CLASSES: labels.stddev}
        cells = tuple(column.cells(self.bins) for column in schema.features)
        if not cells:
            return GeneratorModel(labels, (), (), _LATENT, noise=noise)
        counted: tuple[Floats, ...] = ()
        if self.histograms:
            by = (labels.label,) if labels.label else ()
            answer = table.measure(Stack(tuple(Marginal((*by, own)) for own in cells)), plan[HISTOGRAMS])
            counted = given_label(labels, answer)
            noise[HISTOGRAMS] = answer.stddev
        rng = np.random.default_rng(_SEED)
        columns = vector_columns(schema, cells, counted, labels)
        radians = self._radians(columns, rng)
        query = MeanEmbedding(scores=scores(cells, columns), frequencies=frequencies_of(radians), by=labels.label)
        sums, spread = query.read(table.measure(query, plan[EMBEDDING]))
        sizes = np.maximum(labels.sizes, 3 * labels.stddev + 1.0)
        target = sums / sizes[:, None]
        noise[EMBEDDING] = spread
        seen = np.flatnonzero(labels.ratio > 0)
        along, told = self._told(columns, cells, counted, labels.classes)
        halves = [np.hstack([part, more]) for part, more in zip(np.split(target, 2, axis=1), told, strict=True)]
        weights = np.append(np.full(radians.shape[1], 1 / radians.shape[1]), np.full(along.shape[1], self.along / max(len(cells), 1)))
        groups = RowVectors(columns).groups
        fixed = (
            np.hstack([radians, along]),
            np.stack(halves)[:, seen],
            weights,
            np.eye(labels.classes)[seen],
            members(groups),
            gates(columns),
        )
        layers = initial((self.latent + labels.classes, self.width, self.width, len(groups)), rng)
        sizes_ = np.zeros((max(self.batch // (2 * len(seen)), 2), self.latent, 1), np.float32)
        fixed = (*(np.asarray(part, np.float32) for part in fixed), sizes_)
        layers, curve = train(
            mismatch, layers, fixed, steps=self.iterations, learning_rate=self.rate, rng=rng, stage="training the generator"
        )
        return GeneratorModel(labels, columns, layers, self.latent, noise=noise, curves={"generator": curve})

    def _radians(self, columns: tuple[VectorColumn, ...], rng: np.random.Generator) -> Floats:
        """Draw the kernel's frequencies; rows at random between the bounds are about sqrt(columns) apart."""
        width = sum(part.size for part in columns)
        scale = np.resize(np.array(self.bandwidths), self.features) * math.sqrt(len(columns))
        return rng.standard_normal((width, self.features)) / scale

    def _told(self, columns, cells, counted, classes):
        """Return frequencies along single coordinates, and the cosines' and sines' means that histograms tell."""
        width = sum(part.size for part in columns)
        radians, cosines, sines = [], [], []
        start = 0
        for part, own, shares in zip(columns, cells, counted, strict=False):
            wave = np.zeros((width, (_ALONG if part.numeric else 0) + part.choices))
            if part.numeric:
                wave[start, :_ALONG] = np.pi / 2 * np.arange(1, _ALONG + 1)
            wave[range(start + part.numeric, start + part.size), range(-part.choices, 0)] = np.pi
            vectors = representatives(own, part)
            phases = vectors @ wave[start : start + part.size]
            damp = np.ones_like(phases)
            if isinstance(own, Bins):
                a = np.interp(own.edges, part.knots, part.places)
                k = len(own.special)
                half = np.diff(a)[:, None] / 2 * wave[start][None, :]
                damp[k : k + len(half)] = np.sinc(half / np.pi)
            radians.append(wave)
            cosines.append(shares @ (np.cos(phases) * damp))
            sines.append(shares @ (np.sin(phases) * damp))
            start += part.size
        if not radians:
            return np.zeros((width, 0)), (np.zeros((classes, 0)),) * 2
        return np.hstack(radians), (np.hstack(cosines), np.hstack(sines))


def given_label(labels, answer):
    result = []
    for part in answer.parts:
        table = part.value.reshape(labels.classes, -1)
        overall = proportions(table.sum(axis=0))
        sizes = np.maximum(labels.sizes, 0)
        moved = shrunk(table, sizes[:, None] * overall, answer.stddev)
        result.append(np.array([proportions(row) for row in moved]))
    return tuple(result)


def vector_columns(schema, cells, counted, labels):
    if not counted:
        return RowVectors.of(schema.features).columns
    return tuple(
        VectorColumn.ranked(column, own, labels.ratio @ shares) if isinstance(own, Bins) else VectorColumn.of(column)
        for column, own, shares in zip(schema.features, cells, counted, strict=True)
    )


def representatives(cells: Cells, column: VectorColumn) -> Floats:
    """Return the vector of each cell: of a bin, the place of its middle."""
    if isinstance(cells, Bins):
        places = np.interp(cells.edges, column.knots, column.places)
        middles = np.interp((places[:-1] + places[1:]) / 2, column.places, column.knots)
        values = np.concatenate([cells.special, middles, [np.nan] * cells.missing])
        return column.encode(values)
    return column.encode(cells.draw(np.arange(cells.size), np.random.default_rng(0)))


def scores(cells, columns):
    tables = (np.rint(representatives(own, part) * 2.0**SCORE_BITS).astype(np.int64) for own, part in zip(cells, columns, strict=True))
    return Scores(cells, tuple(tables))


def gates(columns):
    """Return for each number of a vector which other must be 1 for it to count: the ordinary indicator of a place."""
    width = sum(part.size for part in columns)
    matrix, start = np.zeros((width, width)), 0
    for part in columns:
        if part.numeric and part.choices:
            matrix[start + 1, start] = 1
        start += part.size
    return matrix


def mismatch(layers, key, radians, target, weights, classes, choices, gate, sizes):
    jax = load("jax"); jnp = load("jax.numpy")
    rows, latent, _ = sizes.shape
    keys = jax.random.split(key)
    z = jax.random.normal(keys[0], (2, len(classes), rows, latent))
    hot = jnp.broadcast_to(classes[None, :, None, :], (2, len(classes), rows, classes.shape[1]))
    raw = apply(layers, jnp.concatenate([z, hot], axis=-1).reshape(-1, latent + classes.shape[1]), jnp)
    if choices.shape[1]:
        gumbel = jax.random.gumbel(keys[1], raw.shape)
        raw = jnp.where(choices.sum(axis=1) > 0, (raw + gumbel) / 0.5, raw)
    drawn = activated(raw, choices, jnp)
    gated = gate.sum(axis=0) > 0
    drawn = jnp.where(gated, drawn * (drawn @ gate), drawn)
    phases = (drawn @ radians).reshape(2, len(classes), rows, -1)
    means = jnp.stack([jnp.cos(phases).mean(axis=2), jnp.sin(phases).mean(axis=2)])
    apart = means - target[:, None]
    return (apart[:, 0] * apart[:, 1] * weights).sum() / len(classes)
