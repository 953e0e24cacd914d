"""One paper or product recipe, one file, one screen."""

from __future__ import annotations

from threea.framework import Recipe
from threea.recipes.independent import Independent
from threea.recipes.labeltree import LabelTreeRecipe

RECIPES: dict[str, type[Recipe]] = {recipe.name: recipe for recipe in (Independent, LabelTreeRecipe)}
"""Every recipe by name."""

DEFAULT = "independent"
"""What `threea release` runs when no recipe is named."""

__all__ = ["DEFAULT", "RECIPES", "Independent", "LabelTreeRecipe"]
