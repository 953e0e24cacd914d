"""The laws of every proven recipe: it spends what it may, needs only sums, and no table, however poor, breaks it.

The laws are in `threea.testing`, for anyone to test a recipe by. Here they are asked of each that comes with the
library, and of values that hypothesis finds.
"""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from nasty import ROWS as NASTY_ROWS
from nasty import SCHEMA as NASTY_SCHEMA
from nasty import arrow as nasty_table
from quick import quick

import threea.recipes
from threea.anonymize.open_table import open_table
from threea.budget import Budget
from threea.certificate import Guarantee
from threea.errors import SettingError
from threea.framework import Recipe
from threea.recipes import DEFAULT, RECIPES
from threea.testing import CASES, LAWS, TABLE_LAWS, Case, SeededNoise, SilentNoise
from threea.testing.releases import OUT, run
from threea.testing.table_laws import needs_only_sums, survives

PROVEN = [quick(name) for name, recipe in RECIPES.items() if recipe().guarantee is Guarantee.PROVEN]
# Settings that change what is asked have laws of their own.
PROVEN.append(RECIPES["labeltree"](waves=0.5))


def named(recipe: Recipe) -> str:
    """Return what a recipe is called here."""
    return f"{recipe.name} with waves" if getattr(recipe, "waves", 0.0) else recipe.name


EVERY_RECIPE = pytest.mark.parametrize("recipe", PROVEN, ids=named)
# What `auto` picks for a table is among the others; its own laws are those of no table.
OTHERS = [recipe for recipe in PROVEN if recipe.name != DEFAULT]
# Networks are compiled anew for tables of another shape, which takes seconds: they are asked less. So is a second
# setting of one recipe.
ASKED_LESS = [recipe for recipe in OTHERS if "jax" in recipe.needs or named(recipe) != recipe.name]
SURVIVED = ("plain", "one row", "no target", "numeric target", "all missing", "nasty values")
EVERY_LAW = ("plain", "no target")
QUICKLY = pytest.mark.parametrize("recipe", [recipe for recipe in OTHERS if recipe not in ASKED_LESS], ids=named)


def asked(recipe: Recipe, name: str, law: Callable[..., Any]) -> bool:
    """Return whether a recipe is asked to keep a law of tables on one of them."""
    if name == "rules":
        return recipe not in ASKED_LESS and law in (survives, needs_only_sums)
    return recipe not in ASKED_LESS or name in (SURVIVED if law is TABLE_LAWS[0] else EVERY_LAW)


EVERY_TABLE = pytest.mark.parametrize(
    ("law", "recipe", "case"),
    [
        pytest.param(law, recipe, case, id=f"{law.__name__}-{name}-{named(recipe)}")
        for law in TABLE_LAWS
        for recipe in OTHERS
        for name, case in CASES.items()
        if asked(recipe, name, law)
    ],
)


def refused(recipe: Recipe, case: Case) -> bool:
    """Check that a recipe for numbers says so before it spends anything on a table without any; tell if it is one."""
    if recipe.name != "gaussians" or any(column.kind.numeric for column in case.schema.features):
        return False
    with pytest.raises(SettingError, match="numeric column"):
        run(recipe, case)
    return True


def test_every_recipe_is_listed_under_its_name() -> None:
    public = {
        kind
        for _, kind in inspect.getmembers(threea.recipes, inspect.isclass)
        if issubclass(kind, Recipe) and kind is not Recipe
    }
    assert set(RECIPES.values()) == public
    assert all(RECIPES[recipe.name] is recipe for recipe in public)
    assert DEFAULT in RECIPES
    assert DEFAULT in {recipe.name for recipe in PROVEN}


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_settings_have_defaults_that_are_values(recipe: type[Recipe]) -> None:
    assert recipe() == recipe()
    assert {field.name for field in dataclasses.fields(recipe)} == set(dataclasses.asdict(recipe()))


@EVERY_TABLE
def test_every_table_is_lawful(law: Callable[[Recipe, Case], Any], recipe: Recipe, case: Case) -> None:
    """Each law raises if it is broken; `survives` returns whether there was a release at all."""
    expected = False if refused(recipe, case) else True if law is TABLE_LAWS[0] else None
    if expected is not False or law is TABLE_LAWS[0]:
        assert law(recipe, case) is expected


@EVERY_RECIPE
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_every_recipe_is_lawful(recipe: Recipe, law: Callable[[Recipe], None]) -> None:
    """Each law raises if it is broken; that they can is shown in `tests/test_testing.py`."""
    law(recipe)


@QUICKLY
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
    recipe: Recipe, rows: list[Any], target: str | None, known: bool, loud: bool
) -> None:
    table = nasty_table(rows)
    if target is not None and table.column(target).null_count == len(rows):
        target = None
    noise = SeededNoise(1) if loud else SilentNoise()
    options = {"schema": NASTY_SCHEMA} if known else {"unit": "person"}
    opened = open_table(table, target=target, budget=Budget(1.0), noise=noise, **options)
    release = recipe.run(opened, rows=None if recipe.fixed else OUT)
    assert release.table.num_rows == (release.rows if recipe.fixed else OUT)
    assert release.table.schema.equals(table.schema)
