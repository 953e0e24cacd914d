"""P(y) and P(feature | y) from noisy counts: features are independent given the label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.accountant import Plan, Step
from threea.anonymize.door import PrivateTable
from threea.anonymize.query import Answer, Marginal, Stack
from threea.cells import Categories, Cells
from threea.framework import Histogram
from threea.schema import Chunk, Schema

Counts = NDArray[np.float64]

_EVERYTHING = Categories(column="", count=1, missing=False)
"""The one class of a table without a target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelHistograms:
    """Histograms of every feature within each class of the target.

    Args:
        bins: How many bins numeric columns are cut into.
    """

    bins: int = 32

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Ask one stack of marginals."""
        return (Step(name="histograms given the label", weight=1.0),)

    def fit(self, table: PrivateTable, plan: Plan) -> HistogramModel:
        """Count every feature with the label, in one pass over the rows."""
        schema = table.schema
        label = schema[schema.target].cells(self.bins) if schema.target else None
        features = tuple(column.cells(self.bins) for column in schema.features)
        joint = tuple(Marginal((label, cells) if label else (cells,)) for cells in features)
        answer = table.measure(Stack(joint or (Marginal((label,)),)), plan["histograms given the label"])
        return HistogramModel.of(label, features, answer)


@dataclass(frozen=True, slots=True)
class HistogramModel:
    """The label, then each feature given the label."""

    label: Cells | None
    classes: Counts
    """Noisy number of rows per class."""
    features: tuple[Cells, ...]
    tables: tuple[Counts, ...]
    """Noisy counts per class and cell."""
    stddev: float

    @classmethod
    def of(cls, label: Cells | None, features: tuple[Cells, ...], answer: Answer) -> HistogramModel:
        """Read a model off the answer to a stack of (label, feature) marginals."""
        classes = label.size if label else 1
        tables = tuple(part.value.reshape(classes, -1) for part in answer.parts)
        # Every marginal tells the number of rows per class; wider ones with more noise.
        totals = np.array([table.sum(axis=1) for table in tables])
        precision = 1.0 / np.array([table.shape[1] for table in tables])
        return cls(label, (precision[:, None] * totals).sum(axis=0) / precision.sum(), features, tables if features else (), answer.stddev)

    @property
    def rows(self) -> int:
        """The noisy number of private rows."""
        return max(round(float(self.classes.sum())), 0)

    @property
    def histograms(self) -> Mapping[str, Histogram]:
        """The noisy counts, summed over the classes."""
        found = {
            cells.column: Histogram(cells, table.sum(axis=0), self.stddev * np.sqrt(len(table)))
            for cells, table in zip(self.features, self.tables, strict=True)
        }
        if self.label:
            width = min((table.shape[1] for table in self.tables), default=1)
            found[self.label.column] = Histogram(self.label, self.classes, self.stddev * np.sqrt(width))
        return found

    def sample(self, rows: int, rng: np.random.Generator) -> Chunk:
        """Draw labels, then every feature given its label."""
        group = draw(self.classes[None, :], np.zeros(rows, np.int64), rng)
        chunk: Chunk = {self.label.column: self.label.draw(group, rng)} if self.label else {}
        for cells, table in zip(self.features, self.tables, strict=True):
            chunk[cells.column] = cells.draw(draw(table, group, rng), rng)
        return chunk


def draw(counts: Counts, group: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw a cell for each entry of `group`, by the noisy counts in that row of `counts`; negative ones count as 0."""
    weights = np.maximum(counts, 0.0)
    weights[weights.sum(axis=1) == 0] = 1.0
    cumulative = np.cumsum(weights, axis=1) / weights.sum(axis=1, keepdims=True)
    cells = np.empty(len(group), np.int64)
    for row in np.unique(group):
        members = group == row
        cells[members] = np.searchsorted(cumulative[row], rng.random(int(members.sum())), side="right")
    return np.minimum(cells, counts.shape[1] - 1)
