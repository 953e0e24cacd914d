"""The types of a release: a function of the schema and of declared types, never of values.

Declared are the types of Parquet and Arrow schemas, of pandas' and NumPy's dtypes but `object`, and of polars. CSV,
lists and Python objects declare nothing: their columns are read as text, and take their type from the schema's kind.
A list of categories is no part of a type (docs/proofs/readers.md).
"""

from __future__ import annotations

import pyarrow as pa

from threea.table.schema import Column, Kind, Schema

_MARK = {b"threea": b"undeclared"}

_BY_KIND: dict[Kind, pa.DataType] = {
    Kind.CATEGORICAL: pa.string(),
    Kind.ORDINAL: pa.string(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.INTEGER: pa.int64(),
    Kind.REAL: pa.float64(),
    Kind.DATE: pa.date32(),
    Kind.DATETIME: pa.timestamp("us"),
    Kind.ID: pa.string(),
    Kind.UNDECLARED: pa.string(),
}


def undeclared(name: str) -> pa.Field:
    """Return the field of a column that is read as text, and whose type nothing declares."""
    return pa.field(name, pa.string(), metadata=_MARK)


def is_declared(field: pa.Field) -> bool:
    """Tell whether a column's type was declared."""
    # A file may carry any note; only text is ever read as undeclared.
    return field.metadata != _MARK or not pa.types.is_string(field.type)


def declared(layout: pa.Schema) -> pa.Schema:
    """Return the same columns without what may tell of the rows: notes, and how a dictionary's codes are stored."""
    return one_width(pa.schema([field.remove_metadata() if is_declared(field) else field for field in layout]))


def one_width(layout: pa.Schema) -> pa.Schema:
    """Return the same columns, every dictionary with codes of 32 bits and in no order, however many words it has."""
    return pa.schema([field.with_type(_one_width(field.type)) for field in layout], metadata=layout.metadata)


def _one_width(kind: pa.DataType) -> pa.DataType:
    return pa.dictionary(pa.int32(), kind.value_type) if pa.types.is_dictionary(kind) else kind


def released(schema: Schema, layout: pa.Schema) -> pa.Schema:
    """Return names, order and types of a release's columns.

    Guarantees:
        - It depends on the schema and on declared types alone.
        - Codes of a dictionary are int32, however many categories there were; it is ordered if the schema says ordinal.

    Args:
        schema: The table's public description.
        layout: The private table's columns as declared.
    """
    return pa.schema([_released(schema[field.name], field) for field in layout])


def _released(column: Column, field: pa.Field) -> pa.Field:
    if not is_declared(field):
        return pa.field(column.name, _BY_KIND[column.kind])
    kind = field.type
    if pa.types.is_dictionary(kind):
        kind = pa.dictionary(pa.int32(), kind.value_type, ordered=column.kind is Kind.ORDINAL)
    # What is "other" among numbers or dates is missing.
    becomes_missing = column.open_ended and not is_text(plain(kind))
    return pa.field(column.name, kind, nullable=field.nullable or becomes_missing)


def plain(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values, which a dictionary has inside."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_text(kind: pa.DataType) -> bool:
    """Tell whether a type is one of text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
