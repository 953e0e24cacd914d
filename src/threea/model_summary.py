"""What a model shows of itself, as data: noisy histograms, a tree of features, the terms of a classifier, a loss.

Models make them, the report draws them. Everything in them follows from noisy answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from threea.table.cells import Cells, Merged
from threea.table.schema import Chunk


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


@dataclass(frozen=True, slots=True)
class CurveFigure:
    """How a network's loss went while it was trained, for looking at.

    Args:
        name: What was trained.
        losses: The mean loss in each of equally long stretches of the training, in order.
    """

    name: str
    losses: tuple[float, ...]
    kind: Literal["curve"] = field(default="curve", init=False)


Figure = TreeFigure | TermsFigure | CurveFigure


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSummary:
    """What a model says of itself, as far as its noisy answers tell; it may leave out any of it.

    Args:
        private_rows: The noisy number of private rows; None if it was not measured.
        private_rows_stddev: Of the noise on it, at most.
        histograms: Noisy counts by column.
        figures: What else can be drawn.
        noise: Standard deviation of each number in an answer, in rows, by the name of the plan's line.
        class_shares: Share of the synthetic and noisy share of the private rows, by the target's code, where classes
            are drawn in another ratio than the private table's; empty if they are not.
        settings: Those of the recipe's settings that were chosen on the way.
        points: The encoded rows of a model that is a finite set, each released once; None if rows are drawn.
    """

    private_rows: float | None = None
    private_rows_stddev: float = 0.0
    histograms: Mapping[str, Histogram] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()
    noise: Mapping[str, float] = field(default_factory=dict)
    class_shares: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    points: Chunk | None = None
