"""The laws of every proven recipe: it spends what it may, needs only sums, and no table, however poor, breaks it."""

import dataclasses
import datetime
import inspect
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from nasty import ROWS as NASTY_ROWS
from nasty import SCHEMA as NASTY_SCHEMA
from nasty import arrow as nasty_table

import threea.recipes
from threea.anonymize.accountant import Line, epsilon_of
from threea.anonymize.events import from_json
from threea.anonymize.ledger import Ledger
from threea.anonymize.opening import open_table
from threea.budget import Adjacency, Budget
from threea.certificate import Guarantee
from threea.errors import BudgetRefused, SettingError, UserError
from threea.framework import CHUNK_ROWS, Recipe
from threea.recipes import DEFAULT, RECIPES
from threea.schema import Kind, Schema
from threea.testing import SeededNoise, SilentNoise

PROVEN = [recipe for recipe in RECIPES.values() if recipe().guarantee is Guarantee.PROVEN]
EVERY_RECIPE = pytest.mark.parametrize("recipe", PROVEN, ids=lambda recipe: recipe.name)
ROWS = 240
OUT = 60


def cycled(values: list[Any]) -> list[Any]:
    return (values * ROWS)[:ROWS]


DATA: dict[str, pa.Array] = {
    "person": pa.array([f"p{row // 2}" for row in range(ROWS)]),
    "colour": pa.array(cycled(["red", "green", None, "red", "blue"])),
    "length": pa.array(cycled([0.5, 1.25, None, 0.0, 9.75, 2.0, 3.5]), pa.float32()),
    "age": pa.array(cycled([31, 40, 40, 77, 5, 18, 90, 61, 23, 55, 2]), pa.int16()),
    "smoker": pa.array(cycled([True, False, False])),
    "seen": pa.array(cycled([datetime.date(2020, 1, day) for day in range(1, 28)])),
    "label": pa.array(cycled(["yes", "no", "no"])).dictionary_encode(),
}
PUBLIC: dict[str, dict[str, Any]] = {
    "person": {"kind": "id"},
    "colour": {"kind": "categorical", "categories": ["red", "green", "blue"]},
    "length": {"kind": "real", "lower": 0.1, "upper": 10.0, "special": [0.0]},
    "age": {"kind": "integer", "lower": 0, "upper": 110, "nullable": False},
    "smoker": {"kind": "boolean"},
    "seen": {"kind": "date", "lower": "2020-01-01", "upper": "2020-02-01"},
    "label": {"kind": "categorical", "categories": ["no", "yes"], "nullable": False},
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A table, its public description and what to predict."""

    table: pa.Table
    columns: dict[str, dict[str, Any]]
    target: str | None = "label"

    @property
    def schema(self) -> Schema:
        return Schema.of(self.columns, target=self.target)

    def with_column(self, name: str, values: pa.Array, **public: Any) -> "Case":
        table = self.table.drop_columns([name]) if name in self.table.column_names else self.table
        table = table.append_column(name, values)
        columns = {key: value for key, value in self.columns.items() if key != name} | {name: public}
        return dataclasses.replace(self, table=table, columns=columns)

    def only(self, *names: str) -> "Case":
        columns = {name: self.columns[name] for name in names}
        return dataclasses.replace(self, table=self.table.select(names), columns=columns)


PLAIN = Case(pa.table(DATA), PUBLIC)
LABELS = {"kind": "categorical", "categories": ["no", "yes", "never"]}
CASES: dict[str, Case] = {
    "plain": PLAIN,
    "one row": dataclasses.replace(PLAIN, table=PLAIN.table.slice(0, 1)),
    "an empty class": PLAIN.with_column("label", DATA["label"], **LABELS),
    "only one class": PLAIN.with_column("label", pa.array(["no"] * ROWS), **LABELS),
    "labels often missing": PLAIN.with_column("label", pa.array([None] * (ROWS - 1) + ["no"]), **LABELS),
    "no label is listed": PLAIN.with_column("label", pa.array(["perhaps"] * ROWS), **LABELS),
    "constant columns": PLAIN.with_column("c", pa.array([4.5] * ROWS), kind="real", lower=0, upper=9).with_column(
        "d", pa.array([4] * ROWS), kind="integer", lower=4, upper=4, nullable=False
    ),
    "one listed category": PLAIN.with_column("c", pa.array(["x"] * ROWS), kind="categorical", categories=["x"]),
    "nothing listed": PLAIN.with_column("c", pa.array(["x"] * ROWS), kind="categorical", open_ended=True),
    "all missing": PLAIN.with_column("c", pa.nulls(ROWS, pa.float64()), kind="real", lower=0, upper=1)
    .with_column("d", pa.nulls(ROWS, pa.string()), kind="categorical", categories=["x"])
    .with_column("e", pa.nulls(ROWS), kind="categorical", categories=["x"])
    .with_column("f", pa.nulls(ROWS, pa.timestamp("us")), kind="datetime", lower="2020-01-01", upper="2021-01-01"),
    "all values out of bounds": PLAIN.with_column(
        "c", pa.array([1e300, -math.inf] * (ROWS // 2)), kind="real", lower=0, upper=1
    ),
    "no target": dataclasses.replace(PLAIN, target=None),
    "numeric target": dataclasses.replace(PLAIN, target="length"),
    "whole-number target": dataclasses.replace(PLAIN, target="age"),
    "boolean target": dataclasses.replace(PLAIN, target="smoker"),
    "date target": dataclasses.replace(PLAIN, target="seen"),
    "one feature": PLAIN.only("colour", "label"),
    "one feature, no target": dataclasses.replace(PLAIN.only("person", "age"), target=None),
    "no feature": PLAIN.only("person", "label"),
}
EVERY_CASE = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


class OnlySums:
    """An engine that can sum and nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self._table, self.layout = table, table.schema.remove_metadata()

    def sum(self, function: Callable[[pa.RecordBatch], Any], columns: Any) -> Any:
        batches = self._table.select(list(columns) or self.layout.names[:1]).to_batches(max_chunksize=37)
        return np.sum([function(batch) for batch in batches], axis=0)


def run(
    recipe: type[Recipe], case: Case, *, data: Any = None, known: bool = True, rows: int | None = OUT, **options: Any
) -> Any:
    """Open a table and make a release."""
    described = {"schema": case.schema} if known else {"target": case.target}
    options.setdefault("budget", Budget(1.0))
    seed = options.pop("seed", None)
    return recipe().run(open_table(case.table if data is None else data, **described, **options), rows=rows, seed=seed)


def refused(recipe: type[Recipe], case: Case) -> bool:
    """Check that a recipe for numbers says so before it spends anything on a table without any; tell if it is one."""
    if recipe.name != "gaussians" or any(column.kind.numeric for column in case.schema.features):
        return False
    with pytest.raises(SettingError, match="numeric column"):
        run(recipe, case)
    return True


def assert_fits(release: Any, case: Case) -> None:
    """Check that rows came out, with the columns, order and types that went in and values the schema allows."""
    out = release.table
    assert out.num_rows == release.rows >= 1
    assert out.schema.equals(case.table.schema.remove_metadata())
    out.validate(full=True)
    for column in release.schema.columns:
        values = out.column(column.name).drop_null().to_pylist()
        if column.kind is Kind.ID:
            assert len(set(values)) == out.num_rows
            assert set(values).isdisjoint(case.table.column(column.name).to_pylist())
        elif column.kind is Kind.BOOLEAN:
            assert set(values) <= {True, False}
        elif column.kind.listed:
            assert set(values) <= {*column.categories, "other"}
        elif not column.kind.temporal:
            low, high = np.float32([column.lower, column.upper])
            assert all(low <= np.float32(value) <= high or value in column.special for value in values)
        if not column.nullable:
            assert out.column(column.name).null_count == 0


def test_every_recipe_is_listed_under_its_name() -> None:
    public = {
        kind
        for _, kind in inspect.getmembers(threea.recipes, inspect.isclass)
        if issubclass(kind, Recipe) and kind is not Recipe
    }
    assert set(RECIPES.values()) == public
    assert all(RECIPES[recipe.name] is recipe for recipe in public)
    assert DEFAULT in RECIPES
    assert RECIPES[DEFAULT] in PROVEN


@EVERY_RECIPE
def test_a_recipe_is_a_frozen_value_that_says_what_it_is(recipe: type[Recipe]) -> None:
    assert recipe() == recipe()
    assert recipe.summary
    assert recipe().assumptions == (), "a proof assumes nothing"
    for field in dataclasses.fields(recipe):
        assert field.kw_only
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(recipe(), field.name, getattr(recipe(), field.name))
    json.dumps(dataclasses.asdict(recipe()))


# No table breaks it.


@EVERY_RECIPE
@EVERY_CASE
@pytest.mark.parametrize("known", [True, False], ids=["schema", "discovered"])
def test_every_table_survives(recipe: type[Recipe], case: Case, known: bool) -> None:
    if not refused(recipe, case):
        assert_fits(run(recipe, case, known=known), case)


@EVERY_RECIPE
@EVERY_CASE
def test_every_table_survives_without_noise(recipe: type[Recipe], case: Case) -> None:
    """Exact zeros are where divisions by nothing hide."""
    if not refused(recipe, case):
        assert_fits(run(recipe, case, noise=SilentNoise()), case)


@EVERY_RECIPE
@EVERY_CASE
def test_a_backend_that_only_sums_is_enough(recipe: type[Recipe], case: Case) -> None:
    if refused(recipe, case):
        return
    plain = run(recipe, case, noise=SilentNoise(), seed=5)
    summed = run(recipe, case, noise=SilentNoise(), seed=5, data=OnlySums(case.table))
    assert summed.table.equals(plain.table)


@EVERY_RECIPE
@pytest.mark.parametrize("epsilon", [0.01, 1e3])
def test_extreme_budgets_survive(recipe: type[Recipe], epsilon: float) -> None:
    release = run(recipe, PLAIN, budget=Budget(epsilon))
    assert_fits(release, PLAIN)
    assert release.plan.epsilon <= epsilon


@EVERY_RECIPE
def test_without_a_number_of_rows_there_are_about_as_many_as_private_ones(recipe: type[Recipe]) -> None:
    assert run(recipe, PLAIN, rows=None, noise=SilentNoise()).rows == ROWS
    assert run(recipe, CASES["one row"], rows=None, noise=SilentNoise()).rows == 1


@EVERY_RECIPE
@settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    rows=st.lists(NASTY_ROWS, min_size=1, max_size=6),
    target=st.sampled_from([None, *(column.name for column in NASTY_SCHEMA.modelled)]),
    known=st.booleans(),
    loud=st.booleans(),
)
def test_the_nastiest_values_survive(
    recipe: type[Recipe], rows: list[Any], target: str | None, known: bool, loud: bool
) -> None:
    table = nasty_table(rows)
    if target is not None and table.column(target).null_count == len(rows):
        target = None
    noise = SeededNoise(1) if loud else SilentNoise()
    options = {"schema": NASTY_SCHEMA} if known else {"unit": "person"}
    release = recipe().run(open_table(table, target=target, budget=Budget(1.0), noise=noise, **options), rows=OUT)
    assert release.table.num_rows == OUT
    assert release.table.schema.equals(table.schema)


@EVERY_RECIPE
def test_a_table_of_ids_alone_is_refused(recipe: type[Recipe]) -> None:
    """There is nothing to learn from it, which the owner is told before anything is spent."""
    ledger = Ledger()
    table = pa.table({"person": ["p", "q"], "visit": ["1", "2"]})
    schema = Schema.of({"person": {"kind": "id"}, "visit": {"kind": "id"}})
    with pytest.raises(UserError):
        recipe().run(open_table(table, schema=schema, budget=Budget(1.0), ledger=ledger), rows=OUT).table  # noqa: B018
    assert ledger.releases() == []


# It spends what it may.


@EVERY_RECIPE
@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("unit", [None, "person"])
@pytest.mark.parametrize("known", [True, False], ids=["schema", "discovered"])
def test_it_spends_at_most_its_budget_and_charges_what_it_reserved(
    recipe: type[Recipe], adjacency: Adjacency, unit: str | None, known: bool
) -> None:
    budget, ledger = Budget(0.7, 1e-7, adjacency), Ledger()
    options = {"unit": unit, "max_rows_per_unit": 2 if unit else 1}
    release = run(recipe, PLAIN, known=known, budget=budget, ledger=ledger, dataset="d", **options)
    (dataset,), (row,) = ledger.datasets(), ledger.releases()
    assert dataset.spent <= budget.epsilon
    assert dataset.delta <= budget.delta
    assert (row.recipe, row.dataset) == (recipe().chosen(PLAIN.schema)[0].name, "d")
    assert row.charged == row.planned > 0
    charges = ledger.charges(row.id)
    lines = [Line(charge.line, from_json(charge.event)) for charge in charges]
    assert 0.98 * budget.epsilon <= epsilon_of(lines, budget.delta, adjacency) <= budget.epsilon
    planned = [line.name for line in release.plan.lines for _ in range(line.count)]
    assert sorted(charge.line for charge in charges) == sorted(planned)
    by_name = {line.name: line.event for line in release.plan.lines}
    assert all(by_name[line.name] == line.event for line in lines)


@EVERY_RECIPE
@pytest.mark.parametrize("same_plan", [False, True], ids=["a new plan", "the same plan"])
def test_a_second_run_on_one_table_is_refused(recipe: type[Recipe], same_plan: bool) -> None:
    ledger = Ledger()
    table = open_table(PLAIN.table, schema=PLAIN.schema, budget=Budget(1.0), ledger=ledger)
    plan = recipe().plan(table) if same_plan else None
    recipe().run(table, rows=OUT, plan=plan)
    before = ledger.releases()
    with pytest.raises(BudgetRefused) as refusal:
        recipe().run(table, rows=OUT, plan=plan)
    assert refusal.value.left == 0
    assert ledger.releases() == before, "a refused release leaves nothing behind"


@EVERY_RECIPE
def test_a_cap_refuses_before_anything_is_read(recipe: type[Recipe]) -> None:
    ledger = Ledger()
    with pytest.raises(BudgetRefused):
        run(recipe, PLAIN, ledger=ledger, cap=0.5)
    assert ledger.releases() == []


@EVERY_RECIPE
def test_rows_that_cannot_be_are_refused_before_anything_is_spent(recipe: type[Recipe]) -> None:
    for rows in (0, -1):
        ledger = Ledger()
        with pytest.raises(SettingError, match=rf"^rows \({rows}\) must be a whole number, at least 1$"):
            run(recipe, PLAIN, rows=rows, ledger=ledger)
        assert ledger.releases() == []


@EVERY_RECIPE
def test_a_plan_looked_at_first_is_the_one_charged(recipe: type[Recipe]) -> None:
    ledger = Ledger()
    table = open_table(PLAIN.table, schema=PLAIN.schema, budget=Budget(1.0), ledger=ledger)
    plan = recipe().plan(table)
    assert ledger.releases() == [], "looking at a price is free"
    assert recipe().run(table, rows=OUT, plan=plan).plan is plan


# What is random, and what is not.


@EVERY_RECIPE
def test_a_release_draws_the_same_rows_each_time(recipe: type[Recipe]) -> None:
    release = run(recipe, PLAIN, rows=CHUNK_ROWS + 100)
    first, again = list(release.batches()), list(release.batches())
    assert [batch.num_rows for batch in first] == [CHUNK_ROWS, 100]
    assert all(one.equals(other) for one, other in zip(first, again, strict=True))
    head = first[0].slice(0, 100).drop_columns("person")
    assert not first[1].drop_columns("person").equals(head), "chunks are drawn afresh"


@EVERY_RECIPE
def test_a_seed_repeats_sampling(recipe: type[Recipe]) -> None:
    """Without noise the seed is all that is random."""
    one, again, other, none = (
        run(recipe, PLAIN, noise=SilentNoise(), rows=500, seed=seed).table for seed in (1, 1, 2, None)
    )
    assert one.equals(again)
    assert not one.equals(other)
    assert not one.equals(none)


@EVERY_RECIPE
def test_a_seed_does_not_repeat_noise(recipe: type[Recipe]) -> None:
    """Hundreds of noisy counts on a grid of 2^-30: that all agree by chance is less likely than 1e-100."""
    one, other = (run(recipe, PLAIN, seed=1) for _ in range(2))
    assert one.seed == other.seed
    counts = [np.concatenate([h.counts for h in release.model.histograms.values()]) for release in (one, other)]
    assert not np.array_equal(*counts)


@EVERY_RECIPE
def test_the_global_generator_is_left_alone(recipe: type[Recipe]) -> None:
    np.random.seed(3)
    before = np.random.get_state()[1].copy()
    assert run(recipe, PLAIN).table.num_rows == OUT
    np.testing.assert_array_equal(np.random.get_state()[1], before)


# What it certifies.


@EVERY_RECIPE
@pytest.mark.parametrize("known", [True, False], ids=["schema", "discovered"])
def test_the_certificate_states_no_more_than_was_accounted(recipe: type[Recipe], known: bool) -> None:
    release = run(recipe, PLAIN, known=known, unit="person", max_rows_per_unit=2)
    certificate = release.certificate()
    assert certificate.guarantee is release.guarantee is Guarantee.PROVEN
    assert 0.98 < certificate.accounted_epsilon <= certificate.epsilon == 1.0
    assert certificate.delta == 1e-6
    assert certificate.recipe == recipe().chosen(PLAIN.schema)[0].name
    assert certificate.settings == dataclasses.asdict(recipe().chosen(PLAIN.schema)[0])
    assert certificate.rows == OUT
    assert certificate.assumptions == []
    lines = [
        Line(event["name"], from_json({k: v for k, v in event.items() if k not in ("name", "count")}), event["count"])
        for event in certificate.events
    ]
    assert epsilon_of(lines, certificate.delta, Adjacency(certificate.adjacency)) == certificate.accounted_epsilon
    assert json.loads(certificate.to_json())["guarantee"] == "proven"


@EVERY_RECIPE
@pytest.mark.parametrize("noise", [SilentNoise(), SeededNoise(0)], ids=["silent", "seeded"])
def test_noise_for_tests_earns_no_guarantee(recipe: type[Recipe], noise: Any) -> None:
    release = run(recipe, PLAIN, noise=noise)
    certificate = release.certificate()
    assert certificate.guarantee is release.guarantee is Guarantee.NONE
    assert certificate.accounted_epsilon == math.inf
    assert any("noise" in assumption for assumption in certificate.assumptions)
    written = json.loads(certificate.to_json())
    assert (written["guarantee"], written["accounted_epsilon"]) == ("none", "inf")


@EVERY_RECIPE
def test_a_table_that_was_exposed_earns_no_guarantee(recipe: type[Recipe]) -> None:
    table = open_table(PLAIN.table, schema=PLAIN.schema, budget=Budget(1.0), accept_unproven=True)
    table.expose("a look at the rows")
    release = recipe().run(table, rows=OUT)
    assert release.guarantee is Guarantee.NONE
    assert "a look at the rows" in release.certificate().assumptions


@EVERY_RECIPE
def test_no_row_is_left_in_a_release(recipe: type[Recipe]) -> None:
    """A value of one person is in nothing that the release holds: neither rows, nor model, nor schema."""
    canary = "canary-7391"
    words = pa.array(["common"] * (ROWS - 1) + [canary])
    case = PLAIN.with_column("word", words, kind="categorical", categories=["common"], open_ended=True)
    for known in (True, False):
        release = run(recipe, case, known=known, rows=2000)
        assert canary not in str(release.table.to_pydict())
        assert canary not in release.schema.to_toml()
        assert canary not in repr(release.model)
