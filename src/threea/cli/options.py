"""Options that several commands have: what is read and how, defaults from a file, output for scripts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from threea.cli import config, terminal

Data = Annotated[
    Path, typer.Argument(metavar="DATA", help="CSV, Parquet or Excel: a file, or a folder of Parquet files.")
]
Separator = Annotated[
    str | None, typer.Option(metavar="CHARACTER", help="Between values of a CSV file; found in its header line.")
]
Encoding = Annotated[str | None, typer.Option(metavar="NAME", help="Of a CSV file, such as cp1252; UTF-8 by default.")]
Decimal = Annotated[
    str | None,
    typer.Option(metavar="MARK", help="The decimal mark of a CSV file, . or a comma; the other groups digits."),
]
DateFormat = Annotated[
    str | None, typer.Option(metavar="FORMAT", help="How a CSV file writes dates, such as %d.%m.%Y; ISO by default.")
]
Multiline = Annotated[
    bool, typer.Option("--multiline", help="Values of a CSV file hold line breaks: one line may change others.")
]
Sheet = Annotated[str | None, typer.Option(metavar="NAME", help="Of an Excel file that has several.")]
Drop = Annotated[
    list[str] | None, typer.Option("--drop", metavar="COL", help="A column that is never read nor released.")
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help=f"Defaults of these options; by default {config.NAME} in this folder, if it is there.",
        callback=config.read,
        is_eager=True,
    ),
]
Json = Annotated[
    bool,
    typer.Option("--json", help="One JSON object, for scripts.", callback=terminal.for_scripts, is_eager=True),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check everything and say what would be done; do nothing.")]


def words(*known: str) -> Callable[[], list[str]]:
    """Return what a shell completes an option with."""
    return lambda: list(known)


def recipe_names() -> list[str]:
    """Return the recipes' names, for a shell to complete."""
    from threea.recipes import RECIPES

    return list(RECIPES)
