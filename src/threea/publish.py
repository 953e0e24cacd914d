"""Writing a release to a folder: its place claimed before anything is spent, then whole or not at all."""

from __future__ import annotations

import hashlib
import io
import logging
import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from threea.drawing import CHUNK_ROWS, least_rows
from threea.errors import SettingError, outcome, stated
from threea.model_file import packed
from threea.parts import CERTIFICATE, MODEL, digest_of
from threea.place import Place, check_folder
from threea.table.dialect import Dialect
from threea.table.file_size import row_bytes
from threea.table.schema import Schema
from threea.table.writing import CSV, FORMATS, PARQUET, RowWriter

if TYPE_CHECKING:
    import pyarrow as pa

    from threea.release import Release
    from threea.table.conditions import Given

__all__ = [
    "FORMATS",
    "Progress",
    "check_file",
    "check_folder",
    "check_format",
    "claim",
    "digest_of",
    "report_of",
    "take_room",
    "write",
    "write_sample",
]

_log = logging.getLogger(__name__)
_OTHER_BYTES, _COLUMN_BYTES = 4_000_000, 30_000
"""Of the files beside the rows: model and report, and what they take for each column. Measured on the recipes'
defaults, but for models of many gigabytes of counts."""
_FILES, _ROOM = 8, 2
"""Files and folders of a release, but for parts; and room for as many rows as the private file has, in its sizes."""

PART_ROWS = 16 * CHUNK_ROWS
"""Rows in each file of a table that is written as a folder of them."""
PARTS_ABOVE = 10_000_000
"""A Parquet table of more rows than this is a folder of files, which many can read, and write, at once."""

Described = tuple[Schema, "pa.Schema"]
"""What is public of a table, and the columns that a release of it has."""
Progress = Callable[[int], None]
"""Called with the number of rows written so far."""
Elsewhere = Callable[[Callable[[int], bytes], Sequence[int]], Iterable[bytes]]
"""Maps a function over numbers on other machines, in order."""


def form_of(dialect: Dialect | None) -> str:
    """Return the format in which a table came: CSV of some dialect, or else Parquet, frames too."""
    return PARQUET if dialect is None else CSV


def check_format(form: str, *, spreadsheet_safe: bool = False) -> None:
    """Refuse a format that rows cannot be written in.

    Raises:
        SettingError: It is not one of `FORMATS`, or not one that spreadsheets read cell by cell.
    """
    if form not in FORMATS:
        raise SettingError(f"format ({form}) must be {' or '.join(FORMATS)}")
    if spreadsheet_safe and form != CSV:
        raise SettingError(f"format ({form}) is no {CSV}, which spreadsheet-safe cells are for; choose one of the two")


def claim(out: str | PathLike[str], form: str = "parquet", *, ledger: object = None) -> Place:
    """Claim a folder for a release, before anything is spent.

    Args:
        out: A new or empty folder.
        form: ``parquet`` or ``csv``.
        ledger: Where spending will be written down, if that is a path: it must not be in the folder.

    Raises:
        SettingError: A release cannot be written there, or not in this format.
    """
    check_format(form)
    place = Place(out, form)
    if isinstance(ledger, str | PathLike) and place.holds(ledger):
        place.close()
        raise SettingError(f"out ({place.folder}) must not hold the ledger, which is private; put it elsewhere")
    return place


def take_room(place: Place, table: Described, rows: int | str | None, private: int, *others: Described) -> None:
    """Take the room that a release will need, before anything is spent; it is let go of when the first file is written.

    Args:
        place: Where the release will be written.
        table: The table's description and its released columns.
        rows: How many rows were asked for.
        private: Bytes of the private file, which stand for the noisy count that a default follows from.
        others: Of further tables, likewise.

    Raises:
        SettingError: There is too little room, or it allows too few files.
    """
    columns = sum(len(layout) for _, layout in (table, *others))
    number = rows if isinstance(rows, int) else least_rows(columns) if rows is None else 1
    size = number * sum(row_bytes(schema, layout, place.form) for schema, layout in (table, *others))
    if not isinstance(rows, int):
        size = max(size, _ROOM * private)
    parts = -(-number // PART_ROWS) if number > PARTS_ABOVE else 0
    place.reserve(round(size) + _OTHER_BYTES + columns * _COLUMN_BYTES, _FILES + parts)


def write(
    release: Release,
    place: Place,
    progress: Progress | None = None,
    check: Callable[[], object] | None = None,
    elsewhere: Elsewhere | None = None,
    kept: bool = False,
) -> list[Path]:
    """Write synthetic rows, certificate, report, schema and model to a folder.

    Guarantees:
        - The folder appears whole or not at all.
        - Nothing in it depends on the rows but through the release's answers.

    Args:
        release: What to write.
        place: A claimed folder; it is let go of, however this ends.
        progress: Told how many rows are written.
        check: Called when all is written and nothing published yet; what it raises stops the release.
        elsewhere: Where the files of a large table are drawn; here by default. They hold the same bytes.
        kept: Whether what is written is kept elsewhere meanwhile, to be written again if this fails.

    Returns:
        The files made.

    Raises:
        SettingError: The disk is full, or somebody took the folder meanwhile.
    """
    charged = bool(release.spent)
    fill = partial(_fill, release, place, progress, elsewhere)
    return written(place, fill, charged=charged, check=check, kept=kept)


def written(
    place: Place,
    fill: Callable[[], None],
    *,
    charged: bool,
    check: Callable[[], object] | None = None,
    kept: bool = False,
) -> list[Path]:
    """Fill a claimed folder and give the files their names, or leave nothing.

    Args:
        place: A claimed folder; it is let go of, however this ends.
        fill: Writes its files.
        charged: Whether they were paid for.
        check: Called when all is written and nothing published yet; what it raises stops the release.
        kept: Whether what is written is kept elsewhere, too.

    Returns:
        The files made.

    Raises:
        SettingError: The disk is full, or somebody took the folder meanwhile.
    """
    with outcome(lambda: stated(charged=charged, written=place.published, kept=kept)):
        try:
            with place:
                fill()
                if check:
                    check()
                files = place.publish()
                _log.info("release written: %d files, %s", len(files), place.form)
                return files
        except OSError as error:
            what = "is written, but may not outlast a power loss" if place.published else "cannot be written"
            remedy = "make room or choose another place; writing the same release again costs nothing"
            reason = error.strerror or type(error).__name__
            raise SettingError(f"out ({place.folder}) {what}: {reason}; {remedy}") from None


def _fill(release: Release, place: Place, progress: Progress | None, elsewhere: Elsewhere | None) -> None:
    from threea.report import render

    synthetic = f"synthetic.{place.form}"
    parts = place.form == PARQUET and release.rows > PARTS_ABOVE
    if parts:
        _write_parts(release, place, synthetic, progress, elsewhere)
    else:
        with place.file(synthetic) as file:
            _write_rows(release.batches(), release, file, place.form, progress)
    model = packed(release) or b""
    digest = hashlib.sha256(model).hexdigest() if model else ""
    certificate = release.certificate(synthetic_sha256=digest_of(place.path(synthetic)), model_sha256=digest)
    page = render(release, certificate, _first(release)).encode()
    contents = {
        MODEL: model,
        "schema.toml": release.schema_text(certificate.synthetic_sha256).encode(),
        "report.html": page,
        # The last: a folder that has it has all.
        CERTIFICATE: replace(certificate, report_sha256=hashlib.sha256(page).hexdigest()).to_json().encode(),
    }
    for name, content in contents.items():
        if content:
            with place.file(name) as file:
                file.write(content)


def report_of(release: Release) -> str:
    """Return the page of a release that is not written anywhere."""
    from threea.report import render

    return render(release, release.certificate(), _first(release))


def _first(release: Release) -> pa.Table:
    """Return the first rows, for pictures."""
    import pyarrow as pa

    return pa.Table.from_batches(release.batches(last=CHUNK_ROWS), schema=release.layout)


def _write_parts(
    release: Release, place: Place, folder: str, progress: Progress | None, elsewhere: Elsewhere | None
) -> None:
    """Write the rows as a folder of files, drawn here or elsewhere."""
    numbers = range(-(-release.rows // PART_ROWS))
    drawn: Iterable[bytes | None] = elsewhere(DrawnPart(release), numbers) if elsewhere else (None for _ in numbers)
    for number, content in zip(numbers, drawn, strict=True):
        with place.file(f"{folder}/part-{number:05}.parquet") as file:
            if content is None:
                DrawnPart(release).write(number, file)
            else:
                file.write(content)
        if progress:
            progress(min((number + 1) * PART_ROWS, release.rows))


@dataclass(frozen=True, slots=True)
class DrawnPart:
    """Draws one file of a release's rows, wherever it is called: chunks of rows have seeds of their own.

    Args:
        release: What to draw from.
    """

    release: Release

    def __call__(self, number: int) -> bytes:
        """Return the file's bytes."""
        file = io.BytesIO()
        self.write(number, file)
        return file.getvalue()

    def write(self, number: int, file: BinaryIO) -> None:
        """Write the file's rows."""
        first = number * PART_ROWS
        batches = self.release.batches(first, first + PART_ROWS)
        _write_rows(batches, self.release, file, PARQUET, None)


def _write_rows(
    batches: Iterable[pa.RecordBatch], release: Release, file: BinaryIO, form: str, progress: Progress | None
) -> None:
    """Stream rows to a file; others are drawn meanwhile."""
    from threea.table.spreadsheet import inert

    rows = 0
    with RowWriter(file, form, release.layout, release.dialect) as writer:
        for batch in batches:
            writer.write(inert(batch, release.schema) if release.spreadsheet_safe else batch)
            rows += batch.num_rows
            if progress:
                progress(rows)


def check_file(out: Path) -> None:
    """Refuse a place for a file that is taken, or whose folder cannot be written to.

    Raises:
        SettingError: A file cannot be written there.
    """
    parent = out.absolute().parent
    if os.path.lexists(out):
        raise SettingError(f"out ({out}) exists already; choose another name")
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise SettingError(f"out ({out}): folder {parent} does not exist, or is not writable; choose another")


def write_sample(
    release: Release,
    out: Path,
    form: str,
    *,
    rows: int,
    given: Given | None = None,
    seed: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Write other rows of a release, as it was written, to a file that appears whole or not at all.

    Cost:
        Nothing: drawing is post-processing.

    Raises:
        SettingError: It cannot be written, or no row fits the conditions.
    """
    from threea.table.spreadsheet import inert

    staging = out.with_name(f".{out.name[:100]}-{secrets.token_hex(8)}")
    problem, written = None, 0
    try:
        with RowWriter(staging, form, release.layout, release.dialect) as writer:
            for batch in release.draws(rows, given, seed):
                safe = release.spreadsheet_safe and form == CSV
                writer.write(inert(batch, release.schema) if safe else batch)
                written += batch.num_rows
                if progress:
                    progress(written)
        check_file(out)
        staging.rename(out)
    except OSError as error:
        problem = error.strerror or type(error).__name__
    finally:
        staging.unlink(missing_ok=True)
    if problem:
        raise SettingError(f"out ({out}) cannot be written: {problem}; make room or choose another place")
