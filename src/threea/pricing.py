"""What is checked before a recipe may ask anything, and what its questions cost together."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from threea.anonymize.door import PrivateTable
from threea.anonymize.events import Gaussian, Pure
from threea.anonymize.plan import Plan, Step
from threea.certificate import Guarantee
from threea.describe import calendar_effects, discover
from threea.drawing import SAME
from threea.errors import MissingExtra, SettingError

if TYPE_CHECKING:
    from threea.anonymize.open_tables import LinkedTables
    from threea.framework import Recipe

SCORE = "score"
"""The line that pays for a score."""
PARENTS, CHILDREN = "parents: ", "children: "
"""What the lines of a plan for two tables begin with."""


def check_sampling(recipe: Recipe, rows: int | str | None, seed: int | None) -> None:
    """Refuse a number of synthetic rows, or a seed, that cannot be.

    Raises:
        SettingError: One is not a whole number in its bounds, or the recipe's rows have a number of their own.
    """
    check_numbers(None if rows == SAME else rows, seed)
    if rows is not None and recipe.fixed:
        raise SettingError(f"rows ({rows}) cannot be chosen with {recipe.name} so set: it makes a number of its own")


def check_numbers(rows: int | str | None, seed: int | None) -> None:
    """Refuse what is no number of rows, or no seed.

    Raises:
        SettingError: One is not a whole number in its bounds.
    """
    if rows is not None and (not isinstance(rows, int) or rows < 1):
        raise SettingError(f"rows ({rows}) must be a whole number, at least 1")
    if seed is not None and (not isinstance(seed, int) or seed < 0):
        raise SettingError(f"seed ({seed}) must be a whole number, at least 0")


def priced(recipe: Recipe, table: PrivateTable, score: float = 0.0) -> Plan:
    """Price the steps of both stages, and of finding the schema where there is none, to use up the table's budget.

    Args:
        recipe: What will run.
        table: What it will ask.
        score: The share of the budget that measures what the release is worth.

    Raises:
        SettingError: It reads the rows without a proof, and the table was not opened to allow that.
        MissingExtra: Something that it needs is not installed.
    """
    found = discover.steps(table.schema)
    own = [*found, *_weighing(_steps(recipe, table), 1 - discover.SHARE if found else 1.0)]
    if score:
        own = [*_weighing(own, 1 - score), _score_step(score, table)]
    return Plan.calibrate(table.budget, own, recipe=recipe.name)


def priced_linked(recipe: Recipe, tables: LinkedTables, children: Sequence[Step], share: float, child: str) -> Plan:
    """Price what a recipe asks of the parents and what is asked of their children, to use up the one budget.

    Args:
        recipe: What will run on the parents.
        tables: What is asked.
        children: What is asked of the children.
        share: Of the budget, for the children.
        child: The name of the recipe that asks it.
    """
    parts = ((PARENTS, _steps(recipe, tables.parents), 1 - share), (CHILDREN, children, share))
    weighed = ((prefix, step) for prefix, own, total in parts for step in _weighing(own, total))
    steps = [replace(step, name=f"{prefix}{step.name}") for prefix, step in weighed]
    return Plan.calibrate(tables.parents.budget, steps, recipe=f"{recipe.name}, children by {child}")


def _steps(recipe: Recipe, table: PrivateTable) -> tuple[Step, ...]:
    """Return what a recipe will ask, if it may and can."""
    if recipe.guarantee is not Guarantee.PROVEN and not table.accepts_unproven:
        raise SettingError(f"{recipe.name} so set has no proof; pass --accept-unproven to allow it")
    for module, extra in recipe.needs.items():
        if importlib.util.find_spec(module) is None:
            raise MissingExtra(module, extra)
    steps = recipe.approximate.steps(table.schema) + (recipe.adapt.steps(table.schema) if recipe.adapt else ())
    # What is not drawn from a model, or reads the rows without a proof, has no bins to draw days in.
    drawn = recipe.guarantee is Guarantee.PROVEN and not recipe.fixed
    return calendar_effects.steps(table.schema, steps) if drawn else steps


def _weighing(steps: Sequence[Step], total: float) -> list[Step]:
    scale = total / sum(step.weight for step in steps)
    return [replace(step, weight=step.weight * scale) for step in steps]


def _score_step(share: float, table: PrivateTable) -> Step:
    return Step(name=SCORE, weight=share, kind=Gaussian if table.budget.delta else Pure)
