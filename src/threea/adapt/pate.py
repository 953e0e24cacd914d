"""PATE: teachers on disjoint parts of the rows, their noisy votes, and a student who learns from these alone.

Teachers and student are linear discriminants of real rows of a class against generated ones.

Reference:
    PATE-GAN: Jordon, Yoon and van der Schaar 2019, Generating synthetic data with differential privacy guarantees.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from threea.table.row_vectors import RowVectors
from threea.table.schema import Chunk

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

_RARE = 0.02
"""A number of a vector that varies less is taken to have this variance: so few rows tell nothing sure. Chosen."""


@dataclass(frozen=True, slots=True)
class CountedVector:
    """A row as a one, which counts it, and its vector: what teachers are given the sums of."""

    vectors: RowVectors

    def __call__(self, chunk: Chunk) -> Floats:
        """Return one vector per row."""
        encoded = self.vectors.encode(chunk)
        return np.hstack([np.ones((len(encoded), 1)), encoded])


@dataclass(frozen=True, slots=True)
class Generated:
    """Rows of one class that the generator made: public, as it is.

    Args:
        inputs: Those that are voted on, as differences from the mean, over standard deviations.
        mean: The mean vector of many more.
        deviations: Standard deviation of each number of a vector.
    """

    inputs: Floats
    mean: Floats
    deviations: Floats

    @classmethod
    def of(cls, vectors: Floats, voted: int) -> Generated:
        """Read mean and deviations off generated rows, and keep the first few to vote on."""
        apart = vectors - vectors.mean(axis=0)
        deviations = np.sqrt(np.maximum((apart**2).mean(axis=0), _RARE))
        return cls(apart[:voted] / deviations, vectors.mean(axis=0), deviations)


@dataclass(frozen=True, slots=True)
class Teachers:
    """Tell real rows of a class, as a part's sums have them, from generated ones.

    A teacher calls real the half of the inputs that lie further towards its own mean. One that has no row of the class
    calls all of them generated.
    """

    generated: tuple[Generated, ...]

    def __call__(self, sums: Floats, code: int) -> Whole:
        """Vote 1 for real or 0 for generated on each of a class's inputs, by a part's sums."""
        generated = self.generated[code]
        if sums[0] < 0.5:
            return np.zeros(len(generated.inputs), np.int64)
        scores = generated.inputs @ ((sums[1:] / sums[0] - generated.mean) / generated.deviations)
        return np.asarray(scores > np.median(scores), np.int64)


def student(votes: Floats, stddev: float, generated: Generated, rows: float, teachers: int) -> Floats:
    """Learn from noisy votes: the log-odds of a class's real rows against generated ones, as weights of a vector.

    Teachers' means scatter around the rows' own, so that the share of votes is a probit of the log-odds, whose slope
    follows from how many rows a teacher has; the votes are regressed on the inputs, with a ridge by the noise.

    Args:
        votes: For generated and for real, on each input.
        stddev: Of the noise on each.
        generated: The inputs.
        rows: Noisy number of rows of the class.
        teachers: How many voted.
    """
    rows = max(rows, 1.0) / teachers
    # Some parts have no row of a rare class; the others have at least one.
    voting = teachers * -math.expm1(-rows)
    own, real = generated.inputs, (votes[:, 1] - votes[:, 0]) / 2
    shares = (real - real.mean()) / voting
    noise = (stddev / math.sqrt(2) / voting) ** 2
    width = max(float((own**2).sum(axis=1).mean()), 1e-9)
    signal = max(float(shares.var()) - noise, 1e-3 * noise) / width
    ridge = (noise + float(shares.var())) / 2 / max(signal, 1e-300)
    slopes = np.linalg.solve(own.T @ own + max(ridge, 1e-9) * np.eye(own.shape[1]), own.T @ shares)
    # The normal density at 0 is the slope of a probit; the scores' own deviation is its unit.
    scale = math.sqrt(2 * math.pi) * math.sqrt(width * voting / (rows * teachers))
    return np.asarray(scale * slopes / generated.deviations)
