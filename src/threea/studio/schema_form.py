"""A schema as a form, and back: what stands in each field as text, read column by column."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from threea.errors import SchemaError
from threea.table import dates
from threea.table.schema import Column, Kind, Schema

KINDS = {
    Kind.CATEGORICAL: "categories, from a list",
    Kind.ORDINAL: "categories in an order",
    Kind.BOOLEAN: "yes or no",
    Kind.INTEGER: "whole number",
    Kind.REAL: "number",
    Kind.DATE: "date",
    Kind.DATETIME: "date and time",
    Kind.ID: "id: never read, replaced by a fresh one",
}


@dataclass(frozen=True, slots=True)
class ColumnForm:
    """What stands in the fields of one column."""

    name: str
    kind: str
    lower: str = ""
    upper: str = ""
    special: str = ""
    edges: str = ""
    step: str = ""
    categories: str = ""
    log: bool = False
    open_ended: bool = False
    nullable: bool = False
    source: str = ""
    """Where what stands here is public, in the owner's words."""
    problem: str = ""

    @classmethod
    def of(cls, column: Column, source: str = "") -> ColumnForm:
        """Fill the fields in."""
        return cls(
            name=column.name,
            kind=column.kind,
            lower=_shown(column.lower, column),
            upper=_shown(column.upper, column),
            special=", ".join(_shown(value, column) for value in column.special),
            edges=", ".join(_shown(value, column) for value in column.edges),
            step=_shown(column.step, column) if column.step else "",
            categories="" if column.kind is Kind.BOOLEAN else "\n".join(map(_line, column.categories)),
            log=column.log,
            open_ended=column.open_ended,
            nullable=column.nullable,
            source=source,
        )

    @classmethod
    def read(cls, form: Mapping[str, Any], position: int, name: str) -> ColumnForm:
        """Read the fields of the column at a position."""

        def text(field: str) -> str:
            return str(form.get(f"{position}-{field}", "")).strip("\r\n ")

        return cls(
            name=name,
            kind=text("kind"),
            lower=text("lower"),
            upper=text("upper"),
            special=text("special"),
            edges=text("edges"),
            step=text("step"),
            categories=text("categories"),
            log=bool(text("log")),
            open_ended=bool(text("open_ended")),
            nullable=bool(text("nullable")),
            source=text("source"),
        )

    def column(self, before: Column) -> Column:
        """Return the column that the fields describe.

        A column that was read from the rows stays marked so until it is edited, or its owner says where it is public.

        Raises:
            SchemaError: They describe none.
        """
        described = Schema.of({self.name: self._plain()})[self.name]
        if described.kind is before.kind:
            # What the form has no field for stays as it was.
            said = ("lower", "upper", "special", "edges", "step", "categories", "log", "open_ended", "nullable")
            described = replace(before, **{field: getattr(described, field) for field in said})
        return replace(described, as_read="" if self.source else before.as_read)

    def _plain(self) -> dict[str, Any]:
        """Return what the column's TOML section would say; fields that its kind does not have are left out."""
        kind = Kind(self.kind) if self.kind in KINDS else None
        if kind is None:
            raise SchemaError(f"column {self.name}: kind ({self.kind}) is unknown; choose one")
        found: dict[str, Any] = {"kind": str(kind), "nullable": self.nullable}
        if kind.numeric:
            read = self._number(kind)
            bounds = {"lower": self.lower, "upper": self.upper}
            found |= {key: read(text) for key, text in bounds.items() if text}
            found |= {key: [read(part) for part in _parts(getattr(self, key))] for key in ("special", "edges")}
            found["log"] = self.log
            if self.step and not kind.temporal:
                found["step"] = read(self.step)
        elif kind in (Kind.CATEGORICAL, Kind.ORDINAL):
            found |= {"categories": self._categories(), "open_ended": self.open_ended}
        return found

    def _number(self, kind: Kind) -> Callable[[str], Any]:
        def read(text: str) -> Any:
            if kind.temporal:
                return text
            try:
                return int(text) if text.lstrip("+-").isdecimal() else float(text)
            except ValueError:
                raise SchemaError(f"column {self.name}: ({text}) must be a number") from None

        return read

    def _categories(self) -> list[str]:
        lines = [line.strip() for line in self.categories.splitlines()]
        try:
            return [str(json.loads(line)) if line.startswith('"') else line for line in lines if line]
        except ValueError:
            raise SchemaError(f'column {self.name}: a category that begins with " must be a JSON string') from None


def read_columns(form: Mapping[str, Any], before: Schema) -> tuple[list[ColumnForm], list[Column]]:
    """Read all columns; those that describe nothing have their problem noted, and are left out of the second list."""
    forms, columns = [], []
    for position, column in enumerate(before.columns):
        fields = ColumnForm.read(form, position, column.name)
        try:
            columns.append(fields.column(column))
        except SchemaError as error:
            fields = replace(fields, problem=str(error))
        forms.append(fields)
    return forms, columns


def _shown(value: float | None, column: Column) -> str:
    if value is None:
        return ""
    if column.kind.temporal:
        return dates.to_text(value, column.kind)
    return str(int(value)) if column.whole else repr(float(value))


def _line(category: str) -> str:
    """Return a category as a line of the form; quoted if it would not come back as it is."""
    plain = category.isprintable() and category == category.strip() and category and not category.startswith('"')
    return category if plain else json.dumps(category)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.replace(";", ",").split(",") if part.strip()]
