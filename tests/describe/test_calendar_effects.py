"""Weekdays, months and times of day that stand out are kept; those that do not are left alone."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from threea.anonymize.open_table import open_table
from threea.anonymize.query import Answer
from threea.budget import Budget
from threea.describe import calendar_effects
from threea.describe.calendar_effects import CALENDAR, FALSE_ALARM
from threea.framework import Recipe
from threea.ledger import Ledger
from threea.model_file import load_release
from threea.model_summary import Histogram
from threea.recipes import MST, Gaussians, Independent, LabelTree, PrivBayes
from threea.release import Release
from threea.report import render
from threea.table.calendar_cells import LABELS, MONTH, PER_DAY, TIME, WEEKDAY, CalendarCells
from threea.table.schema import Kind, Schema
from threea.testing import CASES, SeededNoise

ROWS = 20_000
FIRST = datetime.date(2021, 1, 1)
DAYS = np.arange((FIRST - datetime.date(1970, 1, 1)).days, (FIRST - datetime.date(1970, 1, 1)).days + 3 * 365)
BOUNDS = {"lower": "2021-01-01", "upper": "2023-12-31"}
WIDE = {"lower": "1950-01-01", "upper": "2049-12-31"}
PUBLIC: dict[str, dict[str, Any]] = {
    "admitted": {"kind": "date", **WIDE},
    "chosen": {"kind": "date", **BOUNDS},
    "called": {"kind": "datetime", **BOUNDS},
    "dated": {"kind": "datetime", **BOUNDS},
    "age": {"kind": "integer", "lower": 0, "upper": 99},
    "died": {"kind": "boolean", "nullable": False},
}
SCHEMA = Schema.of(PUBLIC, "died")
WEEKEND, WINTER, NIGHT = (5, 6), (11, 0, 1), tuple(range(8))


def part_of(values: np.ndarray, part: str, *, moments: bool = False) -> np.ndarray:
    return CalendarCells(column="any", part=part, moments=moments).index(values)


def stays(seed: int = 0) -> pa.Table:
    """Return stays that begin on weekdays, mostly in winter; days chosen evenly; calls by day; dates as moments."""
    rng = np.random.default_rng(seed)
    winter = np.where(np.isin(part_of(DAYS, MONTH), WINTER), 2.5, 1.0)
    weekend = np.isin(part_of(DAYS, WEEKDAY), WEEKEND)
    usual = np.where(weekend, 0.05 * winter / winter[weekend].sum(), 0.95 * winter / winter[~weekend].sum())
    hours = rng.choice(24, ROWS, p=np.repeat([0.01, 0.085, 0.01], [7, 10, 7]) / 0.99)
    age = rng.integers(0, 100, ROWS)
    chosen = rng.choice(DAYS, ROWS)

    def dates(days: np.ndarray) -> pa.Array:
        return pa.array(days.astype(np.int32)).cast(pa.date32())

    return pa.table(
        {
            "admitted": pc.if_else(pa.array(rng.random(ROWS) < 0.1), None, dates(rng.choice(DAYS, ROWS, p=usual))),
            "chosen": dates(chosen),
            "called": pa.array(rng.choice(DAYS, ROWS) * PER_DAY + hours * PER_DAY // 24 + rng.integers(1, 10**9, ROWS)),
            "dated": pa.array(rng.choice(DAYS, ROWS) * PER_DAY),
            "age": age,
            "died": rng.random(ROWS) < 0.1 + 0.002 * age,
        }
    )


STAYS = stays().cast(
    pa.schema(
        [
            ("admitted", pa.date32()),
            ("chosen", pa.date32()),
            ("called", pa.timestamp("us")),
            ("dated", pa.timestamp("us")),
            ("age", pa.int64()),
            ("died", pa.bool_()),
        ]
    )
)


def released(recipe: Recipe, **options: Any) -> Release:
    options = {"schema": SCHEMA, "budget": Budget(1.0), "noise": SeededNoise(0), **options}
    return recipe.run(open_table(STAYS, **options), rows=ROWS, seed=0)


def share(rows: pa.Table, column: str, part: str, among: tuple[int, ...]) -> float:
    """Return the share of a column's dates in some cells of a part of the calendar."""
    moments = pa.types.is_timestamp(rows[column].type)
    known = rows[column].drop_null().cast(pa.int64() if moments else pa.int32()).to_numpy()
    return float(np.isin(part_of(known, part, moments=moments), among).mean())


@pytest.fixture(scope="module")
def release() -> Release:
    return released(LabelTree())


def weighed(release: Release) -> dict[str, set[str]]:
    return {calendar.cells.column: set(calendar.weights) for calendar in release.calendars}


def test_what_stands_out_is_kept_and_what_does_not_is_left_alone(release: Release) -> None:
    """Noise and rows are of fixed seeds; of other noise, each of the empty sets has an alarm once in 1000."""
    assert weighed(release) == {
        "admitted": {WEEKDAY, MONTH},
        "chosen": set(),
        "called": {TIME},
        "dated": {TIME},
    }
    made = release.table
    assert share(STAYS, "admitted", WEEKDAY, WEEKEND) == pytest.approx(0.05, abs=0.005)
    for column, part, among in (
        ("admitted", WEEKDAY, WEEKEND),
        ("admitted", MONTH, WINTER),
        ("chosen", WEEKDAY, WEEKEND),
        ("called", TIME, NIGHT),
    ):
        assert share(made, column, part, among) == pytest.approx(share(STAYS, column, part, among), abs=0.03)
    assert share(made, "dated", TIME, (0,)) == 1.0


@pytest.mark.parametrize("recipe", [Independent(), MST(iterations=50), PrivBayes(), Gaussians()], ids=lambda r: r.name)
def test_any_recipe_that_draws_rows_keeps_weekdays(recipe: Recipe) -> None:
    made = released(recipe).table
    assert share(made, "admitted", WEEKDAY, WEEKEND) == pytest.approx(0.05, abs=0.03)
    assert share(made, "admitted", MONTH, WINTER) == pytest.approx(share(STAYS, "admitted", MONTH, WINTER), abs=0.04)


def test_without_a_schema_dates_are_found_and_keep_their_weekdays() -> None:
    made = released(LabelTree(), schema=None, target="died")
    assert made.schema["admitted"].kind is Kind.DATE
    assert share(made.table, "admitted", WEEKDAY, WEEKEND) == pytest.approx(0.05, abs=0.03)


def test_missing_values_conditions_and_files_keep_working(release: Release, tmp_path: Path) -> None:
    assert release.table["admitted"].null_count / ROWS == pytest.approx(0.1, abs=0.02)
    first, last = datetime.date(2022, 1, 3), datetime.date(2022, 6, 29)
    release.save(tmp_path / "out")
    loaded = load_release(tmp_path / "out")
    given = {"admitted": (first, last), "died": True}
    rows = loaded.sample(3_000, given, seed=1)
    assert rows.equals(release.sample(3_000, given, seed=1))
    assert first <= pc.min(rows["admitted"]).as_py() <= pc.max(rows["admitted"]).as_py() <= last
    assert share(rows, "admitted", WEEKDAY, WEEKEND) < 0.1
    weekend = {"admitted": (datetime.date(2022, 1, 8), datetime.date(2022, 1, 9))}
    assert share(loaded.sample(100, weekend, seed=1), "admitted", WEEKDAY, WEEKEND) == 1.0


def test_the_report_says_what_dates_are_drawn_by(release: Release) -> None:
    page = render(release, release.certificate(), release.table.slice(0, 100))
    assert page.count("; drawn by weekday and by month") == 1
    assert page.count("; drawn by time of day") == 2


def test_dates_within_bins_that_are_drawn_evenly_rarely_stand_out() -> None:
    """Of 900 tests at 1 in 1000, more than 6 alarms have a probability of 0.0001; seeds are fixed besides."""
    alarms, trials = 0, 300
    column = SCHEMA["called"]
    cells = column.cells(40)
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        rows = np.floor(rng.uniform(cells.edges[0], cells.edges[-1], 2_000))
        counts = np.bincount(cells.index(rows), minlength=cells.size) + rng.normal(0, 20, cells.size)
        model = np.maximum(counts, 0.0)
        drawn = cells.draw(rng.choice(cells.size, 1 << 14, p=model / model.sum()), rng)
        answers = {}
        for part in LABELS:
            exact = np.bincount(part_of(rows, part, moments=True), minlength=len(LABELS[part]))
            answers[part] = Answer(exact + rng.normal(0, 30, len(exact)), 30.0)
        found = calendar_effects.fitted(column, Histogram(cells, counts, 20.0), drawn, answers)
        alarms += len(found.weights)
    assert FALSE_ALARM == 0.001
    assert alarms <= 6


def test_a_table_without_dates_has_the_plan_of_its_recipe_alone() -> None:
    plain = Schema.of({name: public for name, public in PUBLIC.items() if name in ("age", "died")}, "died")
    for recipe in (LabelTree(), Independent()):
        own = recipe.approximate.steps(plain) + (recipe.adapt.steps(plain) if recipe.adapt else ())
        assert calendar_effects.steps(plain, own) == own
        table = open_table(STAYS.select(["age", "died"]), schema=plain, budget=Budget(1.0))
        assert [line.name for line in recipe.plan(table).lines] == [step.name for step in own]


def test_a_finite_set_of_rows_has_no_days_to_draw() -> None:
    class Finite(Independent):
        fixed = True

    table = open_table(STAYS, schema=SCHEMA, budget=Budget(1.0))
    planned = [[line.name for line in recipe.plan(table).lines] for recipe in (Independent(), Finite())]
    assert planned == [[*planned[1], CALENDAR], planned[1]]


def test_without_a_delta_dates_are_counted_under_laplace_noise() -> None:
    ledger = Ledger()
    case = CASES["plain"]
    table = open_table(case.table, schema=case.schema, budget=Budget(2.0, 0.0), ledger=ledger)
    made = PrivBayes(noise="laplace").run(table, rows=10)
    assert {line.name: type(line.event).__name__ for line in made.spent}[CALENDAR] == "Pure"
    assert made.accounted_epsilon <= 2.0


def test_dates_over_too_many_years_are_left_out() -> None:
    """Whether there is a table of its days is decided by the bounds alone."""
    for lower, asked in (("1500-01-01", True), ("0001-01-01", False)):
        schema = Schema.of({"a": {"kind": "date", "lower": lower, "upper": "2099-12-31"}})
        planned = calendar_effects.steps(schema, Independent().approximate.steps(schema))
        assert (planned[-1].name == CALENDAR) == asked
