"""One paper or product recipe, one file, one screen."""

from __future__ import annotations

from threea.framework import Recipe
from threea.recipes.auto import Auto
from threea.recipes.clustmix import ClustMix
from threea.recipes.dpmix import DPMix
from threea.recipes.gaussians import GaussiansRecipe
from threea.recipes.independent import Independent
from threea.recipes.labeltree import LabelTreeRecipe

RECIPES: dict[str, type[Recipe]] = {
    recipe.name: recipe for recipe in (Auto, LabelTreeRecipe, GaussiansRecipe, Independent, ClustMix, DPMix)
}
"""Every recipe by name."""

DEFAULT = "auto"
"""What `threea release` runs when no recipe is named."""

__all__ = ["DEFAULT", "RECIPES", "Auto", "ClustMix", "DPMix", "GaussiansRecipe", "Independent", "LabelTreeRecipe"]
