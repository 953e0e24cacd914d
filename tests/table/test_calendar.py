"""Dates by the calendar: cells for counting, and drawing within bins by weights."""

import datetime
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threea.errors import SettingError
from threea.table.calendar import MOST_DAYS, Calendar
from threea.table.calendar_cells import LABELS, MONTH, PER_DAY, TIME, WEEKDAY, CalendarCells
from threea.table.column import Column, Kind
from threea.table.conditions import Between

EPOCH = datetime.datetime(1970, 1, 1)
MOMENTS = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1))
ON_WEEKDAYS = np.array([1.0, 1, 1, 1, 1, 0, 0])
IN_WINTER = np.array([3.0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3])
AT_NOON = np.array([0.0] * 12 + [1.0] * 3 + [0.0] * 10)


def calendar(kind: Kind = Kind.DATE, bins: int = 8, special: tuple[float, ...] = (), **weights: np.ndarray) -> Calendar:
    per_day = PER_DAY if kind is Kind.DATETIME else 1
    lower, upper = 18_000.0 * per_day, 18_999.0 * per_day
    cells = Column(name="seen", kind=kind, lower=lower, upper=upper, special=special).cells(bins)
    named = {part: weights[part.split()[0]] for part in LABELS if part.split()[0] in weights}
    return Calendar(cells, kind is Kind.DATETIME, named, stddev=1.0)


def index(values: np.ndarray, part: str, *, moments: bool = False) -> np.ndarray:
    return CalendarCells(column="seen", part=part, moments=moments).index(values)


@given(moment=MOMENTS)
def test_cells_are_those_of_the_calendar(moment: datetime.datetime) -> None:
    since = moment - EPOCH
    days, exact = np.array([float(since.days)]), np.array([float(since // datetime.timedelta(microseconds=1))])
    for values, moments in ((days, False), (exact, True)):
        assert index(values, WEEKDAY, moments=moments).tolist() == [moment.weekday()]
        assert index(values, MONTH, moments=moments).tolist() == [moment.month - 1]
    midnight = moment.time() == datetime.time()
    assert index(exact, TIME, moments=True).tolist() == [0 if midnight else moment.hour + 1]


def test_what_is_no_date_and_what_is_special_has_no_cell() -> None:
    for part in LABELS:
        for moments in (False, True):
            cells = CalendarCells(column="seen", part=part, moments=moments, special=(7.0,))
            found = cells.index(np.array([np.nan, np.inf, -np.inf, 1e300, 7.0, 2.0**61, -(2.0**61)]))
            assert found[:5].tolist() == [-1] * 5
            assert ((found[5:] >= 0) & (found[5:] < cells.size)).all()
    with pytest.raises(SettingError, match="part of a calendar"):
        CalendarCells(column="seen", part="century")


@pytest.mark.parametrize("kind", [Kind.DATE, Kind.DATETIME])
@pytest.mark.parametrize("bins", [1, 8, 500, 3000])
def test_a_value_stays_in_its_bin_and_keeps_to_the_calendar(kind: Kind, bins: int) -> None:
    moments = kind is Kind.DATETIME
    weighed = calendar(kind, bins, weekday=ON_WEEKDAYS, month=IN_WINTER, **({"time": AT_NOON} if moments else {}))
    rng = np.random.default_rng(0)
    before = weighed.cells.draw(rng.integers(0, weighed.cells.size, 20_000), rng)
    after = weighed.drawn(before, rng)
    assert np.array_equal(weighed.cells.index(after), weighed.cells.index(before))
    assert np.array_equal(np.isnan(after), np.isnan(before))
    if bins <= 8:
        days = index(after[~np.isnan(after)], WEEKDAY, moments=moments)
        assert set(days.tolist()) == {0, 1, 2, 3, 4}
        # A quarter of the days is in winter, and in every bin but those without any these are drawn more often.
        winter = [np.isin(index(values, MONTH, moments=moments), [11, 0, 1]).mean() for values in (before, after)]
        assert winter[1] > winter[0] + 0.1
    if moments and bins <= 8:
        assert set(index(after[~np.isnan(after)], TIME, moments=True).tolist()) == {12, 13, 14}


@pytest.mark.parametrize("kind", [Kind.DATE, Kind.DATETIME])
def test_shares_are_those_of_the_weights(kind: Kind) -> None:
    """20,000 draws: a weekday's share is off by more than 0.02 about once in 10**10 seeds, and this is one seed."""
    moments = kind is Kind.DATETIME
    weekdays = np.arange(1.0, 8.0)
    weighed = calendar(kind, 1, weekday=weekdays)
    values = np.full(20_000, weighed.cells.edges[0])
    drawn = index(weighed.drawn(values, np.random.default_rng(1)), WEEKDAY, moments=moments)
    assert np.abs(np.bincount(drawn, minlength=7) / len(drawn) - weekdays / 28).max() < 0.02


@given(
    lower=st.integers(17_990, 19_010),
    width=st.integers(0, 40),
    kind=st.sampled_from([Kind.DATE, Kind.DATETIME]),
    seed=st.integers(0, 99),
)
def test_conditions_hold_also_where_the_calendar_has_nothing(lower: int, width: int, kind: Kind, seed: int) -> None:
    per_day = PER_DAY if kind is Kind.DATETIME else 1
    weighed = calendar(kind, 20, weekday=ON_WEEKDAYS)
    asked = Between(lower * per_day, min((lower + width) * per_day, 18_999 * per_day))
    inside = [max(asked.lower, 18_000 * per_day), asked.upper]
    if inside[0] > inside[1]:
        return
    drawn = weighed.drawn(np.repeat(inside, 50), np.random.default_rng(seed), asked)
    assert ((asked.lower <= drawn) & (drawn <= asked.upper)).all()
    open_ended = weighed.drawn(np.repeat(inside, 50), np.random.default_rng(seed), Between(-math.inf, math.inf))
    assert ((weighed.cells.edges[0] <= open_ended) & (open_ended < weighed.cells.edges[-1])).all()


def test_special_and_missing_values_stay_and_are_not_drawn() -> None:
    weighed = calendar(bins=1, special=(18_003.0, 99_999.0), weekday=np.array([0.0] * 6 + [1.0]))
    before = np.array([18_003.0, 99_999.0, np.nan, 18_001.0] * 2_000)
    after = weighed.drawn(before, np.random.default_rng(0)).reshape(-1, 4)
    assert (after[:, :2] == before[:2]).all()
    assert np.isnan(after[:, 2]).all()
    assert not np.isin(after[:, 3], [18_003.0, 99_999.0]).any()
    assert (index(after[:, 3], WEEKDAY) == 6).all()


def test_dates_that_are_all_at_midnight_stay_dates() -> None:
    sharp = np.zeros(25)
    sharp[0] = 1.0
    weighed = calendar(Kind.DATETIME, 8, time=sharp)
    rng = np.random.default_rng(0)
    drawn = weighed.drawn(weighed.cells.draw(rng.integers(0, 8, 5_000), rng), rng)
    assert (drawn % PER_DAY == 0).all()


def test_a_calendar_without_end_or_of_other_weights_is_refused() -> None:
    wide = Column(name="seen", kind=Kind.DATE, lower=0, upper=MOST_DAYS).cells(4)
    with pytest.raises(SettingError, match="at most"):
        Calendar(wide, False, {}, 1.0)
    with pytest.raises(SettingError, match="a weight for each"):
        calendar(weekday=np.ones(3))
