"""Approximate: every column alone, and the pairs along a spanning tree that is chosen privately.

Reference:
    McKenna, Miklau and Sheldon 2021, Winning the NIST contest: a general and scalable approach to differentially
    private synthetic data (MST).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Plan, Step
from threea.anonymize.query import Marginal, Stack
from threea.anonymize.selection import QualityScores
from threea.approximate.denoise import proportions
from threea.approximate.feature import fine_cells
from threea.approximate.graph_column import GraphColumn
from threea.approximate.graphical import GraphicalModel
from threea.approximate.mirror_descent import Distribution, Measured, estimated, total_of
from threea.approximate.table_algebra import Clique
from threea.table.schema import Schema

Floats = NDArray[np.float64]

COLUMNS, CHOICES, TABLES = "one-way tables", "choices of tables", "chosen tables"
MOST_CELLS = 1 << 24
"""Of all pairs together; with more, columns are merged further."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanningTree:
    """One-way tables, a spanning tree of pairs chosen by how far they are from independence, and their tables.

    Args:
        bins: How many bins numeric columns are cut into.
        iterations: Steps of mirror descent.
    """

    bins: int
    iterations: int

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Take a third of the budget for each kind of question, as in the paper."""
        pairs = len(schema.modelled) - 1
        if pairs < 1:
            return (Step(name=COLUMNS, weight=1.0),)
        return (
            Step(name=COLUMNS, weight=1 / 3),
            Step(name=CHOICES, weight=1 / 3, count=pairs),
            Step(name=TABLES, weight=1 / 3),
        )

    def fit(self, table: PrivateTable, plan: Plan) -> GraphicalModel:
        """Count every column, choose pairs, count these, and fit a tree to all counts."""
        columns, asked = counted_columns(table, plan, self.bins)
        noise = {COLUMNS: columns[0].stddev}
        if len(columns) > 1:
            pairs = _chosen(columns, total_of(asked.values())[0], table, plan)
            answer = table.measure(Stack(tuple(marginal(columns, pair) for pair in pairs)), plan[TABLES])
            parts = zip(pairs, answer.parts, strict=True)
            asked |= {pair: Measured.alike(part.value, part.stddev) for pair, part in parts}
            noise[TABLES] = answer.stddev
        rows, stddev = total_of(asked.values())
        found = estimated(started(columns).holding(asked), asked, max(rows, 1.0), self.iterations)
        model = GraphicalModel(columns, found.tree, found.given, rows, stddev, noise)
        return model.without_phantoms(table.schema.target)


def counted_columns(
    table: PrivateTable, plan: Plan, bins: int
) -> tuple[tuple[GraphColumn, ...], dict[Clique, Measured]]:
    """Count the cells of every column, and merge those that do not stand out."""
    cells = [fine_cells(column, bins) for column in table.schema.modelled]
    answer = table.measure(Stack(tuple(Marginal((each,)) for each in cells)), plan[COLUMNS])
    most = max(int(math.sqrt(MOST_CELLS / max(math.comb(len(cells), 2), 1))), 2)
    columns = tuple(
        GraphColumn.of(each, part.value, part.stddev, most) for each, part in zip(cells, answer.parts, strict=True)
    )
    return columns, {(i,): Measured(*column.merged_counts) for i, column in enumerate(columns)}


def marginal(columns: tuple[GraphColumn, ...], clique: Clique) -> Marginal:
    """Return the question for a table of some columns' merged cells."""
    return Marginal(tuple(columns[column].merged for column in clique))


def started(columns: tuple[GraphColumn, ...]) -> Distribution:
    """Return where a fit starts from: every column as it was counted, telling nothing of the others."""
    shares = [proportions(column.merged_counts[0]) for column in columns]
    # Nothing is quite impossible, or no later table could say otherwise.
    potentials: dict[Clique, Floats] = {
        (i,): np.log(0.999 * share + 0.001 / len(share)) for i, share in enumerate(shares)
    }
    return Distribution.product([column.merged.size for column in columns], potentials)


def _chosen(columns: tuple[GraphColumn, ...], rows: float, table: PrivateTable, plan: Plan) -> list[tuple[int, int]]:
    """Choose a maximum spanning tree, edge by edge: the pairs that depend most on one another."""
    pairs = list(combinations(range(len(columns)), 2))
    shares = [proportions(column.merged_counts[0]) for column in columns]
    gaps = QualityScores(
        tuple(marginal(columns, pair) for pair in pairs),
        tuple(max(rows, 1.0) * np.outer(shares[i], shares[j]) for i, j in pairs),
    )
    return spanning_tree(pairs, lambda joining: table.select(gaps, plan[CHOICES], among=joining))


def spanning_tree(pairs: Sequence[tuple[int, int]], choose: Callable[[list[int]], int]) -> list[tuple[int, int]]:
    """Choose the edges of a spanning tree of all that the pairs hold, one by one, as long as there are parts to join.

    Args:
        pairs: All pairs of nodes.
        choose: Returns which pair to take next, of those at some positions.

    Example:
        >>> spanning_tree([(0, 1), (0, 2), (1, 2)], choose=max)
        [(1, 2), (0, 2)]
    """
    ends = np.array(pairs)
    part = np.arange(ends.max(initial=0) + 1)
    chosen: list[tuple[int, int]] = []
    while len(chosen) < len(part) - 1:
        joining = np.flatnonzero(part[ends[:, 0]] != part[ends[:, 1]]).tolist()
        i, j = pairs[choose(joining)]
        part[part == part[j]] = part[i]
        chosen.append((i, j))
    return chosen
