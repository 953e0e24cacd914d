"""Rows per class, and a histogram of every column, whatever the class: the scale on which rows become vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass

from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Plan, Step
from threea.approximate.class_histograms import HISTOGRAMS, class_histograms
from threea.approximate.label_counts import CLASSES
from threea.approximate.tree_model import TreeModel
from threea.table.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnHistograms:
    """Count the classes and every column.

    Args:
        classes: Weight of the rows per class.
        histograms: Weight of the columns.
    """

    classes: float
    histograms: float

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Ask for each once."""
        columns = (Step(name=HISTOGRAMS, weight=self.histograms),) if schema.features else ()
        return (Step(name=CLASSES, weight=self.classes), *columns)

    def fit(self, table: PrivateTable, plan: Plan) -> TreeModel:
        """Count them. No class has histograms of its own."""
        return class_histograms(table, plan, stands_out=math.inf)
