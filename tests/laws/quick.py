"""Recipes that ask fewer of the same questions, so that laws over all of them take less time."""

from typing import Any

from threea.framework import Recipe
from threea.recipes import RECIPES

SETTINGS: dict[str, dict[str, Any]] = {
    "dpmix": {"points": 5},
    "mst": {"bins": 8, "iterations": 10},
    "aim": {"bins": 8, "iterations": 10},
}


def quick(name: str) -> Recipe:
    """Return a recipe by name, with settings that take little time."""
    return RECIPES[name](**SETTINGS.get(name, {}))
