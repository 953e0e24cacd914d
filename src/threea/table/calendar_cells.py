"""What a calendar says of a date or moment, as public cells: its day of the week, its month, its time of day."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from threea.errors import SettingError

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

WEEKDAY, MONTH, TIME = "weekday", "month", "time of day"
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
TIMES = ("midnight sharp", *(f"{hour:02d}:00 to {hour:02d}:59" for hour in range(24)))
"""Midnight is by itself: moments that are all at midnight are dates, and are to stay such."""
LABELS = {WEEKDAY: WEEKDAYS, MONTH: MONTHS, TIME: TIMES}
PER_DAY = 86_400_000_000
"""Microseconds in a day."""
TIME_EDGES = (0.0, 1.0, *(hour * PER_DAY / 24 for hour in range(1, 25)))
"""Where the times of day begin, and the last one ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarCells:
    """Cells of a date or datetime column by what a calendar says of its values, which are UTC if they have a zone.

    Missing and special values have no cell. Values cannot be drawn from these cells.

    Example:
        >>> CalendarCells(column="seen", part=WEEKDAY).index(np.array([0.0, 2.0, np.nan])), WEEKDAYS[3]
        (array([ 3,  5, -1]), 'Thursday')
    """

    column: str
    part: str
    moments: bool = False
    """Whether values are microseconds since 1970, and not days."""
    special: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.part not in LABELS:
            raise SettingError(f"part of a calendar ({self.part}) must be one of {', '.join(LABELS)}")

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(LABELS[self.part])

    def index(self, values: NDArray[np.float64] | NDArray[np.int64]) -> Whole:
        """Return each value's cell, -1 where it has none."""
        # Whatever is no date of any calendar is the first of 1970, and then has no cell.
        dated = np.isfinite(values) & (np.abs(values) < 2.0**62)
        known = np.where(dated, values, 0.0)
        days = np.floor(known / PER_DAY) if self.moments else np.floor(known)
        if self.part == WEEKDAY:
            cells = weekday(days)
        elif self.part == MONTH:
            cells = month(days)
        else:
            time = known - days * PER_DAY if self.moments else np.zeros(len(known))
            cells = np.searchsorted(TIME_EDGES[1:-1], time, side="right").astype(np.int64)
        return np.where(dated & ~np.isin(values, self.special), cells, -1)


def weekday(days: Floats) -> Whole:
    """Return the weekday of days since 1970, 0 for Monday."""
    return np.asarray((days + 3) % 7).astype(np.int64)


def month(days: Floats) -> Whole:
    """Return the month of days since 1970, 0 for January.

    Example:
        >>> month(np.array([0.0, 31.0, -1.0]))
        array([ 0,  1, 11])
    """
    # Every 400 years the calendar repeats; so no day is too far off.
    near = np.asarray(days % (400 * 365 + 97)).astype(np.int64).astype("datetime64[D]")
    return near.astype("datetime64[M]").astype(np.int64) % 12
