"""A partition of a Dask DataFrame as Arrow rows of the types that the frame declares: exactly, or not at all.

pandas types each partition by itself, from the values in it. One word among numbers makes a file's other numbers text,
and one missing value makes its whole numbers floats, which round long ones. So a partition of another type than the
frame's `meta` is read only where each value is the same under both, whatever the others are.

Proof: docs/proofs/readers.md.
"""

from __future__ import annotations

import datetime
import decimal
import numbers
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from threea.backends import objects
from threea.errors import InputError
from threea.table.layout import is_declared, is_text, plain

_KINDS = (str, bool, numbers.Integral, numbers.Real, decimal.Decimal, datetime.datetime, datetime.date)
"""Of Python objects: whoever mixes them in a column may have made one of another for the sake of a third."""


@dataclass(frozen=True, slots=True, repr=False)
class Declared:
    """Reads partitions as a Dask DataFrame declares them.

    Guarantees:
        - A row's values depend on that row alone; a row more makes no other one, or the partition is refused.

    Args:
        meta: The frame without its rows.
        layout: Names, order and types of its columns.
        read: Reads a column of a pandas frame in this process; None if it cannot be.
    """

    meta: Any
    layout: pa.Schema
    read: Callable[[Any, pa.Field], pa.Array | None]

    def __call__(self, frame: Any, columns: Sequence[str]) -> pa.Table:
        """Return these columns of a partition.

        Raises:
            InputError: One does not fit what the frame declares.
        """
        labels = {str(label): label for label in self.meta.columns}
        if list(frame.columns) != list(self.meta.columns):
            raise InputError("a partition of the Dask DataFrame has other columns than the frame; give each the same")
        fields = [self.layout.field(name) for name in columns]
        arrays = [self._array(frame[labels[field.name]], self.meta[labels[field.name]], field) for field in fields]
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))

    def _array(self, series: Any, meta: Any, field: pa.Field) -> pa.Array:
        array = None
        with suppress(pa.ArrowException, OverflowError, TypeError, ValueError):
            array = _exact(self._read(series, meta, field), field.type)
        if array is None:
            # Arrow's message would quote a value.
            raise InputError(
                f"column {field.name} is of dtype {meta.dtype} in the Dask DataFrame, and a partition of dtype "
                f"{series.dtype} does not fit it exactly; read all with one (dtype=..., dtype_backend='pyarrow')"
            )
        if array.null_count and not field.nullable:
            raise InputError(
                f"column {field.name} holds missing values, for which its dtype in the Dask DataFrame ({meta.dtype}) "
                "has no room; give it one that has"
            )
        return array

    def _read(self, series: Any, meta: Any, field: pa.Field) -> pa.Array | None:
        """Return a column as Arrow has it, if it can; one that is missing in every row is of any type."""
        if series.isna().all():
            return pa.nulls(len(series), field.type)
        if _is_category(series):
            return self._categories(series, meta, field)
        if series.dtype == object:
            return _objects(series, field)
        array = pa.Array.from_pandas(series)
        # Objects are any; those that became numbers here may have been other texts.
        return array if is_declared(field) or is_text(array.type) else None

    def _categories(self, series: Any, meta: Any, field: pa.Field) -> pa.Array | None:
        categories = series.cat.categories
        if _is_category(meta) and categories.dtype == meta.cat.categories.dtype and categories.dtype != object:
            return self.read(series, field)
        codes = series.cat.codes.to_numpy().astype("int32")
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), _texts(categories))


def _is_category(series: Any) -> bool:
    return type(series.dtype).__name__ == "CategoricalDtype"


def _objects(series: Any, field: pa.Field) -> pa.Array | None:
    """Return Python objects, each by itself: as text where none is declared, else texts and truth values alone."""
    if is_declared(field):
        return pa.array(series, field.type) if pa.types.is_boolean(field.type) else _texts(series)
    _check_alike(series)
    return objects.as_text(series)


def _texts(values: Iterable[Any]) -> pa.Array:
    texts = [value if isinstance(value, str) or not _present(value) else TypeError for value in values]
    return pa.array(texts, pa.large_string(), from_pandas=True)


def _present(value: Any) -> bool:
    return not (value is None or value != value or type(value).__name__ in ("NAType", "NaTType"))


def _check_alike(values: Iterable[Any]) -> None:
    kinds = {next((k for k in _KINDS if isinstance(value, k)), None) for value in values if _present(value)}
    if len(kinds) > 1:
        raise TypeError


def _exact(values: pa.Array | None, kind: pa.DataType) -> pa.Array:
    """Return values in another type that holds each of them unchanged.

    Raises:
        TypeError: The types are of different kinds.
        pa.ArrowException: A value has no room in it.
    """
    if values is None:
        raise TypeError
    if pa.types.is_dictionary(values.type) and pa.types.is_dictionary(kind):
        inner = _exact(values.dictionary, kind.value_type)
        return pa.DictionaryArray.from_arrays(values.indices.cast(kind.index_type), inner)
    if pa.types.is_dictionary(values.type):
        return _exact(values.cast(values.type.value_type), kind)
    if pa.types.is_dictionary(kind):
        return _exact(values, kind.value_type).dictionary_encode().cast(kind)
    if values.type != kind and not _holds(kind, values.type):
        raise TypeError
    values = values.cast(kind)
    # Whole numbers have one zero: -0 is 0 whatever its partition was taken for.
    return pc.add(values.cast(pa.float64()), 0.0).cast(kind) if pa.types.is_floating(kind) else values


def _holds(kind: pa.DataType, other: pa.DataType) -> bool:
    """Tell whether a type holds the same values as another, as far as they have room in it."""
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(other):
        return bool(kind.tz == other.tz)
    whole = bool(pa.types.is_integer(other))
    if pa.types.is_integer(kind):
        return whole
    if pa.types.is_floating(kind):
        # Arrow refuses whole numbers that a float may not hold.
        return whole or bool(pa.types.is_floating(other) and other.bit_width <= kind.bit_width)
    return is_text(plain(kind)) and is_text(other)
