"""A first schema for the owner to correct: what the rows look like, not what is public about them.

The one place where bounds and categories are read off the rows without noise. So a draft is private, is not confirmed,
and is refused by the door until its owner has replaced what was read by what anyone may know. Each section is marked
as read: the mark matches until the section is edited, so that a release can say how much of its schema came from rows.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from threea.backends import RowBackend, open_backend
from threea.describe.seen_column import SeenColumn
from threea.describe.seen_dialect import seen_dialect
from threea.errors import InputError, SettingError
from threea.table import dates
from threea.table.column_names import not_a_column
from threea.table.dialect import Dialect, EveryColumn
from threea.table.from_types import of_kind, widest
from threea.table.patterns import looks, settled
from threea.table.reading_section import stated
from threea.table.schema import LOOKS, READING, Column, Kind, Schema
from threea.table.supported import check_unit, refuse_unsupported

HEADER = """\
# A DRAFT. It holds values read from the private rows: keep it private until it is confirmed.
# Replace what was read from the rows by what is public, section by section, then set confirmed = true.
# as_read marks a section as read from the rows, until you edit the section. Delete the line where what was read is
# public as it stands: a release says how many marks still match. Keep this file while it has such lines, for they tell
# what was read; the schema.toml of a release has none.
"""


def propose_schema(
    data: Any,
    target: str | None = None,
    unit: str | None = None,
    dialect: Dialect | None = None,
    drop: Sequence[str] = (),
) -> tuple[Schema, dict[str, str]]:
    """Propose a schema from the rows, not confirmed, with a note on each column.

    Reads the rows without noise: what comes out is for their owner alone.

    Args:
        data: A path to CSV, Parquet (a file or a folder) or Excel, or a pandas, polars or Arrow table.
        target: The column that models will learn to predict.
        unit: The column that names the person to protect, of kind id whatever it holds.
        dialect: How a CSV file is written, or an Excel file's sheet; what it does not say is found in the header line.
        drop: Columns that are never read and not released: the schema says so of them.

    Returns:
        The schema, and for each column what was read from the rows and what would make it public; with `READING` how a
        text file was seen to be written.

    Raises:
        InputError: The data cannot be read, or has no rows.
        SettingError: The target or the unit is not a column.

    Example:
        >>> from threea import hospital
        >>> schema, notes = propose_schema(hospital.stays(100), target="died", unit="patient_id")
        >>> schema.confirmed, schema["patient_id"].kind.value, notes["died"]
        (False, 'id', 'Nothing but whether values are missing was read from the rows.')
    """
    backend, reading, note = _read_as_seen(data, target, unit, dialect, drop)
    described = widest(backend.layout, target, unit)
    columns = _with_kinds(backend, described.columns)
    seen = [SeenColumn(_anywhere(column), is_target=column.name == target) for column in columns]
    for batch in backend.batches(backend.layout.names):
        for column in seen:
            column.look(batch.column(column.column.name))
    if not seen[0].rows:
        raise InputError("the table has no rows; there is nothing to describe")
    proposed = [column.propose() for column in seen]
    marked = tuple(column if column.name == unit else _marked(column) for column, _ in proposed)
    notes = {column.name: note for column, note in proposed} | ({READING: note} if note else {})
    return Schema(marked, target=target, confirmed=False, reading=stated(reading), dropped=tuple(drop)), notes


def check_table(
    data: Any, target: str | None, unit: str | None, dialect: Dialect | None, drop: Sequence[str] = ()
) -> list[str]:
    """Return the names of the columns that `propose_schema` would describe, without a look at any row.

    Raises:
        InputError: The data cannot be read.
        SettingError: The target or the unit is not a column.
    """
    return list(_opened(data, target, unit, dialect, drop).layout.names)


def _read_as_seen(
    data: Any, target: str | None, unit: str | None, dialect: Dialect | None, drop: Sequence[str]
) -> tuple[RowBackend, Dialect | None, str]:
    """Open a table as its values show that they are written; return that, too, and a note on it."""
    backend = _opened(data, target, unit, dialect, drop, EveryColumn())
    found: Dialect | None = getattr(backend, "dialect", None)
    if found is None:
        return backend, None, ""
    seen, note = seen_dialect(backend, replace(found, sheet=dialect.sheet if dialect else None))
    return open_backend(data, seen, ids=() if unit is None else (unit,), drop=drop)[0], seen, note


def _opened(
    data: Any,
    target: str | None,
    unit: str | None,
    dialect: Dialect | None,
    drop: Sequence[str],
    ids: Collection[str] = (),
) -> RowBackend:
    backend, _ = open_backend(data, dialect, ids, drop)
    for name, role in ((target, "target"), (unit, "unit")):
        if name is not None and name not in backend.layout.names:
            raise SettingError(not_a_column(role, name, backend.layout.names))
    refuse_unsupported(backend.layout)
    if unit is not None:
        check_unit(backend.layout, unit)
    return backend


def _with_kinds(backend: RowBackend, columns: tuple[Column, ...]) -> list[Column]:
    """Read what the values of columns look like that declare no type, and describe each by its kind."""
    undeclared = [column.name for column in columns if column.kind is Kind.UNDECLARED]
    counts = {name: np.zeros(len(LOOKS)) for name in undeclared}
    for batch in backend.batches(undeclared) if undeclared else ():
        for name in undeclared:
            found = looks(batch.column(name))
            counts[name] += np.bincount(found[found >= 0], minlength=len(LOOKS))
    return [of_kind(c.name, settled(counts[c.name])) if c.name in counts else c for c in columns]


def to_toml(schema: Schema, notes: Mapping[str, str]) -> str:
    """Write a draft as TOML, headed by a warning."""
    return HEADER + schema.to_toml(notes, marks=True)


def check_place(out: str | PathLike[str]) -> Path:
    """Refuse a place where a draft cannot be written, before the rows are read.

    Raises:
        SettingError: It exists already, or its folder does not or cannot be written to.
    """
    path = Path(out)
    problem = None
    try:
        str(path).encode()
        path.lstat()
        problem = f"out ({path}) exists already; remove it or choose another name"
    except FileNotFoundError:
        folder = path.absolute().parent
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            problem = f"out ({path}): folder {folder} does not exist or is not writable; choose another"
    except OSError as error:
        problem = f"out ({path}) cannot be used: {error.strerror}; choose another place"
    except ValueError:
        problem = f"out ({str(path)!a}) is not UTF-8, or holds a null; choose another name"
    if problem:
        raise SettingError(problem)
    return path


def save(schema: Schema, notes: Mapping[str, str], out: str | PathLike[str]) -> None:
    """Write a draft to a new file that its owner alone may read, whole or not at all.

    Raises:
        SettingError: It cannot be written there.
    """
    path = check_place(out)
    staging = path.absolute().parent / f".threea-draft-{secrets.token_hex(8)}"
    try:
        with os.fdopen(os.open(staging, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(to_toml(schema, notes))
        staging.rename(path)
    except OSError as error:
        raise SettingError(f"out ({path}) cannot be written: {error.strerror}; choose another place") from None
    finally:
        staging.unlink(missing_ok=True)


def _marked(column: Column) -> Column:
    return replace(column, as_read=column.digest)


def _anywhere(column: Column) -> Column:
    """Return the column with bounds that cut off no moment."""
    if not column.kind.temporal:
        return column
    lower, upper = (dates.from_text(text, column.kind, column.name) for text in ("0001-01-01", "9999-12-31"))
    return replace(column, lower=lower, upper=upper)
