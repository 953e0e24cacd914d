"""Approximate: the label, every feature given the label, and a tree of features each given its parent and the label.

Reference:
    Chow and Liu 1968 (trees); McKenna, Miklau and Sheldon 2021 (MST: choosing them privately).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.door import PrivateTable
from threea.anonymize.events import Pure
from threea.anonymize.plan import Charge, Plan, Step
from threea.anonymize.query import Answer, Marginal, Stack
from threea.anonymize.selection import QualityScores
from threea.approximate.denoise import fitted
from threea.approximate.feature import Feature, fine_cells
from threea.approximate.finer_tree import without_label
from threea.approximate.label_counts import (
    CLASSES,
    RANGES,
    RARE_CELLS,
    balanced,
    counted_label,
)
from threea.approximate.spanning_tree import spanning_tree
from threea.approximate.tree_model import Edge, TreeModel
from threea.table.schema import Schema

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

FEATURES, EDGES, PAIRS = "features given the label", "tree edges", "pairs given the label"
_MOST_PAIR_CELLS = 1 << 24
_FEWEST_PAIR_CELLS = 6
"""With fewer cells a feature, if it has more, pairs tell too little for what they cost."""
_AGAIN, _FEWEST_AGAIN, _CELLS_AGAIN = 8.0, 16, 6
"""Then features so many standard deviations clear of noise, and at least so many, are looked at again, in so many cells
each."""
_FEWEST_POOLED_CELLS = 3
"""With fewer cells a feature, pairs of all classes together tell too little for what they cost, too."""
PAIR_UNITS = 2
"""In how many parts what pairs cost can be spent: on these, and on the second look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelAugmentedTree:
    """A tree over the features, chosen privately, in which every clique holds the label.

    Args:
        pairs: Share of this stage's budget for the pairs along the tree, and the choice of it; the rest goes to the
            features one by one. Where there are too few rows for pairs by class, their share is for pairs of all
            classes together, if these stand out, and a second look at the features that tell most.
        ranges: How many classes a numeric target is cut into.
    """

    pairs: float = 0.55
    ranges: int = RANGES

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Count the classes, each feature by class, and the tree's pairs by class."""
        edges = len(schema.features) - 1
        number = schema.target is not None and schema[schema.target].kind.numeric
        # How a number is distributed is part of the task; of classes, a few counts are enough.
        first = (Step(name=CLASSES, weight=0.1 if number else 0.02), Step(name=FEATURES, weight=0.98 - self.pairs))
        if edges < 1:
            return first if edges == 0 else first[:1]
        return (
            *first,
            Step(name=EDGES, weight=0.15 * self.pairs, kind=Pure, count=edges),
            Step(name=PAIRS, weight=0.85 * self.pairs, count=PAIR_UNITS),
        )

    def fit(self, table: PrivateTable, plan: Plan) -> TreeModel:
        """Ask from coarse to fine: each answer says how finely the next question can be put."""
        counted = counted_label(table, plan, self.ranges)
        schema, label, stddev = table.schema, counted.label, counted.stddev
        noise = {CLASSES: stddev}
        if not schema.features:
            sizes, rows = np.maximum(counted.sizes, 0.0), counted.combined()[1]
            return TreeModel(label, counted.spread, sizes, (), (), stddev, noise, answered=rows)
        effective = balanced(label, counted.sizes, stddev, RARE_CELLS).sum()
        given = (label,) if label else ()
        asked = Stack(tuple(Marginal((*given, c.cells(2))) for c in schema.features))
        stddev = table.stddev(asked, plan[FEATURES])
        bins = int(np.clip(effective / (20 * stddev), 8, 256))
        cells = tuple(fine_cells(column, bins) for column in schema.features)
        answer = table.measure(Stack(tuple(Marginal((*given, c)) for c in cells)), plan[FEATURES])
        tables = [part.value.reshape(len(counted.sizes), -1) for part in answer.parts]
        sizes, rows = counted.combined(tables, stddev)
        features = tuple(Feature.of(c, counts, sizes, stddev) for c, counts in zip(cells, tables, strict=True))
        noise = {**noise, FEATURES: stddev}
        model = TreeModel(label, counted.spread, sizes, features, (), stddev, noise, answered=rows)
        return model if len(features) < 2 else _with_edges(model, table, plan)


def _with_edges(model: TreeModel, table: PrivateTable, plan: Plan) -> TreeModel:
    count = len(model.features) - 1
    weight = model.weights
    pair = Marginal(tuple(feature.merged for feature in model.features[:1]))
    stddev = table.stddev(Stack((pair,) * count), plan[PAIRS].times(PAIR_UNITS))
    spread = math.exp(-float(np.sum(weight * np.log(weight, where=weight > 0, out=np.zeros_like(weight)))))
    effective = model.informative_rows
    budgeted = math.sqrt(_MOST_PAIR_CELLS / (len(weight) * count * (count + 1) / 2))
    # Cells must stand out from the noise, and be few beside the rows.
    finest = min(32, budgeted, effective / (10 * len(model.features)))
    most = int(np.clip(math.sqrt(effective / (4 * spread * stddev)), 2, max(finest, 2)))
    if most < min(_FEWEST_PAIR_CELLS, max(feature.merged.size for feature in model.features)):
        return _without_pairs_by_class(model, table, plan)
    features = tuple(feature.coarser(most, weight, 2 * stddev / effective) for feature in model.features)
    model = replace(model, features=features)
    chosen = _chosen(model, table, plan, stddev)
    given = (model.label,) if model.label else ()
    asked = Stack(tuple(Marginal((*given, features[i].merged, features[j].merged)) for i, j in chosen))
    answer = table.measure(asked, plan[PAIRS].times(PAIR_UNITS))
    counted = [part.value.reshape(len(weight), *part.value.shape[-2:]) for part in answer.parts]
    features = _consistent(features, chosen, counted, answer.stddev)
    model = replace(model, features=features)
    edges = []
    for (i, j), counts, part in zip(chosen, counted, answer.parts, strict=True):
        left, right = features[i].coarse, features[j].coarse
        joint = np.array([fitted(*given, part.stddev) for given in zip(counts, left, right, strict=True)])
        edges.append(_edge(model, i, j, joint))
    return replace(model, edges=tuple(edges), noise={**model.noise, PAIRS: answer.stddev})


def _consistent(
    features: tuple[Feature, ...], chosen: Sequence[tuple[int, int]], counted: Sequence[Floats], stddev: float
) -> tuple[Feature, ...]:
    """Return features as their own counts and those of the pairs that hold them tell: weighted least squares."""
    margins: list[list[tuple[Floats, float]]] = [[] for _ in features]
    for (i, j), counts in zip(chosen, counted, strict=True):
        margins[i].append((counts.sum(axis=2), counts.shape[2] * stddev**2))
        margins[j].append((counts.sum(axis=1), counts.shape[1] * stddev**2))
    return tuple(feature.told_by(tables) for feature, tables in zip(features, margins, strict=True))


def _without_pairs_by_class(model: TreeModel, table: PrivateTable, plan: Plan) -> TreeModel:
    """Look again at the features that tell the classes apart, and count pairs whatever the class if these stand out.

    Then each gets half of what pairs by class would have cost. Else the second look gets all of it, and what the choice
    of a tree would have cost.
    """
    count, half = len(model.features) - 1, plan[PAIRS].times(PAIR_UNITS // 2)
    stddev = table.stddev(Stack((Marginal((model.features[0].merged,)),) * count), half)
    affordable = math.sqrt(_MOST_PAIR_CELLS / (count * (count + 1) / 2))
    cells = int(min(math.sqrt(max(float(model.sizes.sum()), 1.0) / (4 * stddev)), affordable, _CELLS_AGAIN))
    if model.label is None or cells < _FEWEST_POOLED_CELLS:
        # What the edges would have cost counts these features once more, in turn.
        return _looked_at_again(model, table, plan[PAIRS].times(PAIR_UNITS), [plan[EDGES]] * count, _CELLS_AGAIN)
    return _with_pooled_edges(_looked_at_again(model, table, half, (), cells), table, plan, stddev)


def _looked_at_again(
    model: TreeModel, table: PrivateTable, charge: Charge, single: Sequence[Charge], cells: int
) -> TreeModel:
    """Count the features that tell the classes apart again, and merge every feature's cells.

    Args:
        model: What the first look told.
        table: Whom to ask.
        charge: What pays for a look at all of these.
        single: What pays for looks at each of these, in turn.
        cells: About how many cells to merge into.
    """
    weight, effective = model.weights, model.informative_rows
    first = [feature.coarser(4, weight, 2 * feature.stddev / effective) for feature in model.features]
    statistic = np.array([feature.informative(model.sizes) for feature in first])
    count = min(max(int((statistic > _AGAIN).sum()), _FEWEST_AGAIN), len(statistic))
    again = np.sort(np.argsort(-statistic, kind="stable")[:count])
    given = (model.label,) if model.label else ()
    answer = table.measure(Stack(tuple(Marginal((*given, model.features[index].cells)) for index in again)), charge)
    features = list(model.features)

    def seen(index: int, part: Answer) -> None:
        counts = part.value.reshape(features[index].counts.shape)
        features[index] = features[index].seen_again(counts, model.sizes, part.stddev)

    for index, part in zip(again, answer.parts, strict=True):
        seen(int(index), part)
    for index, each in zip(np.resize(again, len(single)), single, strict=True):
        seen(int(index), table.measure(Marginal((*given, features[index].cells)), each))
    merged = (feature.coarser(cells, weight, 2 * feature.stddev / effective) for feature in features)
    return replace(model, features=tuple(merged), noise={**model.noise, PAIRS: answer.stddev})


def _with_pooled_edges(model: TreeModel, table: PrivateTable, plan: Plan, stddev: float) -> TreeModel:
    """Count the pairs of a tree in all classes together; what ties two features is taken to be the same in each."""
    features = model.features
    chosen = _chosen(without_label(model), table, plan, stddev)
    asked = Stack(tuple(Marginal((features[i].merged, features[j].merged)) for i, j in chosen))
    answer = table.measure(asked, plan[PAIRS].times(PAIR_UNITS // 2))
    edges = []
    for (i, j), part in zip(chosen, answer.parts, strict=True):
        left, right = features[i].coarse, features[j].coarse
        alike = fitted(part.value, model.ratio @ left, model.ratio @ right, part.stddev)
        joint = np.array([fitted(alike, *margins, 0.0) for margins in zip(left, right, strict=True)])
        edges.append(_edge(model, i, j, joint))
    return replace(model, edges=tuple(edges), by_class=False, noise={**model.noise, PAIRS: answer.stddev})


def _edge(model: TreeModel, i: int, j: int, joint: Floats) -> Edge:
    left, right = model.features[i].coarse, model.features[j].coarse
    apart = joint - left[:, :, None] * right[:, None, :]
    return Edge(i, j, joint, float((model.sizes[:, None, None] * np.abs(apart)).sum()))


def _chosen(model: TreeModel, table: PrivateTable, plan: Plan, stddev: float) -> list[tuple[int, int]]:
    """Choose a maximum spanning tree, edge by edge: the pairs that depend most on one another."""
    coarse = [feature.coarse for feature in model.features]
    pairs = list(combinations(range(len(coarse)), 2))
    given = (model.label,) if model.label else ()
    marginals = tuple(Marginal((*given, model.features[i].merged, model.features[j].merged)) for i, j in pairs)
    expected = tuple(model.sizes[:, None, None] * coarse[i][:, :, None] * coarse[j][:, None, :] for i, j in pairs)
    # Half of what the noise will hide: a pair of many cells must stand out by more.
    penalties = tuple(0.4 * stddev * marginal.size for marginal in marginals)
    gaps = QualityScores(marginals, expected, penalties)
    return spanning_tree(pairs, lambda joining: table.select(gaps, plan[EDGES], among=joining))
