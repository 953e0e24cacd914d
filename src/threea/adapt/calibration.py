"""Calibrate a teacher: how its scores go with the labels of the private rows, by one noisy histogram.

Noise on its weights, clipped gradients, and a tree that takes features for independent make a teacher too sure of
itself. Each class's logit is cut into ranges, and the private rows are counted by label and range: one bounded
question, of two classes two dozen counts. Then logits are stretched, mixed and shifted until rows drawn from the tree,
weighted to have as many in each range, would have the same labels there: Platt scaling of two classes, matrix scaling
of a few.

Reference:
    Platt 1999; Guo, Pleiss, Sun and Weinberger 2017 (matrix scaling).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from threea.adapt.taught import Waves, all_classes, softmax
from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Charge
from threea.anonymize.query import Stack
from threea.anonymize.score_histogram import MOST_LEAVES, ScoreHistogram, Trees
from threea.anonymize.wave_gradient import WaveLogits
from threea.approximate.denoise import proportions
from threea.approximate.tree_model import TreeModel
from threea.table.cells import Merged

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

MOST_CLASSES = 16
"""Of more classes, nothing is asked: each histogram would drown in the noise of all. Chosen."""
RAREST = 0.01
"""Nor of a class with a smaller share than this, which would make many rows each a little likelier to be of it: the few
that then are tell a learner nothing. Chosen on credit (LightGBM, eight splits that are not reported: AUC .946 with
calibration, .962 without)."""
# Settings, all of them chosen.
_RANGES, _ROWS = 12, 20_000
"""Ranges of a logit, and rows drawn from the tree."""
GRID = 1 << 16
"""Steps of a logit in 1."""
_STRETCH, _STRETCH_OFF, _MIX_OFF, _SHIFT_OFF = 0.7, 0.4, 0.15, 2.0
"""What a logit is taken to be stretched by before it is asked, and how far that may be off; how far each class's own
stretch and mixture of logits, and its shift."""
_TURNS, _LEAST = 12, 0.05
"""Newton steps; the smallest stretch of two classes."""
WAY = 0.75
"""How far logits are scaled, of the way that would leave them exactly as sure as they may be, in powers of the stretch.
Labels that are less sure are more noise to learners: of wide tables, the last part of the way takes more from the AUC
than it adds to calibration. Chosen on splits that are not reported, of PhysioNet (LightGBM: AUC .812, .811, .805, log
loss .359, .340, .339 with 0.5, 0.75, 1) and census (.943 and .943, .131 and .128 with 0.5 and 1)."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """How a teacher's logits are scaled.

    Args:
        matrix: How much of every class's logit is in each one's.
        shifts: What is added to each class's.
        stddev: Of the noise on the counts that it follows from.
    """

    matrix: Floats
    shifts: Floats
    stddev: float

    def weights(self, weights: Floats, first: int) -> Floats:
        """Return weights whose sums are the scaled logits; those of the first feature, so many, take the shifts."""
        scaled = self.matrix @ weights
        scaled[:, :first] += self.shifts[:, None]
        return scaled

    def errors(self, errors: Floats) -> Floats:
        """Return the standard deviations of scaled weights, were the classes' independent."""
        return np.asarray(np.sqrt(self.matrix**2 @ errors**2))


def calibrated(
    weights: Floats,
    model: TreeModel,
    classes: Sequence[int],
    learned: Sequence[int],
    table: PrivateTable,
    charge: Charge,
    way: float = WAY,
    waves: Waves | None = None,
) -> Scaling | None:
    """Ask how logits go with labels, and return how to scale them; None if by noisy counts nobody has a class.

    Cost:
        One `Gaussian` event: of two classes a row adds 1 in one place, of more in one for each class.

    Args:
        weights: One row per class, one column per merged cell of the learned features.
        model: Where rows are drawn from.
        classes: Those that the teacher knows; at most `MOST_CLASSES`.
        learned: Positions of the features that it looks at.
        table: Whom to ask.
        charge: What pays.
        way: How far to scale, of all the way.
        waves: What is added to the sums of weights, if anything.
    """
    assert model.label is not None
    cells = tuple(model.features[index].merged for index in learned)
    scores = weights[1:] - weights[:1] if len(classes) == 2 else weights - weights.mean(axis=0)
    scorers: list[Trees | WaveLogits] = [weight_sums(cells, line) for line in scores]
    if waves is not None:
        own = waves.amplitudes
        amplitudes = own[1:] - own[:1] if len(classes) == 2 else own - own.mean(axis=0)
        scorers = [
            WaveLogits(waves.space, line[None], waves.frequencies, heights[None])
            for line, heights in zip(scores, amplitudes, strict=True)
        ]
    rows = _Scored.of(scorers, model, classes, learned)
    if not rows.weights.sum() > 0:
        # By the noisy counts there is nobody: nothing to ask.
        return None
    cuts = [tuple(np.unique(_quantiles(score, rows.evenly)).tolist()) for score in rows.steps]
    histograms = (ScoreHistogram(model.label, scorer, cut) for scorer, cut in zip(scorers, cuts, strict=True))
    answer = table.measure(Stack(tuple(histograms)), charge)
    counted = [part.value[list(classes)] for part in answer.parts]
    return Scaling(*rows.scaled(counted, cuts, answer.stddev, way), answer.stddev)


def weight_sums(cells: tuple[Merged, ...], weights: Floats) -> Trees:
    """Return sums of cells' weights as trees: one for each feature, with a leaf for each cell."""
    whole = np.round(weights * GRID).astype(np.int64)
    offsets = np.cumsum([0, *(merged.size for merged in cells)])
    most = min(MOST_LEAVES, max(merged.size for merged in cells))
    owned = [
        (start, end, slice(first, min(first + most, end)))
        for start, end in pairwise(offsets.tolist())
        for first in range(start, end, most)
    ]
    # As small as can be: of thousands of features, these are gigabytes.
    reachable = np.full((len(owned), offsets[-1]), (1 << most) - 1, np.int32 if most < 32 else np.int64)
    values = np.zeros((len(owned), most), np.int64)
    for tree, (start, end, own) in enumerate(owned):
        count = own.stop - own.start
        reachable[tree, start:end] = 0
        reachable[tree, own] = 1 << np.arange(count)
        values[tree, :count] = whole[own]
    return Trees(cells, reachable, values)


def _quantiles(score: Whole, weights: Floats) -> Whole:
    order = np.argsort(score, kind="stable")
    below = np.cumsum(weights[order]) / weights.sum()
    return np.asarray(score[order[np.searchsorted(below, np.arange(1, _RANGES) / _RANGES)]])


@dataclass(frozen=True, slots=True)
class _Scored:
    """Rows drawn from the tree, as a teacher scores them.

    Args:
        steps: Logits in whole steps, shape (logits, rows).
        weights: How many private rows each stands for, were the tree right.
        evenly: The same, were all classes equally frequent.
        ratio: Share of each class.
    """

    steps: Whole
    weights: Floats
    evenly: Floats
    ratio: Floats

    @classmethod
    def of(
        cls,
        scorers: Sequence[Trees | WaveLogits],
        model: TreeModel,
        classes: Sequence[int],
        learned: Sequence[int],
    ) -> _Scored:
        group, codes = model.draw_balanced(_ROWS, np.random.default_rng(1))
        known = np.isin(group, classes)
        group = group[known]
        cells = [model.features[index].merged.merge(codes[index][known]) for index in learned]
        total = np.vstack([scorer.scores(cells) for scorer in scorers])
        often = np.bincount(group, minlength=len(model.sizes))[group]
        return cls(total, model.sizes[group] / often, 1.0 / often, proportions(model.sizes[list(classes)]))

    def scaled(
        self, counted: Sequence[Floats], cuts: Sequence[tuple[int, ...]], stddev: float, way: float
    ) -> tuple[Floats, Floats]:
        """Return the matrix and the shifts under which these rows' labels are as counted."""
        places = [np.searchsorted(cut, line, side="right") for cut, line in zip(cuts, self.steps, strict=True)]
        weights = self._raked(counted, places, stddev)
        features = np.vstack([np.ones(self.steps.shape[1]), self.steps / GRID])
        middles = [
            np.bincount(place, weights * line, len(cut) + 1)
            / np.maximum(np.bincount(place, weights, len(cut) + 1), 1e-9)
            for place, line, cut in zip(places, features[1:], cuts, strict=True)
        ]
        sums = np.mean([counts.sum(axis=1) for counts in counted], axis=0)
        moments = np.column_stack([sums, *(counts @ middle for counts, middle in zip(counted, middles, strict=True))])
        lengths = [len(middles[0]) / len(middles), *((middle**2).sum() for middle in middles)]
        fitted = _fitted(features, weights, moments, stddev**2 * np.array(lengths))
        return self._part_of_the_way(way, fitted)

    def _part_of_the_way(self, way: float, fitted: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
        """Return a matrix and shifts that scale logits less, with the private ratio of the classes in what is drawn.

        Args:
            way: By how much of what was fitted; logits that may be surer than they are, by all of it.
            fitted: Matrix and shifts of the classes that have a logit.
        """
        (matrix, shifts), scores = fitted, self.steps / GRID
        scaled = matrix @ scores
        stretch = float((self.weights * scaled * scores).sum() / max(float((self.weights * scores**2).sum()), 1e-300))
        sharper = float(np.clip(stretch, _LEAST, 1.0)) ** (way - 1)
        logits = all_classes(sharper * scaled + shifts[:, None])
        moved = np.zeros(len(logits))
        for _ in range(_TURNS):
            often = softmax(logits + moved[:, None]) @ self.weights / self.weights.sum()
            moved += np.log(np.maximum(self.ratio, 1e-9) / np.maximum(often, 1e-12))
        if len(scores) == 1:
            return sharper * float(matrix[0, 0]) * np.eye(2), np.r_[0.0, shifts[0]] + moved - moved[0]
        return sharper * matrix, shifts + moved

    def _raked(self, counted: Sequence[Floats], places: Sequence[Whole], stddev: float) -> Floats:
        """Return weights with which as many rows are in each range of each logit as were counted."""
        weights = self.weights
        for _ in range(5):
            for counts, place in zip(counted, places, strict=True):
                wanted = np.maximum(counts.sum(axis=0), stddev)
                have = np.bincount(place, weights, len(wanted))
                weights = weights * np.divide(wanted, have, out=np.ones_like(wanted), where=have > 0)[place]
        return weights


def _fitted(features: Floats, weights: Floats, moments: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """Return the logistic regression whose moments are nearest to those counted, by their noise and what is likely.

    Args:
        features: 1, and the logits; shape (features, rows).
        weights: Of the rows.
        moments: Sums of the features over rows of each class, shape (classes, features).
        noise: Variance of the noise on each feature's.
    """
    two = len(features) == 2
    moments = moments[1:] if two else moments
    classes, width = moments.shape
    start = np.column_stack([np.zeros(classes), _STRETCH * np.eye(classes)])
    own = np.tile(np.r_[_SHIFT_OFF, np.full(width - 1, 0.0 if two else _MIX_OFF)] ** 2, classes)
    stretched = (np.arange(width) == 1 + np.arange(classes)[:, None]).ravel() * _STRETCH_OFF
    precision = np.linalg.inv(np.diag(own) + np.outer(stretched, stretched))
    now = start.copy()
    for _ in range(_TURNS):
        p = softmax(all_classes(now @ features))
        p = p[1:] if two else p
        hessian = np.empty((classes, width, classes, width))
        for one in range(classes):
            for other in range(classes):
                share = weights * (p[one] * (one == other) - p[one] * p[other])
                hessian[one, :, other] = (features * share) @ features.T
        flat = hessian.reshape(classes * width, -1)
        missed = (moments - (weights * p) @ features.T).ravel()
        # What chance adds to the private rows' own labels counts as noise, too.
        trust = 1 / np.maximum(np.tile(noise, classes) + np.diag(flat), 1e-9)
        pulled = (flat * trust) @ missed - precision @ (now - start).ravel()
        move = np.linalg.solve((flat * trust) @ flat + precision, pulled).reshape(now.shape)
        now = now + np.clip(move, -0.5, 0.5)
    matrix = np.maximum(now[:, 1:], _LEAST) if two else now[:, 1:] @ (np.eye(classes) - 1 / classes)
    return matrix, now[:, 0]
