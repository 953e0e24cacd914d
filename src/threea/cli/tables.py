"""The command that makes a release of two tables: parents and their children."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from threea.cli import terminal
from threea.cli.options import DateFormat, Decimal, Encoding, Json, Multiline, Separator
from threea.cli.release import dataset_name, described, form_of_file, number_of_rows, recipe_of
from threea.errors import SettingError, outcome, stated

if TYPE_CHECKING:
    from threea.linked import PreparedTables
    from threea.place import Place


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("release-tables")(release_tables)


def release_tables(
    parents: Annotated[Path, typer.Argument(metavar="PARENTS", help="CSV or Parquet: a row for each parent.")],
    children: Annotated[Path, typer.Argument(metavar="CHILDREN", help="The same: rows that name a parent.")],
    out: Annotated[Path, typer.Option(help="A new or empty folder for the release.")],
    key: Annotated[str, typer.Option(help="The column of both that names a parent: the unit to protect.")],
    children_at_most: Annotated[int, typer.Option(help="Up to how many children of a parent are counted and drawn.")],
    schema: Annotated[Path, typer.Option(help="The parent table's public description.")],
    child_schema: Annotated[Path, typer.Option(help="The child table's.")],
    epsilon: Annotated[str, typer.Option(metavar="NUMBER", help="Bound on the privacy loss, > 0.")],
    delta: Annotated[
        str, typer.Option(metavar="NUMBER", help="Probability with which the bound may fail; 0: pure epsilon.")
    ] = "1e-6",
    confirm_schema: Annotated[bool, typer.Option("--confirm-schema", help="I say that both are public.")] = False,
    children_read: Annotated[
        int, typer.Option(help="How many children of a parent are read; noise on theirs grows with it.")
    ] = 1,
    child_share: Annotated[str, typer.Option(metavar="SHARE", help="Of the budget, for the children.")] = "0.75",
    separator: Separator = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    date_format: DateFormat = None,
    multiline: Multiline = False,
    adjacency: Annotated[str, typer.Option(help="add-remove or replace.")] = "add-remove",
    recipe: Annotated[str, typer.Option(help="For the parents; see `threea recipes`.")] = "privbayes",
    set: Annotated[list[str] | None, typer.Option("--set", help="A setting of that recipe, key=value.")] = None,
    rows: Annotated[
        str | None, typer.Option(metavar="N|same", help="How many synthetic parents; same: the noisy count.")
    ] = None,
    ledger: Annotated[Path | None, typer.Option(help="Where spending is written down.")] = None,
    new_ledger: Annotated[
        bool, typer.Option("--new-ledger", help="Make the ledger if it is not there; with --cap this must be said.")
    ] = False,
    dataset: Annotated[str | None, typer.Option(help="Your name for both tables, in the ledger.")] = None,
    cap: Annotated[float | None, typer.Option(help="What all releases of the dataset may cost together.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seeds sampling, never noise.")] = None,
    format: Annotated[str | None, typer.Option(help="parquet or csv; by default as the parents came.")] = None,
    spreadsheet_safe: Annotated[
        bool,
        typer.Option("--spreadsheet-safe", help="Of CSV: an apostrophe before text that a spreadsheet might run."),
    ] = False,
    engine: Annotated[str | None, typer.Option(help="Who reads the rows: memory or files.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the receipt; spend nothing and write nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Release two tables together, such as patients and their stays: one unit, one budget, one certificate."""
    if ledger is None and (cap is not None or new_ledger):
        needy = "--cap" if cap is not None else "--new-ledger"
        raise SettingError(f"{needy} needs a --ledger to remember what was spent; name a file")
    from threea.table.dialect import dialect_of

    options: dict[str, Any] = {
        "key": key,
        "children_at_most": children_at_most,
        "children_read": children_read,
        "schema": described(schema, confirm_schema),
        "child_schema": described(child_schema, confirm_schema),
        "epsilon": terminal.number("epsilon", epsilon),
        "delta": terminal.number("delta", delta),
        "child_share": terminal.number("child_share", child_share),
        "dialect": dialect_of(separator, encoding, decimal, date_format, multiline=multiline),
        "adjacency": adjacency,
        "recipe": recipe_of(recipe, set) if set else recipe,
        "rows": number_of_rows(rows),
        "seed": seed,
        "ledger": ledger,
        "new_ledger": new_ledger,
        "dataset": dataset or dataset_name(parents),
        "cap": cap,
        "engine": engine,
    }
    form = form_of_file(parents) if format is None else format
    _make(parents, children, out, form, spreadsheet_safe=spreadsheet_safe, dry_run=dry_run, options=options)


def _make(
    parents: Path,
    children: Path,
    out: Path,
    form: str,
    *,
    spreadsheet_safe: bool,
    dry_run: bool,
    options: dict[str, Any],
) -> None:
    """Check everything that needs no spending, show the receipt, spend, write."""
    from threea.cost import size_of
    from threea.linked import prepare_tables, rehearse_tables
    from threea.publish import check_folder, check_format, claim, take_room

    check_format(form, spreadsheet_safe=spreadsheet_safe)
    if dry_run:
        check_folder(out)
        with terminal.passes("Opening the tables"):
            rehearsed = rehearse_tables(parents, children, **options)
        terminal.say(str(rehearsed))
        terminal.result({"dry_run": True, "receipt": str(rehearsed).splitlines()})
        return
    with claim(out, form, ledger=options["ledger"]) as place:
        with terminal.passes("Opening the tables"):
            prepared = prepare_tables(parents, children, **options)
        above, below = ((table.schema, table.layout) for table in (prepared.tables.parents, prepared.tables.children))
        take_room(place, above, prepared.rows, size_of(parents) + size_of(children), below)
        with outcome(lambda: stated(charged=prepared.tables.parents.charged, written=place.published)):
            terminal.say(str(prepared))
            made = _publish(prepared, place, spreadsheet_safe=spreadsheet_safe)
            terminal.result({"dry_run": False, "receipt": str(prepared).splitlines(), **made})


def _publish(prepared: PreparedTables, place: Place, *, spreadsheet_safe: bool) -> dict[str, Any]:
    from threea.linked import writing
    from threea.report.notes import hollow, notes, run_as_formulas

    with terminal.passes("Making the release") as advance:
        release = prepared.run(terminal.stages(advance))
    release = replace(release, parents=replace(release.parents, spreadsheet_safe=spreadsheet_safe))
    with terminal.progress("Writing synthetic rows", total=release.rows) as advance:
        files = writing.write(release, place, advance, check=prepared.tables.parents.check_ledger)
    told = [*notes(release.parents), *hollow(release.children.schema, release.children.model.summary)]
    if place.form == "csv" and not spreadsheet_safe:
        told += run_as_formulas(*((part.schema, part.layout) for part in (release.parents, release.children)))
    for note in told:
        terminal.say(f"Note: {note}")
    budget = release.parents.plan.budget
    promise = f"at epsilon {budget.epsilon:g}, delta {budget.delta:g}"
    terminal.say(
        f"Guarantee: {release.guarantee}. {release.rows:,} synthetic parents and their children {promise}. Files:"
    )
    for file in files:
        terminal.name(file)
    return {"guarantee": str(release.guarantee), "parents": release.rows, "notes": told, "files": files}
