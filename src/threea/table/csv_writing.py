"""Rows to a CSV file in its dialect: the inverse of how it is read, with quotes where they are needed alone."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from threea.table.dialect import DIRECTIVES, Dialect, parts_of
from threea.table.layout import is_text

_POINT = r"^([+-]?\d*)\.(\d+(?:[eE][+-]?\d+)?)$"
_DAY = r"-(\d\d)-(\d\d)"
_SHORT_YEARS = [r"(19)(69|[7-9]\d)", r"(20)([0-5]\d|6[0-8])"]
"""The years that two digits can say."""
_GROUPS = {"%Y": r"\1\2", "%y": r"\2", "%m": r"\3", "%d": r"\4", "%H": r"\5", "%M": r"\6", "%S": r"\7", "%f": r"\8"}
"""Where a directive stands in an ISO date or moment."""


class CsvWriter:
    """Writes rows of plain types.

    Args:
        sink: A path, or a file that is open for bytes.
        layout: The rows' columns and types.
        dialect: How the file is to be written.
    """

    def __init__(self, sink: Any, layout: pa.Schema, dialect: Dialect) -> None:
        self._dialect, self._separator = dialect, dialect.separator or ","
        # What an encoding has no character for was in no file of it; only a schema may name it.
        self._encoder = codecs.getincrementalencoder(dialect.encoding or "utf-8")("replace")
        self._own = Path(sink).open("wb") if isinstance(sink, str | Path) else None  # noqa: SIM115  # closed by close
        self._file = self._own or sink
        self._put([pa.array([name], pa.large_string()) for name in layout.names], range(len(layout)))

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        texts = [native(values, self._dialect) for values in batch.columns]
        quotable = [place for place, values in enumerate(batch.columns) if not self._needs_no_quotes(values.type)]
        self._put(texts, quotable)

    def close(self) -> None:
        """Close the file, if it was not open before."""
        if self._own is not None:
            self._own.close()

    def _needs_no_quotes(self, kind: pa.DataType) -> bool:
        """Tell whether no value of a type can hold what separates values."""
        written = f"{self._dialect.decimal or '.'}{''.join(self._dialect.date_formats)}+-:."
        typed = pa.types.is_primitive(kind) and not is_text(kind)
        return bool(typed) and self._separator in ",;\t|" and self._separator not in written

    def _put(self, columns: list[pa.Array], quotable: Iterable[int]) -> None:
        for place in quotable:
            columns[place] = self._quoted(columns[place])
        if not columns or not len(columns[0]):
            return
        filled = [pc.fill_null(column, "") for column in columns]
        lines = _joined(_joined(*filled, between=self._separator), "\n")
        self._file.write(self._encoder.encode("".join(lines.to_pylist())))

    def _quoted(self, texts: pa.Array) -> pa.Array:
        """Return texts, in quotes where they hold what ends a value, begin with a quote, or are empty."""
        special = rf'^$|["\r\n\x{ord(self._separator):02x}]'
        doubled = _joined('"', pc.replace_substring(texts, '"', '""'), '"')
        return pc.if_else(pc.match_substring_regex(texts, special), doubled, texts)


def _joined(*parts: Any, between: str = "") -> pa.Array:
    return pc.binary_join_element_wise(
        *(pa.scalar(p, pa.large_string()) if isinstance(p, str) else p for p in parts),
        pa.scalar(between, pa.large_string()),
    )


def native(values: pa.Array, dialect: Dialect) -> pa.Array:
    """Return values as the text that a file of a dialect has for them.

    Example:
        >>> native(pa.array([1.5, None, 1e-07]), Dialect(decimal=",")).to_pylist()
        ['1,5', None, '1e-7']
        >>> native(pa.array(["2024-01-31", "1.5", "v1.5"]), Dialect(decimal=",", date_format="%d.%m.%y")).to_pylist()
        ['31.01.24', '1,5', 'v1.5']
    """
    kind, texts = values.type, values.cast(pa.large_string())
    if dialect.decimal == "," and (is_text(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        texts = pc.replace_substring_regex(texts, _POINT, r"\1,\2")
    if is_text(kind) or pa.types.is_temporal(kind):
        for date_format in dialect.date_formats:
            for pattern, written in _substitutions(date_format):
                texts = pc.replace_substring_regex(texts, pattern, written)
    return texts


def _substitutions(date_format: str) -> list[tuple[str, str]]:
    """Return patterns of the ISO dates that a format can say in full, and what to write for them."""
    parts = parts_of(date_format)
    pattern = _DAY
    if "%H" in parts:
        # What the format has no place for must be nothing, or the moment would become another.
        minutes = r":(\d\d)" if "%M" in parts else ":00"
        seconds = r":(\d\d)" if "%S" in parts else r"(?::00)?"
        pattern += rf"[T ](\d\d){minutes}{seconds}" + (r"\.(\d{6})" if "%f" in parts else r"(?:\.0*)?")
    written = date_format.replace("\\", r"\\")
    for part in DIRECTIVES:
        written = written.replace(part, _GROUPS[part])
    years = _SHORT_YEARS if "%y" in parts else [r"(\d\d)(\d\d)"]
    return [(f"^{year}{pattern}$", written) for year in years]
