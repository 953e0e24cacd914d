"""Nothing spent without a file: every type of column ends in written files, or in a refusal with nothing charged."""

import datetime
import decimal
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from threea.anonymize.open_table import open_table
from threea.budget import Budget
from threea.describe.propose_schema import propose_schema
from threea.errors import UserError
from threea.framework import Recipe
from threea.ledger import Ledger
from threea.recipes import Independent
from threea.recipes.gaussians import Gaussians
from threea.recipes.labeltree import LabelTree
from threea.table.schema import Column, Kind, Schema

ROWS = 160
DAYS = [datetime.date(2020, 1, 1) + datetime.timedelta(days=day) for day in range(5)]
MOMENTS = [datetime.datetime(1969, 12, 31, 23) + datetime.timedelta(hours=hour) for hour in range(5)]
MONEY = [decimal.Decimal(cents).scaleb(-2) for cents in (0, 125, -350, 999)]
NUMBERS, REALS, WORDS, TRUTHS = [0, 1, 100, 127], [0.0, -0.0, 0.5, 1e4], ["a", "b", "other", ""], [True, False]
KEYS = [uuid.UUID(int=number) for number in range(3)]
LENGTHS = [datetime.timedelta(seconds=second) for second in range(3)]
CLOCKS = [datetime.time(hour) for hour in range(3)]

ARROW: dict[pa.DataType, list[Any]] = {
    **{getattr(pa, f"{sign}int{bits}")(): NUMBERS for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **dict.fromkeys((pa.float16(), pa.float32(), pa.float64()), REALS),
    **dict.fromkeys((pa.string(), pa.large_string(), pa.string_view()), WORDS),
    **{pa.timestamp(unit, zone): MOMENTS for unit in ("s", "ms", "us", "ns") for zone in (None, "Europe/Berlin")},
    **dict.fromkeys((pa.date32(), pa.date64()), DAYS),
    **dict.fromkeys((pa.decimal128(3, 2), pa.decimal128(38, 10), pa.decimal256(60, 2), pa.decimal128(12, 4)), MONEY),
    pa.bool_(): TRUTHS,
    pa.null(): [None],
    **{kind: [b"x", b"y"] for kind in (pa.binary(), pa.large_binary(), pa.binary(1))},
    pa.list_(pa.int8()): [[1], [2, 3]],
    pa.struct([("a", pa.int8())]): [{"a": 1}],
    **{pa.duration(unit): LENGTHS for unit in ("s", "ns")},
    **dict.fromkeys((pa.time32("s"), pa.time64("us")), CLOCKS),
}
PANDAS: dict[str, list[Any]] = {
    **dict.fromkeys(("int8", "uint8", "int64", "uint64", "Int8", "UInt64", "int32[pyarrow]"), NUMBERS),
    **dict.fromkeys(("float16", "float32", "float64", "Float32", "double[pyarrow]"), REALS),
    **dict.fromkeys(("str", "string", "string[python]", "string[pyarrow]"), WORDS),
    **dict.fromkeys(("bool", "boolean", "bool[pyarrow]"), TRUTHS),
    **{f"datetime64[{unit}]": MOMENTS for unit in ("s", "us", "ns")},
    "datetime64[ns, Europe/Berlin]": MOMENTS,
    "timedelta64[ns]": LENGTHS,
    "period[D]": DAYS,
    "complex128": [1j, 2j],
    **{f"object of {name}": values for name, values in {
        "text": WORDS, "numbers": NUMBERS, "reals": REALS, "truths": TRUTHS, "days": DAYS, "moments": MOMENTS,
        "money": MONEY, "mixed": [1, "a", 2.5, None, DAYS[0]], "keys": KEYS, "bytes": [b"x"], "lists": [[1]],
        "clocks": CLOCKS,
        "lengths": LENGTHS, "nothing": [None],
    }.items()},
}  # fmt: skip
POLARS: dict[Any, list[Any]] = {
    **dict.fromkeys((pl.Int8, pl.Int64, pl.UInt8, pl.UInt64, pl.Int128), NUMBERS),
    **dict.fromkeys((pl.Float32, pl.Float64), REALS),
    **dict.fromkeys((pl.String, pl.Categorical, pl.Enum(WORDS)), WORDS),
    **dict.fromkeys((pl.Datetime("ms"), pl.Datetime("us"), pl.Datetime("ns", "Europe/Berlin")), MOMENTS),
    pl.Date: DAYS,
    pl.Boolean: TRUTHS,
    **dict.fromkeys((pl.Decimal(3, 2), pl.Decimal(38, 6)), MONEY),
    pl.Null: [None],
    pl.Binary: [b"x"],
    pl.Time: CLOCKS,
    pl.Duration: LENGTHS,
    pl.List(pl.Int8): [[1], [2]],
    pl.Struct({"a": pl.Int8}): [{"a": 1}],
    pl.Object: KEYS,
}


def filled(values: list[Any], missing: bool) -> list[Any]:
    return [None if missing and row % 5 == 4 else values[row % len(values)] for row in range(ROWS)]


def arrow(kind: pa.DataType, missing: bool, listed: bool) -> pa.Table:
    reals = kind == pa.float16()
    array = pa.array(filled(ARROW[kind], missing), pa.float32() if reals else kind).cast(kind)
    if listed:
        indices = pa.array([row % 3 for row in range(ROWS)], pa.int8())
        array = pa.DictionaryArray.from_arrays(indices, array.slice(0, 3))
    field = pa.field("x", array.type, nullable=missing or array.null_count > 0 or pa.types.is_null(kind))
    return pa.table([array, pa.array(filled(["u", "v"], False))], schema=pa.schema([field, ("y", pa.string())]))


def pandas(kind: str, missing: bool, listed: bool) -> pd.DataFrame:
    dtype = "object" if kind.startswith("object") else kind
    values = filled(PANDAS[kind], missing and kind not in ("int8", "uint8", "int64", "uint64", "bool"))
    if "Berlin" in kind:
        series = pd.Series(pd.to_datetime(values)).dt.tz_localize("UTC").astype(dtype)
    else:
        series = pd.Series(values, dtype=dtype)
    return pd.DataFrame({"x": series.astype("category") if listed else series, "y": filled(["u", "v"], False)})


def polars(kind: Any, missing: bool, listed: bool) -> pl.DataFrame:
    series = pl.Series("x", filled(POLARS[kind], missing), dtype=kind)
    return pl.DataFrame([series.cast(pl.Categorical) if listed and kind is pl.String else series]).with_columns(
        pl.Series("y", filled(["u", "v"], False))
    )


LIBRARIES: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "arrow": (arrow, list(ARROW)),
    "pandas": (pandas, list(PANDAS)),
    "polars": (polars, list(POLARS)),
}


def made(library: str, kind: Any, missing: bool, listed: bool) -> Any | None:
    """Return the table, or nothing where the library itself cannot make it."""
    try:
        return LIBRARIES[library][0](kind, missing, listed)
    except (pa.ArrowException, pl.exceptions.PolarsError, NotImplementedError, TypeError, ValueError):
        return None


def drafted_schema(data: Any, unit: str | None) -> Schema:
    schema = propose_schema(data, "y")[0].confirm()
    columns = (Column(name=c.name, kind=Kind.ID) if c.name == unit else c for c in schema.columns)
    return replace(schema, columns=tuple(columns))


def ends_well(data: Any, folder: Path, form: str, *, drafted: bool, unit: str | None = None) -> bool:
    """Make a release; return whether it was written. It was, or nothing was spent."""
    with Ledger() as ledger:
        try:
            schema = drafted_schema(data, unit) if drafted else None
            table = open_table(data, schema=schema, target="y", unit=unit, budget=Budget(3.0), ledger=ledger)
        except UserError as refusal:
            message = str(refusal)
            assert "\n" not in message
            assert ledger.releases() == []
            return False
        release = Independent().run(table, rows=140)
        release.save(folder, form)
        assert len(release.frame) == 140
    return (folder / f"synthetic.{form}").exists()


cases = st.sampled_from(list(LIBRARIES)).flatmap(
    lambda library: st.tuples(st.just(library), st.sampled_from(LIBRARIES[library][1]))
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    case=cases,
    missing=st.booleans(),
    listed=st.booleans(),
    drafted=st.booleans(),
    form=st.sampled_from(["parquet", "csv"]),
    unit=st.sampled_from([None, None, "x"]),
)
def test_every_type_ends_in_files_or_in_a_refusal_with_nothing_spent(
    case: tuple[str, Any],
    missing: bool,
    listed: bool,
    drafted: bool,
    form: str,
    unit: str | None,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    data = made(*case, missing, listed)
    if data is not None:
        ends_well(data, tmp_path_factory.mktemp("case") / "out", form, drafted=drafted, unit=unit)


PLAIN_TYPES = ["int64", "float64", "bool", "datetime64[us]"]


@pytest.mark.parametrize("library", ["arrow", "pandas"])
@pytest.mark.parametrize("kind", PLAIN_TYPES)
def test_categories_that_are_no_text_are_discovered_and_written(library: str, kind: str, tmp_path: Path) -> None:
    frame = pandas(kind, False, True)
    data = frame if library == "pandas" else pa.Table.from_pandas(frame, preserve_index=False)
    assert ends_well(data, tmp_path / "out", "parquet", drafted=False)


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_an_id_in_a_dictionary_has_a_surrogate_for_every_row(form: str, tmp_path: Path) -> None:
    people = (
        pa.array([f"p{row % 100}" for row in range(ROWS)])
        .dictionary_encode()
        .cast(pa.dictionary(pa.int8(), pa.string()))
    )
    data = pa.table({"x": people, "y": filled(["u", "v"], False)})
    assert ends_well(data, tmp_path / "out", form, drafted=False, unit="x")


def test_a_dictionary_of_8_bits_may_find_more_categories_than_it_numbered() -> None:
    words = pa.array([f"w{row % 128}" for row in range(128 * 40)]).dictionary_encode()
    data = pa.table({"x": words.cast(pa.dictionary(pa.int8(), pa.string())), "y": filled(["u", "v"], False) * 32})
    release = Independent().run(open_table(data, target="y", budget=Budget(50.0)), rows=300)
    assert len(release.schema["x"].categories) == 128
    assert release.frame.schema.field("x").type == pa.dictionary(pa.int32(), pa.string())


@pytest.mark.parametrize("kind", [pa.time32("s"), pa.duration("s"), pa.binary(), pa.list_(pa.int8())], ids=str)
def test_a_unit_of_a_type_that_has_no_surrogates_is_refused(kind: pa.DataType, tmp_path: Path) -> None:
    assert not ends_well(arrow(kind, False, False), tmp_path / "out", "parquet", drafted=False, unit="x")


@pytest.mark.parametrize("recipe", [Independent(), LabelTree(), Gaussians()], ids=lambda recipe: recipe.name)
@pytest.mark.parametrize("day", ["9999-12-31", "2020-01-01", "0001-01-01"])
@pytest.mark.parametrize("kind", ["date", "datetime"])
def test_a_moment_that_never_changes_can_be_released(recipe: Recipe, day: str, kind: str, tmp_path: Path) -> None:
    moments = {"kind": kind, "lower": day, "upper": day}
    schema = Schema.of({"x": moments, "y": {"kind": "categorical", "categories": ["u", "v"]}}, target="y")
    data = pa.table({"x": filled([f"{day}"], True), "y": filled(["u", "v"], False)})
    release = recipe.run(open_table(data, schema=schema, budget=Budget(1.0)), rows=20)
    release.save(tmp_path / "out", "csv")
    assert {value[:10] for value in release.table["x"].drop_null().to_pylist()} <= {day}
