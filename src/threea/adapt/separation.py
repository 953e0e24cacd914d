"""Adapt: two classes of wide rows are drawn as far apart as they are.

Noisy moments of hundreds of columns say best of all where the classes differ by noise and by chance, and Gaussians know
nothing of classes in several lumps. So a linear classifier that follows from them may look much better on their rows
than it is, or worse; from rows that are too easy to tell apart, a learner is soon too sure of itself. Its scores are
counted by class, once, and the means are moved along the line between them until the model's scores are as far apart,
beside their spread, as the private rows'.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.special import ndtr

from threea.adapt.calibration import GRID, weight_sums
from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Charge, Plan, Step
from threea.anonymize.query import Marginal
from threea.anonymize.score_histogram import ScoreHistogram
from threea.approximate.gaussians import GaussianModel
from threea.approximate.histograms import HistogramModel
from threea.table.cells import Categories, Cells, Merged
from threea.table.schema import Origin, Schema

Floats = NDArray[np.float64]

STEP = "how far apart classes are"
# Settings, all of them chosen.
_RANGES, _BEYOND = 12, 3.0
"""Ranges of a score, from so many standard deviations below the lower class's mean to as many above the other's."""
_USUAL, _USUALLY_OFF = np.array([0.0, -0.3, 0.3]), np.array([1.0, 0.5, 0.4])
"""What is taken to be so before it is asked, and how far it may be off: by how many standard deviations scores are
shifted; how far apart classes are, and how wide, beside what the model says, as logarithms."""
_FARTHEST_OFF = 8.0
"""Nothing is looked for farther off than so many times that."""
_FARTHEST = 2.0
"""How far means may be moved apart, as a multiple of what they were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Separation:
    """Moves the means of two classes towards each other, or apart.

    Args:
        weight: Its share of the budget, relative to the approximation's 1.
    """

    weight: float

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        """Ask for one histogram, where the target has two classes, or may yet be found to."""
        if schema.target is None:
            return ()
        target = schema[schema.target]
        found = schema.origin is Origin.TYPES and not schema.number_target and (target.whole or not target.kind.numeric)
        return (Step(name=STEP, weight=self.weight),) if found or _has_two(target.cells(2)) else ()

    def adapt(
        self, model: GaussianModel | HistogramModel, table: PrivateTable, plan: Plan
    ) -> GaussianModel | HistogramModel:
        """Count the scores, and return the model with its classes as far apart.

        Where there are not two classes to move, the rows of each are counted once more instead.

        Cost:
            One `Gaussian` event: a row adds 1 in one place.
        """
        if not isinstance(model, GaussianModel) or STEP not in {line.name for line in plan.lines}:
            return model
        label = model.label
        assert label is not None, "only a target is asked about"
        weights = model.direction if _has_two(label) else np.zeros(0)
        if not weights.any():
            return _counted_again(model, label, table, plan[STEP])
        apart = float((model.centres[1] - model.centres[0]) @ weights)
        # Centres are seen from the columns' means, which were moved since their cells were scored.
        seen_from = np.array([column.offset for column in model.columns])
        middle = float((seen_from + model.centres[:2].mean(axis=0)) @ weights)
        reach = apart / 2 + _BEYOND
        edges = middle + np.linspace(-reach, reach, _RANGES + 1)[1:-1]
        cells = tuple(Merged(cells=column.cells, groups=tuple(range(column.cells.size))) for column in model.columns)
        line = np.concatenate([weight * column.score for weight, column in zip(weights, model.columns, strict=True)])
        cuts = tuple(np.unique(np.rint(edges * GRID).astype(np.int64)).tolist())
        answer = table.measure(ScoreHistogram(label, weight_sums(cells, line), cuts), plan[STEP])
        counts = answer.value[:2]
        return model.moved_apart(_fitted(counts, np.array(cuts) / GRID - middle, apart, answer.stddev))


def _has_two(label: Cells) -> bool:
    """Return whether two values of the label are listed."""
    return isinstance(label, Categories) and label.count - label.other == 2


def _counted_again(model: GaussianModel, label: Cells, table: PrivateTable, charge: Charge) -> GaussianModel:
    """Put a second count of the rows per class together with the first, each by its precision."""
    again = table.measure(Marginal((label,)), charge)
    first, second = (max(answer.stddev, 1e-9) ** -2 for answer in (model.classes, again))
    both = (first * model.classes.value + second * again.value) / (first + second)
    return replace(model, classes=replace(again, value=both, stddev=(first + second) ** -0.5))


def _fitted(counts: Floats, edges: Floats, apart: float, stddev: float) -> float:
    """Return how far apart two classes are beside their width, as a multiple of what a model says.

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
        counted: Floats = sizes * np.diff(below, axis=1, prepend=0.0, append=1.0)
        return counted

    # What chance adds to the private rows' own scores counts as noise, too.
    trust = 1 / np.sqrt(stddev**2 + expected(_USUAL) + 1e-9)

    def missed(known: Floats) -> Floats:
        return np.concatenate([((expected(known) - counts) * trust).ravel(), (known - _USUAL) / _USUALLY_OFF])

    reach = _FARTHEST_OFF * _USUALLY_OFF
    _, further, wider = least_squares(missed, _USUAL, bounds=(_USUAL - reach, _USUAL + reach)).x
    return min(math.exp(float(further - wider)), _FARTHEST)
