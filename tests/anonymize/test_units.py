"""Persons with many rows: at most so many count, chosen inside the door, and not by place."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threea import hospital
from threea.anonymize.accountant import Line, Plan, Step
from threea.anonymize.events import Sampled, Threshold
from threea.anonymize.opening import open_table
from threea.anonymize.query import Count, Marginal, Values
from threea.anonymize.till import Unit
from threea.backends import MemoryBackend
from threea.backends.units import UnitBackend
from threea.budget import Budget
from threea.errors import SchemaError, SettingError
from threea.schema import Schema
from threea.testing import SilentNoise

KEY = b"a key of the door"
ROWS = st.lists(st.tuples(st.sampled_from([None, "", "p", "q", "r"]), st.integers(0, 9)), min_size=1, max_size=20)


def kept(rows, max_rows, key=KEY, cut=3):
    """Return the rows that count, as a list of (person, value)."""
    table = pa.table({"person": pa.array([p for p, _ in rows], pa.string()), "value": [v for _, v in rows]})
    cut_up = pa.concat_tables([table.slice(start, cut) for start in range(0, len(rows), cut)])
    found = UnitBackend(MemoryBackend(cut_up), "person", max_rows, key).table()
    return list(zip(found["person"].to_pylist(), found["value"].to_pylist(), strict=True))


def of(person, rows):
    return sorted(value for owner, value in rows if owner == person)


@settings(deadline=None)
@given(ROWS, st.integers(1, 5))
def test_each_person_keeps_as_many_rows_as_allowed(rows, max_rows):
    """Rows without a person are one person together."""
    found = kept(rows, max_rows)
    for person in {owner for owner, _ in rows}:
        assert len(of(person, found)) == min(len(of(person, rows)), max_rows)
    assert not set(found) - set(rows)


@settings(deadline=None)
@given(st.data(), ROWS, st.integers(1, 5), st.integers(1, 7))
def test_which_rows_count_hangs_on_their_person_alone(data, rows, max_rows, cut):
    """Not on their place, nor on other persons, nor on how the table is cut."""
    found = kept(rows, max_rows)
    shuffled = kept(data.draw(st.permutations(rows)), max_rows, cut=cut)
    assert sorted(map(repr, shuffled)) == sorted(map(repr, found))
    for person in {owner for owner, _ in rows}:
        alone = [row for row in rows if row[0] == person]
        assert of(person, kept(alone, max_rows)) == of(person, found)


def test_which_rows_count_hangs_on_the_key():
    rows = [("p", value) for value in range(50)]
    chosen = {tuple(of("p", kept(rows, 5, key=bytes([number])))) for number in range(20)}
    assert len(chosen) > 15


def test_the_first_rows_are_not_favoured():
    """Over 400 keys each of 10 rows is kept 80 times in the mean; six deviations out is a false alarm of 1e-8."""
    rows = [("p", value) for value in range(10)]
    times = np.zeros(10)
    for number in range(400):
        times[of("p", kept(rows, 2, key=number.to_bytes(2, "little")))] += 1
    assert np.all(np.abs(times - 80) < 6 * np.sqrt(400 * 0.2 * 0.8))


@pytest.mark.parametrize(
    "persons",
    [
        pa.array([1, 1, 2**53, 2**53 + 1, None], pa.int64()),
        pa.array(["a", "a", "A", "a ", None], pa.string()),
        pa.array(["a", "a", "b", "c", None], pa.string()).dictionary_encode(),
        pa.array([0, 0, 1, 2, None], pa.date32()),
    ],
    ids=["integers", "text", "dictionary", "dates"],
)
def test_persons_are_told_apart_exactly(persons):
    table = pa.table({"person": persons, "value": range(5)})
    assert UnitBackend(MemoryBackend(table), "person", 1, KEY).table().num_rows == 4
    assert UnitBackend(MemoryBackend(table), "person", 1, KEY).units == 4


def test_samples_are_of_persons():
    table = pa.table({"person": ["p", "p", "q", "q", "r"], "value": range(5)})
    units = UnitBackend(MemoryBackend(table), "person", 2, KEY)
    assert units.sampled(np.array([True, False, True])).table()["value"].to_pylist() == [0, 1, 4]


# Through the door.

STAYS = hospital.stays(2_000)
STAYS_OF = np.unique(STAYS["patient_id"].to_pylist(), return_counts=True)[1]


def opened(**given_settings):
    defaults = {"schema": hospital.schema(), "budget": Budget(1.0), "noise": SilentNoise(), "unit": "patient_id"}
    return open_table(STAYS, **{**defaults, **given_settings})


@pytest.mark.parametrize("max_rows", [1, 2, 100])
def test_the_door_counts_bounded_rows_and_widens_the_noise(max_rows):
    plan = Plan.calibrate(Budget(1.0), [Step(name="count", weight=1.0)])
    answer = opened(max_rows_per_unit=max_rows).measure(Count(), plan["count"])
    assert answer.value == np.minimum(STAYS_OF, max_rows).sum()
    assert answer.stddev == pytest.approx(max_rows / Budget(1.0).mu)


def test_a_sample_takes_persons_whole():
    """Of the persons drawn all rows count, of the others none."""

    class EverySecond(SilentNoise):
        def bernoulli(self, rate, size):
            assert size == len(STAYS_OF)
            return np.arange(size) % 2 == 0

    charge = Plan(Budget(1.0), (Line("sample", Sampled(0.5, 10.0)),))["sample"]
    found = opened(noise=EverySecond(), max_rows_per_unit=100).sampled(0.5).measure(Count(), charge)
    first = list(dict.fromkeys(STAYS["patient_id"].to_pylist()))
    expected = sum(person in set(first[::2]) for person in STAYS["patient_id"].to_pylist())
    assert found.value == expected


def test_a_value_of_one_person_is_never_shown_however_often_she_has_it():
    rows = {"person": ["p"] * 500 + [f"q{n}" for n in range(500)], "ward": ["secret"] * 500 + ["known"] * 500}
    schema = Schema.of({"person": {"kind": "id"}, "ward": {"kind": "categorical", "open_ended": True}})
    plan = Plan.calibrate(Budget(1.0), [Step(name="values", weight=1.0, kind=Threshold)])
    for max_rows in (1, 3):
        table = open_table(
            pa.table(rows),
            schema=schema,
            budget=Budget(1.0),
            noise=SilentNoise(),
            unit="person",
            max_rows_per_unit=max_rows,
        )
        shown = table.measure(Values(("ward",)), Plan(plan.budget, plan.lines)["values"])
        assert shown == {"ward": {"known": 500.0}}


def test_the_person_is_not_a_question():
    assert "patient_id" not in {column.name for column in opened().schema.modelled}
    cells = hospital.schema()["ward"].cells(8)
    plan = Plan.calibrate(Budget(1.0), [Step(name="count", weight=1.0)])
    assert opened(max_rows_per_unit=100).measure(Marginal((cells,)), plan["count"]).value.sum() == STAYS.num_rows


def test_units_are_checked_when_made():
    with pytest.raises(SettingError, match="at least 1"):
        Unit("person", 0)
    with pytest.raises(SettingError, match="needs a unit"):
        Unit(None, 2)
    with pytest.raises(SettingError, match="not a column"):
        opened(unit="nobody")
    with pytest.raises(SchemaError, match="kind id"):
        opened(unit="ward")
