"""What the studio reads of tables and releases: in processes with limits, never in the one that serves the pages.

A file that was uploaded may be made to do harm: to take all memory, to end whoever reads it. Then its page says so, and
the studio serves the next one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from threea.describe import preview as previews
from threea.describe.preview import ROWS, Preview
from threea.limited import Limits, available_memory, limited
from threea.plain_data import restored, simplified
from threea.studio.choices import dialect_from, prepare_options
from threea.table.dialect import Dialect
from threea.table.schema import Schema

SECONDS = 600
"""Of processor time, for anything that a page waits for. Chosen."""
_AT_ONCE = 2
"""So many files are read at a time, each with its part of the memory that is left. Others wait."""
_LEAST = 1 << 30
_free = threading.BoundedSemaphore(_AT_ONCE)


def _read(path: Path | str, function: Callable[..., Iterator[Any]], *arguments: Any) -> Any:
    """Return what a function yields, in a process with limits."""
    with _free:
        limits = Limits(max(int(available_memory() / _AT_ONCE), _LEAST), SECONDS)
        refusal = f"{path} cannot be read within {limits}; is it damaged? What is that large, use threea release for"
        (result,) = limited(limits, function, *arguments, refusal=refusal)
        return result


def preview(path: Path, dialect: Dialect | None, rows: int = ROWS) -> Preview:
    """Return the first rows; as `describe.preview.preview`."""
    names, shown, used = _read(path, _previewed, str(path), _plain(dialect), rows)
    return Preview(tuple(names), tuple(tuple(row) for row in shown), dialect_from(used))


def _previewed(path: str, dialect: Mapping[str, Any] | None, rows: int) -> Iterator[Any]:
    seen = previews.preview(path, dialect_from(dialect), rows)
    yield seen.names, seen.rows, _plain(seen.dialect)


def sheets_of(path: Path) -> list[str]:
    """Return the names of an Excel file's sheets; as `describe.preview.sheets_of`."""
    names: list[str] = _read(path, _sheets, str(path))
    return names


def _sheets(path: str) -> Iterator[Any]:
    yield previews.sheets_of(Path(path))


def propose_schema(
    path: Path, target: str | None, unit: str | None, dialect: Dialect | None
) -> tuple[Schema, dict[str, str]]:
    """Return a draft, and notes on it; as `describe.propose_schema.propose_schema`."""
    schema, notes = _read(path, _proposed, str(path), target, unit, _plain(dialect))
    return restored(schema, ()), notes


def _proposed(path: str, target: str | None, unit: str | None, dialect: Mapping[str, Any] | None) -> Iterator[Any]:
    from threea.describe.propose_schema import propose_schema

    schema, notes = propose_schema(path, target, unit, dialect_from(dialect))
    yield simplified(schema, []), dict(notes)


def rehearsed(order: Mapping[str, Any]) -> tuple[str, list[list[Any]]]:
    """Return an order's receipt, and of every question its name, share, count, noise and event in words."""
    text, questions = _read(order["data"], _rehearsed, order)
    return text, questions


def _rehearsed(order: Mapping[str, Any]) -> Iterator[Any]:
    from threea.report import words
    from threea.session import rehearse

    prepared = rehearse(order["data"], **prepare_options(order))
    lines = (
        (line.name, words.percent(line.share), line.count, words.noise_multiplier(line.event), words.event(line.event))
        for line in prepared.plan.lines
    )
    yield str(prepared), list(lines)


def draw_rows(release: Path, path: Path, kind: str, rows: int, conditions: Sequence[str]) -> None:
    """Write more rows of a release to a file."""
    _read(release, _drawn, str(release), str(path), kind, rows, list(conditions))


def _drawn(release: str, path: str, kind: str, rows: int, conditions: Sequence[str]) -> Iterator[None]:
    from threea.model_file import load_release
    from threea.publish import write_sample
    from threea.table.conditions import given_texts

    loaded = load_release(release)
    write_sample(loaded, Path(path), kind, rows=rows, given=given_texts(loaded.schema, conditions))
    yield None


def _plain(dialect: Dialect | None) -> dict[str, Any] | None:
    return None if dialect is None else asdict(dialect)
