"""Reading files so that a failure tells nothing of their content."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from threea.backends.dialect import NOT_UTF8
from threea.errors import InputError
from threea.table.layout import one_width


def checked(batch: pa.RecordBatch | None) -> pa.RecordBatch | None:
    """Check a batch, for Parquet's own reader takes any bytes for text."""
    if batch is None:
        return None
    batch.validate(full=True)
    return in_one_form(batch)


def in_one_form(rows: Any) -> Any:
    """Return rows with dictionaries of one width, and plain text for views of text, which Arrow cannot filter."""
    layout = one_width(rows.schema)
    plain = [f.with_type(pa.large_string()) if pa.types.is_string_view(f.type) else f for f in layout]
    wanted = pa.schema(plain, metadata=rows.schema.metadata)
    if rows.schema.equals(wanted):
        return rows
    return type(rows).from_arrays(
        [column.cast(f.type) for column, f in zip(rows.columns, wanted, strict=True)], schema=wanted
    )


def reading(path: Path, kind: str, read: Any) -> Any:
    """Call `read`, and tell of a failure without a word of the file's content."""
    problem = None
    try:
        return read()
    except (
        pa.ArrowInvalid,
        pa.ArrowNotImplementedError,
        pa.ArrowTypeError,
        pa.ArrowKeyError,
        OSError,
        UnicodeError,
    ) as error:
        problem = _remedy(str(error), error, kind)
    # Raised out here, the reader's own message is not chained: it may quote a row.
    raise InputError(f"{path} cannot be read as {kind}: {problem}")


def _remedy(message: str, error: BaseException, kind: str) -> str:
    if isinstance(error, UnicodeError):
        return (
            "its text is not in the encoding that was named; name another with --encoding"
            if kind == "CSV"
            else "a column's name is not UTF-8; rename it"
        )
    for sign, remedy in (
        ("Empty CSV", "it is empty; give a file with a header line and rows"),
        ("UTF8", f"its text is not UTF-8; {NOT_UTF8}"),
        ("Expected", "a row has more or fewer values than the header; mend the file, or see --separator"),
        ("straddling", "a value spans too much of it; is it a CSV file?"),
        ("magic bytes", "it has no Parquet footer; is it cut short, or another kind of file?"),
        ("size is 0 bytes", "it is empty; give a file with rows"),
        ("No such file", "no such file; check the path"),
        ("Permission denied", "it may not be read; ask for permission to read it"),
    ):
        if sign in message:
            return remedy
    return f"{type(error).__name__}; is it damaged, or another kind of file?"
