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

from threea.anonymize.query import Answer
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
    """Rows that the generator made: public, as it is.

    Args:
        inputs: Those that are voted on, as differences from their class's mean, over standard deviations.
        classes: The class of each of them.
        means: For each class, the mean vector of many more.
        deviations: Standard deviation of each number of a vector within a class.
    """

    inputs: Floats
    classes: Whole
    means: Floats
    deviations: Floats

    @classmethod
    def of(cls, vectors: Floats, classes: Whole, count: int, voted: int) -> Generated:
        """Read means and deviations off generated rows, and keep the first few of each class to vote on.

        Args:
            vectors: One a row.
            classes: The class of each.
            count: How many classes there may be.
            voted: About how many rows to vote on.
        """
        codes = np.unique(classes)
        means = np.zeros((count, vectors.shape[1]))
        for code in codes:
            means[code] = vectors[classes == code].mean(axis=0)
        apart = vectors - means[classes]
        deviations = np.sqrt(np.maximum((apart**2).mean(axis=0), _RARE))
        each = max(voted // len(codes), 1)
        kept = np.concatenate([np.flatnonzero(classes == code)[:each] for code in codes])
        return cls(apart[kept] / deviations, classes[kept], means, deviations)


@dataclass(frozen=True, slots=True)
class Teacher:
    """A teacher: tells real rows of a class, as its part's sums have them, from generated ones.

    Of the inputs of each class it calls real the half that lie further towards its own mean. One that has no row of a
    class calls all its inputs generated.
    """

    generated: Generated

    def __call__(self, sums: Floats) -> Whole:
        """Vote 1 for real or 0 for generated on each input, by a part's sums: a row of them for each class."""
        generated = self.generated
        by_class = sums.reshape(generated.means.shape[0], -1)
        ballot = np.zeros(len(generated.classes), np.int64)
        for code in np.unique(generated.classes):
            count, total = by_class[code, 0], by_class[code, 1:]
            if count < 0.5:
                continue
            own = generated.classes == code
            scores = generated.inputs[own] @ ((total / count - generated.means[code]) / generated.deviations)
            ballot[own] = scores > np.median(scores)
        return ballot


def student(answer: Answer, generated: Generated, sizes: Floats, teachers: int) -> Floats:
    """Learn from noisy votes, class by class: the log-odds of real against generated, as weights of a vector.

    Teachers' means scatter around the rows' own, so that the share of votes is a probit of the log-odds, whose slope
    follows from how many rows a teacher has; the votes are regressed on the inputs, with a ridge by the noise.

    Args:
        answer: Votes for generated and for real on each input.
        generated: The inputs.
        sizes: Noisy number of rows per class.
        teachers: How many voted.

    Returns:
        Weights for each class.
    """
    weights = np.zeros_like(generated.means)
    votes = (answer.value[:, 1] - answer.value[:, 0]) / 2
    stddev = answer.stddev / math.sqrt(2)
    for code in np.unique(generated.classes):
        rows = max(sizes[code], 1.0) / teachers
        # Some parts have no row of a rare class; the others have at least one.
        voting = teachers * -math.expm1(-rows)
        rows = rows * teachers / voting
        mine = generated.classes == code
        own = generated.inputs[mine]
        shares = (votes[mine] - votes[mine].mean()) / voting
        noise = (stddev / voting) ** 2
        width = float((own**2).sum(axis=1).mean())
        signal = max(float(shares.var()) - noise, 1e-3 * noise) / max(width, 1e-9)
        ridge = (noise + float(shares.var())) / 2 / signal
        slopes = np.linalg.solve(own.T @ own + ridge * np.eye(own.shape[1]), own.T @ shares)
        # The normal density at 0 is the slope of a probit; the scores' own deviation is its unit.
        scale = math.sqrt(2 * math.pi) * math.sqrt(width / rows)
        weights[code] = scale * slopes / generated.deviations
    return weights
