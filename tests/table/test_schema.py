"""The schema: what it refuses, and that TOML says the same as the value it was written from."""

import dataclasses
import datetime
import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import threea
from threea import hospital
from threea.errors import SchemaError
from threea.ledger import Ledger
from threea.table import dates
from threea.table.cells import Bins, Categories
from threea.table.from_types import widest
from threea.table.schema import Column, Kind, Origin, Schema

names = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["", "a.b", 'say "hi"', "two\nlines", "tab\there", "back\\slash", "größe", "名前", "\x00", "'"]),
    st.sampled_from(["#", "[x]", "\U0001f600", "\x7f", "\u2028"]),
)
finite = st.floats(allow_nan=False, allow_infinity=False, width=32).map(float)
whole = st.integers(-(2**53), 2**53)
days = st.dates().map(lambda day: dates.from_text(day.isoformat(), "date", "x"))
moments = st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1)).map(
    lambda moment: dates.from_text(moment.isoformat(), "datetime", "x")
)


@st.composite
def columns(draw: st.DrawFn, name: str) -> Column:
    """Draw any column that a schema admits."""
    kind = draw(st.sampled_from([kind for kind in Kind if kind is not Kind.UNDECLARED]))
    nullable = draw(st.booleans())
    if kind in (Kind.BOOLEAN, Kind.ID):
        return Column(name=name, kind=kind, nullable=nullable)
    if kind.listed:
        categories = tuple(draw(st.lists(names, unique=True, max_size=5)))
        open_ended = not categories or draw(st.booleans())
        return Column(name=name, kind=kind, categories=categories, open_ended=open_ended, nullable=nullable)
    values = {Kind.INTEGER: whole.map(float), Kind.REAL: finite, Kind.DATE: days, Kind.DATETIME: moments}[kind]
    lower, upper = sorted(draw(st.lists(values, min_size=2, max_size=2, unique=True)))
    edges = draw(st.sampled_from([(), (lower, upper)]))
    log = lower > 0 and draw(st.booleans())
    special = tuple(draw(st.lists(values, max_size=2, unique=True)))
    return Column(
        name=name, kind=kind, lower=lower, upper=upper, nullable=nullable, special=special, log=log, edges=edges
    )


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """Draw any schema."""
    found = [draw(columns(name)) for name in draw(st.lists(names, min_size=1, max_size=4, unique=True))]
    targets = [column.name for column in found if column.kind is not Kind.ID]
    return Schema(
        tuple(found),
        target=draw(st.sampled_from([None, *targets])),
        confirmed=draw(st.booleans()),
        origin=draw(st.sampled_from([Origin.OWNER, Origin.RELEASED])),
    )


@given(schemas())
def test_toml_says_what_the_schema_says(schema: Schema) -> None:
    assert Schema.from_toml(schema.to_toml()) == schema


@given(schema=schemas(), note=st.text(st.characters(min_codepoint=32, exclude_characters="\x7f"), max_size=40))
def test_notes_are_comments(schema: Schema, note: str) -> None:
    text = schema.to_toml({column.name: f"{note}\nand more" for column in schema.columns})
    assert Schema.from_toml(text) == schema
    assert text.count("# and more") >= len(schema.columns)


def test_toml_holds_no_defaults_nobody_needs() -> None:
    schema = Schema.of({"age": {"kind": "integer", "lower": 0, "upper": 120}})
    assert tomllib.loads(schema.to_toml()) == {
        "confirmed": True,
        "column": {"age": {"kind": "integer", "lower": 0, "upper": 120, "nullable": True}},
    }


def test_numbers_from_numpy_are_written_as_numbers() -> None:
    column = Column(name="x", kind=Kind.REAL, lower=np.float64(0.5), upper=np.float64(2.0), special=(np.float64(9.0),))
    schema = Schema((column,))
    assert Schema.from_toml(schema.to_toml()) == schema


def test_a_discovered_schema_can_be_read_again() -> None:
    release = threea.synthesize(hospital.stays(2000), target="died", unit="patient_id", epsilon=50.0, rows=10)
    assert release.schema.origin is Origin.DISCOVERED
    read = Schema.from_toml(release.schema_text("ab12"))
    assert read.columns == release.schema.columns
    assert (read.origin, read.source) == (Origin.RELEASED, "ab12")


def test_only_discovery_calls_a_schema_discovered() -> None:
    """A file's word for it is not believed: whoever paid for it, it was not the release at hand."""
    discovered = Schema.from_toml("confirmed = true\norigin = 'discovered'\n" + AGE)
    assert discovered.provenance == "taken from release unnamed, whose epsilon is not in this certificate"
    named = Schema.from_toml("confirmed = true\norigin = 'discovered'\nrelease = 'ab12'\n" + AGE)
    assert named.provenance.startswith("taken from release ab12, ")
    again = Schema.from_toml(named.to_toml(release="ffff"))
    assert again == named, "the release that found it, not the last one that used it"


def test_the_certificate_says_that_another_release_paid(tmp_path: Path) -> None:
    stays = hospital.stays(1000).select(["age", "ward", "died"])
    threea.synthesize(stays, target="died", epsilon=50.0, rows=10).save(tmp_path / "first")
    first = json.loads((tmp_path / "first" / "certificate.json").read_text())
    assert first["schema_origin"] == "discovered"
    taken = Schema.load(tmp_path / "first" / "schema.toml")
    release = threea.synthesize(stays, schema=taken, epsilon=50.0, rows=10)
    said = f"taken from release {first['synthetic_sha256']}, whose epsilon is not in this certificate"
    assert release.certificate().schema_origin == said
    release.save(tmp_path / "second")
    assert "taken from another release" in (tmp_path / "second" / "report.html").read_text()


def test_a_schema_in_memory_that_another_release_discovered_is_not_this_ones() -> None:
    stays = hospital.stays(1000).select(["age", "ward", "died"])
    found = threea.synthesize(stays, target="died", epsilon=50.0, rows=10).schema
    release = threea.synthesize(stays, schema=found, epsilon=50.0, rows=10)
    assert release.certificate().schema_origin.startswith("taken from release unnamed")


def test_a_schema_of_types_alone_is_refused_before_anything_is_spent() -> None:
    stays = hospital.stays(100).select(["age", "died"])
    with Ledger() as ledger, pytest.raises(SchemaError, match=r"origin \(types\) describes no table"):
        threea.synthesize(stays, schema=widest(stays.schema, "died", None), epsilon=1.0, ledger=ledger)


def test_load_reads_a_file(tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    path.write_text(hospital.schema().to_toml(), encoding="utf-8")
    assert Schema.load(path) == hospital.schema()
    assert Schema.load(str(path)) == hospital.schema()


def one_line(error: BaseException) -> str:
    message = str(error)
    assert len(message.splitlines()) == 1, message
    assert message == message.strip()
    return message


@pytest.mark.parametrize("content", [None, b"\xff\xfe", "folder"])
def test_a_file_that_cannot_be_read(tmp_path: Path, content: bytes | str | None) -> None:
    path = tmp_path / "schema.toml"
    if content == "folder":
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    with pytest.raises(SchemaError) as caught:
        Schema.load(path)
    assert one_line(caught.value).startswith(f"schema ({path})")


REAL = "[column.age]\nkind = 'real'\nlower = 0\nupper = 1\n"
SEX = "[column.sex]\nkind = 'categorical'\n"
AGE = '[column.age]\nkind = "integer"\nlower = 0\nupper = 120\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not toml", "schema is not TOML"),
        ("", "schema has no [column.NAME] sections; make a draft with `threea schema`"),
        ("column = 5", "schema has no [column.NAME] sections"),
        ("[column]", "schema has no [column.NAME] sections"),
        ("[[column]]\nkind = 'id'", "schema has no [column.NAME] sections"),
        ("colour = 1\n" + AGE, "schema has unknown keys (colour); known are target, confirmed, origin, release"),
        ("origin = 'heaven'\n" + AGE, "schema's origin (heaven) must be owner, discovered or released"),
        ("origin = [1]\n" + AGE, "schema's origin ([1]) must be owner, discovered or released"),
        ("origin = 'types'\n" + AGE, "schema's origin (types) describes no table; leave the schema out"),
        ("origin = 'discovered'\nrelease = 7.5\n" + AGE, "schema's release (7.5) must be the synthetic_sha256"),
        ("origin = 'released'\nrelease = 'mine'\n" + AGE, "schema's release (mine) must be the synthetic_sha256"),
        ("target = 'income'\n" + AGE, "target (income) is not a column; columns are: age"),
        ("target = 5\n" + AGE, "target (5) is not a column"),
        ("target = ['age']\n" + AGE, "target (['age']) is not a column"),
        ("target = 'x'\n[column.x]\nkind = 'id'", "target (x) is of kind id, which is never read; choose another"),
        ("[column]\nage = 5", "column age: "),
        (AGE + "colour = 1", "column age: unknown keys (colour); known are"),
        ("[column.a.b]\nkind = 'id'", "column a: unknown keys (b)"),
        ("[column.age]\nlower = 0", "column age: kind (None) must be one of categorical, ordinal, boolean,"),
        ("[column.age]\nkind = 'number'", "column age: kind (number) must be one of"),
        ("[column.age]\nkind = ['integer']", "column age: kind (['integer']) must be one of"),
        ("[column.age]\nkind = 5", "column age: kind (5) must be one of"),
        ("[column.age]\nkind = 'integer'\nlower = 0", "column age: integer needs lower and upper"),
        ("[column.age]\nkind = 'integer'\nlower = '0'\nupper = 9", "column age: '0' must be a number"),
        ("[column.age]\nkind = 'integer'\nlower = true\nupper = 9", "column age: True must be a number"),
        ("[column.age]\nkind = 'integer'\nlower = 9\nupper = 1", "column age: lower (9) must be below upper (1)"),
        ("[column.age]\nkind = 'integer'\nlower = 0.5\nupper = 3", "column age: "),
        ("[column.age]\nkind = 'integer'\nlower = 0\nupper = 1" + "0" * 400, "column age: "),
        ("[column.age]\nkind = 'real'\nlower = 1\nupper = 1", "column age: lower (1) must be below upper (1)"),
        ("[column.age]\nkind = 'real'\nlower = -inf\nupper = 1", "column age: lower (-inf) and upper (1.0) must be"),
        ("[column.age]\nkind = 'real'\nlower = nan\nupper = 1", "column age: lower (nan) and upper (1.0) must be"),
        ("[column.age]\nkind = 'real'\nlower = -1e308\nupper = 1e308", "column age: "),
        (REAL + "special = [nan]", "column age: "),
        (REAL + "special = [9, 9]", "column age: "),
        (REAL + "log = true", "column age: a log scale needs lower (0) > 0; list 0 under special"),
        (REAL + "step = -1", "column age: step (-1) must be a number above 0; leave it out for any number"),
        (REAL + "step = 1e9", "column age: step (1e+09) must be at least 1e-12, below the largest bound"),
        (REAL + "edges = [1]", "column age: edges must be at least two increasing numbers"),
        (REAL + "edges = [1, 1]", "column age: edges must be"),
        (REAL + "edges = [0, inf]", "column age: "),
        (REAL + "edges = [-5, 5]", "column age: edges must be"),
        (REAL + "edges = ['a', 'b']", "column age: 'a' must be a number"),
        (REAL + "log = 1", "column age: log (1) must be a bool"),
        (REAL + "special = 5", "column age: special (5) must be a list"),
        ("[column.when]\nkind = 'date'\nlower = '2020'\nupper = 'soon'", "column when: "),
        ("[column.when]\nkind = 'date'\nlower = 5\nupper = 6", "column when: 5 must be an ISO date"),
        (SEX, "column sex: categorical needs categories; list them, or set open_ended = true"),
        (SEX + "categories = 'F'", "column sex: categories (F) must be a list"),
        (SEX + "categories = ['F', 'F']", "column sex: categories must differ from one another"),
        (SEX + "categories = [1, '1']", "column sex: categories must differ from one another"),
        (SEX + "categories = [['F'], ['M']]", "column sex: "),
        ("[column.sex]\nkind = 'boolean'\ncategories = ['a', 'b', 'c']", "column sex: "),
        ("[column.sex]\nkind = 'boolean'\nopen_ended = true", "column sex: "),
        (SEX + "open_ended = 'yes'", "column sex: open_ended (yes) must be a bool"),
        ('[column."two\\nlines"]\nkind = "integer"', "column two"),
        ('target = "two\\nlines"\n' + AGE, "target (two"),
        ('[column.a]\nkind = "two\\nlines"', "column a: kind (two"),
    ],
)  # fmt: skip
def test_each_mistake_is_told_in_one_line(text: str, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Schema.from_toml(text)
    assert one_line(caught.value).startswith(message)


@given(st.text(max_size=60))
def test_no_text_crashes(text: str) -> None:
    try:
        Schema.from_toml(text)
    except SchemaError as error:
        one_line(error)


toml_values = st.recursive(
    st.one_of(st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.dates()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=2)),
    max_leaves=5,
)


@given(
    fields=st.fixed_dictionaries(
        {"kind": st.one_of(st.sampled_from([str(kind) for kind in Kind]), toml_values)},
        optional=dict.fromkeys(
            ("lower", "upper", "categories", "open_ended", "nullable", "special", "log", "edges", "colour"), toml_values
        ),
    ),
    name=names,
)
def test_no_section_crashes(fields: dict[str, Any], name: str) -> None:
    try:
        schema = Schema.of({name: fields})
    except SchemaError as error:
        one_line(error)
        return
    assert Schema.from_toml(schema.to_toml()) == schema


def test_anything_but_true_is_not_confirmed() -> None:
    assert Schema.from_toml("confirmed = true\n" + AGE).confirmed
    for text in ("", "confirmed = false\n", "confirmed = 'true'\n", "confirmed = 1\n"):
        assert not Schema.from_toml(text + AGE).confirmed
    assert Schema.from_toml(AGE).confirm().confirmed


def test_dates_may_be_written_as_toml_dates_or_text() -> None:
    text = "[column.when]\nkind = 'date'\nlower = {}\nupper = '2021-01-01'\n"
    assert Schema.from_toml(text.format("2020-01-31")) == Schema.from_toml(text.format("'2020-01-31'"))


def test_the_last_moment_of_time_can_be_written() -> None:
    fields = {"kind": "datetime", "lower": "0001-01-01", "upper": "9999-12-31T23:59:59.999999"}
    schema = Schema.of({"x": fields})
    assert Schema.from_toml(schema.to_toml()) == schema


@given(st.dates())
def test_dates_and_days_are_the_same(day: datetime.date) -> None:
    assert dates.to_text(dates.from_text(day.isoformat(), "date", "x"), "date") == day.isoformat()


@given(st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1)))
def test_moments_and_microseconds_are_the_same(moment: datetime.datetime) -> None:
    assert dates.to_text(dates.from_text(moment.isoformat(), "datetime", "x"), "datetime") == moment.isoformat()


def test_columns_by_name_and_role() -> None:
    schema = hospital.schema()
    assert schema["age"].upper == 110
    assert "patient_id" not in [column.name for column in schema.modelled]
    targeted = dataclasses.replace(schema, target="died")
    assert set(targeted.modelled) - set(targeted.features) == {targeted["died"]}


def test_columns_of_one_name_are_refused() -> None:
    column = Column(name="x", kind=Kind.ID)
    with pytest.raises(SchemaError, match=r"^columns \(x\) appear more than once; rename them$"):
        Schema((column, column))


def test_cells_follow_the_column() -> None:
    schema = Schema.of(
        {
            "c": {"kind": "categorical", "categories": ["a", "b"], "open_ended": True, "nullable": False},
            "b": {"kind": "boolean"},
            "r": {"kind": "real", "lower": 1, "upper": 100, "log": True, "special": [0]},
            "e": {"kind": "integer", "lower": 0, "upper": 9, "edges": [0, 5, 10], "nullable": False},
        }
    )
    assert schema["c"].cells(8) == Categories(column="c", count=3, missing=False, other=True)
    assert schema["b"].cells(8) == Categories(column="b", count=2, missing=True)
    assert schema["r"].cells(2) == Bins(column="r", edges=(1.0, 10.0, 100.0), special=(0.0,), missing=True, log=True)
    assert schema["e"].cells(8) == Bins(column="e", edges=(0.0, 5.0, 10.0), missing=False, whole=True)


def test_a_column_that_is_dropped_is_described_by_nothing() -> None:
    text = 'target = "y"\n[column.x]\ndrop = true\nkind = "integer"\n[column.y]\nkind = "boolean"\ndrop = false\n'
    schema = Schema.from_toml(text)
    assert [column.name for column in schema.columns] == ["y"]
    assert schema.dropped == ("x",)
    assert Schema.from_toml(schema.to_toml()) == schema
    with pytest.raises(SchemaError, match=r"^column x: drop \(1\) must be true or false$"):
        Schema.of({"x": {"drop": 1}})
    with pytest.raises(SchemaError, match=r"^target \(x\) is not a column"):
        Schema.of({"x": {"drop": True}, "y": {"kind": "boolean"}}, target="x")
