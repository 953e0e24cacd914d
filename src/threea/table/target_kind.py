"""What the owner says of a target without a schema: that it is a class, or a number."""

from __future__ import annotations

from dataclasses import replace

from threea.errors import SettingError
from threea.table.schema import Column, Kind, Schema

CLASS, NUMBER = "class", "number"


def with_target_kind(schema: Schema, said: str | None) -> Schema:
    """Return a schema made from names and types, with the target of the kind that was said.

    A class is text, whatever its type: its values are found as those of text are. A number stays one, however few
    values it has. If nothing is said, noisy counts decide for whole numbers.

    Raises:
        SettingError: Neither kind was said, there is no target, or it holds no numbers.
    """
    if said is None:
        return schema
    if said not in (CLASS, NUMBER):
        raise SettingError(f"target kind ({said}) must be {CLASS} or {NUMBER}")
    if schema.target is None:
        raise SettingError(f"target kind ({said}) needs a target; name its column")
    target = schema[schema.target]
    if said == NUMBER:
        if target.kind.listed:
            raise SettingError(f"target ({target.name}) holds no numbers; leave the target kind out")
        return replace(schema, number_target=True)
    if target.kind is Kind.BOOLEAN:
        return schema
    named = Column(name=target.name, kind=Kind.CATEGORICAL, open_ended=True, nullable=target.nullable)
    return replace(schema, columns=tuple(named if column is target else column for column in schema.columns))
