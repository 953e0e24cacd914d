"""Rows per class, and histograms of every feature given the class: what clusters and Gaussians are built on."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Plan
from threea.anonymize.query import Marginal, Stack
from threea.approximate.denoise import proportions
from threea.approximate.feature import Feature, fine_cells
from threea.approximate.label_counts import CLASSES, counted_label
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
    counted = counted_label(table, plan)
    label, schema = counted.label, table.schema
    noise = {CLASSES: counted.stddev}
    if not schema.features:
        sizes, told = np.maximum(counted.sizes, 0.0), counted.combined()[1]
        return TreeModel(label, counted.spread, sizes, (), (), counted.stddev, noise, answered=told)
    asked = Stack(tuple(Marginal((column.cells(2),)) for column in schema.features))
    stddev = table.stddev(asked, plan[HISTOGRAMS])
    rows, classes = max(float(counted.sizes.sum()), 1.0), len(counted.sizes)
    # Of many columns a class's own histograms would be noise alone; the clusters' sums will tell the classes apart.
    apart = rows / classes > stands_out * stddev
    given = (label,) if label and apart else ()
    cells = tuple(fine_cells(column, int(np.clip(rows / (10 * stddev), 8, 256))) for column in schema.features)
    answer = table.measure(Stack(tuple(Marginal((*given, column)) for column in cells)), plan[HISTOGRAMS])
    noise = {**noise, HISTOGRAMS: stddev}
    tables = [part.value.reshape(-1, column.size) for column, part in zip(cells, answer.parts, strict=True)]
    smooth = [_smoothed(column, counts, stddev, rows) for column, counts in zip(cells, tables, strict=True)]
    if apart:
        sizes, told = counted.combined(smooth, stddev)
    else:
        sizes, told = counted.combined()
        # Every class has its share of a histogram, and of its noise: they add up to what was measured.
        share = proportions(counted.sizes)[:, None]
        tables, smooth = ([share * counts for counts in some] for some in (tables, smooth))
        stddev /= math.sqrt(classes)
    features = tuple(
        # Rows are drawn from smooth counts; what is shown is what was answered.
        replace(Feature.of(column, drawn, sizes, stddev), counts=counts)
        for column, drawn, counts in zip(cells, smooth, tables, strict=True)
    )
    return TreeModel(label, counted.spread, sizes, features, (), stddev, noise, answered=told)


def _smoothed(cells: Cells, answered: Floats, stddev: float, rows: float) -> Floats:
    """Return counts by class; neighbouring bins that noise drowns are evened out."""
    counts = answered.copy()
    if isinstance(cells, Bins):
        first, bins = len(cells.special), len(cells.edges) - 1
        groups = int(np.clip(rows / max(3 * stddev * math.sqrt(len(counts)), 1e-9), min(2, bins), bins))
        for group in np.array_split(np.arange(first, first + bins), groups):
            counts[:, group] = counts[:, group].mean(axis=1, keepdims=True)
    return counts
