"""From a private table to a release, in two steps: everything decided and priced, then spent.

`prepare` checks all that can be known before the first charge and returns a `Prepared`, which prints as the receipt.
`Prepared.run` spends and returns a `Release`. The command line, Python and whatever else makes releases use these two.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

from threea.anonymize.door import PrivateTable
from threea.anonymize.ledger import Ledger
from threea.anonymize.open_table import open_table
from threea.anonymize.plan import Plan
from threea.budget import Adjacency, Budget
from threea.errors import SettingError, outcome, stated
from threea.framework import Progress, Recipe
from threea.pricing import check_sampling
from threea.receipt import receipt
from threea.recipes import DEFAULT, RECIPES
from threea.release import Release
from threea.table.schema import Schema


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A release before anything is spent: what will be asked, by which recipe, at what price.

    Args:
        recipe: The recipe that will run.
        reason: Why it, if it was picked for this table; else empty.
        table: The private table, opened.
        plan: What it will ask, priced.
        rows: How many synthetic rows; None for the default.
        seed: Of sampling.
        remembered: Whether a ledger will remember the spending.
    """

    recipe: Recipe
    reason: str
    table: PrivateTable
    plan: Plan
    rows: int | None
    seed: int | None
    remembered: bool

    def run(self, progress: Progress | None = None) -> Release:
        """Spend, and make the release.

        Cost:
            The whole budget, written to the ledger before the first answer.
        """
        with outcome(lambda: stated(charged=self.table.charged, written=False)):
            return self.recipe.run(self.table, rows=self.rows, seed=self.seed, plan=self.plan, progress=progress)

    def __str__(self) -> str:
        """Return the receipt: what will be asked, of whom, under which promise."""
        return receipt(self.recipe, self.reason, self.table, self.plan, self.rows, remembered=self.remembered)


def prepare(
    data: Any,
    *,
    epsilon: float,
    delta: float = 1e-6,
    target: str | None = None,
    schema: Schema | str | PathLike[str] | None = None,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
    recipe: Recipe | str = DEFAULT,
    rows: int | None = None,
    seed: int | None = None,
    ledger: Ledger | str | PathLike[str] | None = None,
    dataset: str = "unnamed",
    cap: float | None = None,
    new_ledger: bool = False,
    unit: str | None = None,
    max_rows_per_unit: int = 1,
    accept_unproven: bool = False,
) -> Prepared:
    """Decide and price everything about a release. Nothing is spent.

    Args:
        data: A path to CSV or Parquet (a file or a folder), or a pandas, polars or Arrow table.
        epsilon: Bound on the privacy loss.
        delta: Probability with which the bound may fail; well under one in the number of rows.
        target: The column that models will learn to predict.
        schema: The table's public description, or the path of one; found through the private table, from the same
            budget, if not given.
        adjacency: ``add-remove`` or ``replace``.
        recipe: A recipe, or the name of one.
        rows: How many synthetic rows; the noisy number of private ones by default.
        seed: Makes sampling repeatable. Noise cannot be seeded.
        ledger: Where spending is written down.
        dataset: The owner's name for the rows, in the ledger.
        cap: What all releases of this dataset together may cost, in epsilon.
        new_ledger: Make the ledger. With a cap, one that does not exist is otherwise taken for a mistyped path.
        unit: The column that names the person to protect; every row is one by default.
        max_rows_per_unit: How many rows of one person count.
        accept_unproven: Whether published methods without a proof may read the rows.

    Returns:
        What can be looked at, then run; ``print(prepared)`` is the receipt.

    Example:
        >>> from threea import hospital
        >>> prepared = prepare(hospital.stays(500), schema=hospital.schema(), epsilon=1.0, recipe="independent")
        >>> print(prepared)  # doctest: +ELLIPSIS
        Recipe independent for died (2 classes): epsilon 1, delta 1e-06, add-remove...
    """
    asked = recipe if isinstance(recipe, Recipe) else make_recipe(recipe)
    check_sampling(asked, rows, seed)
    table = open_table(
        data,
        budget=Budget(epsilon, delta, adjacency),  # type: ignore[arg-type]  # Budget reads text, too
        schema=schema if schema is None or isinstance(schema, Schema) else Schema.load(schema),
        target=target,
        ledger=ledger,
        dataset=dataset,
        cap=cap,
        new_ledger=new_ledger,
        unit=unit,
        max_rows_per_unit=max_rows_per_unit,
        accept_unproven=accept_unproven,
    )
    chosen, reason = asked.chosen(table.schema)
    return Prepared(
        recipe=chosen,
        reason=f"picked by {asked.name}: {reason}" if reason else "",
        table=table,
        plan=chosen.plan(table),
        rows=rows,
        seed=seed,
        remembered=ledger is not None,
    )


def synthesize(data: Any, *, epsilon: float, progress: Progress | None = None, **options: Any) -> Release:
    """Make a synthetic training set from a private table, in one call.

    Guarantees:
        - With a proven recipe, the release is (epsilon, delta)-differentially private for each unit.

    Cost:
        (epsilon, delta), written to the ledger before the first answer.

    Args:
        data: A path to CSV or Parquet (a file or a folder), or a pandas, polars or Arrow table.
        epsilon: Bound on the privacy loss.
        progress: Told which stage begins, how much is done, and of how much.
        options: As of `prepare`.

    Returns:
        The release; ``release.frame`` is a table of the kind that came in.

    Example:
        >>> from threea import hospital
        >>> release = synthesize(hospital.stays(500), schema=hospital.schema(), epsilon=1.0, rows=100)
        >>> release.frame.num_rows, str(release.guarantee)
        (100, 'proven')
    """
    return prepare(data, epsilon=epsilon, **options).run(progress)


def make_recipe(name: str, settings: Mapping[str, str] | None = None) -> Recipe:
    """Make a recipe from its name and settings given as text.

    Raises:
        SettingError: No such recipe or setting, or a value that it cannot have.

    Example:
        >>> make_recipe("independent", {"bins": "16"})
        Independent(bins=16)
    """
    if name not in RECIPES:
        raise SettingError(f"recipe ({name}) is unknown; {_nearest(name, RECIPES)}")
    recipe = RECIPES[name]
    fields = {field.name: field for field in dataclasses.fields(recipe)}
    values = {}
    for key, text in (settings or {}).items():
        if key not in fields:
            raise SettingError(f"setting ({key}) is unknown to {name}; {_nearest(key, fields)}")
        values[key] = _parsed(key, text, type(fields[key].default))
    return recipe(**values)


def _nearest(word: str, known: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    guess = f"did you mean {close[0]}? " if close else ""
    return f"{guess}known: {', '.join(known) or 'none'}"


def _parsed(key: str, text: str, kind: type[Any]) -> Any:
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise SettingError(f"setting {key} ({text}) must be true or false")
        return text.lower() == "true"
    try:
        return tuple(int(part) for part in text.split(",")) if kind is tuple else kind(text)
    except ValueError:
        wanted = "whole numbers with commas between" if kind is tuple else f"of type {kind.__name__}"
        raise SettingError(f"setting {key} ({text}) must be {wanted}") from None
