"""Recipes that ask fewer of the same questions, so that laws over all of them take less time."""

from typing import Any

from threea.framework import Recipe
from threea.recipes import RECIPES

SETTINGS: dict[str, dict[str, Any]] = {
    "dpmix": {"points": 5},
    "dpmerf": {"features": 4, "iterations": 2, "batch": 4, "width": 4},
    "pategan": {"teachers": 5, "inputs": 20, "rounds": 1},
    "laplacegan": {"iterations": 2, "width": 2},
    "dpgan": {"epochs": 1.0, "rate": 0.5, "width": 3},
    "mst": {"bins": 8, "iterations": 10},
    "aim": {"bins": 8, "iterations": 10},
}


def quick(name: str, **settings: Any) -> Recipe:
    """Return a recipe by name, with settings that take little time, but for those that are given."""
    return RECIPES[name](**{**SETTINGS.get(name, {}), **settings})
