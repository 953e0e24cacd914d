"""What a release looks like, but for its values, follows the schema and declared types: one odd row changes nothing."""

import datetime
import decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import workbook

from threea.anonymize.open_table import open_table
from threea.budget import Budget
from threea.framework import Release
from threea.recipes import Independent
from threea.table.layout import declared, is_declared, released, undeclared
from threea.table.schema import Column, Kind, Schema
from threea.testing import SilentNoise

ROWS = 4000
LABELS = {"kind": "categorical", "categories": ["u", "v"]}
WORDS = [f"w{number:03}" for number in range(126)]

MONEY = {"kind": "real", "lower": 0, "upper": 1_000_000}
WHOLE = {"kind": "integer", "lower": 0, "upper": 100}
LISTED = {"kind": "categorical", "categories": WORDS[:5], "open_ended": True}
DAY = {"kind": "date", "lower": "2020-01-01", "upper": "2021-01-01"}

ODD: dict[str, tuple[list[Any], Any, dict[str, Any]]] = {
    "a longer decimal": ([decimal.Decimal("12.50"), decimal.Decimal("3.25")], decimal.Decimal("123456.789"), MONEY),
    "a float among ints": ([1, 2, 3], 2.5, WHOLE),
    "a huge int": ([1, 2, 3], 2**80, WHOLE),
    "a truth among nothing": ([None], True, {"kind": "boolean"}),
    "a datetime among dates": ([datetime.date(2020, 1, 2)], datetime.datetime(2020, 1, 2, 3), DAY),
    "text among numbers": ([1, 2, 3], "12a", WHOLE),
    "another word": (WORDS, "w126", LISTED),
}
"""Values that all rows but one have, what that one has, and the schema."""


def rows(name: str, odd: bool) -> list[Any]:
    common, other, _ = ODD[name]
    values = [common[row % len(common)] for row in range(ROWS)]
    return [*values[:-1], other] if odd else values


def labels() -> list[str]:
    return ["u", "v"] * (ROWS // 2)


def objects(name: str, odd: bool, folder: Path) -> Any:
    return pd.DataFrame({"x": pd.Series(rows(name, odd), dtype=object), "y": labels()})


def csv(name: str, odd: bool, folder: Path) -> Any:
    path = folder / f"{odd}.csv"
    objects(name, odd, folder).to_csv(path, index=False)
    return path


def excel(name: str, odd: bool, folder: Path) -> Any:
    cells = zip(rows(name, odd), labels(), strict=True)
    return workbook.write(folder / f"{odd}.xlsx", [["x", "y"], *map(list, cells)])


def dictionary(name: str, odd: bool, folder: Path) -> Any:
    return pa.table({"x": narrow(rows(name, odd)), "y": labels()})


def parquet(name: str, odd: bool, folder: Path) -> Any:
    pq.write_table(dictionary(name, odd, folder), folder / f"{odd}.parquet")
    return folder / f"{odd}.parquet"


def category(name: str, odd: bool, folder: Path) -> Any:
    words = sorted(set(rows(name, odd)))
    return pd.DataFrame({"x": pd.Categorical(rows(name, odd), words[::-1], ordered=True), "y": labels()})


def enum(name: str, odd: bool, folder: Path) -> Any:
    values = rows(name, odd)
    return pl.DataFrame({"x": pl.Series(values, dtype=pl.Enum(sorted(set(values)))), "y": labels()})


def categorical(name: str, odd: bool, folder: Path) -> Any:
    return pl.DataFrame({"x": pl.Series(rows(name, odd), dtype=pl.Categorical), "y": labels()})


def narrow(words: list[str]) -> pa.DictionaryArray:
    """Number the words in as few bits as will do, as many writers of Parquet do."""
    found = pa.array(words).dictionary_encode()
    width = pa.int8() if len(found.dictionary) < 127 else pa.int16()
    return pa.DictionaryArray.from_arrays(found.indices.cast(width), found.dictionary)


CASES = [(make, name) for make in (objects, csv) for name in ODD]
CASES += [(excel, name) for name in ("a float among ints", "a datetime among dates", "text among numbers")]
CASES += [(make, "another word") for make in (dictionary, parquet, category, enum, categorical)]


def looks_of(release: Release, folder: Path) -> tuple[Any, ...]:
    """Return all that a release shows but the values in it."""
    release.save(folder, "parquet")
    frame = release.frame
    types = frame.schema if hasattr(frame, "schema") else dict(frame.dtypes)
    categories = list(frame["x"].cat.categories) if isinstance(frame, pd.DataFrame) and "cat" in str(types["x"]) else []
    written = pq.read_schema(folder / "synthetic.parquet")
    # Bounds may differ: they follow charged answers, which silent noise shows as they are.
    columns = [
        (column.kind, column.categories, column.open_ended, column.nullable) for column in release.schema.columns
    ]
    return release.layout, types, categories, release.restore, written, columns


@pytest.mark.parametrize("described", [True, False], ids=["schema", "discovered"])
@pytest.mark.parametrize(("make", "name"), CASES, ids=lambda case: getattr(case, "__name__", case))
def test_one_odd_row_does_not_change_what_a_release_looks_like(
    make: Any, name: str, described: bool, tmp_path: Path
) -> None:
    """Under silent noise, where only what is not charged for could differ; a category of one row is not shown."""
    schema = Schema.of({"x": ODD[name][2], "y": LABELS}, target="y") if described else None
    looks = []
    for odd in (False, True):
        data = make(name, odd, tmp_path)
        table = open_table(data, schema=schema, target="y", budget=Budget(2.0), noise=SilentNoise())
        looks.append(looks_of(Independent().run(table, rows=300, seed=1), tmp_path / f"out {odd}"))
    assert looks[0] == looks[1]


def test_undeclared_columns_take_their_type_from_the_kind() -> None:
    kinds = {
        Kind.INTEGER: pa.int64(),
        Kind.REAL: pa.float64(),
        Kind.DATE: pa.date32(),
        Kind.DATETIME: pa.timestamp("us"),
        Kind.BOOLEAN: pa.bool_(),
        Kind.CATEGORICAL: pa.string(),
        Kind.ID: pa.string(),
    }
    for kind, wanted in kinds.items():
        bounds = {"lower": 0.0, "upper": 1.0} if kind.numeric else {}
        column = Column(name="x", kind=kind, open_ended=kind is Kind.CATEGORICAL, **bounds)
        assert released(Schema((column,)), pa.schema([undeclared("x")])) == pa.schema([("x", wanted)])


@pytest.mark.parametrize("width", [pa.int8(), pa.int16(), pa.uint32()])
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("kind", [Kind.CATEGORICAL, Kind.ORDINAL])
def test_a_dictionary_has_codes_of_one_width_and_the_schemas_order(
    width: pa.DataType, ordered: bool, kind: Kind
) -> None:
    column = Column(name="x", kind=kind, categories=("a",))
    private = pa.schema([("x", pa.dictionary(width, pa.string(), ordered))])
    wanted = pa.dictionary(pa.int32(), pa.string(), ordered=kind is Kind.ORDINAL)
    assert released(Schema((column,)), private).field("x").type == wanted


def test_declared_decimals_keep_precision_and_scale() -> None:
    column = Column(name="x", kind=Kind.REAL, lower=0.0, upper=1.0)
    private = pa.schema([("x", pa.decimal128(7, 2))])
    assert released(Schema((column,)), private) == private


def test_notes_on_columns_are_dropped_and_no_file_can_call_a_column_undeclared_by_chance() -> None:
    noted = pa.schema([pa.field("x", pa.int64(), metadata={"note": "canary"})], metadata={"note": "canary"})
    assert declared(noted).field("x").metadata is None
    assert declared(noted).metadata is None
    assert is_declared(noted.field("x"))
    assert is_declared(undeclared("x").with_type(pa.binary()))
    assert not is_declared(declared(pa.schema([undeclared("x")])).field("x"))
