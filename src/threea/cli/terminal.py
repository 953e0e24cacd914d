"""What a command says, complains of, shows as a table, or shows as progress; or tells a script, as JSON.

With `--json` a command writes one JSON object to standard output and nothing else; if it fails, one to standard error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from typing import Any

from threea import interrupts
from threea.errors import SettingError
from threea.json_files import to_json
from threea.progress import listening

_audience = {"scripts": False}
"""Whether a script listens; each command says so anew, before anything else."""


def for_scripts(wanted: bool) -> bool:
    """Say nothing to people from here on, if that is wanted: `result` and `fail` speak to scripts then."""
    _audience["scripts"] = wanted
    return wanted


def result(found: Mapping[str, Any]) -> None:
    """Write what a command has found or done as JSON, if a script listens."""
    if _audience["scripts"]:
        sys.stdout.write(to_json(found))


def fail(message: str, code: int) -> int:
    """Write why a command ends: one line, or one JSON object; return the exit code."""
    if _audience["scripts"]:
        sys.stderr.write(to_json({"error": " ".join(message.split()).removeprefix("error: "), "exit_code": code}))
    else:
        complain(message)
    return code


def number(name: str, text: str) -> float:
    """Read a number, or refuse it by name and value."""
    try:
        return float(text)
    except ValueError:
        raise SettingError(f"{name} ({text}) must be a number") from None


def printable(text: str) -> str:
    r"""Return text whose control characters are spelt out: names from a file must not steer the terminal.

    Example:
        >>> printable("ward\x1b[2J")
        'ward\\x1b[2J'
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def say(line: str, *, skip_empty: bool = False) -> None:
    """Write a line, or several, to standard output, for people."""
    if _audience["scripts"] or (skip_empty and not line):
        return
    sys.stdout.write("\n".join(printable(part) for part in line.split("\n")) + "\n")


def name(file: PathLike[str]) -> None:
    """Write the name of a file that was made: one line, whatever the name holds."""
    say(f"  {printable(str(file))}")


def complain(line: str) -> None:
    """Write one line to standard error, for people."""
    if _audience["scripts"]:
        return
    sys.stderr.write(printable(" ".join(line.split())) + "\n")


def table(head: list[str], rows: list[list[str]]) -> None:
    """Write a table to standard output, for people."""
    if _audience["scripts"]:
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in head:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    # Piped, a table is as wide as it needs to be: scripts read it.
    Console(file=sys.stdout, width=None if sys.stdout.isatty() else 200).print(table)


def stages(advance: Any) -> Callable[[str, int, int], None]:
    """Return what shows the stages of a release on a progress line, if there is one, and heeds interrupts."""

    def tell(stage: str, done: int, of: int) -> None:
        interrupts.check()
        if advance is not None:
            advance(done, description=f"Making the release: {stage}", total=of)

    return tell


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Any]:
    """Show progress on a terminal; be quiet elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[parts]}"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total, parts="")
        yield lambda done, **more: progress.update(task, completed=done, **more)


@contextmanager
def passes(what: str) -> Iterator[Any]:
    """Show progress as `progress` does, and how far each pass over the rows is."""
    with progress(what) as advance:
        if advance is None:
            yield None
            return

        def part(done: int, of: int | None) -> None:
            advance(None, parts=f"part {done:,}" + (f" of {of:,}" if of else ""))

        with listening(parts=part):
            yield advance
