"""Figures from predictions, each for many weightings of the test rows at once: so a bootstrap is one call.

Every function takes weights of shape (resamples, rows) and returns one value per resample, NaN where it is undefined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Figures = Callable[[Floats], dict[str, Floats]]
"""From weights to named figures."""

RESAMPLES, LEVEL = 200, 0.95
CALIBRATION_BINS = 10
LEAST_PROBABILITY = 1e-6
"""What a probability of 0 counts as in the log loss, which would be infinite."""
MEANINGS = {
    "auc": "area under the ROC curve; for many classes the mean over pairs of classes (one-vs-one); higher is better",
    "accuracy": "share of rows whose likeliest class is the true one; higher is better",
    "f1": "F1 of the positive class; for many classes the mean over classes; higher is better",
    "average_precision": "average precision of the positive class, or the mean over classes; higher is better",
    "calibration_error": f"expected calibration error in {CALIBRATION_BINS} equal bins of the positive class's "
    "probability, or of the likeliest class's for many classes; lower is better",
    "log_loss": "mean of minus the log of the true class's probability, which counts as at least 1e-6; lower is better",
    "brier": "mean squared error of the probability, summed over classes if there are many; lower is better",
    "r2": "share of the target's variance explained; higher is better",
    "rmse": "root mean squared error, in units of the target; lower is better",
    "mae": "mean absolute error, in units of the target; lower is better",
    "spearman": "rank correlation of prediction and target; higher is better",
}
INTERVAL = {
    "method": "percentile bootstrap over the persons of the test rows (over rows where no column names them), "
    "predictions held fixed",
    "resamples": RESAMPLES,
    "level": LEVEL,
}

_CELLS = 4_000_000


def draws(figures: Figures, rows: int, seed: int, units: NDArray[np.int64] | None = None) -> dict[str, Floats]:
    """Return every figure's value on the rows as they are, followed by its values on bootstrap resamples.

    Equal `rows`, `units` and `seed` make equal resamples, so two models' draws on the same rows may be subtracted.

    Args:
        figures: From weights to figures.
        rows: How many rows there are.
        seed: Makes the resamples repeatable.
        units: Whose each row is: all rows of a person are drawn together. None if each row is a person.
    """
    rng = np.random.default_rng([seed, rows])
    person = np.arange(rows) if units is None else np.unique(units, return_inverse=True)[1]
    persons = int(person.max(initial=-1)) + 1
    parts = [figures(np.ones((1, rows)))]
    step = max(_CELLS // max(rows, 1), 1)
    for start in range(0, RESAMPLES, step):
        size = min(step, RESAMPLES - start)
        chosen = (rng.integers(0, persons, persons) for _ in range(size))
        parts.append(figures(np.array([np.bincount(drawn, minlength=persons)[person] for drawn in chosen], float)))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def summary(values: Floats) -> dict[str, Any]:
    """Return a figure and its interval from what `draws` made; None where undefined."""
    known = values[1:][~np.isnan(values[1:])]
    if np.isnan(values[0]) or not len(known):
        return {"value": None, "interval": None}
    low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return {"value": float(values[0]), "interval": [float(low), float(high)]}


def classification(probabilities: Floats, truth: NDArray[np.int64], positive: int | None) -> Figures:
    """Return the figures of a classifier.

    Args:
        probabilities: One row each, one column a class.
        truth: The true class of each row.
        positive: The class that counts as positive if there are two; None for many classes.
    """
    guess = np.argmax(probabilities, axis=1)
    loss = -np.log(np.maximum(probabilities[np.arange(len(truth)), truth], LEAST_PROBABILITY))

    def figures(weights: Floats) -> dict[str, Floats]:
        if positive is None:
            areas = {"auc": _one_vs_one(probabilities, truth, weights)}
            precision = [average_precision(*_ranked(p, truth == k, weights)) for k, p in enumerate(probabilities.T)]
            areas["average_precision"] = _mean_known(np.array(precision))
            scores = _mean_known(
                np.array([_f1(guess == k, truth == k, weights) for k in range(probabilities.shape[1])])
            )
            confidence, right = np.max(probabilities, axis=1), guess == truth
            brier = ((probabilities - np.eye(probabilities.shape[1])[truth]) ** 2).sum(axis=1)
        else:
            confidence, right = probabilities[:, positive], truth == positive
            groups = _ranked(confidence, right, weights)
            areas = {"auc": area(*groups), "average_precision": average_precision(*groups)}
            scores = np.nan_to_num(_f1(guess == positive, right, weights), nan=0.0)
            brier = (confidence - right) ** 2
        return {
            "auc": areas["auc"],
            "accuracy": _mean(guess == truth, weights),
            "f1": scores,
            "average_precision": areas["average_precision"],
            "calibration_error": _calibration_error(confidence, right, weights),
            "brier": _mean(brier, weights),
            "log_loss": _mean(loss, weights),
        }

    return figures


def calibration_curve(confidence: Floats, right: NDArray[np.bool_]) -> list[dict[str, float]]:
    """Return mean told probability, share of positive rows and share of all rows, in ranges of equally many rows."""
    order = np.argsort(confidence, kind="stable")
    parts = [part for part in np.array_split(order, CALIBRATION_BINS) if len(part)]
    return [
        {
            "predicted": float(confidence[part].mean()),
            "observed": float(right[part].mean()),
            "share": len(part) / len(order),
        }
        for part in parts
    ]


def regression(predictions: Floats, truth: Floats) -> Figures:
    """Return the figures of a regression."""
    error = predictions - truth
    # Far from nought the squares would swallow the variance.
    centred = truth - truth.mean()

    def figures(weights: Floats) -> dict[str, Floats]:
        squared = _mean(error**2, weights)
        variance = _mean(centred**2, weights) - _mean(centred, weights) ** 2
        # Rounding leaves a constant target a variance of about this size.
        flat = variance <= np.maximum((1e-13 * np.abs(truth).max()) ** 2, 1e-12 * _mean(centred**2, weights))
        return {
            "r2": np.where(flat, np.nan, 1 - squared / np.where(flat, 1.0, variance)),
            "rmse": np.sqrt(squared),
            "mae": _mean(np.abs(error), weights),
            "spearman": _correlation(_ranks(predictions, weights), _ranks(truth, weights), weights),
        }

    return figures


def auc(scores: Floats, positive: NDArray[np.bool_]) -> Figures:
    """Return the area under the ROC curve alone."""
    return lambda weights: {"auc": area(*_ranked(scores, positive, weights))}


def area(positives: Floats, negatives: Floats) -> Floats:
    """Return the area under the ROC curve from weights of the two classes, grouped by rising score."""
    below = np.cumsum(negatives, axis=1) - negatives
    return _ratio(((below + negatives / 2) * positives).sum(axis=1), positives.sum(axis=1) * negatives.sum(axis=1))


def average_precision(positives: Floats, negatives: Floats) -> Floats:
    """Return the average precision from weights of the two classes, grouped by rising score."""
    hits, misses = np.cumsum(positives[:, ::-1], axis=1), np.cumsum(negatives[:, ::-1], axis=1)
    precision = hits / np.maximum(hits + misses, 1e-300)
    return _ratio((precision * positives[:, ::-1]).sum(axis=1), positives.sum(axis=1))


def _ranked(scores: Floats, positive: NDArray[np.bool_], weights: Floats) -> tuple[Floats, Floats]:
    """Return the weights of positive and of other rows, summed over rows of equal score, by rising score."""
    order = np.argsort(scores, kind="stable")
    starts = _starts(scores[order])
    gathered = weights[:, order]
    hits: Floats = np.add.reduceat(gathered * positive[order], starts, axis=1)
    misses: Floats = np.add.reduceat(gathered * ~positive[order], starts, axis=1)
    return hits, misses


def _starts(ordered: Floats) -> NDArray[np.int64]:
    return np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))


def _one_vs_one(probabilities: Floats, truth: NDArray[np.int64], weights: Floats) -> Floats:
    present = np.unique(truth)
    areas = []
    for index, first in enumerate(present):
        for second in present[index + 1 :]:
            rows = np.flatnonzero((truth == first) | (truth == second))
            pair = [
                area(*_ranked(probabilities[rows, label], truth[rows] == label, weights[:, rows]))
                for label in (first, second)
            ]
            areas.append((pair[0] + pair[1]) / 2)
    return _mean_known(np.array(areas)) if areas else np.full(len(weights), np.nan)


def _f1(guess: NDArray[np.bool_], truth: NDArray[np.bool_], weights: Floats) -> Floats:
    return _ratio(2 * (weights @ (guess & truth)), weights @ guess.astype(float) + weights @ truth.astype(float))


def _calibration_error(confidence: Floats, right: NDArray[np.bool_], weights: Floats) -> Floats:
    bins = np.clip((confidence * CALIBRATION_BINS).astype(np.int64), 0, CALIBRATION_BINS - 1)
    apart = np.zeros((len(confidence), CALIBRATION_BINS))
    apart[np.arange(len(confidence)), bins] = confidence - right
    return _ratio(np.abs(weights @ apart).sum(axis=1), weights.sum(axis=1))


def _ranks(values: Floats, weights: Floats) -> Floats:
    """Return the middle rank of each row's value under each weighting."""
    order = np.argsort(values, kind="stable")
    starts = _starts(values[order])
    grouped = np.add.reduceat(weights[:, order], starts, axis=1)
    middle = np.cumsum(grouped, axis=1) - grouped / 2
    ranks = np.empty_like(weights)
    ranks[:, order] = np.repeat(middle, np.diff([*starts, len(values)]), axis=1)
    return ranks


def _correlation(left: Floats, right: Floats, weights: Floats) -> Floats:
    total = weights.sum(axis=1, keepdims=True)
    left = left - (weights * left).sum(axis=1, keepdims=True) / total
    right = right - (weights * right).sum(axis=1, keepdims=True) / total
    spread = (weights * left**2).sum(axis=1) * (weights * right**2).sum(axis=1)
    return _ratio((weights * left * right).sum(axis=1), np.sqrt(spread))


def _mean(values: NDArray[Any], weights: Floats) -> Floats:
    means: Floats = weights @ values.astype(float) / weights.sum(axis=1)
    return means


def _ratio(above: Floats, below: Floats) -> Floats:
    return np.where(below > 0, above / np.where(below > 0, below, 1.0), np.nan)


def _mean_known(values: Floats) -> Floats:
    """Return the mean over the first axis of what is defined."""
    known = ~np.isnan(values)
    return _ratio(np.where(known, values, 0.0).sum(axis=0), known.sum(axis=0).astype(float))
