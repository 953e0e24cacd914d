"""`auto`: picks a recipe by what is public about a table, and says why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from threea.framework import Approximation, Recipe
from threea.recipes.gaussians import Gaussians
from threea.recipes.labeltree import LabelTree
from threea.table.schema import Kind, Schema

WIDE = 200
"""From so many numeric features on, a tree of pairs is too slow and too thin, and Gaussians do better."""


@dataclass(frozen=True, kw_only=True)
class Auto(Recipe):
    """The default: `gaussians` for wide numeric tables, `labeltree` for all others.

    Example:
        >>> Auto()
        Auto()
    """

    name: ClassVar[str] = "auto"
    summary: ClassVar[str] = "picks one of the others by the number and kind of columns"

    def chosen(self, schema: Schema) -> tuple[Recipe, str]:
        """Return the recipe for tables of this schema, and why it."""
        # A column whose type nothing declares is most likely a number where so many stand side by side.
        numeric = sum(column.kind.numeric or column.kind is Kind.UNDECLARED for column in schema.features)
        if numeric >= WIDE:
            return Gaussians(), f"{numeric} numeric columns; from {WIDE} on, Gaussians do better than a tree"
        return LabelTree(), f"{numeric} numeric columns; below {WIDE}, a tree and a teacher do best"

    @property
    def approximate(self) -> Approximation:
        """That of the recipe picked; there is none before."""
        raise NotImplementedError("auto has no stages of its own; ask chosen(schema)")
