"""The command that cuts a table in two, for its owner: what to release, and what to evaluate the release on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from threea.cli import terminal
from threea.cli.schema import DateFormat, Decimal, Encoding, Separator


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(split)


def split(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="CSV or Parquet: a file, or a folder of Parquet files.")],
    out: Annotated[Path, typer.Option(help="A new folder, for your eyes only.")],
    holdout: Annotated[float, typer.Option(metavar="SHARE", help="Of the rows, or persons, to hold out.")] = 0.2,
    unit: Annotated[str | None, typer.Option(help="The column that names a person: all rows on one side.")] = None,
    seed: Annotated[int | None, typer.Option(help="Makes it repeatable.")] = None,
    separator: Separator = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    date_format: DateFormat = None,
) -> None:
    """Cut a table in two at random: rows to release, and rows that `threea evaluate` is to be given."""
    from threea.evaluate.split import split as cut
    from threea.table.dialect import dialect_of

    dialect = dialect_of(separator, encoding, decimal, date_format)
    with terminal.progress("Reading the table"):
        files = cut(data, out, holdout=holdout, unit=unit, seed=seed, dialect=dialect)
    terminal.say("Private, both: release from the first, give both to `threea evaluate`.")
    for file in files:
        terminal.say(f"  {file}")
