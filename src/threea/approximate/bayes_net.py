"""Approximate: PrivBayes, a Bayesian network that is chosen privately, and a noisy table for each of its AP pairs.

Reference:
    Zhang, Cormode, Procopiuc, Srivastava and Xiao 2014 and 2017, PrivBayes: private data release via Bayesian networks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.door import PrivateTable
from threea.anonymize.events import Event, Gaussian, Pure
from threea.anonymize.plan import Plan, Step
from threea.anonymize.query import Count, Marginal
from threea.anonymize.selection import QualityScores
from threea.approximate.ap_pairs import FINEST, FINEST_TARGET, Attribute, Pair, candidates
from threea.approximate.bayes_net_model import BayesNetModel
from threea.approximate.feature import Feature, fine_cells
from threea.approximate.growing_net import GrowingNet
from threea.table.schema import Column, Schema

Floats = NDArray[np.float64]
Noise = Literal["gaussian", "laplace"]

ONE_WAY, PAIRS, TABLES = "one-way tables", "AP pairs", "tables of AP pairs"
_ONE_WAY = 0.2
"""Share of the one-way tables in what the structure leaves. Chosen."""
BINS = 64
"""Of a numeric column's one-way table. Chosen."""
_MOST_CELLS, _ALL_CELLS = 1 << 13, 1 << 20
"""Of a table, and of all tables together, however many would be useful."""
_SPREAD = math.sqrt(2 / math.pi)
"""A normal number is so many standard deviations from its mean, on average."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BayesNet:
    """A Bayesian network over all columns, grown greedily.

    Args:
        noise: ``gaussian``, or ``laplace`` for pure epsilon: every question is then a `Pure` event.
        theta: A table is useful if its cells hold on average so many times the noise's scale, and as many rows.
        beta: Share of the budget for choosing the structure.
        degree: How many parents an attribute has at most.
    """

    noise: Noise
    theta: float
    beta: float
    degree: int

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Count every column; then, for each but the first, choose an AP pair and count its table."""
        count = len(schema.modelled)
        return self.priced(max(count, 1), count - 1)

    def priced(self, columns: int, pairs: int) -> tuple[Step, ...]:
        """Return the steps for so many columns, of which so many are given parents."""
        kind: type[Event] = Pure if self.noise == "laplace" else Gaussian
        if pairs < 1 or self.degree < 1:
            return (Step(name=ONE_WAY, weight=1.0, kind=kind, count=columns),)
        tables = 1 - self.beta
        return (
            Step(name=ONE_WAY, weight=tables * _ONE_WAY, kind=kind, count=columns),
            Step(name=PAIRS, weight=self.beta, kind=Pure, count=pairs),
            Step(name=TABLES, weight=tables * (1 - _ONE_WAY), kind=kind, count=pairs),
        )

    def fit(self, table: PrivateTable, plan: Plan) -> BayesNetModel:
        """Count the columns one by one, then grow the network."""
        columns = table.schema.modelled
        counted = one_way(columns, table, plan)
        names = [column.name for column in columns]
        target = names.index(table.schema.target) if table.schema.target else None
        net = GrowingNet(counted.features, counted.rows)
        # The target is a parent of all others where it fits: learners are for it. Without one, any column may be first.
        net.add_first(target or 0, existing_only=target is not None)
        noise = self.grown(net, target, table, plan)
        return BayesNetModel(tuple(net.nodes), counted.total, counted.total_stddev, {ONE_WAY: counted.stddev, **noise})

    def grown(self, net: GrowingNet, target: int | None, table: PrivateTable, plan: Plan) -> dict[str, float]:
        """Add all attributes that are left; return the noise on the tables that were counted for it, if any."""
        if len(net.features) > 1 and self.degree > 0:
            self._grow(net, target, table, plan)
            return {TABLES: table.stddev(Count(), plan[TABLES])}
        for place in net.left:
            net.add_alone(place, net.features[place])
        return {}

    def useful(self, rows: float, stddev: float, columns: int) -> float:
        """Return how many cells a table may have: theta-usefulness.

        The noise's scale is its standard deviation; of Laplace noise the paper's, smaller by the square root of 2.
        Cells hold theta rows on average, too: fewer say little, however small the noise.
        """
        scale = stddev / math.sqrt(2) if self.noise == "laplace" else stddev
        return min(rows / (self.theta * max(scale, 1.0)), _MOST_CELLS, _ALL_CELLS / columns)

    def _grow(self, net: GrowingNet, target: int | None, table: PrivateTable, plan: Plan) -> None:
        stddev = table.stddev(Count(), plan[TABLES])
        useful = self.useful(net.rows, stddev, len(net.features))
        least = 2 * stddev / max(net.rows, 1.0)
        attributes = [
            Attribute.of(feature, FINEST_TARGET if place == target else FINEST, least)
            for place, feature in enumerate(net.features)
        ]
        while net.left:
            pairs = candidates(attributes, net.added, useful, self.degree, target)
            if target in net.left:
                pairs = [pair for pair in pairs if pair.child == target]
            if pairs:
                pair = _chosen(net, pairs, table, plan)
                net.add(pair, table.measure(Marginal(pair.cells), plan[TABLES]))
            else:
                net.add_alone(net.left[0], _seen_again(net, net.left[0], table, plan))


@dataclass(frozen=True, slots=True)
class OneWay:
    """What the one-way tables tell.

    Args:
        features: Every column, as a feature of a single class.
        total: The noisy number of private rows.
        total_stddev: Of the noise on it.
        stddev: Of the noise on a count.
    """

    features: tuple[Feature, ...]
    total: float
    total_stddev: float
    stddev: float

    @property
    def rows(self) -> float:
        """How many rows there are, as far as that makes sense."""
        return max(self.total, 0.0)


def one_way(columns: Sequence[Column], table: PrivateTable, plan: Plan) -> OneWay:
    """Count some columns, one by one."""
    cells = [fine_cells(column, BINS) for column in columns]
    counts = [table.measure(Marginal((each,)), plan[ONE_WAY]).value for each in cells]
    stddev = table.stddev(Count(), plan[ONE_WAY])
    # Every table tells the number of rows; wider ones with more noise.
    precision = 1 / np.array([each.size for each in cells])
    total = float(precision @ [each.sum() for each in counts] / precision.sum())
    sizes = np.array([max(total, 0.0)])
    features = (Feature.of(each, row[None, :], sizes, stddev) for each, row in zip(cells, counts, strict=True))
    return OneWay(tuple(features), total, stddev / math.sqrt(precision.sum()), stddev)


def _chosen(net: GrowingNet, pairs: list[Pair], table: PrivateTable, plan: Plan) -> Pair:
    """Choose the pair of the largest R, less what noise and chance alone would make of it."""
    stddev = table.stddev(Count(), plan[TABLES])
    expected = tuple(net.expected(pair) for pair in pairs)
    penalties = tuple(_SPREAD * (stddev * counts.size + float(np.sqrt(counts).sum())) for counts in expected)
    scores = QualityScores(tuple(Marginal(pair.cells) for pair in pairs), expected, penalties)
    return pairs[table.select(scores, plan[PAIRS])]


def _seen_again(net: GrowingNet, place: int, table: PrivateTable, plan: Plan) -> Feature:
    """Spend what an AP pair would have cost on two more counts of an attribute that no parents are useful for."""
    feature = net.features[place]
    for line in (PAIRS, TABLES):
        answer = table.measure(Marginal((feature.cells,)), plan[line])
        feature = feature.seen_again(answer.value[None, :], np.array([net.rows]), answer.stddev)
    return feature
