"""Arrow rows to encoded chunks and back, as a schema says.

Encoding is total: no value, however odd, raises. What does not fit the schema is clipped, "other" or missing.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from threea import dates
from threea.errors import InputError, SchemaError
from threea.schema import OTHER, Chunk, Column, Kind, Schema

_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_TRUE, _FALSE = ("true", "t", "yes", "y", "1", "1.0"), ("false", "f", "no", "n", "0", "0.0")


def kind_of(field: pa.Field) -> Kind:
    """Return the kind that a column's type stands for.

    Raises:
        InputError: Columns of this type cannot be described by a schema.
    """
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if pa.types.is_dictionary(field.type):
        return Kind.CATEGORICAL
    for test, found in (
        (pa.types.is_boolean, Kind.BOOLEAN),
        (pa.types.is_integer, Kind.INTEGER),
        (pa.types.is_floating, Kind.REAL),
        (pa.types.is_decimal, Kind.REAL),
        (pa.types.is_date, Kind.DATE),
        (pa.types.is_timestamp, Kind.DATETIME),
        (pa.types.is_string, Kind.CATEGORICAL),
        (pa.types.is_large_string, Kind.CATEGORICAL),
        (pa.types.is_string_view, Kind.CATEGORICAL),
        (pa.types.is_null, Kind.CATEGORICAL),
    ):
        if test(kind):
            return found
    raise InputError(f"column {field.name} has type {field.type}, which is not supported; drop or convert it")


def fit(schema: Schema, layout: pa.Schema) -> Schema:
    """Check that a schema describes a table of this layout; put its columns in the table's order.

    Raises:
        SchemaError: A column is missing on either side, or of a type its kind cannot describe.
    """
    described, present = {column.name for column in schema.columns}, set(layout.names)
    for names, where in ((described - present, "the data has not"), (present - described, "the schema has not")):
        if names:
            raise SchemaError(f"column {', '.join(sorted(names))}: {where}; schema and data must have the same columns")
    for column in schema.columns:
        kind, text = kind_of(layout.field(column.name)), _is_text(layout.field(column.name).type)
        fits = (
            column.kind is Kind.ID
            or column.kind.listed
            or (column.kind.temporal and (kind.temporal or text))
            or (not column.kind.temporal and not kind.temporal and (kind is not Kind.CATEGORICAL or text))
        )
        if not fits:
            raise SchemaError(
                f"column {column.name}: schema says {column.kind}, but the data's type is"
                f" {layout.field(column.name).type}; correct the schema"
            )
    columns = tuple(
        # A type that cannot hold a missing value (a NumPy integer, say) makes the column never missing.
        replace(schema[field.name], nullable=schema[field.name].nullable and field.nullable)
        for field in layout
    )
    return replace(schema, columns=columns)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def encode(batch: pa.RecordBatch | pa.Table, schema: Schema) -> Chunk:
    """Turn those of a schema's columns that are in a batch into plain arrays."""
    present = set(batch.schema.names)
    return {
        column.name: encode_column(batch.column(column.name), column)
        for column in schema.modelled
        if column.name in present
    }


def encode_column(values: pa.Array | pa.ChunkedArray, column: Column) -> NDArray[Any]:
    """Turn one column into an array of codes (categories) or floats (numbers and dates)."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if column.kind.listed:
        return _codes(values, column)
    numbers = _moments(values, column) if column.kind.temporal else _floats(values)
    clipped = np.clip(numbers, column.lower, column.upper)
    if column.whole:
        clipped = np.round(clipped)
    for special in column.special:
        clipped[numbers == special] = special
    return clipped


def _codes(values: pa.Array, column: Column) -> NDArray[np.int64]:
    text = values.cast(pa.string())
    if column.kind is Kind.BOOLEAN:
        lowered = pc.utf8_lower(pc.utf8_trim_whitespace(text))
        truth = np.full(len(text), -1, np.int64)
        truth[_isin(lowered, _FALSE)] = 0
        truth[_isin(lowered, _TRUE)] = 1
        return truth
    found = pc.index_in(text, value_set=pa.array(column.categories, pa.string()))
    codes: NDArray[np.int64] = pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    if column.open_ended:
        codes[(codes < 0) & text.is_valid().to_numpy(zero_copy_only=False)] = len(column.categories)
    return codes


def _isin(text: pa.Array, words: tuple[str, ...]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = pc.is_in(text, value_set=pa.array(words)).to_numpy(zero_copy_only=False)
    return found


def _floats(values: pa.Array) -> NDArray[np.float64]:
    if _is_text(values.type):
        text = values.cast(pa.string())
        valid = pc.fill_null(pc.match_substring_regex(text, _NUMBER), False)
        values = pc.if_else(valid, pc.utf8_trim_whitespace(text), pa.scalar(None, pa.string()))
        # Arrow's parser takes no leading plus sign.
        values = pc.replace_substring_regex(values, r"^\+", "")
    elif pa.types.is_null(values.type):
        values = pa.nulls(len(values), pa.float64())
    numbers = values.cast(pa.float64(), safe=False)
    return np.array(pc.fill_null(numbers, np.nan).to_numpy(zero_copy_only=False), dtype=np.float64)


def _moments(values: pa.Array, column: Column) -> NDArray[np.float64]:
    if _is_text(values.type):
        encoded = values.cast(pa.string()).dictionary_encode()
        table = np.array([_moment(text, column) for text in encoded.dictionary.to_pylist()] + [np.nan])
        index = pc.fill_null(encoded.indices, len(table) - 1).to_numpy(zero_copy_only=False)
        moments: NDArray[np.float64] = table[index]
        return moments
    if pa.types.is_null(values.type):
        return np.full(len(values), np.nan)
    unit, integers = (pa.date32(), pa.int32()) if column.kind is Kind.DATE else (pa.timestamp("us"), pa.int64())
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us", values.type.tz), safe=False).cast(pa.int64()).cast(pa.timestamp("us"))
    whole = values.cast(unit, safe=False).cast(integers)
    return np.array(pc.fill_null(whole.cast(pa.float64(), safe=False), np.nan).to_numpy(zero_copy_only=False))


def _moment(text: str | None, column: Column) -> float:
    try:
        return dates.from_text((text or "").strip(), column.kind, column.name)
    except (SchemaError, OverflowError):
        return float("nan")


def decode(chunk: Chunk, schema: Schema, layout: pa.Schema, first_row: int = 0) -> pa.RecordBatch:
    """Turn encoded columns into Arrow rows with the layout's columns, order and types.

    Args:
        chunk: Encoded columns, all of the same length.
        schema: What they mean.
        layout: Names, order and types to give them.
        first_row: Number of the chunk's first row, where surrogate ids go on.
    """
    rows = len(next(iter(chunk.values())))
    arrays = []
    for field in layout:
        column = schema[field.name]
        if column.kind is Kind.ID:
            numbers = pa.array(np.arange(first_row + 1, first_row + rows + 1))
            text = _is_text(field.type)
            array = pa.array([f"synthetic-{number}" for number in numbers.to_pylist()]) if text else numbers
        else:
            array = _DECODERS[column.kind](chunk[column.name], column, field.type)
        arrays.append(_cast(array, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=layout)


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    if pa.types.is_dictionary(kind):
        return array.cast(kind.value_type, safe=False).dictionary_encode().cast(kind)
    if pa.types.is_null(kind):
        return pa.nulls(len(array))
    if pa.types.is_decimal(kind):
        return pc.round(array, kind.scale).cast(kind, safe=False)
    return array.cast(kind, safe=False)


def _from_codes(codes: NDArray[Any], column: Column, kind: pa.DataType) -> pa.Array:
    words: list[str | None] = list(column.categories)
    if column.open_ended:
        value_type = kind.value_type if pa.types.is_dictionary(kind) else kind
        words.append(OTHER if _is_text(value_type) else None)
    index = pa.array(codes, pa.int64(), mask=(codes < 0) | (codes >= len(words)))
    if pa.types.is_dictionary(kind) and _is_text(kind.value_type):
        # All categories of the schema, not only those that were drawn.
        return pa.DictionaryArray.from_arrays(
            index.cast(kind.index_type), pa.array(words, kind.value_type), ordered=kind.ordered
        )
    return pa.array(words, pa.string()).take(index)


def _from_booleans(codes: NDArray[Any], column: Column, kind: pa.DataType) -> pa.Array:
    truth = pa.array(codes == 1, mask=codes < 0)
    return truth if pa.types.is_boolean(kind) or _is_text(kind) else truth.cast(pa.int8())


def _from_floats(values: NDArray[Any], column: Column, kind: pa.DataType) -> pa.Array:
    missing = np.isnan(values)
    if not column.whole:
        return pa.array(values, pa.float64(), mask=missing)
    integers = pa.array(np.where(missing, 0, values).astype(np.int64), mask=missing)
    return integers


def _from_dates(values: NDArray[Any], column: Column, kind: pa.DataType) -> pa.Array:
    whole = _from_floats(values, column, kind)
    if column.kind is Kind.DATE:
        day = whole.cast(pa.int32()).cast(pa.date32())
        return _iso(day, datetime.date.isoformat) if _is_text(kind) else day
    moment = whole.cast(pa.timestamp("us"))
    return _iso(moment, datetime.datetime.isoformat) if _is_text(kind) else moment


def _iso(array: pa.Array, write: Callable[[Any], str]) -> pa.Array:
    return pa.array([None if value is None else write(value) for value in array.to_pylist()], pa.string())


_DECODERS: dict[Kind, Callable[[NDArray[Any], Column, pa.DataType], pa.Array]] = {
    Kind.CATEGORICAL: _from_codes,
    Kind.ORDINAL: _from_codes,
    Kind.BOOLEAN: _from_booleans,
    Kind.INTEGER: _from_floats,
    Kind.REAL: _from_floats,
    Kind.DATE: _from_dates,
    Kind.DATETIME: _from_dates,
}
