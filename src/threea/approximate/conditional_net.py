"""Approximate: child rows given their parent's row, by a Bayesian network that begins with the parent's columns.

The parent's columns are neither counted nor chosen again: what they are like among the children is drawn from the
parents' own model. So the whole price is for the child's columns, and for what they depend on.

Reference:
    Zhang, Cormode, Procopiuc, Srivastava and Xiao 2017, PrivBayes; given columns are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Plan, Step
from threea.approximate.bayes_net import BINS, ONE_WAY, BayesNet, one_way
from threea.approximate.bayes_net_model import Node
from threea.approximate.feature import Feature, fine_cells
from threea.approximate.growing_net import DRAWS, GrowingNet
from threea.model_summary import Histogram, ModelSummary
from threea.table.cells import Cells, Merged
from threea.table.schema import Chunk, Column, Schema

Whole = NDArray[np.int64]

PARENT_ROWS = DRAWS
"""How many parents' rows `ConditionalNet.fit` is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionalNet:
    """A Bayesian network over the columns of child rows, whose first attributes are given.

    Args:
        net: How it is grown.
        given: The columns that are given: those of the parent.
    """

    net: BayesNet
    given: tuple[str, ...]

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Count every column that is not given; then choose an AP pair for each, and count its table."""
        count = len(self._own(schema))
        return self.net.priced(count, count)

    def fit(self, table: PrivateTable, plan: Plan, parents: Chunk) -> ConditionalNetModel:
        """Count the child's columns one by one, then grow the network from the parent's.

        Args:
            table: Child rows, each with its parent's columns.
            plan: What pays.
            parents: `PARENT_ROWS` rows of the columns that are given, as child rows would have them; made from
                answers that were paid for.
        """
        own = self._own(table.schema)
        cells = tuple(fine_cells(table.schema[name], BINS) for name in self.given)
        codes = [each.index(parents[each.column]) for each in cells]
        counted = one_way(own, table, plan)
        features = [_as_drawn(each, code, counted.rows) for each, code in zip(cells, codes, strict=True)]
        net = GrowingNet([*features, *counted.features], counted.rows, codes)
        target = len(cells) if own[0].name == table.schema.target else None
        noise = self.net.grown(net, target, table, plan)
        noise = {ONE_WAY: counted.stddev, **noise}
        return ConditionalNetModel(cells, tuple(net.nodes), counted.total, counted.total_stddev, noise)

    def _own(self, schema: Schema) -> list[Column]:
        """Return the columns that are not given, the target first: it is a parent of all others where it fits."""
        own = [column for column in schema.modelled if column.name not in self.given]
        return sorted(own, key=lambda column: column.name != schema.target)


@dataclass(frozen=True, slots=True)
class ConditionalNetModel:
    """The child's columns, each given some of the parent's and of those before it.

    Args:
        given: The cells of the parent's columns.
        nodes: The child's columns, in the order in which they are drawn.
        count: The noisy number of private child rows.
        count_stddev: Of the noise on it.
        noise: Of every answer, by the plan's line.
    """

    given: tuple[Cells, ...]
    nodes: tuple[Node, ...]
    count: float
    count_stddev: float
    noise: Mapping[str, float]

    @property
    def summary(self) -> ModelSummary:
        """What the noisy answers tell."""
        features = [node.feature for node in self.nodes]
        return ModelSummary(
            private_rows=max(round(self.count), 0),
            private_rows_stddev=self.count_stddev,
            histograms={f.cells.column: Histogram(f.cells, f.counts[0], f.stddev) for f in features},
            noise=self.noise,
        )

    def sample(self, parents: Chunk, rng: np.random.Generator) -> Chunk:
        """Draw a child for each row of the parent's columns, exactly as the network says: what is given comes first."""
        codes = [cells.index(parents[cells.column]) for cells in self.given]
        rows, chunk = len(codes[0]), Chunk()
        for node in self.nodes:
            codes.append(node.draw(node.row(codes, rows), rng)[0])
            chunk[node.feature.cells.column] = node.feature.cells.draw(codes[-1], rng)
        return chunk


def _as_drawn(cells: Cells, codes: Whole, rows: float) -> Feature:
    """Return a given column as a feature of a single class, by how often its cells were drawn."""
    shares = np.bincount(codes, minlength=cells.size)[None, :] / max(len(codes), 1)
    return Feature(cells, rows * shares, shares, Merged(cells=cells, groups=tuple(range(cells.size))), 0.0)
