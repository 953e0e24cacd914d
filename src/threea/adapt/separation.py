"""Adapt: two classes of wide rows are drawn as far apart as they are.

Noisy means and covariances of hundreds of columns say best of all where the classes differ by chance and noise, and a
linear classifier that follows from them looks better on them than it is. Rows drawn so are too easy to tell apart: a
learner is sure of itself too soon. So this classifier's scores are counted by class, once, and the means are moved
towards each other until the Gaussians' scores are as far apart, beside their spread, as the private rows'.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.special import ndtr

from threea.adapt.calibration import GRID, weight_sums
from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Plan, Step
from threea.anonymize.query import Marginal
from threea.anonymize.score_histogram import ScoreHistogram
from threea.approximate.gaussians import ROWS, GaussianModel
from threea.approximate.histograms import HistogramModel
from threea.table.cells import Categories, Merged
from threea.table.schema import Origin, Schema

Floats = NDArray[np.float64]

STEP = "how far apart classes are"
# Settings, all of them chosen.
_RANGES, _BEYOND = 12, 3.0
"""Ranges of a score, from so many standard deviations below the lower class's mean to as many above the other's."""
_USUAL, _USUALLY_OFF = np.array([0.0, -0.3, 0.3]), np.array([1.0, 0.5, 0.4])
"""What is taken to be so before it is asked, and how far it may be off: by how many standard deviations scores are
shifted; how far apart classes are, and how wide, beside what the model says, as logarithms."""
_STANDS_OUT = 3.0
"""A class with fewer rows than so many standard deviations of the noise is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Separation:
    """Moves the means of two classes towards each other.

    Args:
        weight: Its share of the budget, relative to the approximation's 1.
    """

    weight: float

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Ask for one histogram, where the target has two classes, or may yet be found to."""
        if schema.target is None:
            return ()
        cells = schema[schema.target].cells(2)
        two = isinstance(cells, Categories) and cells.count - cells.other == 2
        found = schema.origin is Origin.TYPES and not schema.number_target
        return (Step(name=STEP, weight=self.weight),) if two or found else ()

    def adapt(
        self, model: GaussianModel | HistogramModel, table: PrivateTable, plan: Plan
    ) -> GaussianModel | HistogramModel:
        """Count the scores, and return the model with its classes as far apart; of any but two classes, as it is.

        Cost:
            One `Gaussian` event: a row adds 1 in one place.
        """
        if not isinstance(model, GaussianModel) or not isinstance(model.label, Categories):
            return model
        stddev = table.stddev(Marginal((model.label,)), plan[ROWS])
        found = np.atleast_1d(model.classes.value)[: model.label.count - model.label.other] > _STANDS_OUT * stddev
        weights = model.direction if len(found) == 2 and found.all() else np.zeros(0)
        if not self.steps(table.schema) or not weights.any():
            return model
        apart = float((model.centres[1] - model.centres[0]) @ weights)
        middle = float(model.offsets @ weights + model.centres[:2].mean(axis=0) @ weights)
        reach = apart / 2 + _BEYOND
        edges = middle + np.linspace(-reach, reach, _RANGES + 1)[1:-1]
        cells = tuple(Merged(cells=column.cells, groups=tuple(range(column.cells.size))) for column in model.columns)
        line = np.concatenate([weight * column.score for weight, column in zip(weights, model.columns, strict=True)])
        cuts = tuple(np.unique(np.rint(edges * GRID).astype(np.int64)).tolist())
        answer = table.measure(ScoreHistogram(model.label, weight_sums(cells, line), cuts), plan[STEP])
        counts = answer.value[:2]
        return model.drawn_together(_fitted(counts, np.array(cuts) / GRID - middle, apart, answer.stddev))


def _fitted(counts: Floats, edges: Floats, apart: float, stddev: float) -> float:
    """Return how far apart two classes are beside their width, as a share of what a model says; at most 1.

    Args:
        counts: Noisy counts of each class's scores, by range.
        edges: Where ranges end, from the middle between the classes, in standard deviations by the model.
        apart: How far the model says they are apart.
        stddev: Of the noise on a count.
    """
    sizes = np.maximum(counts.sum(axis=1, keepdims=True), stddev)
    places = np.array([[-0.5], [0.5]]) * apart

    def expected(known: Floats) -> Floats:
        shift, further, wider = known
        below = ndtr((edges - shift - places * math.exp(further)) / math.exp(wider))
        return np.asarray(sizes * np.diff(below, axis=1, prepend=0.0, append=1.0))

    # What chance adds to the private rows' own scores counts as noise, too.
    trust = 1 / np.sqrt(stddev**2 + expected(_USUAL) + 1e-9)

    def missed(known: Floats) -> Floats:
        return np.r_[((expected(known) - counts) * trust).ravel(), (known - _USUAL) / _USUALLY_OFF]

    _, further, wider = least_squares(missed, _USUAL).x
    return min(math.exp(further - wider), 1.0)
