"""Noisy moments of many coordinates, denoised: all of it post-processing."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.query import Answer

Floats = NDArray[np.float64]

_SCALES = np.concatenate([[0.0], np.geomspace(1e-4, 10.0, 81)])
"""How far apart classes may be, beside the rows: the second moment of means as a share of the rows', and the squares of
covariances' differences as a share of the variances' products. Chosen: a grid wide enough that its ends are hardly ever
the likeliest."""


def denoised(answer: Answer) -> Floats:
    """Return counts with those that noise alone explains set to 0, unless nothing would be left."""
    kept = np.where(answer.value > 2 * answer.stddev, answer.value, 0.0)
    return kept if kept.any() else np.maximum(answer.value, 0.0)


def smooth(power: Floats, stddev: float) -> Floats:
    """Return power of DCT coefficients; weak ones are averaged with their neighbours."""
    width = min(9, len(power) // 2 * 2 - 1) if len(power) > 2 else 1
    padded = np.pad(power, width // 2, mode="edge")
    near = np.convolve(padded, np.full(width, 1 / width), "valid")
    return np.where(power > 3 * stddev, power, np.maximum(near, 0.0))


def second_moment(moments: Floats, stddev: float, power: Floats, strongest: NDArray[np.int64], rows: float) -> Floats:
    """Return the second moment of all coordinates: noisy moments of the strongest, and power of the others."""
    moment = np.zeros((len(power), len(power)))
    pooled = spiked(moments.sum(axis=0) / rows, stddev * math.sqrt(len(moments)) / rows)
    moment[np.ix_(strongest, strongest)] = _positive(pooled)
    moment[np.diag_indices_from(moment)] += np.maximum(power - np.diag(moment), 0.0)
    return moment


def shrunk_means(means: Floats, stddevs: Floats, sizes: Floats, moment: Floats) -> Floats:
    """Draw the classes' means towards their common mean, as far as noise explains the difference.

    Classes are taken to differ the way rows do: normally, by the rows' second moment times a scale, the likeliest one.
    What is expected, given what is seen, is then Wiener's filter.
    """
    share = sizes / sizes.sum()
    common = share @ means
    values, vectors = np.linalg.eigh(moment)
    values = np.maximum(values, 0.0)
    apart = (means - common) @ vectors
    for code, stddev in enumerate(stddevs):
        noise = max(stddev**2 * (1 - share[code]), 1e-12)
        spread = _SCALES[:, None] * values + noise
        unlikely = (np.log(spread) + apart[code] ** 2 / spread).sum(axis=1)
        apart[code] *= 1 - noise / spread[unlikely.argmin()]
    shrunk: Floats = common + apart @ vectors.T
    return shrunk


def covariances(moments: Floats, stddev: float, means: Floats, sizes: Floats, classes: Floats) -> Floats:
    """Return covariances: the pooled one, and what noise does not explain of each class's difference from it."""
    pooled, common = _pooled(moments, stddev, means, sizes, classes)
    if len(sizes) == 1:
        return _positive(common)[None]
    differences = _differences(moments, stddev, means, sizes, pooled)
    return np.array([_positive(common + spiked(difference, noise)) for difference, noise in differences])


def shrunk_covariances(moments: Floats, stddev: float, means: Floats, sizes: Floats, classes: Floats) -> Floats:
    """Return covariances: the pooled one, and each class's difference from it, shrunk as far as noise explains it.

    Classes are taken to spread differently the way rows spread: along two of the pooled covariance's eigenvectors,
    normally, by their variances' product times a scale, the likeliest one. What is expected is then Wiener's filter.
    A threshold on eigenvalues would lose differences that are small in many directions.
    """
    if len(sizes) == 1:
        return covariances(moments, stddev, means, sizes, classes)
    pooled, common = _pooled(moments, stddev, means, sizes, classes)
    common = _positive(common)
    # What the shrunk matrix leaves of the variances: directions without any would be taken to be alike in all classes.
    common[np.diag_indices_from(common)] += np.maximum(np.diag(pooled - common), 0.0)
    values, vectors = np.linalg.eigh(common)
    matrices = []
    for difference, noise in _differences(moments, stddev, means, sizes, pooled):
        apart = _likely(vectors.T @ difference @ vectors, noise, np.maximum(values, 0.0))
        matrices.append(_positive(common + vectors @ apart @ vectors.T))
    return np.array(matrices)


def _pooled(moments: Floats, stddev: float, means: Floats, sizes: Floats, classes: Floats) -> tuple[Floats, Floats]:
    """Return the pooled covariance as seen, and without what noise explains."""
    rows = float(sizes.sum())
    pooled = moments.sum(axis=0) / rows - np.einsum("c,ci,cj->ij", classes / rows, means, means)
    return pooled, spiked(pooled, stddev * math.sqrt(len(sizes)) / rows)


def _differences(
    moments: Floats, stddev: float, means: Floats, sizes: Floats, pooled: Floats
) -> Iterator[tuple[Floats, float]]:
    """Yield each class's difference from the pooled covariance, and the noise's standard deviation on it."""
    rows = float(sizes.sum())
    for moment, mean, size in zip(moments, means, sizes, strict=True):
        noise = stddev * math.sqrt(max(1 / size**2 - 2 / (size * rows) + len(sizes) / rows**2, 0.0))
        yield moment / size - np.outer(mean, mean) - pooled, noise


def _likely(apart: Floats, stddev: float, values: Floats) -> Floats:
    """Return what is expected of a symmetric matrix under symmetric noise, by the variances along its axes."""
    # Symmetric noise, and what is expected without it, have twice the variance on the diagonal: in every basis.
    weight = np.ones_like(apart) + np.eye(len(apart))
    noise = max(stddev**2, 1e-12)
    squares, products = apart**2 / weight, np.outer(values, values)

    def unlikely(scale: float) -> float:
        spread = scale * products + noise
        return float((weight * (np.log(spread) + squares / spread)).sum())

    scale = min(_SCALES, key=unlikely)
    shrunk: Floats = apart * (1 - noise / (scale * products + noise))
    return shrunk


def spiked(matrix: Floats, stddev: float) -> Floats:
    """Shrink the eigenvalues of a symmetric matrix under symmetric noise; those that noise explains become 0.

    Reference:
        Donoho, Gavish and Johnstone 2018, Optimal shrinkage of eigenvalues; Benaych-Georges and Nadakuditi 2011.
    """
    values, vectors = np.linalg.eigh(matrix)
    edge = 2 * stddev * math.sqrt(len(matrix))
    kept = np.sign(values) * np.sqrt(np.maximum(values**2 - edge**2, 0.0))
    result: Floats = (vectors * kept) @ vectors.T
    return result


def _positive(matrix: Floats) -> Floats:
    """Return the nearest matrix without negative eigenvalues."""
    values, vectors = np.linalg.eigh(matrix)
    result: Floats = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return result
