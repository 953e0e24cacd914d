"""Approximate: table by table, that which the model so far fits worst, beyond what noise would hide.

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
from threea.approximate.junction_tree import model_cells
from threea.approximate.mirror_descent import Measured, estimated, total_of
from threea.approximate.pair_tables import pair_tables
from threea.approximate.spanning_tree import CHOICES, COLUMNS, TABLES, counted_columns, marginal, started
from threea.approximate.table_algebra import Clique
from threea.table.schema import Schema

Floats = NDArray[np.float64]

FIRST, CHOOSING = 0.2, 0.1
"""Share of the budget for the columns alone, and of the rest for the choices. The paper has 1/16 and 0.1; chosen."""
UNITS = 8
"""Units of the budget for each column: as many rounds there are at most. The paper has 16; chosen."""
_MORE = 2
"""A round that changed less than noise would makes those after it cost so many times as much. The paper has 4 (half of
the noise); chosen."""
_NOISE = math.sqrt(2 / math.pi)
"""A standard deviation of noise is so much of an error, on average."""
_PART = 10
"""After a round, so many times fewer steps of mirror descent are taken than at the end. Chosen."""
_HEAVIEST = 512
"""The largest weight of a candidate that a private choice takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptive:
    """Tables chosen one after the other, by how badly the model so far fits them.

    Args:
        bins: How many bins numeric columns are cut into.
        max_model_size: Of the model's tables, in MB.
        target_weight: How many times as much as others the target's pairs weigh.
        iterations: Steps of mirror descent at the end, at most.
    """

    bins: int
    max_model_size: float
    target_weight: int
    iterations: int

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Count the columns, then choose and count tables, in units that a round spends one or more of."""
        columns = len(schema.modelled)
        if columns < 2:
            return (Step(name=COLUMNS, weight=1.0),)
        return (
            Step(name=COLUMNS, weight=FIRST),
            Step(name=CHOICES, weight=(1 - FIRST) * CHOOSING, count=UNITS * columns),
            Step(name=TABLES, weight=(1 - FIRST) * (1 - CHOOSING), count=UNITS * columns),
        )

    def fit(self, table: PrivateTable, plan: Plan) -> GraphicalModel:
        """Count every column, then what the model fits worst, until all units are spent."""
        columns, asked = counted_columns(table, plan, self.bins)
        noise = {COLUMNS: columns[0].stddev}
        search = _Search(self, columns, asked, table.schema.target)
        units = left = UNITS * len(columns) if len(columns) > 1 else 0
        least = 1
        while left:
            spend = left if left < 2 * least else least
            left -= spend
            least = search.round(table, plan, spend, 1 - left / units)
            noise.setdefault(TABLES, search.stddev)
        rows, stddev = total_of(asked.values())
        found = estimated(search.found, asked, max(rows, 1.0), self.iterations)
        model = GraphicalModel(columns, found.tree, found.given, rows, stddev, noise)
        return model.without_phantoms(table.schema.target)


class _Search:
    """The tables and the model so far, and the next round."""

    def __init__(
        self, settings: Adaptive, columns: tuple[GraphColumn, ...], asked: dict[Clique, Measured], target: str | None
    ) -> None:
        self._settings, self._columns, self._asked = settings, columns, asked
        place = next((i for i, column in enumerate(columns) if column.name == target), None)
        self._weights = weights(len(columns), place, settings.target_weight)
        self.found = started(columns)
        self.stddev = 0.0

    def round(self, table: PrivateTable, plan: Plan, units: int, spent: float) -> int:
        """Choose a table, count it, and fit the model; return how many units the next round is to cost."""
        rows = max(total_of(self._asked.values())[0], 1.0)
        expected = self._expected()
        candidates = self._small(expected, spent)
        questions = tuple(marginal(self._columns, clique) for clique in candidates)
        self.stddev = table.stddev(questions[0], plan[TABLES].times(units))
        scores = QualityScores(
            questions,
            tuple(rows * expected[clique] for clique in candidates),
            tuple(_NOISE * self.stddev * question.size for question in questions),
            tuple(self._weights[clique] for clique in candidates),
        )
        chosen = table.select(scores, plan[CHOICES].times(units))
        answer, clique = table.measure(questions[chosen], plan[TABLES].times(units)), candidates[chosen]
        change = self._learn(clique, Measured.alike(answer.value, answer.stddev), rows, expected[clique])
        return units * (_MORE if change <= _NOISE * answer.stddev * questions[chosen].size else 1)

    def _learn(self, clique: Clique, measured: Measured, rows: float, before: Floats) -> float:
        """Fit the model to one more table; return by how many rows its own changed."""
        known = self._asked.get(clique)
        self._asked[clique] = known.and_again(measured) if known else measured
        steps = max(self._settings.iterations // _PART, 1)
        self.found = estimated(self.found.holding([clique]), self._asked, rows, steps)
        after = self.found.tables(self.found.tree.homes([clique]))[clique]
        return rows * float(np.abs(after - before).sum())

    def _expected(self) -> dict[Clique, Floats]:
        """Return the model's tables of every column and every pair."""
        alone = self.found.tables(self.found.tree.homes((i,) for i in range(len(self._columns))))
        return alone | pair_tables(self.found.tree, self.found.marginals())

    def _small(self, cliques: dict[Clique, Floats], spent: float) -> list[Clique]:
        """Return the candidates that the model holds, or that keep it within the share of its size spent so far."""
        most = self._settings.max_model_size * spent * 2**20 / 8
        tree = self.found.tree
        held = [set(clique) for clique in tree.cliques]
        return [
            clique
            for clique in cliques
            if any(each.issuperset(clique) for each in held) or model_cells(tree.sizes, [*self._asked, clique]) <= most
        ]


def weights(columns: int, target: int | None, target_weight: int) -> dict[Clique, int]:
    """Return how much of the workload, all pairs of columns, each column and each pair touches.

    Example:
        >>> weights(3, None, 1)
        {(0,): 2, (1,): 2, (2,): 2, (0, 1): 4, (0, 2): 4, (1, 2): 4}
    """
    pairs = [(i, j) for i in range(columns) for j in range(i + 1, columns)]
    touched = [0] * columns
    for pair in pairs:
        for column in pair:
            touched[column] += target_weight if target in pair else 1
    found = {(i,): touched[i] for i in range(columns)} | {(i, j): touched[i] + touched[j] for i, j in pairs}
    scale = min(_HEAVIEST / max(1, *found.values()), 1.0)
    return {clique: max(int(weight * scale), 1) for clique, weight in found.items()}
