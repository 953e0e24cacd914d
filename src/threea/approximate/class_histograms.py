"""Rows per class, and histograms of every feature given the class: what clusters and Gaussians are built on."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Plan
from threea.anonymize.query import Answer, Marginal, Stack
from threea.approximate.denoise import proportions
from threea.approximate.feature import Feature, fine_cells
from threea.approximate.label_counts import CLASSES, combined, counted_label, counted_stddev
from threea.approximate.tree_model import TreeModel
from threea.table.cells import Bins, Cells

Floats = NDArray[np.float64]

HISTOGRAMS = "histograms given the label"
"""The plan's line that pays for them; that for the rows per class is `label_counts.CLASSES`."""
CLASS_STANDS_OUT = 24.0
"""Histograms are by class if a class has as many rows as this many standard deviations of their noise. Chosen."""


def class_histograms(table: PrivateTable, plan: Plan, stands_out: float = CLASS_STANDS_OUT) -> TreeModel:
    """Count the rows per class and each column by class: a tree without edges.

    Args:
        table: Whom to ask.
        plan: What pays.
        stands_out: Histograms are by class if a class has as many rows as this many standard deviations of their noise.
    """
    label, spread, counted = counted_label(table, plan)
    counted_noise = counted_stddev(table, plan)
    schema = table.schema
    if not schema.features:
        return TreeModel(label, spread, np.maximum(counted, 0.0), (), (), counted_noise, {CLASSES: counted_noise})
    asked = Stack(tuple(Marginal((column.cells(2),)) for column in schema.features))
    stddev = table.stddev(asked, plan[HISTOGRAMS])
    rows = max(float(counted.sum()), 1.0)
    # Of many columns a class's own histograms would be noise alone; the clusters' sums will tell the classes apart.
    apart = rows / len(counted) > stands_out * stddev
    given = (label,) if label and apart else ()
    cells = tuple(fine_cells(column, int(np.clip(rows / (10 * stddev), 8, 256))) for column in schema.features)
    answer = table.measure(Stack(tuple(Marginal((*given, column)) for column in cells)), plan[HISTOGRAMS])
    noise = {CLASSES: counted_noise, HISTOGRAMS: stddev}
    tables = [_smoothed(column, part, rows) for column, part in zip(cells, answer.parts, strict=True)]
    if apart:
        sizes = combined(label, counted, counted_noise, tables, stddev)
    else:
        sizes = combined(label, counted, counted_noise, (), stddev)
        # Every class has its share of a histogram, and of its noise: they add up to what was measured.
        tables = [np.outer(proportions(counted), counts) for counts in tables]
        stddev /= math.sqrt(len(counted))
    features = tuple(Feature.of(column, counts, sizes, stddev) for column, counts in zip(cells, tables, strict=True))
    return TreeModel(label, spread, sizes, features, (), stddev, noise)


def _smoothed(cells: Cells, answer: Answer, rows: float) -> Floats:
    """Return counts by class; neighbouring bins that noise drowns are evened out."""
    counts = answer.value.reshape(-1, cells.size).copy()
    if isinstance(cells, Bins):
        first, bins = len(cells.special), len(cells.edges) - 1
        stddev = answer.stddev * math.sqrt(len(counts))
        groups = int(np.clip(rows / max(3 * stddev, 1e-9), min(2, bins), bins))
        for group in np.array_split(np.arange(first, first + bins), groups):
            counts[:, group] = counts[:, group].mean(axis=1, keepdims=True)
    return counts
