"""P(y) and P(feature | y) from noisy counts: features are independent given the label."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Plan, Step
from threea.anonymize.query import Answer, Marginal, Stack
from threea.approximate.conditioning import posterior
from threea.approximate.denoise import draw, proportions, with_missing, without_phantoms
from threea.approximate.label_counts import existing
from threea.model_summary import Histogram, ModelSummary
from threea.table.cells import Cells
from threea.table.conditions import Given, draw_fitting, fitting
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
    def summary(self) -> ModelSummary:
        """The noisy counts; every number in the one answer is as noisy."""
        return ModelSummary(
            private_rows=self.rows,
            private_rows_stddev=self.class_stddev * math.sqrt(len(self.classes)),
            histograms=self.histograms,
            noise={HISTOGRAMS: self.stddev},
        )

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

    def sample(self, rows: int, rng: np.random.Generator, given: Given | None = None) -> Chunk:
        """Draw labels, of classes that noise alone does not explain, then every feature given its label.

        Conditions hold exactly: labels are drawn by Bayes' rule, features from what fits.
        """
        conditions, label = given or {}, self.label
        classes = proportions(existing(label, self.classes, self.class_stddev))
        tables = [
            self._fitting(cells, table, conditions) for cells, table in zip(self.features, self.tables, strict=True)
        ]
        if given:
            own = fitting(label, conditions.get(label.column)) if label else np.ones(1)
            classes = posterior(classes, (own, *(table.sum(axis=1) for table in tables)), given)
        group = draw(classes[None, :], np.zeros(rows, np.int64), rng)
        chunk: Chunk = {}
        if label:
            chunk[label.column] = draw_fitting(label, group, rng, conditions.get(label.column))
        for cells, table in zip(self.features, tables, strict=True):
            chunk[cells.column] = draw_fitting(cells, draw(table, group, rng), rng, conditions.get(cells.column))
        return chunk

    def _fitting(self, cells: Cells, counts: Counts, given: Given) -> Counts:
        """Return the share of each class's rows that lie in a cell and fit."""
        told = without_phantoms(cells, counts, self.rows, self.stddev)
        shares = with_missing(cells, np.array([proportions(row) for row in told]), self.rows, self.stddev)
        return shares * fitting(cells, given.get(cells.column))
