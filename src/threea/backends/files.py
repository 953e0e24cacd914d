"""Tables in files, streamed: Parquet (a file or a folder of them) and CSV."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from threea.backends.base import BATCH_ROWS, RowBackend, refuse_too_many
from threea.backends.dialect import Dialect, Header, header, standard
from threea.backends.lines import Lines
from threea.backends.parts import ParquetPart, parts_of
from threea.backends.reading import checked, reading
from threea.backends.unchanged import Unchanged
from threea.errors import InputError
from threea.table.column_names import shown
from threea.table.layout import declared, one_width, undeclared

_SOMETHING = re.compile(rb"[^\r\n]")


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
    """Rows streamed from CSV with a header line. Every line is parsed by itself (`lines`).

    Args:
        path: The file, possibly compressed (.gz).
        dialect: How it is written; what it does not say is found in the header line.
        ids: Columns whose values name something: they are handed over as the text that came, an empty one as missing.

    Raises:
        InputError: It cannot be read as CSV.
    """

    def __init__(self, path: Path, dialect: Dialect | None = None, ids: Collection[str] = ()) -> None:
        self._path, self._unchanged, self._checked = path, Unchanged.of([path]), False
        self._header: Header = reading(path, "CSV", lambda: header(path, dialect))
        self.dialect, self._ids = self._header.dialect, ids
        # CSV declares no types, and none are read off the rows: what the text means is the schema's to say.
        self.layout = pa.schema([undeclared(name) for name in self._header.names])

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows as text; what the text means is the schema's to say."""
        read_as = self.dialect
        lines = Lines(
            path=self._path,
            encoding=read_as.encoding or "utf-8",
            separator=read_as.separator or ",",
            ending=self._header.ending,
            multiline=read_as.multiline,
        )
        self._unchanged.check()
        blocks, size = lines.blocks(checked=self._checked), self._header.size
        while (block := reading(self._path, "CSV", lambda: next(blocks, None))) is not None:
            # The header line stands at the beginning of the first block alone.
            body, size = block[size:], 0
            if _SOMETHING.search(body):
                yield reading(self._path, "CSV", lambda body=body: self._batch(body, list(columns)))
        self._unchanged.check()
        # Every pass is over the same file.
        self._checked = True

    def _batch(self, block: bytes, columns: list[str]) -> pa.RecordBatch:
        memory = pa.BufferOutputStream()
        memory.write(block)
        ids = [name for name in columns if name in self._ids]
        others = [name for name in columns if name not in self._ids]
        parsed = {
            name: column
            for names, missing in ((others, self.dialect.missing_texts), (ids, [""]))
            if names
            for name, column in self._parsed(memory.getvalue(), names, missing).items()
        }
        batch = pa.RecordBatch.from_arrays([parsed[name] for name in columns], names=columns)
        return standard(batch, self.dialect, ids)

    def _parsed(self, block: pa.Buffer, columns: list[str], missing: list[str]) -> dict[str, pa.Array]:
        """Parse some columns of a block. Its memory is Arrow's own, for threads that end with the interpreter."""
        import pyarrow.csv

        read = pyarrow.csv.read_csv(
            pa.BufferReader(block),
            read_options=pyarrow.csv.ReadOptions(column_names=self._header.names, block_size=len(block) + 1),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=self.dialect.separator, newlines_in_values=self.dialect.multiline
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.string()),
                include_columns=columns,
                null_values=missing,
                strings_can_be_null=True,
            ),
        )
        return {name: read.column(name).combine_chunks() for name in columns}
