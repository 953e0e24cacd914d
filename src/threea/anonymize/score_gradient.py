"""The gradient of an ordinal regression over cells: how much lower or higher a label's scores are than expected.

Proofs: docs/proofs/lookup-sums.md, score-gradient.md.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.gradient import BLOCK, EXPONENTIALS, GRID, Residuals, added, looked_up
from threea.anonymize.lookup_sums import SHRINK, Floats, Integers, LookupSum, keys_of
from threea.anonymize.query import Norm, Rows
from threea.errors import SettingError
from threea.table.cells import AnyCells

_LARGEST = 30
"""Weights and biases beyond this count as this."""
_LARGEST_SCORE = 8
_LARGEST_SUM = 1 << 10
"""Sums of a row's weights beyond this count as this: all that follows fits in an int64."""
_MOST_SCORES, _MOST_RANGES = 8, 1 << 12


@dataclass(frozen=True, slots=True, eq=False)
class ScoreGradient(LookupSum):
    """How much larger a label's scores are expected to be than they are, summed in every cell of every feature.

    Each cell of the label has a few scores, and a bias. A row's cells have a weight for each score; its label is in a
    cell with probability proportional to the exponential of that cell's bias and its scores times the sums of the row's
    weights. What a row adds are the scores so expected less its label's own, shortened to `clip`, in each of its cells:
    the gradient of the log-likelihood, clipped. A row whose label has no cell, or one without scores, adds nothing.

    Args:
        label: The label's cells.
        scores: Shape (cells of the label, scores), from -8 to 8; not numbers where a cell is not to be predicted.
        biases: One for each of the label's cells.
        cells: The features' cells.
        weights: Shape (scores, all cells of all features one after another).
        clip: Bound on the L2 norm of the difference; from 1/1024 to 64.

    Raises:
        SettingError: The parts do not fit one another, or a number is out of range.
    """

    label: AnyCells
    scores: NDArray[np.float64]
    biases: NDArray[np.float64]
    cells: tuple[AnyCells, ...]
    weights: NDArray[np.float64]
    clip: float
    nonnegative = False

    def __post_init__(self) -> None:
        if not self.cells or not 2 <= self.label.size <= _MOST_RANGES:
            raise SettingError(f"a gradient needs a feature, and a label of 2 to {_MOST_RANGES} cells")
        if self.scores.ndim != 2 or len(self.scores) != self.label.size or not 1 <= self.count <= _MOST_SCORES:
            raise SettingError(f"scores ({self.scores.shape}) must be 1 to {_MOST_SCORES} per cell of the label")
        if np.abs(self.scores[self._known]).max(initial=0.0) > _LARGEST_SCORE or self._known.sum() < 2:
            raise SettingError(f"scores must be from -{_LARGEST_SCORE} to {_LARGEST_SCORE}, in at least two cells")
        if self.biases.shape != (self.label.size,):
            raise SettingError(f"biases ({self.biases.shape}) must be one per cell of the label")
        if self.weights.shape != (self.count, self._offsets[-1]):
            raise SettingError(f"weights ({self.weights.shape}) must be one per score and cell")
        if not 1 / GRID <= self.clip <= 64:
            raise SettingError(f"clip ({self.clip}) must be from 1/{GRID} to 64")

    @property
    def count(self) -> int:
        """How many scores a cell of the label has."""
        return int(self.scores.shape[1])

    @property
    def _known(self) -> NDArray[np.bool_]:
        return np.asarray(np.isfinite(self.scores).all(axis=1))

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
        """One number per score and cell."""
        return (self.count, int(self._offsets[-1]))

    @property
    def l2(self) -> float:  # type: ignore[override]
        """The difference stands once in each feature."""
        return self.clip * math.sqrt(len(self.cells))

    def contributions(self, rows: Rows, step: float, norm: Norm) -> Iterator[Residuals]:
        """Work out the residuals. Logits are whole numbers, so no order of adding them matters."""
        label, codes = rows.index(self.label), [rows.index(cells) for cells in self.cells]
        weights = _whole(self.weights, _LARGEST)
        for start in range(0, rows.count, BLOCK):
            block = slice(start, start + BLOCK)
            cells = [index[block] for index in codes]
            sums = np.clip(looked_up(weights, cells, self._offsets), -_LARGEST_SUM * GRID, _LARGEST_SUM * GRID)
            yield Residuals(self._residuals(label[block], sums, step), cells, self._offsets)

    def _residuals(self, label: NDArray[Any], sums: Integers, step: float) -> Floats:
        """Return each row's expected less actual scores, clipped, in whole grid steps; shape (scores, rows)."""
        known = np.flatnonzero(self._known)
        scores, biases = _whole(self.scores[known], _LARGEST_SCORE), _whole(self.biases[known], _LARGEST)
        logits = np.empty((len(known), len(label)), np.int64)
        for place, (own, bias) in enumerate(zip(scores.tolist(), biases.tolist(), strict=True)):
            logits[place] = bias + sum(score * line for score, line in zip(own, sums, strict=True)) // GRID
        powers = EXPONENTIALS[np.minimum(logits.max(axis=0) - logits, len(EXPONENTIALS) - 1)]
        powers /= added(powers)
        position = np.full(self.label.size + 1, -1)
        position[known] = np.arange(len(known))
        actual = position[label]
        residual = np.empty((self.count, len(label)))
        for place, column in enumerate((scores / GRID).T):
            # A label without scores has number -1, and whatever is expected of it counts as nothing.
            residual[place] = (added(powers * column[:, None]) - column[actual]) * (actual >= 0)
        length = np.sqrt(added(residual * residual))
        longest = self.clip * SHRINK
        residual *= np.divide(longest, length, out=np.ones_like(length), where=length > longest)
        return np.asarray(np.trunc(residual * (SHRINK / step)))


def _whole(numbers: NDArray[np.float64], largest: int) -> Integers:
    """Return public numbers in whole multiples of 1 / GRID."""
    return np.round(np.clip(np.nan_to_num(numbers), -largest, largest) * GRID).astype(np.int64)
