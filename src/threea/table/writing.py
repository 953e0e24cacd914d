"""Rows to a file, in the formats that a release can have; and a rehearsal of it before anything is spent."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from threea.errors import InputError
from threea.table import codec
from threea.table.csv_writing import CsvWriter
from threea.table.dialect import Dialect
from threea.table.from_types import of_kind
from threea.table.layout import is_text, plain, released
from threea.table.schema import Chunk, Column, Kind, Schema

PARQUET, CSV = "parquet", "csv"
FORMATS = (PARQUET, CSV)
_ROWS = 300
"""More than the numbers that a type of 8 bits can tell apart."""
_MOST_ROWS = 5000


class RowWriter:
    """Writes rows of one layout to a file.

    Args:
        sink: A path, or an open file.
        form: ``parquet`` or ``csv``.
        layout: The rows' columns and types.
        dialect: How a CSV file is written.
    """

    def __init__(self, sink: Any, form: str, layout: pa.Schema, dialect: Dialect | None = None) -> None:
        self._layout = pa.schema([_writable(field, form) for field in layout])
        if form == CSV:
            self._writer: Any = CsvWriter(sink, self._layout, dialect or Dialect())
        else:
            self._writer = pyarrow.parquet.ParquetWriter(sink, self._layout, compression="zstd")

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        self._writer.write_batch(batch.cast(self._layout))

    def __enter__(self) -> RowWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()


def _writable(field: pa.Field, form: str) -> pa.Field:
    """Return the field as a format can hold it: Arrow's CSV writer knows neither views of text nor all dictionaries."""
    if form != CSV:
        return field
    kind = plain(field.type)
    return field.with_type(pa.string() if pa.types.is_string_view(kind) else kind)


def rehearse(schema: Schema, layout: pa.Schema, restore: Callable[[pa.Table, Schema], Any]) -> None:
    """Decode, write and restore made-up rows that go to the ends of what a schema allows, before anything is spent.

    Guarantees:
        - No row is read: it depends on the schema and on declared types alone.
        - What could fail on the way out because of a column's type or description fails here. Categories yet to be
          found are text made from values of the column's type, which can be turned back.

    Args:
        schema: The table's public description, possibly from its types alone.
        layout: The private table's columns as declared.
        restore: Turns Arrow rows into the kind of table that came in.

    Raises:
        InputError: A column cannot be written.
    """
    if _fails(schema, layout, restore):
        for column in schema.columns:
            alone = pa.schema([layout.field(column.name)])
            if _fails(Schema((column,)), alone, None):
                kind = alone.field(0).type
                raise InputError(f"column {column.name} of type {kind} cannot be written; convert or drop it")
        raise InputError("the table's columns cannot be written together; convert them to plain types")


def _fails(schema: Schema, layout: pa.Schema, restore: Callable[[pa.Table, Schema], Any] | None) -> bool:
    described = Schema(tuple(_to_be(column, layout.field(column.name).type) for column in schema.columns))
    try:
        out = released(described, layout)
        batch = codec.decode(_extremes(described), described, out, first_row=0)
        batch.validate(full=True)
        for form in FORMATS:
            with RowWriter(io.BytesIO(), form, out) as writer:
                writer.write(batch)
        if restore is not None:
            restore(pa.Table.from_batches([batch]), described)
    # Whatever is raised, here or in the user's own table library, would be raised again after the charge.
    except Exception:
        return True
    return False


def _to_be(column: Column, kind: pa.DataType) -> Column:
    """Return a column as it may be once its kind and categories are found."""
    if column.kind is Kind.UNDECLARED:
        column = of_kind(column.name, Kind.CATEGORICAL)
    if not (column.kind.listed and column.open_ended and not column.categories):
        return column
    return replace(column, categories=_examples(plain(kind)))


def _examples(kind: pa.DataType) -> tuple[str, ...]:
    """Return values of a type as discovery would find them."""
    if is_text(kind) or pa.types.is_null(kind):
        return ("", "0", "a", "\N{GREEK SMALL LETTER ALPHA}")
    if pa.types.is_decimal(kind):
        values = pa.array(["0"]).cast(kind)
    elif pa.types.is_temporal(kind):
        values = pa.array([0, 1], pa.int32()).cast(pa.date32()).cast(kind)
    else:
        values = pa.array([0, 1]).cast(kind)
    return tuple(codec.as_text(values).to_pylist())


def _extremes(schema: Schema) -> Chunk:
    """Return rows that hold every end of every column: bounds, special values, categories, "other" and missing."""
    ends = {column.name: _ends(column) for column in schema.valued}
    rows = max([_ROWS, *(len(values) for values in ends.values())])
    # A table of ids alone still has rows.
    filled = {name: np.resize(values, rows) for name, values in ends.items()}
    return filled or {"": np.zeros(rows)}


def _ends(column: Column) -> NDArray[Any]:
    if column.kind.listed:
        first = -1 if column.nullable else 0
        return np.arange(first, min(len(column.categories) + column.open_ended, _MOST_ROWS), dtype=np.int64)
    assert column.lower is not None
    assert column.upper is not None
    missing = (np.nan,) if column.nullable else ()
    return np.array([column.lower, column.upper, *column.special, *column.edges[:_MOST_ROWS], *missing])
