"""A Parquet table cut into parts that workers read on their own, each known by a number and its state at opening."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from threea.backends.base import BATCH_ROWS
from threea.backends.reading import checked, reading
from threea.errors import InputError
from threea.table.layout import one_width

PART_ROWS = 1 << 20
"""About how many rows a worker reads for one task: large enough that tasks are few, small enough to be done again."""
_TAIL = 8
"""A Parquet file ends in the length of its footer, four bytes, and a word of four."""

State = tuple[int, int, str]


@dataclass(frozen=True, slots=True, repr=False)
class ParquetPart:
    """Some row groups of one file.

    Guarantees:
        - It is read as it was at opening, by the file's size, time of change and footer, or not at all.

    Args:
        number: Which part of the table it is.
        path: The file, as every worker finds it.
        groups: The row groups.
        rows: How many rows they hold, by the footer.
        state: What the file was at opening.
    """

    number: int
    path: str
    groups: tuple[int, ...]
    rows: int
    state: State
    stable = True

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows, reading these columns only.

        Raises:
            InputError: The file has changed, or cannot be read.
        """
        import pyarrow.dataset
        import pyarrow.fs

        path = Path(self.path)
        self._check()
        form, here = pyarrow.dataset.ParquetFileFormat(), pyarrow.fs.LocalFileSystem()
        fragment: Any = form.make_fragment(self.path, here, row_groups=list(self.groups))
        scan: Any = reading(
            path,
            "Parquet",
            lambda: fragment.to_batches(
                schema=one_width(fragment.physical_schema),
                columns=list(columns),
                batch_size=BATCH_ROWS,
                batch_readahead=2,
                use_threads=False,
            ),
        )
        while (batch := reading(path, "Parquet", lambda: checked(next(scan, None)))) is not None:
            yield batch
        self._check()

    def _check(self) -> None:
        if state_of(self.path) != self.state:
            raise InputError(f"{self.path} was changed while it was in use; leave it alone, and start again")

    def __repr__(self) -> str:
        return f"ParquetPart({self.number})"


def state_of(path: str) -> State:
    """Return what tells a file from another under its name: size, time of change, and a hash of its footer."""
    try:
        with open(path, "rb") as file:
            seen = os.fstat(file.fileno())
            file.seek(max(seen.st_size - _TAIL, 0))
            length = int.from_bytes(file.read(4), "little")
            file.seek(max(seen.st_size - _TAIL - length, 0))
            footer = hashlib.blake2b(file.read(length), digest_size=16).hexdigest()
    except OSError:
        return 0, 0, ""
    return seen.st_size, seen.st_mtime_ns, footer


def parts_of(files: Sequence[str], workers: int) -> tuple[ParquetPart, ...]:
    """Cut files into parts of about `PART_ROWS` rows, fewer if some workers would have none; row groups stay whole."""
    import pyarrow.parquet

    footers = {path: pyarrow.parquet.read_metadata(path) for path in files}
    total = sum(footer.num_rows for footer in footers.values())
    wanted = min(PART_ROWS, max(total // max(2 * workers, 1), 1))
    parts: list[ParquetPart] = []
    for path, footer in footers.items():
        state = state_of(path)
        groups: list[int] = []
        rows = 0
        for group in range(footer.num_row_groups):
            groups.append(group)
            rows += footer.row_group(group).num_rows
            if rows >= wanted or group == footer.num_row_groups - 1:
                parts.append(ParquetPart(len(parts), os.path.abspath(path), tuple(groups), rows, state))
                groups, rows = [], 0
    return tuple(parts)
