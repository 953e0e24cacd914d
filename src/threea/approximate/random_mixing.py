"""Random mixing: each synthetic row is the mean of a few rows, drawn at random, plus noise.

Every answer is a count and a sum of vectors, per class, over a fresh Poisson sample of the rows. A number counts by its
place between its bounds, from -1 to 1, and so does the code of a listed value; special and missing values have numbers
of their own, whose means are shares. So a column adds at most 1 to the length of a row's vector, squared. All that
follows the answers is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.door import PrivateTable
from threea.anonymize.events import Sampled
from threea.anonymize.plan import Plan, Step
from threea.anonymize.query import Features, Grouped
from threea.approximate.points import Points
from threea.errors import SettingError
from threea.table.cells import Cells
from threea.table.schema import Chunk, Column, Schema

Floats = NDArray[np.float64]

MIXTURES = "mixtures"


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomMixing:
    """Means of random rows, within each class of a listed target.

    Args:
        points: How many mixtures of each class.
        rate: Probability with which a row is in a mixture.

    Raises:
        SettingError: A setting is outside its bounds.

    Reference:
        Lee et al. 2019, Synthesizing differentially private datasets using random mixing.
    """

    points: int = 100
    rate: float = 0.005

    def __post_init__(self) -> None:
        if not (isinstance(self.points, int) and 1 <= self.points <= 100_000):
            raise SettingError(f"points ({self.points}) must be a whole number from 1 to 100000")
        if not 1e-6 <= self.rate <= 1:
            raise SettingError(f"rate ({self.rate}) must be from 1e-06 to 1")

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Ask as often as there are points, each time of another sample."""
        return (Step(name=MIXTURES, weight=1.0, kind=Sampled, count=self.points, rate=self.rate),)

    def fit(self, table: PrivateTable, plan: Plan) -> Points:
        """Sum over sample after sample, and divide."""
        schema = table.schema
        label = schema[schema.target] if schema.target and schema[schema.target].kind.listed else None
        coordinates = tuple(Coordinates(column) for column in schema.modelled if column is not label)
        query = Features(
            function=RowVectors(coordinates),
            columns=tuple(column.name for column in schema.modelled),
            shape=(1 + sum(column.size for column in coordinates),),
            l2=math.sqrt(1 + len(coordinates)),
        )
        sampled, classes = table.sampled(self.rate), label.cells(1) if label else None
        asked = Grouped(classes, query) if classes else query
        answers = [sampled.measure(asked, plan[MIXTURES]) for _ in range(self.points)]
        sums = np.array([answer.value.reshape(-1, query.size) for answer in answers])
        return mixed(classes, coordinates, sums, answers[0].stddev)


@dataclass(frozen=True, slots=True)
class Coordinates:
    """A column's part of a row's vector: its place between the bounds, or else 1 for a special or a missing value."""

    column: Column

    @property
    def size(self) -> int:
        """How many numbers."""
        return 1 + len(self.column.special) + self.column.nullable

    @property
    def bounds(self) -> tuple[float, float]:
        """The column's own, or the first and the last code of its listed values."""
        if self.column.kind.listed:
            return 0.0, max(len(self.column.categories) + self.column.open_ended - 1.0, 0.0)
        assert self.column.lower is not None
        assert self.column.upper is not None
        return self.column.lower, self.column.upper

    def vectors(self, values: Floats) -> Floats:
        """Return one vector per row, of length at most 1."""
        absent = values < 0 if self.column.kind.listed else np.isnan(values)
        apart = [values == special for special in self.column.special] + [absent] * self.column.nullable
        known = np.clip(np.where(absent, self.bounds[0], values), *self.bounds)
        lower, upper = self._scale(np.array(self.bounds))
        place = 2 * (self._scale(known) - lower) / max(upper - lower, 1e-300) - 1
        return np.column_stack([np.where(np.any([absent, *apart], axis=0), 0.0, place), *apart])

    def draw(self, means: Floats, rng: np.random.Generator) -> NDArray[np.float64] | NDArray[np.int64]:
        """Return a value for each mean vector: special or missing as often as it says, the mean place otherwise."""
        apart = np.clip(means[:, 1:], 0.0, 1.0)
        apart /= np.maximum(apart.sum(axis=1, keepdims=True), 1.0)
        rest = 1 - apart.sum(axis=1)
        lower, upper = self._scale(np.array(self.bounds))
        values = lower + (upper - lower) * (np.clip(means[:, 0] / np.maximum(rest, 1e-9), -1.0, 1.0) + 1) / 2
        values = np.exp(values) if self.column.log else values
        values = np.clip(np.round(values) if self.column.whole or self.column.kind.listed else values, *self.bounds)
        which = (rng.random(len(means))[:, None] >= np.cumsum(np.column_stack([rest, apart]), axis=1)).sum(axis=1)
        nothing = -1.0 if self.column.kind.listed else np.nan
        choices = np.column_stack([values, *(np.full(len(means), value) for value in (*self.column.special, nothing))])
        drawn: Floats = choices[np.arange(len(means)), np.minimum(which, self.size - 1)]
        return drawn.astype(np.int64) if self.column.kind.listed else drawn

    def _scale(self, values: Floats) -> Floats:
        return np.log(values) if self.column.log else values


@dataclass(frozen=True, slots=True)
class RowVectors:
    """A row as a vector: 1, to be counted, and its columns' coordinates. A function of each row alone."""

    coordinates: tuple[Coordinates, ...]

    def __call__(self, chunk: Chunk) -> Floats:
        """Return one vector per row."""
        ones = np.ones((len(next(iter(chunk.values()))), 1))
        return np.hstack([ones, *(column.vectors(chunk[column.column.name]) for column in self.coordinates)])


def mixed(classes: Cells | None, coordinates: tuple[Coordinates, ...], sums: Floats, stddev: float) -> Points:
    """Divide sums by counts, and draw a row from each mean; a class that is no more than noise has none.

    Args:
        classes: The target's classes, if there are any.
        coordinates: The columns' parts of a vector.
        sums: Count and sums, for each sample and class.
        stddev: Of the noise on each of them.
    """
    average = sums[:, :, 0].mean(axis=0)
    seen = average > 3 * stddev / math.sqrt(len(sums))
    listed = np.ones_like(seen)
    # Where all drowns in noise, the listed classes are drawn, if there are any.
    listed[list(classes.unlisted) if classes and len(classes.unlisted) < classes.size else []] = False
    kept = np.flatnonzero(seen if seen.any() else listed)
    average = np.maximum(average[kept], 1.0)
    # A sample's size varies as Poisson's does; what its noisy count says beyond that is noise.
    sizes = average + average / (average + stddev**2) * (sums[:, kept, 0] - average)
    means = (sums[:, kept, 1:] / np.maximum(sizes, average / 2)[:, :, None]).reshape(len(sums) * len(kept), -1)
    # Post-processing, the same each time: the rows are a set and not a distribution.
    rng, start = np.random.default_rng(0), 0
    chunk: Chunk = {}
    for column in coordinates:
        chunk[column.column.name] = column.draw(means[:, start : start + column.size], rng)
        start += column.size
    shares: dict[int, tuple[float, float]] = {}
    if classes:
        codes = classes.draw(kept, rng)
        chunk[classes.column] = np.tile(codes, len(sums))
        # Where all drowns in noise, or there is one class only, there is no ratio to tell of.
        if seen.sum() > 1:
            private = (average / average.sum()).tolist()
            shares = {int(code): (1 / len(kept), share) for code, share in zip(codes, private, strict=True)}
    return Points(chunk, noise={MIXTURES: stddev}, class_shares=shares)
