"""The command that draws more rows from a release."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from threea.cli import terminal
from threea.errors import SettingError

if TYPE_CHECKING:
    from threea.release import Release
    from threea.table.conditions import Given

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
    format: Annotated[str | None, typer.Option(help="parquet or csv; by default as the file's name ends.")] = None,
) -> None:
    """Draw more rows from a release, or rows of a kind. It costs nothing."""
    from threea.model_file import load_release
    from threea.pricing import check_numbers
    from threea.publish import check_format
    from threea.table.conditions import given_texts

    check_numbers(rows, seed)
    form = format or FORMS.get(out.suffix.lower(), "parquet")
    check_format(form)
    _check_place(out)
    loaded = load_release(release)
    conditions = given_texts(loaded.schema, [*(given or []), *(where or [])])
    with terminal.progress("Drawing rows", total=rows) as advance:
        _write(loaded, rows, conditions, seed, out, form, advance)
    budget = loaded.plan.budget
    promise = f"{loaded.guarantee}, at epsilon {budget.epsilon:g}, delta {budget.delta:g}"
    terminal.say(f"{out}: {rows:,} rows at no cost, under the guarantee of the release they come from ({promise}).")


def _check_place(out: Path) -> None:
    parent = out.absolute().parent
    if os.path.lexists(out):
        raise SettingError(f"out ({out}) exists already; choose another name")
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise SettingError(f"out ({out}): folder {parent} does not exist, or is not writable; choose another")


def _write(
    release: Release, rows: int, given: Given | None, seed: int | None, out: Path, form: str, advance: Any
) -> None:
    """Write a file, as the release was written, that appears whole or not at all and takes nobody's place."""
    from threea.table.spreadsheet import inert
    from threea.table.writing import CSV, RowWriter

    staging = out.with_name(f".{out.name[:100]}-{secrets.token_hex(8)}")
    problem, written = None, 0
    try:
        with RowWriter(staging, form, release.layout, release.dialect) as writer:
            for batch in release.draws(rows, given, seed):
                safe = release.spreadsheet_safe and form == CSV
                writer.write(inert(batch, release.schema) if safe else batch)
                written += batch.num_rows
                if advance:
                    advance(written)
        _check_place(out)
        staging.rename(out)
    except OSError as error:
        problem = error.strerror or type(error).__name__
    finally:
        staging.unlink(missing_ok=True)
    if problem:
        raise SettingError(f"out ({out}) cannot be written: {problem}; make room or choose another place")
