"""Writing a release of two tables to a folder: whole or not at all, as one of a single table."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from threea.model_file import packed
from threea.parts import CERTIFICATE, MODEL, digest_of
from threea.publish import Progress, written
from threea.table.linked_columns import COUNT
from threea.table.writing import RowWriter

if TYPE_CHECKING:
    import pyarrow as pa

    from threea.linked.release import LinkedRelease
    from threea.place import Place


def write(
    release: LinkedRelease,
    place: Place,
    progress: Progress | None = None,
    check: Callable[[], object] | None = None,
) -> list[Path]:
    """Write both tables, their schemas, the certificate, the report and the model to a folder.

    Guarantees:
        - The folder appears whole or not at all.
        - Nothing in it depends on the rows but through the release's answers.

    Args:
        release: What to write.
        place: A claimed folder; it is let go of, however this ends.
        progress: Told how many parents are written.
        check: Called when all is written and nothing published yet; what it raises stops the release.

    Returns:
        The files made.

    Raises:
        SettingError: The disk is full, or somebody took the folder meanwhile.
    """
    charged = bool(release.parents.spent)
    return written(place, lambda: _fill(release, place, progress), charged=charged, check=check)


def _fill(release: LinkedRelease, place: Place, progress: Progress | None) -> None:
    from threea.report import ChildRows, render

    names = tuple(f"{table}.{place.form}" for table in ("parents", "children"))
    drawn, first = _write_rows(release, place, names, progress)
    parents, children = (digest_of(place.path(name)) for name in names)
    model = packed(release) or b""
    digest = hashlib.sha256(model).hexdigest() if model else ""
    certificate = release.certificate(parents, children, digest, drawn)
    own = release.children
    # On the page the number of children is a column like others, whatever it was to the recipe.
    shown = replace(release.parents, schema=replace(release.parents.schema, target=release.schema.target))
    page = render(
        shown, certificate, _counted(release), ChildRows(drawn, own.schema, own.model.summary, first)
    ).encode()
    contents = {
        MODEL: model,
        "parents.toml": release.schema_text(parents).encode(),
        "children.toml": release.child_schema_text(children).encode(),
        "report.html": page,
        # The last: a folder that has it has all.
        CERTIFICATE: replace(certificate, report_sha256=hashlib.sha256(page).hexdigest()).to_json().encode(),
    }
    for name, content in contents.items():
        if content:
            with place.file(name) as file:
                file.write(content)


def _write_rows(
    release: LinkedRelease, place: Place, names: tuple[str, ...], progress: Progress | None
) -> tuple[int, pa.Table]:
    """Write both files side by side; return how many children there are, and the first of them, for pictures."""
    import pyarrow as pa

    from threea.table.spreadsheet import inert

    parents, children = release.parents, release.children
    first: list[pa.RecordBatch] = []
    written = drawn = 0
    safe = parents.spreadsheet_safe
    with (
        place.file(names[0]) as one,
        place.file(names[1]) as other,
        RowWriter(one, place.form, parents.layout, parents.dialect) as above,
        RowWriter(other, place.form, children.layout, children.dialect) as below,
    ):
        for rows, own in release.batches():
            above.write(inert(rows, release.schema) if safe else rows)
            below.write(inert(own, children.schema) if safe else own)
            first = first or [own]
            written, drawn = written + rows.num_rows, drawn + own.num_rows
            if progress:
                progress(written)
    return drawn, pa.Table.from_batches(first, schema=children.layout)


def _counted(release: LinkedRelease) -> pa.Table:
    """Return the first parents with the number of their children, for pictures."""
    import pyarrow as pa

    from threea.table import codec

    layout = release.parents.layout.append(pa.field(COUNT, pa.int64()))
    chunk = next(release.parents.chunks())
    return pa.Table.from_batches([codec.decode(chunk, release.parents.schema, layout)], schema=layout)
