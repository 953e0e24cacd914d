"""A schema from names and declared types alone: bounds as wide as the types allow."""

from __future__ import annotations

import pyarrow as pa

from threea.table import codec, dates
from threea.table.schema import Column, Kind, Origin, Schema

_REAL_LIMIT = 2.0**100


def widest(layout: pa.Schema, target: str | None, unit: str | None) -> Schema:
    """Describe a table by its columns' names and types alone."""
    columns = tuple(_widest(field, is_id=field.name == unit) for field in layout)
    return Schema(columns, target=target, origin=Origin.TYPES)


def _widest(field: pa.Field, *, is_id: bool) -> Column:
    kind = Kind.ID if is_id else codec.kind_of(field)
    lower = upper = None
    if kind is Kind.INTEGER:
        # Types of up to 32 bits bound their values; wider ones are cut to what a float holds exactly.
        bits = min(field.type.bit_width, 54)
        signed = pa.types.is_signed_integer(field.type)
        lower, upper = (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1) if signed else (0.0, 2.0**bits - 1)
    elif kind is Kind.REAL:
        lower, upper = -_REAL_LIMIT, _REAL_LIMIT
    elif kind.temporal:
        lower, upper = (dates.from_text(f"{year}-01-01", kind, field.name) for year in (1900, 2101))
    return Column(
        name=field.name,
        kind=kind,
        lower=lower,
        upper=upper,
        open_ended=kind is Kind.CATEGORICAL,
        nullable=field.nullable,
    )
