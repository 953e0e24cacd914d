"""Discovery: bounds and categories come through the door, are paid for, and tell of nobody in particular."""

import datetime
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest

from threea import hospital
from threea.anonymize.accountant import Line, epsilon_of
from threea.anonymize.events import Gaussian, PartitionSelection, from_json
from threea.anonymize.open_table import open_table
from threea.anonymize.plan import Plan
from threea.anonymize.query import Marginal, Stack
from threea.anonymize.selection import Values
from threea.backends.base import RowBackend
from threea.backends.memory import MemoryBackend
from threea.budget import Adjacency, Budget
from threea.describe import calendar_effects
from threea.describe.calendar_effects import CALENDAR
from threea.describe.discover import SHARE, discover, steps
from threea.errors import SettingError
from threea.ledger import Ledger
from threea.recipes import Independent
from threea.recipes.gaussians import Gaussians
from threea.table.codec import encode_column
from threea.table.patterns import settled
from threea.table.schema import Kind, Origin, Schema
from threea.testing import SeededNoise, SilentNoise

CANARY = "canary-7391"
STAYS = hospital.stays()
PEOPLE = STAYS.column("patient_id")
NUMERIC = ["admitted", "age", "prior_stays", "lactate", "creatinine", "cost", "length_of_stay"]
TEXT = ["ward", "admission_type", "sex", "insurance", "diagnosis"]


def found(data: Any, *, budget: Budget | None = None, noise: Any = None, **options: Any) -> Schema:
    """Return the schema that a release would discover."""
    table = open_table(data, budget=budget or Budget(1.0), noise=noise or SeededNoise(7), **options)
    return discover(table, Independent().plan(table)).schema


@pytest.fixture(scope="module")
def stays_schema() -> Schema:
    return found(STAYS, target="died", unit="patient_id", max_rows_per_unit=2)


@pytest.fixture(scope="module")
def found_at() -> dict[float, Schema]:
    return {epsilon: found(STAYS, target="died", budget=Budget(epsilon)) for epsilon in (1.0, 3.0)}


def values_of(column: str, schema: Schema) -> Any:
    """Return a column's present values as a schema encodes them, without its bounds."""
    described = schema[column]
    wide = type(described)(name=column, kind=described.kind, lower=-(2.0**60), upper=2.0**60)
    values = encode_column(STAYS.column(column), wide)
    return values[~np.isnan(values)]


@pytest.mark.parametrize("column", NUMERIC)
@pytest.mark.parametrize(("epsilon", "tail"), [(1.0, 0.05), (3.0, 0.01)])
def test_bounds_hold_the_bulk_of_the_values(
    column: str, epsilon: float, tail: float, found_at: dict[float, Schema]
) -> None:
    """Of 20,000 rows in thin tails, a smaller budget sees less."""
    described = found_at[epsilon][column]
    values = values_of(column, found_at[epsilon])
    low, high = np.quantile(values[~np.isin(values, described.special)], [tail, 1 - tail])
    assert described.lower <= low
    assert described.upper >= high


@pytest.mark.parametrize("column", NUMERIC)
def test_bounds_are_not_far_beyond_the_values(column: str, stays_schema: Schema) -> None:
    """Within a cell of the public grid: a factor of 1.5 for numbers, a year for moments."""
    values, described = values_of(column, stays_schema), stays_schema[column]
    values = values[~np.isin(values, described.special)]
    if described.kind.temporal:
        year = 366 * 24 * 3600 * 1e6
        assert values.min() - year <= described.lower
        assert described.upper <= values.max() + year
    else:
        assert values.min() / 1.5 - 1 <= described.lower
        assert described.upper <= values.max() * 1.5 + 1


@pytest.mark.parametrize("column", NUMERIC)
def test_bins_hold_about_equally_many(column: str, stays_schema: Schema) -> None:
    """No bin that could be cut further holds a fifth of the values."""
    described = stays_schema[column]
    cells = described.cells(32)
    values = encode_column(STAYS.column(column), described)
    values = values[~np.isnan(values) & ~np.isin(values, described.special)]
    shares = np.bincount(cells.index(values), minlength=cells.size) / len(values)
    widths = np.diff(described.edges)
    wide = widths > 1 if described.whole else widths > 0
    first = len(described.special)
    assert shares[first : first + len(widths)][wide].max(initial=0.0) < 0.2


def test_a_spike_at_zero_is_found(stays_schema: Schema) -> None:
    assert stays_schema["cost"].special == (0.0,)
    assert stays_schema["cost"].lower > 0
    assert stays_schema["lactate"].special == ()


@pytest.mark.parametrize("column", TEXT)
def test_frequent_values_are_found_and_rare_ones_are_not(column: str, stays_schema: Schema) -> None:
    """Shown from a hundred rows or so up, noise and threshold being what they are at this budget."""
    counts = Counter(value for value in STAYS.column(column).to_pylist() if value is not None)
    shown = set(stays_schema[column].categories)
    assert shown <= set(counts)
    assert {value for value, count in counts.items() if count > 1000} <= shown
    assert not {value for value, count in counts.items() if count < 50} & shown
    assert stays_schema[column].open_ended, "what is not shown stays as other"


def test_the_schema_says_where_it_comes_from(stays_schema: Schema) -> None:
    assert stays_schema.origin is Origin.DISCOVERED
    assert stays_schema["died"].categories == ("false", "true")
    assert stays_schema["patient_id"].kind is Kind.ID
    assert Schema.from_toml(stays_schema.to_toml()).columns == stays_schema.columns


def column_of(values: Any, kind: pa.DataType, *, seed: int = 1) -> Any:
    """Discover a single column beside a text one."""
    table = pa.table({"number": pa.array(values, kind), "label": ["a", "b"] * (len(values) // 2)})
    return found(table, noise=SeededNoise(seed))["number"]


DICE = np.random.default_rng(5)
OFFSET = {
    "zip": DICE.choice([90001, 94103, 95814], 8000) + DICE.integers(0, 90, 8000),
    "longitude": DICE.normal(-119.5, 1.2, 8000),
    "year": np.round(DICE.normal(1990, 10, 8000)).astype(np.int64),
}


@pytest.fixture
def dice() -> np.random.Generator:
    """Values and noise have seeds: nothing here is left to chance."""
    return np.random.default_rng(5)


@pytest.mark.parametrize("name", OFFSET)
def test_bounds_fit_where_values_lie_far_from_zero(name: str) -> None:
    """A grid of magnitudes alone would be off by up to a half of where they lie: years from 1448 to 2047."""
    values = OFFSET[name]
    described = column_of(values, pa.from_numpy_dtype(values.dtype))
    low, high = np.quantile(values, [0.005, 0.995])
    assert described.lower <= low
    assert described.upper >= high
    assert described.upper - described.lower < 2 * (values.max() - values.min())


WIDE = {
    "temperature": DICE.normal(37.0, 0.8, 9000),
    "creatinine": np.maximum(np.round(DICE.lognormal(-0.1, 0.6, 9000), 1), 0.2),
    "sodium": np.round(DICE.normal(139, 5, 9000)),
    "enzyme": DICE.lognormal(3.6, 1.2, 9000),
}


@pytest.mark.parametrize("seed", range(3))
def test_bounds_hold_most_values_of_wide_tables_too(seed: int) -> None:
    """Under noise of some 250 rows a cell: of 100 columns, single cells that stand out hold few of their rows."""
    table = pa.table({f"{name} {copy}": values for name, values in WIDE.items() for copy in range(25)})
    schema = found(table, budget=Budget(0.9, 1e-4), noise=SeededNoise(seed))
    inside = []
    for column in schema.columns:
        values = table[column.name].to_numpy()
        kept = np.isin(values, column.special) | ((values >= column.lower) & (values <= column.upper))
        assert column.step <= 1, "a step is no larger than the numbers"
        inside.append(kept.mean())
    assert np.median(inside) > 0.8
    assert np.mean(np.array(inside) < 0.3) < 0.1, "hardly any column is lost"


def test_a_code_far_from_all_else_is_special(dice: np.random.Generator) -> None:
    values = np.where(dice.random(8000) < 0.1, -99.0, np.round(dice.normal(70, 12, 8000), 1))
    described = column_of(values, pa.float64())
    assert (described.special, described.step) == ((-99.0,), 0.1)
    assert described.lower > -20


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
def test_few_different_numbers_stay_few(kind: pa.DataType, dice: np.random.Generator) -> None:
    rates = (0.5, 1.25, 1.9, 2.4, 4.99, 6.0)
    described = column_of(dice.choice(rates, 8000), kind)
    assert described.step == 0.01
    assert set(rates) <= {*described.special} or described.cells(1024).single


@pytest.mark.parametrize(("step", "kind"), [(10_000, pa.int64()), (0.01, pa.float64()), (0.1, pa.float32())])
def test_the_step_of_a_column_is_found(step: float, kind: pa.DataType, dice: np.random.Generator) -> None:
    values = np.round(np.exp(dice.normal(4, 0.6, 8000))) * step
    described = column_of(np.round(values, 2), kind)
    assert described.step == step
    drawn = described.cells(64).draw(np.arange(described.cells(64).size - described.nullable), np.random.default_rng(0))
    assert np.abs(drawn / step - np.round(drawn / step)).max() < 1e-6


def test_numbers_without_a_step_or_spikes_have_none(dice: np.random.Generator) -> None:
    described = column_of(dice.normal(3, 1, 8000), pa.float64())
    assert described.special == ()
    assert described.step <= 1e-6


def test_nothing_is_missing_where_noise_alone_says_so(dice: np.random.Generator) -> None:
    assert not column_of(dice.normal(3, 1, 8000), pa.float64()).nullable
    holes = pa.array(np.where(dice.random(8000) < 0.1, np.nan, 1.5), from_pandas=True).to_pylist()
    assert column_of(holes, pa.float64()).nullable
    assert column_of([1.5, 2.5] * 20, pa.float64()).nullable, "noise may hide many of few rows"


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int32(), pa.int64(), pa.uint64()], ids=str)
def test_zeros_and_ones_get_a_cell_each(kind: pa.DataType) -> None:
    described = column_of([0, 1, 1, 0] * 500, kind)
    assert (described.lower, described.upper) == (0.0, 1.0)
    cells = described.cells(32)
    zero, one = cells.index(np.array([0.0, 1.0]))
    assert zero != one
    assert cells.size == 2 + described.nullable
    drawn = cells.draw(np.array([zero, one]), np.random.default_rng(0))
    np.testing.assert_array_equal(drawn, [0.0, 1.0])


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([5] * 2000, pa.int64()),
        ([0] * 2000, pa.int64()),
        ([-3] * 2000, pa.int16()),
        ([0.0] * 2000, pa.float64()),
        ([2.5] * 2000, pa.float64()),
        ([-1e-9, 1e-9] * 1000, pa.float64()),
        ([-7, 7] * 1000, pa.int8()),
        ([-128, 127] * 1000, pa.int8()),
        ([-(2**62), 2**62] * 1000, pa.int64()),
        ([2**64 - 1, 0] * 1000, pa.uint64()),
        ([-1e300, 1e300] * 1000, pa.float64()),
        ([math.inf, -math.inf] * 1000, pa.float64()),
        ([0, 100, 101, 120] * 500, pa.int32()),
        ([0, -100, -101, -120] * 500, pa.int32()),
        ([0, 5_000_000, 5_000_100, 0] * 500, pa.int32()),
        (list(range(-1000, 1000)), pa.int32()),
        ([datetime.date(1850, 1, 1), datetime.date(2150, 1, 1)] * 1000, pa.date32()),
        ([datetime.date(2020, 2, 29)] * 2000, pa.date32()),
        ([datetime.datetime(1969, 12, 31, 23, 59)] * 2000, pa.timestamp("us")),
    ],
    ids=lambda case: str(case)[:40],
)
def test_every_value_has_a_cell_it_can_be_drawn_from(values: list[Any], kind: pa.DataType) -> None:
    """Whatever the values, cells are sound: within the bounds, increasing, and each value is near what is drawn."""
    described = column_of(values, kind)
    cells = described.cells(32)
    encoded = encode_column(pa.array(values, kind), described)
    index = cells.index(encoded)
    drawn = cells.draw(index, np.random.default_rng(0))
    np.testing.assert_array_equal(cells.index(drawn), index)
    inside = np.isin(drawn, described.special) | ((described.lower <= drawn) & (drawn <= described.upper))
    assert inside.all()
    assert len(set(index)) == len(set(encoded)) or len(set(encoded)) > 2, "two frequent values are told apart"


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.date32(), pa.timestamp("us")], ids=str)
def test_a_column_that_is_missing_everywhere_is_described(kind: pa.DataType) -> None:
    described = column_of([None] * 2000, kind)
    assert described.lower < described.upper
    cells = described.cells(32)
    assert set(cells.index(np.full(5, np.nan))) == {cells.size - 1}


# Nobody in particular.


def with_canary(rows: int, *, person: str = "stranger") -> pa.Table:
    """Return a common value on many people's rows, and the canary on so many rows of one person."""
    others = 400
    return pa.table(
        {
            "person": [*(f"p{number}" for number in range(others)), *[person] * rows],
            "word": [*["common"] * others, *[CANARY] * rows],
            "label": ["a", "b"] * ((others + rows) // 2) + ["a"] * ((others + rows) % 2),
        }
    )


class Loud(SilentNoise):
    """Adds far more than any threshold: whatever was not dropped before the noise will be shown."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def gaussian(self, sums: Any, scale: float) -> Any:
        self.seen += [int(value) for value in sums]
        return sums + 2**50


def threshold_charge(multiplier: float = 0.01, delta: float = 1e-9, adjacency: Adjacency | None = None) -> Any:
    budget = Budget(1e6, 0.01, adjacency or Adjacency.ADD_REMOVE)
    return Plan(budget, (Line("values", PartitionSelection(multiplier, delta)),))["values"]


def opened(table: pa.Table, max_rows: int, noise: Any, adjacency: Adjacency = Adjacency.ADD_REMOVE) -> Any:
    return open_table(
        table, budget=Budget(1e6, 0.01, adjacency), unit="person", max_rows_per_unit=max_rows, noise=noise
    )


@pytest.mark.parametrize("max_rows", [1, 3, 10])
@pytest.mark.parametrize("adjacency", Adjacency)
def test_one_units_value_is_dropped_before_the_noise(max_rows: int, adjacency: Adjacency) -> None:
    noise = Loud()
    table = opened(with_canary(50), max_rows, noise, adjacency)
    shown = table.measure(Values(("word",)), threshold_charge(adjacency=adjacency))
    assert set(shown["word"]) == {"common"}
    assert len(noise.seen) == 1, "the canary's count was not even handed to the noise"


def test_a_value_of_two_units_reaches_the_noise() -> None:
    """The test above could fail: one row more, and the loud noise shows the value."""
    table = pa.concat_tables([with_canary(3), with_canary(1, person="accomplice")])
    shown = opened(table, 3, Loud()).measure(Values(("word",)), threshold_charge())
    assert set(shown["word"]) == {"common", CANARY}


@pytest.mark.parametrize("max_rows", [1, 4])
def test_the_threshold_is_above_what_one_unit_can_add(max_rows: int) -> None:
    """Counts up to twice a unit's are never shown without noise, however small the noise is said to be."""
    table = pa.table(
        {
            "person": [f"p{number}" for number in range(4 * max_rows)],
            "word": ["few"] * (2 * max_rows) + ["also few"] * (2 * max_rows),
            "label": ["a"] * (4 * max_rows),
        }
    )
    shown = opened(table, max_rows, SilentNoise()).measure(Values(("word",)), threshold_charge(multiplier=0.01))
    assert shown == {"word": {}}


def test_the_threshold_rises_with_noise_and_falls_with_delta() -> None:
    def least_shown(multiplier: float, delta: float) -> int:
        counts = range(2, 200)
        words = [f"w{count:03d}" for count in counts for _ in range(count)]
        table = pa.table({"person": range(len(words)), "word": words, "label": ["a"] * len(words)})
        shown = opened(table, 1, SilentNoise()).measure(Values(("word",)), threshold_charge(multiplier, delta))
        return int(min(shown["word"])[1:])

    assert least_shown(1.0, 1e-9) < least_shown(5.0, 1e-9)
    assert least_shown(5.0, 1e-3) < least_shown(5.0, 1e-9)


def test_a_value_held_by_one_unit_is_never_shown() -> None:
    """With the real noise, over and over: neither in the schema, nor in the table, nor anywhere in the release."""
    for _ in range(20):
        table = open_table(with_canary(60), budget=Budget(100.0, 1e-3), unit="person", max_rows_per_unit=60)
        release = Independent().run(table, rows=200)
        assert CANARY not in release.schema.to_toml()
        assert CANARY not in str(release.table.to_pydict())
        assert "common" in release.schema["word"].categories


def test_a_number_held_by_one_unit_does_not_move_the_bounds() -> None:
    """One row is far less than the noise; the seed is fixed, so this passes always or never."""
    values = [*np.linspace(10, 20, 1999), 1e12]
    described = column_of([float(value) for value in values], pa.float64())
    assert described.upper < 100


# Paid for.


class Recording(RowBackend):
    """Notes what is asked of a table, and which charges had been committed by then."""

    def __init__(self, table: pa.Table, ledger: Ledger) -> None:
        self._inner, self.layout, self._ledger = MemoryBackend(table), table.schema.remove_metadata(), ledger
        self.calls: list[tuple[str, tuple[str, ...], list[str]]] = []

    def _note(self, verb: str, columns: Any) -> None:
        charged = [charge.line for release in self._ledger.releases() for charge in self._ledger.charges(release.id)]
        self.calls.append((verb, tuple(columns), charged))

    def sum(self, function: Any, columns: Any) -> Any:
        self._note("sum", columns)
        return self._inner.sum(function, columns)

    def count_values(self, column: str) -> Any:
        self._note("count_values", [column])
        return self._inner.count_values(column)

    def batches(self, columns: Any) -> Any:
        self._note("batches", columns)
        return self._inner.batches(columns)

    def table(self) -> pa.Table:
        self._note("table", self.layout.names)
        return self._inner.table()


def test_nothing_is_read_but_by_paid_questions() -> None:
    ledger = Ledger()
    backend = Recording(STAYS.slice(0, 2000), ledger)
    table = open_table(backend, budget=Budget(1.0), target="died", ledger=ledger)
    backend.calls.clear()
    plan = Independent().plan(table)
    assert backend.calls == [], "a plan is made without a look"
    discover(table, plan)
    text = ["patient_id", *TEXT]
    paid = ["discover categories"]
    assert sorted(backend.calls[:-2]) == sorted(("count_values", (column,), paid) for column in text)
    for (verb, columns, charged), line in zip(backend.calls[-2:], ["discover ranges", "discover values"], strict=True):
        paid = [*paid, line]
        assert (verb, sorted(columns), charged) == ("batches", sorted(NUMERIC), paid)


def test_a_whole_release_reads_only_after_its_charge() -> None:
    ledger = Ledger()
    backend = Recording(STAYS.slice(0, 2000), ledger)
    table = open_table(backend, budget=Budget(1.0), target="died", ledger=ledger)
    backend.calls.clear()
    release = Independent().run(table, rows=10)
    assert {verb for verb, _, _ in backend.calls} == {"batches", "count_values"}
    last = backend.calls[-1][2]
    assert last == [line.name for line in release.plan.lines]
    seen = len(backend.calls)
    assert release.table.num_rows == 10
    assert len(backend.calls) == seen, "drawing rows asks nothing"


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_discovery_is_paid_from_the_same_budget(epsilon: float, adjacency: Adjacency) -> None:
    budget, ledger = Budget(epsilon, 1e-6, adjacency), Ledger()
    table = open_table(STAYS.slice(0, 500), budget=budget, target="died", ledger=ledger)
    release = Independent().run(table, rows=10)
    assert 0.99 * epsilon <= release.plan.epsilon <= epsilon
    (row,) = ledger.releases()
    charges = ledger.charges(row.id)
    assert [charge.line for charge in charges][:2] == ["discover categories", "discover ranges"]
    assert row.epsilon <= epsilon
    charged = [Line(charge.line, from_json(charge.event)) for charge in charges]
    assert epsilon_of(charged, budget.delta, adjacency) <= epsilon
    shares = {line.name: line.share for line in release.plan.lines}
    assert sum(share for name, share in shares.items() if name.startswith("discover")) == pytest.approx(SHARE)


def test_discovery_asks_only_for_what_is_unknown() -> None:
    def asked(**columns: Any) -> list[Any]:
        layout = pa.schema(list(columns.items()))
        table = pa.Table.from_pylist([dict.fromkeys(columns)], schema=layout)
        return [(step.name, step.kind) for step in steps(open_table(table, budget=Budget(1.0)).schema)]

    categories = ("discover categories", PartitionSelection)
    ranges = [("discover ranges", Gaussian), ("discover values", Gaussian)]
    assert asked(a=pa.string(), b=pa.float64()) == [categories, *ranges]
    assert asked(a=pa.string(), b=pa.bool_()) == [categories]
    assert asked(a=pa.int8(), b=pa.date32()) == ranges
    assert asked(a=pa.bool_(), b=pa.bool_()) == []
    assert steps(hospital.schema()) == ()


def test_a_known_schema_costs_nothing_to_discover() -> None:
    table = open_table(STAYS, schema=hospital.schema(), budget=Budget(1.0))
    line, dates = Independent().plan(table).lines
    assert (line.share + dates.share, dates.name) == (1.0, CALENDAR)
    assert dates.share == pytest.approx(calendar_effects.SHARE)


# Odd tables.

ROWS = 2000
ODD = {
    "only text": {"a": ["x", "y"] * 1000, "b": ["u", "v"] * 1000},
    "only numbers": {"a": list(range(ROWS)), "b": [0.5, -2.0] * 1000},
    "only booleans": {"a": [True, False] * 1000, "b": [True, True, False, None] * 500},
    "only dates": {"a": [datetime.date(2020, 1, 1), datetime.date(2021, 6, 30)] * 1000, "b": [None] * ROWS},
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("target", [None, "a"])
def test_tables_of_one_kind_of_column_work(name: str, target: str | None) -> None:
    table = pa.table(ODD[name])
    release = Independent().run(open_table(table, budget=Budget(5.0), target=target), rows=300, seed=0)
    out = release.table
    assert out.schema == table.schema
    kinds = {str(value) for value in table.column("a").to_pylist()}
    if name in ("only text", "only booleans"):
        drawn = {str(value) for value in out.column("a").to_pylist()}
        assert kinds <= drawn <= {*kinds, "None", "other"}, "noise may put a few rows in the empty cells"
    else:
        assert release.schema["a"].edges


def test_an_engine_that_only_sums_can_find_ranges_but_not_categories() -> None:
    class OnlySums:
        def __init__(self, table: pa.Table) -> None:
            self._rows, self.layout = table.combine_chunks(), table.schema

        def sum(self, function: Any, columns: Any) -> Any:
            return function(self._rows.select(list(columns) or self.layout.names[:1]).to_batches()[0])

    numbers = OnlySums(pa.table(ODD["only numbers"]))
    assert found(numbers)["b"].lower < -1.9
    with pytest.raises(SettingError, match="needs rows, and this engine only sums"):
        found(OnlySums(pa.table(ODD["only text"])))


@pytest.mark.parametrize("rows", [1, 5])
def test_tiny_tables_work_and_show_no_category(rows: int) -> None:
    """False-alarm rate: under the threshold's share of delta, 1e-7, for each run."""
    table = STAYS.slice(0, rows)
    release = Independent().run(open_table(table, budget=Budget(1.0), target="died"), rows=20)
    assert all(column.categories == () for column in release.schema.columns if column.kind is Kind.CATEGORICAL)
    assert release.table.num_rows == 20
    assert release.table.schema.equals(table.schema)
    for name in TEXT:
        assert set(release.table.column(name).to_pylist()) <= {"other", None}
    assert set(release.table.column("patient_id").to_pylist()) == {f"synthetic-{row}" for row in range(1, 21)}


def test_the_most_frequent_of_very_many_categories_are_kept() -> None:
    """A column of thousands of values does not make a table of thousands of cells."""
    words = [f"w{number % 1500:04d}" for number in range(30_000)] + [f"w{number:04d}" for number in range(1000)] * 5
    table = pa.table({"word": words, "label": ["a"] * len(words)})
    categories = found(table, budget=Budget(200.0, 1e-3), noise=SilentNoise())["word"].categories
    assert len(categories) == 1000
    assert set(categories) == {f"w{number:04d}" for number in range(1000)}


# Kinds of columns that declare no type.


def csv_of(path: Path, columns: dict[str, list[str]]) -> Path:
    pyarrow.csv.write_csv(pa.table(columns), path)
    return path


LOOKING = {
    "boolean": (["true", "False"], Kind.BOOLEAN),
    "integer": (["1", "-2", "0", "123456789012345678"], Kind.INTEGER),
    "real": (["1", "2.5", "1e5", ".5"], Kind.REAL),
    "date": (["2020-01-31", "2020-02-29"], Kind.DATE),
    "datetime": (["2020-01-31", "2020-01-31 10:00:00", "2020-01-31T10:00:00.5+02:00"], Kind.DATETIME),
    "text": (["a", "b", "1"], Kind.CATEGORICAL),
    "code": (["007", "123", "124", "00"], Kind.CATEGORICAL),
    "no date": (["2020-02-30", "2021-02-29"], Kind.CATEGORICAL),
    "missing": (["", "NA"], Kind.CATEGORICAL),
}


def columns_of(rows: int) -> dict[str, list[str]]:
    named = {name: [values[row % len(values)] for row in range(rows)] for name, (values, _) in LOOKING.items()}
    return {**named, "label": ["u", "v"] * (rows // 2)}


def test_kinds_of_a_csv_file_are_found_through_noisy_counts(tmp_path: Path) -> None:
    """Noise of this seed; at 4,000 rows of ten columns and epsilon 3 it is some 30 rows a count."""
    schema = found(csv_of(tmp_path / "rows.csv", columns_of(4000)), budget=Budget(3.0), target="label")
    assert {name: schema[name].kind for name in LOOKING} == {name: kind for name, (_, kind) in LOOKING.items()}
    assert schema["code"].categories == ("00", "007", "123", "124")


def test_a_typo_does_not_ruin_a_column(tmp_path: Path) -> None:
    columns = columns_of(4000)
    columns["integer"][:40] = ["12a"] * 40
    columns["date"][7] = "yesterday"
    path = csv_of(tmp_path / "rows.csv", columns)
    schema = found(path, budget=Budget(3.0), target="label")
    assert (schema["integer"].kind, schema["date"].kind) == (Kind.INTEGER, Kind.DATE)
    assert np.isnan(encode_column(pa.array(["12a", "3"]), schema["integer"])).tolist() == [True, False]


def test_objects_without_a_schema_are_described_as_text_is() -> None:
    frame = pd.DataFrame({"x": pd.Series([1, 2.5, 3, None] * 500, dtype=object), "y": ["u", "v"] * 1000})
    schema = found(frame, budget=Budget(3.0), target="y")
    assert schema["x"].kind is Kind.REAL


def test_a_question_that_no_column_needs_is_planned_and_not_charged(tmp_path: Path) -> None:
    words = {"x": ["a", "b"] * 1000, "y": ["u", "v"] * 1000}
    ledger = Ledger()
    table = open_table(csv_of(tmp_path / "rows.csv", words), budget=Budget(3.0), target="y", ledger=ledger)
    plan = Independent().plan(table)
    planned = [line.name for line in plan.lines]
    text = ["discover categories", "discover classes"]
    assert planned[:6] == ["discover kinds", *text, "discover ranges", "discover values", "discover target"]
    release = Independent().run(table, rows=10, plan=plan)
    charged = [charge.line for charge in ledger.charges(ledger.releases()[0].id)]
    assert planned[-1] == CALENDAR
    assert charged == ["discover kinds", *text, *planned[6:-1]]
    assert [line.name for line in release.spent] == charged


def test_a_rare_class_is_found_beside_many_columns_of_text() -> None:
    """300 of 30,000 rows, in ten releases with seeded noise; among the other columns a value as rare drowns."""
    rng = np.random.default_rng(0)
    rare = np.where(rng.permutation(30_000) < 300, "rare", "often")
    columns = {f"c{n}": rng.choice(["a", "b", "c"], 30_000) for n in range(60)}
    table = pa.table(columns | {"beside": rng.permutation(rare), "y": rare})
    for seed in range(10):
        schema = found(table, budget=Budget(1.0), target="y", noise=SeededNoise(seed))
        assert schema["y"].categories == ("often", "rare")
        assert schema["beside"].categories == ("often",)


def test_kinds_cost_one_count_per_column(tmp_path: Path) -> None:
    """A row more or less moves one count of each column by one: the stack of them by the root of their number."""
    table = open_table(csv_of(tmp_path / "rows.csv", columns_of(200)), budget=Budget(1.0), noise=SilentNoise())
    query = Stack(tuple(Marginal((column.cells(bins=1),)) for column in table.schema.columns))
    assert query.l2 == math.sqrt(len(table.schema.columns))
    assert {column.kind for column in table.schema.columns} == {Kind.UNDECLARED}


@pytest.mark.parametrize(
    ("counts", "stddev", "kind"),
    [
        ([0, 0, 0, 0, 0, 0], 0.0, Kind.CATEGORICAL),
        ([0, 90, 0, 0, 0, 10], 0.0, Kind.INTEGER),
        ([0, 89, 0, 0, 0, 11], 0.0, Kind.CATEGORICAL),
        ([0, 99, 1, 0, 0, 0], 0.0, Kind.INTEGER),
        ([0, 980, 20, 0, 0, 0], 0.0, Kind.REAL),
        ([0, 0, 0, 985, 15, 0], 0.0, Kind.DATETIME),
        ([95, 0, 0, 0, 0, 5], 0.0, Kind.BOOLEAN),
        ([30, 1000, 40, -35, 20, 60], 30.0, Kind.INTEGER),
        ([30, 100, 40, -35, 20, 60], 30.0, Kind.CATEGORICAL),
        ([30, 40, -20, -35, 20, 1000], 30.0, Kind.CATEGORICAL),
    ],
)
def test_the_kind_that_most_values_look_like_wins(counts: list[float], stddev: float, kind: Kind) -> None:
    assert settled(np.array(counts, np.float64), stddev) is kind


def test_noise_seldom_changes_a_kind() -> None:
    """Of 1,000 noisy counts of 2,000 whole numbers none is taken for text or reals, of 1,000 of words none for numbers.

    The nearest bound is 4.3 standard deviations off: about one seed in a hundred would show a false alarm.
    """
    rng = np.random.default_rng(5)
    for truth, kind in (([0, 2000, 0, 0, 0, 0], Kind.INTEGER), ([0, 0, 0, 0, 0, 2000], Kind.CATEGORICAL)):
        kinds = {settled(np.array(truth) + rng.normal(0, 60.0, 6), 60.0) for _ in range(1000)}
        assert kinds == {kind}


def test_wide_numbers_of_which_none_are_declared_go_to_histograms_where_there_are_none(tmp_path: Path) -> None:
    """Gaussians are planned for numbers that may turn out to be text."""
    path = csv_of(tmp_path / "rows.csv", {"x": ["a", "b"] * 500, "y": ["u", "v"] * 500})
    table = open_table(path, target="y", budget=Budget(3.0))
    assert Gaussians().run(table, rows=20).table.num_rows == 20
