"""The public description of a table: kinds, bounds, categories, target.

Everything here is public knowledge, confirmed by the owner, or was paid for from the budget. A schema turns a chunk of
rows into plain arrays and back: categories become codes (-1 for missing), numbers and dates become floats within their
bounds (NaN for missing). A value outside the schema is clipped, or becomes "other" or missing.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from os import PathLike
from pathlib import Path
from typing import Any

from threea.errors import SchemaError
from threea.table import learned
from threea.table.column import LOOKS, OTHER, Chunk, Column, Kind, column_fields, column_from, is_dropped, toml_text
from threea.table.dialect import Dialect
from threea.table.learned import Distance
from threea.table.reading_section import reading_from, reading_items
from threea.table.rule_checks import check_rules
from threea.table.rule_repair import check_possible
from threea.table.rule_syntax import kept_rules, rule_lines, rules_from
from threea.table.rules import Rule, worked_out

__all__ = ["LOOKS", "OTHER", "Chunk", "Column", "Kind", "Origin", "Schema"]
READING = "[reading]"


class Origin(StrEnum):
    """Where a schema comes from."""

    OWNER = "owner"
    """The owner wrote it, and says that it is public."""
    TYPES = "types"
    """Only the columns' names and types were used: bounds are as wide as the types allow."""
    DISCOVERED = "discovered"
    """Bounds and categories were found through the door, and paid for."""
    RELEASED = "released"
    """It was discovered for another release, which paid for it."""


@dataclass(frozen=True, slots=True)
class Schema:
    """Public description of a table.

    Args:
        columns: In the order of the table.
        target: The column that models will learn to predict, if any.
        confirmed: Whether the owner says that all of this is public knowledge.
        number_target: Without bounds and categories yet, that a target of few whole numbers is still no class.
        origin: Where it comes from: the owner, the table's types alone, answers of the door, or another release.
        source: For a schema of another release, that release's `synthetic_sha256`, where it is known.
        rules: What every row keeps; public knowledge as the rest is.
        dropped: Columns of the table that are never read, and not released.
        reading: How the file is written that it describes, if it is text or a sheet.

    Raises:
        SchemaError: Two columns of one name, a target that is not among them, or rules that cannot be kept.
    """

    columns: tuple[Column, ...]
    target: str | None = None
    confirmed: bool = True
    origin: Origin = Origin.OWNER
    number_target: bool = False
    source: str = ""
    rules: tuple[Rule, ...] = ()
    dropped: tuple[str, ...] = ()
    reading: Dialect | None = None

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise SchemaError(f"columns ({', '.join(repeated)}) appear more than once; rename them")
        if self.target is not None and self.target not in names:
            raise SchemaError(f"target ({self.target}) is not a column; columns are: {', '.join(names)}")
        if self.target is not None and self[self.target].kind is Kind.ID:
            raise SchemaError(f"target ({self.target}) is of kind id, which is never read; choose another")
        if self.rules:
            check_rules(self.rules, self._by_name, self.target)
            check_possible(self._by_name, self.rules, self.target)

    def __getitem__(self, name: str) -> Column:
        """Return a column by name."""
        return next(column for column in self.columns if column.name == name)

    @property
    def valued(self) -> tuple[Column, ...]:
        """The columns that hold values, that is all but ids."""
        return tuple(column for column in self.columns if column.kind is not Kind.ID)

    @property
    def modelled(self) -> tuple[Column, ...]:
        """The columns as they are learned: those with values, but what follows from others, by the rules."""
        return learned.modelled(self.rules, self.valued, self.target) if self.rules else self.valued

    @property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    @property
    def features(self) -> tuple[Column, ...]:
        """The modelled columns without the target."""
        return tuple(column for column in self.modelled if column.name != self.target)

    def learned(self, chunk: Chunk) -> Chunk:
        """Return encoded rows as a model learns them, each by itself: of an ordered column, its distance."""
        return learned.learned(chunk, self.rules, self._by_name, self.target) if self.rules else chunk

    def sources(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return which columns must be read to learn those of these names."""
        return learned.sources(self.rules, self._by_name, self.target, names) if self.rules else tuple(names)

    @property
    def distances(self) -> Mapping[str, Distance]:
        """Which columns are learned as distances from others."""
        return learned.distances(self.rules, self._by_name, self.target) if self.rules else {}

    @property
    def kept_rules(self) -> list[tuple[str, str]]:
        """What each rule says in words, and how a release keeps it.

        Example:
            >>> columns = {name: {"kind": "integer", "lower": 0, "upper": 9, "nullable": False} for name in "ab"}
            >>> Schema.of(columns, rules=[{"order": "a <= b"}]).kept_rules
            [('a <= b', 'by construction')]
        """
        return kept_rules(self.rules, self._by_name, self.target)

    @property
    def followed(self) -> Mapping[str, str]:
        """By column that is worked out of others, the rule that says how."""
        return {name: rule.text for name, rule in worked_out(self.rules).items()}

    @property
    def untouched(self) -> tuple[str, ...]:
        """Names of the columns that are still exactly as a draft read them from the rows."""
        return tuple(column.name for column in self.columns if column.as_read == column.digest)

    @property
    def provenance(self) -> str:
        """Where it comes from, in words, for a certificate."""
        if self.origin is not Origin.RELEASED:
            return str(self.origin)
        return f"taken from release {self.source or 'unnamed'}, whose epsilon is not in this certificate"

    def without(self, names: Sequence[str]) -> Schema:
        """Return the same schema with some columns that are never read.

        Example:
            >>> columns = {name: {"kind": "integer", "lower": 0, "upper": 9} for name in "ab"}
            >>> Schema.of(columns).without(["b"]).dropped
            ('b',)
        """
        kept = tuple(column for column in self.columns if column.name not in names)
        return replace(self, columns=kept, dropped=tuple(dict.fromkeys((*self.dropped, *names))))

    def confirm(self) -> Schema:
        """Return the same schema, confirmed as public knowledge by the caller."""
        return replace(self, confirmed=True)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Schema:
        """Read a schema from a TOML file.

        Raises:
            SchemaError: The file cannot be read as a schema.
        """
        try:
            return cls.from_toml(Path(path).read_text(encoding="utf-8"), Path(path).parent)
        except OSError as error:
            raise SchemaError(f"schema ({path}) cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise SchemaError(f"schema ({path}) is not UTF-8 text; is it a schema.toml?") from None

    @classmethod
    def from_toml(cls, text: str, folder: Path | None = None) -> Schema:
        """Read a schema from TOML text.

        Args:
            text: What a schema file says.
            folder: Where files that its rules name are; None if there is none.
        """
        try:
            data = tomllib.loads(text)
        except ValueError as error:
            raise SchemaError(f"schema is not TOML: {error}") from None
        except RecursionError:
            raise SchemaError("schema is nested too deeply; is it a schema.toml?") from None
        columns = data.get("column")
        if not isinstance(columns, dict) or not columns:
            raise SchemaError("schema has no [column.NAME] sections; make a draft with `threea schema`")
        known = ("target", "confirmed", "origin", "release", "reading", "column", "rules")
        unknown = set(data) - set(known)
        if unknown:
            raise SchemaError(f"schema has unknown keys ({', '.join(sorted(unknown))}); known are {', '.join(known)}")
        origin, source = _origin_from(data)
        schema = cls.of(columns, data.get("target"), data.get("rules", []), folder)
        reading = reading_from(data.get("reading", {}))
        return replace(schema, confirmed=data.get("confirmed") is True, origin=origin, source=source, reading=reading)

    @classmethod
    def of(
        cls, columns: Mapping[str, Any], target: str | None = None, rules: Any = (), folder: Path | None = None
    ) -> Schema:
        """Make a schema from plain data.

        Args:
            columns: By name, what their TOML sections would say.
            target: The column that models will learn to predict, if any.
            rules: What the TOML sections of rules would say.
            folder: Where files that rules name are; None if there is none.

        Example:
            >>> Schema.of({"age": {"kind": "integer", "lower": 0, "upper": 120}})["age"].upper
            120.0
        """
        dropped = tuple(name for name, fields in columns.items() if is_dropped(name, fields))
        described = {name: column_from(name, fields) for name, fields in columns.items() if name not in dropped}
        kept = rules_from(list(rules) if isinstance(rules, tuple) else rules, described, folder)
        return cls(tuple(described.values()), target=target, rules=kept, dropped=dropped)

    def to_toml(self, notes: Mapping[str, str] | None = None, *, marks: bool = False, release: str = "") -> str:
        """Write the schema as TOML.

        Args:
            notes: What to say above a column, by name, and above the section on reading, by `READING`.
            marks: Whether to write down which columns were read from the rows: in a draft, never in a release.
            release: The `synthetic_sha256` of the release that this schema was discovered for, if it was.
        """
        lines = [f"confirmed = {str(self.confirmed).lower()}"]
        if self.origin is not Origin.OWNER:
            lines.append(f"origin = {toml_text(self.origin)}")
        source = self.source if self.origin is Origin.RELEASED else release
        if source and self.origin is not Origin.OWNER:
            lines.append(f"release = {toml_text(source)}")
        if self.target is not None:
            lines.append(f"target = {toml_text(self.target)}")
        read = [f"{key} = {toml_text(value)}" for key, value in reading_items(self.reading)]
        if read:
            lines += ["", *_comments(notes, READING), READING, *read]
        for column in self.columns:
            lines += ["", *_comments(notes, column.name)]
            lines.append(f"[column.{toml_text(column.name)}]")
            lines += [f"{key} = {toml_text(value)}" for key, value in column_fields(column)]
            if marks and column.as_read:
                lines.append(f"as_read = {toml_text(column.as_read)}")
        for name in self.dropped:
            lines += ["", f"[column.{toml_text(name)}]", "drop = true"]
        for rule in self.rules:
            lines += ["", *rule_lines(rule, self._by_name)]
        return "\n".join(lines) + "\n"


def _comments(notes: Mapping[str, str] | None, about: str) -> list[str]:
    return [f"# {line}" for line in (notes or {}).get(about, "").splitlines()]


def _origin_from(data: Mapping[str, Any]) -> tuple[Origin, str]:
    """Read where a schema file says that it comes from. What another release found, this one has not paid for."""
    origin, source = data.get("origin", Origin.OWNER), data.get("release", "")
    if origin == Origin.TYPES:
        raise SchemaError("schema's origin (types) describes no table; leave the schema out, and it is found anew")
    if origin not in (Origin.OWNER, Origin.DISCOVERED, Origin.RELEASED):
        raise SchemaError(f"schema's origin ({origin}) must be owner, discovered or released; leave it out if unsure")
    if not re.fullmatch(r"[0-9a-f]{0,64}", str(source)):
        raise SchemaError(f"schema's release ({source}) must be the synthetic_sha256 of a certificate; leave it out")
    return (Origin.OWNER, "") if origin == Origin.OWNER else (Origin.RELEASED, source)
