"""The command that cuts a table in two, for its owner: what to release, and what to evaluate the release on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from threea.cli import config, terminal
from threea.cli.options import Config, Data, DateFormat, Decimal, DryRun, Encoding, Json, Multiline, Separator, Sheet


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(split)


def split(
    context: typer.Context,
    data: Data,
    out: Annotated[Path, typer.Option(help="A new folder, for your eyes only.")],
    holdout: Annotated[float, typer.Option(metavar="SHARE", help="Of the rows, or persons, to hold out.")] = 0.2,
    unit: Annotated[str | None, typer.Option(help="The column that names a person: all rows on one side.")] = None,
    seed: Annotated[int | None, typer.Option(help="Makes it repeatable.")] = None,
    schema: Annotated[Path | None, typer.Option(help="A schema of the table, which says how it is written.")] = None,
    separator: Separator = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    date_format: DateFormat = None,
    multiline: Multiline = False,
    sheet: Sheet = None,
    dry_run: DryRun = False,
    config_file: Config = None,
    as_json: Json = False,
) -> None:
    """Cut a table in two at random: rows to release, and rows that `threea evaluate` is to be given."""
    from threea.cli.release import described
    from threea.evaluate.split import split as cut
    from threea.table.dialect import dialect_of

    dialect = dialect_of(separator, encoding, decimal, date_format, sheet, multiline=multiline)
    stated = None if schema is None else described(schema, confirmed=False)
    terminal.say(config.told(context), skip_empty=True)
    with terminal.progress("Reading the table"):
        files = cut(data, out, holdout=holdout, unit=unit, seed=seed, dialect=dialect, schema=stated, dry_run=dry_run)
    rehearsal = "A rehearsal: nothing was written. "
    advice = "Private, both: release from the first, give both to `threea evaluate`."
    terminal.say((rehearsal if dry_run else "") + advice)
    for file in files:
        terminal.name(file)
    told = {"dry_run": dry_run, "from_config": config.taken(context)}
    terminal.result({**told, "train": files[0], "holdout": files[1]})
