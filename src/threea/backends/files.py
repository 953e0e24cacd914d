"""Tables in files, streamed: Parquet (a file or a folder of them) and CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from threea.backends.base import BATCH_ROWS, RowBackend
from threea.backends.dialect import NOT_UTF8, Dialect, header, standard
from threea.backends.transcoding import TextFile
from threea.backends.unchanged import Unchanged
from threea.errors import InputError
from threea.table.layout import declared, undeclared
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

        self._dataset: Any = _reading(path, "Parquet", lambda: pyarrow.dataset.dataset(path, format="parquet"))
        if path.is_dir() and not self._dataset.files:
            raise InputError(f"{path} holds no Parquet file; name a file or a folder of them")
        self._path, self._unchanged = path, Unchanged.of(self._dataset.files)
        self.layout = declared(self._dataset.schema)
        _reading(path, "Parquet", lambda: self.layout.names)
        for fragment in self._dataset.get_fragments():
            part = _reading(path, "Parquet", lambda fragment=fragment: declared(fragment.physical_schema))
            if not part.equals(self.layout):
                raise InputError(f"{path} holds files with different columns or types; give files of one table")

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows with little read ahead, so that memory stays bounded."""
        self._unchanged.check()
        scan = self._dataset.to_batches(
            columns=list(columns), batch_size=BATCH_ROWS, batch_readahead=2, fragment_readahead=1
        )
        while (batch := _reading(self._path, "Parquet", lambda: _valid(next(scan, None)))) is not None:
            yield batch
        # What was read before a change and after it was never one table.
        self._unchanged.check()


def _valid(batch: pa.RecordBatch | None) -> pa.RecordBatch | None:
    """Check a batch, for Parquet's own reader takes any bytes for text."""
    if batch is None:
        return None
    batch.validate(full=True)
    return without_views(batch)


def without_views(rows: Any) -> Any:
    """Return rows with plain text for views of text, which Arrow cannot filter."""
    if not any(pa.types.is_string_view(field.type) for field in rows.schema):
        return rows
    plain = [f.with_type(pa.large_string()) if pa.types.is_string_view(f.type) else f for f in rows.schema]
    return rows.cast(pa.schema(plain))


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
        self._names, self.dialect = _reading(path, "CSV", lambda: header(path, dialect))
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
            readers.append(_reading(self._path, "CSV", opened))
            while (batch := _reading(self._path, "CSV", lambda: next(readers[0], None))) is not None:
                yield standard(batch, self.dialect)
        finally:
            # Closed, dropped and called back whatever happens: one that still reads ahead may end the process.
            while readers:
                readers.pop().close()
            file.recall()
        self._unchanged.check()


def _reading(path: Path, kind: str, read: Any) -> Any:
    """Call `read`, and tell of a failure without a word of the file's content."""
    problem = None
    try:
        return read()
    except (
        pa.ArrowInvalid,
        pa.ArrowNotImplementedError,
        pa.ArrowTypeError,
        pa.ArrowKeyError,
        OSError,
        UnicodeError,
    ) as error:
        problem = _remedy(str(error), error, kind)
    # Raised out here, the reader's own message is not chained: it may quote a row.
    raise InputError(f"{path} cannot be read as {kind}: {problem}")


def _remedy(message: str, error: BaseException, kind: str) -> str:
    if isinstance(error, UnicodeError):
        return (
            "its text is not in the encoding that was named; name another with --encoding"
            if kind == "CSV"
            else "a column's name is not UTF-8; rename it"
        )
    for sign, remedy in (
        ("Empty CSV", "it is empty; give a file with a header line and rows"),
        ("UTF8", f"its text is not UTF-8; {NOT_UTF8}"),
        ("Expected", "a row has more or fewer values than the header; mend the file, or see --separator"),
        ("straddling", "a value spans too much of it; is it a CSV file?"),
        ("magic bytes", "it has no Parquet footer; is it cut short, or another kind of file?"),
        ("size is 0 bytes", "it is empty; give a file with rows"),
        ("No such file", "no such file; check the path"),
        ("Permission denied", "it may not be read; ask for permission to read it"),
    ):
        if sign in message:
            return remedy
    return f"{type(error).__name__}; is it damaged, or another kind of file?"
