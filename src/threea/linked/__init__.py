"""A parent table and a child table released together: patients and their stays.

`prepare_tables` decides and prices everything, `PreparedTables.run` spends. One unit (a parent with all its children),
one budget, one plan, one entry in the ledger, one certificate. Proof: docs/proofs/linked-tables.md.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np

from threea.anonymize.open_tables import CHILDREN_READ, LinkedTables, open_tables
from threea.anonymize.plan import Plan
from threea.approximate.conditional_net import PARENT_ROWS, ConditionalNet
from threea.approximate.conditioning import resampled
from threea.budget import Adjacency, Budget
from threea.certificate import Guarantee
from threea.cost import Cost, affordable
from threea.errors import SettingError, outcome, stated
from threea.framework import Model, Recipe
from threea.ledger import Ledger
from threea.linked.release import ChildTable, LinkedRelease, check_keys, kept_rules, most_keys
from threea.pricing import CHILDREN, PARENTS, check_sampling, priced_linked
from threea.progress import Progress, listening, tell
from threea.receipt import receipt
from threea.recipes.privbayes import PrivBayes
from threea.release import Release
from threea.report import words
from threea.session import make_recipe, refuse_over_cap
from threea.table.dialect import Dialect, assumed
from threea.table.linked_columns import COUNT, PARENT
from threea.table.schema import Chunk, Schema

__all__ = ["ChildTable", "LinkedRelease", "PreparedTables", "prepare_tables", "rehearse_tables", "synthesize_tables"]

CHILD_SHARE = 0.75
"""Of the budget, for the children: noise on what is asked of them is larger, by as many as count. Chosen."""
_SEED = 0
"""Of the parents that children are fitted to; public, for drawing them is post-processing."""


@dataclass(frozen=True, kw_only=True)
class PreparedTables:
    """A release of two tables before anything is spent.

    Args:
        recipe: What will run on the parents.
        reason: Why it, if it was picked; else empty.
        child_recipe: What will run on the children.
        child_share: Of the budget, for the children.
        tables: Both tables, opened.
        plan: What will be asked, priced.
        rows: How many synthetic parents, or ``same``; None for the default.
        seed: Of sampling.
        costs: About what each of the two takes, in processor time and memory.
        ledger: Where the spending will be written down, None if nowhere.
        new_ledger: Whether that file was made just now.
        rehearsal: Whether it is here to be looked at only.
    """

    recipe: Recipe
    reason: str
    child_recipe: PrivBayes
    child_share: float
    tables: LinkedTables
    plan: Plan
    rows: int | str | None
    seed: int | None
    costs: tuple[Cost, ...]
    ledger: str | None
    new_ledger: bool = False
    rehearsal: bool = False

    def run(self, progress: Progress | None = None) -> LinkedRelease:
        """Spend, and make the release.

        Cost:
            The whole budget, written to the ledger before the first answer.

        Raises:
            SettingError: It is a rehearsal.
        """
        if self.rehearsal:
            raise SettingError("a rehearsal cannot be run, for its ledger would not remember it; prepare the release")
        with outcome(lambda: stated(charged=self.tables.parents.charged, written=False)):
            return self._run(progress)

    def _run(self, progress: Progress | None) -> LinkedRelease:
        tables, plan = self.tables, self.plan
        made = self.recipe.run(
            tables.parents, rows=self.rows, seed=self.seed, plan=plan.part(PARENTS), progress=progress
        )
        with listening(progress):
            tell("the children", 1, 2)
            net = ConditionalNet(net=self.child_recipe.approximate, given=tables.given)
            model = net.fit(tables.children, plan.part(CHILDREN), as_children(made.source, tables.children_read))
            tell("done", 2, 2)
        tables.parents.check_ledger()
        children = ChildTable(
            recipe=self.child_recipe.name,
            settings=dataclasses.asdict(self.child_recipe),
            share=self.child_share,
            read=tables.children_read,
            model=model,
            schema=_own(tables),
            layout=_without(tables.children.layout, tables.given),
            restore=tables.children.restore,
            dialect=tables.children.dialect,
        )
        return LinkedRelease(
            parents=self._whole(made, most_keys(tables.key, tables.parents.layout, tables.children.layout)),
            children=children,
            key=tables.key,
            children_at_most=tables.children_at_most,
        )

    def _whole(self, made: Release, keys: int) -> Release:
        """Return the parents' release with all that was spent on both tables."""
        table = self.tables.parents
        return replace(
            made,
            plan=self.plan,
            assumptions=tuple(dict.fromkeys((*made.assumptions, *assumed(self.tables.children.dialect)))),
            spent=table.spent(self.plan),
            ledger_head=table.ledger_head,
            layout=_without(made.layout, (COUNT,)),
            rows=min(made.rows, keys),
            rows_note=made.rows_note
            if made.rows <= keys
            else f"There are no more keys of the type of {self.tables.key}.",
        )

    def __str__(self) -> str:
        """Return the receipt: what will be asked, of whom, under which promise."""
        tables, key = self.tables, words.shown(self.tables.key)
        protects = (
            f"Each {key} is protected, with all its rows in both tables: 1 parent, its children counted up to"
            f" {tables.children_at_most}, at most {tables.children_read} of them read."
        )
        notes = [
            f"Children by {self.child_recipe.name} given their parent's columns, on {100 * self.child_share:.0f}% of"
            f" the budget; a parent gets from 0 to {tables.children_at_most}. Keys are made up.",
            "A number of rows asked for is one of parents.",
        ]
        untouched = words.untouched(_own(tables).untouched, len(_own(tables).columns))
        notes += [f"Warning: of the child table, {untouched}"] if untouched else []
        rules = [f"{words.shown(rule, words.LONG)} ({how})" for rule, how in kept_rules(_own(tables))]
        notes += (
            [f"Every child keeps {len(rules)} rule{'s' if len(rules) > 1 else ''}: {'; '.join(rules)}."]
            if rules
            else []
        )
        notes += [f"New ledger made: {self.ledger}."] if self.new_ledger else []
        notes += [f"The children take {cost.described}." for cost in self.costs[1:]]
        if self.ledger is None:
            notes.append("No ledger given: this spending is in the certificate, but no cap will remember it.")
        notes.append("Interrupted, the whole plan stays charged, and two tables cannot be resumed.")
        if self.rehearsal:
            notes.append("A rehearsal: nothing was spent, nothing written.")
        cost = self.costs[0] if self.costs else None
        return receipt(
            self.recipe, self.reason, tables.parents, self.plan, self.rows, cost=cost, notes=notes, protects=protects
        )


def prepare_tables(
    parents: Any,
    children: Any,
    *,
    key: str,
    children_at_most: int,
    children_read: int = CHILDREN_READ,
    schema: Schema | str | PathLike[str],
    child_schema: Schema | str | PathLike[str],
    epsilon: float,
    delta: float = 1e-6,
    dialect: Dialect | None = None,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
    recipe: Recipe | str = PrivBayes.name,
    child_recipe: Recipe | str = PrivBayes.name,
    child_share: float = CHILD_SHARE,
    rows: int | str | None = None,
    seed: int | None = None,
    ledger: Ledger | str | PathLike[str] | None = None,
    new_ledger: bool = False,
    dataset: str = "unnamed",
    cap: float | None = None,
    engine: str | None = None,
) -> PreparedTables:
    """Decide and price everything about a release of two tables. Nothing is spent.

    Args:
        parents: A path to CSV or Parquet, or a pandas, polars or Arrow table: a row for each parent.
        children: The same, with a row for each child.
        key: The column of both that names a parent: text or whole numbers, of kind id.
        children_at_most: Up to how many children of a parent are counted, and drawn.
        children_read: How many children of a parent are read at most, chosen by a keyed hash. Noise on all that is
            asked of children grows with it.
        schema: The public description of the parent table, or the path of one.
        child_schema: That of the child table.
        epsilon: Bound on the privacy loss of a parent with all its children.
        delta: Probability with which the bound may fail; well under one in the number of parents.
        dialect: How CSV files are written.
        adjacency: ``add-remove`` or ``replace``: of a parent with all its children.
        recipe: For the parents: a proven recipe that draws rows, or the name of one. Where the schema has no target,
            the number of children is the target.
        child_recipe: For the children: ``privbayes``, which draws them given their parent.
        child_share: Of the budget, for the children.
        rows: How many synthetic parents, or ``same`` for the noisy number of private ones.
        seed: Makes sampling repeatable. Noise cannot be seeded.
        ledger: Where spending is written down.
        new_ledger: Make the ledger.
        dataset: The owner's name for both tables, in the ledger.
        cap: What all releases of this dataset together may cost, in epsilon.
        engine: ``memory`` or ``files``.

    Returns:
        What can be looked at, then run; ``print(prepared)`` is the receipt.
    """
    asked = _made(recipe, delta)
    check_sampling(asked, rows, seed)
    budget = Budget(epsilon, delta, adjacency)  # type: ignore[arg-type]  # Budget reads text, too
    below = _made(child_recipe, delta)
    if type(below) is not PrivBayes:
        raise SettingError(f"child recipe ({below.name}) cannot draw rows given their parent's; use {PrivBayes.name}")
    if not 0.05 <= child_share <= 0.95:
        raise SettingError(f"child_share ({child_share:g}) must be from 0.05 to 0.95")
    described, child_described = (
        each if isinstance(each, Schema) else Schema.load(each) for each in (schema, child_schema)
    )
    chosen, reason = asked.chosen(described)
    _refuse_recipe(chosen)
    made = isinstance(ledger, str | PathLike) and not os.path.lexists(ledger)
    tables = open_tables(
        parents,
        children,
        key=key,
        children_at_most=children_at_most,
        children_read=children_read,
        budget=budget,
        schema=described,
        child_schema=child_described,
        dialect=dialect,
        ledger=ledger,
        new_ledger=new_ledger,
        dataset=dataset,
        cap=cap,
        engine=engine,
    )
    if isinstance(rows, int):
        check_keys(rows, key, tables.parents.layout, tables.children.layout)
    costs = _costs(((chosen, tables.parents.schema, parents), (below, tables.children.schema, children)))
    return PreparedTables(
        recipe=chosen,
        reason=f"picked by {asked.name}: {reason}" if reason else "",
        child_recipe=below,
        child_share=child_share,
        tables=tables,
        plan=planned(tables, chosen, below, child_share),
        rows=rows,
        seed=seed,
        costs=costs,
        ledger=ledger.path if isinstance(ledger, Ledger) else None if ledger is None else str(ledger),
        new_ledger=made,
    )


def rehearse_tables(
    parents: Any,
    children: Any,
    *,
    epsilon: float,
    ledger: str | PathLike[str] | None = None,
    new_ledger: bool = False,
    dataset: str = "unnamed",
    cap: float | None = None,
    **options: Any,
) -> PreparedTables:
    """Return what `prepare_tables` would, to look at the receipt alone: no ledger is made or written to.

    Raises:
        BudgetRefused: The ledger's cap does not cover the release.
    """
    if ledger is not None:
        refuse_over_cap(ledger, dataset=dataset, epsilon=epsilon, cap=cap, new=new_ledger)
    prepared = prepare_tables(parents, children, epsilon=epsilon, dataset=dataset, cap=cap, **options)
    return replace(prepared, rehearsal=True, ledger=None if ledger is None else str(ledger))


def synthesize_tables(
    parents: Any, children: Any, *, epsilon: float, progress: Progress | None = None, **options: Any
) -> LinkedRelease:
    """Make a synthetic parent table and a synthetic child table from two private ones, in one call.

    Guarantees:
        - The release is (epsilon, delta)-differentially private for each parent with all its children.
        - Every child names a parent; keys are made up.

    Cost:
        (epsilon, delta), written to the ledger before the first answer.

    Args:
        parents: A row for each parent: a path to CSV or Parquet, or a pandas, polars or Arrow table.
        children: The same, with a row for each child.
        epsilon: Bound on the privacy loss of a parent with all its children.
        progress: Told which stage begins, how much is done, and of how much.
        options: As of `prepare_tables`.

    Returns:
        The release; ``release.frames`` are two tables of the kinds that came in.
    """
    return prepare_tables(parents, children, epsilon=epsilon, **options).run(progress)


def planned(tables: LinkedTables, recipe: Recipe, child_recipe: PrivBayes, child_share: float = CHILD_SHARE) -> Plan:
    """Price everything that will be asked of both tables, to use up their one budget."""
    net = ConditionalNet(net=child_recipe.approximate, given=tables.given)
    return priced_linked(recipe, tables, net.steps(tables.children.schema), child_share, child_recipe.name)


def as_children(parents: Model, read: int) -> Chunk:
    """Draw parents as they stand beside the children that are read: each as often as it has such."""
    rng = np.random.default_rng(_SEED)
    drawn = parents.sample(PARENT_ROWS, rng)
    counts = np.clip(drawn[COUNT], 0.0, read)
    chosen = resampled(counts if counts.any() else np.ones(PARENT_ROWS), PARENT_ROWS, rng, {})
    return {f"{PARENT}{name}": values[chosen] for name, values in drawn.items()}


def _made(recipe: Recipe | str, delta: float) -> Recipe:
    """Return a recipe by its name; the default with the noise that the delta affords."""
    if recipe == PrivBayes.name and not delta:
        return PrivBayes(noise="laplace")
    return recipe if isinstance(recipe, Recipe) else make_recipe(recipe)


def _refuse_recipe(recipe: Recipe) -> None:
    if recipe.guarantee is not Guarantee.PROVEN:
        raise SettingError(f"recipe ({recipe.name}) has no proof; two tables are released by proven recipes only")
    if recipe.fixed:
        raise SettingError(f"recipe ({recipe.name}) makes a fixed set of rows; for two tables choose one that draws")


def _costs(runs: Sequence[tuple[Recipe, Schema, Any]]) -> tuple[Cost, ...]:
    """Return about what each recipe takes, where that is known of all; refuse what is out of reason."""
    costs = [affordable(recipe, schema, data) for recipe, schema, data in runs]
    return () if None in costs else tuple(cost for cost in costs if cost is not None)


def _own(tables: LinkedTables) -> Schema:
    """Return the child table's schema without what stands beside it."""
    schema = tables.children.schema
    return replace(schema, columns=tuple(column for column in schema.columns if column.name not in tables.given))


def _without(layout: Any, names: Sequence[str]) -> Any:
    """Return a layout without some columns."""
    for name in names:
        layout = layout.remove(layout.get_field_index(name))
    return layout
