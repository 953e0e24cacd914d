"""What a teacher takes its weights to be like before it asks: those of a number's cells about linear in the number.

A single cell's weight drowns in noise where a class has few rows. How it rises or falls over all cells of a number is
one weight that all of them tell together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag, cho_factor

from threea.approximate.feature import Feature
from threea.approximate.tree_model import TreeModel
from threea.table.cells import Bins

Floats = NDArray[np.float64]

SLOPE, _RARE_SLOPE = 1.0, 4.0
"""Variance of a weight's slope over a number's standard deviation, beside 1 of each weight, and the most of it: the
rarer a class, the less its single cells tell. Chosen on Pima (AUC of the teacher .80 without, .82 with 1, .81 with 2
and 4), PhysioNet (.818, .814 with 1, .81 with 2) and credit (LightGBM, three splits: .94, .95 with 1, .97 with 4)."""
PART = 0.4
"""Variance of what a finer cell's weight differs by from that of the tree's cell it is a part of, beside 1 of that one.
Chosen on splits of diabetes130 that are not reported."""
_FARTHEST = 3.0
"""Cells farther off than so many standard deviations are taken to be there. Chosen."""
_ROUNDED = 2e-6
"""What sums in single precision are off by, at most, beside a usual one. Chosen: some ten times what was seen."""


def prior_covariance(model: TreeModel, learned: Sequence[int], rarest: float, tree: TreeModel) -> Floats:
    """Return what weights have to do with one another before any gradient, in units of a single weight's variance.

    With a tree by class, nothing but what parts of one cell share: steps along a slope made Adult's teacher unsteady.
    With pairs of all classes, slopes count as far as a class is rare: they made PhysioNet's teacher worse and credit's
    better.

    Args:
        model: What rows are drawn from.
        learned: Positions of the features that have weights.
        rarest: The smallest class weight: how much of the largest class counts beside the rarest.
        tree: The same, with the tree's own cells: what finer ones are parts of.
    """
    if not model.edges:
        slope = min(SLOPE / max(rarest, 1e-9), _RARE_SLOPE)
    else:
        slope = 0.0 if model.by_class else SLOPE * (1 - rarest)
    blocks = []
    for index in learned:
        feature = model.features[index]
        own = np.eye(feature.merged.size)
        former = feature.parts_of(tree.features[index].merged)
        if len(np.unique(former)) < len(former):
            own = PART * own + (former[:, None] == former)
        if isinstance(feature.cells, Bins) and slope > 0:
            place = places(feature, feature.cells, model.weights)
            own += slope * np.outer(place, place)
        blocks.append(own)
    return np.asarray(block_diag(*blocks))


def places(feature: Feature, cells: Bins, weights: Floats) -> Floats:
    """Return where a number's merged cells lie, in standard deviations from its mean; 0 for those that hold no range.

    Args:
        feature: The number given the label.
        cells: Its fine cells.
        weights: Of the classes.
    """
    first, bins = len(cells.special), len(cells.edges) - 1
    size = feature.merged.size
    # In units of the farthest edge, whose square may be too large for a double.
    edges = np.array(cells.edges) / max(np.abs(cells.edges).max(), 1e-300)
    middles = (edges[1:] + edges[:-1]) / 2
    # A little everywhere, so that a cell without rows has its place, too.
    mass = (weights @ feature.given)[first : first + bins] + 1e-9
    mean = float(mass @ middles) / float(mass.sum())
    deviation = float(np.sqrt(mass @ (middles - mean) ** 2 / mass.sum()))
    groups = np.asarray(feature.merged.groups)[first : first + bins]
    held, total = (np.bincount(groups, weights=w, minlength=size) for w in (mass, mass * (middles - mean)))
    average = np.divide(total, held, out=np.zeros(size), where=held > 0)
    return np.asarray(np.clip(average / max(deviation, 1e-300), -_FARTHEST, _FARTHEST))


def rounded(hessian: Floats) -> float:
    """Return by how much eigenvalues of a Hessian, summed in single precision, may be off."""
    return _ROUNDED * float(np.trace(hessian)) / len(hessian)


def factored(hessian: Floats, damping: Floats) -> Any:
    """Return the Cholesky factor of a damped Hessian, for `scipy.linalg.cho_solve`.

    Of very many rows it is large beside any damping that noise asks for, and an eigenvalue of 0 may be below 0 by what
    was rounded: it is damped by that, too.
    """
    return cho_factor(hessian + damping + rounded(hessian) * np.eye(len(hessian)))
