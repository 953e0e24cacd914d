"""Column names in messages: shown where they are names, not where they may be a row of values.

A CSV file without a header line has its first row taken for names, so a message that lists them would show that row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_VALUE = re.compile(r"\s*|[^A-Za-z]*\d[^A-Za-z]*|[+-]?[\d.,]+[eE][+-]?\d+|(?i:nan|na|n/a|null|none|true|false|inf)")
"""What is empty, has digits and no letters (a number, a date, a telephone number), or is a word that data hold."""
_MOST_SHOWN = 50
_NO_HEADER = "some of its column names look like values; does it lack a header line?"


def like_values(names: Iterable[str]) -> bool:
    """Tell whether one of the names looks like a value: the header line may be a row.

    Example:
        >>> like_values(["age", "sex"]), like_values(["39", "male"]), like_values(["2020-01-31", "x"])
        (False, True, True)
    """
    return any(_VALUE.fullmatch(name) for name in names)


def not_a_column(role: str, name: str, names: Sequence[str]) -> str:
    """Say that a column is not there, and which are; but not where they may be values.

    Example:
        >>> not_a_column("target", "died", ["age", "sex"])
        'target (died) is not a column; columns are: age, sex'
    """
    if like_values(names):
        return f"{role} ({name}) is not a column of the table; {_NO_HEADER}"
    return f"{role} ({name}) is not a column; columns are: {shown(names)}"


def repeated_names(names: Sequence[str]) -> str:
    """Return the names that appear more than once, in brackets; nothing of them where they may be values."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    return f"(not shown: {_NO_HEADER})" if like_values(names) else f"({shown(repeated)})"


def shown(names: Sequence[str]) -> str:
    """Return names as a list, cut where it would fill the screen; nothing of them where they may be values."""
    if like_values(names):
        return f"not shown, for {_NO_HEADER}"
    more = len(names) - _MOST_SHOWN
    return ", ".join(names[:_MOST_SHOWN]) + (f" and {more} more" if more > 0 else "")
