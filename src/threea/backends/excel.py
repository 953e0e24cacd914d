"""A sheet of an Excel file, read as a CSV file would be: every cell as text, by itself.

Excel keeps a type with each cell, and none with a column. So a column declares no type, and none is read off its cells:
what their text means is the schema's to say, or is found through the private table.
"""

from __future__ import annotations

import datetime
import functools
import re
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from threea.backends.base import BATCH_ROWS
from threea.backends.dialect import Dialect, standard
from threea.backends.memory import MemoryBackend
from threea.errors import InputError, MissingExtra, SettingError
from threea.table.column_names import shown
from threea.table.layout import undeclared

_EXACT = 2.0**53
_MOST_CELLS = 1 << 27
"""A sheet is held as a rectangle, however few of its cells are filled: some 4 GB for so many."""
_LONGEST_TAG = 1000
_FILLED = re.compile(rb'<(?:\w+:)?c\s[^>]*?\br="([A-Z]{1,3})([0-9]{1,7})"[^>/]*>')


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
    rows = _rows(path, said)
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
    return list(_read(path, _sheets))


def _rows(path: Path, said: Dialect) -> Iterator[list[str]]:
    """Yield the rows of a sheet as text; the empty text for nothing."""
    found = _read(path, lambda book: book.get_sheet_by_name(_chosen(path, _sheets(book), said.sheet)))
    mark = said.decimal or "."
    return ([_text(cell, mark) for cell in row] for row in found.iter_rows())


def _read(path: Path, look: Callable[[Any], Any]) -> Any:
    """Open a file and look into it; tell of a failure without a word of its content."""
    try:
        import python_calamine
    except ImportError:
        raise MissingExtra("python-calamine", "excel") from None
    try:
        _refuse_far_cells(path)
        with python_calamine.CalamineWorkbook.from_path(str(path)) as book:
            return look(book)
    except (python_calamine.CalamineError, zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError):
        pass
    # Raised out here, the reader's own message is not chained: it may quote a cell.
    raise InputError(f"{path} cannot be read as Excel; is it damaged, protected by a password, or another file?")


def _refuse_far_cells(path: Path) -> None:
    """Refuse a sheet that memory may not hold, as one with a stray value in its last corner: the reader would abort."""
    with zipfile.ZipFile(path) as archive:
        for part in archive.namelist():
            if part.startswith("xl/worksheets/") and part.endswith(".xml"):
                with archive.open(part) as file:
                    too_large = _extent(file) > _MOST_CELLS
                if too_large:
                    where = f"reaches further than {_MOST_CELLS:,} cells, to the last that is filled"
                    raise InputError(f"{path}: a sheet {where}; remove what stands far away, or save the table as CSV")


def _extent(file: IO[bytes]) -> int:
    """Return how many cells the rectangle has that holds all filled ones."""
    columns: set[bytes] = set()
    last, rest = 0, b""
    while chunk := file.read(1 << 20):
        found = _FILLED.findall(rest + chunk)
        columns.update(column for column, _ in found)
        last = max(last, *(int(row) for _, row in found)) if found else last
        # A tag may go on in the next chunk.
        rest = chunk[-_LONGEST_TAG:]
    return last * max((_number(column) for column in columns), default=0)


def _number(column: bytes) -> int:
    """Return a column's number.

    Example:
        >>> _number(b"A"), _number(b"XFD")
        (1, 16384)
    """
    return functools.reduce(lambda number, letter: 26 * number + letter - ord("A") + 1, column, 0)


def _sheets(book: Any) -> list[str]:
    import python_calamine

    of_cells = python_calamine.SheetTypeEnum.WorkSheet
    return [sheet.name for sheet in book.sheets_metadata if sheet.typ == of_cells]


def _chosen(path: Path, sheets: Sequence[str], sheet: str | None) -> str:
    if sheet is None and len(sheets) == 1:
        return sheets[0]
    if sheet in sheets:
        return str(sheet)
    if sheet is None:
        raise SettingError(f"{path} has {len(sheets)} sheets ({shown(sheets)}); name one with --sheet")
    raise SettingError(f"sheet ({sheet}) is not in {path}; sheets are: {shown(sheets)}")


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


def _text(cell: Any, mark: str = ".") -> str:
    """Return one cell as the text that says the same, numbers with the decimal mark that text cells have.

    Example:
        >>> [_text(cell) for cell in (3.0, 0.25, True, datetime.date(2024, 1, 31), datetime.timedelta(hours=36))]
        ['3', '0.25', 'true', '2024-01-31', '1.5']
    """
    if isinstance(cell, str):
        return cell
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, datetime.timedelta):
        # As Excel itself counts time that has passed: in days.
        cell = cell / datetime.timedelta(days=1)
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() and abs(cell) < _EXACT else repr(cell).replace(".", mark)
    if isinstance(cell, datetime.date | datetime.time):
        return cell.isoformat()
    return str(cell)
