"""Queries of wide numeric rows: lengths, sums, squares and products of a row's coordinates in a public basis.

Each column's cell has a whole-number score, and the scores are multiplied by a whole-number basis. All terms are exact
in a double, so a row's coordinates do not depend on its neighbours.

Proofs: docs/proofs/lookup-sums.md, vectors.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.lookup_sums import (
    MOST_NUMBERS,
    Floats,
    Integers,
    LookupSum,
    blocks,
    lengths_of,
    shortened,
    squared,
)
from threea.anonymize.products import longest_row, pairs, product_norms, read_products, summed_products
from threea.anonymize.query import Answer, Norm, OneHot, Rows
from threea.errors import SettingError
from threea.table.cells import Cells

SCORE_BITS, BASIS_BITS = 10, 14
MOST_SCORE = 1 << (SCORE_BITS + 1)
"""Scores count 2**-SCORE_BITS; centred, they are from -2 to 2."""
_UNIT = 2.0 ** (SCORE_BITS + BASIS_BITS)


class Moment(StrEnum):
    """What is summed over the rows."""

    SUMS = "sums"
    POWER = "power"
    SECOND_MOMENTS = "second moments"
    """Of all pairs of coordinates: the upper triangle, by rows."""


def frequencies(grid: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the DCT coefficients of a grid, slowest first: one row of frequencies, one number per axis, for each.

    Example:
        >>> frequencies((2, 2)).tolist()
        [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    every = np.indices(grid).reshape(len(grid), -1).T
    relative = (every / np.array(grid)) ** 2
    return every[np.argsort(relative.sum(axis=1), kind="stable")]


@lru_cache(maxsize=4)
def basis(grid: tuple[int, ...], kept: tuple[int, ...]) -> Floats:
    """Return chosen DCT vectors of a grid, one a column, rounded to whole numbers: an orthonormal basis times 2**14."""
    chosen = frequencies(grid)[list(kept)]
    product = np.ones((1, len(kept)))
    for size, frequency in zip(grid, chosen.T, strict=True):
        place = (2 * np.arange(size)[:, None] + 1) * np.pi / (2 * size)
        scale = np.where(frequency == 0, math.sqrt(1 / size), math.sqrt(2 / size))
        product = (product[:, None, :] * (np.cos(place * frequency) * scale)[None, :, :]).reshape(-1, len(kept))
    return np.round(product * 2.0**BASIS_BITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Public coordinates of a row.

    Args:
        cells: The columns' cells.
        scores: For each column, the whole number that each of its cells counts for; 0 for a value without a cell.
        grid: How the columns lie: their number, or the height and width of an image.
        kept: Which of the grid's DCT coefficients, numbered from the slowest.

    Raises:
        SettingError: The parts do not fit one another, or a score is too large.
    """

    cells: tuple[Cells, ...]
    scores: tuple[tuple[int, ...], ...]
    grid: tuple[int, ...]
    kept: tuple[int, ...]

    def __post_init__(self) -> None:
        columns = len(self.cells)
        if not 1 <= columns == math.prod(self.grid) <= MOST_NUMBERS:
            raise SettingError(f"grid {self.grid} must have as many places as there are columns ({columns})")
        if [len(score) for score in self.scores] != [cells.size for cells in self.cells]:
            raise SettingError("each cell needs a score")
        if any(not isinstance(s, int) or abs(s) > MOST_SCORE for score in self.scores for s in score):
            raise SettingError(f"scores must be whole numbers from {-MOST_SCORE} to {MOST_SCORE}")
        if (
            not self.kept
            or len(set(self.kept)) != len(self.kept)
            or not 0 <= min(self.kept) <= max(self.kept) < columns
        ):
            raise SettingError(f"kept DCT coefficients must differ, and be numbered from 0 to {columns - 1}")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns read."""
        return tuple(dict.fromkeys(cells.column for cells in self.cells))

    def blocks(self, rows: Rows) -> Iterator[tuple[slice, Floats, Floats]]:
        """Yield blocks of rows: which, their coordinates (whole numbers, counting 2**-24), and their lengths."""
        matrix = basis(self.grid, self.kept)
        # A value without a cell has number -1: the last entry of the table, which is 0.
        tables = [np.array([*score, 0], np.float64) for score in self.scores]
        for block in blocks(rows.count, len(tables)):
            scores = np.empty((block.stop - block.start, len(tables)))
            for column, (cells, table) in enumerate(zip(self.cells, tables, strict=True)):
                scores[:, column] = table[rows.index(cells)[block]]
            coordinates = np.ascontiguousarray(scores @ matrix)
            yield block, coordinates, lengths_of(coordinates)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths(OneHot):
    """How many rows have coordinates of which length.

    Args:
        frame: The coordinates.
        edges: Increasing lengths; the answer counts those below each edge and not below the one before, and the rest.
    """

    frame: Frame
    edges: tuple[float, ...]

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The columns read."""
        return self.frame.columns

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """One count per edge, and one beyond."""
        return (len(self.edges) + 1,)

    def cell(self, rows: Rows) -> NDArray[np.int64]:
        """Find each row's length among the edges."""
        cell = np.empty(rows.count, np.int64)
        for block, _, lengths in self.frame.blocks(rows):
            cell[block] = np.searchsorted(np.array(self.edges) * _UNIT, lengths, side="right")
        return cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Vectors(LookupSum):
    """Sums over the rows, within each group, of their coordinates, squares or products, divided by a radius.

    Longer rows are shortened to the radius, so a row adds at most 1. Two rows' squares, or products, have a nonnegative
    inner product.

    Args:
        frame: The coordinates.
        radius: The length that counts as 1.
        moment: What is summed.
        by: The cells that say which group a row is in, if there are groups; a row in none adds nothing.
    """

    frame: Frame
    radius: float
    moment: Moment
    by: Cells | None = None
    l2 = 1.0

    def __post_init__(self) -> None:
        if not 2.0**-40 <= self.radius <= 2.0**40:
            raise SettingError(f"radius ({self.radius}) must be from 2**-40 to 2**40")

    @property
    def nonnegative(self) -> bool:  # type: ignore[override]
        """Whether inner products are nonnegative: that of two rows' products is a square."""
        return self.moment is not Moment.SUMS

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """The grouping column and the frame's."""
        return tuple(dict.fromkeys(((self.by.column,) if self.by else ()) + self.frame.columns))

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """One answer per group."""
        kept = len(self.frame.kept)
        numbers = pairs(kept) if self.moment is Moment.SECOND_MOMENTS else kept
        return (self.by.size if self.by else 1, numbers)

    def contributions(self, rows: Rows, step: float, norm: Norm) -> Iterator[_Members]:
        """Shorten the rows' coordinates and round them to whole numbers."""
        group = rows.index(self.by) if self.by else np.zeros(rows.count, np.int64)
        longest = self._longest(step)
        for block, coordinates, lengths in self.frame.blocks(rows):
            yield _Members(group[block], shortened(coordinates, lengths, self.radius * _UNIT, longest), self.moment)

    def read(self, answer: Answer, step: float = 2.0**-30) -> tuple[Floats, float]:
        """Return an answer in units of the radius (or its square), and the noise's standard deviation on it.

        Products come as symmetric matrices; the noise is that beside the diagonal, on it is sqrt(2) times as much.

        Args:
            answer: What the door answered.
            step: The grid's step, if the query was asked within a stack.
        """
        longest = self._longest(step)
        if self.moment is Moment.SUMS:
            return answer.value / (longest * step), answer.stddev / (longest * step)
        unit = float(longest) ** 2 * step
        if self.moment is Moment.POWER:
            return answer.value / unit, answer.stddev / unit
        return read_products(answer.value / unit, answer.stddev / unit, len(self.frame.kept), Norm.L2)

    def _longest(self, step: float) -> int:
        """Return the length, in whole numbers, of a row as long as the radius: its moment is then as long as `l2`."""
        steps = math.floor(1 / step)
        if self.moment is Moment.SUMS:
            return steps
        return longest_row(steps, Norm.L2) if self.moment is Moment.SECOND_MOMENTS else math.isqrt(steps)


@dataclass(frozen=True, slots=True)
class _Members:
    """A block of rows: the group of each (-1: none), its coordinates in whole numbers, and what is summed."""

    group: Integers
    whole: Floats
    moment: Moment

    @property
    def norms(self) -> Integers:
        if self.moment is Moment.SECOND_MOMENTS:
            return product_norms(self.whole, Norm.L2)
        return squared(self.whole if self.moment is Moment.SUMS else self.whole * self.whole)

    def add(self, sums: Integers, admitted: NDArray[np.bool_]) -> None:
        for group in range(len(sums)):
            members = self.whole[admitted & (self.group == group)]
            if self.moment is Moment.SECOND_MOMENTS:
                sums[group] += summed_products(members, Norm.L2)
            else:
                powers = members if self.moment is Moment.SUMS else members * members
                sums[group] += powers.sum(axis=0).astype(np.int64)
