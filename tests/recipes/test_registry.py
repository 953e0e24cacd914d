"""Recipes by name: listed without being loaded, and the same ones however they are reached."""

import dataclasses
import subprocess
import sys

import pytest

import threea.recipes
from threea.certificate import Guarantee
from threea.recipes import DEFAULT, RECIPES, SUMMARIES

HEAVY = ("jax", "optax", "sklearn", "lightgbm", "optuna", "scipy", "numpy", "threea.framework", "threea.published")


def loaded(statements):
    """Return which heavy modules a fresh interpreter has after some statements."""
    code = f"{statements}\nimport sys\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_listing_recipes_loads_none_of_what_they_are_made_of():
    listing = "import threea.recipes as r; assert len(list(r.RECIPES)) == len(r.SUMMARIES) and r.DEFAULT in r.RECIPES"
    assert loaded(listing) == []


def test_a_proven_recipe_loads_no_published_method_and_no_extra():
    found = loaded("from threea.recipes import ClustMix, Auto; ClustMix(), Auto()")
    assert "threea.framework" in found
    assert not {"jax", "optax", "sklearn", "lightgbm", "optuna", "threea.published"} & set(found)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_has_the_name_and_summary_that_it_is_listed_by(name):
    recipe = RECIPES[name]
    assert recipe.name == name
    assert recipe.summary == SUMMARIES[name]
    assert getattr(threea.recipes, recipe.__name__) is recipe
    assert recipe.__name__ in threea.recipes.__all__
    assert recipe.__name__ in dir(threea.recipes)


@pytest.mark.parametrize("name", RECIPES)
def test_a_name_says_whether_there_is_a_proof(name):
    """But for `adsgan`, which promises nothing, so that there is no other form of it."""
    unproven = name.endswith("-published") or name == "adsgan"
    assert (RECIPES[name]().guarantee is not Guarantee.PROVEN) == unproven
    assert RECIPES[name].__module__.startswith("threea.published.") == unproven
    assert "mode" not in {field.name for field in dataclasses.fields(RECIPES[name])}


def test_names_that_are_none_are_refused():
    assert DEFAULT == "auto"
    assert "clustmax" not in RECIPES
    with pytest.raises(KeyError):
        RECIPES["clustmax"]
    with pytest.raises(AttributeError, match="ClustMax"):
        _ = threea.recipes.ClustMax
