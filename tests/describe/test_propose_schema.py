"""A draft describes the rows it was made from, says so of every line, and is not taken for public."""

import datetime
import math
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import threea
from threea import hospital
from threea.anonymize.open_table import open_table
from threea.budget import Budget
from threea.describe import seen_column as module
from threea.describe.propose_schema import HEADER, propose_schema, to_toml
from threea.errors import InputError, SchemaError, SettingError
from threea.table import codec
from threea.table.dialect import Dialect
from threea.table.schema import Column, Kind, Schema
from threea.table.supported import kind_of


def drafted(values: Any, kind: pa.DataType | None = None) -> tuple[Column, str]:
    """Return the draft of one column, and its note."""
    array = values if isinstance(values, pa.Array) else pa.array(values, kind)
    schema, notes = propose_schema(pa.table({"x": array, "y": pa.nulls(len(array), pa.bool_())}))
    return schema["x"], notes["x"]


def test_a_draft_is_refused_until_its_owner_confirms_it() -> None:
    stays = hospital.stays(300)
    schema, _ = propose_schema(stays, target="died")
    assert (schema.confirmed, schema.target) == (False, "died")
    with pytest.raises(SchemaError, match="the schema is not confirmed as public"):
        threea.synthesize(stays, schema=schema, epsilon=1.0)
    assert threea.synthesize(stays, schema=schema.confirm(), epsilon=1.0, rows=5).frame.num_rows == 5


def test_the_file_warns_in_its_first_lines_and_can_be_read_again() -> None:
    schema, notes = propose_schema(hospital.stays(300), target="died")
    text = to_toml(schema, notes)
    assert text.startswith(HEADER)
    assert "draft" in HEADER.lower()
    assert "values read from the private rows: keep it private until it is confirmed" in HEADER
    assert all(line.startswith("#") for line in HEADER.splitlines())
    assert Schema.from_toml(text) == schema
    assert tomllib.loads(text)["confirmed"] is False


def test_every_column_has_a_note_of_one_or_two_lines() -> None:
    schema, notes = propose_schema(hospital.stays(300))
    assert list(notes) == [column.name for column in schema.columns]
    assert all(1 <= len(note.splitlines()) <= 2 for note in notes.values())
    assert "120 for an age" in notes["age"]
    assert "code list" in notes["ward"]
    assert "open_ended = true" in notes["ward"]
    assert "years" in notes["admitted"]


def test_notes_name_no_value_from_the_rows() -> None:
    canary = "canary7391"
    table = pa.table({"text": [canary, "b"], "number": [739173.25, 1.0], "flag": [True, False]})
    _, notes = propose_schema(table)
    assert all(canary not in note and "7391" not in note and "740000" not in note for note in notes.values())


def test_columns_keep_the_tables_order_and_kinds() -> None:
    stays = hospital.stays(500)
    schema, _ = propose_schema(stays)
    assert [column.name for column in schema.columns] == stays.schema.names
    declared = {field.name: kind_of(field) for field in stays.schema}
    # Named as ids are: what it holds is not to be listed.
    assert {column.name: column.kind for column in schema.columns} == declared | {"patient_id": Kind.ID}


@pytest.mark.parametrize(
    ("values", "kind", "bounds"),
    [
        ([18, 117], pa.int64(), (18, 120)),
        ([-117, 1234], pa.int32(), (-120, 1300)),
        ([0, 1, 255], pa.uint8(), (0, 260)),
        ([-128, 127], pa.int8(), (-130, 130)),
        ([7, 7], pa.int16(), (7, 7)),
        ([0, 0], pa.int16(), (0, 0)),
        ([0.0129, 0.98765], pa.float64(), (0.012, 0.99)),
        ([-0.0129, 5.01], pa.float64(), (-0.013, 5.1)),
        ([2.5, 2.5], pa.float64(), (2.5, 2.6)),
        ([0.0, 0.0], pa.float64(), (0.0, None)),
        ([-2.5, -2.5], pa.float64(), (-2.5, -2.4)),
        ([1.0, math.inf, -math.inf, math.nan], pa.float64(), (1.0, 1.1)),
        ([None, None], pa.int64(), (0, 1)),
        ([None, None], pa.float64(), (0, 1)),
    ],
)
def test_bounds_are_rounded_outwards_to_two_digits(
    values: list[Any], kind: pa.DataType, bounds: tuple[Any, Any]
) -> None:
    column, note = drafted(values, kind)
    assert column.lower == bounds[0]
    assert bounds[1] is None or column.upper == bounds[1]
    assert column.lower is not None
    assert column.upper is not None
    assert column.lower < column.upper or column.whole
    assert "rounded outwards to two digits" in note


@settings(deadline=None)
@given(st.lists(st.floats(-1e20, 1e20), min_size=1, max_size=20))
def test_a_draft_holds_all_the_numbers_it_was_made_from(values: list[float]) -> None:
    column, _ = drafted(values, pa.float64())
    assert codec.encode_column(pa.array(values), column).tolist() == values


@settings(deadline=None)
@given(st.lists(st.one_of(st.none(), st.datetimes()), min_size=1, max_size=20))
def test_a_draft_holds_all_the_moments_it_was_made_from(values: list[datetime.datetime | None]) -> None:
    for kind in (pa.timestamp("us"), pa.date32()):
        array = pa.array(values, pa.timestamp("us")).cast(kind, safe=False)
        column, _ = drafted(array)
        inside = codec.encode_column(array, column)
        beyond = Column(name="x", kind=column.kind, lower=-1e18, upper=1e18)
        if datetime.datetime(9999, 12, 31) > max((v for v in values if v is not None), default=datetime.datetime.min):
            np.testing.assert_array_equal(inside, codec.encode_column(array, beyond))


@pytest.mark.parametrize(
    ("values", "log", "special"),
    [
        ([1.0, 999.0], False, ()),
        ([1.0, 1001.0], True, ()),
        ([-1.0, 1001.0], False, ()),
        ([0.001, 5.0], True, ()),
        ([1, 5000], True, ()),
        ([0.0, 0.001, 5.0], True, (0.0,)),
        ([0.0, 2.0, 3.0], False, (0.0,)),
        ([0.0] + [2.0] * 30, False, ()),
        ([0, 1, 2, 3], False, ()),
        ([0, 5, 6, 7], False, (0.0,)),
        ([0, 1, 5000], True, (0.0,)),
        ([-5.0, 0.0, 5.0], False, (0.0,)),
    ],
)
def test_log_scales_and_spikes_at_zero(values: list[float], log: bool, special: tuple[float, ...]) -> None:
    column, note = drafted(values)
    assert (column.log, column.special) == (log, special)
    assert ("Keep special" in note) == bool(log or special)
    assert codec.encode_column(pa.array(values), column).tolist() == values


def test_integers_of_few_values_stay_integers() -> None:
    column, _ = drafted([1, 2, 3] * 50)
    assert (column.kind, column.lower, column.upper) == (Kind.INTEGER, 1, 3)


def test_few_texts_are_all_listed_the_rarest_too() -> None:
    column, note = drafted(["b"] * 99 + ["a", None])
    assert (column.kind, column.categories, column.open_ended) == (Kind.CATEGORICAL, ("a", "b"), False)
    assert "the rarest included" in note


def test_a_thousand_texts_are_listed_and_more_are_not() -> None:
    thousand = [f"w{number:04}" for number in range(1000)] * 2
    column, _ = drafted(thousand)
    assert (len(column.categories), column.open_ended) == (1000, False)
    column, note = drafted([*thousand, "one", *["more"] * 3])
    assert (len(column.categories), column.open_ended) == (1000, True)
    assert "more" in column.categories
    assert "one" not in column.categories
    assert "1000 most frequent" in note


def test_texts_that_nearly_all_differ_are_ids() -> None:
    column, note = drafted([f"p{number}" for number in range(1200)])
    assert (column.kind, column.categories, column.open_ended) == (Kind.ID, (), False)
    assert "looks like an id" in note
    column, _ = drafted([f"p{number // 2}" for number in range(4000)])
    assert column.kind is Kind.CATEGORICAL
    column, _ = drafted([f"p{number}" for number in range(900)])
    assert (column.kind, len(column.categories)) == (Kind.CATEGORICAL, 900)


def test_a_target_is_never_an_id() -> None:
    table = pa.table({"x": [f"p{number}" for number in range(1200)], "y": pa.nulls(1200, pa.bool_())})
    column = propose_schema(table, target="x")[0]["x"]
    assert (column.kind, len(column.categories), column.open_ended) == (Kind.CATEGORICAL, 1000, True)


def test_counting_of_texts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_COUNTED", 2000)
    often = pa.array(["often", "more often", "more often"] * 70_000)
    rare = pa.array([f"p{number}" for number in range(70_000)])
    column, _ = drafted(pa.concat_arrays([often, rare]))
    assert (column.kind, column.open_ended) == (Kind.CATEGORICAL, True)
    assert {"often", "more often"} <= set(column.categories)
    column, _ = drafted(pa.concat_arrays([rare, often]))
    assert column.kind is Kind.ID, "what was counted until the limit nearly all differs"


def test_missing_values_make_a_column_nullable_and_nothing_else_does() -> None:
    for values in (
        ["a", "b"],
        [1, 2],
        [1.5, 2.5],
        [True, False],
        [datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)],
    ):
        assert not drafted(values)[0].nullable
        assert drafted([*values, None])[0].nullable
    assert drafted([1.5, math.nan])[0].nullable


def test_dates_are_rounded_outwards_to_whole_years() -> None:
    days = pa.array([datetime.date(2020, 3, 5), datetime.date(2021, 7, 1)])
    moments = days.cast(pa.timestamp("ms", "Europe/Berlin"))
    schema, notes = propose_schema(pa.table({"day": days, "moment": moments}))
    text = tomllib.loads(schema.to_toml())["column"]
    assert (text["day"]["lower"], text["day"]["upper"]) == ("2020-01-01", "2022-01-01")
    assert (text["moment"]["lower"], text["moment"]["upper"]) == ("2020-01-01T00:00:00", "2022-01-01T00:00:00")
    assert "rounded outwards to whole years" in notes["day"]


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us")])
def test_dates_at_the_ends_of_time_and_none_at_all(kind: pa.DataType) -> None:
    ends = pa.array([datetime.datetime.min, datetime.datetime.max], pa.timestamp("us")).cast(kind, safe=False)
    schema = Schema((drafted(ends)[0],))
    assert Schema.from_toml(schema.to_toml()) == schema
    column, _ = drafted(pa.nulls(3, kind))
    assert column.nullable
    assert column.lower is not None
    assert column.upper is not None
    assert column.lower < column.upper


def test_booleans_and_columns_of_nothing() -> None:
    assert drafted([True, None])[1] == "Nothing but whether values are missing was read from the rows."
    column, _ = drafted(pa.nulls(3))
    assert (column.kind, column.categories, column.open_ended, column.nullable) == (Kind.CATEGORICAL, (), True, True)


def test_a_dictionary_is_read_by_its_values() -> None:
    column, _ = drafted(pa.array(["b", "a", None, "b"]).dictionary_encode())
    assert column.categories == ("a", "b")
    unused = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(["a", "nobody has this"]))
    assert drafted(unused)[0].categories == ("a",)


def test_a_file_gives_the_same_draft_as_a_table(tmp_path: Path) -> None:
    # A float32 in text is another number once read as float64, so creatinine is left out.
    stays = hospital.stays(2000).drop_columns(["patient_id", "creatinine"])
    pq.write_table(stays, tmp_path / "stays.parquet", row_group_size=300)
    assert propose_schema(tmp_path / "stays.parquet", "died") == propose_schema(stays, "died")
    pyarrow.csv.write_csv(stays, tmp_path / "stays.csv")
    drafted, notes = propose_schema(tmp_path / "stays.csv", "died")
    assert drafted.reading == Dialect(separator=",", encoding="utf-8")
    assert (replace(drafted, reading=None), notes) == propose_schema(stays, "died")


def as_target(values: Any, kind: pa.DataType | None = None) -> tuple[Column, str]:
    """Return the draft of a target, and its note."""
    array = pa.array(values, kind)
    schema, notes = propose_schema(pa.table({"x": array, "y": pa.nulls(len(array), pa.bool_())}), target="x")
    return schema["x"], notes["x"]


@pytest.mark.parametrize(
    ("values", "categories"),
    [
        ([0, 1, 1, 0], ("0", "1")),
        ([0, 1, None], ("0", "1")),
        ([-1, 1] * 50, ("-1", "1")),
        ([1, 2, 3, 10] * 10, ("1", "2", "3", "10")),
        ([0.0, 1.0, 1.0], ("0", "1")),
        (list(range(20)) * 10, tuple(str(number) for number in range(20))),
    ],
)
def test_a_target_of_few_whole_numbers_is_a_class(values: list[Any], categories: tuple[str, ...]) -> None:
    column, note = as_target(values)
    assert (column.kind, column.categories, column.open_ended) == (Kind.CATEGORICAL, categories, False)
    assert column.nullable == (None in values)
    assert "taken for a class" in note
    assert 'kind = "integer"' in note
    codes = codec.encode_column(pa.array(values), column)
    assert (codes >= 0).tolist() == [value is not None for value in values]


@pytest.mark.parametrize(
    "values", [list(range(21)) * 20, [1, 2, 3], [0.5, 1.0] * 50, [7] * 50, [1, 2, 3] * 9, [None, None]]
)
def test_other_targets_of_numbers_stay_numbers(values: list[Any]) -> None:
    assert as_target(values, pa.float64() if 0.5 in values else pa.int64())[0].kind in (Kind.INTEGER, Kind.REAL)


@pytest.mark.parametrize("text", ["0,1", "0.0,1.0"])
def test_a_class_of_a_csv_file_is_spelt_as_in_the_file(tmp_path: Path, text: str) -> None:
    words = text.split(",")
    (tmp_path / "rows.csv").write_text("x,y\n" + "".join(f"{words[row % 2]},{row}\n" for row in range(40)))
    schema, _ = propose_schema(tmp_path / "rows.csv", "x")
    assert schema["x"].categories == tuple(words)
    release = threea.synthesize(tmp_path / "rows.csv", schema=schema.confirm(), epsilon=50.0, rows=20)
    assert set(release.frame["x"].to_pylist()) <= {*words}


def numbered(values: Any, name: str = "x") -> Kind:
    array = pa.array(values)
    return propose_schema(pa.table({name: array, "y": pa.nulls(len(array), pa.bool_())}))[0][name].kind


def test_whole_numbers_that_nearly_all_differ_are_ids() -> None:
    rng = np.random.default_rng(0)
    assert numbered(np.arange(5000, 5100)) is Kind.ID
    assert numbered(rng.permutation(10**6)[:500]) is Kind.ID
    assert numbered([*range(199), 198]) is Kind.ID
    amounts = np.round(rng.lognormal(10, 1, 500)).astype(int)
    assert len(set(amounts)) > 0.99 * len(amounts)
    assert numbered(amounts) is Kind.INTEGER, "amounts are not spread evenly"
    for name in ("patient_id", "ID", "patientId", "stay-id"):
        assert numbered(amounts, name) is Kind.ID
    assert numbered(amounts, "paid") is Kind.INTEGER
    assert numbered(np.arange(99)) is Kind.INTEGER, "too few rows to tell"
    assert numbered([*range(198), 1, 1]) is Kind.ID
    assert numbered([*range(190), *[1] * 10]) is Kind.INTEGER
    assert numbered([*range(199), None]) is Kind.INTEGER, "an id is never missing"
    assert numbered(np.arange(200) + 0.5) is Kind.REAL
    _, notes = propose_schema(pa.table({"x": range(200), "y": [0.5] * 200}))
    assert "looks like an id" in notes["x"]
    assert 'kind = "integer"' in notes["x"]
    assert propose_schema(pa.table({"x": range(200), "y": [0.5] * 200}), target="x")[0]["x"].kind is Kind.INTEGER


def test_numbers_of_persons_with_several_rows_are_ids_by_their_name_and_codes_are_not() -> None:
    persons = np.random.default_rng(0).integers(10**6, 10**7, 200)[np.arange(500) % 200]
    for name in ("patient_id", "patient_nbr", "MRN"):
        assert numbered(persons, name) is Kind.ID
    assert numbered(persons, "weight") is Kind.INTEGER
    assert numbered(np.arange(500) % 8, "admission_type_id") is Kind.INTEGER
    texts = [f"P{person}" for person in persons]
    assert numbered(texts, "patient_id") is Kind.ID
    assert numbered(texts, "ward") is Kind.CATEGORICAL
    assert numbered([f"type {row % 8}" for row in range(500)], "type_id") is Kind.CATEGORICAL
    for values in (persons, texts):
        _, notes = propose_schema(pa.table({"patient_id": values, "y": [0.5] * 500}))
        assert "--unit" in notes["patient_id"]
        assert len(notes["patient_id"].splitlines()) <= 2


@pytest.mark.parametrize(
    "values", [[1, 1, 2] * 40, [datetime.date(2020, 1, 1)] * 3, ["a", "b", "b"], [True, False, True]]
)
def test_the_unit_is_an_id_whatever_it_holds(values: list[Any]) -> None:
    table = pa.table({"who": values, "x": [1.5] * len(values), "y": [True, False, True] * (len(values) // 3)})
    schema, notes = propose_schema(table, target="y", unit="who")
    assert schema["who"] == Column(name="who", kind=Kind.ID)
    assert "never read" in notes["who"]
    assert "who" not in schema.untouched
    with pytest.raises(SettingError, match=r"^unit \(whom\) is not a column; columns are: who, x, y$"):
        propose_schema(table, unit="whom")


def test_whole_numbers_can_be_the_unit_without_editing() -> None:
    rows = 400
    table = pa.table({"who": [row // 2 for row in range(rows)], "x": range(rows), "y": [0, 1] * (rows // 2)})
    schema, _ = propose_schema(table, target="y", unit="who")
    release = threea.synthesize(table, schema=schema.confirm(), unit="who", max_rows_per_unit=2, epsilon=5.0, rows=9)
    assert release.frame.schema.equals(table.schema)


@pytest.mark.parametrize(
    ("values", "special", "bounds"),
    [
        ([*range(18, 90)] * 3 + [999] * 9, (999,), (18, 89)),
        ([*range(18, 90)] * 3 + [888] * 9 + [999] * 9, (888, 999), (18, 89)),
        ([*range(18, 90)] * 3 + [-1] * 9, (-1,), (18, 89)),
        ([*range(0, 90)] * 3 + [-1] * 9, (-1,), (0, 89)),
        ([*range(18, 90)] * 3 + [-999] * 9, (-999,), (18, 89)),
        ([*range(18, 90)] * 3 + [999], (), (18, 1000)),
        ([*range(18, 90)] * 3 + [100] * 9, (), (18, 100)),
        ([*range(0, 5)] * 30 + [-1] * 9, (), (-1, 4)),
        ([x / 10 for x in range(5, 90)] * 3 + [9999.0] * 9, (9999,), (0.5, 8.9)),
        ([-2, -1, 0, 30, 31] * 10, (), (-2, 31)),
        ([*range(0, 121)] * 3 + [-99] * 9, (-99,), (0, 120)),
        ([*range(0, 800)] + [999] * 9, (999,), (0, 800)),
        ([*range(0, 800)] + [900] * 9, (), (0, 900)),
    ],
)
def test_codes_that_stand_apart_are_special(
    values: list[float], special: tuple[float, ...], bounds: tuple[float, float]
) -> None:
    column, note = drafted(values)
    assert (column.special, column.lower, column.upper) == (special, *bounds)
    assert ("Keep special" in note) == bool(special)
    assert codec.encode_column(pa.array(values), column).tolist() == values


def test_sections_are_untouched_until_they_are_edited() -> None:
    schema, notes = propose_schema(hospital.stays(300), target="died", unit="patient_id")
    names = tuple(column.name for column in schema.columns if column.name != "patient_id")
    assert schema.untouched == schema.confirm().untouched == names
    text = to_toml(schema, notes)
    assert text.count("\nas_read = ") == len(names)
    assert Schema.from_toml(text).untouched == names
    table = open_table(hospital.stays(300), schema=schema.confirm(), budget=Budget(1.0))
    assert table.schema.untouched == names, "fitting a schema to its table edits nothing"
    edited = tomllib.loads(text)
    edited["column"]["age"]["lower"] = -5
    del edited["column"]["ward"]["as_read"]
    again = Schema.of(edited["column"], target="died")
    assert again.untouched == tuple(name for name in names if name not in ("age", "ward"))
    assert Schema.of({"age": {"kind": "integer", "lower": 0, "upper": 9, "as_read": ""}}).untouched == ()
    with pytest.raises(SchemaError, match=r"^column age: as_read \(1\) must be a str$"):
        Schema.of({"age": {"kind": "integer", "lower": 0, "upper": 9, "as_read": 1}})


def test_marks_do_not_leave_with_a_release(tmp_path: Path) -> None:
    stays = hospital.stays(300)
    schema, _ = propose_schema(stays, target="died")
    assert "as_read" not in schema.to_toml()
    threea.synthesize(stays, schema=schema.confirm(), epsilon=1.0, rows=5).save(tmp_path / "out")
    assert "as_read" not in (tmp_path / "out" / "schema.toml").read_text()
    assert Schema.load(tmp_path / "out" / "schema.toml").untouched == ()


def test_a_target_that_is_no_column_is_refused() -> None:
    with pytest.raises(SettingError) as caught:
        propose_schema(pa.table({"a": [1], "b": [2]}), target="c")
    assert str(caught.value) == "target (c) is not a column; columns are: a, b"


def test_no_rows_are_refused() -> None:
    with pytest.raises(InputError, match=r"^the table has no rows; there is nothing to describe$"):
        propose_schema(pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.string())}))


def test_a_type_that_no_schema_describes_is_refused() -> None:
    with pytest.raises(InputError, match="which is not supported"):
        propose_schema(pa.table({"a": [[1]], "b": [1]}))


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ([x / 100 for x in range(1, 500, 7)], 0.01),
        ([x / 20 for x in range(1, 50)], 0.05),
        ([x * 10_000 for x in range(1, 50)], 10_000),
        ([x * 5 for x in range(1, 50)], 5),
        ([*range(1, 50)], 0),
        ([math.sqrt(x) for x in range(2, 50)], 0),
    ],
)
def test_the_step_of_numbers_is_proposed(values: list[float], step: float) -> None:
    column, note = drafted(values)
    assert column.step == step
    assert ("step" in note) == bool(step)
    assert Column(**{**vars_of(column), "as_read": ""}) == column


def vars_of(column: Column) -> dict[str, Any]:
    return {name: getattr(column, name) for name in column.__dataclass_fields__}


def test_spikes_are_special_where_numbers_are_too_many_to_count_one_by_one() -> None:
    spread = np.random.default_rng(0).normal(50, 10, 2000)
    assert drafted(np.append(spread, [62.5] * 100))[0].special == (62.5,)
    assert drafted(np.append(spread, [62.5] * 10))[0].special == ()
    rates = [0.5, 0.75, 1.25, 1.9, 4.99]
    assert drafted(rates * 60)[0].special == tuple(rates), "few enough to tell all of them"
    assert drafted([1, 2, 40, 41] * 500)[0].special == (), "whole numbers have bins of their own"
