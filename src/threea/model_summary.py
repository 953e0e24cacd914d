"""What a model shows of itself, as data: noisy histograms, a tree of features, the terms of a classifier.

Models make them, the report draws them. Everything in them follows from noisy answers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from threea.table.cells import Cells, Merged


@dataclass(frozen=True, slots=True)
class Histogram:
    """Noisy counts of a column's cells, for looking at."""

    cells: Cells
    counts: NDArray[np.float64]
    stddev: float


@dataclass(frozen=True, slots=True)
class TreeFigure:
    """Which features a model draws given which, for looking at.

    Args:
        nodes: The features' names, each after the one it is drawn from.
        parents: For each feature, the position of that one; None for a root.
        strengths: For each feature, the share of rows that would have to change for it not to depend on its parent.
    """

    nodes: tuple[str, ...]
    parents: tuple[int | None, ...]
    strengths: tuple[float, ...]
    kind: Literal["tree"] = field(default="tree", init=False)


@dataclass(frozen=True, slots=True)
class Term:
    """What a cell of a feature says for a class, in log-odds against the average row.

    Args:
        classes: The target's classes.
        group: Which of them.
        cells: The feature's cells.
        cell: Which of them.
        weight: How much it says.
        stddev: Of the weight, by the noise alone.
    """

    classes: Merged
    group: int
    cells: Merged
    cell: int
    weight: float
    stddev: float


@dataclass(frozen=True, slots=True)
class TermsFigure:
    """What a linear classifier learned, for looking at: its largest weights, and how many it has.

    Args:
        terms: From the largest on.
        total: How many there are in all.
        two: Whether there are two classes, so that what speaks for one speaks against the other.
    """

    terms: tuple[Term, ...]
    total: int
    two: bool
    kind: Literal["terms"] = field(default="terms", init=False)


Figure = TreeFigure | TermsFigure
