"""A first schema for the owner to correct: what the rows look like, not what is public about them.

The one place where bounds and categories are read off the rows without noise. So a draft is private, is not confirmed,
and is refused by the door until its owner has replaced what was read by what anyone may know.
"""

from __future__ import annotations

import decimal
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from threea.backends import open_backend
from threea.errors import InputError, SettingError
from threea.table import codec, dates
from threea.table.from_types import widest
from threea.table.schema import Column, Kind, Schema

HEADER = """\
# A DRAFT. It holds values read from the private rows: keep it private until it is confirmed.
# Replace what was read from the rows by what is public, section by section, then set confirmed = true.
"""
_MOST_LISTED = 1000
_MOST_COUNTED = 1 << 18
"""Beyond so many different texts no new ones are counted, so that memory stays bounded."""
_HUGE = 2.0**100
_WIDE = 1000.0
"""Positive numbers whose largest is so many times the smallest are proposed on a log scale."""

_NOTHING = "Nothing but whether values are missing was read from the rows."
_LISTED = """\
categories are the values found in the rows, the rarest included: keep only those that are public,
such as a code list; set open_ended = true for the rest."""
_FREQUENT = f"""\
categories are the {_MOST_LISTED} most frequent values found in the rows: keep only those that are public,
such as a code list. If the values name persons, set kind = "id" instead."""
_ID = """\
Nearly every row has a value of its own, so this looks like an id, whose values are never read.
If the text has a meaning, make it categorical with a public list and open_ended = true."""
_DATED = """\
lower and upper are the first and the last moment found in the rows, rounded outwards to whole years;
replace them by limits that anyone knows, such as the years in which rows were collected."""
_NUMBERED = """\
lower and upper are the smallest and the largest value found in the rows, rounded outwards to two digits;
replace them by limits that anyone knows, such as 0 and 120 for an age."""
_SHAPED = " Keep special and log only if what the column means says so."


def draft(data: Any, target: str | None = None) -> tuple[Schema, dict[str, str]]:
    """Propose a schema from the rows, not confirmed, with a note on each column.

    Reads the rows in one pass, without noise: what comes out is for their owner alone.

    Args:
        data: A path to CSV or Parquet (a file or a folder), or a pandas, polars or Arrow table.
        target: The column that models will learn to predict.

    Returns:
        The schema, and for each column what was read from the rows and what would make it public.

    Raises:
        InputError: The data cannot be read, or has no rows.
        SettingError: The target is not a column.

    Example:
        >>> from threea import hospital
        >>> schema, notes = draft(hospital.stays(100), target="died")
        >>> schema.confirmed, notes["died"]
        (False, 'Nothing but whether values are missing was read from the rows.')
    """
    backend, _ = open_backend(data)
    if target is not None and target not in backend.layout.names:
        raise SettingError(f"target ({target}) is not a column; columns are: {', '.join(backend.layout.names)}")
    seen = [_Seen(_anywhere(column)) for column in widest(backend.layout, target, None).columns]
    for batch in backend.batches(backend.layout.names):
        for column in seen:
            column.look(batch.column(column.column.name))
    if not seen[0].rows:
        raise InputError("the table has no rows; there is nothing to describe")
    proposed = [column.propose(is_target=column.column.name == target) for column in seen]
    schema = Schema(tuple(column for column, _ in proposed), target=target, confirmed=False)
    return schema, {column.name: note for column, note in proposed}


def to_toml(schema: Schema, notes: Mapping[str, str]) -> str:
    """Write a draft as TOML, headed by a warning."""
    return HEADER + schema.to_toml(notes)


def _anywhere(column: Column) -> Column:
    """Return the column with bounds that cut off no moment."""
    if not column.kind.temporal:
        return column
    lower, upper = (dates.from_text(text, column.kind, column.name) for text in ("0001-01-01", "9999-12-31"))
    return replace(column, lower=lower, upper=upper)


@dataclass(slots=True)
class _Seen:
    """What a pass over the rows has shown of one column."""

    column: Column
    rows: int = 0
    missing: int = 0
    zeros: int = 0
    lower: float = math.inf
    """Smallest value but 0."""
    upper: float = -math.inf
    nearest: float = math.inf
    """Smallest distance from 0 of a value but 0."""
    words: Counter[str] = field(default_factory=Counter)
    distinct: float = 0.0
    """Share of different texts, among the rows until they became too many to count."""

    def look(self, values: pa.Array) -> None:
        """Take in one batch."""
        self.rows += len(values)
        if self.column.kind is Kind.CATEGORICAL:
            self._count(values)
            return
        encoded = codec.encode_column(values, self.column)
        missing = encoded < 0 if self.column.kind is Kind.BOOLEAN else np.isnan(encoded)
        self.missing += int(missing.sum())
        if self.column.kind.numeric:
            self._measure(encoded[~missing])

    def _count(self, values: pa.Array) -> None:
        text = values.cast(values.type.value_type if pa.types.is_dictionary(values.type) else pa.string())
        found = pc.value_counts(text.cast(pa.string()).drop_null())
        self.missing += text.null_count
        counts = dict(zip(found.field(0).to_pylist(), found.field(1).to_pylist(), strict=True))
        if len(self.words) > _MOST_COUNTED:
            counts = {word: count for word, count in counts.items() if word in self.words}
        else:
            self.distinct = len(self.words.keys() | counts.keys()) / max(self.rows, 1)
        self.words.update(counts)

    def _measure(self, numbers: NDArray[np.float64]) -> None:
        # Infinite numbers were cut to the widest bounds, and say nothing.
        finite = numbers[np.abs(numbers) < _HUGE]
        others = finite[finite != 0]
        self.zeros += len(finite) - len(others)
        self.lower = min(self.lower, float(others.min(initial=math.inf)))
        self.upper = max(self.upper, float(others.max(initial=-math.inf)))
        self.nearest = min(self.nearest, float(np.abs(others).min(initial=math.inf)))

    def propose(self, *, is_target: bool) -> tuple[Column, str]:
        """Return the column as seen, and a note on what of it is private."""
        column = replace(self.column, nullable=self.missing > 0)
        if column.kind is Kind.BOOLEAN:
            return column, _NOTHING
        if column.kind is Kind.CATEGORICAL:
            return self._listed(column, is_target)
        return self._dated(column) if column.kind.temporal else self._numbered(column)

    def _listed(self, column: Column, is_target: bool) -> tuple[Column, str]:
        often = tuple(sorted(word for word, _ in self.words.most_common(_MOST_LISTED)))
        if len(self.words) <= _MOST_LISTED:
            return replace(column, categories=often, open_ended=not often), _LISTED
        if self.distinct > 0.9 and not is_target:
            return replace(column, kind=Kind.ID, open_ended=False), _ID
        return replace(column, categories=often), _FREQUENT

    def _dated(self, column: Column) -> tuple[Column, str]:
        ends = self._ends() or [dates.from_text(f"{year}-01-01", column.kind, column.name) for year in (1900, 2099)]
        first, last = (int(dates.to_text(end, column.kind)[:4]) for end in ends)
        texts = (f"{first:04}-01-01", f"{last + 1:04}-01-01" if last < 9999 else "9999-12-31")
        lower, upper = (dates.from_text(text, column.kind, column.name) for text in texts)
        return replace(column, lower=lower, upper=upper), _DATED

    def _numbered(self, column: Column) -> tuple[Column, str]:
        stands_apart = not column.whole or self.nearest > 1 or self.upper > _WIDE * self.nearest
        spike = stands_apart and self.zeros > 0.1 * (self.rows - self.missing) and self.lower < math.inf
        low, high = self._ends(spike) or [0.0, 1.0]
        lower, upper = _outwards(low, up=False, whole=column.whole), _outwards(high, up=True, whole=column.whole)
        if lower == upper and not column.whole:
            upper = _outwards(math.nextafter(upper, math.inf), up=True, whole=False)
        log = low > 0 and high > _WIDE * low
        note = _NUMBERED + (_SHAPED if spike or log else "")
        return replace(column, lower=lower, upper=upper, special=(0.0,) if spike else (), log=log), note

    def _ends(self, spike: bool = False) -> list[float]:
        """Return the smallest and the largest value, a spike at 0 left out; nothing if there is none."""
        found = [end for end in (self.lower, self.upper) if math.isfinite(end)] + [0.0] * (self.zeros > 0 and not spike)
        return [min(found), max(found)] if found else []


def _outwards(value: float, *, up: bool, whole: bool) -> float:
    """Round away from the other values, to two significant digits.

    Example:
        >>> _outwards(117.0, up=True, whole=True), _outwards(0.0129, up=False, whole=False)
        (120.0, 0.012)
    """
    exact = decimal.Decimal(repr(value))
    exponent = max(exact.adjusted() - 1, 0) if whole else exact.adjusted() - 1
    rounding = decimal.ROUND_CEILING if up else decimal.ROUND_FLOOR
    return float(exact.quantize(decimal.Decimal((0, (1,), exponent)), rounding=rounding)) if value else 0.0
