"""Columns as numeric features from -1 to 1 and back, scaled by the rows themselves as the papers do: not private.

A number, a moment, a rank or a boolean is one feature: the rows' smallest value is -1, their largest 1. A category is
one-hot, 1 for the value a row has and -1 for each other that occurs. A missing category is one more value; a missing
number stands at the median of those that are there, and one more feature is 1 for missing and -1 otherwise. A feature
that is the same in all rows is left out, and put back as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.errors import SettingError
from threea.table.schema import Chunk, Column, Kind, Schema

Floats = NDArray[np.float64]
MOST_FEATURES = 2000
"""More would take gigabytes and many minutes: their covariance is a matrix of this side. Chosen."""

SCALED = (
    "the columns are scaled by the rows' own smallest and largest values, categories are those that occur, and a "
    "feature that is the same in all rows is released as it is; none of it is paid for"
)
"""What is taken for granted by it."""


@dataclass(frozen=True, slots=True)
class OneHot:
    """A categorical column: a feature for each value that occurs."""

    column: Column
    codes: NDArray[np.int64]
    """Those that occur; -1 is missing."""

    @classmethod
    def of(cls, column: Column, values: NDArray[Any]) -> OneHot:
        """Read off which values occur."""
        codes = np.unique(values)
        return cls(column, codes if column.nullable else codes[codes >= 0])

    @property
    def size(self) -> int:
        """How many features."""
        return len(self.codes)

    def encode(self, values: NDArray[Any]) -> Floats:
        """Return a row's features."""
        return np.where(values[:, None] == self.codes, 1.0, -1.0)

    def decode(self, features: Floats) -> NDArray[Any]:
        """Return the value whose feature is largest."""
        codes: NDArray[np.int64] = self.codes[features.argmax(axis=1)]
        return codes


@dataclass(frozen=True, slots=True)
class Number:
    """A column of numbers, moments, ranks or booleans: its place, and whether it is missing if it ever is."""

    column: Column
    lower: float
    upper: float
    """The rows' smallest and largest."""
    median: float
    missing: bool

    @classmethod
    def of(cls, column: Column, values: NDArray[Any]) -> Number:
        """Read the scale off the rows."""
        numbers = _numbers(column, values)
        present = numbers[~np.isnan(numbers)]
        missing = column.nullable and len(present) < len(numbers)
        if not len(present):
            present = np.array([column.lower or 0.0])
        return cls(column, float(present.min()), float(present.max()), float(np.median(present)), missing)

    @property
    def size(self) -> int:
        """How many features."""
        return 1 + self.missing

    def encode(self, values: NDArray[Any]) -> Floats:
        """Return a row's features."""
        numbers = _numbers(self.column, values)
        absent = np.isnan(numbers)
        known = np.where(absent, self.median, numbers) - self.lower
        place = 2 * known / max(self.upper - self.lower, 1e-300) - 1
        return np.column_stack([place, np.where(absent, 1.0, -1.0)])[:, : self.size]

    def decode(self, features: Floats) -> NDArray[Any]:
        """Return the nearest values that the column can have; missing where that feature is above 0."""
        values = self.lower + (features[:, 0] + 1) / 2 * (self.upper - self.lower)
        listed = self.column.kind.listed
        last = len(self.column.categories) + self.column.open_ended - 1
        bounds = (0, last) if listed else (self.column.lower, self.column.upper)
        values = np.round(values) if self.column.whole or listed else values
        inside = np.clip(values, *bounds)
        for special in self.column.special:
            inside = np.where(np.abs(values - special) < np.abs(values - inside), special, inside)
        absent = features[:, -1] > 0 if self.missing else np.zeros(len(values), np.bool_)
        return np.where(absent, -1, inside).astype(np.int64) if listed else np.where(absent, np.nan, inside)


@dataclass(frozen=True, slots=True)
class NumericFeatures:
    """Rows as points with numbers from -1 to 1, and back."""

    parts: tuple[OneHot | Number, ...]
    first: Floats
    """All features of the first row; those that vary are of no account."""
    varying: NDArray[np.bool_]

    @classmethod
    def of(cls, columns: tuple[Column, ...], chunk: Chunk) -> NumericFeatures:
        """Read off the rows what is needed."""
        parts = tuple(
            (OneHot if column.kind is Kind.CATEGORICAL else Number).of(column, chunk[column.name]) for column in columns
        )
        features = _all(parts, chunk)
        return cls(parts, features[0], (features != features[0]).any(axis=0))

    def encode(self, chunk: Chunk) -> Floats:
        """Return the features that vary."""
        return _all(self.parts, chunk)[:, self.varying]

    def decode(self, points: Floats) -> Chunk:
        """Return points as rows."""
        features = np.tile(self.first, (len(points), 1))
        features[:, self.varying] = points
        split = np.split(features, np.cumsum([part.size for part in self.parts])[:-1], axis=1)
        return {part.column.name: part.decode(own) for part, own in zip(self.parts, split, strict=True)}


def check_width(recipe: str, schema: Schema) -> None:
    """Refuse a table whose columns may have too many features.

    Raises:
        SettingError: They may.
    """
    most = sum(_most(column) for column in schema.modelled)
    if most > MOST_FEATURES:
        remedy = "list fewer categories and set open_ended = true, or leave columns out"
        raise SettingError(f"{recipe} would have up to {most} numeric features, at most {MOST_FEATURES}; {remedy}")


def _most(column: Column) -> int:
    one_hot = column.kind is Kind.CATEGORICAL
    return (len(column.categories) + column.open_ended if one_hot else 1) + column.nullable


def _all(parts: tuple[OneHot | Number, ...], chunk: Chunk) -> Floats:
    return np.hstack([part.encode(chunk[part.column.name]) for part in parts])


def _numbers(column: Column, values: NDArray[Any]) -> Floats:
    """Return ranks as numbers; NaN is missing."""
    return np.where(values < 0, np.nan, values) if column.kind.listed else np.asarray(values, np.float64)
