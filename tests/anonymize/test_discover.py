"""A schema found through the door: nothing shown that one person holds, everything paid, bounds of use."""

import datetime
import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from scipy.stats import norm

from threea import dates, hospital
from threea.anonymize import discover as module
from threea.anonymize.accountant import Line, Plan, Step
from threea.anonymize.discover import SHARE, discover, steps, widest
from threea.anonymize.events import Gaussian, Threshold
from threea.anonymize.ledger import Ledger
from threea.anonymize.opening import open_table
from threea.anonymize.query import Values
from threea.backends import MemoryBackend
from threea.budget import Adjacency, Budget
from threea.recipes import Independent
from threea.schema import Kind, Origin
from threea.testing import SeededNoise, SilentNoise

CANARY = "canary-8d1f"
BUDGET = Budget(1.0, 1e-6)
STAYS = hospital.stays(20_000)


def discovered(data, *, noise=None, budget=BUDGET, **settings):
    """Return the table described by what discovery finds with its usual share of a budget."""
    table = open_table(data, budget=budget, noise=noise or SilentNoise(), **settings)
    rest = Step(name="rest", weight=1 - SHARE)
    return discover(table, Plan.calibrate(budget, [*steps(table.schema), rest]))


@pytest.fixture(scope="module")
def found():
    """What discovery makes of the hospital, with seeded noise."""
    return discovered(STAYS, noise=SeededNoise(0), target="died").schema


# What one person holds is not shown.


@pytest.mark.parametrize("noise", [SilentNoise(), None], ids=["silent", "secure"])
@pytest.mark.parametrize("adjacency", Adjacency)
def test_a_value_of_a_single_row_is_never_shown(noise, adjacency):
    """With secure noise too: a count of one is dropped before noise could lift it."""
    ward = pa.array(["common"] * 3000 + [CANARY])
    table = pa.table({"ward": ward, "died": pa.array([True] * 3001)})
    for _ in range(1 if noise else 20):
        schema = discovered(table, noise=noise, target="died", budget=Budget(5.0, 0.5, adjacency)).schema
        assert schema["ward"].categories == ("common",)
        assert CANARY not in schema.to_toml()


def test_a_rare_value_stays_hidden_and_a_common_one_is_shown():
    """The threshold lies above two rows, by as much as the noise may reach with the event's delta."""
    counts = {"common": 5000, "shared by two": 2, "shared by nine": 9}
    table = pa.table({"ward": [name for name, count in counts.items() for _ in range(count)]} | {"x": range(5011)})
    schema = discovered(table).schema
    assert schema["ward"].categories == ("common",)
    assert schema["ward"].open_ended


class Lift(SilentNoise):
    """Lifts every count by the same number of grid steps."""

    lift, scale = 0, None

    def gaussian(self, sums, scale):
        self.scale = scale
        return sums + self.lift


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("columns", [("a",), ("a", "b", "c")])
def test_a_value_of_a_unit_passes_the_threshold_as_seldom_as_stated(adjacency, columns):
    """Two rows, the most that a unit's arrival makes of one dropped unseen, are shown with less than delta.

    The least noise that shows them is found by bisection; over all values of the unit, noise of the event's size
    reaches it with a third of delta at most, which leaves a third for either direction of replacement.
    """
    event, noise = Threshold(2.0, 1e-3), Lift()
    table = pa.table({name: ["v", "v"] for name in columns} | {"x": [1, 2]})
    opened = open_table(table, budget=Budget(500.0, 0.5, adjacency), noise=noise)
    charge = Plan(opened.budget, (Line("values", event, 60),))["values"]

    def shown(lift):
        noise.lift = lift
        return bool(opened.measure(Values(columns), charge)["a"])

    low, high = 0, 2**40
    assert shown(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if shown(middle) else (middle, high)
    assert norm.sf(low / noise.scale) * len(columns) <= event.delta / 3
    assert norm.sf(low / noise.scale) * len(columns) > event.delta / 3 * 0.99


def test_values_out_of_the_way_do_not_show_in_the_bounds():
    """One enormous row would stretch bounds taken from the data."""
    costs = np.concatenate([np.linspace(10, 1000, 5000), [1e25]])
    schema = discovered(pa.table({"cost": costs, "x": range(5001)})).schema
    assert 1000 <= schema["cost"].upper < 3000


@pytest.mark.parametrize("extra", [1e25, -1e25, 0.0, 500.0, math.nan])
def test_one_row_hardly_moves_the_bounds(extra):
    base, more = (
        discovered(
            pa.table({"cost": np.append(np.linspace(10, 1000, 5000), rows), "x": range(5000 + len(rows))})
        ).schema
        for rows in ([], [extra])
    )
    assert more["cost"].lower == base["cost"].lower
    assert more["cost"].upper == base["cost"].upper
    assert more["cost"].edges == pytest.approx(base["cost"].edges, rel=1e-2)


# Everything is paid for.


class RecordingBackend(MemoryBackend):
    """Remembers which verbs were used, from outside, and on which columns."""

    def __init__(self, table):
        super().__init__(table)
        self.used, self._depth = [], 0

    def _record(self, verb, columns, act):
        if not self._depth:
            self.used.append((verb, tuple(columns)))
        self._depth += 1
        try:
            return act()
        finally:
            self._depth -= 1

    def batches(self, columns):
        return iter(self._record("batches", columns, lambda: list(super(RecordingBackend, self).batches(columns))))

    def sum(self, function, columns):
        return self._record("sum", columns, lambda: super(RecordingBackend, self).sum(function, columns))

    def table(self):
        return self._record("table", (), super().table)

    def count_values(self, column):
        return self._record("count_values", (column,), lambda: super(RecordingBackend, self).count_values(column))


class StoppedNoise(SilentNoise):
    """Tells what had been asked of the backend each time noise was drawn."""

    def __init__(self, backend):
        self.backend, self.looks = backend, []

    def gaussian(self, sums, scale):
        self.looks.append(list(self.backend.used))
        self.backend.used.clear()
        return sums


def test_nothing_is_read_but_what_is_paid_for():
    """Opening sums for emptiness and the fingerprint; discovery counts values and sums; each look draws noise."""
    backend = RecordingBackend(STAYS.slice(0, 500))
    with Ledger() as ledger:
        noise = StoppedNoise(backend)
        table = open_table(backend, budget=BUDGET, target="died", noise=noise, ledger=ledger)
        assert backend.used == [("sum", ("died",)), ("sum", tuple(STAYS.column_names))]
        backend.used.clear()
        release = Independent().run(table, rows=10)
        assert backend.used == []
        (reserved,) = ledger.releases()
        charges = ledger.charges(reserved.id)
    text = ("patient_id", "ward", "admission_type", "sex", "insurance", "diagnosis")
    verbs = [look for looks in noise.looks for look in looks]
    assert [verb for verb in verbs if verb[0] == "count_values"] == [("count_values", (name,)) for name in text]
    assert [verb for verb, _ in verbs if verb != "count_values"] == ["sum", "sum"]
    assert [charge.line for charge in charges] == [
        "discover categories",
        "discover ranges",
        "histograms given the label",
    ]
    assert release.schema.origin is Origin.DISCOVERED
    assert reserved.epsilon == BUDGET.epsilon


def test_a_known_schema_asks_nothing_of_discovery():
    assert steps(hospital.schema()) == ()


def test_discovery_takes_its_share_of_the_same_budget():
    table = open_table(STAYS, budget=BUDGET, target="died", noise=SilentNoise())
    plan = Independent().plan(table)
    shares = {line.name: line.share for line in plan.lines}
    assert shares["discover categories"] + shares["discover ranges"] == pytest.approx(SHARE)
    assert {type(plan[name].event) for name in ("discover categories",)} == {Threshold}
    assert type(plan["discover ranges"].event) is Gaussian
    assert 0.99 * BUDGET.epsilon <= plan.epsilon <= BUDGET.epsilon


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (pa.table({"a": ["x"], "b": ["y"]}), ["discover categories"]),
        (pa.table({"a": [1], "b": [2.0]}), ["discover ranges"]),
        (pa.table({"a": [True], "b": [False]}), []),
    ],
    ids=["text", "numbers", "booleans"],
)
def test_only_what_is_unknown_is_asked(data, names):
    found = steps(widest(data.schema, None, None))
    assert [step.name for step in found] == names
    assert math.fsum(step.weight for step in found) == pytest.approx(SHARE if names else 0)


# What is found is of use.


def test_the_hospitals_categories_are_found(found):
    for name in ("ward", "admission_type", "sex", "insurance", "diagnosis"):
        counts = Counter(value for value in STAYS[name].to_pylist() if value is not None)
        common = {value for value, count in counts.items() if count > 400}
        assert common <= set(found[name].categories) <= set(counts)
        assert found[name].open_ended


def test_ids_are_not_told(found):
    """Taken for text, for nobody said that it names persons; yet no one of them is shown."""
    assert found["patient_id"].categories == ()


@pytest.mark.parametrize("name", ["age", "prior_stays", "lactate", "creatinine", "cost", "length_of_stay"])
def test_the_hospitals_bounds_are_sane(found, name):
    """Almost all rows within them, and not wider than a few times what the rows need."""
    values = STAYS[name].drop_null().to_numpy().astype(np.float64)
    column = found[name]
    inside = (values >= column.lower) & (values <= column.upper) | np.isin(values, column.special)
    assert inside.mean() > 0.98
    assert column.upper <= 4 * values.max()
    assert column.lower >= -1
    assert column.edges[0] >= column.lower
    assert len(column.edges) <= 2 * module._BINS + 2


def test_a_spike_at_zero_stands_apart(found):
    assert found["cost"].special == (0.0,)
    assert found["lactate"].special == ()


def test_dates_are_found_to_the_year(found):
    first, last = (dates.from_text(day, Kind.DATETIME, "admitted") for day in ("2021-01-01", "2024-01-01"))
    year = 366 * 86400e6
    assert first - year <= found["admitted"].lower <= first
    assert last - year <= found["admitted"].upper <= last + year


def test_bins_hold_about_equally_many(found):
    ages = STAYS["age"].to_numpy().astype(np.float64)
    counts = np.histogram(ages, found["age"].edges)[0]
    assert counts.max() < 0.25 * len(ages)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), [-5, -3, -5, -1]),
        (pa.int64(), [7, 7, 7, 7]),
        (pa.int64(), [0, 0, 0, 0]),
        (pa.int8(), [-128, 127, 0, 1]),
        (pa.uint64(), [2**64 - 1, 0, 1, 2]),
        (pa.float64(), [0.0, 0.0, 0.0, 0.0]),
        (pa.float64(), [math.nan, math.inf, -math.inf, 1e300]),
        (pa.float32(), [-1e-9, 1e-9, 1e-30, 1e30]),
        (pa.float64(), [None, None, None, None]),
        (pa.date32(), [datetime.date(1850, 1, 1), datetime.date(2300, 1, 1)] * 2),
        (pa.timestamp("ns"), [datetime.datetime(2020, 1, 1)] * 4),
        (pa.null(), [None] * 4),
        (pa.string(), [None, "", "a", "ä"]),
        (pa.bool_(), [True, None, False, True]),
    ],
    ids=str,
)
def test_any_column_can_be_described(kind, values):
    """Bounds hold the values, or what is left of them, and a release can be made of them."""
    data = pa.table({"v": pa.array(values * 500, kind), "y": pa.array([True, False] * 1000)})
    for noise in (SilentNoise(), SeededNoise(0)):
        table = open_table(data, budget=BUDGET, target="y", noise=noise)
        release = Independent().run(table, rows=20)
        assert release.table.schema == data.schema
    column = discovered(data, target="y").schema["v"]
    if column.kind in (Kind.INTEGER, Kind.REAL) and -100 < (pc.min(data["v"]).as_py() or 0) < 100:
        assert column.lower <= (pc.min(data["v"]).as_py() or 0) or 0.0 in column.special


def test_the_widest_schema_says_no_more_than_the_types():
    table = pa.table({"a": pa.array([3], pa.int8()), "b": pa.array([250], pa.uint8()), "c": [1.5], "d": ["x"]})
    schema = widest(table.schema, None, None)
    assert (schema["a"].lower, schema["a"].upper) == (-128, 127)
    assert (schema["b"].lower, schema["b"].upper) == (0, 255)
    assert schema["c"].lower < -1e29
    assert schema["d"].categories == ()
    assert schema.origin is Origin.TYPES
    assert schema == widest(pa.table({n: table[n].slice(0, 0) for n in table.column_names}).schema, None, None)


def test_the_unit_becomes_an_id():
    schema = widest(STAYS.schema, "died", "patient_id")
    assert schema["patient_id"].kind is Kind.ID
    assert "patient_id" not in {column.name for column in schema.modelled}
