"""Writing a release to a folder: whole, or not at all."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from threea.errors import SettingError
from threea.table.dialect import Dialect
from threea.table.writing import CSV, FORMATS, PARQUET, RowWriter

if TYPE_CHECKING:
    import pyarrow as pa

    from threea.release import Release

Progress = Callable[[int], None]
"""Called with the number of rows written so far."""


def check_folder(out: str | PathLike[str]) -> Path:
    """Refuse a folder that holds something already, or whose parent does not exist.

    Raises:
        SettingError: A release cannot be written there.
    """
    folder = Path(out)
    try:
        taken = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    except OSError as error:
        raise SettingError(f"out ({folder}) cannot be used: {error.strerror}; choose another") from None
    if taken:
        raise SettingError(f"out ({folder}) must be a new or empty folder; choose another")
    parent = folder.absolute().parent
    if not parent.is_dir():
        raise SettingError(f"out ({folder}): folder {parent} does not exist; make it first")
    if not os.access(parent, os.W_OK):
        raise SettingError(f"out ({folder}): folder {parent} is not writable; choose another")
    return folder


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


def write(
    release: Release, out: str | PathLike[str], form: str | None = None, progress: Progress | None = None
) -> list[Path]:
    """Write synthetic rows, certificate, report and schema to a folder.

    Guarantees:
        - The folder appears whole or not at all.
        - Nothing in it depends on the rows but through the release's answers.

    Args:
        release: What to write.
        out: A new or empty folder.
        form: ``parquet`` or ``csv``; by default the release's own.
        progress: Told how many rows are written.

    Returns:
        The files made.

    Raises:
        SettingError: The folder cannot be used, the format is unknown or the disk is full.
    """
    form = form or release.form
    check_format(form, spreadsheet_safe=release.spreadsheet_safe)
    folder = check_folder(out)
    # Named before it is made: an interrupt at any moment finds it.
    staging = folder.absolute().parent / f".{folder.name[:100]}-{secrets.token_hex(8)}"
    problem = None
    try:
        staging.mkdir(mode=0o700)
        _fill(release, staging, form, progress)
        staging.chmod(0o755)
        staging.rename(folder)
    except OSError as error:
        problem = error.strerror or type(error).__name__
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    if problem:
        raise SettingError(f"out ({folder}) cannot be written: {problem}; make room or choose another place")
    return sorted(folder.iterdir())


def _fill(release: Release, folder: Path, form: str, progress: Progress | None) -> None:
    from threea.report import render

    synthetic = folder / f"synthetic.{form}"
    sample = _write_rows(release, synthetic, form, progress)
    certificate = release.certificate(synthetic_sha256=_sha256(synthetic))
    (folder / "schema.toml").write_text(release.schema_text(certificate.synthetic_sha256), encoding="utf-8")
    (folder / "certificate.json").write_text(certificate.to_json(), encoding="utf-8")
    (folder / "report.html").write_text(render(release, certificate, sample), encoding="utf-8")


def _write_rows(release: Release, path: Path, form: str, progress: Progress | None) -> pa.Table:
    """Stream the rows to a file; return the first of them, for pictures."""
    import pyarrow as pa

    from threea.table.spreadsheet import inert

    first: list[pa.RecordBatch] = []
    rows = 0
    with RowWriter(path, form, release.layout, release.dialect) as writer:
        for batch in release.batches():
            first = first or [batch]
            writer.write(inert(batch, release.schema) if release.spreadsheet_safe else batch)
            rows += batch.num_rows
            if progress:
                progress(rows)
    return pa.Table.from_batches(first, schema=release.layout)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
