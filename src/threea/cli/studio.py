"""The command that serves the studio, a local web app."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(studio)


def studio(
    folder: Annotated[
        Path, typer.Option(metavar="DIR", help="Where tables are found and releases are put; nothing else is reached.")
    ] = Path(),
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the link, and open no page.")] = False,
) -> None:
    """Serve the studio on this machine alone: from a table to a release in the browser, without this terminal."""
    from threea.studio import serve

    serve(folder, browser=not no_browser)
