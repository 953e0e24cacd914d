"""P(y) and P(feature | y) from noisy counts: features are independent given the label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Plan, Step
from threea.anonymize.query import Answer, Marginal, Stack
from threea.approximate.denoise import draw, proportions, with_missing
from threea.approximate.label_counts import existing
from threea.model_summary import Histogram
from threea.table.cells import Cells
from threea.table.schema import Chunk, Schema

Counts = NDArray[np.float64]

HISTOGRAMS = "histograms given the label"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelHistograms:
    """Histograms of every feature within each class of the target.

    Args:
        bins: How many bins numeric columns are cut into.
    """

    bins: int = 32

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Ask one stack of marginals."""
        return (Step(name=HISTOGRAMS, weight=1.0),)

    def fit(self, table: PrivateTable, plan: Plan) -> HistogramModel:
        """Count every feature with the label, in one pass over the rows."""
        schema = table.schema
        label = schema[schema.target].cells(self.bins) if schema.target else None
        features = tuple(column.cells(self.bins) for column in schema.features)
        given = (label,) if label else ()
        joint = tuple(Marginal((*given, cells)) for cells in features) or (Marginal(given),)
        answer = table.measure(Stack(joint), plan[HISTOGRAMS])
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
        tables = tuple(part.value.reshape(label.size if label else 1, -1) for part in answer.parts)
        # Every marginal tells the number of rows per class; wider ones with more noise.
        totals = np.array([table.sum(axis=1) for table in tables])
        precision = 1.0 / np.array([table.shape[1] for table in tables])
        classes = (precision[:, None] * totals).sum(axis=0) / precision.sum()
        return cls(label, classes, features, tables[: len(features)], answer.stddev)

    @property
    def rows(self) -> int:
        """The noisy number of private rows."""
        return max(round(float(self.classes.sum())), 0)

    @property
    def class_stddev(self) -> float:
        """The noise on the number of rows per class, which every table tells; without any it was counted alone."""
        precision = sum(1 / table.shape[1] for table in self.tables) or 1.0
        return float(self.stddev / np.sqrt(precision))

    @property
    def histograms(self) -> Mapping[str, Histogram]:
        """The noisy counts, summed over the classes."""
        histograms = {
            cells.column: Histogram(cells, table.sum(axis=0), self.stddev * np.sqrt(len(table)))
            for cells, table in zip(self.features, self.tables, strict=True)
        }
        if self.label:
            histograms[self.label.column] = Histogram(self.label, self.classes, self.class_stddev)
        return histograms

    @property
    def noise(self) -> Mapping[str, float]:
        """Of the one answer, by the plan's line."""
        return {HISTOGRAMS: self.stddev}

    def sample(self, rows: int, rng: np.random.Generator) -> Chunk:
        """Draw labels, of classes that noise alone does not explain, then every feature given its label."""
        classes = proportions(existing(self.label, self.classes, self.class_stddev))
        group = draw(classes[None, :], np.zeros(rows, np.int64), rng)
        chunk: Chunk = {self.label.column: self.label.draw(group, rng)} if self.label else {}
        for cells, table in zip(self.features, self.tables, strict=True):
            given = with_missing(cells, np.array([proportions(row) for row in table]), self.rows, self.stddev)
            chunk[cells.column] = cells.draw(draw(given, group, rng), rng)
        return chunk
