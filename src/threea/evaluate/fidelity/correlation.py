"""How columns hang together: rank correlation of numbers, Cramer's V of categories."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from threea.evaluate.fidelity import jackknife
from threea.evaluate.fidelity.marginals import Sorted

Floats = NDArray[np.float64]


def spearman(table: Sorted, names: Sequence[str]) -> Floats:
    """Return the rank correlations of numeric columns: of all rows, then without each group.

    Ranks are taken within a column; a pair's correlation is over the rows where both are known. NaN for a constant.
    """
    from scipy.stats import rankdata

    values = np.column_stack([table.chunk[name] for name in names])
    known = ~np.isnan(values)
    ranks = np.zeros(values.shape)
    for index, mask in enumerate(known.T):
        ranked = rankdata(values[mask, index])
        # Centred and scaled, the sums below lose no digits.
        ranks[mask, index] = (ranked - ranked.mean()) / max(len(ranked), 1) if len(ranked) else ranked
    mask = known.astype(float)
    sums = [np.zeros((0, len(names), len(names)))] * 4
    for number in range(jackknife.GROUPS):
        rows = table.groups == number
        ranks_here, known_here = ranks[rows], mask[rows]
        parts = (
            known_here.T @ known_here,
            ranks_here.T @ known_here,
            (ranks_here**2).T @ known_here,
            ranks_here.T @ ranks_here,
        )
        sums = [np.concatenate([total, part[None]]) for total, part in zip(sums, parts, strict=True)]
    count, linear, square, product = (
        np.concatenate([part.sum(axis=0)[None], part.sum(axis=0) - part]) for part in sums
    )
    count = np.maximum(count, 1.0)
    across = np.swapaxes(linear, 1, 2)
    covariance = product / count - linear * across / count**2
    variance = square / count - (linear / count) ** 2
    spread = np.sqrt(np.maximum(variance * np.swapaxes(variance, 1, 2), 0.0))
    return np.where(spread > 1e-9, np.clip(covariance / np.where(spread > 1e-9, spread, 1.0), -1, 1), np.nan)


def cramers_v(table: Sorted, columns: Sequence[int]) -> Floats:
    """Return Cramer's V of each pair of category columns: of all rows, then without each group. NaN for a constant."""
    matrix = np.full((jackknife.GROUPS + 1, len(columns), len(columns)), np.nan)
    for first, second in itertools.combinations_with_replacement(range(len(columns)), 2):
        values = _pair(table, columns[first], columns[second])
        matrix[:, first, second] = matrix[:, second, first] = values
    return matrix


def _pair(table: Sorted, first: int, second: int) -> Floats:
    sizes = table.sizes[first], table.sizes[second]
    cells = table.joint((first, second))
    counts = np.bincount(table.groups * (sizes[0] * sizes[1]) + cells, minlength=jackknife.GROUPS * sizes[0] * sizes[1])
    shares = jackknife.without_each(counts.reshape(jackknife.GROUPS, -1).astype(float)).reshape(-1, *sizes)
    rows, columns = shares.sum(axis=2), shares.sum(axis=1)
    expected = rows[:, :, None] * columns[:, None, :]
    squared = (shares**2 / np.where(expected > 0, expected, 1.0)).sum(axis=(1, 2)) - 1
    ways = np.minimum((rows > 0).sum(axis=1), (columns > 0).sum(axis=1)) - 1
    return np.where(ways > 0, np.sqrt(np.clip(squared / np.maximum(ways, 1), 0.0, 1.0)), np.nan)
