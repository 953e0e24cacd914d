"""Whether models trained on real and on synthetic rows lean on the same features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.evaluate.evidence import Matrix
from threea.evaluate.utility import metrics
from threea.evaluate.utility.learners import Fitted

Floats = NDArray[np.float64]
_PREDICTIONS = 200_000
_FEWEST_ROWS = 200


def agreement(real: Fitted, synthetic: Fitted, test: Matrix, seed: int) -> dict[str, Any]:
    """Compare the permutation importances of two LightGBM models on the same real rows.

    A feature's importance is by how much the loss (log loss, or squared error for a numeric target) grows when its
    values are shuffled among the test rows.

    Returns:
        ``method``, ``rows`` (how many test rows were used), ``spearman`` (value and interval; None with fewer than
        3 features), ``interval`` (how that was made) and ``features``: name, real, synthetic, most important first.
    """
    test = real.task.testable(test)
    rng = np.random.default_rng([seed, 1])
    count = min(len(test.target), max(_PREDICTIONS // max(len(test.names), 1), _FEWEST_ROWS))
    test = test.rows(np.sort(rng.choice(len(test.target), count, replace=False)))
    shuffle = rng.permutation(count)
    growth = [_growth(model, test, shuffle) for model in (real, synthetic)]

    def figures(weights: Floats) -> dict[str, Floats]:
        left, right = (weights @ rows / weights.sum(axis=1, keepdims=True) for rows in growth)
        return {"spearman": np.array([_spearman(a, b) for a, b in zip(left, right, strict=True)])}

    means = [rows.mean(axis=0) for rows in growth]
    return {
        "method": "growth of the loss on real test rows when a feature is shuffled; rank correlation over features",
        "rows": count,
        "spearman": metrics.summary(metrics.draws(figures, count, seed, test.units)["spearman"]),
        "interval": metrics.INTERVAL,
        "features": [
            {"name": test.names[feature], "real": float(means[0][feature]), "synthetic": float(means[1][feature])}
            for feature in np.argsort(-means[0], kind="stable")
        ],
    }


def _growth(model: Fitted, test: Matrix, shuffle: NDArray[np.int64]) -> Floats:
    """Return by how much each row's loss grows when each feature is shuffled."""
    base = _losses(model, test, test.values)
    growth = np.zeros((len(base), len(test.names)))
    for feature in range(len(test.names)):
        # A feature that the model never uses changes nothing.
        if model.gains is not None and model.gains[feature] > 0:
            values = test.values.copy()
            values[:, feature] = values[shuffle, feature]
            growth[:, feature] = _losses(model, test, values) - base
    return growth


def _losses(model: Fitted, test: Matrix, values: Floats) -> Floats:
    predicted = model.predict(values)
    if model.task.numeric:
        return (predicted - test.target) ** 2
    truth = np.searchsorted(model.task.labels, test.target.astype(np.int64))
    losses: Floats = -np.log(np.clip(predicted[np.arange(len(truth)), truth], 1e-6, 1.0))
    return losses


def _spearman(left: Floats, right: Floats) -> float:
    from scipy.stats import rankdata

    if len(left) < 3:
        return float("nan")
    ranks = np.array([rankdata(left), rankdata(right)])
    ranks -= ranks.mean(axis=1, keepdims=True)
    spread = np.sqrt((ranks**2).sum(axis=1).prod())
    return float((ranks[0] * ranks[1]).sum() / spread) if spread > 0 else float("nan")
