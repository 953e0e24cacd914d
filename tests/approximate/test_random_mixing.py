"""Random mixing: what a row adds, what a mixture becomes, and how noisy it is."""

from __future__ import annotations

import datetime
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import threea
from threea.anonymize.accountant import Line
from threea.anonymize.events import Sampled
from threea.anonymize.plan import Plan
from threea.approximate.points import Points
from threea.approximate.random_mixing import MIXTURES, Coordinates, RandomMixing
from threea.budget import Budget
from threea.errors import SettingError
from threea.table.schema import Column, Kind, Schema
from threea.testing import SeededNoise, SilentNoise

LABEL = {"kind": "categorical", "categories": ["no", "yes", "never"], "nullable": False}
COLUMNS = [
    Column(name="c", kind=Kind.REAL, lower=-1.0, upper=2.0, special=(0.0, 999.0)),
    Column(name="c", kind=Kind.REAL, lower=0.5, upper=1e30, log=True, special=(0.0,), nullable=False),
    Column(name="c", kind=Kind.INTEGER, lower=4, upper=4),
    Column(name="c", kind=Kind.DATE, lower=18_000, upper=19_000),
    Column(name="c", kind=Kind.CATEGORICAL, categories=("x", "y", "z"), open_ended=True),
    Column(name="c", kind=Kind.CATEGORICAL, categories=("x",), nullable=False),
    Column(name="c", kind=Kind.CATEGORICAL, open_ended=True),
]


def fit(
    data: dict[str, Any],
    public: dict[str, Any],
    noise: Any,
    multiplier: float = 1.0,
    target: str = "label",
    **settings: Any,
) -> Points:
    """Fit with a plan that is priced by hand: what an epsilon buys is not the question here."""
    stage, budget = RandomMixing(**settings), Budget(1e4)
    rows = len(next(iter(data.values())))
    schema = Schema.of({"row": {"kind": "id"}} | public, target=target if target in public else None)
    table = threea.open_table(pa.table({"row": range(rows)} | data), schema=schema, budget=budget, noise=noise)
    (step,) = stage.steps(table.schema)
    return stage.fit(table, Plan(budget, (Line(step.name, Sampled(step.rate, multiplier), step.count),)))


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: f"{column.kind} {column.nullable}")
def test_a_column_adds_at_most_1_whatever_a_row_holds(column: Column) -> None:
    codes = np.arange(-1, len(column.categories) + column.open_ended)
    numbers = np.array([np.nan, -1e300, 1e300, 0.0, 0.3, 2.0, 999.0, 18_500.0, 4.0])
    found = Coordinates(column).vectors(codes if column.kind.listed else numbers)
    assert found.shape[1] == Coordinates(column).size
    assert (np.linalg.norm(found, axis=1) <= 1 + 1e-12).all()
    assert np.isfinite(found).all()


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: f"{column.kind} {column.nullable}")
def test_a_mixture_of_equal_rows_is_that_row(column: Column) -> None:
    """Whatever is drawn: shares are then 0 or 1."""
    coordinates, lower, upper = Coordinates(column), *Coordinates(column).bounds
    missing = [-1 if column.kind.listed else math.nan] if column.nullable else []
    values = np.array([lower, upper, *column.special, *missing])
    values = values.astype(np.int64) if column.kind.listed else values
    drawn = coordinates.draw(coordinates.vectors(values), np.random.default_rng(0))
    assert drawn.dtype == values.dtype
    np.testing.assert_allclose(drawn, values, rtol=1e-12)


def test_without_noise_a_mixture_is_its_class_mean() -> None:
    """Silent samples hold every row, so all mixtures of a class are its mean."""
    model = fit(
        {
            "number": [1.0, 2.0, 6.0, 8.0, 9.0],
            "size": [1.0, 100.0, 10.0, 10.0, 10.0],
            "day": [datetime.date(2020, 1, day) for day in (1, 3, 10, 11, 12)],
            "grade": ["a", "c", "c", "c", "c"],
            "label": ["no", "no", "yes", "yes", "yes"],
        },
        {
            "number": {"kind": "real", "lower": 0, "upper": 10, "nullable": False},
            "size": {"kind": "real", "lower": 1, "upper": 1000, "log": True, "nullable": False},
            "day": {"kind": "date", "lower": "2020-01-01", "upper": "2020-02-01", "nullable": False},
            "grade": {"kind": "ordinal", "categories": ["a", "b", "c"], "nullable": False},
            "label": LABEL,
        },
        SilentNoise(),
        multiplier=0.1,
        points=3,
    )
    first = (datetime.date(2020, 1, 1) - datetime.date(1970, 1, 1)).days
    assert model.size == 6
    points = model.chunk
    np.testing.assert_array_equal(points["label"], [0, 1] * 3)
    np.testing.assert_allclose(points["number"], [1.5, 23 / 3] * 3, rtol=1e-6)
    np.testing.assert_allclose(points["size"], [10.0, 10.0] * 3, rtol=1e-6)
    np.testing.assert_array_equal(points["day"], [first + 1, first + 10] * 3)
    np.testing.assert_array_equal(points["grade"], [1, 2] * 3)


def test_special_and_missing_values_are_as_frequent_as_in_the_mixtures() -> None:
    """Deterministic. Of 2,000 draws a share of a quarter is off by 0.04 about once in 3e4."""
    model = fit(
        {"cost": [0.0, None, 5.0, 7.0] * 50},
        {"cost": {"kind": "real", "lower": 1, "upper": 10, "special": [0.0]}},
        SilentNoise(),
        points=2_000,
    )
    cost = model.chunk["cost"]
    assert (cost == 0).mean() == pytest.approx(0.25, abs=0.04)
    assert np.isnan(cost).mean() == pytest.approx(0.25, abs=0.04)
    rest = cost[(cost != 0) & ~np.isnan(cost)]
    np.testing.assert_allclose(rest, 6.0, rtol=1e-6)


def test_points_spread_by_noise_and_by_who_is_mixed() -> None:
    """Seeded. 400 points tell a standard deviation to within 3.5%; it may be off by four times that."""
    rows, rate = 20_000, 0.01
    values = np.random.default_rng(0).uniform(-1, 1, rows)
    public = {"x": {"kind": "real", "lower": -1, "upper": 1, "nullable": False}}
    model = fit({"x": values}, public, SeededNoise(1), points=400, rate=rate)
    found = model.chunk["x"]
    mixed = rows * rate
    expected = math.sqrt(model.noise[MIXTURES] ** 2 / mixed**2 + values.var() / mixed)
    assert found.std() == pytest.approx(expected, rel=0.14)
    assert found.mean() == pytest.approx(values.mean(), abs=4 * expected / 20)


def test_a_class_that_is_no_more_than_noise_has_no_points() -> None:
    """Seeded; were it not, an empty class would show about once in 700."""
    data = {"x": [0.5] * 4_000, "label": ["no"] * 3_000 + ["yes"] * 1_000}
    public = {"x": {"kind": "real", "lower": 0, "upper": 1}, "label": LABEL}
    model = fit(data, public, SeededNoise(1), points=50, rate=0.02)
    assert set(model.chunk["label"]) == {0, 1}
    assert model.size == 100
    assert model.class_shares[0] == (0.5, pytest.approx(0.75, abs=0.05))
    assert model.class_shares[1] == (0.5, pytest.approx(0.25, abs=0.05))


def test_where_all_drowns_in_noise_every_class_has_points_and_no_ratio_is_claimed() -> None:
    data = {"x": [0.5], "label": ["no"]}
    public = {"x": {"kind": "real", "lower": 0, "upper": 1}, "label": LABEL}
    model = fit(data, public, SilentNoise(), multiplier=10.0, points=4)
    assert model.size == 12
    assert model.class_shares == {}


def test_a_number_to_predict_is_mixed_like_the_rest() -> None:
    public = {name: {"kind": "real", "lower": 0, "upper": 1} for name in "xy"}
    data = {"x": [0.0, 1.0] * 500, "y": [0.25, 0.5] * 500}
    model = fit(data, public, SilentNoise(), target="y", points=2)
    np.testing.assert_allclose(model.chunk["y"], 0.375, rtol=1e-6)


def test_classes_far_apart_can_be_told_from_the_points() -> None:
    """Seeded: a row is given the label of the nearest point."""
    rng = np.random.default_rng(3)
    label = rng.integers(0, 2, 5_000)
    values = np.clip(rng.normal(0, 0.15, (5_000, 4)) + np.where(label, 0.3, -0.3)[:, None], -1, 1)
    names = [f"x{place}" for place in range(4)]
    data = dict(zip(names, values.T, strict=True)) | {"label": np.where(label, "yes", "no")}
    public = {name: {"kind": "real", "lower": -1, "upper": 1, "nullable": False} for name in names}
    model = fit(data, public | {"label": LABEL}, SeededNoise(0), points=50, rate=0.01)
    points = model.chunk
    made = np.column_stack([points[name] for name in names])
    nearest = ((values[:, None, :] - made[None]) ** 2).sum(axis=2).argmin(axis=1)
    assert (points["label"][nearest] == label).mean() > 0.95


def test_it_plans_one_sample_per_point() -> None:
    stage = RandomMixing(points=7, rate=0.25)
    (line,) = Plan.calibrate(Budget(1.0), stage.steps(Schema.of({"x": {"kind": "boolean"}}))).lines
    assert line.count == 7
    assert isinstance(line.event, Sampled)
    assert line.event.rate == 0.25


def test_samples_are_of_its_own_rows() -> None:
    public = {"x": {"kind": "real", "lower": 0, "upper": 1, "nullable": False}}
    model = fit({"x": [0.5] * 9}, public, SeededNoise(2), points=3)
    assert set(model.sample(50, np.random.default_rng(0))["x"]) <= set(model.chunk["x"])


@pytest.mark.parametrize("settings", [{"points": 0}, {"points": 1.5}, {"rate": 0.0}, {"rate": 1.1}])
def test_settings_out_of_bounds_are_refused(settings: dict[str, Any]) -> None:
    ((name, value),) = settings.items()
    with pytest.raises(SettingError, match=rf"^{name} \({value}\) must be"):
        RandomMixing(**settings)
