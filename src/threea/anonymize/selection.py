"""Questions that are no sums: which values there are, and which candidate scores best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.events import Gaussian, Pure
from threea.anonymize.query import Marginal
from threea.budget import choice_range
from threea.errors import SettingError

SCORE_STEP = 2.0**-10
"""Quality scores are whole multiples of this many rows."""


@dataclass(frozen=True, slots=True)
class Values:
    """Which values some text columns hold, and how often: those that enough rows share.

    The one question whose answer's size is not public; it is charged as a `PartitionSelection`.

    Args:
        columns: The columns to look at.
    """

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class QualityScores:
    """Scores for a private choice: how far each marginal is from what is expected, in rows (L1 distance).

    A candidate's score is its distance less its penalty, times its weight.

    Args:
        marginals: The candidates.
        expected: For each candidate, the counts that a model expects, of its marginal's size. They are copied.
        penalties: What to take off each candidate's distance; nothing by default.
        weights: Whole numbers from 1 to 512; 1 by default. Noise grows with the largest among the candidates.
    """

    marginals: tuple[Marginal, ...]
    expected: tuple[NDArray[np.float64], ...]
    penalties: tuple[float, ...] = ()
    weights: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        sizes = [marginal.size for marginal in self.marginals]
        if not sizes or [np.size(counts) for counts in self.expected] != sizes:
            raise SettingError("each marginal needs as many expected counts as it has cells")
        if len(self.penalties) not in (0, len(sizes)):
            raise SettingError("each marginal needs a penalty, or none has one")
        if len(self.weights) not in (0, len(sizes)) or not all(type(w) is int and 1 <= w <= 512 for w in self.weights):
            raise SettingError("each marginal needs a weight, a whole number from 1 to 512, or none has one")
        # What was checked, and scored, must not change afterwards.
        object.__setattr__(self, "expected", tuple(_kept(counts) for counts in self.expected))
        # Beyond this, a float no longer tells a score from the score with one row more.
        sums = [float(np.abs(counts).sum()) for counts in self.expected]
        if any(not abs(number) < 2.0**42 for number in (*sums, *self.penalties)):
            raise SettingError("expected counts and penalties must add up to less than 2**42")

    def heaviest(self, among: Sequence[int]) -> int:
        """Return the largest weight among some candidates: so many times a unit's rows move a score."""
        return max((self.weights[position] for position in among), default=1) if self.weights else 1


def choice_scale(event: Gaussian | Pure, moved: float) -> float:
    """Return how much higher a score must be to be e times as likely, if one unit moves each by at most `moved`."""
    losses = event.epsilon if isinstance(event, Pure) else choice_range(1 / event.noise_multiplier)
    return 2 * moved / losses


def _kept(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    copy = np.array(counts, np.float64)
    copy.setflags(write=False)
    return copy


def threshold(bound: int, columns: int, delta: float, scale: float, step: float) -> float:
    """Return the noisy count above which a value may be shown.

    Proof: docs/proofs/partition-selection.md.

    Args:
        bound: How many rows one unit has at most.
        columns: How many columns are looked at.
        delta: Bound on the probability that a value held by a single unit is shown.
        scale: The noise's standard deviation in grid steps.
        step: The grid's step.
    """
    from scipy.special import ndtri

    # Two grid steps cover the discrete tail.
    tail = -float(ndtri(delta / 3 / (bound * columns))) * scale + 2
    return math.fsum((2 * bound, tail * step))
