"""The benchmark of readers can tell a reader that keeps the law from others, and every table is the same each time."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from benchmarks import readers
from benchmarks.reader_entries import READERS, Reader
from benchmarks.reader_tables import NotHeld
from threea.backends.memory import MemoryBackend
from threea.errors import InputError

OBJECTS = READERS["pandas, object"]


def inferring(frame: Any) -> tuple[MemoryBackend, None]:
    """Read a frame as NumPy and Arrow would: a column has the type of all its values."""
    table = None
    with suppress(Exception):
        table = pa.table({name: np.asarray(frame[name].tolist()) for name in frame.columns})
    if table is None:
        raise InputError("no")
    return MemoryBackend(table), None


def first_row_only(frame: Any) -> tuple[MemoryBackend, None]:
    return MemoryBackend(pa.table({name: frame[name].map(repr).head(1) for name in frame.columns})), None


def telling(frame: Any) -> tuple[MemoryBackend, None]:
    raise InputError(f"cannot read {frame.to_dict()}")


@pytest.mark.parametrize("read", [inferring, first_row_only, telling])
def test_a_reader_that_breaks_the_law_is_counted(read: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(readers.READERS, "broken", replace(OBJECTS, read=read))
    ends = [readers.tried("broken", number, tmp_path)[0] for number in range(30)]
    assert readers.BROKEN in ends


@pytest.mark.parametrize("name", [name for name in READERS if not name.startswith(("Parquet", "text"))])
def test_a_table_is_the_same_each_time(name: str, tmp_path: Path) -> None:
    def held(number: int) -> str:
        try:
            return repr(READERS[name].hold(Random(number), tmp_path))
        except NotHeld:
            return "not held"

    assert [held(number) for number in range(10)] == [held(number) for number in range(10)]


def test_tables_are_shared_out_as_said() -> None:
    counts = readers.counts(1000)
    assert sum(counts.values()) >= 1000
    assert counts["Arrow"] == pytest.approx(5 * counts["Parquet file"], abs=5)


def test_a_small_run_counts_every_table_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "READERS", {"Arrow": READERS["Arrow"], "polars": Reader(READERS["polars"].hold)})
    name, ends, size = readers.batch(("Arrow", 0, 20))
    assert (name, ends.total(), ends[readers.BROKEN]) == ("Arrow", 20, 0)
    assert size > 0
