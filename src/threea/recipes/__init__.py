"""One paper or product recipe, one file, one screen; each is loaded when it is first used.

`RECIPES` has every recipe by name, those without a proof too, which are in `threea.published`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threea.framework import Recipe
    from threea.published.adsgan import ADSGAN
    from threea.published.clustmix import ClustMixPublished
    from threea.published.dpmix import DPMixPublished
    from threea.published.laplacegan import LaplaceGANPublished
    from threea.published.mcgen import MCGenPublished
    from threea.published.pategan import PATEGANPublished
    from threea.published.rongauss import RonGaussPublished
    from threea.recipes.aim import AIM
    from threea.recipes.auto import Auto
    from threea.recipes.clustmix import ClustMix
    from threea.recipes.dpgan import DPGan
    from threea.recipes.dpmerf import DPMerf
    from threea.recipes.dpmix import DPMix
    from threea.recipes.gaussians import Gaussians
    from threea.recipes.independent import Independent
    from threea.recipes.labeltree import LabelTree
    from threea.recipes.laplacegan import LaplaceGAN
    from threea.recipes.mcgen import MCGen
    from threea.recipes.mst import MST
    from threea.recipes.noifs import NOIFS
    from threea.recipes.pategan import PATEGAN
    from threea.recipes.privbayes import PrivBayes
    from threea.recipes.rongauss import RonGauss

_HOMES = {
    "auto": ("threea.recipes.auto", "Auto"),
    "labeltree": ("threea.recipes.labeltree", "LabelTree"),
    "gaussians": ("threea.recipes.gaussians", "Gaussians"),
    "independent": ("threea.recipes.independent", "Independent"),
    "clustmix": ("threea.recipes.clustmix", "ClustMix"),
    "dpmix": ("threea.recipes.dpmix", "DPMix"),
    "privbayes": ("threea.recipes.privbayes", "PrivBayes"),
    "mcgen": ("threea.recipes.mcgen", "MCGen"),
    "noifs": ("threea.recipes.noifs", "NOIFS"),
    "rongauss": ("threea.recipes.rongauss", "RonGauss"),
    "pategan": ("threea.recipes.pategan", "PATEGAN"),
    "mst": ("threea.recipes.mst", "MST"),
    "aim": ("threea.recipes.aim", "AIM"),
    "dpgan": ("threea.recipes.dpgan", "DPGan"),
    "dpmerf": ("threea.recipes.dpmerf", "DPMerf"),
    "laplacegan": ("threea.recipes.laplacegan", "LaplaceGAN"),
    "clustmix-published": ("threea.published.clustmix", "ClustMixPublished"),
    "dpmix-published": ("threea.published.dpmix", "DPMixPublished"),
    "mcgen-published": ("threea.published.mcgen", "MCGenPublished"),
    "rongauss-published": ("threea.published.rongauss", "RonGaussPublished"),
    "laplacegan-published": ("threea.published.laplacegan", "LaplaceGANPublished"),
    "pategan-published": ("threea.published.pategan", "PATEGANPublished"),
    "adsgan": ("threea.published.adsgan", "ADSGAN"),
}
"""Module and class of each recipe."""

SUMMARIES: Mapping[str, str] = {
    "auto": "picks one of the others by the number and kind of columns",
    "labeltree": "a tree of features given the label, and a private teacher that labels its rows",
    "gaussians": "a Gaussian per class in a public basis; for images and hundreds of numeric columns",
    "independent": "each feature drawn given the label; simple, fast, hard to beat at small epsilon",
    "clustmix": "clusters within each class, adapted to the task, and mixtures of the rows around them",
    "dpmix": "noisy means of a few random rows each; for comparison",
    "privbayes": "a Bayesian network of all columns, chosen privately, with a noisy table for each",
    "mcgen": "feature sets, clusters of the rows in each, and a noisy Gaussian in each cluster",
    "noifs": "mcgen without feature sets: clusters of the rows in all features",
    "rongauss": "rows on the unit sphere, projected at random, and a noisy Gaussian per class",
    "pategan": "teachers on disjoint parts vote on generated rows; a student and a generator learn of it",
    "aim": "the tables of columns that a graphical model fits worst, one by one; general statistics",
    "mst": "a spanning tree of pairs of columns; general statistics, with or without a target",
    "dpgan": "a generator network trained against a critic with private gradients",
    "dpmerf": "a generator network fitted to a noisy mean embedding of each class",
    "laplacegan": "a generator network trained against a discriminator behind Laplace noise",
    "clustmix-published": "clustmix as in its paper, without a proof",
    "dpmix-published": "random mixing of a fixed number of rows, after its paper, without a proof",
    "mcgen-published": "mcgen as in its paper, or with the noise of its code, without a proof",
    "laplacegan-published": "a GAN with Laplace noise inside its discriminator, after its paper, which protects nobody",
    "pategan-published": "pategan as in its paper, without a proof",
    "adsgan": "a GAN that keeps away from the rows it imitates; no differential privacy",
    "rongauss-published": "a noisy Gaussian per class on a random subspace, after its paper, without a proof",
}
"""What each recipe does, in a line."""


class _Recipes(MutableMapping[str, "type[Recipe]"]):
    """Recipes by name; looking one up imports it and what it is made of."""

    def __init__(self) -> None:
        self._kinds: dict[str, type[Recipe] | None] = dict.fromkeys(_HOMES)

    def __getitem__(self, name: str) -> type[Recipe]:
        kind = self._kinds[name]
        if kind is None:
            home, attribute = _HOMES[name]
            kind = self._kinds[name] = getattr(importlib.import_module(home), attribute)
        return kind

    def __setitem__(self, name: str, recipe: type[Recipe]) -> None:
        self._kinds[name] = recipe

    def __delitem__(self, name: str) -> None:
        del self._kinds[name]

    def __contains__(self, name: object) -> bool:
        return name in self._kinds

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)


RECIPES: MutableMapping[str, type[Recipe]] = _Recipes()
"""Every recipe by name."""

DEFAULT = "auto"
"""What `threea release` runs when no recipe is named."""

__all__ = [
    "ADSGAN",
    "AIM",
    "DEFAULT",
    "MST",
    "NOIFS",
    "PATEGAN",
    "RECIPES",
    "SUMMARIES",
    "Auto",
    "ClustMix",
    "ClustMixPublished",
    "DPGan",
    "DPMerf",
    "DPMix",
    "DPMixPublished",
    "Gaussians",
    "Independent",
    "LabelTree",
    "LaplaceGAN",
    "LaplaceGANPublished",
    "MCGen",
    "MCGenPublished",
    "PATEGANPublished",
    "PrivBayes",
    "RonGauss",
    "RonGaussPublished",
]


def __getattr__(name: str) -> Any:
    for recipe, (_, kind) in _HOMES.items():
        if kind == name:
            return RECIPES[recipe]
    raise AttributeError(f"module 'threea.recipes' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
