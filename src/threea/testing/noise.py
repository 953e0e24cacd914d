"""Noise that is silent, one-sided, seeded or repeated. A release made with any is stamped `guarantee: none`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.noise import Integers
from threea.anonymize.rounded_noise import saturated


class SilentNoise:
    """Adds nothing, chooses the best, and draws every unit into a sample."""

    secure = False
    arithmetic = "noise for tests"

    def gaussian(self, sums: Integers, scale: float) -> Integers:
        """Return the exact sums."""
        return sums

    def counts(self, values: Sequence[str], counts: Integers, scale: float) -> Integers:
        """Return the exact counts."""
        return self.gaussian(counts, scale)

    def laplace(self, sums: Integers, scale: float) -> Integers:
        """Return the exact sums."""
        return sums

    def choose(self, scores: Integers, scale: float) -> int:
        """Return the first of the highest scores."""
        return int(np.argmax(scores))

    def exponential(self, scores: Integers, scale: float) -> int:
        """Return the first of the highest scores."""
        return self.choose(scores, scale)

    def bernoulli(self, rate: float, size: int) -> NDArray[np.bool_]:
        """Return true always."""
        return np.ones(size, np.bool_)

    def generator(self) -> np.random.Generator:
        """Return the same one always: a method without a proof draws noise that cannot be silenced."""
        return np.random.default_rng(0)


class OneSidedNoise(SilentNoise):
    """Moves every sum by so many standard deviations, all of them to the same side."""

    def __init__(self, far: float) -> None:
        self._far = far

    def gaussian(self, sums: Integers, scale: float) -> Integers:
        """Add as many times the scale."""
        return sums + round(self._far * scale)

    def laplace(self, sums: Integers, scale: float) -> Integers:
        """Add as many times the scale."""
        return self.gaussian(sums, scale)


class SeededNoise:
    """Repeatable noise of the right size, from floating point: for statistical tests with a fixed seed."""

    secure = False
    arithmetic = "noise for tests"

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def gaussian(self, sums: Integers, scale: float) -> Integers:
        """Add rounded Gaussian noise."""
        return saturated(sums, _whole(self._rng.normal(0.0, scale, sums.shape)))

    def counts(self, values: Sequence[str], counts: Integers, scale: float) -> Integers:
        """Add rounded Gaussian noise."""
        return self.gaussian(counts, scale)

    def laplace(self, sums: Integers, scale: float) -> Integers:
        """Add rounded Laplace noise."""
        return saturated(sums, _whole(self._rng.laplace(0.0, scale, sums.shape)))

    def choose(self, scores: Integers, scale: float) -> int:
        """Choose by the exponential mechanism, too."""
        return self.exponential(scores, scale)

    def exponential(self, scores: Integers, scale: float) -> int:
        """Choose by the exponential mechanism."""
        return int(np.argmax(scores + self._rng.gumbel(0.0, scale, scores.shape)))

    def bernoulli(self, rate: float, size: int) -> NDArray[np.bool_]:
        """Flip seeded coins."""
        return self._rng.random(size) < rate

    def generator(self) -> np.random.Generator:
        """Return one that is seeded in turn."""
        return np.random.default_rng(int(self._rng.integers(1 << 62)))


class RepeatedNoise(SeededNoise):
    """Noise that the sums and their scale decide: a question gets the same answer however often it is asked."""

    def __init__(self) -> None:
        super().__init__(0)

    def gaussian(self, sums: Integers, scale: float) -> Integers:
        """Add rounded Gaussian noise."""
        self._repeat(sums, scale)
        return super().gaussian(sums, scale)

    def laplace(self, sums: Integers, scale: float) -> Integers:
        """Add rounded Laplace noise."""
        self._repeat(sums, scale)
        return super().laplace(sums, scale)

    def exponential(self, scores: Integers, scale: float) -> int:
        """Choose by the exponential mechanism."""
        self._repeat(scores, scale)
        return super().exponential(scores, scale)

    def bernoulli(self, rate: float, size: int) -> NDArray[np.bool_]:
        """Flip the same coins for every sample of this size."""
        return np.random.default_rng(size).random(size) < rate

    def _repeat(self, sums: Integers, scale: float) -> None:
        digest = hashlib.sha256(np.asarray(sums).tobytes() + str(scale).encode()).digest()
        self._rng = np.random.default_rng(int.from_bytes(digest[:8], "little"))


def _whole(noise: NDArray[np.float64]) -> Integers:
    """Round, and cut off what no int64 holds."""
    return np.clip(np.round(noise), -(2.0**62), 2.0**62).astype(np.int64)
