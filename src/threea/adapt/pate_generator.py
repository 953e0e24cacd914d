"""The generator of PATE-GAN: a network of random numbers and the class, which answers a student taught by votes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from threea.adapt.generator_model import GeneratorModel, LabelShares
from threea.adapt.networks import LEAK, Layers, activated, members
from threea.adapt.pate import CountedVector, Generated, Teachers, student
from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Plan, Step
from threea.anonymize.query import Features, Grouped
from threea.approximate.denoise import proportions
from threea.approximate.feature import Feature
from threea.approximate.label_counts import CLASSES
from threea.approximate.tree_model import TreeModel
from threea.errors import SettingError
from threea.progress import tell
from threea.table.cells import Bins
from threea.table.row_vectors import RowVectors, VectorColumn
from threea.table.schema import Schema

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

VOTES = "votes"
"""The plan's line that pays for the teachers' votes."""
_SEED = 20_260_101
"""Of the rows that are voted on, which are made from noisy answers: any number will do."""
_GENERATED = 2048
"""Rows of each class that the generator's means are read off. Chosen."""
_SPREAD = 0.9
"""Slope of a place's random number: tanh of so many times a normal one is about evenly spread."""
_FURTHEST, _GRID, _NODES = 3.0, 121, 16
"""How far from 0 a place's output goes, on how many points it is sought, and by how many a mean is taken."""
_LEAST = 1e-4
"""A value that no row seems to have keeps this share, so that votes can bring it back. Chosen."""
_MATCHING = 10
"""How often the classes are brought back to the columns' histograms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PateGenerator:
    """Let teachers vote on generated rows, teach a student, and let the generator answer it; again every round.

    Args:
        teachers: How many there are at most.
        rows_per_teacher: How many rows each has, by the noisy count, if there are fewer teachers.
        rounds: How often they vote.
        inputs: On how many rows of each class, each time.
        weight: Of all votes together.

    Raises:
        SettingError: A setting is outside its bounds.
    """

    teachers: int
    rows_per_teacher: int
    rounds: int
    inputs: int
    weight: float

    def __post_init__(self) -> None:
        bounds = {"teachers": (1, 10_000), "rows_per_teacher": (1, 10_000), "rounds": (1, 100), "inputs": (2, 2000)}
        for name, (least, most) in bounds.items():
            value = getattr(self, name)
            if not (isinstance(value, int) and least <= value <= most):
                raise SettingError(f"{name} ({value}) must be a whole number from {least} to {most}")

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Vote once each round."""
        return (Step(name=VOTES, weight=self.weight, count=self.rounds),) if schema.features else ()

    def adapt(self, model: TreeModel, table: PrivateTable, plan: Plan) -> GeneratorModel:
        """Start from columns that depend neither on the class nor on one another; learn from votes what does.

        Cost:
            A `Gaussian` event for each round, over all votes of all teachers.
        """
        generator = Generator.start(model, table.schema)
        noise = dict(model.noise)
        rng = np.random.default_rng(_SEED)
        teachers = int(np.clip(model.sizes.sum() / self.rows_per_teacher, 1, self.teachers))
        for done in range(self.rounds if model.features else 0):
            tell("voting", done, self.rounds)
            generated = generator.generated(self.inputs, rng)
            answer = table.vote(
                _sums(generator),
                Teachers(generated),
                inputs=self.inputs,
                classes=2,
                parts=teachers,
                charge=plan[VOTES],
            )
            noise[VOTES] = answer.stddev
            weights = [
                student(votes, answer.stddev, inputs, rows, teachers)
                for votes, inputs, rows in zip(answer.value, generated, model.sizes, strict=True)
            ]
            generator = generator.answering(np.array(weights) * (generator.labels.ratio > 0)[:, None])
        return GeneratorModel(
            labels=generator.labels,
            columns=generator.vectors.columns,
            layers=generator.layers,
            latent=generator.places,
            histograms={name: held for name, held in model.histograms.items() if name in generator.vectors.names},
            noise=noise,
        )


@dataclass(frozen=True, slots=True)
class Generator:
    """A network with one hidden layer, whose last weights of a class are its outputs' means.

    Args:
        labels: The classes.
        vectors: What the outputs mean.
        outputs: For each class the mean outputs: of places before tanh, of choices before softmax.
        expected: The mean vector of all rows, by the noisy histograms.
    """

    labels: LabelShares
    vectors: RowVectors
    outputs: Floats
    expected: Floats

    @classmethod
    def start(cls, model: TreeModel, schema: Schema) -> Generator:
        """Return one that draws every column by its histogram."""
        overall = proportions(np.maximum(model.sizes, 0.0))
        columns = {feature.cells.column: (feature, overall @ feature.given) for feature in model.features}
        vectors = RowVectors(tuple(_vector(schema, *found) for found in columns.values()))
        shares = [_shares(part, *columns[part.column.name]) for part in vectors.columns]
        expected = np.concatenate(shares) if shares else np.zeros(0)
        choice = vectors.groups >= 0
        outputs = np.where(choice, np.log(np.maximum(expected, _LEAST)), 0.0)
        labels = LabelShares(model.label, model.spread, model.sizes, model.noise[CLASSES], model.row_counts)
        return cls(labels, vectors, np.tile(outputs, (labels.classes, 1)), expected)

    @property
    def places(self) -> int:
        """How many outputs are places, each with a random number of its own."""
        return int((self.vectors.groups < 0).sum())

    @property
    def layers(self) -> Layers:
        """The weights: a place's random number goes through two hidden units, a class through one."""
        place = np.flatnonzero(self.vectors.groups < 0)
        count, classes = len(place), self.labels.classes
        first = np.zeros((count + classes, 2 * count + classes), np.float32)
        first[:count, :count], first[:count, count : 2 * count] = np.eye(count), -np.eye(count)
        first[count:, 2 * count :] = np.eye(classes)
        last = np.zeros((2 * count + classes, self.vectors.width), np.float32)
        # Of the two hidden units of a number, one has it and the other its leak.
        last[np.arange(count), place] = _SPREAD / (1 + LEAK)
        last[np.arange(count) + count, place] = -_SPREAD / (1 + LEAK)
        last[2 * count :] = self.outputs
        return (first, np.zeros(first.shape[1], np.float32)), (last, np.zeros(last.shape[1], np.float32))

    def generated(self, inputs: int, rng: np.random.Generator) -> tuple[Generated, ...]:
        """Make rows of every class, and keep some of each to vote on."""
        classes = np.repeat(np.arange(self.labels.classes), max(_GENERATED, inputs))
        outputs = self.outputs[classes]
        outputs[:, self.vectors.groups < 0] += _SPREAD * rng.standard_normal((len(classes), self.places))
        chunk = self.vectors.decode(activated(outputs, members(self.vectors.groups)), rng)
        return tuple(Generated.of(own, inputs) for own in np.split(self.vectors.encode(chunk), self.labels.classes))

    def answering(self, weights: Floats) -> Generator:
        """Make the most of the student's log-odds, less the divergence from what was generated before.

        So a row becomes as much likelier as the student finds it real. For a linear student the best outputs are known:
        a choice's logits move by the weights, a place's output to where the sum of both is least. What all classes
        have together is then brought back to the columns' histograms.

        Args:
            weights: Of the student, for each class.
        """
        outputs = np.where(self.vectors.groups >= 0, self.outputs + weights, self._moved(weights))
        for _ in range(_MATCHING):
            outputs = outputs + self._missing(outputs)
        return replace(self, outputs=outputs)

    def _moved(self, weights: Floats) -> Floats:
        """Return the places' best outputs."""
        grid = np.linspace(-_FURTHEST, _FURTHEST, _GRID)
        gain = weights[:, :, None] * _mean_place(grid)
        loss = (grid - self.outputs[:, :, None]) ** 2 / (2 * _SPREAD**2)
        return np.asarray(grid[(gain - loss).argmax(axis=2)])

    def _missing(self, outputs: Floats) -> Floats:
        """Return what brings the mean over all classes nearer to the histograms."""
        choice = self.vectors.groups >= 0
        means = self.labels.ratio @ activated(outputs, members(self.vectors.groups))
        ratio = np.log(np.maximum(self.expected, _LEAST)) - np.log(np.maximum(means, _LEAST))
        return np.where(choice, ratio, -(self.labels.ratio @ outputs))


def _mean_place(output: Floats) -> Floats:
    """Return the mean of a place whose output has this mean."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    return np.asarray(np.tanh(output[:, None] + _SPREAD * nodes) @ weights / weights.sum())


def _vector(schema: Schema, feature: Feature, shares: Floats) -> VectorColumn:
    cells = feature.cells
    column = next(column for column in schema.modelled if column.name == cells.column)
    return VectorColumn.ranked(column, cells, shares) if isinstance(cells, Bins) else VectorColumn.of(column)


def _shares(part: VectorColumn, feature: Feature, shares: Floats) -> Floats:
    """Return a column's mean vector: a place in the middle, and the share of each choice."""
    if not isinstance(feature.cells, Bins):
        return shares
    special = len(feature.cells.special)
    apart = np.concatenate([shares[:special], shares[len(shares) - feature.cells.missing :]])
    return np.concatenate([[0.0], [1 - apart.sum()], apart]) if part.choices else np.zeros(1)


def _sums(generator: Generator) -> Features | Grouped:
    """Return what teachers learn from: how many rows of each class, and the sum of their vectors."""
    vectors = generator.vectors
    # A vector has a 1, places from -1 to 1, and one indicator of each choice.
    longest = math.sqrt(1 + sum(part.numeric + (part.choices > 0) for part in vectors.columns))
    counted = Features(function=CountedVector(vectors), columns=vectors.names, shape=(1 + vectors.width,), l2=longest)
    return Grouped(generator.labels.label, counted) if generator.labels.label else counted
