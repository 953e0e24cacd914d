"""Weekdays, months and times of day: one question over date columns, and weights where its answer stands out.

Bins of a date are often wider than a day, and within a bin a model draws evenly: offices would be open on Sundays. So
the rows are counted by weekday and month and, of moments, by time of day: a marginal each, all of one charge. Where the
counts differ from what the model draws by more than noise and chance explain, weights are fitted to them by raking, so
that the model's rows, drawn by these weights within their bins (`dated`), have the counted shares.

Reference:
    Deming and Stephan 1940 (raking); James and Stein 1961 (shrinking noisy counts).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.door import PrivateTable
from threea.anonymize.events import Gaussian, Pure
from threea.anonymize.plan import Plan, Step
from threea.anonymize.query import Answer, Marginal, Stack
from threea.model_summary import Histogram
from threea.table.calendar import MOST_DAYS, Calendar
from threea.table.calendar_cells import LABELS, MONTH, PER_DAY, TIME, WEEKDAY, CalendarCells, month, weekday
from threea.table.cells import Bins
from threea.table.schema import Column, Kind, Schema

if TYPE_CHECKING:
    from threea.framework import Model

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

CALENDAR = "weekdays and months of dates"
"""The line of a plan that pays for it."""
SHARE = 0.02
"""Of the budget, where there are dates. Chosen: of 20,000 rows a weekday's share is then known to about 0.3%."""
FALSE_ALARM = 0.001
"""How often dates that are drawn evenly within bins stand out, for each of weekday, month and time of day."""
_SHARP, _NOT_SHARP, _FEW = 4.0, 3.0, 0.1
"""A count of midnights of fewer standard deviations is noise: they are then moments of the first hour. If it is the
other times that add up to fewer, and to no more than a share of the midnights, all are at midnight. Chosen."""
_BINS, _DRAWS, _ROUNDS = 32, 1 << 14, 30
"""Of columns whose noisy histogram is not known; rows that tell how a model draws dates; rounds of raking. Chosen."""


def steps(schema: Schema, others: Sequence[Step]) -> tuple[Step, ...]:
    """Return a recipe's steps, with the question over dates if there are any; it gets the kind of noise that they have.

    Where kinds are to be found, nobody knows yet whether there are dates. The question is planned; if there are none it
    is not asked, and not charged.
    """
    if not any(column.kind is Kind.UNDECLARED or _parts(column) for column in schema.modelled):
        return tuple(others)
    scale = (1 - SHARE) / sum(step.weight for step in others)
    noise = Pure if all(step.kind is Pure for step in others) else Gaussian
    return (
        *(replace(step, weight=step.weight * scale) for step in others),
        Step(name=CALENDAR, weight=SHARE, kind=noise),
    )


def measured(model: Model, table: PrivateTable, plan: Plan) -> tuple[Calendar, ...]:
    """Count the rows by weekday, month and time of day, and return how each date column is to be drawn.

    Cost:
        The plan's line for it, if there is one and there are dates.
    """
    dated = [column for column in table.schema.modelled if _parts(column)]
    if not dated or all(line.name != CALENDAR for line in plan.lines):
        return ()
    cells = [_cells(column, part) for column in dated for part in _parts(column)]
    answer = table.measure(Stack(tuple(Marginal((each,)) for each in cells)), plan[CALENDAR])
    drawn = model.sample(_DRAWS, np.random.default_rng(0))
    histograms, parts = model.summary.histograms, iter(answer.parts)
    return tuple(
        fitted(column, histograms.get(column.name), drawn[column.name], {part: next(parts) for part in _parts(column)})
        for column in dated
    )


def fitted(column: Column, histogram: Histogram | None, drawn: Floats, counts: Mapping[str, Answer]) -> Calendar:
    """Return how a column is to be drawn.

    Args:
        column: Of dates or moments.
        histogram: The model's noisy counts of it, if it has any.
        drawn: Values that the model drew.
        counts: By part of the calendar.
    """
    stddev = next(iter(counts.values())).stddev
    bins, noise = column.cells(_BINS), 0.0
    if histogram is not None and isinstance(histogram.cells, Bins):
        bins, noise = histogram.cells, histogram.stddev
    assert isinstance(bins, Bins)
    calendar = Calendar(bins, column.kind is Kind.DATETIME, {}, stddev)
    index = bins.index(drawn) - len(bins.special)
    own = np.bincount(index[(index >= 0) & (index < len(bins.edges) - 1)], minlength=len(bins.edges) - 1)
    if not own.any():
        return calendar
    evenly = Evenly.of(calendar, own / own.sum())
    shares = {part: _standing_out(evenly, part, answer, noise) for part, answer in counts.items()}
    wanted = {part: share for part, share in shares.items() if share is not None}
    return replace(calendar, weights=evenly.raked(wanted)) if wanted else calendar


def _standing_out(evenly: Evenly, part: str, answer: Answer, noise: float) -> Floats | None:
    """Return the shares that a part of the calendar is to have, if they stand out by a chi-squared test.

    Its covariance is that of dates that are drawn evenly within their bins: the noise, the chance by which rows fall
    within bins, the noise on the model's own bins, and the chance in the rows that it drew.
    """
    from scipy.special import chdtri

    counts = _with_midnight(answer) if part == TIME else answer.value
    rows, freedom = float(counts.sum()), len(counts) - 1
    if rows <= 0:
        return None
    within = evenly.given_bin(part)
    expected = evenly.shares @ within
    both = (within * evenly.shares[:, None]).T @ within
    covariance = answer.stddev**2 * np.eye(len(counts)) + rows * (np.diag(expected) - both)
    covariance += noise**2 * within.T @ within + rows**2 / _DRAWS * (both - np.outer(expected, expected))
    # The counts are compared with shares of their own sum: one of them follows from the others.
    less = (np.eye(len(counts)) - expected[:, None])[:-1]
    apart = less @ counts
    statistic = float(apart @ np.linalg.solve(less @ covariance @ less.T, apart))
    if statistic <= chdtri(freedom, FALSE_ALARM):
        return None
    share = expected + (1 - freedom / statistic) * (counts / rows - expected)
    share = np.where((expected > 0) & (counts != 0), np.maximum(share, 0.0), 0.0)
    return np.asarray(share / share.sum()) if share.any() else None


def _with_midnight(answer: Answer) -> Floats:
    """Return counts of times of day, of which none, some or all are at midnight, as far as noise tells."""
    counts, stddev = answer.value.copy(), answer.stddev
    others = float(counts[1:].sum())
    if counts[0] < _SHARP * stddev:
        counts[:2] = 0.0, counts[0] + counts[1]
    elif others < min(_NOT_SHARP * stddev * math.sqrt(len(counts) - 1), _FEW * counts[0]):
        counts[:] = 0.0
        counts[0] = answer.value.sum()
    return counts


@dataclass(frozen=True)
class Evenly:
    """How much of each bin is in each weekday and month, at each time of day.

    Args:
        shares: Of each bin, in what the model draws.
        bins: For each weekday and month of each bin, the bin.
        weekdays: The weekday.
        months: The month.
        room: How much there is of it at each time of day.
    """

    shares: Floats
    bins: Whole
    weekdays: Whole
    months: Whole
    room: Floats

    @classmethod
    def of(cls, calendar: Calendar, shares: Floats) -> Evenly:
        """Cut bins into days, and put days of one weekday and month together."""
        edges, per_day, times = np.asarray(calendar.cells.edges), calendar.per_day, calendar.times
        cuts = np.union1d(edges, np.arange(calendar.first, calendar.last + 1) * per_day)
        cuts = cuts[(edges[0] <= cuts) & (cuts <= edges[-1])]
        starts, ends = cuts[:-1], cuts[1:]
        days = np.floor(starts / per_day)
        if not calendar.moments:
            ends = np.where(np.isin(starts, calendar.cells.special), starts, ends)
        kinds = (np.searchsorted(edges, starts, side="right") - 1) * 84 + weekday(days) * 12 + month(days)
        kinds, which = np.unique(kinds, return_inverse=True)
        whole = ends - starts == per_day
        room = np.bincount(which, weights=whole, minlength=len(kinds))[:, None] * np.diff(times)
        begin, end = starts[~whole] - days[~whole] * per_day, ends[~whole] - days[~whole] * per_day
        parts = np.minimum(end[:, None], times[1:]) - np.maximum(begin[:, None], times[:-1])
        np.add.at(room, which[~whole], np.maximum(parts, 0.0))
        return cls(shares, kinds // 84, kinds % 84 // 12, kinds % 12, room)

    def given_bin(self, part: str) -> Floats:
        """Return the share of each cell of a part of the calendar within each bin, if values are drawn evenly."""
        count = len(self.shares)
        if part == TIME:
            found = np.array([np.bincount(self.bins, weights=each, minlength=count) for each in self.room.T]).T
        else:
            size = len(LABELS[part])
            cells = self.bins * size + self._index(part)
            found = np.bincount(cells, weights=self.room.sum(axis=1), minlength=count * size).reshape(count, size)
        total = found.sum(axis=1, keepdims=True)
        return np.asarray(np.divide(found, total, out=np.zeros_like(found), where=total > 0))

    def raked(self, wanted: Mapping[str, Floats]) -> dict[str, Floats]:
        """Return weights by which the parts of the calendar have these shares; each bin keeps its own."""
        weights = {part: np.ones(len(labels)) for part, labels in LABELS.items()}
        for _ in range(_ROUNDS):
            for part, share in wanted.items():
                now = self._shares(part, weights)
                weights[part] *= np.divide(share, now, out=np.zeros_like(share), where=now > 0)
        return {part: weights[part] for part in wanted}

    def _shares(self, part: str, weights: Mapping[str, Floats]) -> Floats:
        """Return the shares of a part of the calendar, if values are drawn by weights."""
        times = weights[TIME] if self.room.shape[1] > 1 else np.ones(1)
        days = weights[WEEKDAY][self.weekdays] * weights[MONTH][self.months]
        mass = days * (self.room @ times)
        total = np.bincount(self.bins, weights=mass, minlength=len(self.shares))
        scale = np.divide(self.shares, total, out=np.zeros_like(total), where=total > 0)[self.bins]
        if part == TIME:
            return np.asarray(times * ((days * scale) @ self.room))
        return np.asarray(np.bincount(self._index(part), weights=mass * scale, minlength=len(LABELS[part])), np.float64)

    def _index(self, part: str) -> Whole:
        return self.weekdays if part == WEEKDAY else self.months


def _parts(column: Column) -> tuple[str, ...]:
    """Return which parts of the calendar are looked at of a column."""
    if not column.kind.temporal:
        return ()
    assert column.lower is not None
    assert column.upper is not None
    moments = column.kind is Kind.DATETIME
    # A day more at either end.
    if (column.upper - column.lower) / (PER_DAY if moments else 1) + 2 > MOST_DAYS:
        return ()
    return (WEEKDAY, MONTH, TIME) if moments else (WEEKDAY, MONTH)


def _cells(column: Column, part: str) -> CalendarCells:
    return CalendarCells(column=column.name, part=part, moments=column.kind is Kind.DATETIME, special=column.special)
