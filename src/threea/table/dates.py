"""Dates and datetimes as whole numbers: days, or microseconds, since 1970-01-01."""

from __future__ import annotations

import datetime
from typing import Any

from threea.errors import SchemaError

_EPOCH = datetime.datetime(1970, 1, 1)


def from_text(value: Any, kind: str, column: str) -> float:
    """Read an ISO date or datetime.

    Example:
        >>> from_text("1970-01-03", "date", "admitted")
        2.0
    """
    try:
        moment = datetime.datetime.fromisoformat(str(value))
        # Moments count from 1970 in UTC, whatever zone they are written in.
        moment = moment.astimezone(datetime.UTC).replace(tzinfo=None) if moment.tzinfo else moment
    except (ValueError, OverflowError):
        raise SchemaError(f"column {column}: {value!r} must be an ISO {kind}, such as 2020-01-31") from None
    since = moment - _EPOCH
    return float(since.days) if kind == "date" else float(since // datetime.timedelta(microseconds=1))


def to_text(value: float | None, kind: str) -> str:
    """Write an encoded date or datetime as ISO text.

    Example:
        >>> to_text(2.0, "date")
        '1970-01-03'
    """
    since = datetime.timedelta(days=value or 0.0) if kind == "date" else datetime.timedelta(microseconds=value or 0.0)
    # The last microseconds of the year 9999 are beyond a float's precision, and round up.
    moment = _EPOCH + min(max(since, datetime.datetime.min - _EPOCH), datetime.datetime.max - _EPOCH)
    return moment.date().isoformat() if kind == "date" else moment.isoformat()
