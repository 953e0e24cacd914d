"""A privacy unit of many rows: which rows stay is that unit's own affair, and the noise covers all that do."""

import datetime
import decimal
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threea import hospital
from threea.anonymize.accountant import Line
from threea.anonymize.events import Gaussian, PartitionSelection, Pure, Sampled
from threea.anonymize.open_table import open_table
from threea.anonymize.plan import Plan, Step
from threea.anonymize.query import Count, Marginal
from threea.anonymize.selection import Values
from threea.backends.memory import MemoryBackend
from threea.backends.unit_tags import unit_tags
from threea.backends.units import UnitBackend
from threea.budget import Adjacency, Budget
from threea.describe.propose_schema import propose_schema
from threea.errors import InputError, SchemaError, SettingError
from threea.recipes import Independent
from threea.table.schema import Schema
from threea.testing import SeededNoise, SilentNoise

KEY, OTHER_KEY = b"k" * 32, b"o" * 32
LAYOUT = pa.schema([("person", pa.string()), ("value", pa.int64()), ("note", pa.string()), ("size", pa.float64())])
UNIT_TYPES = {
    "text": pa.string(),
    "long text": pa.large_string(),
    "whole numbers": pa.int64(),
    "dictionary": pa.dictionary(pa.int8(), pa.string()),
}
# No deadline: a busy machine is no failure.
LAW = settings(max_examples=40, deadline=None)
PEOPLE = st.sampled_from(["ann", "bob", "", "cecilia", None])
ROWS = st.fixed_dictionaries(
    {
        "person": PEOPLE,
        "value": st.one_of(st.none(), st.integers(0, 2**53)),
        "note": st.one_of(st.none(), st.text(max_size=4)),
        "size": st.one_of(st.none(), st.floats(allow_nan=False)),
    }
)
TABLES = st.lists(ROWS, min_size=1, max_size=20)


def arrow(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=LAYOUT)


def multiset(rows: list[dict[str, Any]]) -> Counter[Any]:
    return Counter(tuple(row[name] for name in LAYOUT.names) for row in rows)


def kept(rows: list[dict[str, Any]], max_rows: int, key: bytes = KEY, cuts: int = 0) -> Counter[Any]:
    """Return which rows stay, whatever their order."""
    table = arrow(rows)
    if cuts:
        table = pa.concat_tables([table.slice(0, cuts), table.slice(cuts)])
    return multiset(UnitBackend(MemoryBackend(table), "person", max_rows, key).table().to_pylist())


def people(rows: Counter[Any]) -> Counter[Any]:
    return Counter(row[0] for row in rows.elements())


@LAW
@given(TABLES, st.integers(1, 5))
def test_each_unit_keeps_all_its_rows_up_to_the_limit(rows: list[dict[str, Any]], max_rows: int) -> None:
    before, after = people(multiset(rows)), people(kept(rows, max_rows))
    assert after == Counter({person: min(count, max_rows) for person, count in before.items()})
    assert kept(rows, max_rows) <= multiset(rows), "rows are kept as they are"


@LAW
@given(TABLES, st.integers(1, 5), st.randoms(use_true_random=False), st.integers(0, 20))
def test_which_rows_stay_does_not_depend_on_their_place(
    rows: list[dict[str, Any]], max_rows: int, random: Any, cuts: int
) -> None:
    mixed = random.sample(rows, len(rows))
    assert kept(mixed, max_rows, cuts=min(cuts, len(rows))) == kept(rows, max_rows)


@LAW
@given(TABLES, st.integers(1, 5))
def test_which_rows_stay_depends_on_that_unit_alone(rows: list[dict[str, Any]], max_rows: int) -> None:
    together = kept(rows, max_rows)
    for person in {row["person"] for row in rows}:
        alone = kept([row for row in rows if row["person"] == person], max_rows)
        assert Counter({row: count for row, count in together.items() if row[0] == person}) == alone


@LAW
@given(TABLES, st.lists(ROWS, min_size=1, max_size=8), st.integers(0, 20), st.integers(1, 3))
def test_a_unit_more_adds_its_rows_and_changes_no_other(
    rows: list[dict[str, Any]], newcomer: list[dict[str, Any]], place: int, max_rows: int
) -> None:
    newcomer = [row | {"person": "newcomer"} for row in newcomer]
    with_newcomer = kept([*rows[:place], *newcomer, *rows[place:]], max_rows)
    without = kept(rows, max_rows)
    assert with_newcomer - without == kept(newcomer, max_rows)
    assert not without - with_newcomer
    assert (with_newcomer - without).total() <= max_rows


def test_which_rows_stay_depends_on_the_key() -> None:
    """Of 40 rows one stays: two keys agree on all of 20 people with probability 40^-20."""
    rows = [
        {"person": f"p{person}", "value": value, "note": "", "size": 0.0} for person in range(20) for value in range(40)
    ]
    assert kept(rows, 1) != kept(rows, 1, OTHER_KEY)


def test_every_row_of_a_unit_may_stay() -> None:
    """Under many keys each of 4 rows is the one kept; one is never in 400 with probability 4 * 0.75^400 < 1e-49."""
    rows = [{"person": "p", "value": value, "note": "n", "size": 1.0} for value in range(4)]
    counts: Counter[Any] = Counter()
    for number in range(400):
        counts += kept(rows, 1, number.to_bytes(32, "little"))
    assert len(counts) == 4
    # Chi-square with 3 degrees of freedom; keys are fixed, so this passes always or never. False-alarm rate 1e-6.
    assert sum((count - 100) ** 2 / 100 for count in counts.values()) < 30.66


def test_rows_that_differ_in_the_last_digit_only_are_told_apart() -> None:
    rows = [{"person": "p", "value": 2**60 + digit, "note": "n", "size": 1.0} for digit in range(4)]
    assert kept(rows, 1) == kept(rows[::-1], 1)


def test_rows_without_a_unit_are_one_unit() -> None:
    rows = [{"person": None, "value": value, "note": None, "size": None} for value in range(10)]
    others = [{"person": "", "value": value, "note": None, "size": None} for value in range(10)]
    assert people(kept([*rows, *others], 3)) == {None: 3, "": 3}


@pytest.mark.parametrize("kind", UNIT_TYPES)
def test_a_unit_may_be_named_by_any_type(kind: str) -> None:
    names = pa.array(["1", "2", None, "2", "2", "1", None, "2"]).cast(pa.int64() if kind == "whole numbers" else "str")
    table = pa.table({"person": names.cast(UNIT_TYPES[kind]), "value": range(8)})
    backend = UnitBackend(MemoryBackend(pa.concat_tables([table.slice(0, 3), table.slice(3)])), "person", 2, KEY)
    assert sorted(Counter(backend.table().column("person").to_pylist()).values()) == [2, 2, 2]
    assert backend.units == 3


def test_a_tag_does_not_depend_on_how_the_name_is_stored() -> None:
    day, money = datetime.datetime(2020, 1, 1, 12), decimal.Decimal("1.50")
    same = (
        [pa.array(["ann", None], kind) for kind in (pa.string(), pa.large_string())]
        + [pa.array(["ann", None]).dictionary_encode()],
        [pa.array([2**53 + 1, None], kind) for kind in (pa.int64(), pa.uint64())]
        + [pa.array([str(2**53 + 1), None]), pa.array([decimal.Decimal(2**53 + 1), None], pa.decimal128(20, 2))],
        [pa.array([day, None], pa.timestamp(unit, zone)) for unit in ("s", "us", "ns") for zone in (None, "UTC")],
        [pa.array([day.date(), None], kind) for kind in (pa.date32(), pa.date64())],
        [pa.array([money, None], pa.decimal128(12, scale)) for scale in (2, 4)],
    )
    tags = [{unit_tags(array, bytes(32)).tobytes() for array in arrays} for arrays in same]
    assert [len(alike) for alike in tags] == [1] * len(same)
    assert len(set.union(*tags)) == len(same)


@pytest.mark.parametrize(
    "ids",
    [pa.array([1.0, 2.0]), pa.array([1.0, None], pa.float32()), pa.array([1.0, 2.0]).dictionary_encode()],
    ids=lambda ids: str(ids.type),
)
def test_a_unit_that_is_a_float_is_refused(ids: pa.Array) -> None:
    """In it ids of 16 and more digits are one, and one missing id makes it of whole numbers."""
    table = pa.table({"who": ids, "x": [1, 2]})
    with pytest.raises(
        InputError, match=r"^unit \(who\) has type (double|float), in which ids of 16 and more"
    ) as refusal:
        open_table(table, budget=Budget(1.0), unit="who")
    assert "\n" not in str(refusal.value)
    with pytest.raises(InputError, match=r"^unit \(who\) has type"):
        propose_schema(table, unit="who")


def test_large_whole_numbers_are_different_units() -> None:
    """As floats these would be one."""
    table = pa.table({"person": [2**60, 2**60 + 1], "value": [1, 1]})
    backend = UnitBackend(MemoryBackend(table), "person", 1, KEY)
    assert backend.table().num_rows == backend.units == 2


@LAW
@given(TABLES, st.integers(1, 3), st.data())
def test_a_sample_takes_or_leaves_whole_units(rows: list[dict[str, Any]], max_rows: int, data: st.DataObject) -> None:
    backend = UnitBackend(MemoryBackend(arrow(rows)), "person", max_rows, KEY)
    names = {row["person"] for row in rows}
    assert backend.units == len(names)
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=len(names), max_size=len(names))), dtype=np.bool_)
    whole = multiset(backend.table().to_pylist())
    sample = multiset(backend.sampled(chosen).table().to_pylist())
    taken = {row[0] for row in sample}
    assert len(taken) == chosen.sum()
    assert sample == Counter({row: count for row, count in whole.items() if row[0] in taken})
    rest = multiset(backend.sampled(~chosen).table().to_pylist())
    assert sample + rest == whole, "every unit is on one side or the other"


def test_an_empty_table_has_no_units() -> None:
    backend = UnitBackend(MemoryBackend(arrow([])), "person", 2, KEY)
    assert backend.units == 0
    assert backend.table().num_rows == 0
    assert backend.sum(lambda batch: np.array([batch.num_rows]), ["value"]) == [0]


# At the door.

STAYS = hospital.stays(500)
SCHEMA = hospital.schema()
WARDS = Marginal((SCHEMA["ward"].cells(8),))


def behind_the_door(max_rows: int, *, adjacency: Adjacency = Adjacency.ADD_REMOVE, noise: Any = None) -> Any:
    return open_table(
        STAYS,
        schema=SCHEMA,
        budget=Budget(1.0, 1e-6, adjacency),
        unit="patient_id",
        max_rows_per_unit=max_rows,
        noise=noise or SilentNoise(),
    )


def plan_of(kind: Any, *, adjacency: Adjacency = Adjacency.ADD_REMOVE, **options: Any) -> Plan:
    return Plan.calibrate(Budget(1.0, 1e-6, adjacency), [Step(name="count", weight=1.0, kind=kind, **options)])


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("kind", [Gaussian, Pure])
@pytest.mark.parametrize("max_rows", [2, 7])
def test_noise_grows_with_the_rows_of_a_unit_and_the_price_does_not(
    kind: Any, max_rows: int, adjacency: Adjacency
) -> None:
    plan = plan_of(kind, adjacency=adjacency)
    row = open_table(STAYS, schema=SCHEMA, budget=plan.budget, noise=SilentNoise()).measure(WARDS, plan["count"])
    one, many = (
        behind_the_door(rows, adjacency=adjacency).measure(WARDS, plan["count"]).stddev for rows in (1, max_rows)
    )
    assert one == row.stddev
    assert many == pytest.approx(max_rows * one, rel=1e-12)


def test_noise_under_sampling_grows_with_the_rows_of_a_unit() -> None:
    plan = Plan(Budget(1.0), (Line("count", Sampled(rate=0.5, noise_multiplier=40.0)),))
    one, many = (behind_the_door(rows).sampled(0.5).measure(WARDS, plan["count"]).stddev for rows in (1, 3))
    assert many == pytest.approx(3 * one, rel=1e-12)


class ScaleSpy(SilentNoise):
    """Remembers how much noise it was asked to add, and to what."""

    def gaussian(self, sums: Any, scale: float) -> Any:
        self.sums, self.scale = sums, scale
        return sums


def test_noise_on_discovered_values_grows_with_the_rows_of_a_unit() -> None:
    table = pa.table({"person": range(100), "word": ["common"] * 100})
    relative = []
    for max_rows in (1, 4):
        noise = ScaleSpy()
        private = open_table(table, budget=Budget(1.0), unit="person", max_rows_per_unit=max_rows, noise=noise)
        private.measure(Values(("word",)), plan_of(PartitionSelection)["count"])
        relative.append(noise.scale / (noise.sums[0] / 100))
    assert relative[1] == pytest.approx(4 * relative[0], rel=1e-12)


def test_added_noise_is_as_large_as_stated() -> None:
    """The mean square of 4,000 draws, over what is stated, is outside [0.85, 1.15] with probability under 1e-9."""
    plan = plan_of(Gaussian, count=500)
    # Nobody has more than 20 stays, so that the same rows count under every key.
    exact = behind_the_door(20).measure(WARDS, plan_of(Gaussian)["count"]).value
    table = behind_the_door(20, noise=SeededNoise(11))
    answers = [table.measure(WARDS, plan["count"]) for _ in range(500)]
    errors = [(answer.value - exact) / answer.stddev for answer in answers]
    assert np.mean(np.square(errors)) == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("max_rows", [1, 2, 20])
def test_the_door_counts_so_many_rows_of_each_unit(max_rows: int) -> None:
    stays = Counter(STAYS.column("patient_id").to_pylist())
    plan = plan_of(Gaussian)
    answer = behind_the_door(max_rows).measure(Count(), plan["count"])
    assert answer.value == sum(min(count, max_rows) for count in stays.values())


def test_the_unit_is_never_synthesized_from_data() -> None:
    table = behind_the_door(2, noise=SeededNoise(3))
    release = Independent().run(table, rows=400, seed=1)
    ids = release.table.column("patient_id").to_pylist()
    assert ids == [f"synthetic-{number}" for number in range(1, 401)]
    assert "P000" not in release.schema.to_toml()
    assert "patient_id" not in release.summary.histograms
    assert release.certificate().unit == "all rows of one patient_id, of which at most 2 count"


def test_without_a_schema_the_unit_becomes_an_id() -> None:
    table = open_table(STAYS, budget=Budget(1.0), unit="patient_id", max_rows_per_unit=2, noise=SeededNoise(4))
    release = Independent().run(table, rows=50, seed=1)
    assert set(release.table.column("patient_id").to_pylist()).isdisjoint(STAYS.column("patient_id").to_pylist())
    assert release.schema["patient_id"].kind == "id"
    assert release.schema["patient_id"].categories == ()


def test_whole_number_units_become_counted_surrogates() -> None:
    table = pa.table({"person": [70_001, 70_002] * 50, "label": ["a", "b"] * 50})
    release = Independent().run(open_table(table, target="label", unit="person", budget=Budget(1.0)), rows=5)
    assert release.table.column("person").to_pylist() == [1, 2, 3, 4, 5]


def test_a_unit_that_the_schema_would_model_is_refused() -> None:
    columns = {"person": {"kind": "categorical", "categories": ["ann"]}, "value": {"kind": "boolean"}}
    table = pa.table({"person": ["ann"], "value": [True]})
    with pytest.raises(SchemaError, match=r"^column person: the unit must be of kind id, not categorical"):
        open_table(table, schema=Schema.of(columns), budget=Budget(1.0), unit="person")


def test_a_unit_that_is_not_a_column_is_refused() -> None:
    with pytest.raises(SettingError, match=r"^unit \(nobody\) is not a column; columns are: patient_id, "):
        open_table(STAYS, schema=SCHEMA, budget=Budget(1.0), unit="nobody")


def test_a_target_cannot_be_the_unit() -> None:
    with pytest.raises(SchemaError, match=r"^target \(patient_id\) is of kind id, which is never read"):
        open_table(STAYS, budget=Budget(1.0), unit="patient_id", target="patient_id")


@pytest.mark.parametrize("max_rows", [0, -3])
def test_units_of_no_rows_are_refused(max_rows: int) -> None:
    with pytest.raises(SettingError, match=rf"^max_rows_per_unit \({max_rows}\) must be at least 1$"):
        behind_the_door(max_rows)


def test_a_limit_without_a_unit_is_refused() -> None:
    with pytest.raises(SettingError, match=r"^max_rows_per_unit \(3\) needs a unit"):
        open_table(STAYS, schema=SCHEMA, budget=Budget(1.0), max_rows_per_unit=3)


def test_an_engine_that_only_sums_cannot_bound_units() -> None:
    class OnlySums:
        layout = STAYS.schema

        def sum(self, function: Any, columns: Any) -> Any:
            return function(STAYS.select(columns or ["ward"]).combine_chunks().to_batches()[0])

    with pytest.raises(SettingError, match=r"^unit \(patient_id\) needs rows, and this engine only sums"):
        open_table(OnlySums(), schema=SCHEMA, budget=Budget(1.0), unit="patient_id")
