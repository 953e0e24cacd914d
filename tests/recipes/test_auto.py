"""What `auto` picks, and how it says so."""

import dataclasses

import pyarrow as pa
import pytest

from threea import hospital
from threea.recipes import AIM, MST, RECIPES, Auto, Gaussians, LabelTree
from threea.recipes.auto import FEW, SOME, WIDE
from threea.session import synthesize
from threea.table.schema import Schema


def wide(columns: int) -> Schema:
    numbers = {f"n{place}": {"kind": "real", "lower": 0, "upper": 1} for place in range(columns)}
    return Schema.of(numbers | {"label": {"kind": "boolean"}}, target="label")


@pytest.mark.parametrize(("columns", "picked"), [(WIDE - 1, LabelTree), (WIDE, Gaussians)])
def test_it_picks_by_the_number_of_numeric_columns_and_says_why(columns: int, picked: type) -> None:
    recipe, reason = Auto().chosen(wide(columns))
    assert isinstance(recipe, picked)
    assert str(columns) in reason


@pytest.mark.parametrize(("columns", "picked"), [(FEW, AIM), (FEW + 1, MST), (SOME, MST), (SOME + 1, LabelTree)])
def test_without_a_target_it_picks_what_keeps_statistics_best(columns: int, picked: type) -> None:
    recipe, reason = Auto().chosen(dataclasses.replace(wide(columns - 1), target=None))
    assert isinstance(recipe, picked)
    assert "no target" in reason


def test_the_certificate_names_the_recipe_that_ran() -> None:
    release = synthesize(hospital.stays(300), schema=hospital.schema(), epsilon=1.0, rows=10)
    assert release.certificate().recipe == "labeltree"
    assert release.plan.recipe == "labeltree"


def test_a_recipe_that_picks_none_is_itself() -> None:
    for name, recipe in RECIPES.items():
        if name != "auto":
            assert recipe().chosen(hospital.schema())[0] == recipe()


def test_a_wide_table_is_released() -> None:
    schema = wide(WIDE)
    table = pa.table({column.name: [0.25, 0.75] * 30 for column in schema.features} | {"label": [True, False] * 30})
    assert synthesize(table, schema=schema, epsilon=1.0).table.num_columns == WIDE + 1
