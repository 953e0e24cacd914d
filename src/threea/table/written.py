"""Numbers and moments as a column's type writes them: rounded, so that rules are kept by what is read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from numpy.typing import NDArray

from threea.errors import SchemaError
from threea.table import codec
from threea.table.column import Column, Kind
from threea.table.layout import plain
from threea.table.rule_repair import RuleKeeper
from threea.table.schema import Schema

_UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1.0}
_DAY = 86_400e6


@dataclass(frozen=True)
class Written:
    """Returns a column's encoded values as they are once written in its type and read back.

    Args:
        columns: By name.
        layout: Their types.

    Example:
        >>> import numpy as np
        >>> price = Column(name="price", kind=Kind.REAL, lower=0, upper=9)
        >>> as_written = Written({"price": price}, pa.schema([("price", pa.decimal128(5, 2))]))
        >>> as_written("price", np.array([1.234, np.nan])), as_written.grains
        (array([1.23,  nan]), {'price': 0.01})
    """

    columns: Mapping[str, Column]
    layout: pa.Schema

    def __call__(self, name: str, values: NDArray[Any]) -> NDArray[Any]:
        """Return values of a column."""
        column, kind = self.columns[name], self.layout.field(name).type
        if column.kind.listed or _exact(column, kind):
            return values
        return codec.encode_column(codec.decode_column(values, column, kind), column)

    @property
    def grains(self) -> dict[str, float]:
        """Distance between neighbouring values of the numeric columns; 0 for any number."""
        return {
            name: _grain(column, self.layout.field(name).type)
            for name, column in self.columns.items()
            if column.kind.numeric
        }


def rule_keeper(schema: Schema, layout: pa.Schema) -> RuleKeeper:
    """Return what works out, checks and mends rows, as their types write them."""
    # A column that is drawn and not written, such as a parent's number of children, is in no rule.
    columns = {column.name: column for column in schema.valued if column.name in layout.names}
    as_written = Written(columns, layout)
    return RuleKeeper(columns, schema.rules, schema.target, as_written.grains, as_written)


def check_written_rules(schema: Schema, layout: pa.Schema) -> None:
    """Refuse rules that no row keeps once it is written in its types; before anything is spent.

    Raises:
        SchemaError: There is none.
    """
    if schema.rules and rule_keeper(schema, layout).example() is None:
        raise SchemaError("the rules cannot be kept by values as the data's types write them; loosen them, or convert")


def _grain(column: Column, kind: pa.DataType) -> float:
    own, inner = column.step or float(column.whole), plain(kind)
    if column.kind is Kind.DATETIME:
        return _UNITS[inner.unit] if pa.types.is_timestamp(inner) else _DAY if pa.types.is_date(inner) else own
    if pa.types.is_integer(inner):
        return max(own, 1.0)
    return max(own, 10.0**-inner.scale) if pa.types.is_decimal(inner) else own


def _exact(column: Column, kind: pa.DataType) -> bool:
    """Tell whether a type holds every value of a column as it is."""
    if column.kind is Kind.INTEGER:
        return bool(pa.types.is_int64(kind) or pa.types.is_int32(kind))
    if column.kind is Kind.DATE:
        return bool(pa.types.is_date(kind))
    return bool(pa.types.is_float64(kind)) or (pa.types.is_timestamp(kind) and kind.unit == "us" and kind.tz is None)
