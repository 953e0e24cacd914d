"""Rows of mixed columns as vectors that a network reads and writes, and back.

A number is its place between the column's bounds, from -1 to 1; beside it, where there are any, one indicator each for
an ordinary, every special and a missing value. A listed value is one indicator for each category, "other" and missing.
All of it is made from the schema, or from noisy histograms, so it is public. A row's vector depends on this row alone,
to the last bit: indicators are comparisons, and a place is one interpolation between public knots.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from threea.table.cells import Bins
from threea.table.schema import Chunk, Column

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

_KNOTS = 64
"""Of a log scale, which is taken as straight between them."""
_WIDE = 128
"""From so many columns on, special values that are a bound are numbers like others. Chosen."""
_EVEN = 0.02
"""Share of the rows that a histogram's places take for evenly spread, so that no two values share a place. Chosen."""


@dataclass(frozen=True, slots=True, eq=False)
class VectorColumn:
    """A column's part of a vector.

    Args:
        column: Its public description.
        knots: Of a number, increasing values from the lower to the upper bound; none of a listed column.
        places: Where they lie, increasing from -1 to 1.
        special: Numbers with an indicator of their own.
    """

    column: Column
    knots: Floats
    places: Floats
    special: tuple[float, ...] = ()

    @classmethod
    def of(cls, column: Column, *, ends: bool = True) -> VectorColumn:
        """Place numbers evenly between the bounds, on the column's own scale.

        Args:
            column: Its public description.
            ends: Whether special values that are a bound have an indicator; otherwise they are numbers like others.
        """
        if column.kind.listed:
            return cls(column, np.zeros(0), np.zeros(0))
        assert column.lower is not None
        assert column.upper is not None
        special = tuple(value for value in column.special if ends or value not in (column.lower, column.upper))
        if column.lower == column.upper:
            return cls(column, np.array([column.lower]), np.zeros(1), special)
        if not column.log:
            return cls(column, np.array([column.lower, column.upper]), np.array([-1.0, 1.0]), special)
        knots = np.geomspace(column.lower, column.upper, _KNOTS)
        knots[0], knots[-1] = column.lower, column.upper
        return cls(column, *_increasing(knots, np.linspace(-1.0, 1.0, _KNOTS)), special)

    @classmethod
    def ranked(cls, column: Column, cells: Bins, shares: Floats) -> VectorColumn:
        """Place numbers by their ranks in a noisy histogram, that is by the share of the rows below.

        Args:
            column: A numeric column.
            cells: Its cells.
            shares: Of the rows, for each cell.
        """
        assert column.upper is not None
        bins = shares[len(cells.special) : len(cells.special) + len(cells.edges) - 1]
        total = float(bins.sum())
        if len(bins) < 2 or not total > 0:
            return cls.of(column)
        known = (1 - _EVEN) * bins / total + _EVEN / len(bins)
        places = np.concatenate([[-1.0], np.cumsum(known) * 2 - 1])
        knots = np.array(cells.edges)
        # Bins of whole numbers end after the upper bound.
        knots[-1] = min(knots[-1], column.upper)
        places[-1] = 1.0
        return cls(column, *_increasing(knots, places), column.special)

    @property
    def numeric(self) -> bool:
        """Whether it has a place."""
        return self.column.kind.numeric

    @property
    def choices(self) -> int:
        """How many indicators it has."""
        if self.numeric:
            apart = len(self.special) + self.column.nullable
            return 1 + apart if apart else 0
        return max(len(self.column.categories) + self.column.open_ended, 1) + self.column.nullable

    @property
    def size(self) -> int:
        """How many numbers."""
        return self.numeric + self.choices

    def encode(self, values: NDArray[np.float64] | Whole) -> Floats:
        """Return one vector per value; a special or a missing number is in the middle."""
        if not self.numeric:
            count = self.choices - self.column.nullable
            known = (values >= 0) & (values < count)
            index = np.where(known, values, count if self.column.nullable else 0).astype(np.int64)
            return np.equal.outer(index, np.arange(self.choices)) * 1.0
        numbers = np.asarray(values, np.float64)
        absent = np.isnan(numbers)
        place = np.interp(np.where(absent, self.knots[0], numbers), self.knots, self.places)
        if not self.choices:
            return np.where(absent, 0.0, place)[:, None]
        apart = [numbers == special for special in self.special] + [absent] * self.column.nullable
        ordinary = ~np.any([absent, *apart], axis=0)
        return np.column_stack([np.where(ordinary, place, 0.0), ordinary, *apart]) * 1.0

    def decode(self, vectors: Floats, uniform: Floats) -> Floats | Whole:
        """Return a value for each vector: a category as likely as its indicator says, a number by its place.

        Args:
            vectors: One a row; indicators are probabilities.
            uniform: A number from 0 up to 1 for each row, which draws.
        """
        chances = np.cumsum(np.maximum(vectors[:, int(self.numeric) :], 0.0), axis=1)
        drawn = (uniform[:, None] * chances[:, -1:] >= chances).sum(axis=1) if self.choices else np.zeros(len(uniform))
        which = np.minimum(drawn, max(self.choices - 1, 0)).astype(np.int64)
        if not self.numeric:
            return np.where((which == self.choices - 1) & self.column.nullable, -1, which)
        numbers = np.interp(vectors[:, 0], self.places, self.knots)
        numbers = np.clip(np.round(numbers) if self.column.whole else numbers, self.column.lower, self.column.upper)
        choices = [*(np.full(len(which), special) for special in self.special), np.full(len(which), np.nan)]
        return np.asarray(np.column_stack([numbers, *choices])[np.arange(len(which)), which])


@dataclass(frozen=True)
class RowVectors:
    """Rows of some columns as vectors, and back.

    Args:
        columns: The columns' parts, in order.

    Example:
        >>> from threea import hospital
        >>> vectors = RowVectors.of(hospital.schema().features)
        >>> vectors.width == sum(column.size for column in vectors.columns)
        True
    """

    columns: tuple[VectorColumn, ...]

    @classmethod
    def of(cls, columns: tuple[Column, ...]) -> RowVectors:
        """Read everything from the public description of the columns.

        Of many columns, pixels say, those special values that are a bound have no indicator: it would be the same as
        the place, and triple the vector.
        """
        return cls(tuple(VectorColumn.of(column, ends=len(columns) < _WIDE) for column in columns))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(part.column.name for part in self.columns)

    @property
    def width(self) -> int:
        """How many numbers a row has."""
        return sum(part.size for part in self.columns)

    @cached_property
    def groups(self) -> Whole:
        """For each number of a vector, which choice it is an indicator of; -1 if it is a place."""
        groups, choices = [], 0
        for part in self.columns:
            groups += [-1] * part.numeric + [choices] * part.choices
            choices += part.choices > 0
        return np.array(groups, np.int64)

    def encode(self, chunk: Chunk) -> Floats:
        """Return one vector per encoded row."""
        parts = [part.encode(chunk[part.column.name]) for part in self.columns]
        return np.hstack(parts) if parts else np.zeros((0, 0))

    def decode(self, vectors: Floats, rng: np.random.Generator) -> Chunk:
        """Return encoded columns by name, drawn by the vectors' indicators."""
        chunk: Chunk = {}
        start = 0
        for part in self.columns:
            chunk[part.column.name] = part.decode(vectors[:, start : start + part.size], rng.random(len(vectors)))
            start += part.size
        return chunk


def _increasing(knots: Floats, places: Floats) -> tuple[Floats, Floats]:
    """Return the knots without those that rounding put on their neighbour."""
    kept = np.append(True, np.diff(knots) > 0)
    kept[-1] = True
    kept[:-1] &= knots[:-1] < knots[-1]
    return knots[kept], places[kept]
