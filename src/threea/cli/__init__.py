"""The command line: thin commands over the library.

Exit codes: 0 done, 1 a bug of ours or a claim that an audit refuted, 2 a mistake the user can mend, 3 budget refused,
130 interrupted.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer

from threea.cli import measuring, release, schema, terminal
from threea.errors import SettingError, ThreeaError

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Synthetic training sets from private tables, with a proven and counted privacy cost.",
)


def main() -> None:
    """Run the command line, and end it with one line and an exit code if something is wrong."""
    code = 1
    try:
        code = app(standalone_mode=False) or 0
    except ThreeaError as error:
        terminal.complain(f"error: {error}")
        code = error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except BrokenPipeError:
        code = 0
    except Exception as error:
        if hasattr(error, "format_message"):  # how the parser tells of a wrong flag, in every version of it
            terminal.complain(f"error: {error.format_message()}")
            code = 2
        else:
            # Only the kind and the place: the message of a stranger's exception may quote a row.
            frame = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(frame.filename).name}:{frame.lineno}"
            terminal.complain(
                f"internal error: {type(error).__name__} at {place}; nothing was written; please report it"
            )
    if code == 130:
        terminal.complain("interrupted: no result was written; what was charged stays charged")
    sys.exit(code)


release.register(app)
schema.register(app)


@app.command()
def ledger(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A ledger.")],
    dataset: Annotated[str | None, typer.Option(help="Show this dataset only.")] = None,
) -> None:
    """Show what was spent, by dataset and release."""
    from threea.anonymize.ledger import Ledger
    from threea.errors import LedgerError

    if not file.exists():
        raise LedgerError(f"ledger {file} does not exist; check the path")
    with Ledger(file) as book:
        found = [entry for entry in book.datasets() if dataset in (None, entry.name)]
        if dataset is not None and not found:
            raise SettingError(f"dataset ({dataset}) is not in ledger {file}")
        for entry in found:
            cap = "no cap" if entry.cap is None else f"cap {entry.cap:g}, left {max(entry.cap - entry.spent, 0):g}"
            terminal.say(f"{entry.name}: epsilon {entry.spent:g} spent, delta {entry.delta:g}; {cap}")
            terminal.table(
                ["release", "time", "recipe", "epsilon", "delta", "answers"],
                [
                    [
                        one.id,
                        one.created[:19],
                        one.recipe,
                        f"{one.epsilon:g}",
                        f"{one.delta:g}",
                        f"{one.charged} of {one.planned}",
                    ]
                    for one in book.releases(entry.name)
                ],
            )


@app.command()
def recipes() -> None:
    """List the recipes, with their guarantees and settings."""
    import dataclasses

    from threea.recipes import DEFAULT, RECIPES

    rows = []
    for name, recipe in RECIPES.items():
        settings = ", ".join(f"{field.name}={field.default}" for field in dataclasses.fields(recipe))
        rows.append(
            [name + (" (default)" if name == DEFAULT else ""), str(recipe().guarantee), recipe.summary, settings]
        )
    terminal.table(["recipe", "guarantee", "what it does", "settings"], rows)


measuring.register(app)
