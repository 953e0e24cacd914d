"""From a private table to a release, in two steps: everything decided and priced, then spent.

`prepare` checks all that can be known before the first charge and returns a `Prepared`, which prints as the receipt.
`Prepared.run` spends and returns a `Release`. The command line, Python and whatever else makes releases use these two.
"""

from __future__ import annotations

import dataclasses
import difflib
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

from threea import resuming, scoring
from threea.anonymize.door import PrivateTable
from threea.anonymize.open_table import open_table
from threea.anonymize.plan import Plan
from threea.anonymize.transcript import Transcript
from threea.budget import Adjacency, Budget
from threea.cost import Cost, Reading, affordable, reading_of
from threea.errors import SettingError, outcome, stated
from threea.framework import Recipe
from threea.ledger import Ledger
from threea.model_file import packed
from threea.pricing import check_sampling
from threea.progress import Progress
from threea.receipt import receipt
from threea.recipes import DEFAULT, RECIPES
from threea.release import Release
from threea.table.dialect import Dialect
from threea.table.schema import Origin, Schema

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A release before anything is spent: what will be asked, by which recipe, at what price.

    Args:
        recipe: The recipe that will run.
        reason: Why it, if it was picked for this table; else empty.
        table: The private table, opened.
        plan: What it will ask, priced.
        rows: How many synthetic rows, or ``same``; None for the default.
        seed: Of sampling.
        balance: Whether rare classes are drawn more often than they occur.
        score: The share of the budget that measures what the release is worth.
        cost: About what it will take at most, in processor time and memory; None if nothing is known.
        reading: What it reads of its files at most, by their metadata; None if it is in none.
        ledger: Where the spending will be written down, None if nowhere.
        dataset: The owner's name for the rows, there.
        new_ledger: Whether that file was made just now.
        rehearsal: Whether it is here to be looked at only.
        transcript: Keeps the answers beside the ledger's file, if there is one, until the release is written.
        unkept: Why it cannot be resumed although there is a ledger; else empty.
    """

    recipe: Recipe
    reason: str
    table: PrivateTable
    plan: Plan
    rows: int | str | None
    seed: int | None
    balance: bool
    score: float
    cost: Cost | None
    reading: Reading | None
    ledger: str | None
    dataset: str
    new_ledger: bool = False
    rehearsal: bool = False
    transcript: Transcript | None = None
    unkept: str = ""

    def run(self, progress: Progress | None = None) -> Release:
        """Spend, and make the release.

        Cost:
            The whole budget, written to the ledger before the first answer; nothing more if it is resumed.

        Raises:
            SettingError: It is a rehearsal.
        """
        release = self.made(progress)
        if self.transcript:
            self.transcript.forget()
        return release

    def made(self, progress: Progress | None = None) -> Release:
        """Do as `run`, and keep what can be resumed until the files are written (`resuming.write`)."""
        if self.rehearsal:
            raise SettingError("a rehearsal cannot be run, for its ledger would not remember it; prepare the release")
        with outcome(lambda: self.fate(written=False)):
            if self.transcript is None:
                return self._made(progress)
            with self.transcript.open():
                release = resuming.finished(self.transcript) or self._made(progress)
                self.transcript.finish(packed(release))
                return release

    def _made(self, progress: Progress | None) -> Release:
        made = self.recipe.run(self.table, rows=self.rows, seed=self.seed, plan=self.plan, progress=progress)
        made = replace(made, balance=self.balance)
        return scoring.scored(made, self.recipe, self.table, self.plan) if self.score else made

    def fate(self, *, written: bool) -> str:
        """Say what became of the release, for an error that ends it."""
        kept = self.transcript is not None and self.transcript.waits
        return stated(charged=self.table.charged, written=written, kept=kept)

    def __str__(self) -> str:
        """Return the receipt: what will be asked, of whom, under which promise."""
        notes = [f"New ledger made: {self.ledger}."] if self.new_ledger else []
        if self.ledger is None:
            notes.append("No ledger given: this spending is in the certificate, but no cap will remember it.")
        ledger = self.ledger if self.transcript or self.rehearsal else None
        notes += resuming.told(ledger, self.dataset, self.unkept, self.transcript)
        if self.rehearsal:
            notes += [self.reading.described] if self.reading is not None else []
            notes.append("A rehearsal: nothing was spent, nothing written.")
        return receipt(self.recipe, self.reason, self.table, self.plan, self.rows, self.balance, self.cost, notes)


def prepare(
    data: Any,
    *,
    epsilon: float,
    delta: float = 1e-6,
    target: str | None = None,
    target_kind: str | None = None,
    schema: Schema | str | PathLike[str] | None = None,
    dialect: Dialect | None = None,
    drop: Sequence[str] = (),
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
    recipe: Recipe | str = DEFAULT,
    rows: int | str | None = None,
    seed: int | None = None,
    balance: bool = False,
    score: float = 0.0,
    ledger: Ledger | str | PathLike[str] | None = None,
    new_ledger: bool = False,
    dataset: str = "unnamed",
    cap: float | None = None,
    unit: str | None = None,
    max_rows_per_unit: int = 1,
    accept_unproven: bool = False,
    engine: str | None = None,
    cluster: Any = None,
    workers: int | None = None,
    resume: bool = False,
) -> Prepared:
    """Decide and price everything about a release. Nothing is spent.

    Args:
        data: A path to CSV, Parquet (a file or a folder) or Excel, or a pandas, polars or Arrow table.
        epsilon: Bound on the privacy loss.
        delta: Probability with which the bound may fail; well under one in the number of rows.
        target: The column that models will learn to predict.
        target_kind: Without a schema, whether the target is a ``class`` or a ``number``; for whole numbers, noisy
            counts decide by default.
        schema: The table's public description, or the path of one; found through the private table, from the same
            budget, if not given.
        dialect: How a CSV file is written; what it does not say is found in its header line.
        drop: Columns that are never read and not released, besides those that the schema says.
        adjacency: ``add-remove`` or ``replace``.
        recipe: A recipe, or the name of one.
        rows: How many synthetic rows, or ``same`` for the noisy number of private ones; by default that many, and at
            least 500,000: drawing is free, and learners gain from it.
        seed: Makes sampling repeatable. Noise cannot be seeded.
        balance: Draw rare classes of the target more often than they occur; ``release.sample_weight`` undoes it.
        score: A share of the budget, such as 0.03, that measures what the release is worth: a model is trained on its
            rows, and how it scores the private ones is counted with noise. ``release.score`` may be published.
        ledger: Where spending is written down; a path that leads to no file makes a new ledger.
        dataset: The owner's name for the rows, in the ledger.
        cap: What all releases of this dataset together may cost, in epsilon.
        new_ledger: Make the ledger. With a cap, one that does not exist is otherwise taken for a mistyped path.
        unit: The column that names the person to protect; every row is one by default.
        max_rows_per_unit: How many rows of one person count.
        accept_unproven: Whether published methods without a proof may read the rows.
        engine: Who reads the rows: ``memory``, ``files``, ``dask`` or ``spark``; by default this process, or the
            cluster that a frame is on.
        cluster: Of Dask or Spark: an address, a client or a session; by default workers on this machine.
        workers: How many of those.
        resume: Go on with the unfinished release of the same options that waits beside the ledger.

    Returns:
        What can be looked at, then run; ``print(prepared)`` is the receipt.

    Example:
        >>> from threea import hospital
        >>> prepared = prepare(hospital.stays(500), schema=hospital.schema(), epsilon=1.0, recipe="independent")
        >>> print(prepared)  # doctest: +ELLIPSIS
        Recipe independent for died (2 classes): epsilon 1, delta 1e-06, add-remove...
    """
    options = dict(locals())
    asked = recipe if isinstance(recipe, Recipe) else make_recipe(recipe)
    check_sampling(asked, rows, seed)
    budget = Budget(epsilon, delta, adjacency)  # type: ignore[arg-type]  # Budget reads text, too
    described = schema if schema is None or isinstance(schema, Schema) else Schema.load(schema)
    made = isinstance(ledger, str | PathLike) and not os.path.lexists(ledger)
    request = resuming.request_of(asked, described, options)
    transcript = resuming.transcript_of(ledger, request, resume=resume)
    table = open_table(
        data,
        budget=budget,
        schema=described,
        target=target,
        target_kind=target_kind,
        dialect=dialect,
        drop=drop,
        ledger=ledger,
        new_ledger=new_ledger and not resume,
        dataset=dataset,
        cap=cap,
        unit=unit,
        max_rows_per_unit=max_rows_per_unit,
        accept_unproven=accept_unproven,
        engine=engine,
        cluster=cluster,
        workers=workers,
        transcript=transcript,
    )
    chosen, reason = asked.chosen(table.schema)
    if balance:
        _refuse_balance(chosen, table.schema)
    scoring.check(score, chosen, table.schema)
    cost = affordable(chosen, table.schema, data, score=bool(score))
    plan = chosen.plan(table, score)
    crew = workers or os.cpu_count() or 1
    unkept = resuming.refused(chosen)
    if transcript is not None and unkept:
        transcript.forget()
    _log.info("prepared: recipe %s, %d questions, epsilon %g, delta %g", chosen.name, len(plan.lines), epsilon, delta)
    return Prepared(
        recipe=chosen,
        reason=f"picked by {asked.name}: {reason}" if reason else "",
        table=table,
        plan=plan,
        rows=rows,
        seed=transcript.seed if transcript and seed is None else seed,
        balance=balance,
        score=score,
        cost=cost,
        reading=reading_of(plan, chosen.name, data, cost, unit=unit, ledger=ledger is not None, workers=crew),
        ledger=ledger.path if isinstance(ledger, Ledger) else None if ledger is None else str(ledger),
        dataset=dataset,
        new_ledger=made,
        transcript=transcript,
        unkept=unkept,
    )


def _refuse_balance(recipe: Recipe, schema: Schema) -> None:
    """Refuse to balance what has no classes to balance, by what is public."""
    if recipe.fixed:
        raise SettingError(f"balance cannot be chosen with {recipe.name} so set: its rows have a ratio of their own")
    if schema.target is None:
        raise SettingError("balance needs a target whose classes are to be balanced; name one with --target")
    if schema[schema.target].kind.numeric and (schema.origin is not Origin.TYPES or schema.number_target):
        raise SettingError(f"balance needs a target with classes, and {schema.target} is a number; leave it out")


def rehearse(
    data: Any,
    *,
    epsilon: float,
    ledger: str | PathLike[str] | None = None,
    new_ledger: bool = False,
    dataset: str = "unnamed",
    cap: float | None = None,
    **options: Any,
) -> Prepared:
    """Return what `prepare` would, to look at the receipt alone: no ledger is made or written to.

    Args:
        data: As of `prepare`.
        epsilon: As of `prepare`.
        ledger: The file whose cap must cover the release, if it exists.
        new_ledger: As of `prepare`.
        dataset: As of `prepare`.
        cap: As of `prepare`.
        options: As of `prepare`.

    Raises:
        BudgetRefused: The ledger's cap does not cover the release.
    """
    if ledger is not None:
        refuse_over_cap(ledger, dataset=dataset, epsilon=epsilon, cap=cap, new=new_ledger)
    prepared = prepare(data, epsilon=epsilon, dataset=dataset, cap=cap, **options)
    return replace(prepared, rehearsal=True, ledger=None if ledger is None else str(ledger))


def refuse_over_cap(ledger: str | PathLike[str], *, dataset: str, epsilon: float, cap: float | None, new: bool) -> None:
    """Refuse what the ledger would refuse, without writing to it."""
    # One that would be made has spent nothing yet.
    made = not os.path.lexists(ledger) and (new or cap is None)
    with Ledger(None if made else ledger, reading=True) as book:
        if new and not made:
            raise book.error("exists already; leave --new-ledger out, or give another path")
        book.refuse_over_cap(dataset, epsilon, cap)


def synthesize(data: Any, *, epsilon: float, progress: Progress | None = None, **options: Any) -> Release:
    """Make a synthetic training set from a private table, in one call.

    Guarantees:
        - With a proven recipe, the release is (epsilon, delta)-differentially private for each unit.

    Cost:
        (epsilon, delta), written to the ledger before the first answer.

    Args:
        data: A path to CSV, Parquet (a file or a folder) or Excel, or a pandas, polars or Arrow table.
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
