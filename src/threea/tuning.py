"""Choosing a recipe privately: several are tried on parts of the budget, and the best by its published score is kept.

Everything they ask is one plan, fixed and priced before the first answer; which of them is kept follows from noisy
answers, and costs nothing more (docs/proofs/tuning.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Plan
from threea.describe import discover
from threea.errors import SettingError
from threea.framework import Recipe
from threea.pricing import prefix_of
from threea.progress import Progress
from threea.release import Release
from threea.score import Tried
from threea.scoring import scored
from threea.table.schema import Schema

CANDIDATES = ("auto", "independent", "mst", "privbayes")
"""What is tried, in this order, beside the recipe asked for."""
MOST = len(CANDIDATES)
SCORE = 0.1
"""The share of the budget that scores take if none is said."""
LOWER_IS_BETTER = ("log_loss", "mae")


def candidates(asked: Recipe, count: int, known: Mapping[str, type[Recipe]], schema: Schema) -> tuple[Recipe, ...]:
    """Return so many different recipes for tables of a schema, the one asked for first.

    Raises:
        SettingError: The number is out of bounds, or there are not so many.
    """
    if not isinstance(count, int) or not 2 <= count <= MOST:
        raise SettingError(f"tune ({count}) must be a whole number of recipes to try, from 2 to {MOST}")
    found: dict[str, Recipe] = {}
    for recipe in (asked, *(known[name]() for name in CANDIDATES)):
        chosen = recipe.chosen(schema)[0]
        if not chosen.fixed:
            found.setdefault(chosen.name, chosen)
    if len(found) < count:
        raise SettingError(f"tune ({count}) is more than the recipes there are for this table ({len(found)})")
    return tuple(found.values())[:count]


def tuned(
    recipes: tuple[Recipe, ...],
    table: PrivateTable,
    plan: Plan,
    *,
    rows: int | str | None,
    seed: int | None,
    balance: bool,
    progress: Progress | None = None,
) -> Release:
    """Make a release by each recipe from its part of a plan, and keep the one with the best score.

    Guarantees:
        - All looks at the rows, of recipes kept or not, are in the plan, in the ledger and in the certificate.

    Cost:
        The whole plan.
    """
    if discover.steps(table.schema):
        table = discover.discover(table, plan)
    made = []
    for recipe in recipes:
        part = plan.part(prefix_of(recipe))
        release = replace(recipe.run(table, rows=rows, seed=seed, plan=part, progress=progress), balance=balance)
        made.append(scored(release, recipe, table, part))
    best = max(made, key=_worth)
    tried = tuple(Tried(each.recipe, *_main(each)) for each in made)
    return replace(best, plan=plan, spent=table.spent(plan), ledger_head=table.ledger_head, tried=tried)


def _main(release: Release) -> tuple[str, float | None, float | None]:
    figures = release.score.figures if release.score else ()
    return (figures[0].name, figures[0].value, figures[0].margin) if figures else ("", None, None)


def _worth(release: Release) -> float:
    """Return what recipes are compared by: the main figure of the score, the larger the better."""
    name, value, _ = _main(release)
    if value is None:
        return -math.inf
    return -value if name in LOWER_IS_BETTER else value
