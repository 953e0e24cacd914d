"""The command that drafts a schema for the owner, and the options that say how a CSV file is written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from threea.cli import terminal

if TYPE_CHECKING:
    from threea.table.schema import Schema

Separator = Annotated[
    str | None, typer.Option(metavar="CHARACTER", help="Between values of a CSV file; found in its header line.")
]
Encoding = Annotated[str | None, typer.Option(metavar="NAME", help="Of a CSV file, such as cp1252; UTF-8 by default.")]
Decimal = Annotated[str | None, typer.Option(metavar="MARK", help="The decimal mark of a CSV file, . or a comma.")]
DateFormat = Annotated[
    str | None, typer.Option(metavar="FORMAT", help="How a CSV file writes dates, such as %d.%m.%Y; ISO by default.")
]


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(schema)


def schema(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="CSV or Parquet: a file, or a folder of Parquet files.")],
    target: Annotated[str, typer.Option(help="The column that models will learn to predict.")],
    unit: Annotated[str | None, typer.Option(help="The column that names a person to protect.")] = None,
    out: Annotated[Path, typer.Option(help="Where to write the draft.")] = Path("schema.toml"),
    separator: Separator = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    date_format: DateFormat = None,
) -> None:
    """Draft a schema for the owner to confirm. It holds values read from the rows: keep it until confirmed."""
    from threea.describe.propose_schema import check_place, propose_schema, save
    from threea.table.dialect import dialect_of

    dialect = dialect_of(separator, encoding, decimal, date_format)
    check_place(out)
    with terminal.progress("Reading the table"):
        proposed, notes = propose_schema(data, target, unit, dialect)
    save(proposed, notes, out)
    terminal.say(f"{_task(proposed)}{_ids(proposed)}")
    terminal.say(f"{out}: a draft. Replace what was read from the rows by what is public, then set confirmed = true.")


def _task(proposed: Schema) -> str:
    target = proposed[proposed.target or ""]
    what = f"{len(target.categories)} classes" if target.kind.listed else "a number"
    return f"Target {terminal.printable(target.name)}: {what}. "


def _ids(proposed: Schema) -> str:
    names = [terminal.printable(column.name) for column in proposed.columns if column not in proposed.valued]
    return f"Ids, never read: {', '.join(names)}." if names else "No column looks like an id."
