"""For the owner: a table cut in two, rows to release and rows held out to evaluate the release on."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from os import PathLike
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from threea.backends import RowBackend, open_backend
from threea.backends.hashing import row_hashes
from threea.errors import SettingError
from threea.place import check_folder
from threea.publish import form_of
from threea.table.dialect import Dialect, EveryColumn
from threea.table.reading_section import reading_of
from threea.table.schema import Schema
from threea.table.writing import RowWriter

Coin = Callable[[pa.RecordBatch], NDArray[np.bool_]]
"""Whether each row of a batch is held out."""

TRAIN, HOLDOUT = "train", "holdout"


def split(
    data: str | PathLike[str],
    out: str | PathLike[str],
    *,
    holdout: float = 0.2,
    unit: str | None = None,
    seed: int | None = None,
    dialect: Dialect | None = None,
    schema: Schema | None = None,
    dry_run: bool = False,
) -> tuple[Path, Path]:
    """Cut a table in two at random. Owner-only: both files hold private rows, and only their owner may read them.

    Guarantees:
        - With a unit, all rows of a person are on one side.
        - Every value comes out as the text that came in, in a file written as the one that came in.
        - Both files appear, in a new folder that others cannot enter, or none does.

    Args:
        data: A path to CSV, Parquet or Excel, a file or a folder.
        out: A new folder.
        holdout: The share of the rows, or of the persons, to hold out; about.
        unit: The column that names the person.
        seed: Makes it repeatable.
        dialect: How a CSV file is written.
        schema: Says that, too, in its section [reading].
        dry_run: Check what can be known beforehand, and write nothing.

    Returns:
        The files of the rows to release and of those held out.

    Raises:
        SettingError: There is no such column, the share is not between 0 and 1, or the folder cannot be made.
    """
    if not 0 < holdout < 1:
        raise SettingError(f"holdout ({holdout}) must be > 0 and < 1")
    check_folder(out)
    read_as = reading_of(data, dialect, None if schema is None else schema.reading)
    # Nobody interprets what is only copied.
    backend, _ = open_backend(data, read_as, ids=EveryColumn())
    if unit is not None and unit not in backend.layout.names:
        raise SettingError(f"unit ({unit}) is not a column; columns are: {', '.join(backend.layout.names)}")
    form = form_of(getattr(backend, "dialect", None))
    files = Path(out) / f"{TRAIN}.{form}", Path(out) / f"{HOLDOUT}.{form}"
    if dry_run:
        return files
    staging = Path(tempfile.mkdtemp(prefix=".threea-split-", dir=Path(out).resolve().parent))
    try:
        _write(backend, staging, form, _coin(holdout, unit, seed))
        if Path(out).exists():
            Path(out).rmdir()
        os.rename(staging, out)
    except OSError as error:
        raise SettingError(f"out ({out}) cannot be written: {error.strerror}; choose another") from None
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return files


def _coin(holdout: float, unit: str | None, seed: int | None) -> Coin:
    rng = np.random.default_rng(seed)
    key = secrets.token_bytes(32) if seed is None else rng.bytes(32)
    if unit is None:
        return lambda batch: rng.random(batch.num_rows) < holdout
    # A person's rows share a hash, whatever batch they are in.
    return lambda batch: row_hashes(batch.select([unit]), key) < np.uint64(holdout * 2.0**64)


def _write(backend: RowBackend, folder: Path, form: str, coin: Coin) -> None:
    read_as: Dialect | None = getattr(backend, "dialect", None)
    # Numbers and dates are text here, and written already.
    dialect = None if read_as is None else replace(read_as, decimal=None, date_format=None)
    with ExitStack() as stack:
        train, held = (
            stack.enter_context(RowWriter(folder / f"{name}.{form}", form, backend.layout, dialect))
            for name in (TRAIN, HOLDOUT)
        )
        for batch in backend.batches(backend.layout.names):
            chosen = coin(batch)
            held.write(batch.filter(pa.array(chosen)))
            train.write(batch.filter(pa.array(~chosen)))
