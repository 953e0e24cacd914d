"""Rows themselves, noised: each goes to one of a public number of slots, whose sums are answered.

With as many slots as rows, a slot holds about one row, which is noised by itself, once: local differential privacy.
With fewer, a slot is a mixture of a few rows under the same noise. That slots are empty or shared hides how many rows
there are, which is not public.

Proofs: docs/proofs/lookup-sums.md, slot-sums.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.lookup_sums import (
    MOST_NUMBERS,
    Floats,
    Integers,
    LookupSum,
    added,
    blocks,
    lengths_in,
    shortened,
    squared,
)
from threea.anonymize.query import Answer, Norm, Rows
from threea.errors import SettingError
from threea.table.cells import AnyCells
from threea.table.row_vectors import RowVectors, VectorColumn

_SALT = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
"""Of SplitMix64: which row shares a slot with which is to look random, and need not be secret."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SlotSums(LookupSum):
    """The sums of rows' vectors in public slots.

    A row goes to one slot of its class, by its own values alone, and adds its vector there: the places of numbers from
    0 to 1, and indicators. Longer vectors are shortened to the radius. A row without a class adds nothing.

    Args:
        inputs: How the features are vectors.
        counts: How many slots each class has, at least 1.
        radius: The length, in the norm of the noise, that vectors are shortened to; from 2**-20 to 2**20.
        by: The cells that say which class a row is of; without, all rows are of class 0.

    Raises:
        SettingError: The parts do not fit one another, or a number is out of range.
    """

    inputs: tuple[VectorColumn, ...]
    counts: tuple[int, ...]
    radius: float
    by: AnyCells | None = None
    l2 = 1.0
    l1 = 1.0
    nonnegative = True

    def __post_init__(self) -> None:
        if len(self.counts) != (self.by.size if self.by else 1) or min(self.counts) < 1 or not self.inputs:
            raise SettingError("each class needs slots, at least one, and a row at least one column")
        if not 1 <= self.size <= MOST_NUMBERS:
            raise SettingError(f"slots times numbers ({self.size}) must be at most {MOST_NUMBERS}")
        if not 2.0**-20 <= self.radius <= 2.0**20:
            raise SettingError(f"radius ({self.radius}) must be from 2**-20 to 2**20")

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The features and the label."""
        names = [part.column.name for part in self.inputs]
        return tuple(dict.fromkeys([*names, *([self.by.column] if self.by else [])]))

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """A vector for each slot, those of one class after another."""
        return (sum(self.counts), sum(part.size for part in self.inputs))

    def contributions(self, rows: Rows, step: float, norm: Norm) -> Iterator[_Slotted]:
        """Find each row's slot, and shorten and round its vector."""
        group = rows.index(self.by).astype(np.int64) if self.by else np.zeros(rows.count, np.int64)
        counts, starts = np.array(self.counts), np.concatenate([[0], np.cumsum(self.counts)[:-1]])
        own = (hashes(rows, self.columns) % counts[group].astype(np.uint64)).astype(np.int64)
        slot = np.where(group >= 0, starts[group] + own, -1)
        longest = math.floor(1 / step)
        for block in blocks(rows.count, self.shape[1]):
            chunk = {name: rows.values[name][block] for name in self.columns}
            vectors = between(RowVectors(self.inputs).encode(chunk), self.inputs)
            lengths = lengths_in(vectors, norm)
            yield _Slotted(slot[block], shortened(vectors, lengths, self.radius, longest, norm), norm)

    def read(self, answer: Answer, step: float, norm: Norm) -> tuple[Floats, float]:
        """Return an answer in units of the vectors, and the noise's standard deviation on it."""
        width = self.shape[1]
        unit = (math.floor(1 / step) - (width if norm is Norm.L1 else math.sqrt(width)) / 2) * step / self.radius
        return answer.value / unit, answer.stddev / unit


def between(vectors: Floats, inputs: tuple[VectorColumn, ...]) -> Floats:
    """Return vectors whose places are from 0 to 1, so that pixels without ink add nothing to a row's length."""
    places, start = [], 0
    for part in inputs:
        places += [start] * part.numeric
        start += part.size
    moved = vectors.copy()
    moved[:, places] = (vectors[:, places] + 1) / 2
    return moved


def hashes(rows: Rows, columns: tuple[str, ...]) -> NDArray[np.uint64]:
    """Return a number for each row that looks random, by its own encoded values alone."""
    state = np.full(rows.count, _SALT)
    for name in columns:
        values = rows.values[name].astype(np.float64) + 0.0
        # One pattern of bits for all missing values, and one for both zeros.
        bits = np.where(np.isnan(values), np.nan, values).view(np.uint64)
        state = (state ^ bits) + _SALT
        state = (state ^ (state >> np.uint64(30))) * _MIX[0]
        state = (state ^ (state >> np.uint64(27))) * _MIX[1]
        state ^= state >> np.uint64(31)
    return state


@dataclass(frozen=True, slots=True)
class _Slotted:
    """A block of rows: the slot of each (-1: none), and its vector in whole numbers."""

    slot: Integers
    whole: Floats
    norm: Norm

    @property
    def norms(self) -> Integers:
        return added(self.whole) if self.norm is Norm.L1 else squared(self.whole)

    def add(self, sums: Integers, admitted: NDArray[np.bool_]) -> None:
        members = admitted & (self.slot >= 0)
        np.add.at(sums, self.slot[members], self.whole[members].astype(np.int64))
