"""The gradient of a logistic loss over cells: how wrong a linear classifier is, by class and cell.

Proof: docs/proofs/gradient.md.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.query import Exact, Rows, unmerged
from threea.cells import AnyCells
from threea.errors import SettingError

_GRID = 1 << 10
"""Weights are whole multiples of 1 / _GRID."""
_LARGEST = 30
"""Logits beyond this count as this: e**-30 is nothing."""
_EXPONENTIALS = np.exp(-np.arange(2 * _LARGEST * _GRID + 1) / _GRID)
_SHRINK = 1 - 2.0**-32
"""Covers the rounding of a norm computed in floating point."""
_MOST_ROWS = 1 << 22


@dataclass(frozen=True, eq=False)
class Gradient(Exact):
    """How much a classifier expects of each class less what there is, summed in every cell of every feature.

    A row's classifier is the softmax of the sum of its cells' weights. Its contribution is the difference between
    that and its label, shortened to `clip`, in each of its cells. Of two classes only the second is told: the first
    is its opposite. A row whose label has no class adds nothing.

    Args:
        label: The label's cells.
        classes: Which of these are the classes, in order.
        cells: The features' cells.
        weights: Shape (classes, all cells of all features one after another).
        emphasis: For each class, what its rows' contributions are multiplied with; more than 0, at most 1.
        clip: Bound on the L2 norm of the difference.
    """

    label: AnyCells
    classes: tuple[int, ...]
    cells: tuple[AnyCells, ...]
    weights: NDArray[np.float64]
    emphasis: tuple[float, ...]
    clip: float
    nonnegative = False

    def __post_init__(self) -> None:
        if len(self.classes) < 2 or not self.cells:
            raise SettingError("a gradient needs at least two classes and one feature")
        if self.weights.shape != (len(self.classes), self._offsets[-1]):
            raise SettingError(f"weights ({self.weights.shape}) must be one per class and cell")
        if len(self.emphasis) != len(self.classes) or not all(0 < factor <= 1 for factor in self.emphasis):
            raise SettingError(f"emphasis ({self.emphasis}) must be > 0 and <= 1 for each class")
        if not 0 < self.clip <= 2:
            raise SettingError(f"clip ({self.clip}) must be > 0 and <= 2")

    @cached_property
    def _offsets(self) -> NDArray[np.int64]:
        return np.cumsum([0, *(cells.size for cells in self.cells)])

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The label and the features."""
        return tuple(dict.fromkeys((self.label.column, *(cells.column for cells in self.cells))))

    @property
    def keys(self) -> tuple[Hashable, ...]:  # type: ignore[override]
        """Cells say it all."""
        return tuple(dict.fromkeys(unmerged(cells) for cells in (self.label, *self.cells)))

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """One number per class (of two, the second only) and cell."""
        return (len(self.classes) if len(self.classes) > 2 else 1, int(self._offsets[-1]))

    @property
    def l2(self) -> float:  # type: ignore[override]
        """The difference stands once in each feature."""
        return self.clip * math.sqrt(len(self.cells))

    def total(self, rows: Rows, step: float) -> NDArray[np.int64]:
        """Sum by cell. Logits and differences are whole numbers, so no order of adding them matters."""
        if rows.count > _MOST_ROWS:
            raise ValueError("chunks must be smaller for sums to be exact")
        codes = [rows.index(cells) for cells in self.cells]
        differences = self._differences(rows, codes, step)
        total = np.zeros(self.shape, np.int64)
        for column, index in enumerate(codes):
            inside = index >= 0
            start, end = self._offsets[column], self._offsets[column + 1]
            for place, difference in enumerate(differences):
                # Floats hold these whole numbers exactly: up to 2**30 each, for up to 2**22 rows.
                sums = np.bincount(index[inside], weights=difference[inside], minlength=end - start)
                total[place, start:end] = sums.astype(np.int64)
        return total.ravel()

    def _differences(self, rows: Rows, codes: list[NDArray[np.int64]], step: float) -> NDArray[np.float64]:
        """Return each row's expected less actual class, clipped, in whole grid steps; shape (classes told, rows)."""
        whole = np.round(np.clip(np.nan_to_num(self.weights), -_LARGEST, _LARGEST) * _GRID).astype(np.int64)
        logits = np.zeros((len(self.classes), rows.count), np.int64)
        for column, index in enumerate(codes):
            start, end = self._offsets[column], self._offsets[column + 1]
            logits += np.pad(whole[:, start:end], ((0, 0), (0, 1)))[:, index]
        below = np.minimum(logits.max(axis=0) - logits, len(_EXPONENTIALS) - 1)
        powers = _EXPONENTIALS[below]
        wrong = powers / _added(powers)
        position = np.full(self.label.size + 1, -1)
        position[list(self.classes)] = np.arange(len(self.classes))
        actual = position[rows.index(self.label)]
        for place in range(len(self.classes)):
            wrong[place] -= actual == place
        if len(self.classes) == 2:
            wrong = wrong[1:]
        wrong *= np.append(self.emphasis, 0.0)[actual]
        length = np.sqrt(_added(wrong * wrong))
        most = self.clip * _SHRINK
        wrong *= np.divide(most, length, out=np.ones_like(length), where=length > most)
        return np.asarray(np.trunc(wrong * (_SHRINK / step)))


def _added(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Add up the first axis in order: a sum by pairs could depend on how many rows there are."""
    total: NDArray[np.float64] = np.zeros_like(numbers[0])
    for row in numbers:
        total += row
    return total
