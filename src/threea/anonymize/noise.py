"""Noise on whole numbers, and the generator it comes from.

Sums arrive as exact int64 integers on a fixed-point grid and leave with discrete noise: a few numbers with noise added
inside OpenDP, many with that of `rounded_noise`. Both generators are cryptographically secure and cannot be seeded.
Proofs: docs/proofs/discrete-gaussian.md, laplace.md, rounded-noise.md, exponential-mechanism.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.rounded_noise import GAUSSIAN, LAPLACE, LARGEST_SCALE, exactly, noisy

Integers = NDArray[np.int64]

SMOOTHING = 3.0
"""Standard deviation, in grid steps, that separates the discrete from the continuous Gaussian in the proof."""
MANY = 256
"""Answers with at least so many numbers get rounded noise; fewer take OpenDP milliseconds."""


class Noise(Protocol):
    """Adds noise to exact sums, and draws what is to be random inside the door."""

    secure: bool
    """Whether a release made with it may claim a guarantee."""
    arithmetic: str
    """How it is drawn, in words, for the certificate."""

    def gaussian(self, sums: Integers, scale: float) -> Integers:
        """Add Gaussian noise of at least this standard deviation."""
        ...

    def laplace(self, sums: Integers, scale: float) -> Integers:
        """Add Laplace noise of at least this scale."""
        ...

    def counts(self, values: Sequence[str], counts: Integers, scale: float) -> Integers:
        """Add Gaussian noise to the counts of values that nobody listed."""
        ...

    def choose(self, scores: Integers, scale: float) -> int:
        """Return the index of a high score: of i with probability falling by e for each `scale` it is lower."""
        ...

    def exponential(self, scores: Integers, scale: float) -> int:
        """Return the index of a high score: of i with a probability in proportion to e^(score / scale)."""
        ...

    def bernoulli(self, rate: float, size: int) -> NDArray[np.bool_]:
        """Return independent coin flips that are true with probability `rate`."""
        ...

    def generator(self) -> np.random.Generator:
        """Return a generator for methods without a proof, which draw noise of their own."""
        ...


class SecureNoise:
    """Discrete noise, of few numbers from OpenDP; coin flips from the operating system's entropy.

    Guarantees:
        - `gaussian` with scale s and sums of L2 sensitivity d is (d/s)-GDP.
        - `laplace` with scale b and sums of L1 sensitivity d is (d/b)-DP.
        - `choose` with scale b and scores of sensitivity d is (2d/b)-DP.
        - `exponential` with scale b and scores of sensitivity d has privacy losses within a range of 2d/b.
        - Nothing can seed it.
        - Making the first one draws from everything, so that a library that does not load fails before anything is
          charged.
    """

    secure = True
    arithmetic = "fixed-point int64, discrete noise"

    def __init__(self) -> None:
        _draw_from_everything()

    def gaussian(self, sums: Integers, scale: float) -> Integers:
        """Add discrete Gaussian noise to a few numbers, rounded Gaussian noise to many."""
        if len(sums) >= MANY and scale <= LARGEST_SCALE:
            return noisy(sums, scale, GAUSSIAN)
        return discrete_gaussian(sums, scale)

    def counts(self, values: Sequence[str], counts: Integers, scale: float) -> Integers:
        """Add discrete Gaussian noise, whatever the values are."""
        return self.gaussian(counts, scale)

    def laplace(self, sums: Integers, scale: float) -> Integers:
        """Add discrete Laplace noise to a few numbers, rounded Laplace noise to many."""
        if len(sums) >= MANY and scale <= LARGEST_SCALE:
            return noisy(sums, scale, LAPLACE)
        return discrete_laplace(sums, scale)

    def choose(self, scores: Integers, scale: float) -> int:
        """Choose by permute-and-flip (McKenna and Sheldon 2020), never worse than the exponential mechanism."""
        return _largest("max_divergence", scores, scale)

    def exponential(self, scores: Integers, scale: float) -> int:
        """Choose by the exponential mechanism: the largest score with Gumbel noise."""
        return _largest("zero_concentrated_divergence", scores, scale)

    def bernoulli(self, rate: float, size: int) -> NDArray[np.bool_]:
        """Compare 64 random bits with the rate, rounded down: never in the sample more often than accounted for."""
        import os

        bits = np.frombuffer(os.urandom(8 * size), dtype=np.uint64)
        if rate >= 1:
            return np.ones(size, dtype=np.bool_)
        return np.asarray(bits < np.uint64(math.floor(math.ldexp(rate, 64))), dtype=np.bool_)

    def generator(self) -> np.random.Generator:
        """Return one that starts from the operating system's entropy."""
        return np.random.default_rng()


@cache
def _draw_from_everything() -> None:
    """Once in a process: what has loaded stays. A failure is no result, so the next one tries again."""
    discrete_gaussian(np.zeros(1, np.int64), 1.0)
    noisy(np.zeros(1, np.int64), 1.0, GAUSSIAN)
    exactly(1, 0, 1.0, GAUSSIAN)


def discrete_gaussian(sums: Integers, scale: float) -> Integers:
    """Add discrete Gaussian noise of variance scale² + SMOOTHING², so that scale itself is accounted for."""
    import opendp.measurements as measurements

    domain, metric = _vectors("l2_distance")
    widened = math.sqrt(scale**2 + SMOOTHING**2) * (1 + 1e-15)
    return _array(measurements.make_gaussian(domain, metric, scale=widened)(sums.tolist()))


def discrete_laplace(sums: Integers, scale: float) -> Integers:
    """Add discrete Laplace noise."""
    import opendp.measurements as measurements

    domain, metric = _vectors("l1_distance")
    return _array(measurements.make_laplace(domain, metric, scale=scale)(sums.tolist()))


def _vectors(metric: str) -> tuple[object, object]:
    import opendp.domains as domains
    import opendp.metrics as metrics
    import opendp.mod as mod

    mod.enable_features("contrib")
    integer = "i64"
    distance = metrics.linf_distance(T=integer) if metric == "linf_distance" else getattr(metrics, metric)(T="f64")
    return domains.vector_domain(domains.atom_domain(T=integer)), distance


def _largest(measure: str, scores: Integers, scale: float) -> int:
    import opendp.measurements as measurements
    import opendp.measures as measures

    domain, metric = _vectors("linf_distance")
    select = measurements.make_noisy_max(domain, metric, getattr(measures, measure)(), scale=scale)
    return int(select(scores.tolist()))


def _array(values: list[int]) -> Integers:
    return np.asarray(values, dtype=np.int64)
