"""Approximate: PrivBayes, a Bayesian network that is chosen privately, and a noisy table for each of its AP pairs.

Reference:
    Zhang, Cormode, Procopiuc, Srivastava and Xiao 2014 and 2017, PrivBayes: private data release via Bayesian networks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.door import PrivateTable
from threea.anonymize.events import Event, Gaussian, Pure
from threea.anonymize.plan import Plan, Step
from threea.anonymize.query import Count, Marginal, Stack
from threea.anonymize.selection import QualityScores
from threea.approximate.ap_pairs import FINEST, Attribute, Pair, candidates, conditional
from threea.approximate.bayes_net_model import BayesNetModel, Node, rows_of
from threea.approximate.denoise import proportions
from threea.approximate.feature import Feature, fine_cells
from threea.approximate.label_counts import existing
from threea.table.cells import Merged
from threea.table.schema import Schema

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

ONE_WAY, PAIRS, TABLES = "one-way tables", "AP pairs", "tables of AP pairs"
_ONE_WAY = 0.3
_BINS = 64
_MOST_CELLS, _ALL_CELLS = 1 << 13, 1 << 20
_DRAWS = 1 << 15
_SEED = 0
_PENALTY = 0.4
_ALWAYS = True
_START = "target"


@dataclass(frozen=True, slots=True, kw_only=True)
class BayesNet:
    noise: str = "gaussian"
    theta: float = 4.0
    beta: float = 0.15
    degree: int = 3

    @property
    def kind(self) -> type[Event]:
        return Pure if self.noise == "laplace" else Gaussian

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        pairs = len(schema.modelled) - 1
        if pairs < 1 or self.degree < 1:
            return (Step(name=ONE_WAY, weight=1.0, kind=self.kind),)
        return (
            Step(name=ONE_WAY, weight=(1 - self.beta) * _ONE_WAY, kind=self.kind),
            Step(name=PAIRS, weight=self.beta, kind=Pure, count=pairs),
            Step(name=TABLES, weight=(1 - self.beta) * (1 - _ONE_WAY), kind=self.kind, count=pairs),
        )

    def fit(self, table: PrivateTable, plan: Plan) -> BayesNetModel:
        schema = table.schema
        cells = tuple(fine_cells(column, _BINS) for column in schema.modelled)
        answer = table.measure(Stack(tuple(Marginal((c,)) for c in cells)), plan[ONE_WAY])
        precision = 1 / np.array([c.size for c in cells])
        rows = float(precision @ [part.value.sum() for part in answer.parts] / precision.sum())
        noise = {ONE_WAY: answer.stddev}
        features = [
            Feature.of(c, part.value[None, :], np.array([max(rows, 0.0)]), answer.stddev)
            for c, part in zip(cells, answer.parts, strict=True)
        ]
        order = [c.column for c in cells]
        root = order.index(schema.target) if schema.target and _START == "target" else 0
        target = order.index(schema.target) if schema.target else None
        count_stddev = answer.stddev / math.sqrt(precision.sum())
        if len(features) > 1 and self.degree > 0:
            noise[TABLES] = table.stddev(Count(), plan[TABLES])
        network = _Network(features, max(rows, 0.0))
        network.add_root(root)
        if len(features) > 1 and self.degree > 0:
            scale = noise[TABLES] / (math.sqrt(2) if self.noise == "laplace" else 1.0)
            useful = min(rows / (self.theta * max(scale, 1.0)), _MOST_CELLS, _ALL_CELLS / len(features))
            least = 2 * noise[TABLES] / max(rows, 1.0)
            attributes = [Attribute.of(f, 64 if i == target else FINEST, least) for i, f in enumerate(features)]
            while len(network.added) < len(features):
                pairs = candidates(attributes, network.added, useful, self.degree, target if _ALWAYS else None)
                if pairs:
                    pair = _chosen(network, pairs, table, plan, noise[TABLES])
                    network.add(pair, table.measure(Marginal(pair.cells), plan[TABLES]).value, noise[TABLES])
                else:
                    network.add_alone(table, plan)
        else:
            for i in range(len(features)):
                if i not in network.added:
                    network.add_root(i)
        return BayesNetModel(tuple(network.nodes), rows, count_stddev, noise)


@dataclass(slots=True)
class _Network:
    features: list[Feature]
    rows: float
    added: list[int] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    codes: dict[int, Whole] = field(default_factory=dict)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(_SEED))
    known: dict = field(default_factory=dict)

    def add_root(self, index: int) -> None:
        feature = self.features[index]
        given = proportions(existing(feature.cells, feature.counts[0], feature.stddev))
        feature = replace(feature, given=given[None, :]) if not self.nodes else feature
        self._add(index, Node(feature, (), (), feature.coarse, 0.0))

    def add_alone(self, table, plan):
        index = next(i for i in range(len(self.features)) if i not in self.added)
        f = self.features[index]
        for line in (PAIRS, TABLES):
            answer = table.measure(Marginal((f.cells,)), plan[line])
            f = f.seen_again(answer.value[None, :], np.array([self.rows]), answer.stddev)
        self.features[index] = f
        self._add(index, Node(f, (), (), f.coarse, 0.0))

    def add(self, pair, counts, stddev):
        feature = replace(self.features[pair.child], merged=pair.own)
        parents = self.distribution(pair.parents, pair.levels)
        own = feature.coarse[0]
        given = conditional(counts, parents, own, stddev)
        gap = self.rows * float(np.abs(parents[:, None] * (given - own)).sum())
        self._add(pair.child, Node(feature, tuple(self.added.index(p) for p in pair.parents), pair.levels, given, gap))

    def _add(self, index, node):
        codes = [self.codes[i] for i in self.added]
        fine, _ = node.draw(node.row(codes, _DRAWS), self.rng)
        self.codes[index] = fine
        self.added.append(index)
        self.nodes.append(node)

    def distribution(self, parents, levels):
        key = (parents, tuple(l.size for l in levels))
        if key not in self.known:
            row = rows_of(levels, [self.codes[p] for p in parents], _DRAWS)
            self.known[key] = np.bincount(row, minlength=math.prod(l.size for l in levels)) / _DRAWS
        return self.known[key]

    def expected(self, pair):
        own = replace(self.features[pair.child], merged=pair.own).coarse[0]
        return self.rows * np.outer(self.distribution(pair.parents, pair.levels), own)


def _chosen(network, pairs, table, plan, stddev):
    marginals = tuple(Marginal(pair.cells) for pair in pairs)
    penalties = tuple(_PENALTY * stddev * marginal.size for marginal in marginals)
    scores = QualityScores(marginals, tuple(network.expected(pair) for pair in pairs), penalties)
    return pairs[table.select(scores, plan[PAIRS])]
