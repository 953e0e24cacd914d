"""How a classifier scores the rows, counted by label: trees over cells, in whole numbers.

Proof: docs/proofs/score-histogram.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.query import OneHot, Rows
from threea.anonymize.wave_gradient import WaveLogits
from threea.errors import SettingError
from threea.table.cells import AnyCells

Integers = NDArray[np.int64]

MOST_LEAVES = 62
"""Of one tree: as many bits as a whole number has to spare."""
MOST_TREES = 1 << 16
_LARGEST = 1 << 40
"""Of a leaf's value: the sum over all trees stays below 2**57."""
_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """Decision trees over cells: a row's score is the sum of its leaves' values.

    Each cell of a feature leaves open some leaves of a tree, those that no test of the feature rules out. A row is in
    the leaf that all its cells leave open; the first of several, and a row without any adds nothing.

    Args:
        cells: The features' cells.
        reachable: Shape (trees, all cells of all features one after another), whole numbers whose bit i says whether
            leaf i is left open.
        values: Shape (trees, leaves), whole numbers.
        outputs: How many scores there are; tree t adds to score t modulo this.

    Raises:
        SettingError: The parts do not fit one another, or a number is out of range.
    """

    cells: tuple[AnyCells, ...]
    reachable: NDArray[Any]
    values: Integers
    outputs: int = 1

    def __post_init__(self) -> None:
        trees, leaves = self.values.shape if self.values.ndim == 2 else (-1, 0)
        if not self.cells or self.reachable.shape != (trees, sum(cells.size for cells in self.cells)):
            raise SettingError(
                f"reachable ({self.reachable.shape}) must have a number for every tree and cell of some feature"
            )
        if trees > MOST_TREES or leaves > MOST_LEAVES or self.outputs < 1:
            raise SettingError(f"trees must be at most {MOST_TREES} of at most {MOST_LEAVES} leaves, for some output")
        if self.reachable.dtype.kind != "i" or self.values.dtype != np.int64:
            raise SettingError("trees must be whole numbers")
        if self.values.size and not -_LARGEST <= self.values.min() <= self.values.max() <= _LARGEST:
            raise SettingError(f"a leaf's value must be from -{_LARGEST} to {_LARGEST}")

    def scores(self, codes: Sequence[NDArray[Any]]) -> Integers:
        """Return each row's scores, shape (outputs, rows), from its cell in every feature, -1 for none."""
        scores = np.zeros((self.outputs, len(codes[0])), np.int64)
        offsets = np.cumsum([0, *(cells.size for cells in self.cells)])
        every = (1 << self.values.shape[1]) - 1
        for tree, reachable in enumerate(self.reachable):
            leaves = np.full(len(codes[0]), every, np.int64)
            # Tree by tree: of thousands of features, what all trees ask would take gigabytes.
            asked = np.logical_or.reduceat((reachable & every) != every, offsets[:-1])
            for feature in np.flatnonzero(asked).tolist():
                # A value without a cell has number -1: the last entry, which rules nothing out.
                left = np.append(reachable[offsets[feature] : offsets[feature + 1]].astype(np.int64), every)
                leaves &= left[codes[feature]]
            # The lowest bit is a power of two, whose exponent is exact; that of nothing is 0, and its leaf the last.
            leaf = np.frexp((leaves & -leaves).astype(np.float64))[1] - 1
            scores[tree % self.outputs] += np.append(self.values[tree], 0)[leaf]
        return scores


@dataclass(frozen=True, slots=True, eq=False)
class ScoreHistogram(OneHot):
    """How many rows of each label have a score of each range; of several scores, which is the largest.

    Args:
        label: The label's cells.
        trees: What scores a row: trees, or logits with waves.
        cuts: Where ranges of the score end, rising; a score at a cut is in the range above. Of several scores, none.

    Raises:
        SettingError: The cuts do not rise, or there are several scores to cut.
    """

    label: AnyCells
    trees: Trees | WaveLogits
    cuts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if any(type(cut) is not int for cut in self.cuts) or list(self.cuts) != sorted(set(self.cuts)):
            raise SettingError("cuts must be whole numbers that rise")
        if self.cuts and self.trees.outputs > 1:
            raise SettingError(f"cuts ({len(self.cuts)}) are for one score, and there are {self.trees.outputs}")

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The label and the features."""
        return tuple(dict.fromkeys((self.label.column, *(cells.column for cells in self.trees.cells))))

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """A number for each label and range, or for each label and score."""
        return (self.label.size, self.trees.outputs if self.trees.outputs > 1 else len(self.cuts) + 1)

    def cell(self, rows: Rows) -> Integers:
        """Score the rows block by block; one whose label has no cell adds nothing."""
        label = rows.index(self.label).astype(np.int64)
        codes = [rows.index(cells) for cells in self.trees.cells]
        found = np.full(rows.count, -1, np.int64)
        for start in range(0, rows.count, _BLOCK):
            block = slice(start, start + _BLOCK)
            group = self.group(self.trees.scores([code[block] for code in codes]))
            found[block] = np.where(label[block] >= 0, label[block] * self.shape[1] + group, -1)
        return found

    def group(self, scores: Integers) -> Integers:
        """Return the range of each score, or which of several is the largest, the first of equals."""
        if len(scores) > 1:
            return np.asarray(np.argmax(scores, axis=0), np.int64)
        return np.asarray(np.searchsorted(np.asarray(self.cuts, np.int64), scores[0], side="right"), np.int64)
