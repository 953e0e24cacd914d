"""Drawing rows that fit conditions: Bayes' rule where a model is a table, weighting where it is not."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from threea.table.conditions import Given, nothing_fits

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


def distributions(weights: Floats) -> Floats:
    """Return every row of weights as the distribution that `denoise.draw` draws from: even where there are none."""
    heavy = np.where(weights.sum(axis=-1, keepdims=True) > 0, weights, 1.0)
    return np.asarray(heavy / heavy.sum(axis=-1, keepdims=True))


def posterior(prior: Floats, likelihoods: Iterable[Floats], given: Given) -> Floats:
    """Return a distribution, given how likely the conditions are under each of its members.

    Raises:
        SettingError: They hold under none.
    """
    weights = prior
    for likelihood in likelihoods:
        weights = weights * likelihood
    total = float(weights.sum())
    if not total > 0:
        raise nothing_fits(given)
    return np.asarray(weights / total)


def resampled(weights: Floats, rows: int, rng: np.random.Generator, given: Given) -> Whole:
    """Choose rows of a pool by their weights, by systematic sampling: each about as often as it weighs.

    Raises:
        SettingError: None weighs anything.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> np.bincount(resampled(np.array([1.0, 0.0, 3.0]), 8, rng, {}))
        array([2, 0, 6])
    """
    cumulative = np.cumsum(posterior(weights, (), given))
    even = (np.arange(rows) + rng.random()) / max(rows, 1)
    chosen = np.searchsorted(cumulative, even * cumulative[-1], side="right")
    # Rounding may pass the last that weighs anything.
    last = int(np.flatnonzero(weights)[-1])
    return rng.permutation(np.minimum(chosen, last))
