"""How a CSV file is written: what separates its values, its encoding, its decimal mark, how it writes dates.

Public, like the names in its header line: said by the owner, or found in that line alone. Rows are never looked at to
find out, for one of them could then change how all the others are read.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, fields

from threea.errors import SettingError

MISSING_TEXT = ["", "NA", "N/A", "NaN", "nan", "null", "NULL"]
"""What counts as missing where values are text, unless the owner says otherwise."""
TEXT, EXCEL = (".csv", ".tsv"), (".xlsx", ".xlsm")
"""How the names of files end that have a dialect: text, and sheets of cells."""
MULTILINE = (
    "values may hold line breaks (multiline): rows are what the parser makes of the file's bytes, and it is taken for"
    " granted that no row's bytes change how another is read"
)
"""What is taken for granted of such a file; every other is read line by line."""
DIRECTIVES = {
    "%d": r"\d{1,2}",
    "%m": r"\d{1,2}",
    "%Y": r"\d{4}",
    "%y": r"\d{2}",
    "%H": r"\d{1,2}",
    "%M": r"\d{1,2}",
    "%S": r"\d{1,2}",
    "%f": r"\d{1,6}",
}
"""What a date format may hold: day, month, year, hour, minute, second and its fraction, in digits."""
_STATEFUL = re.compile(r"iso2022|hz|utf-7|punycode|idna|.*escape|undefined|mbcs|oem")
"""Encodings in which what stands in a line may change how the next is read, or break a line in two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How a CSV file is written. What is not said is found in the header line, or as standard CSV has it.

    Raises:
        SettingError: No file can be written so.

    Example:
        >>> Dialect(separator=";", decimal=",", date_format="%d.%m.%Y").date_formats
        ('%d.%m.%Y',)
    """

    separator: str | None = None
    """What stands between values; by default a comma, or a semicolon or tab where the header line has no comma. In a
    .tsv file a tab comes first."""
    encoding: str | None = None
    """Its characters' encoding; by default what a byte order mark says, or UTF-8."""
    decimal: str | None = None
    """The decimal mark; a point by default. Where it is said, the other mark groups digits: 1.234,5 or 1,234.5."""
    date_format: str | tuple[str, ...] | None = None
    """How dates are written, such as %d.%m.%Y, or several such ways; ISO dates are read always."""
    missing: tuple[str, ...] | None = None
    """Which texts stand for a missing value beside the empty one; by default NA, N/A, NaN, nan, null and NULL."""
    multiline: bool = False
    """Whether a value in quotes may hold line breaks. Then one line can change how those after it are read."""
    sheet: str | None = None
    """Of an Excel file that has several, the one to read."""

    def __post_init__(self) -> None:
        for name in ("date_format", "missing"):
            value = getattr(self, name)
            if isinstance(value, list | tuple):
                object.__setattr__(self, name, value[0] if name == "date_format" and len(value) == 1 else tuple(value))
        problem = self._problem()
        if problem:
            raise SettingError(problem)

    @property
    def date_formats(self) -> tuple[str, ...]:
        """The ways in which dates are written, besides ISO."""
        return (self.date_format,) if isinstance(self.date_format, str) else self.date_format or ()

    @property
    def missing_texts(self) -> list[str]:
        """The texts that stand for a missing value."""
        return MISSING_TEXT if self.missing is None else ["", *self.missing]

    def _problem(self) -> str | None:
        separator = self.separator
        if separator is not None and (len(separator) != 1 or not separator.isascii() or separator in '"\r\n\0'):
            return f"separator ({separator}) must be one character, such as ';', '|' or a tab"
        if self.decimal not in (None, ".", ","):
            return f"decimal ({self.decimal}) must be a point or a comma"
        if self.encoding is not None and not _is_encoding(self.encoding):
            return f"encoding ({self.encoding}) is unknown; try utf-8, cp1252, latin-1 or utf-16"
        if self.encoding is not None and _STATEFUL.match(codecs.lookup(self.encoding).name):
            return f"encoding ({self.encoding}) lets a line change how the next is read; convert the file to UTF-8"
        return next(filter(None, map(_format_problem, self.date_formats)), None)


def dialect_of(
    separator: str | None,
    encoding: str | None,
    decimal: str | None,
    date_format: str | None,
    sheet: str | None = None,
    *,
    multiline: bool = False,
) -> Dialect:
    r"""Return the dialect that options describe; a tab may be written as `tab` or `\t`, which shells pass on.

    Example:
        >>> dialect_of("tab", None, None, None) == Dialect(separator="\t")
        True
    """
    spelt = {"tab": "\t", "\\t": "\t"}.get(separator or "", separator)
    return Dialect(
        separator=spelt,
        encoding=encoding,
        decimal=decimal,
        date_format=date_format,
        sheet=sheet,
        multiline=multiline,
    )


def said(dialect: Dialect | None) -> str:
    """Return the names of the options that a dialect sets; nothing if it says nothing."""
    if dialect is None:
        return ""
    return ", ".join(field.name for field in fields(dialect) if getattr(dialect, field.name) != field.default)


class EveryColumn(frozenset[str]):
    """All columns, whatever they are called.

    Example:
        >>> "any" in EveryColumn()
        True
    """

    def __contains__(self, name: object) -> bool:
        """Tell that a column is among them."""
        return True


def assumed(dialect: Dialect | None) -> tuple[str, ...]:
    """Return what the readers' law takes for granted of a file that is written so."""
    return (MULTILINE,) if dialect is not None and dialect.multiline else ()


def parts_of(date_format: str) -> list[str]:
    """Return a date format's directives in their order.

    Example:
        >>> parts_of("%d.%m.%Y")
        ['%d', '%m', '%Y']
    """
    return re.findall("%.", date_format)


def _is_encoding(name: str) -> bool:
    try:
        return b"a\0".decode(name, "replace") is not None
    except (LookupError, ValueError):
        return False


def _format_problem(date_format: str) -> str | None:
    parts = parts_of(date_format)
    if set(parts) - set(DIRECTIVES) or len(set(parts)) != len(parts) or date_format.count("%") != len(parts):
        return f"date_format ({date_format}) may hold each of {' '.join(DIRECTIVES)} once"
    if not ({"%d", "%m"} <= set(parts) and len({"%Y", "%y"} & set(parts)) == 1):
        return f"date_format ({date_format}) needs a day, a month and a year, such as %d.%m.%Y"
    clock = ("%H", "%M", "%S", "%f")
    if set(clock[: len(set(parts) & set(clock))]) - set(parts):
        return f"date_format ({date_format}) has a part of the time without what it is part of; add %H, %M or %S"
    return None
