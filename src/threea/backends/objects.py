"""Python objects as text, one by one: a column of them declares no type, and none is inferred from its values."""

from __future__ import annotations

import datetime
import decimal
import math
import numbers
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa

_EXACT = 2.0**53
"""From here on, a float may stand for several whole numbers."""


def as_text(values: Iterable[Any]) -> pa.Array | None:
    """Return each object as text that says the same, missing ones as missing.

    None if one of them is neither text, number, truth value, date nor datetime: what it has to say of itself is not
    passed on.
    """
    return _array(values, _text)


def categories_as_text(values: Iterable[Any]) -> pa.Array | None:
    """Return the categories of a pandas column as text, None as `as_text` does.

    pandas stores categories together: one text or fraction among whole numbers makes floats or objects of them, and
    True, 1 and 1.0 are one category, under the name of the first. So equal numbers are the same text. A float that may
    stand for several whole numbers is not taken.
    """
    return _array(values, _category)


def _array(values: Iterable[Any], convert: Callable[[Any], str | None]) -> pa.Array | None:
    try:
        return pa.array([convert(value) for value in values], pa.string())
    except Exception:
        # An object of a class of its own may fail in any way, and tell its value.
        return None


def _category(value: Any) -> str | None:
    # Truth values, NumPy's too, and numbers.
    return _number(value) if isinstance(value, np.bool_ | numbers.Number) else _text(value)


def _number(value: Any) -> str | None:
    if value != value:
        return None
    short: float = float(value)
    if isinstance(value, float | np.floating) and _EXACT <= abs(short) < math.inf:
        raise OverflowError
    if math.isfinite(short) and value == int(value):
        return str(int(value))
    return str(short) if short == value else str(value)


def _text(value: Any) -> str | None:
    """Return one object as text."""
    if isinstance(value, str):
        return str.__str__(value)
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, datetime.datetime):
        moment = value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo else value
        return moment.isoformat()
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return None if value.is_nan() else str(value)
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, float | np.floating):
        return None if value != value else str(value)
    raise TypeError
