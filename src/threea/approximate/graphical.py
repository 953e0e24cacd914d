"""A graphical model of a table: small tables of columns on a junction tree, and how rows are drawn from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from threea.approximate.graph_column import GraphColumn
from threea.approximate.junction_tree import JunctionTree
from threea.approximate.table_algebra import spread
from threea.model_summary import Histogram, ModelSummary
from threea.table.conditions import Given, nothing_fits
from threea.table.schema import Chunk

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class GraphicalModel:
    """Columns that depend on one another as the cliques of a junction tree say. Plain arrays: it needs no fit.

    Args:
        columns: In the order of the table.
        tree: Their cliques.
        given: Every clique's distribution given its separator.
        rows: Noisy number of private rows.
        rows_stddev: Of the noise on it.
        noise: Of the answers, by the plan's line.
    """

    columns: tuple[GraphColumn, ...]
    tree: JunctionTree
    given: tuple[Floats, ...]
    rows: float
    rows_stddev: float
    noise: Mapping[str, float] = field(default_factory=dict)

    @property
    def summary(self) -> ModelSummary:
        """What the answers tell."""
        return ModelSummary(
            private_rows=max(round(self.rows), 0),
            private_rows_stddev=self.rows_stddev,
            histograms={c.name: Histogram(c.merged.cells, c.counts, c.stddev) for c in self.columns},
            noise=self.noise,
        )

    def without_phantoms(self, target: str | None) -> GraphicalModel:
        """Return the model whose target is missing, or "other", only if noise alone does not explain that."""
        position = next((i for i, column in enumerate(self.columns) if column.name == target), None)
        if position is None:
            return self
        column, left = self.columns[position].without_phantoms()
        home, weights = self.tree.home((position,)), list(self.given)
        weights[home] = weights[home] * spread(left, (position,), self.tree.cliques[home])
        given, possible = self.tree.collected(weights)
        # Where noise explains all of it, it stays as it is.
        columns = (*self.columns[:position], column, *self.columns[position + 1 :])
        return replace(self, columns=columns, given=tuple(given)) if possible else self

    def sample(self, rows: int, rng: np.random.Generator, given: Given | None = None) -> Chunk:
        """Draw rows, clique by clique from the roots down; conditions hold exactly.

        Of the rows that agree on a separator, as many get a cell as its probability says, up to one more or less: so
        the rows' own tables are nearer to the model's than independent draws would be.
        """
        conditions = given or {}
        tables = self._conditioned(conditions) if conditions else list(self.given)
        cells: dict[int, Whole] = {}
        for clique, separator, table in zip(self.tree.cliques, self.tree.separators, tables, strict=True):
            new = tuple(column for column in clique if column not in separator)
            axes = [clique.index(column) for column in (*separator, *new)]
            ordered = np.transpose(table, axes)
            shape = self.tree.shape(separator)
            group = np.ravel_multi_index([cells[c] for c in separator], shape) if separator else np.zeros(rows, int)
            drawn = drawn_evenly(ordered.reshape(int(np.prod(shape)), -1), group, rng)
            cells |= dict(zip(new, np.unravel_index(drawn, self.tree.shape(new)), strict=True))
        chunk: Chunk = {}
        for position, column in enumerate(self.columns):
            chunk |= column.drawn(cells[position], rng, conditions.get(column.name))
        return chunk

    def _conditioned(self, conditions: Given) -> list[Floats]:
        """Return the cliques' distributions, given conditions on columns.

        Raises:
            SettingError: Nothing fits.
        """
        weights = list(self.given)
        for position, column in enumerate(self.columns):
            if column.name in conditions:
                home = self.tree.home((position,))
                likelihood = column.likelihood(conditions[column.name])
                weights[home] = weights[home] * spread(likelihood, (position,), self.tree.cliques[home])
        found, possible = self.tree.collected(weights)
        if not possible:
            raise nothing_fits(conditions)
        return found


def drawn_evenly(weights: Floats, group: Whole, rng: np.random.Generator) -> Whole:
    """Draw a column for each entry of `group`, by the weights in that row: each nearly as often as it weighs.

    The rows of a group are put in a random order, and the first of them takes a random point of the first of as many
    equal parts of the weights as there are rows, and so on (stratified sampling).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> np.bincount(drawn_evenly(np.array([[1.0, 3.0]]), np.zeros(8, int), rng))
        array([2, 6])
    """
    if not len(group):
        return np.zeros(0, np.int64)
    order = rng.permutation(len(group))
    order = order[np.argsort(group[order], kind="stable")]
    present, first, count = np.unique(group[order], return_index=True, return_counts=True)
    local = np.repeat(np.arange(len(present)), count)
    part = (np.arange(len(group)) - first[local] + rng.random(len(group))) / count[local]
    held = np.where(weights[present].sum(axis=1, keepdims=True) > 0, weights[present], 1.0)
    cumulative = np.cumsum(held, axis=1)
    ladder = (cumulative / cumulative[:, -1:] + np.arange(len(present))[:, None]).ravel()
    place = np.searchsorted(ladder, np.minimum(part, np.nextafter(1.0, 0.0)) + local, side="right")
    # Rounding may pass the last that weighs anything.
    last = weights.shape[1] - 1 - np.argmax(held[:, ::-1] > 0, axis=1)
    drawn = np.empty(len(group), np.int64)
    drawn[order] = np.clip(place - local * weights.shape[1], 0, last[local])
    return drawn
