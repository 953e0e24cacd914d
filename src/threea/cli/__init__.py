"""The command line: thin commands over the library.

Exit codes: 0 done, 1 a bug of ours or a claim that an audit refuted, 2 a mistake the user can mend, 3 budget refused,
130 interrupted (143 and 129 by the signals TERM and HUP).
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import threea
from threea import interrupts
from threea.cli import doctor, ledger, measuring, options, release, sample, schema, split, studio, tables, terminal
from threea.errors import ThreeaError, bug, fate_of, stated


class Interrupted(Exception):
    """An interrupt, as it passes the parser, which would make an exit code of it and forget what it carries."""


class Commands(TyperGroup):
    """The commands, and what an interrupt of one becomes."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            interrupts.check()
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise Interrupted from interrupt


app = typer.Typer(
    cls=Commands,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line, and end it with one line and an exit code if something is wrong."""
    # A terminal that lacks a character gets its code; to fail for it after the charge would be too late.
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    # Before anything is parsed: a flag that cannot be parsed is told to scripts, too.
    terminal.for_scripts("--json" in sys.argv[1:])
    with interrupts.noted() as interrupted:
        code = _run(interrupted)
    sys.exit(code)


def _run(interrupted: list[int]) -> int:
    try:
        return int(app(standalone_mode=False, prog_name="threea") or 0)
    except ThreeaError as error:
        return terminal.fail("; ".join(filter(None, [f"error: {error}", fate_of(error)])), error.exit_code)
    except (Interrupted, KeyboardInterrupt, typer.Abort) as error:
        return _interrupted(error, interrupted)
    except BrokenPipeError:
        return 0
    except Exception as error:
        # A library in the middle of loading may turn an interrupt into an error of its own.
        return _interrupted(error, interrupted) if interrupted else _told(error)


def _told(error: Exception) -> int:
    """Tell of an error that is not ours: of a wrong flag, or of a bug, whose message may quote a row."""
    if hasattr(error, "format_message"):  # how the parser tells of a wrong flag, in every version of it
        return terminal.fail(f"error: {error.format_message()}", 2)
    return terminal.fail(f"{bug(error)}; {_ended(error)}; please report it", 1)


def _interrupted(error: BaseException, numbers: list[int]) -> int:
    return terminal.fail(f"interrupted: {_ended(error)}", interrupts.code_of(numbers))


def _version(wanted: bool) -> None:
    if wanted:
        terminal.say(f"threea {threea.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Synthetic training sets from private tables, with a proven and counted privacy cost."""
    if context.invoked_subcommand is None:
        terminal.say(context.get_help())


def _ended(error: BaseException) -> str:
    return fate_of(error) or stated(charged=False, written=False)


release.register(app)
tables.register(app)
schema.register(app)
sample.register(app)
split.register(app)


@app.command()
def recipes(as_json: options.Json = False) -> None:
    """List the recipes, with their guarantees and settings."""
    import dataclasses

    from threea.recipes import DEFAULT, RECIPES

    found: dict[str, dict[str, Any]] = {
        name: {
            "default": name == DEFAULT,
            "guarantee": str(recipe().guarantee),
            "summary": recipe.summary,
            "settings": {field.name: field.default for field in dataclasses.fields(recipe)},
        }
        for name, recipe in RECIPES.items()
    }
    rows = [
        [
            name + (" (default)" if recipe["default"] else ""),
            recipe["guarantee"],
            recipe["summary"],
            ", ".join(f"{key}={value}" for key, value in recipe["settings"].items()),
        ]
        for name, recipe in found.items()
    ]
    terminal.table(["recipe", "guarantee", "what it does", "settings"], rows)
    terminal.result({"recipes": found})


ledger.register(app)
measuring.register(app)
doctor.register(app)
studio.register(app)
