"""The commands that make a release: of a table, and of the embedded one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from threea import interrupts
from threea.cli import config, terminal
from threea.cli.options import (
    Config,
    Data,
    DateFormat,
    Decimal,
    Drop,
    Encoding,
    Json,
    Multiline,
    Separator,
    Sheet,
    recipe_names,
    words,
)
from threea.errors import SettingError, outcome, stated

if TYPE_CHECKING:
    from threea.anonymize.plan import Plan
    from threea.anonymize.spending import Unit
    from threea.anonymize.transcript import Transcript
    from threea.framework import Recipe
    from threea.place import Place
    from threea.publish import Elsewhere
    from threea.release import Release
    from threea.session import Prepared
    from threea.table.schema import Schema

_ANSWERED = "All was answered before it was interrupted: its files are written now, and no row is read again."


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for command in (demo, release):
        app.command()(command)


def demo(
    out: Annotated[Path, typer.Option(help="A new folder for the release.")] = Path("threea-demo"),
    as_json: Json = False,
) -> None:
    """Run the whole job on an embedded table of simulated hospital stays."""
    from threea import hospital
    from threea.publish import check_folder

    check_folder(out)
    terminal.say("Simulated hospital stays: made by code, no real person behind any row.")
    make(
        hospital.stays(),
        out=out,
        schema=hospital.schema(),
        epsilon=1.0,
        dataset="simulated hospital stays",
        unit="patient_id",
        max_rows_per_unit=3,
    )
    terminal.say(
        "Next, your own table: threea schema DATA --target COL, then threea release DATA --schema schema.toml ..."
    )


def release(
    context: typer.Context,
    data: Data,
    out: Annotated[Path, typer.Option(help="A new or empty folder for the release.")],
    epsilon: Annotated[str, typer.Option(metavar="NUMBER", help="Bound on the privacy loss, > 0.")],
    delta: Annotated[
        str, typer.Option(metavar="NUMBER", help="Probability with which the bound may fail; 0: pure epsilon.")
    ] = "1e-6",
    schema: Annotated[Path | None, typer.Option(help="The table's public description.")] = None,
    confirm_schema: Annotated[bool, typer.Option("--confirm-schema", help="I say that the schema is public.")] = False,
    target: Annotated[
        str | None, typer.Option(help="The column to predict; without a schema, the rest is found.")
    ] = None,
    target_kind: Annotated[
        str | None,
        typer.Option(
            help="class or number, without a schema; by default noisy counts decide.",
            autocompletion=words("class", "number"),
        ),
    ] = None,
    separator: Separator = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    date_format: DateFormat = None,
    multiline: Multiline = False,
    sheet: Sheet = None,
    drop: Drop = None,
    adjacency: Annotated[
        str, typer.Option(help="add-remove or replace.", autocompletion=words("add-remove", "replace"))
    ] = "add-remove",
    unit: Annotated[str | None, typer.Option(help="The column that names a person to protect.")] = None,
    max_rows_per_unit: Annotated[int, typer.Option(help="How many rows of one person count.")] = 1,
    recipe: Annotated[
        str | None,
        typer.Option(help="See `threea recipes`; picked by the columns if not given.", autocompletion=recipe_names),
    ] = None,
    set: Annotated[list[str] | None, typer.Option("--set", help="A recipe's setting, key=value.")] = None,
    rows: Annotated[
        str | None,
        typer.Option(
            metavar="N|same",
            help="How many synthetic rows, for free; same: the noisy count; by default that, and at least 500,000.",
        ),
    ] = None,
    balance: Annotated[
        bool, typer.Option("--balance", help="Draw rare classes more often than they occur; weights undo it.")
    ] = False,
    score: Annotated[
        str,
        typer.Option(metavar="SHARE", help="Of the budget, e.g. 0.03: measure what the release is worth, to publish."),
    ] = "0",
    ledger: Annotated[Path | None, typer.Option(help="Where spending is written down.")] = None,
    new_ledger: Annotated[
        bool, typer.Option("--new-ledger", help="Make the ledger if it is not there; with --cap this must be said.")
    ] = False,
    dataset: Annotated[str | None, typer.Option(help="Your name for the rows, in the ledger.")] = None,
    cap: Annotated[float | None, typer.Option(help="What all releases of the dataset may cost together.")] = None,
    accept_unproven: Annotated[bool, typer.Option("--accept-unproven", help="Allow methods without a proof.")] = False,
    seed: Annotated[int | None, typer.Option(help="Seeds sampling, never noise.")] = None,
    format: Annotated[
        str | None,
        typer.Option(
            help="parquet or csv; by default as the table came, csv for Excel.", autocompletion=words("parquet", "csv")
        ),
    ] = None,
    spreadsheet_safe: Annotated[
        bool,
        typer.Option("--spreadsheet-safe", help="Of CSV: an apostrophe before text that a spreadsheet might run."),
    ] = False,
    engine: Annotated[
        str | None,
        typer.Option(
            help="Who reads the rows: memory, files, dask or spark; by default files.",
            autocompletion=words("memory", "files", "dask", "spark"),
        ),
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Of dask or spark; by default workers on this machine.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="How many of those; by default one per processor.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the release of these options that was interrupted.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the receipt; spend nothing and write nothing.")
    ] = False,
    config_file: Config = None,
    as_json: Json = False,
) -> None:
    """Make a synthetic training set: rows, certificate, report and schema in a new folder."""
    if schema is None and target is None:
        raise SettingError(
            "either --schema or --target must be given; make a draft with `threea schema DATA --target COL`"
        )
    if ledger is None and (cap is not None or new_ledger):
        needy = "--cap" if cap is not None else "--new-ledger"
        raise SettingError(f"{needy} needs a --ledger to remember what was spent; name a file")
    if resume and dry_run:
        raise SettingError("--resume cannot be rehearsed with --dry-run: its charge was made; leave one of them out")
    config.refuse_lost_ledger(context, ledger, new=new_ledger)
    from threea.table.dialect import dialect_of

    make(
        data,
        defaults=config.taken(context),
        note=config.told(context),
        out=out,
        form=format,
        spreadsheet_safe=spreadsheet_safe,
        dry_run=dry_run,
        resume=resume,
        epsilon=terminal.number("epsilon", epsilon),
        delta=terminal.number("delta", delta),
        schema=None if schema is None else described(schema, confirm_schema),
        target=target,
        target_kind=target_kind,
        dialect=dialect_of(separator, encoding, decimal, date_format, sheet, multiline=multiline),
        drop=drop or (),
        adjacency=adjacency,
        recipe=recipe_of(recipe, set or []),
        rows=number_of_rows(rows),
        seed=seed,
        balance=balance,
        score=terminal.number("score", score),
        ledger=ledger,
        new_ledger=new_ledger,
        dataset=dataset or dataset_name(data),
        cap=cap,
        unit=unit,
        max_rows_per_unit=max_rows_per_unit,
        accept_unproven=accept_unproven,
        engine=engine,
        cluster=cluster,
        workers=workers,
    )


def make(
    data: Any,
    *,
    out: Path,
    form: str | None = None,
    spreadsheet_safe: bool = False,
    dry_run: bool = False,
    resume: bool = False,
    defaults: Mapping[str, Any] | None = None,
    note: str = "",
    **options: Any,
) -> None:
    """Check everything that needs no spending, show the receipt, spend, write.

    Args:
        data: As of `session.prepare`.
        out: A new folder.
        form: `parquet` or `csv`.
        spreadsheet_safe: As of `Release.save`.
        dry_run: Whether to show the receipt alone.
        resume: Whether to go on with an interrupted one.
        defaults: What was taken from a configuration file.
        note: What the receipt says of that.
        options: As of `session.prepare`.
    """
    from threea import resuming
    from threea.cost import size_of
    from threea.publish import check_folder, check_format, claim, take_room
    from threea.session import prepare, rehearse

    form = form_of_file(data) if form is None else form
    check_format(form, spreadsheet_safe=spreadsheet_safe)
    if dry_run:
        check_folder(out)
        with terminal.passes("Opening the table"):
            rehearsed = rehearse(data, **options)
        terminal.say("\n".join(filter(None, [note, str(rehearsed)])))
        terminal.result({"dry_run": True, "from_config": defaults or {}, **_receipt_of(rehearsed)})
        return
    with claim(out, form, ledger=options.get("ledger")) as place:
        kept = resuming.kept(options) if resume else None
        if kept:
            with outcome(lambda: stated(charged=True, written=place.published, kept=kept[0].waits)):
                terminal.say(_ANSWERED)
                made = replace(kept[1], spreadsheet_safe=spreadsheet_safe)
                planned = _planned(made.plan, made.recipe, made.unit, str(options["ledger"]), [_ANSWERED])
                _finish(made, place, kept[0], {"from_config": defaults or {}, **planned})
            return
        with terminal.passes("Opening the table"):
            prepared = prepare(data, resume=resume, **options)
        table = prepared.table
        take_room(place, (table.schema, table.layout), prepared.rows, size_of(data))
        with outcome(lambda: prepared.fate(written=place.published)):
            terminal.say("\n".join(filter(None, [note, str(prepared)])))
            # What was loaded meanwhile may have swallowed one; nothing is spent yet.
            interrupts.check()
            with terminal.passes("Making the release") as advance:
                made = replace(prepared.made(terminal.stages(advance)), spreadsheet_safe=spreadsheet_safe)
            told = {"from_config": defaults or {}, **_receipt_of(prepared)}
            _finish(made, place, prepared.transcript, told, table.check_ledger, table.elsewhere)


def _finish(
    release: Release,
    place: Place,
    transcript: Transcript | None,
    told: dict[str, Any],
    check: Callable[[], object] | None = None,
    elsewhere: Elsewhere | None = None,
) -> None:
    """Write the files of a release, and say so."""
    from threea import resuming

    with terminal.progress("Writing synthetic rows", total=release.rows) as advance:
        files = resuming.write(release, place, transcript, progress=advance, check=check, elsewhere=elsewhere)
    _tell(release, files, place.form)
    terminal.result({"dry_run": False, **told, **_made(release, place.form), "files": files})


def _receipt_of(prepared: Prepared) -> dict[str, Any]:
    unit, receipt = prepared.table.unit, str(prepared).splitlines()
    return _planned(prepared.plan, prepared.recipe.name, unit, prepared.ledger, receipt)


def _planned(plan: Plan, recipe: str, unit: Unit, ledger: str | None, receipt: list[str]) -> dict[str, Any]:
    """Return a receipt as plain data, for scripts."""
    from threea.anonymize.events import to_json

    return {
        "recipe": recipe,
        "epsilon": plan.budget.epsilon,
        "delta": plan.budget.delta,
        "adjacency": str(plan.budget.adjacency),
        "unit": unit.described,
        "ledger": ledger,
        "receipt": receipt,
        "plan": [
            {"question": line.name, "share": line.share, "times": line.count, "event": to_json(line.event)}
            for line in plan.lines
        ],
    }


def _made(release: Release, form: str) -> dict[str, Any]:
    """Return what was made, for scripts: what the certificate says in full."""
    from threea.report.notes import notes

    return {
        "guarantee": str(release.guarantee),
        "recipe": release.recipe,
        "rows": release.rows,
        "score": release.score.to_json() if release.score else None,
        "notes": notes(release, form),
    }


def _tell(release: Release, files: list[Path], form: str) -> None:
    """Say what was made, and first what is not as one would expect."""
    from threea.report.notes import notes

    for note in notes(release, form):
        terminal.say(f"Note: {note}")
    budget = release.plan.budget
    promise = f"at epsilon {budget.epsilon:g}, delta {budget.delta:g}"
    if release.score:
        terminal.say(release.score.sentence)
    terminal.say(f"Guarantee: {release.guarantee}. {release.rows:,} synthetic rows {promise}. Files:")
    for file in files:
        terminal.name(file)


def form_of_file(data: Any) -> str:
    """Return the form that a table came in: CSV, also for spreadsheets, or else Parquet."""
    from threea.table.dialect import EXCEL, TEXT

    suffixes = {suffix.lower() for suffix in data.suffixes[-2:]} if isinstance(data, Path) else set()
    return "csv" if suffixes & {*TEXT, *EXCEL} else "parquet"


def number_of_rows(text: str | None) -> int | str | None:
    """Read a number of rows, or `same`."""
    if text is None or text == "same":
        return text
    try:
        return int(text)
    except ValueError:
        raise SettingError(f"rows ({text}) must be a whole number, at least 1, or same") from None


def dataset_name(data: Path) -> str:
    """Return what the rows are called in a ledger by default: as their file, as far as that can be printed."""
    name = data.absolute().name.split(".")[0][:200]
    return name if name.strip() and name.isprintable() else "unnamed"


def described(path: Path, confirmed: bool) -> Schema:
    """Read a schema, and confirm it if that was said."""
    from threea.table.schema import Schema

    schema = Schema.load(path)
    return schema.confirm() if confirmed else schema


def recipe_of(name: str | None, pairs: list[str]) -> Recipe:
    """Make the recipe asked for; settings belong to a recipe, so one must be named for them."""
    import dataclasses

    from threea.recipes import DEFAULT, RECIPES
    from threea.session import make_recipe

    for pair in pairs:
        if "=" not in pair:
            raise SettingError(f"--set ({pair}) must be key=value")
    settings = dict(pair.split("=", 1) for pair in pairs)
    if name in (None, DEFAULT) and settings:
        key = next(iter(settings))
        known = {recipe: [field.name for field in dataclasses.fields(RECIPES[recipe])] for recipe in RECIPES}
        others = [recipe for recipe in known if recipe != DEFAULT]
        example = next((recipe for recipe in others if key in known[recipe]), others[0])
        raise SettingError(f"setting ({key}) is unknown to {DEFAULT}; name a recipe with --recipe, e.g. {example}")
    return make_recipe(name or DEFAULT, settings)
