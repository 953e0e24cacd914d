"""Encoding is total, decoding keeps types, and both agree with the schema."""

import datetime
import decimal
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threea.errors import InputError, SchemaError
from threea.table import codec
from threea.table.schema import OTHER, Column, Kind, Schema
from threea.table.supported import kind_of

DAY, MOMENT = datetime.date(2020, 2, 29), datetime.datetime(2020, 2, 29, 13, 30, 15, 250)


def integers(kind: pa.DataType) -> st.SearchStrategy[Any]:
    limits = np.iinfo(kind.to_pandas_dtype())
    return st.integers(int(limits.min), int(limits.max))


INTEGERS = [getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]
REALS = [pa.float16(), pa.float32(), pa.float64()]
DECIMALS = [pa.decimal32(5, 2), pa.decimal64(12, 3), pa.decimal128(20, 2), pa.decimal128(5, 5), pa.decimal256(50, 4)]
TEXTS = [pa.string(), pa.large_string(), pa.string_view()]
MOMENTS = [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "Europe/Berlin", "UTC")]
PLAIN = [*INTEGERS, *REALS, *DECIMALS, *TEXTS, *MOMENTS, pa.date32(), pa.date64(), pa.bool_(), pa.null()]
DICTIONARIES = [
    pa.dictionary(pa.int32(), value, ordered)
    for value in (pa.string(), pa.large_string(), pa.int64(), pa.float64(), pa.bool_(), pa.date32(), pa.timestamp("us"))
    for ordered in (False, True)
]

texts = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["true", " No ", "1e999", "-1e-999", "+5", "\u00a05", "2020-02-30", "9999-12-31", "0001-01-01", "nan"]
    ),
    st.floats().map(str),
    st.dates().map(str),
    st.datetimes().map(str),
)


def arrays(kind: pa.DataType) -> st.SearchStrategy[pa.Array]:
    """Return arrays of any values that a type can hold, missing ones included."""
    if pa.types.is_dictionary(kind):
        return arrays(kind.value_type).map(lambda values: values.dictionary_encode().cast(kind))
    if pa.types.is_null(kind):
        return st.integers(0, 4).map(pa.nulls)
    if pa.types.is_integer(kind):
        return lists(integers(kind), kind)
    if pa.types.is_floating(kind):
        width = kind.bit_width
        return st.lists(st.floats(width=width), max_size=6).map(
            lambda values: pa.array(np.array(values, kind.to_pandas_dtype()), kind)
        )
    if pa.types.is_decimal(kind):
        limit = 10**kind.precision - 1
        whole = st.integers(-limit, limit).map(
            lambda digits: decimal.Decimal((digits < 0, digit_tuple(digits), -kind.scale))
        )
        return lists(whole, kind)
    if pa.types.is_boolean(kind):
        return lists(st.booleans(), kind)
    if pa.types.is_date32(kind):
        return lists(integers(pa.int32()), pa.int32()).map(lambda values: values.cast(kind))
    if pa.types.is_date64(kind):
        # A date64 counts milliseconds, but holds whole days only.
        days = st.integers(-(2**63 // 86_400_000), 2**63 // 86_400_000 - 1).map(lambda day: day * 86_400_000)
        return lists(days, pa.int64()).map(lambda values: values.cast(kind))
    if pa.types.is_timestamp(kind):
        return lists(integers(pa.int64()), pa.int64()).map(lambda values: values.cast(kind))
    return lists(texts, kind)


def digit_tuple(digits: int) -> tuple[int, ...]:
    return tuple(int(digit) for digit in str(abs(digits)))


def lists(values: st.SearchStrategy[Any], kind: pa.DataType) -> st.SearchStrategy[pa.Array]:
    return st.lists(st.one_of(st.none(), values), max_size=6).map(lambda found: pa.array(found, kind))


COLUMNS = {
    "categorical": {"categories": ["1", "2"], "kind": "categorical"},
    "open": {"categories": ["1"], "kind": "categorical", "open_ended": True},
    "nothing listed": {"categories": [], "kind": "categorical", "open_ended": True},
    "words": {"categories": ["a", "true", "größe"], "kind": "categorical"},
    "dates listed": {"categories": ["2020-01-01"], "kind": "ordinal"},
    "boolean": {"kind": "boolean"},
    "integer": {"kind": "integer", "lower": -3, "upper": 200, "special": [999]},
    "wide integer": {"kind": "integer", "lower": -(2**63), "upper": 2**63},
    "real": {"kind": "real", "lower": 0.5, "upper": 1e6, "log": True, "special": [0.0]},
    "wide real": {"kind": "real", "lower": -1e300, "upper": 1e300},
    "date": {"kind": "date", "lower": "0001-01-01", "upper": "9999-12-31"},
    "datetime": {"kind": "datetime", "lower": "1600-01-01", "upper": "9999-12-31T23:59:59.999999"},
    "id": {"kind": "id"},
}


def one_column(fields: dict[str, Any]) -> Schema:
    return Schema.of({"x": fields})


def fitted(name: str, kind: pa.DataType, nullable: bool = True) -> Schema | None:
    """Return a schema of one column, fitted to a type, or None if it does not fit."""
    try:
        return codec.fit(one_column(COLUMNS[name]), pa.schema([pa.field("x", kind, nullable=nullable)]))
    except SchemaError:
        return None


FITTING = [(name, kind) for name in COLUMNS for kind in (*PLAIN, *DICTIONARIES) if fitted(name, kind)]


def test_most_pairs_fit() -> None:
    assert len(FITTING) > 0.4 * len(COLUMNS) * (len(PLAIN) + len(DICTIONARIES))
    assert {name for name, _ in FITTING} == set(COLUMNS)
    assert {kind for _, kind in FITTING} == {*PLAIN, *DICTIONARIES}


@settings(max_examples=1500, deadline=None)
@given(data=st.data())
def test_encoding_is_total_and_within_the_schema(data: st.DataObject) -> None:
    name, kind = data.draw(st.sampled_from(FITTING))
    schema = fitted(name, kind)
    assert schema is not None
    values = data.draw(arrays(kind))
    chunk = codec.encode(pa.table({"x": values}), schema)
    if name == "id":
        assert chunk == {}
        return
    column, encoded = schema["x"], chunk["x"]
    assert encoded.shape == (len(values),)
    if column.kind.listed:
        assert ((encoded >= -1) & (encoded < len(column.categories) + column.open_ended)).all()
        return
    assert column.lower is not None
    assert column.upper is not None
    present = encoded[~np.isnan(encoded)]
    assert (((present >= column.lower) & (present <= column.upper)) | np.isin(present, column.special)).all()
    assert not column.whole or (present == np.round(present)).all()


@settings(max_examples=600, deadline=None)
@given(data=st.data())
def test_whatever_the_cells_draw_can_be_decoded(data: st.DataObject) -> None:
    name, kind = data.draw(st.sampled_from(FITTING))
    nullable = pa.types.is_null(kind) or data.draw(st.booleans())
    schema = fitted(name, kind, nullable)
    assert schema is not None
    layout = pa.schema([pa.field("x", kind, nullable=nullable)])
    if name == "id":
        decoded = codec.decode({"other": np.zeros(5)}, schema, layout, first_row=10)
    else:
        cells = schema["x"].cells(data.draw(st.integers(2, 32)))
        index = np.arange(cells.size) if cells.size else np.zeros(0, np.int64)
        decoded = codec.decode({"x": cells.draw(index, np.random.default_rng(0))}, schema, layout)
    decoded.validate(full=True)
    assert decoded.schema.equals(layout)
    assert nullable or name == "nothing listed" or decoded.column("x").null_count == 0


ROUND_TRIPS: list[tuple[str, pa.DataType, list[Any]]] = [
    *(("integer", kind, [0, 5, 100, None]) for kind in INTEGERS),
    ("wide integer", pa.int64(), [-(2**53), 2**53, 0]),
    *(("wide real", kind, [0.5, 1.25, 100.0, None]) for kind in REALS),
    *(("wide real", kind, [decimal.Decimal("0.25"), None]) for kind in DECIMALS),
    ("integer", pa.decimal128(5, 2), [decimal.Decimal("7.00"), None]),
    ("integer", pa.string(), ["7", None]),
    ("real", pa.large_string(), ["7.5", None]),
    *(("words", kind, ["a", "true", "größe", None]) for kind in TEXTS),
    *(("words", pa.dictionary(pa.int8(), kind), ["größe", None, "a"]) for kind in TEXTS[:2]),
    *(("categorical", kind, [1, 2, None]) for kind in (*INTEGERS, *REALS, pa.dictionary(pa.int8(), pa.int64()))),
    ("boolean", pa.bool_(), [True, False, None]),
    ("boolean", pa.int8(), [1, 0, None]),
    ("boolean", pa.float64(), [1.0, 0.0, None]),
    ("boolean", pa.string(), ["true", "false", None]),
    ("boolean", pa.dictionary(pa.int8(), pa.string()), ["true", "false", None]),
    ("date", pa.date32(), [DAY, datetime.date.min, datetime.date.max, None]),
    ("date", pa.date64(), [DAY, None]),
    ("date", pa.string(), ["2020-02-29", None]),
    ("dates listed", pa.date32(), [datetime.date(2020, 1, 1), None]),
    *(("dates listed", pa.timestamp(unit), [datetime.datetime(2020, 1, 1), None]) for unit in ("s", "us", "ns")),
    *(("datetime", pa.timestamp(unit), [MOMENT.replace(microsecond=0), None]) for unit in ("s", "ms", "us", "ns")),
    ("datetime", pa.timestamp("us"), [MOMENT, datetime.datetime(1601, 1, 1), None]),
    ("datetime", pa.timestamp("ns", "Europe/Berlin"), [MOMENT.astimezone(datetime.UTC), None]),
    ("datetime", pa.string(), ["2020-02-29T13:30:15.000250", None]),
    ("datetime", pa.date32(), [DAY, None]),
    ("date", pa.null(), [None, None]),
    ("integer", pa.null(), [None, None]),
]


@pytest.mark.parametrize(("name", "kind", "values"), ROUND_TRIPS, ids=lambda part: str(part))
def test_values_within_the_schema_come_back(name: str, kind: pa.DataType, values: list[Any]) -> None:
    schema = fitted(name, kind)
    assert schema is not None
    if pa.types.is_floating(kind):
        array = pa.array(values, pa.float64()).cast(kind)
    elif pa.types.is_dictionary(kind):
        array = pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    else:
        array = pa.array(values, kind)
    table = pa.table({"x": array})
    decoded = codec.decode(codec.encode(table, schema), schema, table.schema)
    assert decoded.column("x").to_pylist() == array.to_pylist()
    assert decoded.schema.equals(table.schema)


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.uint8(), pa.int64(), pa.uint64(), pa.decimal128(5, 2), pa.float32(), pa.float16()]
)
def test_a_schema_wider_than_the_type_is_cut_to_it(kind: pa.DataType) -> None:
    schema = fitted("wide real", kind)
    assert schema is not None
    layout = pa.schema([("x", kind)])
    low, high = codec.decode({"x": np.array([-1e300, 1e300])}, schema, layout).column("x").to_pylist()
    assert low <= 0 < high
    if pa.types.is_integer(kind):
        limits = np.iinfo(kind.to_pandas_dtype())
        assert (low, high) == (limits.min, pytest.approx(float(limits.max)))
    elif pa.types.is_decimal(kind):
        assert (low, high) == (decimal.Decimal("-999.99"), decimal.Decimal("999.99"))
    else:
        assert -low == high == float(np.finfo(kind.to_pandas_dtype()).max)


def test_reals_of_an_integer_type_are_rounded_not_cut() -> None:
    schema = fitted("wide real", pa.int16())
    assert schema is not None
    decoded = codec.decode({"x": np.array([1.9, -1.9, np.nan])}, schema, pa.schema([("x", pa.int16())]))
    assert decoded.column("x").to_pylist() == [2, -2, None]


def test_values_outside_are_clipped_other_or_missing() -> None:
    table = pa.table(
        {"n": ["5", "-9", "1e9", "many", None], "c": ["a", "z", None, "A", "a "], "o": ["a", "z", None, "A", "a "]}
    )
    schema = Schema.of(
        {
            "n": {"kind": "integer", "lower": 0, "upper": 10},
            "c": {"kind": "categorical", "categories": ["a"]},
            "o": {"kind": "categorical", "categories": ["a"], "open_ended": True},
        }
    )
    chunk = codec.encode(table, codec.fit(schema, table.schema))
    np.testing.assert_array_equal(chunk["n"], [5, 0, 10, np.nan, np.nan])
    assert chunk["c"].tolist() == [0, -1, -1, -1, -1]
    assert chunk["o"].tolist() == [0, 1, -1, 1, 1]
    assert codec.decode(chunk, schema, table.schema).column("o").to_pylist() == ["a", OTHER, None, OTHER, OTHER]


def test_special_values_are_kept_though_outside_the_bounds() -> None:
    column = Column(name="x", kind=Kind.REAL, lower=1.0, upper=10.0, special=(0.0, 999.0))
    encoded = codec.encode_column(pa.array([0.0, 0.5, 999.0, 998.0]), column)
    assert encoded.tolist() == [0.0, 1.0, 999.0, 10.0]


@pytest.mark.parametrize("listed", [["1", "2"], ["1.0", "2.0"], ["1.00", "2"]])
def test_categories_of_a_float_column_may_be_written_either_way(listed: list[str]) -> None:
    column = Column(name="x", kind=Kind.CATEGORICAL, categories=tuple(listed))
    assert codec.encode_column(pa.array([1.0, 2.0, None, 1.5]), column).tolist() == [0, 1, -1, -1]


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("true", 1),
        (" TRUE ", 1),
        ("Yes", 1),
        ("1", 1),
        ("f", 0),
        ("0.0", 0),
        ("NO", 0),
        ("maybe", -1),
        ("", -1),
        (None, -1),
    ],
)
def test_booleans_in_text(text: str | None, truth: int) -> None:
    column = Column(name="x", kind=Kind.BOOLEAN)
    assert codec.encode_column(pa.array([text], pa.string()), column).tolist() == [truth]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *((text, 5) for text in ("5", " 5 ", "+5", "5.", "5e0", "0.5E1")),
        *((text, math.nan) for text in ("0x10", "1_0", "five", "", "１", "5 5", "nan", "--5")),
        ("-.5", -0.5),
        ("1e999", 1e6),
    ],
)
def test_numbers_in_text(text: str, number: float) -> None:
    column = Column(name="x", kind=Kind.REAL, lower=-1e6, upper=1e6)
    np.testing.assert_array_equal(codec.encode_column(pa.array([text]), column), [number])


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC", "+05:30"])
def test_moments_count_in_utc(zone: str) -> None:
    column = Column(name="x", kind=Kind.DATETIME, lower=-1e15, upper=1e15)
    assert codec.encode_column(pa.array([1], pa.timestamp("ms", zone)), column).tolist() == [1000.0]


def test_dates_before_1970_are_not_rounded_to_the_next_day() -> None:
    column = Column(name="x", kind=Kind.DATE, lower=-10, upper=10)
    assert codec.encode_column(pa.array([-1, 0], pa.timestamp("s")), column).tolist() == [-1.0, 0.0]


def test_chunked_and_dictionary_columns_encode_as_plain_ones() -> None:
    column = Column(name="x", kind=Kind.CATEGORICAL, categories=("a", "b"))
    plain = pa.array(["b", None, "a"])
    for values in (plain, plain.dictionary_encode(), pa.chunked_array([plain[:1], plain[1:]])):
        assert codec.encode_column(values, column).tolist() == [1, -1, 0]


def test_a_dictionary_lists_the_schemas_categories_in_their_order() -> None:
    kind = pa.dictionary(pa.int8(), pa.string(), ordered=True)
    schema = one_column({"kind": "ordinal", "categories": ["low", "middle", "high"]})
    decoded = codec.decode({"x": np.array([2, -1, 0])}, schema, pa.schema([("x", kind)])).column("x")
    assert decoded.dictionary.to_pylist() == ["low", "middle", "high"]
    assert decoded.type == kind
    assert decoded.to_pylist() == ["high", None, "low"]


def test_surrogate_ids_go_on_from_chunk_to_chunk_and_hold_nothing_of_the_rows() -> None:
    schema = one_column(COLUMNS["id"])
    for kind, expected in (
        (pa.string(), ["synthetic-8", "synthetic-9"]),
        (pa.dictionary(pa.int32(), pa.string()), ["synthetic-8", "synthetic-9"]),
        (pa.int64(), [8, 9]),
        (pa.float32(), [8.0, 9.0]),
        (pa.decimal128(9, 2), [decimal.Decimal("8.00"), decimal.Decimal("9.00")]),
        (pa.date32(), [datetime.date(1970, 1, 9), datetime.date(1970, 1, 10)]),
        (pa.null(), [None, None]),
    ):
        decoded = codec.decode({"other": np.zeros(2)}, schema, pa.schema([("x", kind)]), first_row=7)
        assert decoded.column("x").to_pylist() == expected


def test_fit_puts_columns_in_the_tables_order_and_keeps_the_rest() -> None:
    schema = Schema.of({"a": {"kind": "boolean"}, "b": {"kind": "id"}}, target="a")
    fit = codec.fit(schema, pa.schema([("b", pa.string()), ("a", pa.bool_())]))
    assert [column.name for column in fit.columns] == ["b", "a"]
    assert (fit.target, fit.confirmed, fit.origin) == (schema.target, schema.confirmed, schema.origin)


def test_a_type_that_cannot_be_missing_makes_the_column_never_missing_nor_other() -> None:
    fields = {"kind": "categorical", "categories": ["1", "2"], "open_ended": True, "nullable": True}
    number = codec.fit(one_column(fields), pa.schema([pa.field("x", pa.int64(), nullable=False)]))["x"]
    assert (number.nullable, number.open_ended) == (False, False)
    text = codec.fit(one_column(fields), pa.schema([pa.field("x", pa.string(), nullable=False)]))["x"]
    assert (text.nullable, text.open_ended) == (False, True)


@pytest.mark.parametrize(
    ("fields", "kind", "message"),
    [
        (
            {"kind": "integer", "lower": 0, "upper": 1},
            pa.date32(),
            "schema says integer, but the data's type is date32[day]",
        ),
        ({"kind": "date", "lower": "2020-01-01", "upper": "2021-01-01"}, pa.int64(), "schema says date, but"),
        ({"kind": "real", "lower": 0, "upper": 1}, pa.dictionary(pa.int8(), pa.string()), "schema says real, but"),
        ({"kind": "boolean"}, pa.timestamp("s"), "schema says boolean, but"),
        ({"kind": "categorical", "categories": ["1", "x"]}, pa.int64(), "category (x) cannot be written as int64"),
        ({"kind": "categorical", "categories": ["2020-13-01"]}, pa.date32(), "category (2020-13-01) cannot be written"),
        ({"kind": "categorical", "categories": ["1", "1.0"]}, pa.float64(), "two categories are one value"),
        ({"kind": "categorical", "categories": ["1", "nan"]}, pa.float64(), "two categories are one value, or one is"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused(fields: dict[str, Any], kind: pa.DataType, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        codec.fit(one_column(fields), pa.schema([("x", kind)]))
    assert str(caught.value).startswith(f"column x: {message}")
    assert str(caught.value).endswith("correct the schema")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("names", "message"), [(["x", "z"], "column z: the schema has not"), ([], "column x: the data has not")]
)
def test_columns_must_be_the_same_on_both_sides(names: list[str], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        codec.fit(one_column({"kind": "boolean"}), pa.schema([(name, pa.bool_()) for name in names]))


def test_kinds_of_types() -> None:
    found = {str(kind): kind_of(pa.field("x", kind)) for kind in (*PLAIN, *DICTIONARIES)}
    assert found["int8"] is Kind.INTEGER
    assert found["double"] is found["decimal128(20, 2)"] is Kind.REAL
    assert found["date32[day]"] is found["date64[ms]"] is Kind.DATE
    assert found["timestamp[ns, tz=Europe/Berlin]"] is Kind.DATETIME
    assert found["bool"] is Kind.BOOLEAN
    assert all(found[str(kind)] is Kind.CATEGORICAL for kind in (*TEXTS, *DICTIONARIES, pa.null()))


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.list_(pa.int8()), pa.duration("s"), pa.dictionary(pa.int8(), pa.binary())]
)
def test_other_types_are_refused(kind: pa.DataType) -> None:
    with pytest.raises(InputError, match=r"^column x has type .*, which is not supported; convert it, or drop it: "):
        kind_of(pa.field("x", kind))
