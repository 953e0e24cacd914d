"""The schema's section [reading]: how the file is written that the schema describes, so that all read it alike."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import fields, replace
from os import PathLike
from pathlib import Path
from typing import Any

from threea.errors import SchemaError, SettingError
from threea.table.dialect import EXCEL, TEXT, Dialect

KEYS = tuple(field.name for field in fields(Dialect))
_TEXTS, _LISTS = ("separator", "encoding", "decimal", "sheet"), ("date_format", "missing")


def reading_from(section: Any) -> Dialect | None:
    """Read the section; None where it says nothing.

    Raises:
        SchemaError: It has unknown keys, or values that no file has.

    Example:
        >>> reading_from({"decimal": ",", "date_format": ["%d.%m.%Y"]}).date_formats
        ('%d.%m.%Y',)
    """
    if not isinstance(section, dict):
        raise SchemaError("schema's reading must be a section, [reading]")
    unknown = sorted(set(section) - set(KEYS))
    if unknown:
        raise SchemaError(f"schema's [reading] has unknown keys ({', '.join(unknown)}); known are {', '.join(KEYS)}")
    for key, value in section.items():
        if not _fits(key, value):
            wanted = "true or false" if key == "multiline" else "a list of texts" if key == "missing" else "text"
            raise SchemaError(f"schema's [reading]: {key} ({value}) must be {wanted}")
    try:
        said = Dialect(**section)
    except SettingError as error:
        problem = str(error)
    else:
        return stated(said)
    raise SchemaError(f"schema's [reading]: {problem}")


def _fits(key: str, value: Any) -> bool:
    if key == "multiline":
        return isinstance(value, bool)
    listed = isinstance(value, list) and all(isinstance(item, str) for item in value)
    return (key in _LISTS and listed) or (key != "missing" and isinstance(value, str))


def stated(dialect: Dialect | None) -> Dialect | None:
    """Return a dialect if it says something."""
    return None if dialect == Dialect() else dialect


def reading_items(reading: Dialect | None) -> list[tuple[str, Any]]:
    """Return what the section says, key by key."""
    said = ((key, getattr(reading, key)) for key in KEYS) if reading else ()
    default = Dialect()
    return [
        (key, list(value) if isinstance(value, tuple) else value)
        for key, value in said
        if value != getattr(default, key)
    ]


def reading_of(data: Any, said: Dialect | None, kept: Dialect | None) -> Dialect | None:
    """Return how data is read: as a schema says, if it says so and the data is text or a sheet, or else as options say.

    Args:
        data: A path, or a table that declares its types.
        said: What options say.
        kept: What the schema says.

    Raises:
        SettingError: The two disagree.

    Example:
        >>> reading_of("t.csv", Dialect(sheet=None), Dialect(decimal=","))
        Dialect(separator=None, encoding=None, decimal=',', date_format=None, missing=None, multiline=False, sheet=None)
    """
    endings = _endings(data)
    if kept is None or not endings & {*TEXT, *EXCEL}:
        return said
    sheet = bool(endings & {*EXCEL})
    kept = replace(kept, separator=None, encoding=None, multiline=False) if sheet else replace(kept, sheet=None)
    if said is None:
        return kept
    for key, value in reading_items(said):
        if not _agree(key, said, kept):
            pair = f"{key} ({_shown(value)}) disagrees with the schema's [reading] ({_shown(getattr(kept, key))})"
            raise SettingError(f"{pair}; leave it out or mend the schema")
    return replace(kept, sheet=kept.sheet or said.sheet)


def _endings(data: Any) -> set[str]:
    path = Path(data) if isinstance(data, str | PathLike) else Path()
    suffixes: Sequence[str] = [suffix.lower() for suffix in path.suffixes[-2:]]
    return set(suffixes)


def _agree(key: str, said: Dialect, kept: Dialect) -> bool:
    if key == "sheet" and kept.sheet is None:
        # A release's schema does not name its owner's sheet.
        return True
    if key == "date_format":
        return {*said.date_formats} <= {*kept.date_formats}
    if key == "encoding":
        return codecs.lookup(said.encoding or "").name == codecs.lookup(kept.encoding or "utf-8").name
    if key == "decimal":
        return said.decimal == (kept.decimal or ".")
    return bool(getattr(said, key) == getattr(kept, key))


def _shown(value: Any) -> str:
    return "none" if value is None else str(value) if not isinstance(value, tuple | list) else ", ".join(value)
