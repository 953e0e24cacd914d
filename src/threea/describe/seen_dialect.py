"""How the values of a text file are written, as they show it: decimal marks, grouped digits, dates.

A release never looks at rows to find out how to read them, for one row could then change how all others are read. This
is for the owner alone, who checks what is proposed.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from threea.backends import RowBackend
from threea.table.column_names import shown
from threea.table.dialect import Dialect

_MOST, _SOME = 0.9, 0.01
"""A column is written in a way if most of its values are, some of them so that it shows."""
_COMMAS, _GROUPS, _EITHER, _WHOLE, _POINTS = "commas", "groups", "either", "whole", "points"
_NUMBERS = {
    _COMMAS: r"^[+-]?(\d{1,3}(\.\d{3})+|\d*),\d+([eE][+-]?\d+)?$|^[+-]?\d{1,3}(\.\d{3}){2,}$",
    _GROUPS: r"^[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?$",
    _EITHER: r"^[+-]?[1-9]\d{0,2},\d{3}$",
    _WHOLE: r"^[+-]?(\d+|\d{1,3}\.\d{3})$",
    _POINTS: r"^[+-]?(\d*\.(\d{1,2}|\d{4,})|\d{4,}\.\d{3})([eE][+-]?\d+)?$",
}
"""Numbers with decimal commas, or points between thousands; with commas between thousands; that may be either; that any
column may have; and with decimal points."""
_LIKE_A_DATE = r"^\d{1,4}[./-]\d{1,2}[./-]\d{1,4}( \d{1,2}:\d{2}(:\d{2})?)?$"
_DAY, _MONTH, _CLOCK = r"(0?[1-9]|[12]\d|3[01])", r"(0?[1-9]|1[0-2])", r"([01]?\d|2[0-3])"
_PARTS = {"%d": _DAY, "%m": _MONTH, "%Y": r"\d{4}", "%y": r"\d{2}", "%H": _CLOCK, "%M": r"[0-5]\d", "%S": r"[0-5]\d"}
_ORDERS = ("%d{0}%m{0}%Y", "%m{0}%d{0}%Y", "%Y{0}%m{0}%d", "%d{0}%m{0}%y", "%m{0}%d{0}%y")
FORMATS = tuple(
    order.format(between) + clock
    for between, order, clock in itertools.product("./-", _ORDERS, ("", " %H:%M", " %H:%M:%S"))
    if not (between == "-" and order.startswith("%Y"))
)
"""The ways to write dates that are looked for; ISO dates are read always."""


@dataclass
class _Column:
    """How many values of a column there are, and how many are written in each way."""

    values: int = 0
    ways: Counter[str] = field(default_factory=Counter)

    def look(self, texts: pa.Array) -> None:
        """Count some values, none of them missing."""
        self.values += len(texts)
        counted = pc.value_counts(texts)
        distinct, counts = counted.field(0), counted.field(1).to_numpy()
        patterns = dict(_NUMBERS)
        dated = pc.match_substring_regex(distinct, _LIKE_A_DATE)
        if pc.any(dated).as_py():
            patterns |= {date_format: f"^{_pattern(date_format)}$" for date_format in FORMATS}
        for way, pattern in patterns.items():
            fits = pc.match_substring_regex(distinct, pattern).to_numpy(zero_copy_only=False)
            self.ways[way] += int(counts[fits].sum())

    @property
    def mark(self) -> str:
        """What decimal mark its numbers show, where it is a comma or commas group digits; nothing otherwise."""
        commas, groups, either, whole, points = (self.ways[way] for way in _NUMBERS)
        if commas > either:
            return "," if commas >= _SOME * self.values and commas + whole >= _MOST * self.values else ""
        return "." if groups > _SOME * self.values and groups + whole + points >= _MOST * self.values else ""

    @property
    def has_points(self) -> bool:
        """Whether it holds numbers with decimal points."""
        return (
            not self.mark and self.ways[_POINTS] + self.ways[_WHOLE] >= _MOST * self.values and self.ways[_POINTS] > 0
        )

    @property
    def formats(self) -> list[str]:
        """The ways in which most of its values may be written as dates."""
        return [name for name in FORMATS if self.values and self.ways[name] >= _MOST * self.values]


def seen_dialect(backend: RowBackend, said: Dialect) -> tuple[Dialect, str]:
    """Return a dialect with what the values show, where the owner said nothing, and a note for the owner.

    Args:
        backend: The rows, every column as the text that came.
        said: What the owner said.
    """
    names = backend.layout.names
    columns = {name: _Column() for name in names}
    missing = pa.array(said.missing_texts, pa.string())
    for batch in backend.batches(names):
        for name, column in columns.items():
            texts = batch.column(name).drop_null()
            column.look(texts.filter(pc.invert(pc.is_in(texts, value_set=missing))))
    decimal, about_numbers = (said.decimal, "") if said.decimal else _decimal(columns)
    formats, about_dates = (said.date_format, "") if said.date_format else _dates(columns)
    notes = "\n".join(filter(None, [about_numbers, about_dates]))
    return replace(said, decimal=decimal, date_format=formats), f"{_CHECK}\n{notes}" if notes else ""


_CHECK = "Seen in the values of the rows; check it, for all commands will read the file so."


def _decimal(columns: dict[str, _Column]) -> tuple[str | None, str]:
    """Return the decimal mark, and what to say of it."""
    commas, groups = ([name for name, column in columns.items() if column.mark == mark] for mark in ",.")
    points = [name for name, column in columns.items() if column.has_points]
    if commas and (points or groups):
        others = shown([*points, *groups])
        return (
            None,
            f"Columns with decimal commas ({shown(commas)}) and with points ({others}): one way must be mended.",
        )
    if commas:
        return ",", f"Decimal commas: {shown(commas)}."
    if not groups:
        return None, ""
    doubt = [name for name in groups if columns[name].ways[_GROUPS] == columns[name].ways[_EITHER]]
    note = f' If they are decimal commas ({shown(doubt)}), set decimal = ",".' if doubt else ""
    return ".", f"Commas between thousands: {shown(groups)}.{note}"


def _dates(columns: dict[str, _Column]) -> tuple[tuple[str, ...] | None, str]:
    """Return the ways in which dates are written, and what to say of them."""
    fits = {name: column.formats for name, column in columns.items() if column.formats}
    # A day beyond the twelfth shows which of two numbers is the month.
    sure = [formats[0] for formats in fits.values() if len(formats) == 1]
    chosen: dict[str, list[str]] = {}
    notes: list[str] = []
    for name, formats in sorted(fits.items(), key=lambda item: len(item[1])):
        date_format = max(formats, key=lambda f: (_order(f) in map(_order, sure), _usual(f)))
        if any(_order(other) == _order(_swapped(date_format)) for other in chosen):
            notes.append(f"Dates of {shown([name])} have day and month the other way round: mend them.")
            continue
        chosen.setdefault(date_format, []).append(name)
        if len(formats) > 1 and _order(date_format) not in map(_order, sure):
            notes.append(f"Dates of {shown([name])} may be written {_swapped(date_format)} as well: say which.")
    told = [f"Dates written {date_format}: {shown(names)}." for date_format, names in chosen.items()]
    return tuple(chosen) or None, "\n".join([*told, *notes])


def _order(date_format: str) -> str:
    """Return a date format without the time of day."""
    return date_format.partition(" ")[0]


def _swapped(date_format: str) -> str:
    """Return a date format with day and month the other way round."""
    return date_format.translate(str.maketrans("dm", "md"))


def _usual(date_format: str) -> bool:
    """Tell whether a format is what most files of its separator mean: slashes have the month first."""
    return date_format.startswith("%m") == ("/" in date_format)


def _pattern(date_format: str) -> str:
    return re.sub("%.", lambda part: _PARTS[part[0]], date_format.replace(".", r"\."))
