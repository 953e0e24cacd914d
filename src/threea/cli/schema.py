"""The command that drafts a schema for the owner."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from threea.cli import config, terminal
from threea.cli.options import (
    Config,
    Data,
    DateFormat,
    Decimal,
    Drop,
    DryRun,
    Encoding,
    Json,
    Multiline,
    Separator,
    Sheet,
)

if TYPE_CHECKING:
    from threea.table.schema import Schema


PRIVATE = "a draft is read from the rows: private until it is confirmed"


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(schema)


def schema(
    context: typer.Context,
    data: Data,
    target: Annotated[str, typer.Option(help="The column that models will learn to predict.")],
    unit: Annotated[str | None, typer.Option(help="The column that names a person to protect.")] = None,
    out: Annotated[Path, typer.Option(help="Where to write the draft.")] = Path("schema.toml"),
    separator: Separator = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    date_format: DateFormat = None,
    multiline: Multiline = False,
    sheet: Sheet = None,
    drop: Drop = None,
    dry_run: DryRun = False,
    config_file: Config = None,
    as_json: Json = False,
) -> None:
    """Draft a schema for the owner to confirm. It holds values read from the rows: keep it until confirmed."""
    from threea.describe.propose_schema import check_place, check_table, propose_schema, save
    from threea.table.dialect import dialect_of
    from threea.table.schema import READING

    dialect = dialect_of(separator, encoding, decimal, date_format, sheet, multiline=multiline)
    check_place(out)
    terminal.say(config.told(context), skip_empty=True)
    told = {"notice": PRIVATE, "dry_run": dry_run, "from_config": config.taken(context), "out": out}
    if dry_run:
        columns = check_table(data, target, unit, dialect, drop or ())
        terminal.say(f"{out}: would describe {len(columns)} columns. A rehearsal: nothing was written.")
        terminal.result({**told, "columns": len(columns)})
        return
    with terminal.progress("Reading the table"):
        proposed, notes = propose_schema(data, target, unit, dialect, drop or ())
    save(proposed, notes, out)
    terminal.say(notes.get(READING, ""), skip_empty=True)
    terminal.say(f"{_task(proposed)}{_ids(proposed)}")
    terminal.say(f"{out}: a draft. Replace what was read from the rows by what is public, then set confirmed = true.")
    kinds = {column.name: str(column.kind) for column in proposed.columns}
    terminal.result({**told, "target": target, "columns": len(kinds), "kinds": kinds})


def _task(proposed: Schema) -> str:
    target = proposed[proposed.target or ""]
    what = f"{len(target.categories)} classes" if target.kind.listed else "a number"
    return f"Target {terminal.printable(target.name)}: {what}. "


def _ids(proposed: Schema) -> str:
    names = [terminal.printable(column.name) for column in proposed.columns if column not in proposed.valued]
    return f"Ids, never read: {', '.join(names)}." if names else "No column looks like an id."
