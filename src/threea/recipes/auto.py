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
FEW, SOME = 40, 100
"""Columns of a table without a target up to which `aim`, and `mst`, are fast. Up to there they keep its statistics
best: docs/decisions/0015-thrown-out.md."""


@dataclass(frozen=True, kw_only=True)
class Auto(Recipe):
    """The default: `gaussians` for wide numeric tables, `labeltree` for all others with a target.

    Without a target `aim`, `mst` or `labeltree`, by the number of columns.

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
        if schema.target is None:
            return _without_target(len(schema.modelled))
        return LabelTree(), f"{numeric} numeric columns; below {WIDE}, a tree and a teacher do best"

    def __post_init__(self) -> None:
        """Check nothing: the recipe picked does."""

    @property
    def approximate(self) -> Approximation:
        """That of the recipe picked; there is none before."""
        raise NotImplementedError("auto has no stages of its own; ask chosen(schema)")


def _without_target(columns: int) -> tuple[Recipe, str]:
    """Return the recipe that keeps the statistics of so many columns best, of those that are fast enough."""
    from threea.recipes.aim import AIM
    from threea.recipes.mst import MST

    if columns <= FEW:
        return AIM(), f"no target, {columns} columns; up to {FEW}, aim keeps general statistics best"
    if columns <= SOME:
        return MST(), f"no target, {columns} columns; from {FEW} on aim is slow, and mst does best"
    return LabelTree(), f"no target, {columns} columns; from {SOME} on, a tree of features is fastest"
