"""Products of all pairs of a row's whole numbers, weighed so that their norm is that of the row, squared.

Products beside the diagonal stand for two. Under L2 they weigh 41 / 29, which is just below the square root of 2; under
L1 they weigh 2. Then the weighed products of a row of length R are at most ``diagonal * R**2`` long.

Proofs: docs/proofs/vectors.md, cluster-moments.md.
"""

from __future__ import annotations

import math

import numpy as np

from threea.anonymize.lookup_sums import TOO_LONG, Floats, Integers, added, squared
from threea.anonymize.query import Norm

_WEIGHTS = {Norm.L2: (29, 41), Norm.L1: (1, 2)}
"""Of products on the diagonal and beside it."""


def pairs(width: int) -> int:
    """Return how many products there are: the upper triangle."""
    return width * (width + 1) // 2


def longest_row(steps: int, norm: Norm) -> int:
    """Return how long a row may be whose products are to be at most so many steps long."""
    return math.isqrt(steps // _WEIGHTS[norm][0])


def product_norms(whole: Floats, norm: Norm) -> Integers:
    """Return the norms of rows' weighed products, under L2 squared, as exact integers, or `TOO_LONG`."""
    if norm is Norm.L1:
        lengths = added(whole)
        fits = lengths < 1 << 30
        return np.where(fits, np.where(fits, lengths, 0) ** 2, TOO_LONG)
    diagonal, beside = _WEIGHTS[norm]
    fourth, lengths = squared(whole * whole), squared(whole)
    # Products of a row within its bound are below this, and so far from overflow.
    fits = lengths < 1 << 26
    lengths, fourth = np.where(fits, lengths, 0), np.where(fits, fourth, 0)
    return np.where(fits, diagonal**2 * fourth + beside**2 * ((lengths**2 - fourth) // 2), TOO_LONG)


def summed_products(whole: Floats, norm: Norm) -> Integers:
    """Return the sum over a block of rows: the upper triangle by rows, weighed."""
    upper = (whole.T @ whole)[np.triu_indices(whole.shape[1])]
    return upper.astype(np.int64) * _weights(whole.shape[1], norm)


def read_products(values: Floats, stddev: float, width: int, norm: Norm) -> tuple[Floats, float]:
    """Return sums as symmetric matrices, unweighed, and the standard deviation of the noise beside the diagonal."""
    matrices = np.zeros((len(values), width, width))
    upper, lower = np.triu_indices(width), np.tril_indices(width, -1)
    matrices[:, upper[0], upper[1]] = values / _weights(width, norm)
    matrices[:, lower[0], lower[1]] = matrices.transpose(0, 2, 1)[:, lower[0], lower[1]]
    return matrices, stddev / _WEIGHTS[norm][1]


def _weights(width: int, norm: Norm) -> Integers:
    left, right = np.triu_indices(width)
    return np.where(left == right, *_WEIGHTS[norm]).astype(np.int64)
