"""A table in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from threea.backends.base import BATCH_ROWS, RowBackend
from threea.backends.reading import in_one_form
from threea.table.dialect import Dialect
from threea.table.layout import declared


class MemoryBackend(RowBackend):
    """Rows held as an Arrow table.

    Args:
        table: The rows.
        layout: Names, order and types of the columns as declared; the table's own by default.
        dialect: How the CSV file was written that they come from, if they do.
    """

    __slots__ = ("_table", "dialect")

    def __init__(self, table: pa.Table, layout: pa.Schema | None = None, dialect: Dialect | None = None) -> None:
        self._table, self.dialect = in_one_form(table), dialect
        self.layout = declared(layout or table.schema)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield slices of the table."""
        yield from self._table.select(list(columns)).to_batches(max_chunksize=BATCH_ROWS)
