"""Approximate: the label, every feature given the label, and a tree of features each given its parent and the label.

Reference:
    Chow and Liu 1968 (trees); McKenna, Miklau and Sheldon 2021 (MST: choosing them privately).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.door import PrivateTable
from threea.anonymize.events import Pure
from threea.anonymize.plan import Plan, Step
from threea.anonymize.query import Marginal, Stack
from threea.anonymize.selection import QualityScores
from threea.approximate.denoise import draw, fitted, proportions
from threea.approximate.feature import Feature, fine_cells
from threea.approximate.label_counts import CLASSES, RARE, RARE_CELLS, balanced, combined, counted_label, counted_stddev
from threea.model_summary import Histogram, TreeFigure
from threea.table.cells import Bins, Merged
from threea.table.schema import Chunk, Schema

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

FEATURES, EDGES, PAIRS = "features given the label", "tree edges", "pairs given the label"
_MOST_PAIR_CELLS = 1 << 24
_FEWEST_PAIR_CELLS = 6
"""With fewer cells a feature, pairs tell too little for what they cost."""
_AGAIN, _FEWEST_AGAIN, _CELLS_AGAIN = 8.0, 16, 6
"""Then features so many standard deviations clear of noise, and at least so many, are looked at again, in so many cells
each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelAugmentedTree:
    """A tree over the features, chosen privately, in which every clique holds the label.

    Args:
        pairs: Share of this stage's budget for the pairs along the tree, and the choice of it; the rest goes to the
            features one by one. Where there are too few rows for pairs, their share buys a second look at the features
            that tell most.
        most: How many times as many rows as of the rarest class there may be of another; infinite to draw all as they
            occur.
    """

    pairs: float = 0.55
    most: float = RARE

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Count the classes, each feature by class, and the tree's pairs by class."""
        edges = len(schema.features) - 1
        first = (Step(name=CLASSES, weight=0.02), Step(name=FEATURES, weight=0.98 - self.pairs))
        if edges < 1:
            return first if edges == 0 else first[:1]
        return (
            *first,
            Step(name=EDGES, weight=0.15 * self.pairs, kind=Pure, count=edges),
            Step(name=PAIRS, weight=0.85 * self.pairs),
        )

    def fit(self, table: PrivateTable, plan: Plan) -> TreeModel:
        """Ask from coarse to fine: each answer says how finely the next question can be put."""
        label, spread, counted = counted_label(table, plan)
        schema = table.schema
        if not schema.features:
            stddev = counted_stddev(table, plan)
            return TreeModel(label, spread, np.maximum(counted, 0.0), (), (), stddev, {CLASSES: stddev}, self.most)
        given = (label,) if label else ()
        asked = Stack(tuple(Marginal((*given, c.cells(2))) for c in schema.features))
        stddev = table.stddev(asked, plan[FEATURES])
        effective = balanced(label, counted, counted_stddev(table, plan), RARE_CELLS).sum()
        bins = int(np.clip(effective / (20 * stddev), 8, 256))
        cells = tuple(fine_cells(column, bins) for column in schema.features)
        answer = table.measure(Stack(tuple(Marginal((*given, c)) for c in cells)), plan[FEATURES])
        tables = [part.value.reshape(len(counted), -1) for part in answer.parts]
        sizes = combined(label, counted, counted_stddev(table, plan), tables, stddev)
        features = tuple(Feature.of(c, counts, sizes, stddev) for c, counts in zip(cells, tables, strict=True))
        noise = {CLASSES: counted_stddev(table, plan), FEATURES: stddev}
        model = TreeModel(label, spread, sizes, features, (), stddev, noise, self.most)
        return model if len(features) < 2 else _with_edges(model, table, plan)


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


def _with_edges(model: TreeModel, table: PrivateTable, plan: Plan) -> TreeModel:
    count = len(model.features) - 1
    weight = model.weights
    pair = Marginal(tuple(feature.merged for feature in model.features[:1]))
    stddev = table.stddev(Stack((pair,) * count), plan[PAIRS])
    spread = math.exp(-float(np.sum(weight * np.log(weight, where=weight > 0, out=np.zeros_like(weight)))))
    effective = model.informative_rows
    budgeted = math.sqrt(_MOST_PAIR_CELLS / (len(weight) * count * (count + 1) / 2))
    # Cells must stand out from the noise, and be few beside the rows.
    finest = min(32, budgeted, effective / (10 * len(model.features)))
    most = int(np.clip(math.sqrt(effective / (4 * spread * stddev)), 2, max(finest, 2)))
    if most < _FEWEST_PAIR_CELLS:
        return _looked_at_again(model, table, plan)
    features = tuple(feature.coarser(most, weight, 2 * stddev / effective) for feature in model.features)
    model = replace(model, features=features)
    chosen = _chosen(model, table, plan, stddev)
    given = (model.label,) if model.label else ()
    asked = Stack(tuple(Marginal((*given, features[i].merged, features[j].merged)) for i, j in chosen))
    answer = table.measure(asked, plan[PAIRS])
    edges = []
    for (i, j), part in zip(chosen, answer.parts, strict=True):
        left, right = features[i].coarse, features[j].coarse
        counts = part.value.reshape(len(model.sizes), left.shape[1], right.shape[1])
        alone = model.sizes[:, None, None] * left[:, :, None] * right[:, None, :]
        joint = np.array([fitted(*counted, part.stddev) for counted in zip(counts, left, right, strict=True)])
        edges.append(Edge(i, j, joint, float(np.abs(joint * model.sizes[:, None, None] - alone).sum())))
    return replace(model, edges=tuple(edges), noise={**model.noise, PAIRS: answer.stddev})


def _looked_at_again(model: TreeModel, table: PrivateTable, plan: Plan) -> TreeModel:
    """Spend what a tree would have cost on another look at the features that tell the classes apart."""
    weight, effective = model.weights, model.informative_rows
    first = [feature.coarser(4, weight, 2 * feature.stddev / effective) for feature in model.features]
    statistic = np.array([feature.informative(model.sizes) for feature in first])
    count = min(max(int((statistic > _AGAIN).sum()), _FEWEST_AGAIN), len(statistic))
    again = np.sort(np.argsort(-statistic, kind="stable")[:count])
    given = (model.label,) if model.label else ()
    asked = Stack(tuple(Marginal((*given, model.features[index].cells)) for index in again))
    answer = table.measure(asked, plan[PAIRS])
    features = list(model.features)
    for index, part in zip(again, answer.parts, strict=True):
        counts = part.value.reshape(features[index].counts.shape)
        features[index] = features[index].seen_again(counts, model.sizes, answer.stddev)
    # With no tree to choose, what its edges would have cost counts these features once more, in turn.
    for index in np.resize(again, len(features) - 1):
        part = table.measure(Marginal((*given, features[index].cells)), plan[EDGES])
        counts = part.value.reshape(features[index].counts.shape)
        features[index] = features[index].seen_again(counts, model.sizes, part.stddev)
    merged = (f.coarser(_CELLS_AGAIN, weight, 2 * f.stddev / effective) for f in features)
    return replace(model, features=tuple(merged), noise={**model.noise, PAIRS: answer.stddev})


def _chosen(model: TreeModel, table: PrivateTable, plan: Plan, stddev: float) -> list[tuple[int, int]]:
    """Choose a maximum spanning tree, edge by edge: the pairs that depend most on one another."""
    coarse = [feature.coarse for feature in model.features]
    pairs = [(i, j) for i in range(len(coarse)) for j in range(i + 1, len(coarse))]
    given = (model.label,) if model.label else ()
    marginals = tuple(Marginal((*given, model.features[i].merged, model.features[j].merged)) for i, j in pairs)
    expected = tuple(model.sizes[:, None, None] * coarse[i][:, :, None] * coarse[j][:, None, :] for i, j in pairs)
    # Half of what the noise will hide: a pair of many cells must stand out by more.
    penalties = tuple(0.4 * stddev * marginal.size for marginal in marginals)
    gaps = QualityScores(marginals, expected, penalties)
    part = np.arange(len(coarse))
    chosen: list[tuple[int, int]] = []
    while len(chosen) < len(coarse) - 1:
        joining = [position for position, (i, j) in enumerate(pairs) if part[i] != part[j]]
        i, j = pairs[table.select(gaps, plan[EDGES], among=joining)]
        part[part == part[j]] = part[i]
        chosen.append((i, j))
    return chosen


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
        most: How many times as many rows as of the rarest class there may be of another.
    """

    label: Merged | None
    spread: Floats
    sizes: Floats
    features: tuple[Feature, ...]
    edges: tuple[Edge, ...]
    stddev: float
    noise: Mapping[str, float] = field(default_factory=dict)
    most: float = RARE

    @property
    def rows(self) -> int:
        """The noisy number of private rows."""
        return round(float(self.sizes.sum()))

    @property
    def balanced(self) -> Floats:
        """Rows per class; of listed ones, none counted as more than `most` times the rarest that stands out."""
        return balanced(self.label, self.sizes, self.stddev, self.most)

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
        stddev = self.stddev * math.sqrt(len(self.sizes))
        histograms = {f.cells.column: Histogram(f.cells, f.counts.sum(axis=0), stddev) for f in self.features}
        if self.label:
            counts = self.sizes @ self.spread
            histograms[self.label.column] = Histogram(self.label.cells, counts, self.noise.get(CLASSES, self.stddev))
        return histograms

    @property
    def class_shares(self) -> Mapping[int, tuple[float, float]]:
        """Share of the synthetic and of the private rows, by code, where classes are listed and drawn in another ratio.

        Nothing is said if no class stands out from the noise: then the private ratio is not known.
        """
        if self.label is None or isinstance(self.label.cells, Bins) or not (self.sizes > 3 * self.stddev).any():
            return {}
        drawn, private = self.weights, self.sizes / self.sizes.sum()
        if np.allclose(drawn, private, rtol=1e-6):
            return {}
        count = self.label.cells.count
        codes = [code if code < count else -1 for code in range(len(drawn))]
        pairs = zip(codes, drawn, private, strict=True)
        return {code: (float(share), float(known)) for code, share, known in pairs if share > 0}

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

    def sample(self, rows: int, rng: np.random.Generator) -> Chunk:
        """Draw labels, then every feature given its parent and the label."""
        group, codes = self.draw(rows, rng)
        return self.decoded(group, codes, rng)

    def draw(self, rows: int, rng: np.random.Generator) -> tuple[Whole, list[Whole]]:
        """Draw classes, and the features' fine cells."""
        group = draw(proportions(self.balanced)[None, :], np.zeros(rows, np.int64), rng)
        coarse: dict[int, Whole] = {}
        for feature, parent, given in self._downwards:
            if parent is None:
                coarse[feature] = draw(given, group, rng)
            else:
                coarse[feature] = draw(given, group * self.features[parent].merged.size + coarse[parent], rng)
        return group, [feature.refined(coarse[i], group, rng) for i, feature in enumerate(self.features)]

    def decoded(self, group: Whole, codes: Sequence[Whole], rng: np.random.Generator) -> Chunk:
        """Return rows of these classes and cells: a value from each."""
        chunk: Chunk = {}
        if self.label:
            chunk[self.label.column] = self.label.cells.draw(draw(self.spread, group, rng), rng)
        for feature, code in zip(self.features, codes, strict=True):
            chunk[feature.cells.column] = feature.cells.draw(code, rng)
        return chunk

    @cached_property
    def _downwards(self) -> list[tuple[int, int | None, Floats]]:
        """Return the features, parents first, each with its distribution by class and parent's merged cell."""
        beside: dict[int, list[tuple[int, Floats]]] = {i: [] for i in range(len(self.features))}
        for edge in self.edges:
            beside[edge.parent].append((edge.child, edge.joint))
            beside[edge.child].append((edge.parent, edge.joint.transpose(0, 2, 1)))
        order: list[tuple[int, int | None, Floats]] = []
        seen: set[int] = set()
        for root in range(len(self.features)):
            waiting: list[tuple[int, int | None, Floats]] = [(root, None, self.features[root].coarse)]
            while waiting:
                feature, parent, given = waiting.pop()
                if feature in seen:
                    continue
                seen.add(feature)
                order.append((feature, parent, given.reshape(-1, given.shape[-1])))
                waiting += [(child, feature, joint) for child, joint in beside[feature] if child not in seen]
        return order
