"""Random Fourier features of rows, summed within each group: a mean embedding of their distribution.

A row's cells are looked up as whole-number scores, multiplied by public whole-number frequencies, and the phases'
cosines and sines are looked up too. All of it is exact, so what a row adds does not depend on its neighbours.

Proofs: docs/proofs/lookup-sums.md, mean-embedding.md.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.cluster_sums import SCORE_BITS, Scores
from threea.anonymize.lookup_sums import SHRINK, Floats, Integers, LookupSum, blocks, keys_of, squared
from threea.anonymize.query import Answer, Norm, Rows
from threea.errors import SettingError
from threea.table.cells import AnyCells

TURN_BITS, ANGLE_BITS = 20, 12
"""A full turn is 2**TURN_BITS phases, of which 2**ANGLE_BITS have a cosine of their own."""
MOST_FREQUENCY = 1 << 20
MOST_FREQUENCIES = 1 << 14


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MeanEmbedding(LookupSum):
    """Sums over the rows, within each group, of the cosines and sines of their scores' phases.

    With k frequencies a row adds a vector of length 1: each cosine and sine counts 1/sqrt(k).

    Args:
        scores: What a row's cells are looked up as.
        frequencies: For each score a row of k whole numbers; a phase is scores times frequencies. They are copied.
        by: The cells that say which group a row is in, if there are groups; a row in none adds nothing.

    Raises:
        SettingError: The parts do not fit one another, or a number is out of range.

    Reference:
        Rahimi and Recht 2007, Random features for large-scale kernel machines; Harder, Adamczewski and Park 2021.
    """

    scores: Scores
    frequencies: Integers
    by: AnyCells | None = None
    l2 = 1.0
    nonnegative = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "frequencies", check_frequencies(self.frequencies, self.scores.width))

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The grouping column and the scores'."""
        own = (cells.column for cells in self.scores.cells)
        return tuple(dict.fromkeys(((self.by.column,) if self.by else ()) + tuple(own)))

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """For each group all cosines, then all sines."""
        return (self.by.size if self.by else 1, 2 * self.frequencies.shape[1])

    @property
    def keys(self) -> tuple[Hashable, ...]:  # type: ignore[override]
        """Cells say it all."""
        return keys_of(*((self.by,) if self.by else ()), *self.scores.cells)

    def contributions(self, rows: Rows, step: float, norm: Norm) -> Iterator[_Waves]:
        """Look up phases, then their cosines and sines in grid steps."""
        group = rows.index(self.by) if self.by else np.zeros(rows.count, np.int64)
        matrix, table = self.frequencies + 0.0, waves(self._height(step))
        for outer, scores in self.scores.blocks(rows):
            for inner in blocks(len(scores), 2 * matrix.shape[1]):
                # Exact, whole numbers: what follows is done to each by itself.
                angles = angles_of(scores[inner] @ matrix)
                yield _Waves(group[outer][inner], np.hstack([table[0][angles], table[1][angles]]))

    def read(self, answer: Answer, step: float = 2.0**-30) -> tuple[Floats, float]:
        """Return an answer in units of a cosine, and the noise's standard deviation on it.

        Args:
            answer: What the door answered.
            step: The grid's step, if the query was asked within a stack.
        """
        unit = self._height(step) * step
        return answer.value / unit, answer.stddev / unit

    def _height(self, step: float) -> int:
        """Return the height of a wave in grid steps: k of them are together at most 1 long."""
        steps = math.floor(1 / step)
        return math.isqrt(steps * steps // self.frequencies.shape[1])


def check_frequencies(frequencies: Integers, width: int) -> Integers:
    """Return a copy that nobody changes, having checked that phases of so many scores stay exact."""
    whole = np.array(frequencies)
    if whole.ndim != 2 or len(whole) != width or not 1 <= whole.shape[1] <= MOST_FREQUENCIES:
        raise SettingError(f"frequencies {whole.shape} must be up to {MOST_FREQUENCIES} for each score")
    if whole.dtype.kind != "i" or np.abs(whole.astype(np.float64)).max() > MOST_FREQUENCY:
        raise SettingError(f"frequencies must be whole numbers from {-MOST_FREQUENCY} to {MOST_FREQUENCY}")
    whole = whole.astype(np.int64)
    whole.setflags(write=False)
    return whole


def angles_of(phases: Floats) -> Integers:
    """Return which of a turn's angles phases are at; they are whole numbers."""
    return (phases.astype(np.int64) & ((1 << TURN_BITS) - 1)) >> (TURN_BITS - ANGLE_BITS)


def frequencies_of(radians: Floats) -> Integers:
    """Return frequencies in radians, per unit of a coordinate, as whole numbers of phases per score.

    Example:
        >>> frequencies_of(np.array([[2 * np.pi]])).tolist()
        [[4096]]
    """
    whole = np.rint(radians / (2 * np.pi) * 2.0 ** (TURN_BITS - SCORE_BITS))
    return np.clip(whole, -MOST_FREQUENCY, MOST_FREQUENCY).astype(np.int64)


@lru_cache(maxsize=4)
def waves(height: int) -> Floats:
    """Return a turn of cosines and one of sines, of a height, rounded towards zero."""
    angles = (np.arange(1 << ANGLE_BITS) + 0.5) * (2 * np.pi / (1 << ANGLE_BITS))
    return np.trunc(np.array([np.cos(angles), np.sin(angles)]) * (height * SHRINK))


@dataclass(frozen=True, slots=True)
class _Waves:
    """A block of rows: the group of each (-1: none), and its cosines and sines in whole numbers."""

    group: Integers
    whole: Floats

    @property
    def norms(self) -> Integers:
        return squared(self.whole)

    def add(self, sums: Integers, admitted: NDArray[np.bool_]) -> None:
        for group in range(len(sums)):
            members = admitted & (self.group == group)
            sums[group] += self.whole[members].sum(axis=0).astype(np.int64)
