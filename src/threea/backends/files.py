"""Tables in files, streamed: Parquet (a file or a folder of them) and CSV."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from threea.backends.base import BATCH_ROWS, RowBackend, refuse_too_many
from threea.backends.dialect import Dialect, header, standard
from threea.backends.parts import ParquetPart, parts_of
from threea.backends.reading import checked, reading
from threea.backends.transcoding import TextFile
from threea.backends.unchanged import Unchanged
from threea.errors import InputError
from threea.table.column_names import shown
from threea.table.layout import declared, one_width, undeclared
from threea.table.patterns import MISSING_TEXT


class ParquetBackend(RowBackend):
    """Rows streamed from Parquet.

    Args:
        path: A file, or a folder of files with the same columns.

    Raises:
        InputError: It cannot be read as Parquet.
    """

    def __init__(self, path: Path) -> None:
        import pyarrow.dataset

        def opened(schema: pa.Schema | None = None) -> Any:
            return reading(path, "Parquet", lambda: pyarrow.dataset.dataset(path, schema, format="parquet"))

        self._dataset: Any = opened()
        files = self._dataset.files
        if path.is_dir() and not files:
            raise InputError(f"{path} holds no Parquet file; name a file or a folder of them")
        _refuse_partitions(path, files)
        self._path, self.unchanged = path, Unchanged.of(files)
        self.layout = declared(self._dataset.schema)
        reading(path, "Parquet", lambda: self.layout.names)
        # Files may number a dictionary in as few bits as they need; each is read into more.
        self._dataset = opened(one_width(self._dataset.schema))
        rows = 0
        for fragment in self._dataset.get_fragments():
            part = reading(path, "Parquet", lambda fragment=fragment: declared(fragment.physical_schema))
            rows += reading(path, "Parquet", lambda fragment=fragment: fragment.metadata.num_rows)
            refuse_too_many(rows)
            if not part.equals(self.layout):
                raise InputError(f"{path}: {_difference(self.layout, part)}; write all files alike")

    def parts(self, workers: int) -> tuple[ParquetPart, ...]:
        """Return the table cut into parts, for workers that read them on their own."""
        return parts_of(self._dataset.files, workers)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows with little read ahead, so that memory stays bounded."""
        self.unchanged.check()
        scan = self._dataset.to_batches(
            columns=list(columns), batch_size=BATCH_ROWS, batch_readahead=2, fragment_readahead=1
        )
        while (batch := reading(self._path, "Parquet", lambda: checked(next(scan, None)))) is not None:
            yield batch
        # What was read before a change and after it was never one table.
        self.unchanged.check()


def _refuse_partitions(path: Path, files: Sequence[str]) -> None:
    """Refuse a folder whose subfolders' names hold values: those would not be read."""
    inner = [folder for file in files for folder in Path(os.path.relpath(file, path)).parts[:-1]]
    keys = sorted({folder.partition("=")[0] for folder in inner if "=" in folder})
    if keys:
        raise InputError(
            f"{path} is partitioned: names of folders hold the values of {shown(keys)}, and are not read; "
            "write all columns into the files, in one folder"
        )


def _difference(layout: pa.Schema, other: pa.Schema) -> str:
    """Say how the columns of two files differ, by what is declared of them."""
    for names in (layout.names, other.names):
        lacking = [name for name in names if (name in layout.names) != (name in other.names)]
        if lacking:
            return f"column {shown(lacking)} is in one file and not in another"
    if layout.names != other.names:
        return "the columns of one file are in another order than those of another"
    name, kind = next((f.name, f) for f, of_other in zip(layout, other, strict=True) if not f.equals(of_other))
    if kind.type != other.field(name).type:
        return f"column {shown([name])} has type {kind.type} in one file and {other.field(name).type} in another"
    return f"column {shown([name])} may be missing by one file's schema, and not by another's"


class CsvBackend(RowBackend):
    """Rows streamed from CSV with a header line.

    Args:
        path: The file, possibly compressed (.gz).
        dialect: How it is written; what it does not say is found in the header line.

    Raises:
        InputError: It cannot be read as CSV.
    """

    def __init__(self, path: Path, dialect: Dialect | None = None) -> None:
        self._path, self._unchanged = path, Unchanged.of([path])
        self._names: list[str]
        self.dialect: Dialect
        self._names, self.dialect = reading(path, "CSV", lambda: header(path, dialect))
        # CSV declares no types, and none are read off the rows: what the text means is the schema's to say.
        self.layout = pa.schema([undeclared(name) for name in self._names])

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows as text; what the text means is the schema's to say."""
        import pyarrow.csv

        file = TextFile(self._path, self.dialect.encoding or "utf-8")

        def opened() -> Any:
            return pyarrow.csv.open_csv(
                file.lend(),
                read_options=pyarrow.csv.ReadOptions(block_size=1 << 23),
                parse_options=pyarrow.csv.ParseOptions(delimiter=self.dialect.separator, newlines_in_values=True),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types=dict.fromkeys(self._names, pa.string()),
                    include_columns=list(columns),
                    null_values=MISSING_TEXT,
                    strings_can_be_null=True,
                ),
            )

        self._unchanged.check()
        readers: list[Any] = []
        try:
            readers.append(reading(self._path, "CSV", opened))
            while (batch := reading(self._path, "CSV", lambda: next(readers[0], None))) is not None:
                yield standard(batch, self.dialect)
        finally:
            # Closed, dropped and called back whatever happens: one that still reads ahead may end the process.
            while readers:
                readers.pop().close()
            file.recall()
        self._unchanged.check()
