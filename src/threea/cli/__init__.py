"""The command line: thin commands over the library.

Exit codes: 0 done, 1 a bug of ours or a claim that an audit refuted, 2 a mistake the user can mend, 3 budget refused,
130 interrupted.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from threea.cli import measuring as cli_evaluate
from threea.cli import terminal
from threea.errors import SettingError, ThreeaError

if TYPE_CHECKING:
    from threea.framework import Recipe

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Synthetic training sets from private tables, with a proven and counted privacy cost.",
)

Data = Annotated[Path, typer.Argument(metavar="DATA", help="CSV or Parquet: a file, or a folder of Parquet files.")]


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


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="A new folder for the release.")] = Path("threea-demo"),
) -> None:
    """Run the whole job on an embedded table of simulated hospital stays."""
    from threea import hospital
    from threea.publish import check_folder

    check_folder(out)
    terminal.say("Simulated hospital stays: made by code, no real person behind any row.")
    _release(
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


@app.command()
def schema(
    data: Data,
    target: Annotated[str, typer.Option(help="The column that models will learn to predict.")],
    out: Annotated[Path, typer.Option(help="Where to write the draft.")] = Path("schema.toml"),
) -> None:
    """Draft a schema for the owner to confirm. It holds values read from the rows: keep it until confirmed."""
    from threea.describe.propose_schema import draft, to_toml

    if out.exists():
        raise SettingError(f"out ({out}) exists already; remove it or choose another name")
    proposed, notes = draft(data, target)
    text = to_toml(proposed, notes)
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        out.unlink(missing_ok=True)
        raise SettingError(f"out ({out}) cannot be written: {error.strerror}; choose another place") from None
    terminal.say(f"{out}: a draft. Replace what was read from the rows by what is public, then set confirmed = true.")


@app.command()
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
    from threea.table.schema import Schema

    if schema is None and target is None:
        raise SettingError(
            "either --schema or --target must be given; make a draft with `threea schema DATA --target COL`"
        )
    if cap is not None and ledger is None:
        raise SettingError("--cap needs a --ledger to remember what was spent; name a file")
    described = None if schema is None else Schema.load(schema)
    if described is not None and confirm_schema:
        described = described.confirm()
    _release(
        data,
        out=out,
        form=format,
        epsilon=terminal.number("epsilon", epsilon),
        delta=terminal.number("delta", delta),
        schema=described,
        target=target,
        adjacency=adjacency,
        recipe=recipe,
        settings=_settings(set or []),
        rows=rows,
        seed=seed,
        ledger=ledger,
        dataset=dataset or data.absolute().name.split(".")[0],
        cap=cap,
        unit=unit,
        max_rows_per_unit=max_rows_per_unit,
        accept_unproven=accept_unproven,
    )


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


cli_evaluate.register(app)


def _release(
    data: Any,
    *,
    out: Path,
    form: str = "parquet",
    epsilon: float,
    delta: float = 1e-6,
    adjacency: str = "add-remove",
    recipe: str | None = None,
    settings: dict[str, str] | None = None,
    rows: int | None = None,
    seed: int | None = None,
    **opening: Any,
) -> None:
    """Check everything that needs no rows, open the table, show the plan, spend, write."""
    from threea.anonymize.open_table import open_table
    from threea.budget import Budget
    from threea.publish import check_folder, check_format, write

    check_folder(out)
    check_format(form)
    budget = Budget(epsilon, delta, adjacency)  # type: ignore[arg-type]
    asked = _asked(recipe, settings or {})
    asked.check_rows(rows)
    with terminal.progress("Opening the table"):
        table = open_table(data, budget=budget, **opening)
        chosen, reason = asked.chosen(table.schema)
        plan = chosen.plan(table)
    if chosen is not asked:
        terminal.say(f"Recipe {chosen.name}, picked by {asked.name}: {reason}.")
    if opening.get("ledger") is None:
        terminal.say("No --ledger given: this spending is in the certificate, but no cap will remember it.")
    _show_plan(chosen.name, plan, _expected(data))
    with terminal.progress("Asking through the door"):
        made = chosen.run(table, rows=rows, seed=seed, plan=plan)
    with terminal.progress("Writing synthetic rows", total=made.rows) as advance:
        files = write(made, out, form, advance)
    terminal.say(
        f"Guarantee: {made.guarantee}. {made.rows:,} synthetic rows at epsilon {epsilon:g}, delta {delta:g}. Files:"
    )
    for file in files:
        terminal.say(f"  {file}")


def _asked(name: str | None, settings: dict[str, str]) -> Recipe:
    """Make the recipe asked for; settings belong to a recipe, so one must be named for them."""
    import dataclasses

    from threea.recipes import DEFAULT, RECIPES
    from threea.session import make_recipe

    if name in (None, DEFAULT) and settings:
        key = next(iter(settings))
        known = {each: [field.name for field in dataclasses.fields(recipe)] for each, recipe in RECIPES.items()}
        others = [each for each in known if each != DEFAULT]
        example = next((each for each in others if key in known[each]), others[0])
        raise SettingError(f"setting ({key}) is unknown to {DEFAULT}; name a recipe with --recipe, e.g. {example}")
    return make_recipe(name or DEFAULT, settings)


def _show_plan(recipe: str, plan: Any, expected: str) -> None:
    budget = plan.budget
    terminal.say(
        f"Plan of {recipe}: epsilon {budget.epsilon:g}, delta {budget.delta:g}, {budget.adjacency}; {expected}."
    )
    rows = [
        [
            line.name,
            f"{100 * line.share:.0f}%",
            type(line.event).__name__,
            "" if line.count == 1 else f"{line.count} times",
        ]
        for line in plan.lines
    ]
    terminal.table(["question", "share of budget", "event", ""], rows)


def _expected(data: Any) -> str:
    """Say how long it may take, from the size of the file alone."""
    if not isinstance(data, Path):
        return "a few seconds"
    files = [data] if data.is_file() else list(data.rglob("*.parquet"))
    # A release reads about 5 MB of Parquet a second (benchmarks/results/scale.json); CSV holds as many rows in more.
    speed = {".parquet": 5e6, ".pq": 5e6}.get(files[0].suffix if files else "", 25e6)
    seconds = sum(file.stat().st_size for file in files) / speed
    return "a few seconds" if seconds < 10 else f"about {max(round(seconds / 60), 1)} min"


def _settings(pairs: list[str]) -> dict[str, str]:
    for pair in pairs:
        if "=" not in pair:
            raise SettingError(f"--set ({pair}) must be key=value")
    return dict(pair.split("=", 1) for pair in pairs)
