"""MC-GEN's privacy sanitizer and data generator: noise on a cluster's mean and covariance, and rows drawn from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scales:
    """Of the Laplace noise on each number of a cluster's mean, and of its covariance."""

    mean: float
    covariance: float


def algorithm_scales(features: int, size: int, epsilon_m: float, rows_per_unit: int = 1) -> Scales:
    """Return Algorithm 1's scales: Delta / (|c| epsilon_m) for both.

    Delta is not given for a covariance; the algorithm has the same for both. A row of d_m features from -1 to 1 moves
    a sum by at most 2 d_m in all, which is what the authors' code has for a mean.

    Args:
        features: d_m, of the set.
        size: |c|, the cluster's rows.
        epsilon_m: The set's share of epsilon.
        rows_per_unit: How many rows may be one person's.
    """
    scale = 2 * features * rows_per_unit / (size * epsilon_m)
    return Scales(scale, scale)


def code_scales(features: int, size: int, epsilon_m: float, rows: int) -> Scales:
    """Return the scales of the authors' code: 2d/(n |C| 0.4 e) and d(d+1)/(n |C| 0.6 e).

    They divide by the number n of the class's rows, too, for which there is no reason: with one cluster, noise falls as
    1/n^2, what a row does as 1/n.

    Args:
        features: d, of the set.
        size: |C|, the cluster's rows.
        epsilon_m: e, the set's share of epsilon.
        rows: n.
    """
    per_row = rows * size * epsilon_m
    return Scales(2 * features / (per_row * 0.4), features * (features + 1) / (per_row * 0.6))


@dataclass(frozen=True, slots=True)
class NoisyGaussian:
    """A cluster's noisy mean and covariance (Algorithm 1)."""

    mean: Floats
    covariance: Floats

    @classmethod
    def of(cls, values: Floats, scales: Scales, rng: np.random.Generator) -> NoisyGaussian:
        """Add noise to the mean, then to the covariance's lower triangle, row by row; the upper one is its mirror."""
        d = values.shape[1]
        mean = values.mean(axis=0)
        centred = values - mean
        n_mean = rng.laplace(0.0, scales.mean, d)
        lower = np.zeros((d, d))
        lower[np.tril_indices(d)] = rng.laplace(0.0, scales.covariance, d * (d + 1) // 2)
        n_covar = lower + np.tril(lower, -1).T
        return cls(mean + n_mean, centred.T @ centred / len(values) + n_covar)

    def draw(self, rows: int, rng: np.random.Generator) -> Floats:
        """Draw rows from the Gaussian with the nearest covariance that can be one."""
        normal = rng.standard_normal((rows, len(self.mean)))
        return self.mean + normal @ square_root(self.covariance)


def square_root(covariance: Floats) -> Floats:
    """Return the square root of a symmetric matrix projected to the positive semidefinite cone.

    Its negative eigenvalues, which noise alone can bring about, become 0: the nearest such matrix in Frobenius norm.
    Drawing the noise again instead, as the authors' code does, would look at the private covariance once more.
    """
    eigenvalues, vectors = np.linalg.eigh(covariance)
    root: Floats = (vectors * np.sqrt(np.maximum(eigenvalues, 0.0))) @ vectors.T
    return root
