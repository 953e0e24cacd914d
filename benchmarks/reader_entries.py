"""Every way in, for the readers' law: what a user holds, and who reads it. A further reader is one more entry."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from benchmarks.reader_tables import (
    ANY,
    ARROW_BACKED,
    CATEGORIES,
    LONG,
    MOST_ROWS,
    NULLABLE,
    NUMBERS,
    NUMPY,
    OBJECTS,
    POLARS,
    TEXT,
    TRUTH,
    UNIT,
    Family,
    Held,
    Values,
    arrow,
    drawn,
    holder,
    pandas_rows,
    parquet_file,
    parquet_folder,
    series,
)
from threea.backends import open_backend
from threea.backends.base import RowBackend
from threea.backends.linked import linked
from threea.backends.units import FilteredBackend
from threea.errors import InputError
from threea.table import codec
from threea.table.layout import is_text, plain


@dataclass(frozen=True)
class Reader:
    """A way in.

    Args:
        hold: Draws what a user holds; files go into the folder.
        read: Hands over the rows, and what a release needs to know to come back as such a table.
        unit: The column that names a person; None if there is none.
        more: How many rows more there are at the door.
        share: Of the benchmark's tables, against other readers; fewer where a table takes longer.
    """

    hold: Callable[[Random, Path], Held]
    read: Callable[[Any], tuple[RowBackend, Any]] = open_backend
    unit: str | None = UNIT
    more: int = 1
    share: int = 10


# --- scikit-learn ------------------------------------------------------------------------------------------------


def estimator(rng: Random, folder: Path) -> Held:
    """Hold features and a target in any two forms: lists, arrays, frames."""
    rows, at = rng.randrange(3, MOST_ROWS + 3), 0
    form = rng.choice(["lists", "objects", "numbers", "pandas", "arrow"])
    pool = rng.choice([ANY, TEXT, LONG, [1, 2, 0.5]]) if form in ("lists", "objects") else [0.5, 1.0, -0.0, 1e300]
    features = [drawn(rng, Family(pool, series(None), missing=False), 2) for _ in range(rows)]
    target = drawn(rng, Family(rng.choice([ANY, LONG, TEXT, [0, 1, 0.5], TRUTH]), series(None), missing=False), rows)
    at, of_target = rng.randrange(rows), rng.choice(["list", "objects", "series", "numbers"])
    if of_target == "numbers":
        target = [rng.choice([0.0, 1.0, 0.5]) for _ in range(rows)]
    made = []
    for kept in (lambda values: values[:at] + values[at + 1 :], lambda values: values):
        x, y = kept(features), kept(target)
        made.append((_features(form, x), _target(of_target, y)))
    return Held(*made, [*itertools.chain(*features), *target])


def _objects(values: Values) -> Any:
    made = np.empty(len(values), object)
    made[:] = values
    return made


def _features(form: str, rows: list[Values]) -> Any:
    if form == "lists":
        return rows
    if form == "objects":
        return np.stack([_objects(row) for row in rows])
    numbers = np.array(rows, np.float64)
    if form == "numbers":
        return numbers
    named = {f"f{place}": column for place, column in enumerate(numbers.T)}
    return pd.DataFrame(named) if form == "pandas" else pa.table(named)


def _target(form: str, values: Values) -> Any:
    if form == "list":
        return values
    if form == "objects":
        return _objects(values)
    return pd.Series(values, dtype=object, name="y") if form == "series" else np.array(values, np.float64)


def read_estimator(held: Any) -> tuple[RowBackend, Any]:
    """Read what an estimator is fitted on."""
    from threea.sklearn import Synthesizer

    try:
        return open_backend(Synthesizer()._joined(*held)[0])
    except ValueError as error:
        # scikit-learn's own refusals, of numbers that are not finite, say; no value may be in them either.
        raise InputError(str(error)) from error


# --- linked tables -----------------------------------------------------------------------------------------------

KEYS = {
    "text": (TEXT, pa.string()),
    "whole": (LONG, pa.int64()),
    "dictionary": (TEXT, pa.dictionary(pa.int8(), pa.string())),
}


@dataclass(frozen=True)
class Linked:
    """Two tables, whose row comes and goes, and which of the two views is looked at."""

    parents: Any
    children: Any
    person: Any
    view: int


def two_tables(rng: Random, folder: Path) -> Held:
    """Hold a parent table and a child table; the one row is in either of them."""
    pool, kind = rng.choice(list(KEYS.values()))
    few = [*(rng.choice(pool) for _ in range(4)), None]
    sizes = rng.randrange(1, 5), rng.randrange(1, MOST_ROWS + 2)
    keys = [[rng.choice(few) for _ in range(size)] for size in sizes]
    values = [[rng.choice(ANY) for _ in range(size)] for size in sizes]
    side, view, as_objects = rng.randrange(2), rng.randrange(2), is_text(plain(kind)) and rng.random() < 0.5
    at = rng.randrange(sizes[side])

    def table(here: int, *, whole: bool) -> Any:
        rows = [row for row in range(sizes[here]) if whole or here != side or row != at]
        own = [keys[here][row] for row in rows]
        ids = pd.Series(own, dtype=object) if as_objects else pd.Series(pa.array(own, kind), dtype=pd.ArrowDtype(kind))
        return pd.DataFrame({UNIT: ids, "x": pd.Series([values[here][row] for row in rows], dtype=object)})

    made = [Linked(table(0, whole=w), table(1, whole=w), keys[side][at], view) for w in (False, True)]
    return Held(*made, [*itertools.chain(*values)])


def read_two_tables(held: Any) -> tuple[RowBackend, Any]:
    """Read one view of two tables, without the person whose row comes and goes."""
    above, below = open_backend(held.parents)[0], open_backend(held.children)[0]
    view = linked(above, below, key=UNIT, most=3, read=2, carried=["x"], secret=b"k" * 32)[held.view]
    keys = [key for batch in view.batches([UNIT]) for key in codec.as_text(batch.column(0)).to_pylist()]
    person = None if held.person is None else str(held.person)
    return FilteredBackend(view, np.array([key != person for key in keys], np.bool_)), None


# --- text files --------------------------------------------------------------------------------------------------

TOKENS = [
    b"a",
    b'"',
    b'""',
    b",",
    b"\r",
    b"1.5",
    b" ",
    b"NA",
    b"\xe9",
    b"\x00",
    "é".encode(),
    b"secret-25",
    b";",
    b"2020-01-01",
]


def line(rng: Random) -> bytes:
    """Draw a line of three values, or of odd bytes; never an empty one, which is no row."""
    if rng.random() < 0.1:
        return b"".join([b"x", *rng.choices(TOKENS, k=rng.randrange(8))])
    values = [rng.choice(["7", "007", "NA", "7.0", "ann"]), rng.choice(TEXT).replace("\n", " "), str(rng.choice(LONG))]
    quoted = ('"' + value.replace('"', '""') + '"' if rng.random() < 0.3 else value for value in values)
    return ",".join(quoted).encode()


def text_file(rng: Random, folder: Path) -> Held:
    """Hold CSV files; the one row is a line anywhere."""
    lines = [line(rng) for _ in range(rng.randrange(1, MOST_ROWS + 2))]
    at, ending = rng.randrange(len(lines)), rng.choice([b"\n", b"\r\n"])
    paths = [folder / f"{next(NUMBERS)}.csv" for _ in range(2)]
    for path, kept in zip(paths, (lines[:at] + lines[at + 1 :], lines), strict=True):
        path.write_bytes(ending.join([b"who,x,y", *kept]) + (ending if rng.random() < 0.5 else b""))
    return Held(*paths, lines)


# -----------------------------------------------------------------------------------------------------------------

READERS: dict[str, Reader] = {
    "pandas, lists of rows": Reader(pandas_rows),
    "pandas, NumPy dtypes": Reader(holder(NUMPY, pd.DataFrame)),
    "pandas, nullable dtypes": Reader(holder(NULLABLE, pd.DataFrame)),
    "pandas, Arrow-backed": Reader(holder(ARROW_BACKED, pd.DataFrame)),
    "pandas, object": Reader(holder(OBJECTS, pd.DataFrame)),
    "pandas, category": Reader(holder(CATEGORIES, pd.DataFrame)),
    "polars": Reader(holder(POLARS, pl.DataFrame)),
    "Arrow": Reader(arrow),
    "Parquet file": Reader(parquet_file, share=2),
    "Parquet folder": Reader(parquet_folder, share=2),
    "scikit-learn": Reader(estimator, read_estimator, unit=None),
    "text file": Reader(text_file, share=4),
    "two linked tables": Reader(two_tables, read_two_tables, unit=None, more=0),
}
