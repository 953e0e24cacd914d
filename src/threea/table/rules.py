"""Rules that every row keeps: public knowledge about how a table's columns hang together.

A rule is declared in the schema (`rule_syntax`), checked against it (`rule_checks`), and kept by every synthetic row.
Here is what a rule says, and which rows break it. No private row is read because of a rule; what a rule lets be left
out of the model is in `learned`, how a drawn row is mended in `rule_repair`.

A missing value breaks no rule but `Missing`, and a dependence where the value that it follows from is not missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.table.cells import multiple
from threea.table.column import Chunk, Column, Kind

Columns = Mapping[str, Column]
Truth = NDArray[np.bool_]
When = tuple[tuple[str, tuple[str, ...]], ...]
"""By column, the listed values with which a rule applies; all columns must have one of theirs."""

_SINGLE = 2.0**-22
"""Numbers that differ by no more than this share of them may be the same one, written in single precision."""


@dataclass(frozen=True, slots=True)
class Order:
    """One number or moment is at most another, or below it.

    Args:
        start: The column whose value comes first.
        end: The column whose value comes after.
        strict: Whether they may not be equal.
    """

    start: str
    end: str
    strict: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it is about."""
        return self.start, self.end

    @property
    def text(self) -> str:
        """What it says."""
        return f"{self.start} {'<' if self.strict else '<='} {self.end}"

    def broken(self, chunk: Chunk, columns: Columns) -> Truth:
        """Return which rows break it."""
        start, end = chunk[self.start], chunk[self.end]
        return np.asarray(start >= end if self.strict else start > end)


@dataclass(frozen=True, slots=True)
class Dependence:
    """One column follows from another, by a public table.

    Args:
        source: The column with listed values that it follows from.
        column: The column that follows.
        table: For each listed value of the source, its value: text, or a number as it is encoded.
    """

    source: str
    column: str
    table: tuple[tuple[str, str | float], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it is about."""
        return self.source, self.column

    @property
    def text(self) -> str:
        """What it says."""
        return f"{self.source} -> {self.column}"

    def values(self, chunk: Chunk, columns: Columns) -> NDArray[np.float64] | NDArray[np.int64]:
        """Return what follows: missing from a missing value, and from another one "other" if there is such a value."""
        source, column, table = columns[self.source], columns[self.column], dict(self.table)
        if column.kind.listed:
            codes = {word: code for code, word in enumerate(column.words)}
            beyond = [len(column.categories) if column.open_ended else -1] * source.open_ended
            return np.array([codes[str(table[word])] for word in source.categories] + [*beyond, -1])[chunk[self.source]]
        beyond_number = [np.nan] * source.open_ended
        found = np.array([float(table[word]) for word in source.categories] + [*beyond_number, np.nan])
        return np.asarray(found[chunk[self.source]])

    def broken(self, chunk: Chunk, columns: Columns) -> Truth:
        """Return which rows break it."""
        wanted, found = self.values(chunk, columns), chunk[self.column]
        if columns[self.column].kind.listed:
            return np.asarray(wanted != found)
        return _unlike(wanted, found, columns[self.column])


@dataclass(frozen=True, slots=True)
class Combinations:
    """Only these values of some columns occur together; a missing value goes with what is listed for the others.

    Args:
        columns: Columns with listed values.
        allowed: Their values in each combination.
    """

    columns: tuple[str, ...]
    allowed: tuple[tuple[str, ...], ...]

    @property
    def text(self) -> str:
        """What it says."""
        return f"{len(self.allowed)} combinations of {', '.join(self.columns)}"

    def codes(self, columns: Columns) -> NDArray[np.int64]:
        """Return the combinations as codes, one in each row."""
        return _codes(self.allowed, tuple(columns[name].words for name in self.columns))

    def broken(self, chunk: Chunk, columns: Columns) -> Truth:
        """Return which rows break it."""
        kinds, which = kinds_of([chunk[name] for name in self.columns])
        allowed = self.codes(columns)
        agree = [bool(((kind == allowed) | (kind < 0)).all(axis=1).any()) for kind in kinds]
        return ~np.array(agree, np.bool_)[which]


@dataclass(frozen=True, slots=True)
class Missing:
    """A column is missing exactly when others have certain values."""

    column: str
    when: When

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it is about."""
        return (self.column, *(name for name, _ in self.when))

    @property
    def text(self) -> str:
        """What it says."""
        return f"{self.column} is missing exactly when {_said(self.when)}"

    def broken(self, chunk: Chunk, columns: Columns) -> Truth:
        """Return which rows break it."""
        return np.asarray(missing(chunk[self.column]) != applies(self.when, chunk, columns))


@dataclass(frozen=True, slots=True)
class Sum:
    """A number is the sum of others, rounded as its own column is."""

    column: str
    parts: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it is about."""
        return (self.column, *self.parts)

    @property
    def text(self) -> str:
        """What it says."""
        return f"{self.column} = {' + '.join(self.parts)}"

    def values(self, chunk: Chunk, columns: Columns) -> NDArray[np.float64]:
        """Return the sum; missing where a part is."""
        total = np.sum([chunk[name] for name in self.parts], axis=0)
        column = columns[self.column]
        if column.step:
            return multiple(np.round(total / column.step), column.step)
        return np.asarray(np.round(total) if column.whole else total)

    def broken(self, chunk: Chunk, columns: Columns) -> Truth:
        """Return which rows break it."""
        return _unlike(self.values(chunk, columns), chunk[self.column], columns[self.column])


@dataclass(frozen=True, slots=True)
class Range:
    """A number or moment lies in narrower bounds where other columns have certain values."""

    column: str
    lower: float
    upper: float
    when: When

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it is about."""
        return (self.column, *(name for name, _ in self.when))

    @property
    def text(self) -> str:
        """What it says."""
        return f"{self.column} has narrower bounds when {self.said}"

    @property
    def said(self) -> str:
        """When it applies."""
        return _said(self.when)

    def broken(self, chunk: Chunk, columns: Columns) -> Truth:
        """Return which rows break it."""
        values, column = chunk[self.column], columns[self.column]
        outside = (values < self.lower - _slack(self.lower, column)) | (
            values > self.upper + _slack(self.upper, column)
        )
        return np.asarray(outside & applies(self.when, chunk, columns))


Rule = Order | Dependence | Combinations | Missing | Sum | Range


def missing(values: NDArray[np.float64] | NDArray[np.int64]) -> Truth:
    """Return which encoded values are missing."""
    return np.asarray(np.isnan(values) if values.dtype.kind == "f" else values < 0)


def kinds_of(codes: Sequence[NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the combinations of codes that occur, one in each row, and for each position which it is."""
    which = np.zeros(len(codes[0]), np.int64)
    first = which
    for column in codes:
        # Numbered anew for each column, so that they stay small.
        size = int(column.max(initial=0)) + 2
        _, first, which = np.unique(which * size + column + 1, return_index=True, return_inverse=True)
    return np.stack([column[first] for column in codes], axis=1), which


def applies(when: When, chunk: Chunk, columns: Columns) -> Truth:
    """Return the rows in which every named column has one of its listed values."""
    held = [np.isin(chunk[name], [columns[name].words.index(word) for word in words]) for name, words in when]
    return np.asarray(np.all(held, axis=0))


def worked_out(rules: Iterable[Rule]) -> dict[str, Dependence | Sum]:
    """Return the rules that say all about a column, by that column: it follows from others, and needs no model."""
    return {rule.column: rule for rule in rules if isinstance(rule, Dependence | Sum)}


def comparable(one: Column, other: Column) -> bool:
    """Tell whether values of two columns can be compared: numbers with numbers, moments of a kind with such."""
    return (one.kind if one.kind.temporal else Kind.REAL) == (other.kind if other.kind.temporal else Kind.REAL)


def _slack(value: NDArray[np.float64] | float, column: Column) -> Any:
    """Return by how much a number may differ from itself once it is written in single precision."""
    return 0.0 if column.whole else _SINGLE * np.abs(value)


def _unlike(wanted: NDArray[Any], found: NDArray[Any], column: Column) -> Truth:
    """Return where two numbers differ by more than rounding, or one of them is missing."""
    near = np.abs(wanted - found) <= np.maximum(column.step / 4, _slack(wanted, column))
    return np.asarray(~near & ~(np.isnan(wanted) & np.isnan(found)))


@lru_cache(maxsize=16)
def _codes(allowed: tuple[tuple[str, ...], ...], words: tuple[tuple[str, ...], ...]) -> NDArray[np.int64]:
    known = [{word: code for code, word in enumerate(listed)} for listed in words]
    codes = np.array([[each[word] for each, word in zip(known, row, strict=True)] for row in allowed])
    codes.flags.writeable = False
    return codes


def _said(when: When) -> str:
    return " and ".join(f"{name} is {' or '.join(words)}" for name, words in when)
