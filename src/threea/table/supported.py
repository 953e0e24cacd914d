"""Which types a schema describes: the kind that each stands for, and what to do with columns of others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import pyarrow as pa

from threea.errors import InputError
from threea.table.column_names import shown
from threea.table.layout import is_declared, plain
from threea.table.schema import Kind


def kind_of(field: pa.Field) -> Kind:
    """Return the kind that a column's type stands for.

    Raises:
        InputError: Columns of this type cannot be described by a schema.
    """
    refuse_unsupported([field])
    kind = plain(field.type)
    if pa.types.is_timestamp(kind) and not _known_zone(kind):
        raise InputError(f"column {field.name} has time zone {kind.tz}, which is unknown; convert it to UTC")
    return _kind_of(field) or Kind.UNDECLARED


def refuse_unsupported(layout: Iterable[pa.Field], others: Mapping[str, str] = MappingProxyType({})) -> None:
    """Refuse types that no schema describes, all of them at once.

    Args:
        layout: Columns of any type.
        others: The types of columns that Arrow does not know, by name.
    """
    names = {field.name: str(field.type) for field in layout if _kind_of(field) is None} | dict(others)
    if not names:
        return
    remedy = convert_or_drop(list(names))
    if len(names) == 1:
        name, kind = next(iter(names.items()))
        raise InputError(f"column {name} has type {kind}, which is not supported; {remedy}")
    told = shown([f"{name} ({kind})" for name, kind in names.items()])
    raise InputError(f"columns {told} have types that are not supported; {remedy}")


def convert_or_drop(names: Sequence[str]) -> str:
    """Say what to do with columns that cannot be read."""
    it = "it" if len(names) == 1 else "them"
    options = " ".join(f"--drop {name}" for name in names)
    return f"convert {it}, or drop {it}: {options}, drop = true in the schema, or drop=[...] in Python"


def check_unit(layout: pa.Schema, unit: str) -> None:
    """Refuse a unit column whose type takes two ids for one.

    Raises:
        InputError: It holds floats, or is of a type that no schema describes.
    """
    field = layout.field(unit)
    kind_of(field)
    if pa.types.is_floating(plain(field.type)):
        raise InputError(
            f"unit ({unit}) has type {plain(field.type)}, in which ids of 16 and more digits become one, "
            "as whole numbers do where an id is missing; read the column as text or as whole numbers"
        )


def _kind_of(field: pa.Field) -> Kind | None:
    """Return the kind that a type stands for, None if no schema describes it."""
    if not is_declared(field):
        return Kind.UNDECLARED
    kind = plain(field.type)
    # Arrow cannot turn a dictionary of views into plain text.
    usable = not (pa.types.is_dictionary(field.type) and pa.types.is_string_view(kind))
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
        if usable and test(kind):
            return Kind.CATEGORICAL if pa.types.is_dictionary(field.type) else found
    return None


def _known_zone(kind: pa.DataType) -> bool:
    try:
        pa.scalar(0, kind).cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True
