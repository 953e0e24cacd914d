"""Rows that keep the rules of a schema, whatever the model, the recipe and the types."""

from __future__ import annotations

import html
import json
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.rules import CLINIC_COLUMNS, CLINIC_RULES, broken, clinic, clinic_schema
from threea.anonymize.open_table import open_table
from threea.budget import Budget
from threea.drawing import CHUNK_ROWS
from threea.errors import SchemaError, SettingError
from threea.evaluate.broken_rules import broken_rules
from threea.ledger import Ledger
from threea.model_file import load_release
from threea.model_summary import ModelSummary
from threea.publish import DrawnPart
from threea.recipes import MST, DPMix, Independent, LabelTree
from threea.release import Release
from threea.ruled import ROUNDS, Ruled
from threea.scoring import training_rows
from threea.session import prepare
from threea.table import codec
from threea.table.conditions import Given, draw_fitting, fitting
from threea.table.conditions import given as conditions_of
from threea.table.layout import released
from threea.table.schema import Chunk, Schema
from threea.testing import SeededNoise, SilentNoise

DRAWN = 100_000
TABLE = clinic(2_000)
NONE_BROKEN = dict.fromkeys([rule.text for rule in clinic_schema().rules], 0)


class AtRandom:
    """A model that draws every column evenly over its cells, whatever the others are."""

    def __init__(self, schema: Schema) -> None:
        self._cells, self.draws = [column.cells(8) for column in schema.modelled], list[int]()

    @property
    def summary(self) -> ModelSummary:
        return ModelSummary()

    def sample(self, rows: int, rng: np.random.Generator, given: Given | None = None) -> Chunk:
        self.draws.append(rows)
        chunk = Chunk()
        for cells in self._cells:
            condition = (given or {}).get(cells.column)
            weights = fitting(cells, condition)
            if not weights.any():
                raise SettingError("nothing fits")
            index = rng.choice(cells.size, size=rows, p=weights / weights.sum())
            chunk[cells.column] = draw_fitting(cells, index, rng, condition)
        return chunk


class Stubborn(AtRandom):
    """A model that draws the same broken row over and over, whatever it is asked for."""

    def sample(self, rows: int, rng: np.random.Generator, given: Given | None = None) -> Chunk:
        row = super().sample(1, np.random.default_rng(3), None)
        return {name: np.repeat(values, rows) for name, values in row.items()}


def at_random(schema: Schema, layout: pa.Schema | None = None, model: type[AtRandom] = AtRandom) -> Ruled:
    return Ruled(model(schema), schema, layout or TABLE.schema)


def decoded(chunk: Chunk, ruled: Ruled) -> pa.Table:
    return pa.Table.from_batches([codec.decode(chunk, ruled.schema, ruled.layout)])


@pytest.fixture(scope="module", params=[LabelTree(), Independent(), MST()], ids=lambda recipe: recipe.name)
def release(request: pytest.FixtureRequest) -> Release:
    table = open_table(TABLE, schema=clinic_schema(), budget=Budget(1.0), noise=SeededNoise(1))
    return request.param.run(table, rows=DRAWN, seed=1)


def test_no_row_of_a_release_breaks_a_rule(release: Release) -> None:
    table = release.table
    assert table.num_rows == DRAWN
    assert broken(table, release.schema) == NONE_BROKEN
    assert table["pregnancies"].null_count
    assert table["referred"].null_count


def test_nor_does_a_row_drawn_later_from_the_file(release: Release, tmp_path: Any) -> None:
    folder = tmp_path / "release"
    small = replace(release, rows=2_000)
    small.save(folder)
    stated = json.loads((folder / "certificate.json").read_text(encoding="utf-8"))["schema_rules"]
    assert [each["rule"] for each in stated] == [rule for rule, _ in release.schema.kept_rules]
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert all(html.escape(each["rule"]) in page for each in stated)
    assert "follows by the rule city -&gt; zip" in page
    assert Schema.load(folder / "schema.toml").rules == release.schema.rules
    again = load_release(folder)
    assert again.table.equals(small.table)
    conditions = {"died": True, "zip": "0150", "discharged": ("2022-01-01", None), "pregnancies": (1, None)}
    drawn = again.sample(500, given=conditions, seed=2)
    assert broken(drawn, again.schema) == NONE_BROKEN
    assert set(drawn["died"].to_pylist()) == {True}
    assert set(drawn["zip"].to_pylist()) == {"0150"}
    assert "M" not in drawn["sex"].to_pylist()
    assert min(drawn["discharged"].to_pylist()).year >= 2022
    assert min(drawn["pregnancies"].to_pylist()) >= 1
    assert drawn.equals(release.sample(500, given=conditions, seed=2))


def test_chunks_are_drawn_apart_also_elsewhere() -> None:
    table = open_table(TABLE, schema=clinic_schema(), budget=Budget(1.0), noise=SeededNoise(1))
    release = Independent().run(table, rows=CHUNK_ROWS + 100, seed=1)
    first, second = release.batches()
    elsewhere = pickle.loads(pickle.dumps(DrawnPart(release))).release
    assert list(elsewhere.batches(CHUNK_ROWS)) == [second]
    assert first.num_rows == CHUNK_ROWS


def test_what_follows_was_never_asked_for() -> None:
    """The release is the same, to the last value, whatever stands in a column that follows from others."""

    def made(table: pa.Table) -> pa.Table:
        opened = open_table(table, schema=clinic_schema(), budget=Budget(1.0), noise=SilentNoise())
        return Independent().run(opened, rows=500, seed=1).table

    other = TABLE
    for name, values in (("zip", ["3000"] * len(TABLE)), ("total", [6000.0] * len(TABLE))):
        other = other.set_column(other.column_names.index(name), name, pa.array(values))
    assert made(other).equals(made(TABLE))


def test_lengths_of_stays_are_the_private_ones() -> None:
    table = open_table(TABLE, schema=clinic_schema(), budget=Budget(1.0), noise=SilentNoise())
    rows = codec.encode(Independent().run(table, rows=20_000, seed=1).table, clinic_schema())
    real = codec.encode(TABLE, clinic_schema())
    found, wanted = (np.nanmedian(each["discharged"] - each["admitted"]) for each in (rows, real))
    assert abs(found - wanted) <= 1
    assert np.nanmean(rows["discharged"] - rows["admitted"] > 60) < 0.02


def test_the_receipt_says_how_each_rule_is_kept() -> None:
    said = str(prepare(TABLE, schema=clinic_schema(), epsilon=1.0, recipe="independent"))
    assert "Every synthetic row keeps 7 rules: referred <= admitted (by construction); " in said
    assert "age from 0 to 17 when ward is paediatrics (by redraws)" in said


def test_scores_are_learned_from_rows_encoded_as_private_ones_are(release: Release) -> None:
    small = replace(release, rows=500)
    rows, days = training_rows(small), next(small.chunks())
    np.testing.assert_array_equal(rows["discharged"], days["discharged"] - days["admitted"])


def test_the_owner_is_told_of_rules_that_real_rows_break() -> None:
    assert broken_rules(TABLE, clinic_schema()) == []
    wrong = TABLE.set_column(TABLE.column_names.index("zip"), "zip", pa.array(["3000"] * len(TABLE)))
    (warning,) = broken_rules(wrong, clinic_schema())
    assert "of 2,000 training rows" in warning
    assert "break the rule city -> zip" in warning


def test_rules_that_types_cannot_keep_are_refused_before_anything_is_spent() -> None:
    number = {"kind": "real", "lower": 0.0, "upper": 0.4, "nullable": False}
    schema = Schema.of({"a": number, "b": number}, rules=[{"order": "a < b"}])
    ledger = Ledger()
    with pytest.raises(SchemaError, match="as the data's types write them"):
        open_table(pa.table({"a": [0, 0], "b": [0, 0]}), schema=schema, budget=Budget(1.0), ledger=ledger)
    assert not ledger.releases()


def test_a_finite_set_of_rows_is_kept_to_the_rules() -> None:
    table = open_table(TABLE, schema=clinic_schema(), budget=Budget(1.0), noise=SilentNoise())
    made = DPMix().run(table)
    assert made.summary.points is not None
    assert broken(made.table, made.schema) == NONE_BROKEN
    assert broken(made.sample(200, given={"died": True}), made.schema) == NONE_BROKEN


@pytest.mark.parametrize("rule", CLINIC_RULES, ids=lambda rule: next(iter(rule)))
def test_each_kind_alone_is_kept_by_every_row_of_a_model_that_knows_nothing(rule: dict[str, Any]) -> None:
    ruled = at_random(Schema.of(CLINIC_COLUMNS, "died", [rule]))
    rows = ruled.sample(DRAWN, np.random.default_rng(0))
    assert not any(broken(decoded(rows, ruled), ruled.schema).values())


def test_a_model_that_never_keeps_a_rule_is_mended_at_a_bounded_cost() -> None:
    ruled = at_random(clinic_schema(), model=Stubborn)
    rows = ruled.sample(1_000, np.random.default_rng(0))
    assert broken(decoded(rows, ruled), ruled.schema) == NONE_BROKEN
    calls = ruled.model.draws  # type: ignore[attr-defined]
    assert len(calls) <= 1 + 2 * ROUNDS


def test_no_class_and_no_ward_becomes_rarer() -> None:
    """Each share is within 5 standard deviations, so about one correct run in 200,000 fails."""
    ruled = at_random(clinic_schema())
    rows = ruled.sample(20_000, np.random.default_rng(1))
    for name, shares in (("died", [1 / 2] * 2), ("ward", [1 / 4] * 3), ("city", [1 / 5] * 4)):
        for code, share in enumerate(shares):
            spread = 5 * np.sqrt(share * (1 - share) / 20_000)
            assert abs(np.mean(rows[name] == code) - share) < spread, name


def test_conditions_that_rules_forbid_fit_no_row() -> None:
    ruled = at_random(clinic_schema())
    for conditions in (
        {"ward": "paediatrics", "age": (30, 40)},
        {"sex": "M", "pregnancies": (1, 2)},
        {"city": "Rome", "zip": "0150"},
        {"admitted": ("2024-01-01", None), "discharged": (None, "2020-02-01")},
    ):
        with pytest.raises(SettingError, match="no row"):
            ruled.sample(10, np.random.default_rng(0), conditions_of(ruled.schema, conditions))


@pytest.mark.parametrize(
    ("conditions", "check"),
    [
        ({"total": (100, 120)}, lambda rows: ((rows["total"] >= 100) & (rows["total"] <= 120)).all()),
        ({"discharged": (None, "2020-03-01")}, lambda rows: (rows["discharged"] <= 18322).all()),
        ({"pregnancies": (3, None)}, lambda rows: ((rows["pregnancies"] >= 3) & (rows["sex"] != 0)).all()),
        ({"zip": ["0150", "3000"]}, lambda rows: np.isin(rows["city"], [1, 2]).all()),
        ({"title": "Mr"}, lambda rows: (rows["sex"] != 1).all()),
    ],
)
def test_conditions_hold_with_the_rules(conditions: dict[str, Any], check: Any) -> None:
    ruled = at_random(clinic_schema())
    rows = ruled.sample(30, np.random.default_rng(0), conditions_of(ruled.schema, conditions))
    assert check(rows)
    assert broken(decoded(rows, ruled), ruled.schema) == NONE_BROKEN


NUMBER = {"kind": "real", "lower": 0.0, "upper": 10.0}
KINDS = {
    "real": [pa.float64(), pa.float32(), pa.decimal128(6, 2), pa.int16(), pa.string()],
    "integer": [pa.int64(), pa.int8(), pa.float64(), pa.decimal128(5, 0)],
    "datetime": [pa.timestamp("us"), pa.timestamp("s"), pa.timestamp("ns"), pa.date32(), pa.string()],
    "date": [pa.date32(), pa.timestamp("s"), pa.date64(), pa.string()],
}


@st.composite
def ruled_tables(draw: Any) -> tuple[Schema, pa.Schema]:
    """Draw columns, types that hold them, and rules about them."""
    kind = draw(st.sampled_from(list(KINDS)))
    bounds: dict[str, Any] = {"lower": 0, "upper": 10}
    if kind in ("date", "datetime"):
        bounds = {"lower": "2020-01-01", "upper": "2020-01-09"}
    columns: dict[str, dict[str, Any]] = {}
    fields = []
    for name in "abcd":
        column: dict[str, Any] = {"kind": kind, **bounds, "nullable": draw(st.booleans())}
        if kind == "real" and draw(st.booleans()):
            column["step"] = draw(st.sampled_from([0.1, 0.5, 2.0]))
        if kind == "real" and draw(st.booleans()):
            column["special"] = [draw(st.sampled_from([0.0, 10.0, 99.0]))]
        columns[name] = column
        fields.append(pa.field(name, draw(st.sampled_from(KINDS[kind]))))
    for name in "uvw":
        columns[name] = {"kind": "categorical", "categories": ["x", "y", "z"], "nullable": draw(st.booleans())}
        fields.append(pa.field(name, pa.string()))
    word = st.sampled_from(["x", "y", "z"])
    signs = st.sampled_from(["<=", "<"])
    rules: list[dict[str, Any]] = []
    for start, end in draw(st.lists(st.sampled_from([("a", "b"), ("b", "c"), ("a", "c"), ("d", "c")]), unique=True)):
        rules.append({"order": f"{start} {draw(signs)} {end}"})
    if draw(st.booleans()):
        pairs = draw(st.lists(st.lists(word, min_size=2, max_size=2), min_size=1, max_size=4))
        rules.append({"combinations": ["u", "v"], "allowed": pairs})
    if draw(st.booleans()):
        rules.append({"missing": draw(st.sampled_from("bdw")), "when": {"u": draw(word)}})
    if draw(st.booleans()) and kind in ("real", "integer"):
        rules.append({"range": draw(st.sampled_from("abc")), "lower": 2, "upper": 6, "when": {"v": draw(word)}})
    if draw(st.booleans()):
        rules.append({"depends": "v -> w", "table": {each: draw(word) for each in "xyz"}})
    return Schema.of(columns, draw(st.sampled_from([None, "u"])), rules), pa.schema(fields)


@given(st.data(), st.integers(0, 99))
@settings(deadline=None, max_examples=40)
def test_whatever_the_rules_and_types_every_row_keeps_them(data: st.DataObject, seed: int) -> None:
    try:
        schema, layout = data.draw(ruled_tables())
    except SchemaError:
        return
    if not schema.rules:
        return
    ruled = at_random(schema, released(schema, layout))
    for model in (AtRandom, Stubborn):
        ruled = at_random(schema, released(schema, layout), model)
        rows = decoded(ruled.sample(30, np.random.default_rng(seed)), ruled)
        assert not any(broken(rows, schema).values()), (schema.rules, layout)
        for column in schema.columns:
            assert column.nullable or not rows[column.name].null_count
