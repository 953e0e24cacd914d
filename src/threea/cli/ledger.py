"""The command that shows a ledger, and checks it against the certificates of its releases."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from threea.cli import config, terminal
from threea.cli.options import Config, Json
from threea.errors import InputError, SettingError

if TYPE_CHECKING:
    from threea.ledger import Ledger
    from threea.ledger.books import DatasetRow

MISSING = 2
"""The exit code if a release is not in the ledger."""


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(ledger)


def ledger(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A ledger; the configuration's if none is named.")],
    releases: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RELEASE", help="With --verify: folders made by `threea release`, or certificates."),
    ] = None,
    dataset: Annotated[str | None, typer.Option(help="Show this dataset only.")] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check that the ledger is whole, and holds what each RELEASE says.")
    ] = False,
    config_file: Config = None,
    as_json: Json = False,
) -> None:
    """Show what was spent, by dataset and release; or check it. Exit code 2: not whole, or without a release."""
    from threea.ledger import Ledger

    if releases and not verify:
        raise SettingError(f"release ({releases[0]}) is only looked up with --verify; add it")
    terminal.say(config.told(context), skip_empty=True)
    with Ledger(file, reading=True) as book:
        if verify:
            _verify(book, releases or [])
        else:
            _show(book, dataset)


def _show(book: Ledger, dataset: str | None) -> None:
    found = [entry for entry in book.datasets() if dataset in (None, entry.name)]
    if dataset is not None and not found:
        raise SettingError(f"dataset ({dataset}) is not in ledger {book.path}; leave --dataset out to see all")
    shown = [(entry, book.releases(entry.name)) for entry in found]
    for entry, releases in shown:
        cap = "no cap" if entry.cap is None else f"cap {entry.cap:g}, left {_left(entry):g}"
        terminal.say(f"{terminal.printable(entry.name)}: epsilon {entry.spent:g} spent, delta {entry.delta:g}; {cap}")
        rows = [
            [
                row.id,
                row.created[:19],
                row.recipe,
                f"{row.epsilon:g}",
                f"{row.delta:g}",
                f"{row.charged} of {row.planned}",
            ]
            for row in releases
        ]
        terminal.table(["release", "time", "recipe", "epsilon", "delta", "answers"], rows)
    datasets = [
        {**asdict(entry), "left": _left(entry), "releases": [asdict(row) for row in releases]}
        for entry, releases in shown
    ]
    terminal.result({"ledger": book.path, "head": book.head.to_json(), "datasets": datasets})


def _left(entry: DatasetRow) -> float | None:
    return None if entry.cap is None else max(entry.cap - entry.spent, 0.0)


def _verify(book: Ledger, releases: list[Path]) -> None:
    """Say of the ledger that it is whole, for opening checked it, and of each release whether it is in it."""
    terminal.say(f"ledger {book.path} is whole: {book.head}")
    found = []
    for release in releases:
        try:
            message, problem = _found(book, release), False
            terminal.say(f"release {terminal.printable(str(release))}: {message}")
        except (SettingError, InputError) as error:
            message, problem = str(error), True
            colon = ":" if isinstance(error, InputError) else ""
            terminal.complain(f"error: release {release}{colon} {error}")
        found.append({"release": release, "in_ledger": not problem, "message": message})
    terminal.result({"ledger": book.path, "whole": True, "head": book.head.to_json(), "releases": found})
    if not all(release["in_ledger"] for release in found):
        raise typer.Exit(MISSING)


def _found(book: Ledger, release: Path) -> str:
    from threea.ledger.certified import check_certificate
    from threea.parts import check_parts

    certificate = _certificate(release)
    files = check_parts(release, certificate) if release.is_dir() else 0
    head = check_certificate(book, certificate)
    beside = f"; {files} files are those that it names" if files else ""
    return f"in the ledger, up to entry {head.entries}, as its certificate says{beside}"


def _certificate(release: Path) -> dict[str, object]:
    try:
        file = release / "certificate.json" if release.is_dir() else release
        if not file.is_file():
            raise FileNotFoundError(None, "no such file")
        data = json.loads(file.read_bytes())
    except OSError as error:
        raise SettingError(f"has no certificate that can be read ({error.strerror}); check the path") from None
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise SettingError("has a certificate that is damaged or none; take the one that threea wrote")
    return data
