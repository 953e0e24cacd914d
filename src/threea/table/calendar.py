"""A column's calendar: the weights by which dates are drawn within their bins, and the drawing.

A bin of dates is often wider than a day. A model draws evenly within it; a calendar draws by weights for weekday, month
and time of day. The weights come from a noisy answer (`describe.calendar_effects`), never from rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from threea.errors import SettingError
from threea.table.calendar_cells import LABELS, MONTH, PER_DAY, TIME, TIME_EDGES, WEEKDAY, month, weekday
from threea.table.cells import Bins
from threea.table.conditions import Between, Condition

Floats = NDArray[np.float64]

MOST_DAYS = 1 << 18
"""From the first to the last day of a column whose calendar is looked at: about 700 years. Chosen: each day takes a
number in memory."""


@dataclass(frozen=True)
class Calendar:
    """How the dates of a column are drawn within its bins.

    Args:
        cells: The bins.
        moments: Whether values are microseconds since 1970, and not days.
        weights: Of the weekdays, the months and the times of day, as many times as often as if dates were drawn evenly;
            of those that stand out from the noise.
        stddev: Of the noise on the counts that they come from.
    """

    cells: Bins
    moments: bool
    weights: Mapping[str, Floats]
    stddev: float

    def __post_init__(self) -> None:
        if not self.cells.whole or self.last - self.first > MOST_DAYS:
            raise SettingError(
                f"the calendar of {self.cells.column} must be of whole numbers, at most {MOST_DAYS} days"
            )
        if any(len(weights) != len(LABELS[part]) for part, weights in self.weights.items()):
            raise SettingError(f"the calendar of {self.cells.column} needs a weight for each weekday, month or time")

    @property
    def per_day(self) -> float:
        """How many values a day has."""
        return float(PER_DAY if self.moments else 1)

    @property
    def first(self) -> float:
        """The first day."""
        return math.floor(self.cells.edges[0] / self.per_day)

    @property
    def last(self) -> float:
        """The day after the last one."""
        return math.ceil(self.cells.edges[-1] / self.per_day)

    @property
    def times(self) -> Floats:
        """Where the times of a day begin, and the last one ends; a date has one."""
        return np.array(TIME_EDGES if self.moments else (0.0, 1.0))

    def drawn(self, values: Floats, rng: np.random.Generator, condition: Condition | None = None) -> Floats:
        """Return other values of the same bins; missing and special ones stay. All fit the condition, as those do."""
        index = self.cells.index(values) - len(self.cells.special)
        lower, upper = self._within(condition)
        below, above = self._mass(lower), self._mass(upper)
        inside = (index >= 0) & (index < len(lower)) & ~np.isnan(values)
        inside[inside] = (above > below)[index[inside]]
        bins = index[inside]
        moved = self._at(below[bins] + rng.random(len(bins)) * (above - below)[bins])
        moved = np.clip(moved, lower[bins], upper[bins] - 1)
        drawn = values.copy()
        # Special values have cells of their own, and are not drawn from a bin.
        drawn[inside] = np.where(np.isin(moved, self.cells.special), values[inside], moved)
        return drawn

    def _within(self, condition: Condition | None) -> tuple[Floats, Floats]:
        """Return where bins begin, and where they end, as far as they fit a condition."""
        lower, upper = np.asarray(self.cells.edges[:-1]), np.asarray(self.cells.edges[1:])
        if not isinstance(condition, Between):
            return lower, upper
        lower = np.maximum(lower, np.ceil(condition.lower))
        return lower, np.maximum(np.minimum(upper, np.floor(condition.upper) + 1), lower)

    def _mass(self, values: Floats) -> Floats:
        """Return how much weight all values before these have."""
        days = np.clip(np.floor(values / self.per_day) - self.first, 0, len(self._days) - 2).astype(np.int64)
        time = values - (self.first + days) * self.per_day
        weight = self._days[days + 1] - self._days[days]
        return np.asarray(self._days[days] + weight * np.interp(time, self.times, self._times))

    def _at(self, mass: Floats) -> Floats:
        """Return the value before which all others have so much weight."""
        days = np.clip(np.searchsorted(self._days, mass, side="right") - 1, 0, len(self._days) - 2)
        rest = _share(mass, self._days[days], self._days[days + 1])
        time = np.clip(np.searchsorted(self._times, rest, side="right") - 1, 0, len(self._times) - 2)
        start, end = self.times[time], self.times[time + 1]
        within = start + _share(rest, self._times[time], self._times[time + 1]) * (end - start)
        return np.asarray((self.first + days) * self.per_day + np.minimum(np.floor(within), end - 1))

    @cached_property
    def _days(self) -> Floats:
        """The weight of all days before each, and of all."""
        days = np.arange(self.first, self.last)
        weights = self.weight(WEEKDAY)[weekday(days)] * self.weight(MONTH)[month(days)]
        if not self.moments:
            weights[np.isin(days, self.cells.special)] = 0.0
        return np.concatenate([[0.0], np.cumsum(weights)])

    @cached_property
    def _times(self) -> Floats:
        """The share of a day's weight before each time of day, and 1."""
        weights = np.diff(self.times) * (self.weight(TIME) if self.moments else 1.0)
        return np.concatenate([[0.0], np.cumsum(weights) / weights.sum()])

    def weight(self, part: str) -> Floats:
        """Return the weights of a part of the calendar: 1 where it does not stand out."""
        return self.weights.get(part, np.ones(len(LABELS[part])))


def _share(values: Floats, start: Floats, end: Floats) -> Floats:
    """Return which share of the way from start to end lies before values; 0 where there is no way."""
    return np.divide(values - start, end - start, out=np.zeros(len(values)), where=end > start)
