"""Reading a CSV file's header line, and its values as standard CSV would write them.

The header line's bytes are public: they are the column names. So the separator may be found there, and nowhere else.
Values are rewritten one by one: how a row is read depends on that row and on the dialect.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from threea.backends.lines import is_closed
from threea.errors import InputError
from threea.table.dialect import DIRECTIVES, Dialect, parts_of

__all__ = ["NOT_UTF8", "Dialect", "Header", "header", "standard"]

_LONGEST_HEADER = 1 << 20
_BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_FOUND = ",;\t"
"""What may separate values without being said; a comma, or a tab in a .tsv file, wins wherever there is one."""
NOT_UTF8 = "if it comes from Excel, try --encoding cp1252; or is it another kind of file?"
_REPLACEMENT = "\ufffd"
_GROUPED = r"^([+-]?)(\d{{1,3}})((?:[{other}]\d{{3}})+)([{mark}]\d+)?$"
_COMMA = r"^([+-]?\d*),(\d+(?:[eE][+-]?\d+)?)$"


@dataclass(frozen=True, slots=True)
class Header:
    """What the header line of a CSV file says.

    Args:
        names: Of the columns.
        dialect: How the file is written, with what the header line says of it filled in.
        size: How many bytes the header line has, in UTF-8.
        ending: What ends a line, as its last character.
    """

    names: list[str]
    dialect: Dialect
    size: int
    ending: str


def header(path: Path, said: Dialect | None) -> Header:
    """Read a CSV file's header line.

    Raises:
        InputError: It has no header line, or one that is not written in its encoding.
    """
    said = said or Dialect()
    with pa.input_stream(str(path)) as stream:
        start = stream.read(_LONGEST_HEADER)
    encoding = said.encoding or next((name for mark, name in _BYTE_ORDER_MARKS.items() if start.startswith(mark)), None)
    # Beyond the header line nothing is judged: what is not text there becomes a replacement character.
    text = start.decode(encoding or "utf-8", "replace").lstrip("\ufeff\r\n")
    line = _record(text, said.separator or _FOUND) if said.multiline else re.split("[\r\n]", text, maxsplit=1)[0]
    dialect = replace(said, encoding=encoding or "utf-8", separator=said.separator or _separator(line, _usual(path)))
    problem = _header_problem(line, encoding)
    if line == text and len(start) == _LONGEST_HEADER:
        problem = f"its header line is longer than {_LONGEST_HEADER:,} bytes; is it a CSV file?"
    names = [] if problem else _names(line, dialect)
    if not names:
        problem = problem or "its header line has a quote that is not closed; mend the file"
        raise InputError(f"{path} cannot be read as CSV: {problem}")
    ends = text[len(line) : len(line) + 2]
    return Header(names, dialect, len(line.encode()), "\r" if ends[:1] == "\r" and ends != "\r\n" else "\n")


def _header_problem(line: str, encoding: str | None) -> str | None:
    if not line:
        return "it is empty; give a file with a header line and rows"
    if _REPLACEMENT not in line and "\0" not in line:
        return None
    if encoding is not None:
        return f"its header line is not {encoding.upper()}; name its encoding with --encoding"
    return f"its text is not UTF-8; {NOT_UTF8}"


def _record(text: str, separators: str) -> str:
    """Return the first record: up to the first line's end not in quotes. Quotes that never end enclose nothing."""
    between = re.escape(separators)
    field = rf'(?:"(?:[^"]|"")*+")?[^{between}\r\n]*+'
    found = re.match(rf"{field}(?:[{between}]{field})*+", text)
    return found[0] if found else ""


def _usual(path: Path) -> str:
    """Return what separates values in files of such a name."""
    return "\t" if ".tsv" in (suffix.lower() for suffix in path.suffixes[-2:]) else ","


def _separator(line: str, usual: str) -> str:
    """Return what separates names: the usual unless there is none outside quotes."""
    bare = re.sub(r'"(?:[^"]|"")*"', "", line)
    if usual in bare or not set(_FOUND) & set(bare):
        return usual
    return max(_FOUND, key=bare.count)


def _names(line: str, dialect: Dialect) -> list[str]:
    """Return the names in a header line; none if a quote in it never ends."""
    import pyarrow.csv

    if not dialect.multiline and not is_closed(line, dialect.separator or ","):
        return []
    # Parsed as the rows will be, with the same meaning of quotes.
    parsing = pyarrow.csv.ParseOptions(delimiter=dialect.separator, newlines_in_values=True)
    # Arrow's own memory: a thread of its reader that let go of Python's while the interpreter ends would abort it.
    memory = pa.BufferOutputStream()
    memory.write(f"{line}\n".encode())
    try:
        return list(pyarrow.csv.read_csv(pa.BufferReader(memory.getvalue()), parse_options=parsing).schema.names)
    except pa.ArrowInvalid:
        return []


def standard(batch: pa.RecordBatch, dialect: Dialect, ids: Collection[str] = ()) -> pa.RecordBatch:
    """Return rows of text with decimal points and ISO dates, wherever a value is a number or a date of the dialect.

    Each value is rewritten by itself, in every column but ids: what one row holds changes no other.
    """
    columns = [
        values if name in ids else _standard(values, dialect)
        for name, values in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _standard(values: pa.Array, dialect: Dialect) -> pa.Array:
    for date_format in dialect.date_formats:
        values = _iso_dates(values, date_format)
    if dialect.decimal is not None:
        values = _decimal_points(values, dialect.decimal)
    return values


def _decimal_points(values: pa.Array, mark: str) -> pa.Array:
    """Return numbers with a decimal point and without what groups their digits."""
    other = "," if mark == "." else "."
    groups = pc.match_substring_regex(values, _GROUPED.format(other=other, mark=mark))
    values = pc.if_else(groups, pc.replace_substring(values, other, ""), values)
    return pc.replace_substring_regex(values, _COMMA, r"\1.\2") if mark == "," else values


def _iso_dates(values: pa.Array, date_format: str) -> pa.Array:
    parts = parts_of(date_format)
    pattern = re.sub(r"([.^$*+?()\[\]{}|\\])", r"\\\1", date_format)
    for part in parts:
        pattern = pattern.replace(part, f"(?P<{part[1]}>{DIRECTIVES[part]})")
    found = pc.extract_regex(values, rf"^\s*{pattern}\s*$")

    def digits(part: str, width: int = 2) -> pa.Array:
        return pc.utf8_lpad(found.field(parts.index(part)), width, "0")

    if "%Y" in parts:
        year = digits("%Y", 4)
    else:
        # As everywhere since POSIX: 69 to 99 are of the last century.
        short = digits("%y")
        year = pc.binary_join_element_wise(pc.if_else(pc.less(short, "69"), "20", "19"), short, "")
    iso = pc.binary_join_element_wise(year, digits("%m"), digits("%d"), "-")
    if "%H" in parts:
        clock = [digits(part) if part in parts else pa.scalar("00") for part in ("%H", "%M", "%S")]
        iso = pc.binary_join_element_wise(iso, pc.binary_join_element_wise(*clock, ":"), "T")
    if "%f" in parts:
        iso = pc.binary_join_element_wise(iso, pc.utf8_rpad(found.field(parts.index("%f")), 6, "0"), ".")
    return pc.if_else(pc.fill_null(found.is_valid(), False), iso, values)
