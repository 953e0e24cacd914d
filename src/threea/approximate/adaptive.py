"""Approximate: table by table, that which the model fits worst, beyond what noise would hide.

Reference:
    McKenna, Mullins, Sheldon and Miklau 2022, AIM: an adaptive and iterative mechanism for differentially private
    synthetic data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Plan, Step
from threea.anonymize.selection import QualityScores
from threea.approximate.graph_column import GraphColumn
from threea.approximate.graphical import GraphicalModel
from threea.approximate.junction_tree import Clique, model_cells
from threea.approximate.mirror_descent import Distribution, Measured, estimated, total_of
from threea.approximate.pair_tables import pair_tables
from threea.approximate.spanning_tree import CHOICES, COLUMNS, TABLES, counted_columns, marginal, started
from threea.table.schema import Schema

Floats = NDArray[np.float64]

ROUNDS = 16
"""A column's rounds, were none of them to get more than the least: the paper's. The first counts the column alone."""
_CHOOSING = 0.1
"""Share of a round's budget for the choice: the paper's."""
_NOISE = math.sqrt(2 / math.pi)
"""A standard deviation of noise makes so much of an error, on average."""
_MORE = 4
"""A round that changed less than noise would makes the next ones cost so many times as much, for half of the noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptive:
    """Tables chosen one after the other, by how badly the model so far fits them.

    Args:
        bins: How many bins numeric columns are cut into.
        max_model_size: Of the model's tables, in MB.
        target_weight: How many times as much the target's pairs weigh.
        iterations: Steps of mirror descent at the end; a tenth of it after each round.
    """

    bins: int
    max_model_size: float
    target_weight: int
    iterations: int

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Count the columns, then choose and count tables in as many units as there may be rounds."""
        columns = len(schema.modelled)
        if columns < 2:
            return (Step(name=COLUMNS, weight=1.0),)
        units = (ROUNDS - 1) * columns
        first = (1 - _CHOOSING) / ROUNDS
        return (
            Step(name=COLUMNS, weight=first),
            Step(name=CHOICES, weight=(1 - first) * _CHOOSING, count=units),
            Step(name=TABLES, weight=(1 - first) * (1 - _CHOOSING), count=units),
        )

    def fit(self, table: PrivateTable, plan: Plan) -> GraphicalModel:
        """Count every column, then what the model fits worst, until all is spent."""
        columns, asked = counted_columns(table, plan, self.bins)
        noise = {COLUMNS: columns[0].stddev}
        names = [column.name for column in table.schema.modelled]
        search = _Search(columns, asked, self, names.index(table.schema.target) if table.schema.target else None)
        left, least = next((line.count for line in plan.lines if line.name == TABLES), 0), 1
        units = left
        while left:
            spend = left if left < 2 * least else least
            left -= spend
            least = search.round(table, plan, spend, 1 - left / units)
        rows, stddev = total_of(asked.values())
        found = estimated(search.found, asked, max(rows, 1.0), self.iterations)
        if units:
            noise[TABLES] = search.stddev
        return GraphicalModel(columns, found.tree, found.given, rows, stddev, noise)


class _Search:
    """The model so far, and the next round."""

    def __init__(
        self, columns: tuple[GraphColumn, ...], asked: dict[Clique, Measured], settings: Adaptive, target: int | None
    ) -> None:
        self._columns, self._asked, self._settings = columns, asked, settings
        self._sizes = [column.merged.size for column in columns]
        self._weights = weights(len(columns), target, settings.target_weight)
        self.found = started(columns, asked)
        self.stddev = 0.0

    def round(self, table: PrivateTable, plan: Plan, units: int, spent: float) -> int:
        """Choose a table, count it, and fit; return how many units the next round is to cost at least."""
        rows = max(total_of(self._asked.values())[0], 1.0)
        expected = self._expected()
        candidates = self._small(expected, spent)
        first = marginal(self._columns, candidates[0])
        self.stddev = table.stddev(first, plan[TABLES].times(units))
        scores = QualityScores(
            tuple(marginal(self._columns, clique) for clique in candidates),
            tuple(rows * expected[clique] for clique in candidates),
            tuple(_NOISE * self.stddev * expected[clique].size for clique in candidates),
            tuple(self._weights[clique] for clique in candidates),
        )
        clique = candidates[table.select(scores, plan[CHOICES].times(units))]
        answer = table.measure(marginal(self._columns, clique), plan[TABLES].times(units))
        measured = Measured.alike(answer.value, answer.stddev)
        again = clique in self._asked
        self._asked[clique] = self._asked[clique].and_again(measured) if again else measured
        if not again:
            potentials = {**self.found.potentials, clique: np.zeros(measured.counts.shape)}
            self.found = Distribution.product(self._sizes, potentials)
        self.found = estimated(self.found, self._asked, rows, max(self._settings.iterations // 10, 1))
        after = self.found.tables({clique: self.found.tree.home(clique)})[clique]
        change = rows * float(np.abs(after - expected[clique]).sum())
        hidden = change <= _NOISE * answer.stddev * after.size
        print("round", units, [self._columns[c].name for c in clique], after.size, round(self.stddev, 1), round(change), hidden, self.found.tree.cells)
        return units * (_MORE if hidden else 1)

    def _expected(self) -> dict[Clique, Floats]:
        """Return the model's one-way tables and all its pairs."""
        alone = self.found.tables({(i,): self.found.tree.home((i,)) for i in range(len(self._columns))})
        return alone | pair_tables(self.found.tree, self.found.marginals())

    def _small(self, cliques: dict[Clique, Floats], spent: float) -> list[Clique]:
        """Return the candidates that keep the model within the share of its size that was spent so far."""
        most = self._settings.max_model_size * spent * 2**20 / 8
        held = [set(clique) for clique in self.found.tree.cliques]
        return [
            clique
            for clique in cliques
            if any(set(clique) <= each for each in held) or model_cells(self._sizes, [*self._asked, clique]) <= most
        ]


def weights(columns: int, target: int | None, target_weight: int) -> dict[Clique, int]:
    """Return how much of the workload, all pairs, each column and each pair touches.

    Example:
        >>> weights(3, None, 1)
        {(0,): 2, (1,): 2, (2,): 2, (0, 1): 4, (0, 2): 4, (1, 2): 4}
    """
    pairs = [(i, j) for i in range(columns) for j in range(i + 1, columns)]
    weight = {pair: target_weight if target in pair else 1 for pair in pairs}
    touched = [sum(weight[pair] for pair in pairs if column in pair) for column in range(columns)]
    return {(i,): touched[i] for i in range(columns)} | {(i, j): touched[i] + touched[j] for i, j in pairs}
