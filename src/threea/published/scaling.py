"""Columns as coordinates in [0, 1] and back, scaled by the rows themselves as ClustMix does: not private.

Every column is one coordinate: a category counts as its code, so that D is the number of columns, as in the paper.
A missing category is one more code, after the others; a missing number takes the median of those that are there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from threea.table.schema import Chunk, Column

Floats = NDArray[np.float64]
Name = Literal["minmax", "quantile"]


@dataclass(frozen=True, slots=True)
class Scale:
    """One column's way to [0, 1] and back: straight lines between knots.

    Args:
        column: What it describes.
        values: Increasing, in the column's own units.
        places: Where they go, from 0 to 1.
        fill: The place of a missing number.
    """

    column: Column
    values: Floats
    places: Floats
    fill: float = 0.0

    @classmethod
    def of(cls, name: Name, column: Column, values: NDArray[Any]) -> Scale:
        """Read a scale off a column."""
        numbers = _numbers(column, values)
        present = numbers[~np.isnan(numbers)]
        if not len(present):
            return cls(column, np.array([np.nan if column.nullable else column.lower]), np.zeros(1))
        knots, places = _KNOTS[name](present)
        return cls(column, knots, places, float(np.interp(np.median(present), knots, places)))

    def encode(self, values: NDArray[Any]) -> Floats:
        """Return where the values of a column are in [0, 1]."""
        numbers = _numbers(self.column, values)
        return np.where(np.isnan(numbers), self.fill, np.interp(numbers, self.values, self.places))

    def decode(self, places: Floats) -> NDArray[Any]:
        """Return the nearest values that the column can have; places beyond 0 and 1 are at these ends."""
        values = np.interp(places, self.places, self.values)
        if self.column.kind.listed:
            codes, count = np.round(values).astype(np.int64), _count(self.column)
            return np.where(codes < count, codes, -1 if self.column.nullable else count - 1)
        return np.round(values) if self.column.whole else values


@dataclass(frozen=True, slots=True)
class Scaling:
    """Rows as points of the unit cube, and back: a scale for each column."""

    scales: tuple[Scale, ...]

    @classmethod
    def of(cls, name: Name, columns: tuple[Column, ...], chunk: Chunk) -> Scaling:
        """Read the scales off the rows.

        Args:
            name: `minmax`: the smallest value to 0, the largest to 1, evenly between. `quantile`: every value to the
                normal quantile of its middle rank, and these evenly to [0, 1].
            columns: Which columns.
            chunk: The rows.
        """
        return cls(tuple(Scale.of(name, column, chunk[column.name]) for column in columns))

    def encode(self, chunk: Chunk) -> Floats:
        """Return rows as points."""
        return np.column_stack([scale.encode(chunk[scale.column.name]) for scale in self.scales])

    def decode(self, points: Floats) -> Chunk:
        """Return points as rows."""
        return {scale.column.name: scale.decode(points[:, index]) for index, scale in enumerate(self.scales)}


def _count(column: Column) -> int:
    return len(column.categories) + column.open_ended


def _numbers(column: Column, values: NDArray[Any]) -> Floats:
    """Return codes as numbers, with the one for missing after the others."""
    return np.where(values < 0, _count(column), values) * 1.0 if column.kind.listed else values


def _minmax(values: Floats) -> tuple[Floats, Floats]:
    ends = np.unique([values.min(), values.max()])
    return ends, np.linspace(0.0, 1.0, len(ends))


def _quantile(values: Floats) -> tuple[Floats, Floats]:
    from scipy.special import ndtri

    knots, counts = np.unique(values, return_counts=True)
    middle = (np.cumsum(counts) - counts / 2) / len(values)
    normal = ndtri(middle)
    return knots, (normal - normal[0]) / max(normal[-1] - normal[0], 1e-300)


_KNOTS: dict[str, Callable[[Floats], tuple[Floats, Floats]]] = {"minmax": _minmax, "quantile": _quantile}
SCALINGS = tuple(_KNOTS)
