"""The kind of table that came in, as a value: what a release needs to be handed back as such a table.

It holds names and declared types, and nothing that could tell of a row: no categories, no order of them, no index.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from threea.table.schema import OTHER, Schema

ARROW_DTYPE, CATEGORY, ENUM, OBJECT = "arrow", "category", "enum", "object"


@dataclass(frozen=True, slots=True)
class Frame:
    """What to make of synthetic rows.

    Args:
        library: ``arrow``, ``pandas`` or ``polars``.
        labels: pandas' own names of the columns, in order.
        dtypes: By column name, what Arrow's types do not say: a dtype's name for pandas, ``enum`` for polars.
    """

    library: str = "arrow"
    labels: tuple[Any, ...] = ()
    dtypes: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, table: pa.Table, schema: Schema) -> Any:
        """Return Arrow rows as the kind of table that came in."""
        if self.library == "pandas":
            return self._pandas(table)
        if self.library == "polars":
            return self._polars(table, schema)
        return table

    def _pandas(self, table: pa.Table) -> Any:
        pandas = importlib.import_module("pandas")
        columns = [_series(table.column(name), self.dtypes[name], pandas) for name in table.column_names]
        frame = pandas.DataFrame(dict(enumerate(columns)))
        several = any(isinstance(label, tuple) for label in self.labels) and len({*map(type, self.labels)}) == 1
        frame.columns = pandas.Index(list(self.labels), tupleize_cols=several)
        return frame

    def _polars(self, table: pa.Table, schema: Schema) -> Any:
        polars = importlib.import_module("polars")
        # An Enum's categories are the schema's: those of the private table's type may be known from rows.
        enums = {name: polars.Enum(_words(schema, name)) for name in self.dtypes if schema[name].kind.listed}
        return polars.from_arrow(table).cast(enums)


def _words(schema: Schema, name: str) -> list[str]:
    column = schema[name]
    return list(dict.fromkeys((*column.categories, *((OTHER,) if column.open_ended else ()))))


def _series(values: pa.ChunkedArray, dtype: str, pandas: Any) -> Any:
    if dtype == ARROW_DTYPE:
        return values.to_pandas(types_mapper=pandas.ArrowDtype)
    if dtype in (CATEGORY, OBJECT):
        return values.to_pandas(date_as_object=True, integer_object_nulls=True).astype(dtype)
    wanted = pandas.api.types.pandas_dtype(dtype)
    if hasattr(wanted, "__from_arrow__"):
        return values.to_pandas(types_mapper=lambda _: wanted)
    return values.to_pandas(date_as_object=True).astype(wanted)
