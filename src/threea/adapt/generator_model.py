"""A trained generator as a model: plain arrays, from which rows are drawn in NumPy alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from threea.adapt.networks import activated, apply, members
from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Plan
from threea.approximate.conditioning import posterior, resampled
from threea.approximate.denoise import draw, proportions
from threea.approximate.label_counts import RowCounts, counted_label, existing
from threea.errors import SettingError
from threea.model_summary import CurveFigure, Histogram, ModelSummary
from threea.table.cells import Merged
from threea.table.conditions import Given, draw_fitting, fits, fitting
from threea.table.row_vectors import RowVectors, VectorColumn
from threea.table.schema import Chunk

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

BLOCK = 2048
"""Rows are drawn in blocks of so many, always: a matrix product's last bits may depend on how many there are."""
_MOST_DRAWS = 50
"""Rows drawn at most for each one wanted that fits a condition on a feature. Chosen."""


@dataclass(frozen=True, slots=True)
class LabelShares:
    """How many rows are of which class, by noisy counts, and which values a class has.

    Args:
        label: The target's cells: a class each, or ranges of a number; None without a target.
        spread: For each class, how its rows spread over the target's own cells.
        sizes: Noisy number of rows per class.
        stddev: Of the noise on a count.
        answered: How many rows there are, and how many by the target's cells, as they were counted.
    """

    label: Merged | None
    spread: Floats
    sizes: Floats
    stddev: float
    answered: RowCounts | None = None

    @classmethod
    def counted(cls, table: PrivateTable, plan: Plan) -> LabelShares:
        """Count the rows per class through the private table, for the plan's line `label_counts.CLASSES`."""
        found = counted_label(table, plan)
        return cls(found.label, found.spread, found.sizes, found.stddev, found.combined()[1])

    def encode(self, chunk: Chunk, rows: int) -> Floats:
        """Return the class's indicators of encoded rows, all 0 in one that has none; 1 for all without a target."""
        if self.label is None:
            return np.ones((rows, 1))
        return np.equal.outer(self.label.index(chunk[self.label.column]), np.arange(self.classes)) * 1.0

    @property
    def classes(self) -> int:
        """How many there are; 1 without a target."""
        return len(self.sizes)

    @property
    def ratio(self) -> Floats:
        """Share of each class in what is drawn: none of those that noise alone explains."""
        sizes = existing(self.label.cells if self.label else None, np.maximum(self.sizes, 0.0), self.stddev)
        return proportions(sizes)

    @property
    def row_counts(self) -> RowCounts:
        """How many rows there are, and how many by the label's cells."""
        return self.answered or RowCounts.told_by(self.label, self.spread, self.sizes, self.stddev)

    def given(self, given: Given) -> Floats:
        """Return the classes' shares among rows whose label fits.

        Raises:
            SettingError: None fits.
        """
        condition = given.get(self.label.column) if self.label else None
        if self.label is None or condition is None:
            return self.ratio
        own = self.spread @ fitting(self.label.cells, condition)
        # A class that noise alone explains is never drawn, unless it is asked for.
        ratio = self.ratio if (self.ratio * own).any() else np.full(self.classes, 1 / self.classes)
        return posterior(ratio, (own,), given)

    def values(self, group: Whole, rng: np.random.Generator, given: Given) -> Chunk:
        """Return the target's values in rows of these classes; nothing without a target."""
        if self.label is None:
            return {}
        condition = given.get(self.label.column)
        spread = self.spread * fitting(self.label.cells, condition)
        return {self.label.column: draw_fitting(self.label.cells, draw(spread, group, rng), rng, condition)}


@dataclass(frozen=True, slots=True)
class GeneratorModel:
    """Rows made by a network of random numbers and the class.

    Guarantees:
        - Sampling needs NumPy alone, and follows from the generator's state: fewer rows are the first of more.

    Args:
        labels: The classes.
        columns: How the features are vectors.
        layers: Weights and biases of every layer; the input is `latent` normal numbers and the class's indicators.
        latent: How many numbers are drawn for a row.
        histograms: Noisy counts of features, if there are any.
        noise: Of every answer, by the plan's line.
        curves: The loss on the way, by what was trained.
    """

    labels: LabelShares
    columns: tuple[VectorColumn, ...]
    layers: tuple[tuple[NDArray[np.float32], NDArray[np.float32]], ...]
    latent: int
    histograms: Mapping[str, Histogram] = field(default_factory=dict)
    noise: Mapping[str, float] = field(default_factory=dict)
    curves: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.columns and self.latent + self.labels.classes != len(self.layers[0][0]):
            raise SettingError(f"latent ({self.latent}) and the classes must be what the first layer takes")

    @property
    def summary(self) -> ModelSummary:
        """The noisy counts, and how training went."""
        counts = self.labels.row_counts
        return ModelSummary(
            private_rows=max(round(counts.rows), 0),
            private_rows_stddev=counts.rows_stddev,
            histograms={**self.histograms, **counts.histograms},
            figures=tuple(CurveFigure(name, losses) for name, losses in self.curves.items() if losses),
            noise=self.noise,
        )

    def sample(self, rows: int, rng: np.random.Generator, given: Given | None = None) -> Chunk:
        """Draw classes in their noisy proportions, then random numbers, and let the network make rows of them.

        A condition on the label holds exactly. For one on a feature, rows are drawn until enough fit, at most
        `_MOST_DRAWS` for each wanted; if fewer fit, they are repeated about equally often.

        Raises:
            SettingError: None fits.
        """
        conditions = given or {}
        target = self.labels.label.column if self.labels.label else None
        features = {name: condition for name, condition in conditions.items() if name != target}
        kept: list[Chunk] = []
        found = drawn = 0
        while not kept or (found < rows and drawn < _MOST_DRAWS * max(rows, BLOCK)):
            block = self._block(rng, conditions)
            if features:
                fitting_rows = fits(block, features)
                block = {name: values[fitting_rows] for name, values in block.items()}
            kept.append(block)
            found, drawn = found + len(next(iter(block.values()))), drawn + BLOCK
        chosen = np.arange(rows) if found >= rows else resampled(np.ones(found), rows, rng, conditions)
        return {name: np.concatenate([block[name] for block in kept])[chosen] for name in kept[0]}

    def _block(self, rng: np.random.Generator, given: Given) -> Chunk:
        # Evenly spread draws: the classes' numbers differ from their expectations by less than 1.
        shares = self.labels.given(given)
        even = (np.arange(BLOCK) + rng.random()) / BLOCK
        group = rng.permutation(np.searchsorted(np.cumsum(shares), even, side="right"))
        group = group.clip(max=np.flatnonzero(shares)[-1])
        chunk = self.labels.values(group, rng, given)
        vectors = RowVectors(self.columns)
        if self.columns:
            latent = rng.standard_normal((BLOCK, self.latent))
            outputs = apply(self.layers, np.hstack([latent, np.eye(self.labels.classes)[group]]))
            chunk |= vectors.decode(activated(outputs, members(vectors.groups)), rng)
        return chunk
