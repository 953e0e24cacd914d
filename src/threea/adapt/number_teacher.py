"""Adapt, where the target is a number: a private ordinal regression gives the synthetic rows their labels.

The number is cut into ranges, each with two scores: about its normal score, and that one's square. A row's range is
the likelier the more its scores agree with two sums over the row's cells, which say how high the number is, and how far
off it may be. So there are two weights for each cell, however many ranges, and little noise on each. They are first
fitted to rows drawn from the tree, which costs nothing, and then corrected by a few noisy gradients over the private
rows. What a gradient means depends on how features occur together, which is known from drawn rows alone: the gradients
also tell how much these are to depend on one another through the label.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve
from scipy.special import ndtri

from threea.adapt.prior import factored, rounded
from threea.adapt.taught import Taught, centred, softmax
from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Charge
from threea.anonymize.score_gradient import ScoreGradient
from threea.approximate.finer_tree import with_finer_features, with_finer_ranges, without_label
from threea.approximate.tree_model import TreeModel
from threea.table.cells import Bins

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

SCORES = 2
"""Scores of a range. Chosen on Adult's ages without noise: of R2, 1 score reaches .42, 2 reach .469, 5 reach .472."""
# Settings, all of them chosen.
_RANGES, _MOST_CELLS, _LEAST = 32, 24, 0.005
"""Ranges of the label; cells of a feature, and the least share of the rows in each."""
_MOST_WIDTH = 768
"""Cells of all features, unless the tree has more: a matrix of twice as many is inverted for every gradient."""
_SECOND = 0.5
"""Scale of the second score. How high a number is matters more than how far off it may be, and both share a clip."""
_FEWEST_ROWS, _MOST_ROWS = 2_000, 8_000
"""Rows drawn from the tree to start from: twice as many as private ones, within these."""
_DAMPING, _LEAST_DAMPING = 2.0, 5.0
"""How much the start is drawn to 0: in standard deviations of the noise, and at least."""
_TURNS = 3
"""How often weights are fitted anew to what each gradient told."""
_OFF = 0.5
"""About how far a weight is taken to be off at the start."""
_CLIP = 1.2
"""Residuals are clipped at so many times their root mean square, by the tree."""
_FARTHEST = 7.0
"""Scores are cut here: the query takes them up to 8."""


def taught_numbers(
    model: TreeModel, informative: tuple[int, ...], table: PrivateTable, charge: Charge, steps: int, alpha: float
) -> TreeModel | Taught:
    """Train on a few gradients, and return the tree, in finer ranges and cells, with a teacher at its side.

    Args:
        model: The tree; its label is a number.
        informative: Positions of the features to look at.
        table: Whom to ask.
        charge: What pays for a gradient.
        steps: How many gradients.
        alpha: Share of labels that stay the tree's own.
    """
    most = max(min(_MOST_CELLS, _MOST_WIDTH // len(informative)), 2)
    tree = with_finer_features(with_finer_ranges(model, _RANGES), most, _LEAST)
    assert tree.label is not None
    scores = label_scores(tree)
    classes = np.flatnonzero(np.isfinite(scores[:, 0]))
    if len(classes) < 2:
        return model
    cells = tuple(tree.features[index].merged for index in informative)
    rows, actual = _Drawn.labelled(tree, informative, classes, scores[classes])
    if not len(rows.cells):
        # By the noisy counts nobody has a number: there is nothing to learn.
        return model
    weights = np.zeros((SCORES, rows.cells.shape[1]))
    query = ScoreGradient(tree.label, scores, np.zeros(tree.label.size), cells, weights, clip=1.0)
    noise = max(_CLIP * table.stddev(query, charge), model.stddev)
    weights, biases = rows.trained(actual, weights, max(_DAMPING * noise, _LEAST_DAMPING))
    start, query = weights, replace(query, clip=rows.clip(actual, weights, biases))
    mixed = _Mixed(rows, rows.unlabelled(tree, informative), len(cells))
    moments, every = _Moments(np.zeros_like(weights)), np.zeros(tree.label.size)
    for _ in range(steps):
        every[classes] = biases
        answer = table.measure(replace(query, weights=weights, biases=every.copy()), charge)
        kept = rows.kept(weights, biases, query.clip)
        gradient, stddev = answer.value / kept, answer.stddev / kept
        mixed = mixed.told(weights, biases, gradient, stddev)
        rows = mixed.rows
        moments = moments.told(rows.moments(weights, biases), gradient, stddev)
        weights, biases, gain = rows.corrected(start, weights, biases, moments)
    by_class = rows.scores @ weights
    by_class[:, : cells[0].size] += rows.biases(weights, biases, 30)[:, None]
    errors = math.sqrt(moments.noise) * _lengths(rows.scores, centred(tree, informative), gain)
    noises = {**tree.noise, charge.name: table.stddev(query, charge)}
    return Taught(tree, tuple(classes.tolist()), informative, by_class, alpha, errors, noises)


def label_scores(tree: TreeModel) -> Floats:
    """Return the scores of each range: polynomials of its normal score, orthogonal over the rows; none if missing.

    The normal score is where a range's middle row would be were the numbers normal: so it does not matter on which
    scale they are, and outliers are no farther than others.
    """
    assert tree.label is not None
    assert isinstance(tree.label.cells, Bins)
    bins, groups = tree.label.cells, np.asarray(tree.label.groups)
    edges = np.asarray(bins.edges)
    values = np.concatenate([bins.special, (edges[1:] + edges[:-1]) / 2, [np.nan] * bins.missing])
    place = np.array([values[groups == group].mean() for group in range(tree.label.size)])
    share = np.maximum(tree.sizes, 1e-6 * max(float(tree.sizes.sum()), 1.0))
    known = np.isfinite(place)
    order = np.flatnonzero(known)[np.argsort(place[known], kind="stable")]
    share = share[order] / share[order].sum()
    normal = ndtri(np.cumsum(share) - share / 2)
    root = np.sqrt(share)[:, None]
    powers = np.vander(normal, min(SCORES, len(order) - 1) + 1, increasing=True)
    scores = np.full((len(place), SCORES), np.nan)
    if len(order):
        scores[order] = 0.0
        scores[order, : powers.shape[1] - 1] = (np.linalg.qr(powers * root)[0] / root)[:, 1:]
        scores[order] *= np.where(scores[order[-1]] < 0, -1.0, 1.0) * np.array([1.0, _SECOND])
    return np.asarray(np.clip(scores, -_FARTHEST, _FARTHEST))


@dataclass(frozen=True, slots=True)
class _Moments:
    """What the gradients so far say of the private rows: the sums of their labels' scores, by cell.

    A gradient is what a teacher expects of these sums, less what they are. What it expects is known from the tree's
    rows, so each gradient tells the sums, wherever it was taken, and all are averaged.
    """

    total: Floats
    variance: float = 0.0
    count: int = 0

    def told(self, expected: Floats, gradient: Floats, stddev: float) -> _Moments:
        return _Moments(self.total + expected - gradient, self.variance + stddev**2, self.count + 1)

    @property
    def mean(self) -> Floats:
        return self.total / self.count

    @property
    def noise(self) -> float:
        """The variance of the mean."""
        return max(self.variance / self.count**2, 1e-9)


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Rows drawn from a tree, as indicators of their merged cells.

    Args:
        cells: Shape (rows, all cells).
        scores: Shape (ranges, scores).
        share: Of each range among the private rows, by noisy counts.
        scale: How many private rows a row stands for.
    """

    cells: NDArray[np.float32]
    scores: Floats
    share: Floats
    scale: float

    @classmethod
    def labelled(
        cls, tree: TreeModel, learned: tuple[int, ...], classes: Whole, scores: Floats
    ) -> tuple[_Drawn, Whole]:
        """Draw rows whose ranges are known, and return these, too."""
        group, codes = tree.draw(_count(tree), np.random.default_rng(0))
        known = np.isin(group, classes)
        cells = _indicators(tree, learned, [code[known] for code in codes])
        share = np.maximum(tree.ratio[classes], 1e-9)
        rows = max(float(np.maximum(tree.sizes[classes], 0.0).sum()), 1.0)
        drawn = cls(cells, scores, share / share.sum(), rows / max(len(cells), 1))
        return drawn, np.searchsorted(classes, group[known])

    def unlabelled(self, tree: TreeModel, learned: tuple[int, ...]) -> _Drawn:
        """Draw as many rows, whose features depend on one another along the tree, and not through the label."""
        codes = without_label(tree).draw(len(self.cells), np.random.default_rng(1))[1]
        return replace(self, cells=_indicators(tree, learned, codes))

    def probabilities(self, weights: Floats, biases: Floats) -> Floats:
        """Return the probabilities of the ranges, shape (ranges, rows)."""
        sums = np.asarray(self.cells @ weights.T.astype(np.float32), np.float64)
        return softmax(self.scores @ sums.T + biases[:, None])

    def biases(self, weights: Floats, biases: Floats, times: int) -> Floats:
        """Move biases until the ranges are as frequent as the counts say."""
        for _ in range(times):
            often = self.probabilities(weights, biases).mean(axis=1)
            biases = biases + np.log(self.share / np.maximum(often, 1e-12))
        return np.asarray(biases - biases.max())

    def trained(self, actual: Whole, weights: Floats, damping: float) -> tuple[Floats, Floats]:
        """Return the weights and biases that fit these rows and their ranges best, weights damped towards 0."""
        biases = np.log(self.share)
        for _ in range(8):
            p = self.probabilities(weights, biases)
            gradient = self._summed(self.scores.T @ p - self.scores[actual].T) + damping * weights
            damped = factored(self._gram(p), damping * np.eye(weights.size))
            move = cho_solve(damped, gradient.ravel()).reshape(weights.shape)
            weights = weights - np.clip(move, -1.0, 1.0)
            biases = self.biases(weights, biases, 3)
            if np.abs(move).max() < 0.02:
                break
        return weights, biases

    def clip(self, actual: Whole, weights: Floats, biases: Floats) -> float:
        """Return where to clip residuals."""
        residuals = self.scores.T @ self.probabilities(weights, biases) - self.scores[actual].T
        return float(np.clip(_CLIP * np.sqrt((residuals**2).sum(axis=0).mean()), 0.05, 8.0))

    def kept(self, weights: Floats, biases: Floats, clip: float) -> float:
        """Return how much of a gradient clipping leaves: less along a residual than across it."""
        p = self.probabilities(weights, biases)
        parts = ((mean - own[:, None]) ** 2 for mean, own in zip(self.scores.T @ p, self.scores.T, strict=True))
        lengths = np.sqrt(np.maximum(sum(parts), 1e-24))
        kept = (np.minimum(1.0, clip / lengths) + (lengths < clip)) / 2
        return max(float((p * kept).sum(axis=0).mean()), 0.05)

    def moments(self, weights: Floats, biases: Floats) -> Floats:
        """Return the sums of the labels' scores that are expected, by cell."""
        return self._summed(self.scores.T @ self.probabilities(weights, biases))

    def total(self, weights: Floats, biases: Floats) -> Floats:
        """Return the sums of the labels' scores that are expected."""
        return np.asarray(self.scale * (self.scores.T @ self.probabilities(weights, biases)).sum(axis=1))

    @property
    def counted(self) -> Floats:
        """These sums as noisy counts tell them."""
        return np.asarray(self.scale * len(self.cells) * (self.share @ self.scores))

    def _summed(self, scores: Floats) -> Floats:
        return np.asarray((self.scale * scores).astype(np.float32) @ self.cells, np.float64)

    def corrected(
        self, start: Floats, weights: Floats, biases: Floats, moments: _Moments
    ) -> tuple[Floats, Floats, Floats]:
        """Return weights and biases that expect what the gradients told, and how the weights follow from the moments.

        Weights are taken to be off by `_OFF` at the start; what is expected of them, given the moments and their noise,
        is Wiener's filter, applied again where it led to.
        """
        gain = np.zeros((0, 0))
        for _ in range(_TURNS):
            p = self.probabilities(weights, biases)
            hessian = self._gram(p)
            missed = moments.mean - self._summed(self.scores.T @ p)
            values, vectors = np.linalg.eigh(hessian)
            values = np.where(values > rounded(hessian), values, 0.0)
            gain = (vectors * (values / (values**2 + moments.noise / _OFF**2))) @ vectors.T
            moved = gain @ (missed.ravel() + hessian @ (weights - start).ravel())
            weights = weights + np.clip(start + moved.reshape(start.shape) - weights, -1.0, 1.0)
            biases = self.biases(weights, biases, 5)
        return weights, biases, gain

    def _gram(self, p: Floats) -> Floats:
        means, width = self.scores.T @ p, self.cells.shape[1]
        gram = np.empty((SCORES, width, SCORES, width))
        for one in range(SCORES):
            for other in range(one, SCORES):
                together = (self.scores[:, one] * self.scores[:, other]) @ p - means[one] * means[other]
                block = self.cells.T @ (self.cells * (self.scale * together)[:, None].astype(np.float32))
                gram[one, :, other] = block
                gram[other, :, one] = block.T
        return gram.reshape(SCORES * width, -1)


@dataclass(frozen=True, slots=True)
class _Mixed:
    """Rows drawn in two ways, mixed so that a teacher expects of them what it does of the private rows.

    Of features that depend on one another through the label, too many rows have all that speaks for a high number, if
    the private ones follow each of its own. A teacher whose ranges are as frequent as the counts say on such rows
    expects other numbers of the private ones: fewer far from the middle. A gradient, summed over a feature's cells,
    says what it does expect, with little noise.

    Args:
        tree: Rows of the tree.
        free: Rows of the tree without its label.
        features: How many features a gradient is told by.
        agree: How the private rows lie between the two, summed over the gradients by their precision.
        precision: Of that.
    """

    tree: _Drawn
    free: _Drawn
    features: int
    agree: float = 0.0
    precision: float = 0.0

    def told(self, weights: Floats, biases: Floats, gradient: Floats, stddev: float) -> _Mixed:
        """Learn from a gradient over the private rows: by the second score, which is large far from the middle."""
        by_tree, by_free = (rows.total(weights, biases)[1] for rows in (self.tree, self.free))
        private = gradient[1].sum() / self.features + self.tree.counted[1]
        noise = max(stddev * math.sqrt(gradient.shape[1]) / self.features, 1e-9)
        apart, off = (by_free - by_tree) / noise, (private - by_tree) / noise
        return replace(self, agree=self.agree + apart * off, precision=self.precision + apart**2)

    @property
    def rows(self) -> _Drawn:
        """As many rows of both together; the tree's alone unless gradients say otherwise."""
        share = np.clip(self.agree / (self.precision + 1.0), 0.0, 1.0)
        count = round(float(share) * len(self.tree.cells))
        return replace(self.tree, cells=np.vstack([self.free.cells[:count], self.tree.cells[count:]]))


def _count(tree: TreeModel) -> int:
    return int(np.clip(2 * tree.row_counts.rows, _FEWEST_ROWS, _MOST_ROWS))


def _indicators(tree: TreeModel, learned: tuple[int, ...], codes: Sequence[Whole]) -> NDArray[np.float32]:
    pairs = ((tree.features[index].merged, codes[index]) for index in learned)
    return np.hstack([np.eye(merged.size, dtype=np.float32)[merged.merge(code)] for merged, code in pairs])


def _lengths(scores: Floats, read: Floats, gain: Floats) -> Floats:
    """Return by how much noise of deviation 1 on each moment moves each range's and cell's weight, by `read`."""
    parts = np.array([read @ part for part in gain.reshape(scores.shape[1], len(read), -1)])
    return np.array([np.linalg.norm(np.tensordot(own, parts, 1), axis=1) for own in scores])
