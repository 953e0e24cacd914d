"""The cells of an Excel sheet as text, each by itself: what runs in a process of its own (`backends.excel`).

Little is imported here, for that process begins anew with each file.
"""

from __future__ import annotations

import datetime
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from threea.errors import InputError, SettingError
from threea.table.column_names import shown

_EXACT = 2.0**53


def sheet_names(path: str) -> Iterator[str]:
    """Yield the names of the sheets that hold cells."""
    yield from _read(path, _sheets)


def rows(path: str, sheet: str | None, mark: str, ids: Sequence[str]) -> Iterator[list[str]]:
    """Yield the rows of a sheet that hold anything, numbers with this decimal mark, but for ids, which have none."""
    book = _read(path, lambda book: book.get_sheet_by_name(_chosen(path, _sheets(book), sheet)))
    marks: list[str] = []
    for row in book.iter_rows():
        # The first row names the columns.
        texts = list(map(_text, row, marks)) if marks else list(map(_text, row))
        if any(texts):
            marks = marks or ["." if name in ids else mark for name in texts]
            yield texts


def _read(path: str, look: Callable[[Any], Any]) -> Any:
    """Open a file and look into it; tell of a failure without a word of its content."""
    import python_calamine

    try:
        with python_calamine.CalamineWorkbook.from_path(path) as book:
            return look(book)
    except (python_calamine.CalamineError, zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError):
        pass
    # Raised out here, the reader's own message is not chained: it may quote a cell.
    raise InputError(f"{path} cannot be read as Excel; is it damaged, protected by a password, or another file?")


def _sheets(book: Any) -> list[str]:
    import python_calamine

    of_cells = python_calamine.SheetTypeEnum.WorkSheet
    return [sheet.name for sheet in book.sheets_metadata if sheet.typ == of_cells]


def _chosen(path: str, sheets: Sequence[str], sheet: str | None) -> str:
    if sheet is None and len(sheets) == 1:
        return sheets[0]
    if sheet in sheets:
        return str(sheet)
    if sheet is None:
        raise SettingError(f"{path} has {len(sheets)} sheets ({shown(sheets)}); name one with --sheet")
    raise SettingError(f"sheet ({sheet}) is not in {path}; sheets are: {shown(sheets)}")


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
