"""The gradient of a logistic loss over random waves: how wrong a classifier is, by class and wave.

A row's cells are looked up as whole-number scores; scores times whole-number frequencies are its phases; and the
phases' cosines and sines are its features. Together they are at most 1 long, however many they are, so a gradient over
thousands of them has the sensitivity of one clipped residual.

Proofs: docs/proofs/lookup-sums.md, wave-gradient.md.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.cluster_sums import Scores
from threea.anonymize.gradient import GRID, check_classes, clipped_residuals, looked_up, whole_weights
from threea.anonymize.lookup_sums import SHRINK, Floats, Integers, LookupSum, blocks, keys_of, squared, times
from threea.anonymize.mean_embedding import angles_of, check_frequencies, waves
from threea.anonymize.query import Norm, Rows
from threea.errors import SettingError
from threea.table.cells import AnyCells

SCORE_BITS, WAVE_BITS = 16, 10
"""Scores count 2**-SCORE_BITS; a wave is up to 2**WAVE_BITS high."""
_AMPLITUDE_BITS, _GRID_BITS = 20, GRID.bit_length() - 1
"""Amplitudes are whole multiples of 2**-_AMPLITUDE_BITS, logits of 2**-_GRID_BITS."""
_LARGEST = 1 << 10
"""Amplitudes beyond this count as this."""


@dataclass(frozen=True, slots=True, eq=False)
class WaveLogits:
    """What a classifier thinks of rows: the sum of their cells' weights, and of their waves' amplitudes.

    Args:
        space: The features' cells, and their coordinates, which phases are made of.
        weights: Shape (classes, all cells of all features one after another).
        frequencies: For each coordinate a row of whole numbers, one for each phase. They are copied.
        amplitudes: Shape (classes, twice the phases): of all cosines, then all sines; these are together 1 long.

    Raises:
        SettingError: The parts do not fit one another, or a number is out of range.
    """

    space: Scores
    weights: Floats
    frequencies: Integers
    amplitudes: Floats

    def __post_init__(self) -> None:
        object.__setattr__(self, "frequencies", check_frequencies(self.frequencies, self.space.width))
        if self.weights.ndim != 2 or self.weights.shape[1] != self._offsets[-1]:
            raise SettingError(f"weights ({self.weights.shape}) must be one per class and cell")
        if self.amplitudes.shape != (len(self.weights), 2 * self.phases):
            raise SettingError(f"amplitudes ({self.amplitudes.shape}) must be one per class and wave")

    @property
    def cells(self) -> tuple[AnyCells, ...]:
        """The features' cells."""
        return self.space.cells

    @property
    def outputs(self) -> int:
        """How many logits a row has."""
        return len(self.weights)

    @property
    def phases(self) -> int:
        """How many phases a row has."""
        return int(self.frequencies.shape[1])

    @property
    def _offsets(self) -> Integers:
        return np.cumsum([0, *(cells.size for cells in self.cells)])

    def scores(self, codes: Sequence[NDArray[Any]]) -> Integers:
        """Return each row's logits in whole multiples of 2**-16, from its cell in every feature, -1 for none."""
        logits = np.empty((self.outputs, len(codes[0])), np.int64)
        for block in self.blocks(codes):
            logits[:, block.rows] = block.logits << (SCORE_BITS - _GRID_BITS)
        return logits

    def blocks(self, codes: Sequence[NDArray[Any]]) -> Iterator[_Block]:
        """Yield blocks of rows with their logits and waves."""
        whole = whole_weights(self.weights)
        unit = 2.0**_AMPLITUDE_BITS
        amplitudes = np.rint(
            np.clip(np.nan_to_num(self.amplitudes), -_LARGEST, _LARGEST) * (unit / math.sqrt(self.phases))
        )
        matrix, table = self.frequencies + 0.0, waves(1 << WAVE_BITS)
        for block in blocks(len(codes[0]), max(2 * self.phases, self.space.width)):
            own = [index[block] for index in codes]
            angles = angles_of(self.space.coordinates(own) @ matrix)
            heights = np.hstack([table[0][angles], table[1][angles]])
            # Exact: whole numbers below 2**53, in any order.
            told = (amplitudes @ heights.T).astype(np.int64) >> (_AMPLITUDE_BITS + WAVE_BITS - _GRID_BITS)
            yield _Block(block, looked_up(whole, own, self._offsets) + told, heights)


@dataclass(frozen=True, slots=True)
class _Block:
    """A block of rows, their logits, shape (classes, rows), and their waves, shape (rows, waves)."""

    rows: slice
    logits: Integers
    heights: Floats


@dataclass(frozen=True, slots=True, eq=False)
class WaveGradient(LookupSum):
    """How much a classifier expects of each class less what there is, summed in every wave.

    A row's contribution is the difference between the softmax of its logits and its label, shortened to `clip`, times
    each of its waves, which count 1/sqrt(phases) and so are together 1 long. Of two classes only the second is told:
    the first is its opposite. A row whose label has no class adds nothing.

    Args:
        label: The label's cells.
        classes: Which of these are the classes, in order.
        logits: What is thought of a row.
        class_weights: For each class, what its rows' contributions are multiplied with; from 2**-40 to 1.
        clip: Bound on the L2 norm of the difference; from 2**-40 to 2.

    Raises:
        SettingError: The parts do not fit one another, or a number is out of range.

    Reference:
        Rahimi and Recht 2007, Random features for large-scale kernel machines.
    """

    label: AnyCells
    classes: tuple[int, ...]
    logits: WaveLogits
    class_weights: tuple[float, ...]
    clip: float
    nonnegative = False

    def __post_init__(self) -> None:
        check_classes(self.label, self.classes, self.class_weights, self.clip)
        if self.logits.outputs != len(self.classes):
            raise SettingError(f"logits ({self.logits.outputs}) must be one per class")

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The label and the features."""
        return tuple(dict.fromkeys((self.label.column, *(cells.column for cells in self.logits.cells))))

    @property
    def keys(self) -> tuple[Hashable, ...]:  # type: ignore[override]
        """Cells say it all."""
        return keys_of(self.label, *self.logits.cells)

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """One number per class (of two, the second only) and wave."""
        return (len(self.classes) if len(self.classes) > 2 else 1, 2 * self.logits.phases)

    @property
    def l2(self) -> float:  # type: ignore[override]
        """A row's waves are at most 1 long."""
        return self.clip

    def contributions(self, rows: Rows, step: float, norm: Norm) -> Iterator[_Modulated]:
        """Work out residuals and waves, both in whole numbers, whose products are in grid steps."""
        label = rows.index(self.label)
        codes = [rows.index(cells) for cells in self.logits.cells]
        unit = step * math.sqrt(self.logits.phases) * 2.0**WAVE_BITS
        for block in self.logits.blocks(codes):
            residuals = clipped_residuals(
                block.logits, label[block.rows], self.label.size, self.classes, self.class_weights, self.clip
            )
            yield _Modulated(np.trunc(residuals * (SHRINK / unit)), block.heights)


@dataclass(frozen=True, slots=True)
class _Modulated:
    """A block of rows: their residuals, shape (classes told, rows), and waves, in whole numbers."""

    residuals: Floats
    heights: Floats

    @property
    def norms(self) -> Integers:
        """The squared L2 norm of a product is the product of the squared norms."""
        return times(squared(self.residuals.T), squared(self.heights))

    def add(self, sums: Integers, admitted: NDArray[np.bool_]) -> None:
        """Add the products of the rows admitted."""
        sums += (self.residuals[:, admitted] @ self.heights[admitted]).astype(np.int64)
