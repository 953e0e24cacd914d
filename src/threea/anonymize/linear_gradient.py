"""The gradient of a linear regression over cells: how far off its predictions are, by cell.

Proofs: docs/proofs/lookup-sums.md, linear-gradient.md.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.gradient import BLOCK, GRID, Residuals, looked_up
from threea.anonymize.lookup_sums import Integers, LookupSum, keys_of
from threea.anonymize.query import Norm, Rows
from threea.errors import SettingError
from threea.table.cells import AnyCells

_LARGEST = 1 << 10
"""Weights and scores beyond this count as this."""


@dataclass(frozen=True, slots=True, eq=False)
class LinearGradient(LookupSum):
    """A row's prediction less its score, clipped, summed in every cell of every feature.

    A row's prediction is the sum of its cells' weights. Its score is that of its label's cell. The difference, cut to
    at most `clip` either way, stands in each of its cells: the gradient of Huber's loss. A row whose label has no cell,
    or one whose score is not a number, adds nothing.

    Args:
        label: The label's cells.
        scores: For each of these, what is to be predicted; not a number where nothing is.
        cells: The features' cells.
        weights: One for each cell, all features one after another.
        clip: Bound on the difference; from 1/1024 to 1024.

    Raises:
        SettingError: The parts do not fit one another, or a number is out of range.
    """

    label: AnyCells
    scores: NDArray[np.float64]
    cells: tuple[AnyCells, ...]
    weights: NDArray[np.float64]
    clip: float
    nonnegative = False

    def __post_init__(self) -> None:
        if not self.cells:
            raise SettingError("a gradient needs a feature")
        if self.scores.shape != (self.label.size,):
            raise SettingError(f"scores ({self.scores.shape}) must be one per cell of the label ({self.label.size})")
        if self.weights.shape != (self._offsets[-1],):
            raise SettingError(f"weights ({self.weights.shape}) must be one per cell ({self._offsets[-1]})")
        if not 1 / GRID <= self.clip <= _LARGEST:
            raise SettingError(f"clip ({self.clip}) must be from 1/{GRID} to {_LARGEST}")

    @property
    def _offsets(self) -> Integers:
        return np.cumsum([0, *(cells.size for cells in self.cells)])

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The label and the features."""
        return tuple(dict.fromkeys((self.label.column, *(cells.column for cells in self.cells))))

    @property
    def keys(self) -> tuple[Hashable, ...]:  # type: ignore[override]
        """Cells say it all."""
        return keys_of(self.label, *self.cells)

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """One number per cell, in one line, as `Gradient` has one per class."""
        return (1, int(self._offsets[-1]))

    @property
    def l2(self) -> float:  # type: ignore[override]
        """The difference stands once in each feature."""
        return self.clip * math.sqrt(len(self.cells))

    def contributions(self, rows: Rows, step: float, norm: Norm) -> Iterator[Residuals]:
        """Work out the differences, in whole multiples of 1 / GRID, and cut them: no rounding depends on other rows."""
        label, codes = rows.index(self.label), [rows.index(cells) for cells in self.cells]
        weights, scores = _whole(self.weights), np.append(_whole(self.scores), 0)
        known, most = np.append(np.isfinite(self.scores), False), math.floor(self.clip * GRID)
        for start in range(0, rows.count, BLOCK):
            block = slice(start, start + BLOCK)
            cells = [index[block] for index in codes]
            off = looked_up(weights[None], cells, self._offsets)[0] - scores[label[block]]
            cut = np.where(known[label[block]], np.clip(off, -most, most), 0)
            # A power of two less than the grid's: exact, but for steps that a stack of far longer queries brings.
            yield Residuals(np.trunc(cut[None] / (GRID * step)), cells, self._offsets)


def _whole(numbers: NDArray[np.float64]) -> Integers:
    """Return public numbers in whole multiples of 1 / GRID."""
    return np.round(np.clip(np.nan_to_num(numbers), -_LARGEST, _LARGEST) * GRID).astype(np.int64)
