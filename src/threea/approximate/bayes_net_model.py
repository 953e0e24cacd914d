"""A Bayesian network of columns: how rows are drawn from it, with and without conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from threea.approximate.conditioning import distributions, resampled
from threea.approximate.denoise import draw
from threea.approximate.feature import Feature
from threea.model_summary import Histogram, ModelSummary
from threea.table.cells import Merged
from threea.table.conditions import Given, draw_fitting, fitting, nothing_fits
from threea.table.schema import Chunk

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

_POOL, _FEWEST = 8, 4096
"""Rows drawn for each one wanted where conditions are on more than the first column, and at least. Chosen."""


@dataclass(frozen=True, slots=True)
class Node:
    """An attribute and its parents: an AP pair.

    Args:
        feature: The attribute X, as a feature of a single class.
        parents: Positions of the nodes in its parent set, all of them before it.
        levels: Their cells in the table, each put together into fewer.
        given: The distribution of X over its merged cells, a row for each combination of the parents' cells.
        gap: How many rows more or less there are than if X did not depend on its parents.
    """

    feature: Feature
    parents: tuple[int, ...]
    levels: tuple[Merged, ...]
    given: Floats
    gap: float

    def row(self, codes: Sequence[Whole], rows: int) -> Whole:
        """Return which row of the table each combination of the nodes' fine cells is in."""
        return rows_of(self.levels, [codes[parent] for parent in self.parents], rows)

    def draw(self, row: Whole, rng: np.random.Generator, fit: Floats | None = None) -> tuple[Whole, Floats]:
        """Draw fine cells that fit; return them, and how likely that was in each row."""
        weights = distributions(self.given)
        if fit is not None:
            weights = weights * self.feature.likelihood(fit)
        merged = draw(weights, row, rng)
        fine = self.feature.refined(merged, np.zeros_like(merged), rng, fit)
        return fine, np.asarray(weights.sum(axis=1))[row]


def rows_of(levels: Sequence[Merged], codes: Sequence[Whole], rows: int) -> Whole:
    """Number combinations of merged cells as NumPy does, given the fine cells."""
    row = np.zeros(rows, np.int64)
    for level, code in zip(levels, codes, strict=True):
        row = row * level.size + level.merge(code)
    return row


@dataclass(frozen=True, slots=True)
class BayesNetModel:
    """The columns, each given its parents, which come before it.

    Args:
        nodes: In the order in which they are drawn.
        count: The noisy number of private rows.
        count_stddev: Of the noise on it.
        noise: Of every answer, by the plan's line.
    """

    nodes: tuple[Node, ...]
    count: float
    count_stddev: float
    noise: Mapping[str, float]

    @property
    def summary(self) -> ModelSummary:
        """What the noisy answers tell."""
        return ModelSummary(
            private_rows=max(round(self.count), 0),
            private_rows_stddev=self.count_stddev,
            histograms={
                node.feature.cells.column: Histogram(node.feature.cells, node.feature.counts[0], node.feature.stddev)
                for node in self.nodes
            },
            noise=self.noise,
        )

    def sample(self, rows: int, rng: np.random.Generator, given: Given | None = None) -> Chunk:
        """Draw the columns one after another, each given its parents.

        Conditions hold exactly, for only what fits is drawn. What was drawn before does not know of them: so a pool of
        `_POOL` times as many rows is drawn, and rows are chosen from it by how likely all that is asked for was, given
        what was drawn before (likelihood weighting). A condition on the first column alone needs no pool.

        Raises:
            SettingError: Nothing fits.
        """
        first = self.nodes[0].feature.cells.column
        if not given or set(given) == {first}:
            codes, weights = self._codes(rows, rng, given or {})
            if given and rows and not weights.any():
                raise nothing_fits(given)
        else:
            codes, weights = self._codes(max(_POOL * rows, _FEWEST), rng, given)
            chosen = resampled(weights, rows, rng, given)
            codes = [code[chosen] for code in codes]
        chunk: Chunk = {}
        for node, code in zip(self.nodes, codes, strict=True):
            cells = node.feature.cells
            chunk[cells.column] = draw_fitting(cells, code, rng, (given or {}).get(cells.column))
        return chunk

    def _codes(self, rows: int, rng: np.random.Generator, given: Given) -> tuple[list[Whole], Floats]:
        """Draw fine cells that fit; return them, and the likelihood of each row's conditions."""
        codes: list[Whole] = []
        weights = np.ones(rows)
        for node in self.nodes:
            condition = given.get(node.feature.cells.column)
            fit = None if condition is None else fitting(node.feature.cells, condition)
            fine, likely = node.draw(node.row(codes, rows), rng, fit)
            codes.append(fine)
            if fit is not None:
                weights = weights * likely
        return codes, weights
