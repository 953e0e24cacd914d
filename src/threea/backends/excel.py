"""A sheet of an Excel file, read as a CSV file would be: every cell as text, by itself.

Excel keeps a type with each cell, and none with a column. So a column declares no type, and none is read off its cells:
what their text means is the schema's to say, or is found through the private table.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from threea.backends.base import BATCH_ROWS
from threea.backends.dialect import Dialect, standard
from threea.backends.memory import MemoryBackend
from threea.errors import InputError, MissingExtra, SettingError
from threea.limited import Limits, limited
from threea.table import sheet_cells
from threea.table.layout import undeclared

LIMITS = Limits(memory=4 << 30, seconds=600)
"""A sheet is held as a rectangle, however few of its cells are filled: 100 million cells take so much. Chosen."""


def open_excel(path: Path, said: Dialect | None, ids: Collection[str] = ()) -> MemoryBackend:
    """Read a sheet whole.

    Args:
        path: An .xlsx or .xlsm file.
        said: Which sheet, if there are several; the decimal mark and date format of cells that hold text.
        ids: Columns whose values name something: they are handed over as the text that came, an empty one as missing.

    Raises:
        InputError: It cannot be read, or its first row does not name every column.
        MissingExtra: The extra is not installed.
        SettingError: The sheet must be named, or is not there.
    """
    said = said or Dialect()
    if said.separator is not None or said.encoding is not None:
        raise SettingError("separator and encoding describe CSV files, and the data is an Excel file; leave them out")
    rows = _rows(path, said, ids)
    first, names = _header(path, next((row for row in rows if any(row)), []))
    layout = pa.schema([undeclared(name) for name in names])
    missing = [{""} if name in ids else frozenset(said.missing_texts) for name in names]
    batches = [standard(batch, said, ids) for batch in _batches(path, rows, first, layout, missing)]
    # A sheet's name is its owner's, and nobody else's: what a release keeps does not hold it.
    return MemoryBackend(pa.Table.from_batches(batches, layout), layout, replace(said, sheet=None))


def sheet_names(path: Path) -> list[str]:
    """Return the names of the sheets that hold cells.

    Raises:
        InputError: It cannot be read.
        MissingExtra: The extra is not installed.
    """
    return list(_limited(path, sheet_cells.sheet_names, str(path)))


def _rows(path: Path, said: Dialect, ids: Collection[str]) -> Iterator[list[str]]:
    """Yield the rows of a sheet as text; the empty text for nothing."""
    return _limited(path, sheet_cells.rows, str(path), said.sheet, said.decimal or ".", list(ids))


def _limited(path: Path, function: Callable[..., Iterator[Any]], *arguments: Any) -> Iterator[Any]:
    """Read in a process of its own: a stray value in a sheet's last corner has the reader abort for lack of memory."""
    if importlib.util.find_spec("python_calamine") is None:
        raise MissingExtra("python-calamine", "excel")
    far = "is it damaged, or does a value stand far away from the table? save the table as CSV"
    refusal = f"{path} cannot be read as Excel within {LIMITS}; {far}"
    return limited(LIMITS, function, *arguments, refusal=refusal)


def _header(path: Path, row: Sequence[str]) -> tuple[int, list[str]]:
    """Return where the named columns begin, and their names."""
    named = [number for number, name in enumerate(row) if name.strip()]
    if not named:
        raise InputError(f"{path} cannot be read as Excel: its sheet is empty; give one with a row of names and rows")
    names = list(row[named[0] : named[-1] + 1])
    if len(named) != len(names):
        raise InputError(f"{path}: the first row that is not empty does not name every column; name them, side by side")
    return named[0], names


def _batches(
    path: Path, rows: Iterator[list[str]], first: int, layout: pa.Schema, missing: Sequence[Collection[str]]
) -> Iterator[pa.RecordBatch]:
    chunk: list[list[str]] = []
    last = first + len(layout)
    for row in rows:
        if any(row[:first]) or any(row[last:]):
            raise InputError(f"{path}: a row has values beside the columns that the first row names; remove them")
        if any(row):
            chunk.append(row[first:last])
        if len(chunk) == BATCH_ROWS:
            yield _batch(chunk, layout, missing)
            chunk = []
    yield _batch(chunk, layout, missing)


def _batch(rows: list[list[str]], layout: pa.Schema, missing: Sequence[Collection[str]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ([] for _ in layout)
    arrays = [
        pa.array([None if text in nothing else text for text in column], pa.string())
        for column, nothing in zip(columns, missing, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=layout)
