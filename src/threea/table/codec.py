"""Arrow rows to encoded chunks and back, as a schema says.

Encoding is total: no value, however odd, raises. What does not fit the schema is clipped, "other" or missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from threea.errors import SchemaError
from threea.table import dates
from threea.table.column_names import shown
from threea.table.layout import is_text, plain
from threea.table.patterns import looks
from threea.table.schema import OTHER, Chunk, Column, Kind, Schema
from threea.table.supported import kind_of, refuse_unsupported

_NUMBER = r"^\s*[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:inf(inity)?))\s*$"
_DAYS = 100_000
"""So many days from 1970 on, dates of every type reach."""
_TRUE, _FALSE = ("true", "t", "yes", "y", "1", "1.0"), ("false", "f", "no", "n", "0", "0.0")


def fit(schema: Schema, layout: pa.Schema) -> Schema:
    """Check that a schema describes a table of this layout; put its columns in the table's order.

    Raises:
        SchemaError: A column is missing on either side, or of a type its kind cannot describe.
    """
    described, present = {column.name for column in schema.columns}, set(layout.names)
    for names, where in ((described - present, "the data has not"), (present - described, "the schema has not")):
        if names:
            raise SchemaError(f"column {shown(sorted(names))}: {where}; schema and data must have the same columns")
    refuse_unsupported(layout)
    for column in schema.columns:
        problem = _misfit(column, layout.field(column.name))
        if problem:
            raise SchemaError(f"column {column.name}: {problem}; correct the schema")
    return replace(schema, columns=tuple(_limited(schema[field.name], field) for field in layout))


def _misfit(column: Column, field: pa.Field) -> str | None:
    """Say what a column's description asks of its type in vain."""
    kind, text = kind_of(field), is_text(field.type)
    if column.kind is Kind.ID or pa.types.is_null(field.type):
        return None
    if column.kind is Kind.BOOLEAN:
        fits = not pa.types.is_temporal(plain(field.type))
    elif column.kind.listed:
        return _unwritable(column, field.type)
    elif column.kind.temporal:
        fits = kind.temporal or text
    else:
        fits = not kind.temporal and (kind is not Kind.CATEGORICAL or text)
    return None if fits else f"schema says {column.kind}, but the data's type is {field.type}"


def _unwritable(column: Column, kind: pa.DataType) -> str | None:
    """Say which category a type cannot hold."""
    for word in column.categories:
        try:
            _words([word], kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return f"category ({word}) cannot be written as {plain(kind)}, the data's type"
    if not pa.types.is_null(plain(kind)):
        read = as_text(_words(list(column.categories), kind))
        if read.null_count or len(read.unique()) < len(read):
            return f"two categories are one value, or one is none, in the data's type {plain(kind)}"
    return None


def _limited(column: Column, field: pa.Field) -> Column:
    """Take from a column what its type has no room for: a NumPy integer, say, is never missing nor "other"."""
    if field.nullable:
        return column
    holds_other = not column.categories or is_text(plain(field.type))
    limited = replace(column, nullable=False, open_ended=column.open_ended and holds_other)
    # What was only read from the rows stays so, whatever its type takes from it.
    return replace(limited, as_read=limited.digest) if column.as_read == column.digest else limited


def encode(batch: pa.RecordBatch | pa.Table, schema: Schema) -> Chunk:
    """Turn those of a schema's columns that are in a batch into plain arrays."""
    present = set(batch.schema.names)
    return {
        column.name: encode_column(batch.column(column.name), column)
        for column in schema.valued
        if column.name in present
    }


def encode_learned(batch: pa.RecordBatch | pa.Table, schema: Schema) -> Chunk:
    """Turn a batch with the sources of some columns (`Schema.sources`) into arrays as a model learns them."""
    return schema.learned(encode(batch, schema))


def encode_column(values: pa.Array | pa.ChunkedArray, column: Column) -> NDArray[Any]:
    """Turn one column into an array of codes (categories, looks) or floats (numbers and dates)."""
    if isinstance(values, pa.ChunkedArray):
        nothing = pa.nulls(0, values.type)
        return np.concatenate([encode_column(chunk, column) for chunk in (nothing, *values.chunks)])
    values = values_of(values)
    if column.kind is Kind.UNDECLARED:
        return looks(values.cast(pa.string()))
    if column.kind.listed:
        return _codes(values, column)
    numbers = _moments(values, column) if column.kind.temporal else _floats(values)
    clipped = np.clip(numbers, column.lower, column.upper)
    if column.whole:
        clipped = np.round(clipped)
    for special in column.special:
        clipped[numbers == special] = special
    return clipped


def values_of(values: pa.Array) -> pa.Array:
    """Return the values of a dictionary, and moments as they are in UTC, whatever zone they are shown in."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_timestamp(values.type) and values.type.tz is not None:
        values = values.cast(pa.int64()).cast(pa.timestamp(values.type.unit))
    return values


def as_text(values: pa.Array) -> pa.Array:
    """Return values as text, each value in one way: there is one zero, and what is no number is missing."""
    values = values_of(values)
    if pa.types.is_floating(values.type):
        numbers = pc.add(values.cast(pa.float32() if pa.types.is_float16(values.type) else values.type), 0.0)
        values = pc.if_else(pc.is_nan(numbers), pa.scalar(None, numbers.type), numbers)
    return values.cast(pa.string())


def _codes(values: pa.Array, column: Column) -> NDArray[np.int64]:
    text = as_text(values)
    if column.kind is Kind.BOOLEAN:
        lowered = pc.utf8_lower(pc.utf8_trim_whitespace(text))
        truth = np.full(len(text), -1, np.int64)
        truth[_isin(lowered, _FALSE)] = 0
        truth[_isin(lowered, _TRUE)] = 1
        return truth
    # Written as the type writes them: a float's categories may be listed as 1 or as 1.0.
    listed = as_text(_words(list(column.categories), values.type))
    found = pc.index_in(text, value_set=listed, skip_nulls=True)
    codes: NDArray[np.int64] = pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    if column.open_ended:
        codes[(codes < 0) & text.is_valid().to_numpy(zero_copy_only=False)] = len(column.categories)
    return codes


def _isin(text: pa.Array, words: tuple[str, ...]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = pc.is_in(text, value_set=pa.array(words)).to_numpy(zero_copy_only=False)
    return found


def _floats(values: pa.Array) -> NDArray[np.float64]:
    if is_text(values.type):
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
    if is_text(values.type):
        encoded = values.cast(pa.string()).dictionary_encode()
        table = np.array([_moment(text, column) for text in encoded.dictionary.to_pylist()] + [np.nan])
        index = pc.fill_null(encoded.indices, len(table) - 1).to_numpy(zero_copy_only=False)
        moments: NDArray[np.float64] = table[index]
        return moments
    if pa.types.is_null(values.type):
        return np.full(len(values), np.nan)
    unit, integers = (pa.date32(), pa.int32()) if column.kind is Kind.DATE else (pa.timestamp("us"), pa.int64())
    whole = values.cast(unit, safe=False).cast(integers)
    return np.array(pc.fill_null(whole.cast(pa.float64(), safe=False), np.nan).to_numpy(zero_copy_only=False))


def _moment(text: str | None, column: Column) -> float:
    try:
        return dates.from_text((text or "").strip(), column.kind, column.name)
    except (SchemaError, OverflowError):
        return float("nan")


def decode(
    chunk: Chunk,
    schema: Schema,
    layout: pa.Schema,
    first_row: int = 0,
    ids: Mapping[str, NDArray[np.int64]] | None = None,
) -> pa.RecordBatch:
    """Turn encoded columns into Arrow rows with the layout's columns, order and types.

    Args:
        chunk: Encoded columns, all of the same length.
        schema: What they mean.
        layout: Names, order and types to give them.
        first_row: Number of the chunk's first row, where surrogate ids go on.
        ids: For some columns of kind id, the surrogates' own numbers, from 1 up.
    """
    rows = len(next(iter(chunk.values())))
    numbers = np.arange(first_row + 1, first_row + 1 + rows)
    arrays = []
    for field in layout:
        column = schema[field.name]
        if column.kind is Kind.ID:
            numbered = _surrogates((ids or {}).get(column.name, numbers), field.type)
            arrays.append(_cast(numbered, field.type))
        else:
            arrays.append(decode_column(chunk[column.name], column, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=layout)


def decode_column(values: NDArray[Any], column: Column, kind: pa.DataType) -> pa.Array:
    """Turn one encoded column into values of a type."""
    return _cast(_DECODERS[column.kind](values, column, kind), kind)


def surrogates(kind: pa.DataType) -> int:
    """Return how many surrogate ids of a type there are; beyond, they come round again."""
    if is_text(plain(kind)):
        return 2**53
    return _DAYS if pa.types.is_temporal(plain(kind)) else int(min(_range(plain(kind), whole=True)[1], 2.0**53))


def _surrogates(numbers: NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    if is_text(plain(kind)):
        return pc.binary_join_element_wise("synthetic", pa.array(numbers).cast(pa.string()), "-")
    # A narrow type has not as many values as there may be rows: they come round again.
    moments = pa.types.is_temporal(plain(kind))
    numbers = numbers % (surrogates(kind) + (not moments))
    return pa.array(numbers.astype("datetime64[D]")) if moments else pa.array(numbers)


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    if pa.types.is_dictionary(kind):
        # Arrow's cast between dictionaries takes away that they are ordered.
        encoded = _cast(array, kind.value_type).dictionary_encode()
        return pa.DictionaryArray.from_arrays(
            encoded.indices.cast(kind.index_type), encoded.dictionary, ordered=kind.ordered
        )
    if pa.types.is_null(kind):
        return pa.nulls(len(array))
    if pa.types.is_decimal(kind) and not is_text(array.type):
        return pc.round(array.cast(pa.float64(), safe=False), kind.scale).cast(kind, safe=False)
    return array.cast(kind, safe=False)


def _words(words: list[str], kind: pa.DataType) -> pa.Array:
    """Return categories as values of a column's type."""
    inner = plain(kind)
    if pa.types.is_null(inner):
        return pa.nulls(len(words))
    array = pa.array(words, pa.string())
    if pa.types.is_timestamp(inner):
        array = array.cast(pa.timestamp(inner.unit))
    return array.cast(inner)


def _from_codes(codes: NDArray[Any], column: Column, kind: pa.DataType) -> pa.Array:
    words = list(column.categories)
    # Among numbers and dates there is no word for "other": it is missing, and in no dictionary.
    if column.open_ended and is_text(plain(kind)):
        words += [OTHER] if OTHER not in words else []
        codes = np.where(codes == len(column.categories), words.index(OTHER), codes)
    mask = (codes < 0) | (codes >= len(words))
    # Taken as plain text first, for Arrow cannot take from views.
    values = _words(words, pa.string() if is_text(kind) else kind)
    if pa.types.is_dictionary(kind):
        index = pa.array(np.where(mask, 0, codes), kind.index_type, mask=mask)
        return pa.DictionaryArray.from_arrays(index, values, ordered=kind.ordered)
    return values.take(pa.array(np.where(mask, 0, codes), pa.int64(), mask=mask))


def _from_booleans(codes: NDArray[Any], column: Column, kind: pa.DataType) -> pa.Array:
    truth = pa.array(codes == 1, mask=codes < 0)
    return truth if pa.types.is_boolean(plain(kind)) or is_text(plain(kind)) else truth.cast(pa.int8())


def _from_floats(values: NDArray[Any], column: Column, kind: pa.DataType) -> pa.Array:
    missing = np.isnan(values)
    whole = column.whole or pa.types.is_integer(kind)
    present = np.clip(np.where(missing, 0.0, values), *_range(kind, whole=whole))
    if whole:
        present = np.round(present).astype(np.uint64 if pa.types.is_uint64(kind) else np.int64)
    return pa.array(present, mask=missing)


def _range(kind: pa.DataType, *, whole: bool) -> tuple[float, float]:
    """Return the least and the largest float that a type can hold."""
    if pa.types.is_integer(kind):
        limits = np.iinfo(kind.to_pandas_dtype())
        lower, upper = float(limits.min), float(limits.max)
    elif pa.types.is_decimal(kind):
        upper = 10.0 ** (kind.precision - kind.scale)
        # One unit in the last place less, or one float less if that is more.
        upper = min(upper - 10.0**-kind.scale, float(np.nextafter(upper, 0)))
        lower = -upper
    elif pa.types.is_floating(kind):
        limit = np.finfo(kind.to_pandas_dtype()).max
        lower, upper = -float(limit), float(limit)
    else:
        lower, upper = -np.inf, np.inf
    if whole and not pa.types.is_uint64(kind):
        lower, upper = max(lower, -(2.0**63)), min(upper, 2.0**63)
    # The largest whole numbers round up to a float that is one too many.
    return lower, float(np.nextafter(upper, 0)) if upper in (2.0**63, 2.0**64) else upper


def _from_dates(values: NDArray[Any], column: Column, kind: pa.DataType) -> pa.Array:
    # Nanoseconds in 64 bits reach from 1677 to 2262.
    nano = pa.types.is_timestamp(kind) and kind.unit == "ns"
    ends = ("1678-01-01", "2262-01-01") if nano else ("0001-01-01", "9999-12-31")
    first, last = (dates.from_text(end, column.kind, column.name) for end in ends)
    values = np.clip(values, first, last)
    whole = _from_floats(values, column, pa.int64())
    moments = whole.cast(pa.int32()).cast(pa.date32()) if column.kind is Kind.DATE else whole.cast(pa.timestamp("us"))
    return _iso(moments) if is_text(kind) else moments


def _iso(moments: pa.Array) -> pa.Array:
    return pa.array([None if moment is None else moment.isoformat() for moment in moments.to_pylist()], pa.string())


_DECODERS: dict[Kind, Callable[[NDArray[Any], Column, pa.DataType], pa.Array]] = {
    Kind.CATEGORICAL: _from_codes,
    Kind.ORDINAL: _from_codes,
    Kind.BOOLEAN: _from_booleans,
    Kind.INTEGER: _from_floats,
    Kind.REAL: _from_floats,
    Kind.DATE: _from_dates,
    Kind.DATETIME: _from_dates,
}
