"""How many bytes a row takes in a file at most, by what is public of its columns."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pyarrow as pa

from threea.table.layout import is_text, plain
from threea.table.schema import OTHER, Column, Kind, Schema
from threea.table.writing import CSV

_GROUP_ROWS = 1 << 16
"""Rows are written in groups of at least so many, but for the last; each has its own dictionaries."""
_GROUP_BYTES = 1_500
"""Of a column in a group, beside its values: headers and statistics. Measured: up to 600."""
_NUMBER, _MOMENT, _UNKNOWN = 24, 35, 64
"""Characters of a number in double precision, and of a date with a time and a zone; and of text that is yet to be
found, which is taken to be no longer than this in the mean."""


def row_bytes(schema: Schema, layout: pa.Schema, form: str) -> float:
    """Return how many bytes a row takes at most, in the mean over the rows of a file.

    Args:
        schema: The table's public description.
        layout: The released columns and their types.
        form: ``parquet`` or ``csv``.

    Example:
        >>> from threea import hospital
        >>> from threea.table.layout import released
        >>> layout = released(hospital.schema(), hospital.stays(10).schema)
        >>> [round(row_bytes(hospital.schema(), layout, form)) for form in ("parquet", "csv")]
        [84, 224]
    """
    width = _csv_width if form == CSV else _parquet_width
    return math.fsum(width(schema[field.name], plain(field.type)) for field in layout)


def _csv_width(column: Column, kind: pa.DataType) -> float:
    """Return the characters of a value, its quotes and what separates it from the next."""
    quotes = 3 if is_text(kind) else 0
    return 1 + quotes + max(map(_written, _texts(column)), default=_longest(column, kind))


def _parquet_width(column: Column, kind: pa.DataType) -> float:
    """Return the bytes of a value: in a dictionary, which is written anew in every group, and as an index into it."""
    texts = _texts(column) if is_text(kind) else ()
    own = _GROUP_BYTES / _GROUP_ROWS
    if texts:
        dictionary = sum(len(text.encode()) + 4 for text in texts) / _GROUP_ROWS
        whole = max(len(text.encode()) for text in texts) + 4
        return own + math.ceil(math.log2(len(texts) + 1)) / 8 + min(dictionary, whole)
    if is_text(kind):
        return own + 2 + 4 + _longest(column, kind)
    try:
        # A dictionary of 65,536 different values is still one, with indices of two bytes beside it.
        return own + 2 + int(kind.bit_width) / 8
    except ValueError:
        return own + 2 + _UNKNOWN


def _texts(column: Column) -> Sequence[str]:
    """Return the texts that a column may hold, if they are listed."""
    return (*column.categories, OTHER) if column.kind.listed and column.categories else ()


def _longest(column: Column, kind: pa.DataType) -> float:
    if pa.types.is_temporal(kind) or column.kind.temporal:
        return 10 if pa.types.is_date32(kind) else _MOMENT
    if pa.types.is_integer(kind) and column.lower is not None and column.upper is not None:
        ends = (column.lower, column.upper, *column.special)
        return max(len(str(int(end))) for end in ends)
    if pa.types.is_boolean(kind):
        return 5
    if column.kind.numeric or column.kind is Kind.ID or not is_text(kind):
        return _NUMBER
    return _UNKNOWN


def _written(text: str) -> int:
    """Return the bytes of a text in CSV, where a quote is written twice, and an apostrophe may be put before it."""
    return len(text.encode()) + text.count('"') + (text[:1] in "=+-@\t\r")
