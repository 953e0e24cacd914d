"""A release made to be looked at by a law, and what every release must be like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from threea.anonymize.open_table import open_table
from threea.budget import Budget
from threea.framework import Recipe
from threea.release import Release
from threea.table import codec
from threea.table.schema import Column, Kind
from threea.testing.tables import PLAIN, Case

OUT = 60
"""How many rows a release has, where their number does not matter."""


def hold(condition: bool, otherwise: str) -> None:
    """Raise if a condition does not hold, even where assertions are switched off."""
    if not condition:
        raise AssertionError(otherwise)


def refuses(expected: type[Exception], what: str, act: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Return the error that an act must end in."""
    try:
        act(*arguments, **options)
    except expected as error:
        return error
    raise AssertionError(f"{what} is not refused")


def run(
    recipe: Recipe, case: Case, *, data: Any = None, known: bool = True, rows: int | str | None = OUT, **options: Any
) -> Release:
    """Open a table and make a release; without a number of rows where the recipe has one of its own."""
    described = {"schema": case.schema} if known else {"target": case.target}
    seed = options.pop("seed", None)
    options.setdefault("budget", Budget(1.0))
    table = open_table(case.table if data is None else data, **described, **options)
    return recipe.run(table, rows=None if is_fixed(recipe, case) else rows, seed=seed)


def is_fixed(recipe: Recipe, case: Case = PLAIN) -> bool:
    """Tell whether a recipe makes a set of rows of its own size of a table."""
    return recipe.chosen(case.schema)[0].fixed


def check_fits(release: Release, case: Case) -> None:
    """Check that rows came out, with the columns, order and types that went in and values the schema allows."""
    out = release.table
    hold(out.num_rows == release.rows >= 1, f"{out.num_rows} rows came out, not {release.rows}")
    hold(out.schema.equals(case.table.schema.remove_metadata()), "columns, their order or types are not those put in")
    out.validate(full=True)
    for column in release.schema.columns:
        values = out.column(column.name)
        hold(column.nullable or not values.null_count, f"column {column.name} may not be missing, and is")
        known = values.drop_null().to_pylist()
        if column.kind is Kind.ID:
            hold(len(set(known)) == len(out), f"column {column.name} does not name every row apart")
            hold(set(known).isdisjoint(case.table.column(column.name).to_pylist()), f"{column.name} holds private ids")
        else:
            wrong = [value for value in known if not _allowed(value, column)]
            hold(not wrong, f"column {column.name} holds {wrong[:1]}, which the schema does not allow")
    rows, columns = codec.encode(out, release.schema), {column.name: column for column in release.schema.valued}
    for rule in release.schema.rules:
        hold(not rule.broken(rows, columns).any(), f"a row breaks the rule {rule.text}")


def _allowed(value: Any, column: Column) -> bool:
    if column.kind is Kind.BOOLEAN:
        return value in (True, False, "true", "false")
    if column.kind.listed:
        return str(value) in {*column.categories, "other"}
    if column.kind.temporal:
        return True
    # A column may be stored in single precision, and its bounds are rounded with it.
    lower, upper = np.float32(column.lower or 0.0), np.float32(column.upper or 0.0)
    return bool(lower <= np.float32(value) <= upper) or float(value) in column.special
