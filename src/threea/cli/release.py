"""The commands that make a release: of a table, and of the embedded one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from threea.cli import terminal
from threea.errors import SettingError, outcome, stated

if TYPE_CHECKING:
    from threea.framework import Recipe
    from threea.place import Place
    from threea.session import Prepared
    from threea.table.schema import Schema

Data = Annotated[Path, typer.Argument(metavar="DATA", help="CSV or Parquet: a file, or a folder of Parquet files.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for command in (demo, release):
        app.command()(command)


def demo(
    out: Annotated[Path, typer.Option(help="A new folder for the release.")] = Path("threea-demo"),
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
    data: Data,
    out: Annotated[Path, typer.Option(help="A new or empty folder for the release.")],
    epsilon: Annotated[str, typer.Option(metavar="NUMBER", help="Bound on the privacy loss, > 0.")],
    delta: Annotated[str, typer.Option(metavar="NUMBER", help="Probability with which the bound may fail.")] = "1e-6",
    schema: Annotated[Path | None, typer.Option(help="The table's public description.")] = None,
    confirm_schema: Annotated[bool, typer.Option("--confirm-schema", help="I say that the schema is public.")] = False,
    target: Annotated[
        str | None, typer.Option(help="The column to predict; without a schema, the rest is found.")
    ] = None,
    adjacency: Annotated[str, typer.Option(help="add-remove or replace.")] = "add-remove",
    unit: Annotated[str | None, typer.Option(help="The column that names a person to protect.")] = None,
    max_rows_per_unit: Annotated[int, typer.Option(help="How many rows of one person count.")] = 1,
    recipe: Annotated[
        str | None, typer.Option(help="See `threea recipes`; picked by the columns if not given.")
    ] = None,
    set: Annotated[list[str] | None, typer.Option("--set", help="A recipe's setting, key=value.")] = None,
    rows: Annotated[
        int | None, typer.Option(help="How many synthetic rows, for free; by default the noisy count.")
    ] = None,
    ledger: Annotated[Path | None, typer.Option(help="Where spending is written down.")] = None,
    dataset: Annotated[str | None, typer.Option(help="Your name for the rows, in the ledger.")] = None,
    cap: Annotated[float | None, typer.Option(help="What all releases of the dataset may cost together.")] = None,
    accept_unproven: Annotated[bool, typer.Option("--accept-unproven", help="Allow methods without a proof.")] = False,
    seed: Annotated[int | None, typer.Option(help="Seeds sampling, never noise.")] = None,
    format: Annotated[str, typer.Option(help="parquet or csv.")] = "parquet",
) -> None:
    """Make a synthetic training set: rows, certificate, report and schema in a new folder."""
    if schema is None and target is None:
        raise SettingError(
            "either --schema or --target must be given; make a draft with `threea schema DATA --target COL`"
        )
    if cap is not None and ledger is None:
        raise SettingError("--cap needs a --ledger to remember what was spent; name a file")
    make(
        data,
        out=out,
        form=format,
        epsilon=terminal.number("epsilon", epsilon),
        delta=terminal.number("delta", delta),
        schema=None if schema is None else _described(schema, confirm_schema),
        target=target,
        adjacency=adjacency,
        recipe=_recipe(recipe, set or []),
        rows=rows,
        seed=seed,
        ledger=ledger,
        dataset=dataset or data.absolute().name.split(".")[0],
        cap=cap,
        unit=unit,
        max_rows_per_unit=max_rows_per_unit,
        accept_unproven=accept_unproven,
    )


def make(data: Any, *, out: Path, form: str = "parquet", **options: Any) -> None:
    """Check everything that needs no spending, show the receipt, spend, write."""
    from threea.publish import check_room, claim
    from threea.session import prepare

    with claim(out, form, ledger=options.get("ledger")) as place:
        with terminal.progress("Opening the table"):
            prepared = prepare(data, **options)
        check_room(place, len(prepared.table.layout), prepared.rows)
        with outcome(lambda: stated(charged=prepared.table.charged, written=place.published)):
            terminal.say(str(prepared))
            _publish(prepared, place)


def _publish(prepared: Prepared, place: Place) -> None:
    from threea import publish

    with terminal.progress("Asking the private table") as advance:
        release = prepared.run(terminal.stages(advance))
    with terminal.progress("Writing synthetic rows", total=release.rows) as advance:
        files = publish.write(release, place, advance, check=prepared.table.check_ledger)
    budget = release.plan.budget
    promise = f"at epsilon {budget.epsilon:g}, delta {budget.delta:g}"
    terminal.say(f"Guarantee: {release.guarantee}. {release.rows:,} synthetic rows {promise}. Files:")
    for file in files:
        terminal.say(f"  {file}")
    if release.rows_note:
        terminal.say(release.rows_note)


def _described(path: Path, confirmed: bool) -> Schema:
    from threea.table.schema import Schema

    schema = Schema.load(path)
    return schema.confirm() if confirmed else schema


def _recipe(name: str | None, pairs: list[str]) -> Recipe:
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
