"""A schema from names and declared types alone: bounds as wide as the types allow."""

from __future__ import annotations

import pyarrow as pa

from threea.table import dates
from threea.table.schema import Column, Kind, Origin, Schema
from threea.table.supported import kind_of, refuse_unsupported

_REAL_LIMIT = 2.0**100
_BITS = 54
"""Whole numbers of so many bits, sign included, are floats exactly."""


def widest(layout: pa.Schema, target: str | None, unit: str | None) -> Schema:
    """Describe a table by its columns' names and declared types alone.

    Raises:
        InputError: A column is of a type that no schema describes.
    """
    refuse_unsupported(layout)
    columns = tuple(_widest(field, is_id=field.name == unit) for field in layout)
    return Schema(columns, target=target, origin=Origin.TYPES)


def _widest(field: pa.Field, *, is_id: bool) -> Column:
    # An id is never read, but it is counted by, and surrogates of its type are written.
    kind = kind_of(field)
    bits, signed = _BITS, True
    if kind is Kind.INTEGER:
        bits, signed = min(field.type.bit_width, _BITS), pa.types.is_signed_integer(field.type)
    return of_kind(field.name, Kind.ID if is_id else kind, bits=bits, signed=signed, nullable=field.nullable)


def of_kind(name: str, kind: Kind, *, bits: int = _BITS, signed: bool = True, nullable: bool = True) -> Column:
    """Describe a column by its kind alone, as widely as values of so many bits reach."""
    lower = upper = None
    if kind is Kind.INTEGER:
        lower, upper = (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1) if signed else (0.0, 2.0**bits - 1)
    elif kind is Kind.REAL:
        lower, upper = -_REAL_LIMIT, _REAL_LIMIT
    elif kind.temporal:
        lower, upper = (dates.from_text(f"{year}-01-01", kind, name) for year in (1900, 2101))
    listed = kind is Kind.CATEGORICAL
    return Column(name=name, kind=kind, lower=lower, upper=upper, open_ended=listed, nullable=nullable)
