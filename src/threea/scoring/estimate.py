"""From noisy counts by label and range of scores to what a model is expected to reach, with error bars.

An interval covers two chances: the noise, whose size is known, and the draw of the private rows, by which a count of n
varies by about the square root of n. Both are simulated on the noisy counts. What lies within a range of scores, the
counts do not tell; it is taken from synthetic rows that the model did not learn from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from threea.score import LEVEL, CalibrationPoint, Expected

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Figures = Callable[[Floats], dict[str, Floats]]
"""From histograms, shape (draws, labels, ranges), to figures, one for each draw."""

RANGES = (6, 8, 10, 12, 16, 20, 24, 32)
"""How many ranges of scores may be counted: more tell more, and have more noise."""
_MOST_MOVES = 3.0
"""Beyond this the comparison of private and synthetic rows says little."""
_SLOPES = np.linspace(-60, 60, 2_402)
"""By how much the log of the classes' ratio rises over a range in which one of them is spread evenly..."""
_CONCORDANCES = 1 / -np.expm1(-_SLOPES) - 1 / _SLOPES
"""...and how often a row of the other then has the higher score. No slope of these is 0."""
_DRAWS = 4_000
_STANDS_OUT = 3.0
"""A class whose noisy count is less than this many standard deviations of its noise may be noise alone."""


@dataclass(frozen=True, slots=True)
class Within:
    """What synthetic rows say of each range of scores.

    Args:
        shares: Of the negative and of the positive rows.
        concordance: How often, within the range, a positive row has the higher score; ties count half.
        probability: Mean predicted probability.
        loss: Mean log loss, were they negative and were they positive, of all rows, and of those that are.
    """

    shares: Floats
    concordance: Floats
    probability: Floats
    loss: tuple[Floats, Floats]

    @classmethod
    def of(cls, scores: Integers, positive: NDArray[np.bool_], cuts: tuple[int, ...], unit: float) -> Within:
        """Describe the ranges by synthetic rows; where there are none, by the middle of the range."""
        groups, size = np.searchsorted(np.asarray(cuts), scores, side="right"), len(cuts) + 1
        logits, ends = np.clip(scores * unit, -30, 30), np.clip(np.asarray(cuts, float) * unit, -30, 30)
        middle = (np.append(ends[0] - 1, ends) + np.append(ends, ends[-1] + 1)) / 2

        def mean(values: Floats, chosen: NDArray[np.bool_], otherwise: Floats) -> Floats:
            count = np.bincount(groups[chosen], minlength=size)
            total = np.bincount(groups[chosen], values[chosen], minlength=size)
            return np.where(count > 0, total / np.maximum(count, 1), otherwise)

        every, sides = np.ones(len(scores), np.bool_), (~positive, positive)
        losses, middles = (np.logaddexp(0, logits), np.logaddexp(0, -logits)), (middle, -middle)
        all_rows = [mean(loss, every, np.logaddexp(0, at)) for loss, at in zip(losses, middles, strict=True)]
        own = [mean(loss, side, near) for loss, side, near in zip(losses, sides, all_rows, strict=True)]
        counts = np.array([np.bincount(groups[side], minlength=size) for side in sides], float)
        return cls(
            counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0),
            _concordance(scores, positive, groups, size),
            mean(1 / (1 + np.exp(-logits)), every, 1 / (1 + np.exp(-middle))),
            (np.array(all_rows), np.array(own)),
        )

    def hidden(self, shares: Floats) -> float:
        """Return by how much the AUC of such shares is larger than ties within ranges make it."""
        return float(((self.concordance - 0.5) * shares[0] * shares[1]).sum())

    def fitted(self, shares: Floats) -> Within:
        """Return the same for rows whose classes are told apart less, or better, than the synthetic ones.

        Were scores of both classes normal, the log of their ratio would rise with the score as steeply as the classes'
        means are apart; the AUC says how far that is. So within a range it rises by so much less.
        """
        from scipy.special import ndtri

        apart = [float(ndtri(np.clip(_tied(part), 0.5, 1 - 1e-9))) for part in (shares, self.shares)]
        share = min(apart[0] / apart[1], 1.0) if apart[1] > 0 else 0.0
        every, own = self.loss
        return Within(
            self.shares,
            np.interp(share * np.interp(self.concordance, _CONCORDANCES, _SLOPES), _SLOPES, _CONCORDANCES),
            self.probability,
            (every, every + share * (own - every)),
        )


def _tied(shares: Floats) -> float:
    """Return the AUC if all scores within a range were the same."""
    return float((np.cumsum(shares[0]) - shares[0] / 2) @ shares[1])


def cuts_for(scores: Integers, positive: NDArray[np.bool_], stddev: float, rows: float) -> tuple[int, ...]:
    """Choose where to cut scores, on synthetic rows, so that noise and coarseness together cost the AUC least.

    Cuts are at quantiles, both classes weighing the same, and at 0, where the predicted class changes.

    Args:
        scores: Of synthetic rows.
        positive: Which of them are positive.
        stddev: Of the noise on each count.
        rows: About how many private rows there are.
    """
    if not 0 < positive.sum() < len(positive):
        return (0,)
    ordered = np.argsort(scores, kind="stable")
    share = positive.mean()
    reached = np.cumsum(np.where(positive, 0.5 / share, 0.5 / (1 - share))[ordered]) / len(scores)
    private = rows * np.array([1 - share, share])
    choices = []
    for ranges in RANGES:
        places = np.searchsorted(reached, np.arange(1, ranges) / ranges).clip(max=len(scores) - 1)
        cuts = tuple(sorted({0, *(int(score) for score in scores[ordered][places])}))
        known = Within.of(scores, positive, cuts, 0.0)
        choices.append((float(np.hypot(_noise(known.shares, private, stddev), known.hidden(known.shares) / 2)), cuts))
    return min(choices)[1]


def _noise(shares: Floats, private: Floats, stddev: float) -> float:
    """Return the standard deviation of the AUC by noise alone, to first order."""
    auc = _tied(shares)
    below = np.cumsum(shares[0]) - shares[0] / 2
    above = 1 - np.cumsum(shares[1]) + shares[1] / 2
    parts = (((below - auc) ** 2).sum() / private[1] ** 2, ((above - auc) ** 2).sum() / private[0] ** 2)
    return float(stddev * np.sqrt(sum(parts)))


def _concordance(scores: Integers, positive: NDArray[np.bool_], groups: Integers, size: int) -> Floats:
    """Return for each range how often a positive row of it scores above a negative one of it; ties count half."""
    from scipy.stats import rankdata

    found = np.full(size, 0.5)
    for group in range(size):
        here = groups == group
        hits = positive[here]
        many, few = int(hits.sum()), int((~hits).sum())
        if many and few:
            ranks = rankdata(scores[here])[hits].sum()
            found[group] = (ranks - many * (many + 1) / 2) / (many * few)
    return found


def two_classes(
    counts: Floats, stddev: float, synthetic: Within, cuts: tuple[int, ...]
) -> tuple[tuple[Expected, ...], tuple[CalibrationPoint, ...]]:
    """Return AUC, accuracy, log loss and calibration; nothing if a class does not stand out from noise.

    Args:
        counts: Noisy, of negative and of positive rows, by range.
        stddev: Of the noise on each.
        synthetic: What synthetic rows say of the ranges.
        cuts: Where they end; 0 is among them.
    """
    if not stands_out(counts, stddev):
        return (), ()
    shares = counts / counts.sum(axis=1, keepdims=True)
    known, predicted = synthetic.fitted(shares), np.arange(len(cuts) + 1) > cuts.index(0)

    def figures(drawn: Floats) -> dict[str, Floats]:
        negative, positive = drawn[:, 0], drawn[:, 1]
        below = np.cumsum(negative, axis=1) - negative
        above = ((below + known.concordance * negative) * positive).sum(axis=1)
        rows = np.maximum(drawn.sum(axis=(1, 2)), 1.0)
        right = (negative * ~predicted + positive * predicted).sum(axis=1)
        return {
            "auc": above / _sizes(positive) / _sizes(negative),
            "accuracy": right / rows,
            "log_loss": (drawn * known.loss[1]).sum(axis=(1, 2)) / rows,
            "calibration_bias": ((drawn.sum(axis=1) * known.probability).sum(axis=1) - positive.sum(axis=1)) / rows,
        }

    # What lies within ranges is a guess: it may be wrong by as much as it is.
    guessed = {"auc": abs(known.hidden(shares)), "log_loss": _guessed_loss(shares, counts, known, synthetic)}
    return estimated(figures, counts, stddev, guessed), _calibration(counts, stddev, known)


def _guessed_loss(shares: Floats, counts: Floats, known: Within, synthetic: Within) -> float:
    """Return by how much the loss moves if classes are told apart within ranges as in synthetic rows, or not at all."""
    moved = (synthetic.loss[1] - known.loss[0]) * shares * counts.sum(axis=1, keepdims=True) / counts.sum()
    return abs(float(moved.sum())) / 4


def _sizes(counts: Floats) -> Floats:
    return np.asarray(np.maximum(counts.sum(axis=1), 1.0))


def stands_out(counts: Floats, stddev: float) -> bool:
    """Whether every label's rows are more than noise alone would make them."""
    return bool((counts.sum(axis=1) > _STANDS_OUT * stddev * np.sqrt(counts.shape[1])).all())


def _calibration(counts: Floats, stddev: float, known: Within) -> tuple[CalibrationPoint, ...]:
    """Return observed rates of those ranges that stand out from their noise."""
    points, total = [], max(float(counts.sum()), 1.0)
    for group, (negative, positive) in enumerate(counts.T.tolist()):
        rows = negative + positive
        if rows > 2 * _STANDS_OUT * stddev:
            rate = min(max(positive / rows, 0.0), 1.0)
            variance = rate * (1 - rate) / rows + (stddev / rows) ** 2 * (rate**2 + (1 - rate) ** 2)
            margin = reach() * float(np.sqrt(variance))
            points.append(CalibrationPoint(float(known.probability[group]), rate, margin, rows / total))
    return tuple(points)


def many_classes(counts: Floats, stddev: float) -> tuple[Expected, ...]:
    """Return accuracy, and its mean over classes, from noisy counts by true and predicted class."""

    def figures(drawn: Floats) -> dict[str, Floats]:
        right = np.diagonal(drawn, axis1=1, axis2=2)
        sizes = np.maximum(drawn.sum(axis=2), 1.0)
        return {"accuracy": right.sum(axis=1) / sizes.sum(axis=1), "balanced_accuracy": (right / sizes).mean(axis=1)}

    if counts.sum() <= _STANDS_OUT * stddev * np.sqrt(counts.size):
        return ()
    expected = estimated(figures, counts, stddev)
    return expected if stands_out(counts, stddev) else expected[:1]


@dataclass(frozen=True, slots=True)
class Ranges:
    """What synthetic rows say of ranges of a number: its mean and its variance in each."""

    mean: Floats
    variance: Floats

    @classmethod
    def of(cls, values: Floats, groups: Integers, size: int) -> Ranges:
        """Describe ranges; one without rows has the mean of all."""
        count = np.bincount(groups, minlength=size)
        mean = np.bincount(groups, values, minlength=size) / np.maximum(count, 1)
        square = np.bincount(groups, (values - mean[groups]) ** 2, minlength=size) / np.maximum(count, 1)
        return cls(np.where(count > 0, mean, values.mean() if len(values) else 0.0), square)


def number(counts: Floats, stddev: float, target: Ranges, prediction: Ranges) -> tuple[Expected, ...]:
    """Return R² and mean absolute error from noisy counts by range of the target and of the prediction.

    As fine as the ranges: within one, target and prediction are taken to be independent.
    """
    apart = target.mean[:, None] - prediction.mean[None, :]
    squares = apart**2 + target.variance[:, None] + prediction.variance[None, :]
    # The mean size of a normal number of this mean square, were its mean 0; a lower bound is the distance itself.
    sizes = np.maximum(np.abs(apart), np.sqrt(2 / np.pi * squares))

    def figures(drawn: Floats) -> dict[str, Floats]:
        rows = np.maximum(drawn.sum(axis=(1, 2)), 1.0)
        by_target = drawn.sum(axis=2)
        mean = by_target @ target.mean / rows
        variance = by_target @ (target.mean**2 + target.variance) / rows - mean**2
        error = (drawn * squares).sum(axis=(1, 2)) / rows
        return {"r2": 1 - error / np.maximum(variance, 1e-300), "mae": (drawn * sizes).sum(axis=(1, 2)) / rows}

    if counts.sum() <= _STANDS_OUT * stddev * np.sqrt(counts.size):
        return ()
    return estimated(figures, counts, stddev)


def estimated(
    figures: Figures, counts: Floats, stddev: float, beside: dict[str, float] | None = None
) -> tuple[Expected, ...]:
    """Return figures with the half width of their intervals, by simulating noise and sampling on the noisy counts.

    Args:
        figures: From histograms to figures.
        counts: Noisy.
        stddev: Of the noise on each count.
        beside: Standard deviations of other errors, by figure.
    """
    rng = np.random.default_rng(0)
    spread = np.sqrt(stddev**2 + np.maximum(counts, 0.0))
    drawn = figures(counts + spread * rng.standard_normal((_DRAWS, *counts.shape)))
    expected = []
    for name, values in figures(counts[None]).items():
        low, high = np.quantile(drawn[name], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        margin = float(np.hypot((high - low) / 2, reach() * (beside or {}).get(name, 0.0)))
        expected.append(Expected(name, float(values[0]), margin))
    return tuple(expected)


def corrected(figure: Expected, gains: Floats | None, synthetic_auc: float = 0.5) -> Expected:
    """Take off what a figure gains because the private rows had a part in the release; that is sure up to a half.

    Args:
        figure: What was estimated.
        gains: What it gained where synthetic rows stood in for private ones, once for each trial.
        synthetic_auc: What the model reaches there.
    """
    if gains is None or figure.value is None or figure.margin is None:
        return figure
    gains = gains * (_auc_moves(figure.value, synthetic_auc) if figure.name == "auc" else 1.0)
    gain = float(gains.mean())
    error = np.hypot(gain / 2, float(gains.std(ddof=1)) if len(gains) > 1 else gain)
    return Expected(figure.name, figure.value - gain, float(np.hypot(figure.margin, reach() * error)), gain)


def _auc_moves(private: float, synthetic: float) -> float:
    """Return how much more the private rows' AUC moves than the synthetic rows' by the same shift of scores.

    Were scores normal, an AUC would be Phi(z), z the distance of the classes over their spread. Synthetic classes are
    told apart better because their scores spread less: a shift moves z by as much less as z is smaller, and the AUC by
    the density at z.
    """
    from scipy.special import ndtri

    here, there = (float(ndtri(np.clip(auc, 0.5, 1 - 1e-6))) for auc in (private, synthetic))
    if not 0 < here < there:
        return 1.0
    return min(float(np.exp((there**2 - here**2) / 2)) * here / there, _MOST_MOVES)


def reach() -> float:
    """Return how many standard deviations an interval reaches to each side."""
    from scipy.special import ndtri

    return float(ndtri((1 + LEVEL) / 2))
