"""A tree of features given the label: how rows are drawn from it, with and without conditions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from threea.approximate.conditioning import distributions, posterior
from threea.approximate.denoise import draw, proportions
from threea.approximate.feature import Feature
from threea.approximate.label_counts import CLASSES, RARE, RARE_CELLS, RARE_OF_MANY, RowCounts, balanced
from threea.model_summary import Histogram, ModelSummary, TreeFigure
from threea.table.cells import Merged
from threea.table.conditions import Given, draw_fitting, fitting
from threea.table.schema import Chunk

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Table = tuple[int, int | None, Floats]
"""A feature, its parent, and its weights by class and parent's merged cell."""


@dataclass(frozen=True, slots=True)
class Edge:
    """Two features that depend on one another given the label.

    Args:
        parent: Position of one.
        child: Position of the other.
        joint: Their distribution over merged cells, in each class.
    """

    parent: int
    child: int
    joint: Floats
    gap: float
    """How many rows more or less there are than if they did not depend on one another."""


@dataclass(frozen=True)
class TreeModel:
    """The label, then the features from the tree's roots down.

    Args:
        label: The classes: the label's cells, or ranges of it; None without a target.
        spread: The label's distribution over its cells, in each class.
        sizes: Noisy number of rows per class.
        features: In the order of the table.
        edges: The tree.
        stddev: Of the noise on the features' counts.
        noise: Of every answer, by the plan's line.
        by_class: Whether pairs were counted by class; if not, what ties them is the same in each.
        answered: How many rows there are, and how many by the label's cells, as they were counted.
    """

    label: Merged | None
    spread: Floats
    sizes: Floats
    features: tuple[Feature, ...]
    edges: tuple[Edge, ...]
    stddev: float
    noise: Mapping[str, float] = field(default_factory=dict)
    by_class: bool = True
    answered: RowCounts | None = None

    @property
    def row_counts(self) -> RowCounts:
        """How many rows there are, and how many by the label's cells."""
        stddev = self.noise.get(CLASSES, self.stddev)
        return self.answered or RowCounts.told_by(self.label, self.spread, self.sizes, stddev)

    @property
    def summary(self) -> ModelSummary:
        """All that the answers tell."""
        counts = self.row_counts
        return ModelSummary(
            private_rows=max(round(counts.rows), 0),
            private_rows_stddev=counts.rows_stddev,
            histograms=self.histograms,
            figures=self.figures,
            noise=self.noise,
        )

    @property
    def ratio(self) -> Floats:
        """Share of each class in what is drawn: the private one, as far as noisy counts tell it."""
        return proportions(np.maximum(self.sizes, 0.0))

    @property
    def balanced(self) -> Floats:
        """Rows per class; of listed ones, none counted as more than a multiple of the rarest that stands out."""
        many = np.count_nonzero(self.sizes > 0) > 2
        return balanced(self.label, self.sizes, self.stddev, RARE_OF_MANY if many else RARE)

    @property
    def effective_rows(self) -> float:
        """How many rows there are, counted so."""
        return max(float(self.balanced.sum()), 1.0)

    @property
    def informative_rows(self) -> float:
        """How many rows there are for cells to stand out by."""
        return max(float(balanced(self.label, self.sizes, self.stddev, RARE_CELLS).sum()), 1.0)

    @property
    def weights(self) -> Floats:
        """Share of each class, counted so."""
        return np.asarray(self.balanced / self.balanced.sum())

    @property
    def histograms(self) -> Mapping[str, Histogram]:
        """The noisy counts, summed over the classes."""
        wide = math.sqrt(len(self.sizes))
        histograms = {f.cells.column: Histogram(f.cells, f.counts.sum(axis=0), f.stddev * wide) for f in self.features}
        return {**histograms, **self.row_counts.histograms}

    @property
    def figures(self) -> tuple[TreeFigure, ...]:
        """The tree, from the roots down."""
        if not self.edges:
            return ()
        order = {feature: position for position, (feature, _, _) in enumerate(self._downwards)}
        gaps = {
            pair: edge.gap for edge in self.edges for pair in ((edge.parent, edge.child), (edge.child, edge.parent))
        }
        # A row too many in one cell is a row too few in another: half of the gap.
        rows = 2 * max(float(self.sizes.sum()), 1.0)
        return (
            TreeFigure(
                nodes=tuple(self.features[feature].cells.column for feature in order),
                parents=tuple(None if parent is None else order[parent] for _, parent, _ in self._downwards),
                strengths=tuple(
                    0.0 if parent is None else gaps[feature, parent] / rows for feature, parent, _ in self._downwards
                ),
            ),
        )

    def sample(self, rows: int, rng: np.random.Generator, given: Given | None = None) -> Chunk:
        """Draw labels, then every feature given its parent and the label; conditions hold exactly."""
        group, codes = self.draw(rows, rng, given)
        return self.decoded(group, codes, rng, given)

    def draw(self, rows: int, rng: np.random.Generator, given: Given | None = None) -> tuple[Whole, list[Whole]]:
        """Draw classes, and the features' fine cells."""
        group, coarse = self.draw_merged(rows, rng, given)
        return group, self.refined(group, coarse, rng, given)

    def draw_balanced(self, rows: int, rng: np.random.Generator) -> tuple[Whole, list[Whole]]:
        """Draw rows with rare classes more often than they occur, for a teacher to learn from."""
        group = draw(proportions(self.balanced)[None, :], np.zeros(rows, np.int64), rng)
        return group, self.refined(group, self._draw_features(group, self._downwards, rng), rng)

    def draw_merged(self, rows: int, rng: np.random.Generator, given: Given | None = None) -> tuple[Whole, list[Whole]]:
        """Draw classes, and the features' merged cells."""
        classes, tables = self.conditioned(given) if given else (self.ratio, self._downwards)
        group = draw(classes[None, :], np.zeros(rows, np.int64), rng)
        return group, self._draw_features(group, tables, rng)

    def _draw_features(self, group: Whole, tables: Sequence[Table], rng: np.random.Generator) -> list[Whole]:
        """Draw the features' merged cells, parents first."""
        coarse: dict[int, Whole] = {}
        for feature, parent, table in tables:
            if parent is None:
                coarse[feature] = draw(table, group, rng)
            else:
                coarse[feature] = draw(table, group * self.features[parent].merged.size + coarse[parent], rng)
        return [coarse[index] for index in range(len(self.features))]

    def refined(
        self, group: Whole, coarse: Sequence[Whole], rng: np.random.Generator, given: Given | None = None
    ) -> list[Whole]:
        """Draw the features' fine cells, given class and merged cells."""
        shares = self._fitting(given) if given else [None] * len(self.features)
        return [
            f.refined(merged, group, rng, fit) for f, merged, fit in zip(self.features, coarse, shares, strict=True)
        ]

    def decoded(
        self, group: Whole, codes: Sequence[Whole], rng: np.random.Generator, given: Given | None = None
    ) -> Chunk:
        """Return rows of these classes and cells: a value from each."""
        conditions, chunk = given or {}, Chunk()
        if self.label:
            condition = conditions.get(self.label.column)
            spread = self.spread * fitting(self.label.cells, condition)
            chunk[self.label.column] = draw_fitting(self.label.cells, draw(spread, group, rng), rng, condition)
        for feature, code in zip(self.features, codes, strict=True):
            column = feature.cells.column
            chunk[column] = draw_fitting(feature.cells, code, rng, conditions.get(column))
        return chunk

    def conditioned(self, given: Given) -> tuple[Floats, list[Table]]:
        """Return the classes and, parents first, the features' tables, given conditions on any columns: exact.

        Message passing (Pearl 1988): from the leaves up, a feature tells its parent how likely what is asked of it and
        of all below is in each of the parent's cells; the roots tell the classes.

        Raises:
            SettingError: Nothing fits.
        """
        likelihoods = self.likelihoods(given)
        told: list[Floats] = [self.label_likelihood(given)]
        tables: list[Table] = []
        for index, parent, table in reversed(self._downwards):
            classes, cells = likelihoods[index].shape
            weights = distributions(table).reshape(classes, -1, cells) * likelihoods[index][:, None, :]
            tables.append((index, parent, weights.reshape(-1, cells)))
            if parent is None:
                told.append(weights.sum(axis=(1, 2)))
            else:
                likelihoods[parent] = likelihoods[parent] * weights.sum(axis=2)
        return posterior(self.ratio, told, given), tables[::-1]

    def class_probabilities(self, coarse: Sequence[Whole], given: Given) -> Floats:
        """Return how likely each class is for rows in these merged cells, given conditions on features."""
        likelihoods = self.likelihoods(given)
        with np.errstate(divide="ignore"):
            logs = np.log(self.ratio)[:, None] + np.zeros(len(coarse[0]))
            for index, parent, table in self._downwards:
                classes, cells = likelihoods[index].shape
                weights = distributions(table).reshape(classes, -1, cells) * likelihoods[index][:, None, :]
                logs += np.log(weights)[:, 0 if parent is None else coarse[parent], coarse[index]]
        powers = np.exp(logs - logs.max(axis=0))
        return np.asarray(powers / powers.sum(axis=0))

    def likelihoods(self, given: Given) -> list[Floats]:
        """Return for each feature how likely it fits, by class and merged cell."""
        return [feature.likelihood(fit) for feature, fit in zip(self.features, self._fitting(given), strict=True)]

    def label_likelihood(self, given: Given) -> Floats:
        """Return how likely the label of each class fits."""
        if self.label is None:
            return np.ones(len(self.sizes))
        return np.asarray(self.spread @ fitting(self.label.cells, given.get(self.label.column)))

    def _fitting(self, given: Given) -> list[Floats]:
        return [fitting(feature.cells, given.get(feature.cells.column)) for feature in self.features]

    @cached_property
    def _downwards(self) -> list[Table]:
        """Return the features, parents first, each with its distribution by class and parent's merged cell."""
        beside: dict[int, list[tuple[int, Floats]]] = {i: [] for i in range(len(self.features))}
        for edge in self.edges:
            beside[edge.parent].append((edge.child, edge.joint))
            beside[edge.child].append((edge.parent, edge.joint.transpose(0, 2, 1)))
        order: list[Table] = []
        seen: set[int] = set()
        for root in range(len(self.features)):
            waiting: list[Table] = [(root, None, self.features[root].coarse)]
            while waiting:
                feature, parent, given = waiting.pop()
                if feature in seen:
                    continue
                seen.add(feature)
                order.append((feature, parent, given.reshape(-1, given.shape[-1])))
                waiting += [(child, feature, joint) for child, joint in beside[feature] if child not in seen]
        return order
