"""Tables of odd values, each without one row and with it, as users hold them: for the readers' law.

`tests/laws` draws from them with hypothesis, the benchmark `readers` with seeds (`reader_entries`).
"""

import datetime
import decimal
import itertools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

UNIT = "who"
MOST_ROWS = 6


class Name(str):
    """Text of a class of its own, as some libraries hand over."""

    __slots__ = ()

    def __str__(self) -> str:
        return "not its text"


BERLIN = datetime.timezone(datetime.timedelta(hours=1))
WHOLE = [0, 1, -1, 7, 127, -128]
LONG = [*WHOLE, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)]
REAL = [0.0, -0.0, 1.0, 0.1, 0.5, math.nan, math.inf, -math.inf, 1e308, 5e-324, 2.0**53, -1e16]
TEXT = ["", " ", "a", "b", "1", "1.0", "01", "true", "NA", "nan", "null", "None", "é", "other", "a\nb", "secret-17"]
DAYS = [datetime.date(2020, 1, 1), datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.date(1969, 12, 31)]
MOMENTS = [datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 1, 0, 30, 1, 5), datetime.datetime(1969, 7, 20, 4)]
MONEY = [decimal.Decimal(text) for text in ("0.00", "1.10", "-0.05", "99.99")]
TRUTH = [True, False]
MISSING = [None, math.nan, pd.NaT, pd.NA, np.float64("nan"), decimal.Decimal("NaN")]
PLAIN = [
    *(*MISSING, *TRUTH, *LONG, *REAL, *TEXT, *DAYS, *MOMENTS, *MONEY),
    *(2**63, 2**80, -(2**70), np.int8(3), np.uint64(2**64 - 1), np.float32(0.1), np.float32(1), np.bool_(True)),
    *(decimal.Decimal("1"), decimal.Decimal("1.0"), decimal.Decimal("0.500"), decimal.Decimal("1E+2"), 100, 1.5, "1.5"),
    *(Name("secret-18"), np.str_("word"), pd.Timestamp("2020-01-01", tz="UTC"), pd.Timestamp("2020-01-01T00:00:00.1")),
    *(datetime.datetime(2020, 1, 1, 1, tzinfo=BERLIN), pd.Timestamp(1, unit="ns")),
]
REFUSED = [
    b"secret-19",
    "secret-\ud800",
    ("secret-20", 1),
    ["secret-21"],
    {"a": "secret-22"},
    1j,
    np.datetime64("2020"),
]
REFUSED += [datetime.timedelta(1), datetime.time(3), pd.Interval(0, 1), pd.Period("2020"), decimal.Decimal("sNaN")]
ANY = PLAIN * 8 + REFUSED
"""Python objects: few that no reader takes, so that most tables are read."""
HASHED = PLAIN * 8 + [value for value in REFUSED if not isinstance(value, list | dict)]

Values = list[Any]


@dataclass(frozen=True)
class Family:
    """Columns of one declared type.

    Args:
        pool: The values that they may hold.
        make: Makes a column of values.
        missing: Whether a value may be missing.
    """

    pool: Sequence[Any]
    make: Callable[[Values, Random], Any]
    missing: bool = True


@dataclass(frozen=True)
class Held:
    """What a user holds, without one row and with it.

    Args:
        without: The table.
        with_row: The same table, with one row more.
        cells: Every value of both.
    """

    without: Any
    with_row: Any
    cells: Values


class NotHeld(Exception):
    """The user's own library does not make such a table."""


def drawn(rng: Random, family: Family, rows: int) -> Values:
    """Draw values of a column."""
    pool = [*family.pool, None] if family.missing else list(family.pool)
    few = [rng.choice(pool) for _ in range(3)]
    return [rng.choice(few if rng.random() < 0.7 else pool) for _ in range(rows)]


def with_one(rng: Random, families: Mapping[str, Family], units: Sequence[str]) -> tuple[dict[str, Any], int]:
    """Draw columns of a table with one row more, by name, and that row's place."""
    rows = rng.randrange(1, MOST_ROWS + 2)
    names = [rng.choice(units), *(rng.choice(list(families)) for _ in range(rng.randrange(1, 4)))]
    columns = {f"x{place}": (families[name], drawn(rng, families[name], rows)) for place, name in enumerate(names)}
    return {UNIT: columns.pop("x0"), **columns}, rng.randrange(rows)


def holder(
    families: Mapping[str, Family], table: Callable[[dict[str, Any]], Any], units: Sequence[str] | None = None
) -> Callable[[Random, Path], Held]:
    """Return what draws tables of these columns, and puts them together so."""

    def hold(rng: Random, folder: Path) -> Held:
        columns, at = with_one(rng, families, units or list(families))
        made = []
        for kept in (lambda values: values[:at] + values[at + 1 :], lambda values: values):
            try:
                with warnings.catch_warnings(action="ignore"):
                    made.append(table({n: family.make(kept(v), rng) for n, (family, v) in columns.items()}))
            except Exception as error:
                raise NotHeld from error
        return Held(made[0], made[1], [value for _, values in columns.values() for value in values])

    return hold


# --- pandas ------------------------------------------------------------------------------------------------------


def series(dtype: Any) -> Callable[[Values, Random], Any]:
    """Return what makes a pandas column of a dtype."""
    return lambda values, rng: pd.Series(values, dtype=dtype)


def categorical(values: Values, rng: Random) -> Any:
    """Return a category as pandas makes it of values, with categories that no row has."""
    column = pd.Series(pd.Categorical(values))
    if rng.random() < 0.2:
        column = column.cat.add_categories([f"unused {rng.random()}"])
    return column.cat.as_ordered() if rng.random() < 0.1 else column


def of_arrow(kind: pa.DataType) -> Callable[[Values, Random], Any]:
    """Return what makes an Arrow-backed pandas column."""
    return lambda values, rng: pd.Series(pa.array(values, kind), dtype=pd.ArrowDtype(kind))


NUMPY = {
    **{kind: Family(WHOLE, series(kind), missing=False) for kind in ("int8", "int16")},
    "uint8": Family([0, 1, 255], series("uint8"), missing=False),
    "int64": Family(LONG, series("int64"), missing=False),
    "uint64": Family([0, 2**53 + 1, 2**64 - 1], series("uint64"), missing=False),
    **{kind: Family(REAL, series(kind)) for kind in ("float32", "float64")},
    "bool": Family(TRUTH, series("bool"), missing=False),
    "str": Family(TEXT, series("str")),
    **{f"datetime64[{unit}]": Family(MOMENTS, series(f"datetime64[{unit}]")) for unit in ("s", "us", "ns")},
    "zoned": Family(MOMENTS, lambda values, rng: pd.Series(values, dtype="datetime64[us]").dt.tz_localize("UTC")),
    "timedelta": Family([datetime.timedelta(1)], series("timedelta64[us]")),
}
NULLABLE = {
    "Int8": Family(WHOLE, series("Int8")),
    "Int64": Family(LONG, series("Int64")),
    "Float64": Family(REAL, series("Float64")),
    "boolean": Family(TRUTH, series("boolean")),
    "string": Family(TEXT, series("string")),
}
ARROW_BACKED = {
    str(kind): Family(pool, of_arrow(kind))
    for kind, pool in (
        (pa.int64(), LONG),
        (pa.float64(), REAL),
        (pa.large_string(), TEXT),
        (pa.bool_(), TRUTH),
        (pa.date32(), DAYS),
        (pa.decimal128(12, 2), MONEY),
    )
}
OBJECTS = {"object": Family(ANY, series(object), missing=False)}
CATEGORIES = {"category": Family(HASHED, categorical, missing=False)}


def pandas_rows(rng: Random, folder: Path) -> Held:
    """Hold frames as pandas types lists of rows; where a row gives a column another dtype, the user holds another."""
    held = holder({"any": Family(rng.choice([ANY, LONG, REAL, TEXT, TRUTH]), lambda v, rng: v)}, pd.DataFrame)
    pair = held(rng, folder)
    if list(pair.without.dtypes) != list(pair.with_row.dtypes):
        raise NotHeld
    return pair


# --- polars ------------------------------------------------------------------------------------------------------


def polars_of(dtype: Any) -> Callable[[Values, Random], Any]:
    """Return what makes a polars column."""
    return lambda values, rng: pl.Series(values, dtype=dtype)


def enum(values: Values, rng: Random) -> Any:
    """Return an Enum of the values that there are."""
    return pl.Series(values, dtype=pl.Enum(list(dict.fromkeys(value for value in values if value is not None))))


POLARS = {
    **{str(kind): Family(WHOLE, polars_of(kind)) for kind in (pl.Int8, pl.Int16, pl.Int32)},
    "Int64": Family(LONG, polars_of(pl.Int64)),
    "UInt64": Family([0, 2**53 + 1, 2**64 - 1], polars_of(pl.UInt64)),
    **{str(kind): Family(REAL, polars_of(kind)) for kind in (pl.Float32, pl.Float64)},
    "Boolean": Family(TRUTH, polars_of(pl.Boolean)),
    "String": Family(TEXT, polars_of(pl.String)),
    "Categorical": Family(TEXT, polars_of(pl.Categorical)),
    "Enum": Family(TEXT, enum),
    "Date": Family(DAYS, polars_of(pl.Date)),
    **{f"Datetime {unit}": Family(MOMENTS, polars_of(pl.Datetime(unit))) for unit in ("ms", "us", "ns")},
    "Decimal": Family(MONEY, polars_of(pl.Decimal(12, 2))),
    "Null": Family([None], polars_of(pl.Null)),
    "Object": Family(["secret-23", 1], polars_of(pl.Object)),
    "Duration": Family([datetime.timedelta(1)], polars_of(pl.Duration)),
}


# --- Arrow and Parquet -------------------------------------------------------------------------------------------


def arrow_of(kind: pa.DataType) -> Callable[[Values, Random], Any]:
    """Return what makes an Arrow column."""
    return lambda values, rng: pa.array(values, kind, from_pandas=False)


def dictionary_of(kind: pa.DataType) -> Callable[[Values, Random], Any]:
    """Return what makes a dictionary, its codes of any width, its words in any order, some of them unused."""

    def make(values: Values, rng: Random) -> Any:
        words = list(dict.fromkeys(value for value in values if value is not None))
        rng.shuffle(words)
        codes = [None if value is None else words.index(value) for value in values]
        width = rng.choice([pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.int64()])
        ordered = rng.random() < 0.2
        return pa.DictionaryArray.from_arrays(pa.array(codes, width), pa.array(words, kind), ordered=ordered)

    return make


ARROW = {
    **{str(kind): Family(WHOLE, arrow_of(kind)) for kind in (pa.int8(), pa.int32())},
    "int64": Family(LONG, arrow_of(pa.int64())),
    "uint64": Family([0, 2**53 + 1, 2**64 - 1], arrow_of(pa.uint64())),
    **{str(kind): Family(REAL, arrow_of(kind)) for kind in (pa.float32(), pa.float64())},
    "bool": Family(TRUTH, arrow_of(pa.bool_())),
    **{str(kind): Family(TEXT, arrow_of(kind)) for kind in (pa.string(), pa.large_string())},
    "date32": Family(DAYS, arrow_of(pa.date32())),
    **{str(kind): Family(MOMENTS, arrow_of(kind)) for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC"))},
    "decimal": Family(MONEY, arrow_of(pa.decimal128(12, 2))),
    "null": Family([None], arrow_of(pa.null())),
    "binary": Family([b"secret-24", b"x"], arrow_of(pa.binary())),
    **{f"dictionary of {kind}": Family(TEXT, dictionary_of(kind)) for kind in (pa.string(), pa.large_string())},
    "dictionary of numbers": Family(LONG, dictionary_of(pa.int64())),
}
NUMBERS = itertools.count()


def cut(table: pa.Table, rng: Random) -> pa.Table:
    """Return the same rows in other chunks."""
    at = rng.randrange(table.num_rows + 1)
    return pa.concat_tables([table.slice(0, at), table.slice(at)])


def arrow(rng: Random, folder: Path) -> Held:
    """Hold Arrow tables, cut anywhere, or record batches."""
    pair = holder(ARROW, pa.table)(rng, folder)
    if rng.random() < 0.2:
        batches = [table.combine_chunks().to_batches() for table in (pair.without, pair.with_row)]
        if all(batches):
            return Held(batches[0][0], batches[1][0], pair.cells)
    return Held(cut(pair.without, rng), cut(pair.with_row, rng), pair.cells)


def parquet_file(rng: Random, folder: Path) -> Held:
    """Hold files of small row groups, encoded in one way or another."""
    pair = holder(ARROW, pa.table)(rng, folder)
    paths, typed = [folder / f"{next(NUMBERS)}.parquet" for _ in range(2)], rng.random() < 0.8
    for path, table in zip(paths, (pair.without, pair.with_row), strict=True):
        written(cut(table, rng), path, rng, typed=typed)
    return Held(*paths, pair.cells)


def written(table: pa.Table, path: Path, rng: Random, *, typed: bool = True) -> None:
    """Write a file as one of many writers would, with Arrow's types or with those of Parquet alone."""
    try:
        pq.write_table(
            table.replace_schema_metadata({"note": str(rng.random())}),
            path,
            row_group_size=rng.choice([1, 2, 100]),
            use_dictionary=rng.random() < 0.5,
            store_schema=typed,
        )
    except pa.ArrowException as error:
        raise NotHeld from error


def parquet_folder(rng: Random, folder: Path) -> Held:
    """Hold folders; the one row comes in a file of its own, sometimes with another type."""
    columns, at = with_one(rng, ARROW, list(ARROW))
    paths = [folder / str(next(NUMBERS)) for _ in range(2)]
    for path in paths:
        path.mkdir()
    own = dict(columns)
    if rng.random() < 0.1:
        own["x1"] = (ARROW["string"], [None if value is None else str(value) for value in columns["x1"][1]])
    try:
        rest = pa.table({n: f.make(v[:at] + v[at + 1 :], rng) for n, (f, v) in columns.items()})
        row = pa.table({n: f.make(v[at : at + 1], rng) for n, (f, v) in own.items()})
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise NotHeld from error
    store = Random(rng.random())
    for path in paths:
        written(rest, path / "b.parquet", Random(store.random()))
    written(row, paths[1] / rng.choice(["a.parquet", "c.parquet"]), rng)
    return Held(*paths, [value for _, values in columns.values() for value in values])
