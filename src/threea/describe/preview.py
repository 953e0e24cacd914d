"""The first rows of a table, for its owner's eyes: to see that it is read as it is meant."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from threea.backends import excel, open_backend
from threea.table import codec
from threea.table.dialect import Dialect

ROWS = 8


@dataclass(frozen=True, slots=True)
class Preview:
    """The names of the columns, the first rows as text (None for missing), and how a CSV file was read."""

    names: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]
    dialect: Dialect | None


def sheets_of(path: Path) -> list[str]:
    """Return the names of an Excel file's sheets. They are their owner's to read.

    Raises:
        InputError: It cannot be read.
    """
    return excel.sheet_names(path)


def preview(data: str | PathLike[str], dialect: Dialect | None = None, rows: int = ROWS) -> Preview:
    """Read the first rows. What comes out is private: for the table's owner alone.

    Args:
        data: A path to CSV, Parquet or Excel.
        dialect: How a CSV file is written; what it does not say is found in the header line.
        rows: How many.

    Raises:
        InputError: It cannot be read.
    """
    backend, _ = open_backend(data, dialect)
    names = tuple(backend.layout.names)
    found: list[list[str | None]] = [[] for _ in names]
    with closing(cast("Any", backend.batches(names))) as batches:
        first: Iterator[pa.RecordBatch] = iter(batches)
        batch = next(first, None)
        if batch is not None:
            found = [codec.as_text(column.slice(0, rows)).to_pylist() for column in batch.columns]
    return Preview(names, tuple(zip(*found, strict=True)), getattr(backend, "dialect", None))
