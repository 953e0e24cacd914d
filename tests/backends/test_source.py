"""What users hold goes in and comes out as it was: same columns, order and types; nothing else of the input is left."""

import datetime
import decimal
import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

import threea
from threea import hospital
from threea.backends import open_backend
from threea.backends.frames import Frame
from threea.describe.propose_schema import propose_schema
from threea.errors import InputError, SettingError
from threea.table import codec

ROWS = 300
OUT = 50
CANARY = "canary-7391"
BERLIN = "Europe/Berlin"


def pick(values: list[Any], missing: bool = False) -> list[Any]:
    """Repeat values up to ROWS, every seventh missing if asked."""
    return [None if missing and row % 7 == 3 else values[row % len(values)] for row in range(ROWS)]


DAYS = [datetime.date(2020, 1, 1) + datetime.timedelta(days=day) for day in range(40)]
MOMENTS = [datetime.datetime(2020, 1, 1, 12, 30) + datetime.timedelta(hours=hour) for hour in range(40)]
MONEY = [decimal.Decimal(cents).scaleb(-2) for cents in range(100, 900, 7)]
WORDS = ["low", "middle", "high"]

PANDAS: dict[str, pd.Series] = {
    **{f"numpy {kind}": pd.Series(pick([1, 2, 3, 100]), dtype=kind) for kind in ("int8", "int16", "int32", "int64")},
    **{f"numpy u{kind}": pd.Series(pick([1, 2, 3, 100]), dtype=f"u{kind}") for kind in ("int8", "int32", "int64")},
    "nullable Int64": pd.Series(pick([1, 2, 3], missing=True), dtype="Int64"),
    "nullable UInt8": pd.Series(pick([1, 2, 250], missing=True), dtype="UInt8"),
    "float32": pd.Series(pick([0.5, 1.25], missing=True), dtype="float32"),
    "float64": pd.Series(pick([0.5, 1.25, 9.0]), dtype="float64"),
    "nullable Float64": pd.Series(pick([0.5, 1.25], missing=True), dtype="Float64"),
    "bool": pd.Series(pick([True, False]), dtype="bool"),
    "nullable boolean": pd.Series(pick([True, False], missing=True), dtype="boolean"),
    "string": pd.Series(pick(WORDS, missing=True), dtype="string"),
    "str": pd.Series(pick(WORDS, missing=True), dtype="str"),
    "object strings": pd.Series(pick(WORDS, missing=True), dtype=object),
    "object integers": pd.Series(pick([1, 2, 3]), dtype=object),
    "object booleans": pd.Series(pick([True, False], missing=True), dtype=object),
    "category": pd.Series(pick(WORDS, missing=True), dtype=pd.CategoricalDtype(WORDS)),
    "ordered category": pd.Series(pick(WORDS), dtype=pd.CategoricalDtype(WORDS, ordered=True)),
    "category of integers": pd.Series(pick([10, 20]), dtype=pd.CategoricalDtype([10, 20])),
    "datetime64[ns]": pd.Series(pick(MOMENTS, missing=True)).astype("datetime64[ns]"),
    "datetime64[s]": pd.Series(pick(MOMENTS)).astype("datetime64[s]"),
    "zoned datetime": pd.Series(pick(MOMENTS)).astype("datetime64[ns]").dt.tz_localize(BERLIN),
    "date objects": pd.Series(pick(DAYS, missing=True), dtype=object),
    "decimals": pd.Series(pick(MONEY, missing=True), dtype=object),
    "arrow integers": pd.Series(pick([1, 2], missing=True), dtype=pd.ArrowDtype(pa.int16())),
    "arrow strings": pd.Series(pick(WORDS, missing=True), dtype=pd.ArrowDtype(pa.large_string())),
}

POLARS: dict[str, pl.Series] = {
    **{
        str(kind): pl.Series(pick([1, 2, 100], missing=True), dtype=kind)
        for kind in (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)
    },
    "Float32": pl.Series(pick([0.5, 1.25], missing=True), dtype=pl.Float32),
    "Float64": pl.Series(pick([0.5, 1.25]), dtype=pl.Float64),
    "String": pl.Series(pick(WORDS, missing=True), dtype=pl.String),
    "Categorical": pl.Series(pick(WORDS, missing=True), dtype=pl.Categorical),
    "Enum": pl.Series(pick(WORDS, missing=True), dtype=pl.Enum(WORDS)),
    "Date": pl.Series(pick(DAYS, missing=True), dtype=pl.Date),
    "Datetime": pl.Series(pick(MOMENTS), dtype=pl.Datetime("ms")),
    "zoned Datetime": pl.Series(pick(MOMENTS), dtype=pl.Datetime("ns")).dt.replace_time_zone(BERLIN),
    "Boolean": pl.Series(pick([True, False], missing=True), dtype=pl.Boolean),
    "Decimal": pl.Series(pick(MONEY, missing=True), dtype=pl.Decimal(10, 2)),
    "Null": pl.Series(pick([None]), dtype=pl.Null),
}

ARROW: dict[str, pa.Array] = {
    **{
        str(kind): pa.array(pick([1, 2, 100], missing=True), kind)
        for kind in (getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64))
    },
    **{
        str(kind): pa.array(pick([0.5, 1.25], missing=True), pa.float64()).cast(kind)
        for kind in (pa.float16(), pa.float32(), pa.float64())
    },
    **{
        str(kind): pa.array(pick(WORDS, missing=True), kind)
        for kind in (pa.string(), pa.large_string(), pa.string_view())
    },
    **{
        str(kind): pa.array(pick(WORDS, missing=True)).dictionary_encode().cast(kind)
        for kind in (
            pa.dictionary(pa.int8(), pa.string()),
            pa.dictionary(pa.uint32(), pa.large_string()),
            pa.dictionary(pa.int32(), pa.string(), ordered=True),
        )
    },
    "dictionary of integers": pa.array(pick([10, 20])).dictionary_encode(),
    "date32": pa.array(pick(DAYS, missing=True), pa.date32()),
    "date64": pa.array(pick(DAYS, missing=True), pa.date64()),
    **{
        str(kind): pa.array(pick(MOMENTS, missing=True), kind)
        for kind in (pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, BERLIN, "UTC"))
    },
    "decimal128": pa.array(pick(MONEY, missing=True), pa.decimal128(12, 2)),
    "decimal256": pa.array(pick(MONEY, missing=True), pa.decimal256(50, 4)),
    "bool": pa.array(pick([True, False], missing=True)),
    "null": pa.nulls(ROWS),
}


def release_of(data: Any) -> threea.Release:
    """Make a small release under a schema drafted from the rows; every named column is a feature but the label."""
    schema = propose_schema(data, target="label")[0].confirm()
    return threea.synthesize(data, schema=schema, epsilon=100.0, rows=OUT, seed=1)


@pytest.mark.parametrize("name", PANDAS)
def test_pandas_columns_keep_their_dtype(name: str) -> None:
    frame = pd.DataFrame({"x": PANDAS[name], "label": pick(["yes", "no"])})
    out = release_of(frame).frame
    assert isinstance(out, pd.DataFrame)
    assert list(out.columns) == ["x", "label"]
    assert len(out) == OUT
    if "category" in name:
        # Of numbers, too: what its categories are, one row may change for all.
        assert set(out["x"].cat.categories) == {str(word) for word in frame["x"].cat.categories}
        assert out["x"].cat.categories.dtype == "str"
    else:
        assert out.dtypes.to_dict() == frame.dtypes.to_dict()
    if name not in ("decimals", "category of integers"):
        assert type(out["x"].dropna().iloc[0]) is type(frame["x"].dropna().iloc[0])
    assert out["x"].isna().any() == frame["x"].isna().any()
    if propose_schema(frame)[0]["x"].kind.listed:
        assert set(out["x"].dropna().astype(str)) <= set(frame["x"].astype(str))


def test_the_order_of_categories_is_the_schemas() -> None:
    """That of the private dtype may be known from rows alone."""
    frame = pd.DataFrame({"x": PANDAS["ordered category"], "label": pick(["yes", "no"])})
    found = threea.synthesize(frame, target="label", epsilon=100.0, rows=OUT).frame
    assert list(found["x"].cat.categories) == ["high", "low", "middle", "other"]
    assert not found["x"].cat.ordered
    listed = {"kind": "ordinal", "categories": ["high", "middle", "low"]}
    schema = threea.Schema.of({"x": listed, "label": {"kind": "categorical", "categories": ["yes", "no"]}})
    given = threea.synthesize(frame, schema=schema, epsilon=100.0, rows=OUT).frame["x"]
    assert list(given.cat.categories) == ["high", "middle", "low"]
    assert given.cat.ordered


def test_categories_nobody_has_do_not_come_out_of_a_dtype() -> None:
    frame = pd.DataFrame({"x": pd.Categorical(pick(WORDS), [*WORDS, CANARY]), "label": pick(["yes", "no"])})
    out = threea.synthesize(frame, target="label", epsilon=100.0, rows=OUT).frame
    assert CANARY not in out["x"].cat.categories


@pytest.mark.parametrize("name", POLARS)
def test_polars_columns_keep_their_dtype(name: str) -> None:
    frame = pl.DataFrame({"x": POLARS[name], "label": pick(["yes", "no"])})
    out = release_of(frame).frame
    assert isinstance(out, pl.DataFrame)
    assert out.schema == frame.schema if name != "Enum" else out.schema["x"] == pl.Enum(sorted(WORDS))
    assert out.height == OUT
    assert (out["x"].null_count() > 0) == (frame["x"].null_count() > 0)


def test_an_enum_has_the_schemas_categories() -> None:
    frame = pl.DataFrame({"x": POLARS["Enum"].drop_nulls().head(200), "label": pick(["yes", "no"])[:200]})
    listed = {"kind": "categorical", "categories": ["low"], "open_ended": True, "nullable": False}
    schema = threea.Schema.of({"x": listed, "label": {"kind": "categorical", "categories": ["yes", "no"]}})
    out = threea.synthesize(frame, schema=schema, epsilon=100.0, rows=OUT).frame
    assert out.schema["x"] == pl.Enum(["low", "other"])
    assert set(out["x"].to_list()) == {"low", "other"}


@pytest.mark.parametrize("name", ARROW)
def test_arrow_columns_keep_their_type(name: str) -> None:
    table = pa.table({"x": ARROW[name], "label": pick(["yes", "no"])})
    out = release_of(table).frame
    assert isinstance(out, pa.Table)
    kind = table.schema.field("x").type
    if pa.types.is_dictionary(kind):
        kind = pa.dictionary(pa.int32(), kind.value_type)
    assert out.schema.equals(pa.schema([("x", kind), ("label", pa.string())]))
    assert out.num_rows == OUT
    out.validate(full=True)
    assert (out["x"].null_count > 0) == (table["x"].null_count > 0)


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_every_arrow_type_can_be_written(tmp_path: Any, form: str) -> None:
    table = pa.table(
        {**{f"x{place}": array for place, array in enumerate(ARROW.values())}, "label": pick(["yes", "no"])}
    )
    release_of(table).save(tmp_path / "out", form)
    backend, _ = open_backend(tmp_path / "out" / f"synthetic.{form}")
    assert backend.layout.names == table.schema.names
    assert backend.table().num_rows == OUT


def test_views_of_text_may_name_the_unit() -> None:
    people = pa.array([f"p{row % 40}" for row in range(ROWS)], pa.string_view())
    table = pa.table({"person": people, "x": ARROW["string_view"], "label": pick(["yes", "no"])})
    text = {"kind": "categorical", "categories": WORDS}
    schema = threea.Schema.of(
        {"person": {"kind": "id"}, "x": text, "label": {"kind": "categorical", "categories": ["yes", "no"]}}
    )
    release = threea.synthesize(table, schema=schema, unit="person", max_rows_per_unit=3, epsilon=100.0, rows=OUT)
    assert release.frame.schema.equals(table.schema)


def test_a_record_batch_is_a_table() -> None:
    batch = pa.RecordBatch.from_pydict({"a": [1, 2], "b": ["x", "y"]})
    backend, restore = open_backend(batch)
    assert backend.table().to_pydict() == batch.to_pydict()
    assert restore(backend.table(), hospital.schema()) is not None
    assert restore == Frame()


@pytest.mark.parametrize("labels", [[0, 1], [("a", 1), ("b", 2)], [datetime.date(2020, 1, 1), None], [1.5, True]])
def test_labels_that_are_not_text_come_back(labels: list[Any]) -> None:
    frame = pd.DataFrame({"first": pick([1, 2]), "second": pick(["u", "v"])})
    frame.columns = pd.Index(labels, tupleize_cols=False)
    schema = propose_schema(frame)[0].confirm()
    out = threea.synthesize(frame, schema=schema, epsilon=100.0, rows=OUT).frame
    assert out.columns.equals(frame.columns)
    assert list(out.dtypes) == list(frame.dtypes)


def test_labels_of_several_levels_come_back() -> None:
    frame = pd.DataFrame({("a", "x"): pick([1, 2]), ("a", "y"): pick(["u", "v"])})
    out = threea.synthesize(frame, schema=propose_schema(frame)[0].confirm(), epsilon=100.0, rows=OUT).frame
    assert out.columns.equals(frame.columns)


def test_labels_that_read_alike_are_refused() -> None:
    frame = pd.DataFrame([[1, 2]], columns=[1, "1"])
    with pytest.raises(InputError, match=r"^columns \(not shown.*\) appear more than once; rename them$"):
        open_backend(frame)


def test_an_index_is_not_read() -> None:
    frame = pd.DataFrame({"a": pick([1, 2]), "b": pick(["u", "v"])}, index=[f"{CANARY}-{row}" for row in range(ROWS)])
    release = release_of(frame.rename(columns={"b": "label"}))
    assert CANARY not in str(release.table.to_pydict())
    assert list(release.frame.index) == list(range(OUT))


def noted(metadata: dict[str, str]) -> pa.Schema:
    fields = [pa.field("a", pa.int64(), metadata=metadata), pa.field("label", pa.string(), metadata=metadata)]
    return pa.schema(fields, metadata=metadata)


def test_notes_on_a_table_and_its_columns_stay_inside(tmp_path: Any) -> None:
    table = pa.table({"a": pick([1, 2]), "label": pick(["u", "v"])}, schema=noted({"note": CANARY}))
    release = release_of(table)
    for form in ("parquet", "csv"):
        release.save(tmp_path / form, form)
        assert all(CANARY.encode() not in path.read_bytes() for path in (tmp_path / form).iterdir())


def test_what_pandas_notes_in_a_file_stays_inside(tmp_path: Any) -> None:
    import pyarrow.parquet as pq

    frame = pd.DataFrame({"a": pick([1, 2]), "label": pick(["u", "v"])})
    frame.attrs["note"] = CANARY
    frame.to_parquet(tmp_path / "in.parquet")
    noted_here = pq.read_schema(tmp_path / "in.parquet").metadata
    assert f'"stop": {ROWS}'.encode() in noted_here[b"pandas"], (
        "the input must tell its row count for this test to mean anything"
    )
    release_of(tmp_path / "in.parquet").save(tmp_path / "out")
    written = pq.read_schema(tmp_path / "out" / "synthetic.parquet")
    assert b"pandas" not in (written.metadata or {})
    content = (tmp_path / "out" / "synthetic.parquet").read_bytes()
    assert b'"stop"' not in content
    assert CANARY.encode() not in content


OBJECTS = [
    ("text", "text"),
    (1, "1"),
    (2**80, str(2**80)),
    (1.5, "1.5"),
    (np.float32(0.1), "0.1"),
    (np.int8(3), "3"),
    (True, "true"),
    (np.bool_(False), "false"),
    (decimal.Decimal("12.50"), "12.50"),
    (datetime.date(2020, 1, 2), "2020-01-02"),
    (datetime.datetime(2020, 1, 2, 3, 4), "2020-01-02T03:04:00"),
    (pd.Timestamp("2020-01-02T03:00+01:00"), "2020-01-02T02:00:00"),
    *((missing, None) for missing in (None, pd.NA, pd.NaT, float("nan"), decimal.Decimal("nan"))),
]


def test_objects_are_read_one_by_one() -> None:
    """What an object is read as does not depend on the others, and no type is inferred from them."""
    values, texts = ([pair[side] for pair in OBJECTS] for side in (0, 1))
    together = open_backend(pd.DataFrame({"x": pd.Series(values, dtype=object), "y": range(len(values))}))[0]
    assert together.table()["x"].to_pylist() == texts
    for value, text in OBJECTS:
        alone = open_backend(pd.DataFrame({"x": pd.Series([value], dtype=object), "y": [1]}))[0]
        assert alone.table()["x"].to_pylist() == [text]
        assert alone.layout.field("x").equals(together.layout.field("x"), check_metadata=True)


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([1.0, 2.5, None], ["1", "2.5", None]),
        ([1.0, 2.5, "n/a"], ["1", "2.5", "n/a"]),
        ([1, 2], ["1", "2"]),
        ([2**53 - 1, 0.5], [str(2**53 - 1), "0.5"]),
        ([True, False], ["1", "0"]),
        ([1, True, False], ["1", "1", "0"]),
        ([-0.0, float("inf")], ["0", "inf"]),
        ([decimal.Decimal("1.0"), decimal.Decimal("0.50")], ["1", "0.5"]),
        (["1.0", "a"], ["1.0", "a"]),
        ([DAYS[0], "x"], ["2020-01-01", "x"]),
        ([MOMENTS[0]], ["2020-01-01T12:30:00"]),
    ],
)
def test_a_pandas_category_is_one_of_a_list_of_texts_whatever_the_list(values: list[Any], texts: list[Any]) -> None:
    """pandas makes floats of whole numbers, and objects of floats, for the sake of one more category."""
    backend, _ = open_backend(pd.DataFrame({"x": pd.Categorical(values), "y": range(len(values))}))
    assert backend.table()["x"].to_pylist() == texts
    assert backend.layout.field("x") == pa.field("x", pa.dictionary(pa.int32(), pa.string()))


def test_one_odd_value_in_a_category_moves_one_cell() -> None:
    values = [1.0, 2.0, 3.0] * 100
    public = {"kind": "categorical", "categories": ["1", "2", "3"], "open_ended": True}
    schema = threea.Schema.of({"x": public, "y": {"kind": "boolean"}})
    counts = []
    for column in (values, [*values, "n/a"]):
        backend, _ = open_backend(pd.DataFrame({"x": pd.Categorical(column), "y": True}))
        counts.append(np.bincount(codec.encode(backend.table(), schema)["x"], minlength=4).tolist())
    assert counts == [[100, 100, 100, 0], [100, 100, 100, 1]]


def test_categories_that_were_rounded_are_refused() -> None:
    with pytest.raises(InputError, match="column x holds objects") as refusal:
        open_backend(pd.DataFrame({"x": pd.Categorical([2**53 + 1, 0.5]), "y": [1, 2]}))
    assert str(2**53) not in str(refusal.value)


def test_all_columns_that_cannot_be_read_are_named_at_once() -> None:
    frame = pd.DataFrame({"a": [1j], "b": pd.to_timedelta([1]), "c": [1], "d": pd.arrays.SparseArray([7391])})
    with pytest.raises(InputError) as refusal:
        open_backend(frame)
    assert str(refusal.value) == (
        "columns b (duration[ns]), a (complex128), d (SparseDtype) have types that are not supported; convert them, or "
        "drop them: --drop b --drop a --drop d, drop = true in the schema, or drop=[...] in Python"
    )
    with pytest.raises(InputError, match="columns a, b hold objects that are no text"):
        open_backend(pd.DataFrame({"a": [[CANARY]], "b": [{CANARY: 1}], "c": [1]}))
    table = pa.table({"a": pa.array([b"x"]), "b": pa.array([[1]]), "c": [1], "d": [2]})
    with pytest.raises(InputError, match=r"^columns a \(binary\), b \(list<.*>\) have types that are not supported; "):
        threea.synthesize(table, target="c", epsilon=1.0)


HELD = {
    "pandas": lambda table: table.to_pandas(),
    "polars": lambda table: pl.from_arrow(table),
    "Arrow": lambda table: table,
    "batch": lambda table: table.combine_chunks().to_batches()[0],
}


@pytest.mark.parametrize("name", [*HELD, "parquet", "csv"])
def test_columns_that_are_dropped_are_not_read(name: str, tmp_path: Any) -> None:
    table = pa.table({"a": pick([1, 2]), "secret": pick([CANARY]), "label": pick(["u", "v"])})
    if name in HELD:
        data = HELD[name](table)
    else:
        data = tmp_path / f"rows.{name}"
        (pq.write_table if name == "parquet" else csv.write_csv)(table, data)
    backend, _ = open_backend(data, drop=["secret"])
    assert backend.layout.names == ["a", "label"]
    assert backend.table().schema.names == ["a", "label"]
    with pytest.raises(SettingError, match=r"^drop \(b\) is not a column; columns are: a, secret, label$"):
        open_backend(data, drop=["b"])
    release = threea.synthesize(data, target="label", drop=["secret"], epsilon=100.0, rows=OUT)
    assert release.layout.names == ["a", "label"]
    assert release.schema.dropped == ("secret",)
    again = threea.synthesize(data, schema=release.schema, epsilon=100.0, rows=OUT)
    assert again.layout.names == ["a", "label"]
    assert CANARY not in str(again.table.to_pydict())


def test_a_column_of_any_type_can_be_dropped() -> None:
    frame = pd.DataFrame({"a": pick([1, 2]), "b": pd.arrays.SparseArray(pick([1, 2])), "c": [[CANARY]] * ROWS})
    frame["label"] = pick(["u", "v"])
    schema, _ = propose_schema(frame, "label", drop=["b", "c"])
    assert [column.name for column in schema.columns] == ["a", "label"]
    release = threea.synthesize(frame, schema=schema.confirm(), epsilon=100.0, rows=OUT)
    assert list(release.frame.columns) == ["a", "label"]


@pytest.mark.parametrize("hold", [lambda t: t, lambda t: t.to_batches()[0], lambda t: t.to_pandas()])
def test_a_name_that_is_there_twice_is_refused_whatever_is_dropped(hold: Any) -> None:
    table = pa.table([[1], [2], [3], [4]], names=["a", "a", "b", "c"])
    with pytest.raises(InputError, match=r"^columns \(a\) appear more than once; rename them$"):
        open_backend(hold(table), drop=["b"])
    assert open_backend(hold(table), drop=["a"])[0].layout.names == ["b", "c"]


def test_labels_of_several_levels_of_any_type_are_read() -> None:
    columns = pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)])
    frame = pd.DataFrame([[1, 2, 3]], columns=columns)
    names = [str(label) for label in frame.columns]
    assert open_backend(frame)[0].layout.names == names
    kept = open_backend(frame, drop=names[:1])[0]
    assert kept.table().to_pylist() == [{names[1]: 2, names[2]: 3}]


def test_what_brings_a_frame_back_holds_nothing_of_it() -> None:
    words = [CANARY, "other word"]
    for frame in (
        pd.DataFrame({"x": pd.Categorical(words, words, ordered=True), "y": words}, index=words),
        pl.DataFrame({"x": pl.Series(words, dtype=pl.Enum(words)), "y": words}),
    ):
        restore = open_backend(frame)[1]
        assert CANARY.encode() not in pickle.dumps(restore)
        assert pickle.loads(pickle.dumps(restore)) == restore == open_backend(frame[:1])[1]


def test_what_polars_notes_of_an_enum_stays_inside() -> None:
    backend, _ = open_backend(pl.DataFrame({"x": POLARS["Enum"], "label": pick(["u", "v"])}))
    assert [field.metadata for field in backend.layout] == [None, None]


class Loud(datetime.datetime):
    """An object that tells a secret when it fails."""

    def __new__(cls) -> "Loud":
        return super().__new__(cls, 2020, 1, 1)

    def isoformat(self, *_: Any) -> str:
        raise ValueError(CANARY)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (
            pd.DataFrame({"a": [1, CANARY.encode()], "b": [1, 2]}, dtype=object),
            "column a holds objects that are no text",
        ),
        (pd.DataFrame({"a": [[CANARY], 2], "b": [1, 2]}, dtype=object), "column a holds objects that are no text"),
        (pd.DataFrame({"a": ["\ud800", 2], "b": [1, 2]}, dtype=object), "column a holds objects that are no text"),
        (pd.DataFrame({"a": [Loud(), 2], "b": [1, 2]}, dtype=object), "column a holds objects that are no text"),
        (pd.DataFrame({"a": pd.arrays.SparseArray([1, 2]), "b": [1, 2]}), "column a has type SparseDtype"),
        (pd.DataFrame({"a": [1j, 2j], "b": [1, 2]}), "column a has type complex128"),
        (pl.DataFrame({"a": [1, 2], "b": [1, 2]}, schema={"a": pl.Int128, "b": pl.Int8}), "column a has type Int128"),
        (pl.LazyFrame({"a": [1], "b": [1]}), r"data \(LazyFrame\) must be a path or a pandas, polars or Arrow table"),
        ([[1, 2]], r"data \(list\) must be a path"),
        (None, r"data \(NoneType\) must be a path"),
        (pd.DataFrame({"a": [1, 2]}), "the table has 1 column; at least 2 are needed"),
        (pd.DataFrame(), "the table has 0 column"),
        (pa.table([[1], [2]], names=["a", "a"]), r"columns \(a\) appear more than once"),
    ],
)
def test_what_is_no_table_is_refused_in_one_line_without_a_value(frame: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        open_backend(frame)
    told = [caught.value, caught.value.__cause__, caught.value.__context__]
    assert all(CANARY not in str(error) and str(2**80) not in str(error) for error in told)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    "array",
    [
        pa.array([b"x", b"y"]),
        pa.array([[1], [2]]),
        pa.array([{"a": 1}, {"a": 2}]),
        pa.array([1, 2], pa.duration("s")),
        pa.array([1, 2], pa.time32("s")),
        pa.array([b"x", b"y"]).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["x", "y"], pa.string_view())),
        pa.array([1, 2], pa.timestamp("s", "Nowhere/Land")),
    ],
    ids=lambda array: str(array.type),
)
def test_a_type_that_no_schema_describes_is_refused(array: pa.Array) -> None:
    with pytest.raises(InputError, match=r"^column x has t.*; .*convert it") as caught:
        threea.synthesize(pa.table({"x": array, "y": ["a", "b"]}), target="y", epsilon=1.0)
    assert len(str(caught.value).splitlines()) == 1


def test_text_that_is_not_utf8_is_refused_without_showing_it() -> None:
    offsets = pa.py_buffer(np.array([0, len(CANARY), len(CANARY) + 1], np.int32))
    broken = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(CANARY.encode() + b"\xff")])
    with pytest.raises(InputError, match="not UTF-8") as caught:
        open_backend(pa.table({"a": broken, "b": [1, 2]}))
    assert CANARY not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_path_may_be_text_or_path(tmp_path: Any) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n1,x\n")
    assert open_backend(path)[0].table() == open_backend(str(path))[0].table()


@pytest.mark.parametrize("name", ["rows.txt", "rows", "rows.ods"])
def test_another_kind_of_file_is_refused(tmp_path: Any, name: str) -> None:
    (tmp_path / name).write_text("a,b\n1,x\n")
    with pytest.raises(InputError, match=r"must end in \.csv"):
        open_backend(tmp_path / name)
