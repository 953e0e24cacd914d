"""Adapt: what a teacher that adds up features cannot say, said by random waves over two or three of them at a time.

A row's cells have coordinates: a number's place among the rows, a category's log odds and a random point. A phase is a
random combination of the coordinates of a few features; its cosine and its sine are the waves, random Fourier features
of a smooth kernel. They are together at most 1 long, so a gradient over all of them costs no more than one over a
single feature. Corrections are Newton steps under the Hessian of rows drawn from the model. How large amplitudes are
is read off the noisy gradient itself, whose noise is known: where there is nothing to learn, hardly anything changes.

Reference:
    Rahimi and Recht 2007 (random features); MacKay 1992 (the evidence of a prior's width).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from threea.adapt.taught import Waves, softmax
from threea.anonymize.cluster_sums import MOST_SCORE, UNIT, Scores
from threea.anonymize.mean_embedding import frequencies_of
from threea.approximate.denoise import proportions
from threea.approximate.feature import Feature
from threea.approximate.tree_model import TreeModel
from threea.table.cells import Bins

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

# Settings, chosen on magic, nursery and letter.
_SCALES, _FEATURES = (0.7, 1.0, 1.5), (2, 3)
"""Standard deviations of a phase, in radians, and how many features are in one."""
_EMBEDDED = 6
"""Coordinates of a category's random point, at most."""
_IMPORTANCE = 0.25
"""Features are picked by this power of what they tell of the classes."""
_WIDTHS, _USUAL_WIDTH = np.geomspace(0.02, 30.0, 40), 3.0
"""Standard deviations that amplitudes may have, and of that itself, before anything is known."""
_EDGE = 0.003
_LEAST = 0.3
"""A row's second derivative is taken to be at least such a share of the average one: where the teacher is sure and
wrong, steps would run away. Chosen on nursery."""


def random_waves(model: TreeModel, learned: Sequence[int], phases: int, classes: int) -> Waves:
    """Return waves over a model's merged cells, with amplitudes of 0.

    Args:
        model: What says where the rows are.
        learned: Positions of the features to look at.
        phases: How many phases.
        classes: How many classes.
    """
    rng = np.random.default_rng(2)
    tables = [_coordinates(model.features[index], model.weights, rng) for index in learned]
    importance = np.array([max(model.features[index].informative(model.sizes), 0.1) for index in learned])
    owner = np.repeat(np.arange(len(tables)), [table.shape[1] for table in tables])
    radians = np.zeros((len(owner), phases))
    for phase in range(phases):
        count = min(int(rng.choice(_FEATURES)), len(tables))
        picked = rng.choice(len(tables), count, replace=False, p=proportions(importance**_IMPORTANCE))
        own = np.isin(owner, picked)
        radians[own, phase] = rng.standard_normal(own.sum()) * rng.choice(_SCALES) * math.sqrt(2 / count)
    whole = [np.rint(np.clip(table * UNIT, -MOST_SCORE, MOST_SCORE)).astype(np.int64) for table in tables]
    space = Scores(tuple(model.features[index].merged for index in learned), tuple(whole))
    return Waves(space, frequencies_of(radians), np.zeros((classes, 2 * phases)))


def _coordinates(feature: Feature, weights: Floats, rng: np.random.Generator) -> Floats:
    """Return the coordinates of a feature's merged cells."""
    mass = proportions(weights @ feature.coarse)
    groups, count = np.asarray(feature.merged.groups), feature.merged.size
    if isinstance(feature.cells, Bins):
        first, bins = len(feature.cells.special), len(feature.cells.edges) - 1
        ordered = np.full(count, -1)
        ordered[groups[first : first + bins]] = 1
        position = np.where(ordered > 0, _normal_places(mass, np.arange(count)), 0.0)
        apart = np.eye(count)[:, ordered < 0]
        return np.column_stack([position, apart])
    odds = np.log((feature.coarse + 1e-3) / (feature.coarse + 1e-3).mean(axis=0))
    odds -= (odds @ mass)[:, None]
    direction = np.linalg.svd(odds * np.sqrt(mass), full_matrices=False)[0][:, 0]
    position = _normal_places(mass, np.argsort(direction @ odds, kind="stable"))
    return np.column_stack([position, rng.standard_normal((count, min(count, _EMBEDDED)))])


def _normal_places(mass: Floats, order: Whole) -> Floats:
    """Return where cells lie, in this order, as normal scores of the rows before them."""
    below = np.cumsum(mass[order])
    places = np.empty(len(mass))
    places[order] = ndtri(np.clip(below - mass[order] / 2, _EDGE, 1 - _EDGE))
    return places


@dataclass(frozen=True, slots=True)
class Newton:
    """Newton steps on amplitudes under the Hessian of a model's rows, each drawn back by the evidence of noise.

    Args:
        values: Eigenvalues of each class's Hessian.
        vectors: Its eigenvectors.
    """

    values: Sequence[Floats]
    vectors: Sequence[Floats]

    @classmethod
    def of(cls, heights: NDArray[np.float32], logits: Floats, scale: float) -> Newton:
        """Take a Hessian from rows drawn.

        Args:
            heights: Their waves, shape (rows, waves).
            logits: Shape (classes, rows).
            scale: How many private rows each stands for.
        """
        probabilities = softmax(logits)[-(len(logits) if len(logits) > 2 else 1) :]
        values, vectors = [], []
        for p in probabilities:
            second = p * (1 - p)
            second = scale * np.maximum(second, _LEAST * second.mean())
            weighted = heights * second[:, None].astype(np.float32)
            value, vector = np.linalg.eigh(np.asarray(heights.T @ weighted, np.float64))
            values.append(np.maximum(value, 0.0))
            vectors.append(vector)
        return cls(values, vectors)

    def times(self, amplitudes: Floats) -> Floats:
        """Return the Hessian times amplitudes, class by class."""
        triples = zip(self.values, self.vectors, amplitudes, strict=True)
        return np.array([vectors @ (values * (vectors.T @ line)) for values, vectors, line in triples])

    def solved(self, told: Floats, noise: float) -> Floats:
        """Return the likeliest amplitudes, given the Hessian times them with noise of this standard deviation."""
        parts = [vectors.T @ line for vectors, line in zip(self.vectors, told, strict=True)]
        evidence = -((_WIDTHS / _USUAL_WIDTH) ** 2) / 2
        for values, part in zip(self.values, parts, strict=True):
            variance = (_WIDTHS[:, None] * values) ** 2 + noise**2
            evidence -= (np.log(variance) + part**2 / variance).sum(axis=1) / 2
        width = _WIDTHS[int(np.argmax(evidence))]
        return np.array(
            [
                vectors @ (width**2 * values / ((width * values) ** 2 + noise**2) * part)
                for values, vectors, part in zip(self.values, self.vectors, parts, strict=True)
            ]
        )
