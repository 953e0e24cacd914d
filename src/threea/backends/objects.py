"""Python objects as text, one by one: a column of them declares no type, and none is inferred from its values."""

from __future__ import annotations

import datetime
import decimal
import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from threea.errors import InputError


def as_text(values: Iterable[Any], name: str) -> pa.Array:
    """Return each object as text that says the same, missing ones as missing.

    Raises:
        InputError: One is neither text, number, truth value, date nor datetime.
    """
    # Raised out here, nothing that a failing object has to say is chained.
    try:
        texts = [_text(value) for value in values]
        array = pa.array(texts, pa.string())
    except (TypeError, ValueError, OverflowError, decimal.DecimalException, UnicodeEncodeError, pa.ArrowException):
        array = None
    if array is None:
        raise InputError(f"column {name} holds objects that are no text, numbers, truth values or dates; convert it")
    return array


def _text(value: Any) -> str | None:
    """Return one object as text."""
    if isinstance(value, str):
        return str(value)
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
