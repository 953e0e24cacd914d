"""A tree whose rows a teacher labels: what `Teacher` makes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from threea.anonymize.cluster_sums import Scores
from threea.anonymize.lookup_sums import blocks
from threea.anonymize.mean_embedding import ANGLE_BITS, angles_of, check_frequencies
from threea.approximate.conditioning import resampled
from threea.approximate.denoise import draw
from threea.approximate.tree_model import TreeModel
from threea.errors import SettingError
from threea.model_summary import Figure, ModelSummary, Term, TermsFigure
from threea.table.conditions import Given
from threea.table.schema import Chunk

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

_SHOWN = 15
"""How many of the teacher's weights are shown."""
_POOL = 4
"""Rows drawn from the tree for each one wanted whose label must fit. Chosen."""
_ALIKE, _FEWEST, _FEWEST_RARE = 8, 1 << 13, 32
"""How many rows of a chunk may be in the same merged cells, if so many that are not remain, and so many of the rarest
class. Chosen on splits that are not reported of diabetes130, adult, census and others: more takes from the variety of
rows. The last was chosen on credit, where it makes no difference beyond chance."""
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, slots=True, eq=False)
class Waves:
    """Random waves over the features a teacher looks at.

    Args:
        space: The coordinates of merged cells.
        frequencies: What phases are made of, as of `WaveLogits`.
        amplitudes: Shape (classes, twice the phases): of all cosines, then all sines.

    Raises:
        SettingError: The parts do not fit one another, or a number is out of range.
    """

    space: Scores
    frequencies: Whole
    amplitudes: Floats

    def __post_init__(self) -> None:
        object.__setattr__(self, "frequencies", check_frequencies(self.frequencies, self.space.width))
        if self.amplitudes.ndim != 2 or self.amplitudes.shape[1] != 2 * self.frequencies.shape[1]:
            raise SettingError(f"amplitudes ({self.amplitudes.shape}) must be two for each phase")

    def heights(self, coarse: Sequence[Whole]) -> NDArray[np.float32]:
        """Return rows' waves, together 1 long, from their merged cells; shape (rows, waves)."""
        phases = self.space.coordinates(coarse) @ (self.frequencies + 0.0)
        radians = (angles_of(phases) + 0.5).astype(np.float32) * np.float32(2 * math.pi / (1 << ANGLE_BITS))
        waves = np.hstack([np.cos(radians), np.sin(radians)]) / math.sqrt(self.frequencies.shape[1])
        return np.asarray(waves, np.float32)

    def logits(self, coarse: Sequence[Whole]) -> Floats:
        """Return what waves add to logits, shape (classes, rows)."""
        total = np.empty((len(self.amplitudes), len(coarse[0])))
        for block in blocks(len(coarse[0]), self.amplitudes.shape[1]):
            total[:, block] = self.amplitudes @ self.heights([cells[block] for cells in coarse]).T
        return total

    def scaled(self, matrix: Floats) -> Waves:
        """Return waves whose logits are mixed so."""
        return replace(self, amplitudes=matrix @ self.amplitudes)


@dataclass(frozen=True)
class Taught:
    """A tree whose rows a teacher labels.

    Args:
        model: Where rows are drawn from.
        classes: Those that the teacher knows.
        learned: Positions of the features it looks at.
        weights: One per class and merged cell of these.
        alpha: Share of labels that stay the model's own.
        errors: Standard deviation of each weight, less the average row's for the same feature, by the gradients' noise.
            To first order: what the tree's Hessian is off by is not in it.
        noise: Of every answer, by the plan's line.
        waves: What it says of several features at a time, if anything.
    """

    model: TreeModel
    classes: tuple[int, ...]
    learned: tuple[int, ...]
    weights: Floats
    alpha: float
    errors: Floats
    noise: Mapping[str, float]
    waves: Waves | None = None

    @property
    def summary(self) -> ModelSummary:
        """The model's, whose ratio of the classes the teacher keeps, and what the teacher adds to it."""
        return replace(self.model.summary, figures=self.figures, noise=self.noise)

    @property
    def effects(self) -> Floats:
        """The weights, less the average row's for the same feature: what a cell says for or against a class."""
        return self.weights @ centred(self.model, self.learned).T

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The model's, and the teacher's largest weights."""
        assert self.model.label is not None
        effects = self.effects
        cells = [
            (self.model.features[index].merged, cell)
            for index in self.learned
            for cell in range(self.model.features[index].merged.size)
        ]
        two = len(self.classes) == 2
        # Of two classes, the first one's weights are 0.
        shown = effects[1:] if two else effects
        largest = np.argsort(-np.abs(shown), axis=None, kind="stable")[:_SHOWN]
        terms = []
        for row, column in zip(*np.unravel_index(largest, shown.shape), strict=True):
            row += two
            weight, error = float(effects[row, column]), float(self.errors[row, column])
            merged, cell = cells[column]
            terms.append(Term(self.model.label, self.classes[row], merged, cell, weight, error))
        return (*self.model.figures, TermsFigure(tuple(terms), shown.size, two))

    def sample(self, rows: int, rng: np.random.Generator, given: Given | None = None) -> Chunk:
        """Draw rows, and let the teacher label them.

        Of many rows, `_ALIKE` are in the same merged cells, each with values of its own. They share the classes'
        probabilities, and as many get a class as these say: what is chance in labels, a learner takes for a fact.

        Conditions on features hold exactly. One on the label holds by weighting: of a pool of `_POOL` times as many
        rows of the tree, those are chosen that the teacher would label so, in proportion to how likely it would.
        """
        assert self.model.label is not None
        if given and self.model.label.column in given:
            return self._labelled(rows, rng, given)
        rarest = float(self.model.ratio[list(self.classes)].min())
        alike = max(min(rows // _FEWEST, int(rarest * rows / _FEWEST_RARE), _ALIKE), 1)
        group, merged = self.model.draw_merged(-(-rows // alike), rng, given)
        probabilities = softmax(self._logits(merged))
        chosen = rng.permutation(np.repeat(np.arange(len(group)), alike)[:rows])
        group, coarse = group[chosen], [cells[chosen] for cells in merged]
        codes = self.model.refined(group, coarse, rng, given)
        mine = np.isin(group, self.classes) & (rng.random(rows) >= self.alpha)
        group[mine] = np.asarray(self.classes)[systematic_sample(probabilities[:, chosen[mine]], rng)]
        return self.model.decoded(group, codes, rng, given)

    def _labelled(self, rows: int, rng: np.random.Generator, given: Given) -> Chunk:
        """Draw rows whose label fits.

        Half of the pool is drawn as the tree would label rows so, half whatever their label. A row's weight is how
        likely its label fits over how often the pool has such rows: at most 2, whatever tree and teacher disagree on.
        """
        assert self.model.label is not None
        free = {name: condition for name, condition in given.items() if name != self.model.label.column}
        fit = self.model.label_likelihood(given)
        classes = self.model.conditioned(free)[0]
        half, likely = _POOL * max(rows, 1) // 2, float(classes @ fit)
        draws = [
            self.model.draw_merged(half, rng, condition)[1] for condition in ((free, given) if likely else (free,))
        ]
        coarse = [np.concatenate(parts) for parts in zip(*draws, strict=True)]
        before = self.model.class_probabilities(coarse, free)
        own = before * fit[:, None]
        stays, taught = self._labels(coarse, before)
        labels = (stays + taught) * fit[:, None]
        often = (1 + own.sum(axis=0) / likely) / 2 if likely else 1.0
        chosen = resampled(labels.sum(axis=0) / often, rows, rng, given)
        group = draw(labels[:, chosen].T, np.arange(rows), rng)
        # The fine cells follow the class that the tree drew, which a teacher that labels anew does not ask for.
        known = before[:, chosen] * np.isin(np.arange(len(before)), self.classes)[:, None]
        kept = rng.random(rows) * (stays + taught)[group, chosen] <= stays[group, chosen]
        origin = np.where(kept, group, draw(known.T, np.arange(rows), rng))
        codes = self.model.refined(origin, [merged[chosen] for merged in coarse], rng, free)
        return self.model.decoded(group, codes, rng, given)

    def _labels(self, coarse: Sequence[Whole], before: Floats) -> tuple[Floats, Floats]:
        """Return how likely rows are to keep each class as their label, and to get it from the teacher.

        Args:
            coarse: The rows' merged cells.
            before: How likely the tree drew them of each class.
        """
        known = list(self.classes)
        stays, taught = before.copy(), np.zeros_like(before)
        stays[known] *= self.alpha
        taught[known] = (1 - self.alpha) * before[known].sum(axis=0) * softmax(self._logits(coarse))
        return stays, taught

    def logits(self, codes: Sequence[Whole]) -> Floats:
        """Return what the teacher thinks of rows in these fine cells, shape (classes, rows)."""
        pairs = zip(self.model.features, codes, strict=True)
        return self._logits([feature.merged.merge(code) for feature, code in pairs])

    def _logits(self, coarse: Sequence[Whole]) -> Floats:
        total, start = np.zeros((len(self.classes), len(coarse[0]))), 0
        for index in self.learned:
            total += self.weights[:, start + coarse[index]]
            start += self.model.features[index].merged.size
        return total if self.waves is None else total + self.waves.logits([coarse[index] for index in self.learned])


def centred(model: TreeModel, learned: Sequence[int]) -> Floats:
    """Return the matrix that takes the average row's weight from each of a feature's: a shift of all says nothing."""
    means = []
    for index in learned:
        shares = model.ratio @ model.features[index].coarse
        means.append(np.tile(shares / shares.sum(), (len(shares), 1)))
    matrix: Floats = np.eye(sum(map(len, means))) - block_diag(*means)
    return matrix


def systematic_sample(probabilities: Floats, rng: np.random.Generator) -> Whole:
    """Draw a class for each row by systematic sampling among rows with like probabilities: fewer flukes to learn.

    Each row's class has exactly the given probabilities; but of any hundred rows with one of about 0.3, about thirty
    are drawn, and hardly ever twenty or forty; of two classes, of any stretch of the rows in order as many as is
    expected, rounded up or down.

    Args:
        probabilities: Shape (classes, rows).
        rng: Where to start.
    """
    if len(probabilities) == 2:
        order = np.argsort(probabilities[1], kind="stable")
        passed = np.floor(np.cumsum(probabilities[1, order]) + rng.random())
        drawn = np.empty(len(order), np.int64)
        drawn[order] = np.diff(passed, prepend=0.0) > 0
        return drawn
    order = np.lexsort((probabilities[-1], probabilities.argmax(axis=0)))
    point = np.empty(len(order))
    point[order] = (rng.random() + _GOLDEN * np.arange(len(order))) % 1.0
    return np.asarray((np.cumsum(probabilities, axis=0)[:-1] <= point).sum(axis=0))


def softmax(logits: Floats) -> Floats:
    """Return probabilities, over the first axis."""
    powers = np.exp(logits - logits.max(axis=0))
    probabilities: Floats = powers / powers.sum(axis=0)
    return probabilities


def all_classes(logits: Floats) -> Floats:
    """Return one row per class: of two classes, the first one's is 0."""
    return np.vstack([np.zeros_like(logits), logits]) if len(logits) == 1 else logits
