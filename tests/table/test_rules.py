"""Rules as a schema states them: read, written, checked; and what a model learns of a table that has some."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.rules import CLINIC_COLUMNS, CLINIC_RULES, clinic, clinic_schema
from threea.errors import SchemaError
from threea.studio.schema_form import ColumnForm
from threea.table import codec
from threea.table.rules import Combinations, Dependence, Missing, Order, Range, Sum
from threea.table.schema import Column, Kind, Schema

NUMBER = {"kind": "integer", "lower": 0, "upper": 9, "nullable": False}
WORDS = {"kind": "categorical", "categories": ["x", "y"]}
COLUMNS: dict[str, dict[str, Any]] = {
    "a": NUMBER,
    "b": NUMBER,
    "c": NUMBER,
    "late": {"kind": "integer", "lower": 20, "upper": 30, "nullable": False},
    "total": {"kind": "integer", "lower": 0, "upper": 18, "nullable": False},
    "day": {"kind": "date", "lower": "2020-01-01", "upper": "2021-01-01"},
    "word": WORDS,
    "other": WORDS,
    "fixed": WORDS | {"nullable": False},
    "label": WORDS | {"nullable": False},
    "name": {"kind": "id"},
}


def schema(*rules: dict[str, Any], **columns: dict[str, Any]) -> Schema:
    return Schema.of(COLUMNS | columns, "label", rules)


def test_every_kind_of_rule_is_read() -> None:
    assert [type(rule) for rule in clinic_schema().rules] == [
        Order,
        Order,
        Dependence,
        Combinations,
        Missing,
        Range,
        Sum,
    ]
    assert schema({"order": "a <= b < c"}).rules == (Order("a", "b"), Order("b", "c", strict=True))


def test_what_is_written_is_read_back() -> None:
    rules = (*CLINIC_RULES, {"range": "admitted", "lower": "2022-01-01", "when": {"city": ["Rome", "Oslo"]}})
    described = Schema.of(CLINIC_COLUMNS, "died", rules)
    assert Schema.from_toml(described.to_toml()).rules == described.rules


def test_a_form_of_the_columns_leaves_the_rules_alone() -> None:
    described = clinic_schema()
    filled = tuple(ColumnForm.of(column).column(column) for column in described.columns)
    again = Schema.from_toml(replace(described, columns=filled).to_toml(marks=True))
    assert again.rules == described.rules


def test_a_public_table_beside_the_schema_is_part_of_what_is_written(tmp_path: Path) -> None:
    text = clinic_schema(rules=False).to_toml() + '\n[[rules]]\ndepends = "city -> zip"\ntable = "zips.csv"\n'
    (tmp_path / "schema.toml").write_text(text, encoding="utf-8")
    table = "city,zip,country\nRome,00100,it\nOslo,0150,no\nBern,3000,ch\nGraz,8010,at\nLima,1,pe\n"
    (tmp_path / "zips.csv").write_text(table, encoding="utf-8")
    loaded = Schema.load(tmp_path / "schema.toml")
    assert loaded.rules == (clinic_schema().rules[2],)
    (tmp_path / "zips.csv").write_text(table.replace("Graz,8010", "Graz,3000"), encoding="utf-8")
    assert Schema.load(tmp_path / "schema.toml").to_toml() != loaded.to_toml()
    assert Schema.from_toml(loaded.to_toml()) == loaded


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("town,zip\nRome,1\n", "has no column city"),
        ("city,zip\nRome,00100\nRome,0150\n", r"two values for city \(Rome\)"),
        ("city,zip\nRome,00100\n", r"no zip for city \(Oslo\)"),
        ("city,zip\nRome,99\nOslo,0150\nBern,3000\nGraz,8010\n", r"value \(99\) of zip is not listed"),
        (None, "cannot be read"),
    ],
)
def test_a_public_table_that_does_not_fit_is_refused(tmp_path: Path, content: str | None, message: str) -> None:
    text = clinic_schema(rules=False).to_toml() + '\n[[rules]]\ndepends = "city -> zip"\ntable = "zips.csv"\n'
    if content is not None:
        (tmp_path / "zips.csv").write_text(content, encoding="utf-8")
    with pytest.raises(SchemaError, match=message):
        Schema.from_toml(text, tmp_path)


@pytest.mark.parametrize("path", ["../zips.csv", "/zips.csv"])
def test_a_public_table_elsewhere_is_not_opened(tmp_path: Path, path: str) -> None:
    with pytest.raises(SchemaError, match="must be a file in the schema's own folder"):
        Schema.of(CLINIC_COLUMNS, "died", [{"depends": "city -> zip", "table": path}], tmp_path / "inside")


EACH = {"x": "x", "y": "y"}


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([{"orders": "a <= b"}], "must have one of the keys order"),
        ([{"order": "a <= b", "sum": "a = b + c"}], "it has 2"),
        ([{"order": "a <= b", "strict": True}], r"unknown keys \(strict\)"),
        ([{"order": "a<=b"}], "with spaces around the sign"),
        ([{"order": "a <= z"}], r"column \(z\) is unknown; columns are: a, b"),
        ([{"order": "a <= a"}], "names a column twice"),
        ([{"order": "a <= day"}], "compares integer with date"),
        ([{"order": "a <= word"}], "compares integer with categorical"),
        ([{"order": "name <= a"}], "kind id and never read"),
        ([{"order": "late <= a"}], "late is at least 20, a at most 9; correct the bounds"),
        ([{"order": "a <= b"}, {"order": "b <= c"}, {"order": "c <= a"}], "go in a circle"),
        ([{"missing": "word", "when": {"other": "x"}}, {"missing": "other", "when": {"word": "x"}}], "in a circle"),
        ([{"depends": "word -> other", "table": EACH}, {"depends": "other -> word", "table": EACH}], "in a circle"),
        ([{"depends": "word -> label", "table": EACH}], "so that nothing is left to learn"),
        ([{"depends": "word -> fixed", "table": EACH}], "needs fixed to be nullable"),
        ([{"depends": "word -> other", "table": {"x": "x"}}], r"no other for word \(y\)"),
        ([{"depends": "word -> a", "table": {"x": 1, "y": 10}}], "outside its bounds"),
        ([{"depends": "a -> word", "table": EACH}], "no listed values to follow from"),
        ([{"depends": "word -> other", "table": EACH}, {"combinations": ["other", "label"], "allowed": [["x", "x"]]}],
         "which follows"),
        ([{"depends": "word -> other", "table": EACH}, {"depends": "fixed -> other", "table": EACH}], "both decide"),
        ([{"sum": "a = b"}], "at least two parts"),
        ([{"sum": "a = b + c"}], "goes from 0 to 18, beyond the bounds of a; widen them"),
        ([{"sum": "total = a + word"}], "no numbers"),
        ([{"combinations": ["word"], "allowed": [["x"]]}], "at least two different columns"),
        ([{"combinations": ["word", "a"], "allowed": [["x", 1]]}], "a is integer, and has no listed values"),
        ([{"combinations": ["word", "other"], "allowed": [["x"]]}], "list of 2 values"),
        ([{"combinations": ["word", "other"], "allowed": [["x", "z"]]}], r"value \(z\) of other is not listed"),
        ([{"missing": "a", "when": {"word": "x"}}], "needs a to be nullable"),
        ([{"missing": "label", "when": {"word": "x"}}], "makes the target"),
        ([{"missing": "word"}], "needs when"),
        ([{"missing": "word", "when": "x"}], "must be like"),
        ([{"range": "a", "when": {"word": "x"}}], "with lower, upper or both"),
        ([{"range": "word", "upper": 3, "when": {"other": "x"}}], "must be a number or a date"),
        ([{"range": "a", "lower": 12, "when": {"word": "x"}}], "outside the column's bounds, 0 to 9"),
        ([{"range": "day", "lower": "soon", "when": {"word": "x"}}], "must be an ISO date"),
        ([{"range": "a", "upper": 3, "when": {"fixed": ["x", "y"]}}, {"range": "b", "lower": 5, "when": {"fixed": "x"}},
          {"range": "b", "lower": 6, "when": {"fixed": "y"}}, {"order": "b <= a"}], "cannot all hold"),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused_in_one_line(rules: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(SchemaError, match=message) as refusal:
        schema(*rules)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("data", [{"order": "a <= b"}, ["a <= b"], "a <= b"])
def test_rules_that_are_no_sections_are_refused(data: Any) -> None:
    with pytest.raises(SchemaError, match=r"must be \[\[rules\]\] sections"):
        Schema.of(COLUMNS, "label", data)


def test_what_follows_is_not_learned_and_ends_are_distances() -> None:
    described = clinic_schema()
    names = [column.name for column in described.modelled]
    assert set(CLINIC_COLUMNS) - set(names) == {"zip", "total"}
    assert {name: distance.text for name, distance in described.distances.items()} == {
        "discharged": "discharged - admitted",
        "referred": "admitted - referred",
    }
    learned = next(column for column in described.modelled if column.name == "discharged")
    assert (learned.kind, learned.lower, learned.upper, learned.special) == (Kind.INTEGER, 1.0, 2007.0, (0.0,))
    assert described.sources(["discharged", "age"]) == ("discharged", "age", "admitted")


def test_a_stay_is_learned_as_its_length_row_by_row() -> None:
    table, described = clinic(200), clinic_schema()
    rows = codec.encode_learned(table, described)
    days = codec.encode(table, described)
    expected = days["discharged"] - days["admitted"]
    np.testing.assert_array_equal(rows["discharged"], expected)
    for batch in (table.slice(0, 60), table.slice(60, 140)):
        np.testing.assert_array_equal(
            codec.encode_learned(batch, described)["discharged"],
            expected[: len(batch)] if len(batch) == 60 else expected[60:],
        )


@pytest.mark.parametrize(
    "change",
    [
        {"a": NUMBER | {"nullable": True}, "b": NUMBER | {"nullable": True}},
        {"a": NUMBER | {"special": [9]}, "b": NUMBER | {"special": [0]}},
        {"a": NUMBER | {"edges": [0, 5, 9]}, "b": NUMBER | {"lower": 1, "log": True}},
    ],
)
def test_others_are_learned_as_they_are(change: dict[str, dict[str, Any]]) -> None:
    described = schema({"order": "a <= b"}, **change)
    assert not described.distances
    assert described.kept_rules == [("a <= b", "by redraws")]


def test_a_row_that_breaks_an_order_counts_as_the_shortest() -> None:
    described = Schema.of({"a": NUMBER, "b": NUMBER | {"upper": 100}}, rules=[{"order": "a <= b"}])
    rows = described.learned({"a": np.array([5.0, 5.0, 2.0]), "b": np.array([1.0, 5.0, 90.0])})
    assert rows["b"].tolist() == [0.0, 0.0, 88.0]


@pytest.mark.parametrize(
    ("change", "learned"),
    [
        ({}, "b"),
        ({"a": NUMBER | {"nullable": True}}, "a"),
        ({"b": NUMBER | {"special": [0]}}, "a"),
        ({"b": NUMBER | {"nullable": True}}, "b"),
    ],
)
def test_one_of_two_is_learned_as_its_distance_from_the_other(change: dict[str, Any], learned: str) -> None:
    described = schema({"order": "a <= b"}, **change)
    assert set(described.distances) == {learned}
    assert described.kept_rules == [("a <= b", "by construction")]
    rows = described.learned({"a": np.array([2.0, 9.0]), "b": np.array([7.0, 1.0])})
    assert rows[learned].tolist() == [5.0, 0.0]


def test_of_moments_distances_are_at_least_a_second() -> None:
    moment = {"kind": "datetime", "lower": "2020-01-01", "upper": "2021-01-01", "nullable": False}
    described = Schema.of({"a": moment, "b": moment}, rules=[{"order": "a < b"}])
    start = np.full(3, 1.6e15)
    rows = described.learned({"a": start, "b": start + np.array([1.0, 9e5, 4e6])})
    assert rows["b"].tolist() == [1e6, 1e6, 4e6]


def test_which_rows_break_a_rule() -> None:
    columns = {name: Column(name=name, kind=Kind.INTEGER, lower=0, upper=9) for name in "abc"}
    columns |= {name: Column(name=name, kind=Kind.CATEGORICAL, categories=("x", "y")) for name in "vw"}
    gone = np.nan
    rows = {
        "a": np.array([1.0, 3.0, gone, 2.0]),
        "b": np.array([2.0, 2.0, 2.0, 2.0]),
        "c": np.array([3.0, 5.0, gone, 5.0]),
        "v": np.array([0, 0, 1, -1]),
        "w": np.array([0, 1, -1, 1]),
    }
    found = {
        Order("a", "b"): [False, True, False, False],
        Order("a", "b", strict=True): [False, True, False, True],
        Sum("c", ("a", "b")): [False, False, False, True],
        Combinations(("v", "w"), (("x", "x"),)): [False, True, True, True],
        Missing("a", (("v", ("y",)),)): [False, False, False, False],
        Missing("a", (("v", ("x",)),)): [True, True, True, False],
        Range("a", 0, 2, (("v", ("x",)), ("w", ("y",)))): [False, True, False, False],
        Dependence("v", "w", (("x", "x"), ("y", "x"))): [False, True, True, True],
        Dependence("v", "a", (("x", 1.0), ("y", 3.0))): [False, True, True, True],
    }
    for rule, expected in found.items():
        assert rule.broken(rows, columns).tolist() == expected, rule.text


def test_a_missing_value_is_followed_by_one_and_another_by_other() -> None:
    columns = {
        "v": Column(name="v", kind=Kind.CATEGORICAL, categories=("x",), open_ended=True),
        "w": Column(name="w", kind=Kind.CATEGORICAL, categories=("x",), open_ended=True),
        "n": Column(name="n", kind=Kind.REAL, lower=0, upper=1),
    }
    rows = {"v": np.array([0, 1, -1])}
    assert Dependence("v", "w", (("x", "x"),)).values(rows, columns).tolist() == [0, 1, -1]
    np.testing.assert_array_equal(
        Dependence("v", "n", (("x", 0.5),)).values(rows, columns), np.array([0.5, np.nan, np.nan])
    )


def test_rules_survive_what_a_type_takes_from_a_column() -> None:
    table = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in "ab"])
    described = Schema.of({name: NUMBER | {"nullable": True} for name in "ab"}, rules=[{"order": "a <= b"}])
    assert not described.distances
    assert set(codec.fit(described, table).distances) == {"b"}
