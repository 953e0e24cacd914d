"""The command that draws more rows from a release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from threea.cli import terminal
from threea.cli.options import DryRun, Json, words

FORMS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv"}


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(sample)


def sample(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release's folder, or its model.threea.")],
    rows: Annotated[int, typer.Option(help="How many rows.")],
    out: Annotated[Path, typer.Option(help="A new file for them.")],
    given: Annotated[
        list[str] | None,
        typer.Option(help="Only such rows: column=value; of several values, any."),
    ] = None,
    where: Annotated[
        list[str] | None, typer.Option(help="Only such rows: 'column>=number', or <=, <, >, also of dates; all hold.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Makes the rows repeatable.")] = None,
    format: Annotated[
        str | None,
        typer.Option(
            help="parquet or csv; by default as the file's name ends.", autocompletion=words("parquet", "csv")
        ),
    ] = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Draw more rows from a release, or rows of a kind. It costs nothing."""
    from threea.model_file import load_release
    from threea.pricing import check_numbers
    from threea.publish import check_file, check_format, write_sample
    from threea.table.conditions import given_texts

    check_numbers(rows, seed)
    form = format or FORMS.get(out.suffix.lower(), "parquet")
    check_format(form)
    check_file(out)
    loaded = load_release(release)
    conditions = given_texts(loaded.schema, [*(given or []), *(where or [])])
    if not dry_run:
        with terminal.progress("Drawing rows", total=rows) as advance:
            write_sample(loaded, out, form, rows=rows, given=conditions, seed=seed, progress=advance)
    budget = loaded.plan.budget
    promise = f"{loaded.guarantee}, at epsilon {budget.epsilon:g}, delta {budget.delta:g}"
    whole = f"{out}: {rows:,} rows at no cost, under the guarantee of the release they come from ({promise})."
    terminal.say(f"{whole} A rehearsal: nothing was written." if dry_run else whole)
    terminal.result(
        {
            "dry_run": dry_run,
            "out": out,
            "format": form,
            "rows": rows,
            "guarantee": str(loaded.guarantee),
            "epsilon": budget.epsilon,
            "delta": budget.delta,
        }
    )
