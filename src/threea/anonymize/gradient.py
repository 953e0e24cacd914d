"""The gradient of a logistic loss over cells: how wrong a linear classifier is, by class and cell.

Proofs: docs/proofs/lookup-sums.md, gradient.md.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.lookup_sums import SHRINK, Floats, Integers, LookupSum, keys_of, squared, times
from threea.anonymize.query import Norm, Rows
from threea.errors import SettingError
from threea.table.cells import AnyCells

GRID = 1 << 10
"""Weights are whole multiples of 1 / GRID."""
LARGEST = 30
"""Weights and logits beyond this count as this: e**-30 is nothing."""
EXPONENTIALS = np.exp(-np.arange(2 * LARGEST * GRID + 1) / GRID)
_MOST_CLASSES = 1 << 20
_LEAST = 2.0**-40
"""Of class_weights and clip: squares of much smaller numbers would vanish, and nothing would be clipped."""
BLOCK = 1 << 16
"""Rows added up at once: floats hold sums of up to 2**22 whole numbers of up to 2**30 exactly."""


@dataclass(frozen=True, slots=True, eq=False)
class Gradient(LookupSum):
    """How much a classifier expects of each class less what there is, summed in every cell of every feature.

    A row's classifier is the softmax of the sum of its cells' weights. Its contribution is the difference between
    that and its label, shortened to `clip`, in each of its cells. Of two classes only the second is told: the first
    is its opposite. A row whose label has no class adds nothing.

    Args:
        label: The label's cells.
        classes: Which of these are the classes, in order.
        cells: The features' cells.
        weights: Shape (classes, all cells of all features one after another).
        class_weights: For each class, what its rows' contributions are multiplied with; from 2**-40 to 1.
        clip: Bound on the L2 norm of the difference; from 2**-40 to 2.

    Raises:
        SettingError: The parts do not fit one another, or a number is out of range.
    """

    label: AnyCells
    classes: tuple[int, ...]
    cells: tuple[AnyCells, ...]
    weights: NDArray[np.float64]
    class_weights: tuple[float, ...]
    clip: float
    nonnegative = False

    def __post_init__(self) -> None:
        check_classes(self.label, self.classes, self.class_weights, self.clip)
        if not self.cells:
            raise SettingError("a gradient needs a feature")
        if self.weights.shape != (len(self.classes), self._offsets[-1]):
            raise SettingError(f"weights ({self.weights.shape}) must be one per class and cell")

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
        """One number per class (of two, the second only) and cell."""
        return (len(self.classes) if len(self.classes) > 2 else 1, int(self._offsets[-1]))

    @property
    def l2(self) -> float:  # type: ignore[override]
        """The difference stands once in each feature."""
        return self.clip * math.sqrt(len(self.cells))

    def contributions(self, rows: Rows, step: float, norm: Norm) -> Iterator[Residuals]:
        """Work out the residuals. Logits and residuals are whole numbers, so no order of adding them matters."""
        label, codes = rows.index(self.label), [rows.index(cells) for cells in self.cells]
        whole = whole_weights(self.weights)
        for start in range(0, rows.count, BLOCK):
            block = slice(start, start + BLOCK)
            cells = [index[block] for index in codes]
            logits = looked_up(whole, cells, self._offsets)
            residuals = clipped_residuals(
                logits, label[block], self.label.size, self.classes, self.class_weights, self.clip
            )
            yield Residuals(np.trunc(residuals * (SHRINK / step)), cells, self._offsets)


def check_classes(label: AnyCells, classes: tuple[int, ...], class_weights: tuple[float, ...], clip: float) -> None:
    """Refuse classes, weights of theirs or a clip whose residuals could not be bounded."""
    if not 2 <= len(classes) <= _MOST_CLASSES:
        raise SettingError(f"a gradient needs from two to {_MOST_CLASSES} classes, and a feature")
    if len(set(classes)) < len(classes) or not all(0 <= code < label.size for code in classes):
        raise SettingError(f"classes must differ, and be cells of the label, from 0 to {label.size - 1}")
    if len(class_weights) != len(classes) or not all(_LEAST <= weight <= 1 for weight in class_weights):
        raise SettingError(f"class_weights ({class_weights}) must be from 2**-40 to 1 for each class")
    if not _LEAST <= clip <= 2:
        raise SettingError(f"clip ({clip}) must be from 2**-40 to 2")


def whole_weights(weights: Floats) -> Integers:
    """Return public weights in whole multiples of 1 / GRID."""
    return np.round(np.clip(np.nan_to_num(weights), -LARGEST, LARGEST) * GRID).astype(np.int64)


def clipped_residuals(
    logits: Integers,
    label: NDArray[Any],
    labels: int,
    classes: tuple[int, ...],
    class_weights: tuple[float, ...],
    clip: float,
) -> Floats:
    """Return each row's expected less actual class, shortened to less than `clip`; shape (classes told, rows).

    Args:
        logits: In whole multiples of 1 / GRID, shape (classes, rows).
        label: The rows' labels, -1 for none.
        labels: How many labels there are.
        classes: Which of these are the classes.
        class_weights: What residuals are multiplied with.
        clip: Bound on their L2 norm.
    """
    powers = EXPONENTIALS[np.minimum(logits.max(axis=0) - logits, len(EXPONENTIALS) - 1)]
    residual = powers / added(powers)
    position = np.full(labels + 1, -1)
    position[list(classes)] = np.arange(len(classes))
    actual = position[label]
    for code in range(len(classes)):
        residual[code] -= actual == code
    if len(classes) == 2:
        residual = residual[1:]
    residual *= np.append(class_weights, 0.0)[actual]
    length = np.sqrt(added(residual * residual))
    longest = clip * SHRINK
    residual *= np.divide(longest, length, out=np.ones_like(length), where=length > longest)
    return np.asarray(residual)


def looked_up(weights: Integers, codes: list[NDArray[Any]], offsets: Integers) -> Integers:
    """Return the sums of rows' cells' weights, one line for each line of weights: whole numbers, exact."""
    total = np.zeros((len(weights), len(codes[0])), np.int64)
    for column, index in enumerate(codes):
        start, end = offsets[column], offsets[column + 1]
        # A value without a cell has number -1: the last entry, which is 0.
        total += np.pad(weights[:, start:end], ((0, 0), (0, 1)))[:, index]
    return total


def added(numbers: Floats) -> Floats:
    """Add up the first axis in order: a sum by pairs could depend on how many rows there are."""
    total: Floats = np.zeros_like(numbers[0])
    for row in numbers:
        total += row
    return total


@dataclass(frozen=True, slots=True)
class Residuals:
    """A block of rows: their residuals in whole numbers, shape (classes told, rows), and their cells by feature."""

    residuals: Floats
    cells: list[NDArray[Any]]
    offsets: Integers

    @property
    def norms(self) -> Integers:
        """The squared L2 norm of what each row adds."""
        present: Integers = np.sum([cell >= 0 for cell in self.cells], axis=0, dtype=np.int64)
        return times(squared(self.residuals.T), present)

    def add(self, sums: Integers, admitted: NDArray[np.bool_]) -> None:
        """Add the residuals of the rows admitted, in each of their cells."""
        for feature, cell in enumerate(self.cells):
            inside = admitted & (cell >= 0)
            start, end = self.offsets[feature], self.offsets[feature + 1]
            for code, residual in enumerate(self.residuals):
                total = np.bincount(cell[inside], weights=residual[inside], minlength=end - start)
                sums[code, start:end] += total.astype(np.int64)
