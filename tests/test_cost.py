"""What a release will take, predicted from public facts: as measured, and refused before spending if out of reason."""

import json
import math
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from benchmarks import times
from threea import hospital
from threea.anonymize.open_table import open_table
from threea.budget import Budget
from threea.cost import BYTES, MOST_SECONDS, SECONDS, Cost, cost_of, reading_of, size_of, terms
from threea.errors import SettingError
from threea.ledger import Ledger
from threea.limited import available_memory
from threea.recipes import RECIPES
from threea.session import prepare
from threea.table.schema import Schema
from threea.testing import SilentNoise

RESULTS = Path(__file__).parents[1] / "benchmarks/results/times.json"


def schema(**shape) -> Schema:
    return Schema.from_toml(times.description(times.Shape(**shape)))


def measured():
    return json.loads(RESULTS.read_text())["results"]["measured"]


@pytest.mark.parametrize("recipe", SECONDS)
def test_every_term_has_a_coefficient(recipe):
    assert set(SECONDS[recipe]) == {*terms(recipe, schema()), "data"}
    assert set(BYTES[recipe]) == set(terms(recipe, schema()))


@pytest.mark.usefixtures("usual_rows")
def test_predictions_are_within_a_factor_of_two_of_what_was_measured():
    """Of every recipe, in time and memory: of what took a second or more, and of every process."""
    rows = [row for row in measured() if row["done"]]
    assert len(rows) >= 60
    assert {row["recipe"] for row in rows} == set(SECONDS)
    for row in rows:
        told = times.predicted(row)
        assert told == row["predicted"], "the result was written with other coefficients; run its benchmark again"
        assert 1 / 2 <= told["mb"] / row["mb"] <= 2, row
        assert 1 / 2 <= told["seconds"] / row["seconds"] <= 2, row


@pytest.mark.usefixtures("usual_rows")
def test_what_did_not_end_within_limits_was_predicted_to_take_much():
    for row in (row for row in measured() if not row["done"]):
        told = times.predicted(row)
        assert told["seconds"] > times.SECONDS / 2 or told["mb"] > (times.MEMORY >> 20) / 2, row


@pytest.mark.usefixtures("usual_rows")
def test_what_was_called_a_few_seconds_is_not():
    assert "seconds" in cost_of("labeltree", schema(numbers=4)).described
    assert cost_of("labeltree", schema(numbers=17, classes=7)).seconds > 5
    assert "GB of memory" in cost_of("labeltree", schema(numbers=4, classes=1000)).described


def test_rows_are_never_counted():
    few, many = hospital.stays(10), hospital.stays(1000)
    told = [cost_of("labeltree", hospital.schema(), data) for data in (few, many)]
    assert told[0].seconds == told[1].seconds
    assert told[0].bytes == told[1].bytes
    assert told[0].reading < told[1].reading


@pytest.mark.parametrize("more", [{"numbers": 60}, {"classes": 50}, {"lists": 1, "categories": 3000}])
@pytest.mark.parametrize("recipe", SECONDS)
def test_more_columns_classes_and_categories_take_longer(recipe, more):
    assert cost_of(recipe, schema(**more)).seconds > cost_of(recipe, schema()).seconds


def test_recipes_that_were_never_measured_are_not_predicted():
    assert cost_of("my-own", hospital.schema()) is None


def test_a_release_out_of_reason_is_refused_before_anything_is_spent(tmp_path):
    big = schema(numbers=2, lists=1, categories=20_000, classes=20_000)
    table = times.table(times.Shape(numbers=2, lists=1, categories=50, classes=20, rows=120))
    options = {"schema": big, "epsilon": 1.0, "ledger": tmp_path / "ledger.db", "dataset": "big"}
    with pytest.raises(SettingError, match=r"open_ended = true, or (take --recipe|fewer col)") as caught:
        prepare(table, recipe="labeltree", **options)
    assert len(str(caught.value).splitlines()) == 1
    assert Ledger(tmp_path / "ledger.db").releases() == []


def test_many_classes_are_refused_before_the_charge_and_what_fits_is_named(tmp_path):
    """A table of classes by classes is 80 GB: it was asked for after the charge."""
    many = schema(classes=100_000)
    options = {"schema": many, "epsilon": 1.0, "ledger": tmp_path / "ledger.db", "dataset": "many"}
    table = times.table(times.Shape(classes=20, rows=120))
    with pytest.raises(SettingError, match=r"and [0-9.]+ GB of memory, .*or take --recipe independent, which fits"):
        prepare(table, recipe="labeltree", **options)
    assert Ledger(tmp_path / "ledger.db").releases() == []
    assert prepare(table, recipe="independent", **options).cost.bytes < 4e9


def test_thousands_of_columns_take_gigabytes_and_the_receipt_says_so():
    cost = cost_of("gaussians", schema(numbers=5_000))
    assert cost.bytes > 2e9
    assert "GB of memory" in cost.described


def test_another_recipe_is_named_only_where_it_fits():
    much, little = Cost(1.0, 0.0, 9e9), Cost(1.0, 0.0, 1e9)
    for instead, said in ((little, "take --recipe independent, which fits"), (much, "or fewer columns")):
        with pytest.raises(SettingError, match=said):
            much.refuse_unreasonable("labeltree", memory=2e9, instead=instead)


def told_by(system, meminfo="", **groups):
    """Write what a system tells of its memory."""
    (system / "proc/self").mkdir(parents=True)
    (system / "proc/meminfo").write_text(meminfo or "MemTotal: 8000 kB\nMemAvailable: 5000 kB\n")
    for path, value in groups.items():
        file = system / path.replace("__", "/").replace("_DOT_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(value)
    return system


def test_memory_is_what_is_left_of_the_machine_and_of_its_control_groups(tmp_path):
    assert available_memory(told_by(tmp_path / "plain")) == 5_000 * 1024
    second = told_by(
        tmp_path / "second",
        proc__self__cgroup="0::/jobs/mine\n",
        sys__fs__cgroup__jobs__memory_DOT_max="3000000\n",
        sys__fs__cgroup__jobs__memory_DOT_current="1200000\n",
        sys__fs__cgroup__jobs__memory_DOT_stat="anon 5\ninactive_file 200000\n",
        sys__fs__cgroup__jobs__mine__memory_DOT_max="max\n",
    )
    assert available_memory(second) == 2_000_000
    first = told_by(
        tmp_path / "first",
        proc__self__cgroup="7:cpu:/x\n5:memory:/mine\n",
        sys__fs__cgroup__memory__mine__memory_DOT_limit_in_bytes="4000000\n",
        sys__fs__cgroup__memory__mine__memory_DOT_usage_in_bytes="3000000\n",
    )
    assert available_memory(first) == 1_000_000


def test_time_and_memory_are_each_bounded():
    Cost(MOST_SECONDS, math.inf, 1e9).refuse_unreasonable("labeltree", memory=2e9)
    for cost in (Cost(MOST_SECONDS * 1.1, 0.0, 0.0), Cost(1.0, 0.0, 3e9)):
        with pytest.raises(SettingError, match="would take about"):
            cost.refuse_unreasonable("labeltree", memory=2e9)


def test_words():
    assert Cost(1.0, 1.0, 0.0).described == "a few seconds of processor time at most"
    assert Cost(41.0, 0.0, 0.0).described == "about 50 seconds of processor time at most"
    assert Cost(9000.0, 0.0, 0.0, found=False).described == (
        "about 2.5 hours of processor time at most; more if many categories are found"
    )


def test_sizes_are_of_files_folders_and_tables(tmp_path):
    (tmp_path / "a").write_bytes(b"12345")
    (tmp_path / "b").write_bytes(b"123")
    assert (size_of(tmp_path / "a"), size_of(str(tmp_path)), size_of(None)) == (5, 8, 0)
    assert size_of(hospital.stays(10)) == hospital.stays(10).nbytes


class Lazy:
    """A table that knows its size only once its rows were read."""

    @property
    def nbytes(self) -> int:
        raise NotImplementedError


def test_a_table_is_not_read_for_its_size() -> None:
    assert size_of(Lazy()) == 0


def test_a_wide_table_is_too_much_for_aim_and_a_column_of_many_values_is_not():
    wide, listed = schema(numbers=300), schema(numbers=4, lists=1, categories=10_000)
    with pytest.raises(SettingError, match="aim would take about"):
        cost_of("aim", wide).refuse_unreasonable("aim", memory=8e9)
    for recipe in ("aim", "mst"):
        cost_of(recipe, listed).refuse_unreasonable(recipe, memory=8e9)
    cost_of("mst", wide).refuse_unreasonable("mst", memory=8e9)


def test_a_larger_model_takes_longer_and_more_memory():
    usual, larger = (cost_of("aim", schema(), model_size=size) for size in (8.0, 80.0))
    assert larger.seconds > usual.seconds + 60
    assert larger.bytes > usual.bytes + 5e8


def test_a_dry_run_counts_passes_and_bytes_by_metadata_alone(tmp_path):
    stays, described = hospital.stays(3_000), hospital.schema()
    pq.write_table(stays, tmp_path / "stays.parquet")
    size = (tmp_path / "stays.parquet").stat().st_size
    table = open_table(stays, schema=described, budget=Budget(1.0), noise=SilentNoise())
    plan = RECIPES["labeltree"]().plan(table)
    options = {"unit": None, "ledger": False, "workers": 2}
    read = reading_of(plan, "labeltree", tmp_path, cost_of("labeltree", described, tmp_path), **options)
    # Opened once; classes, features, the edges of the tree at once, pairs or both looks instead, four gradients,
    # calibration and dates.
    assert (read.passes, read.bytes) == (12, 12 * size)
    persons = reading_of(plan, "labeltree", tmp_path, None, **options | {"unit": "patient_id", "ledger": True})
    assert persons.passes == 15
    # The unit's own column is read to open the table, and by no question.
    assert 4 * size < persons.bytes < 14 * size
    assert persons.seconds is None
    assert reading_of(plan, "labeltree", stays, None, **options) is None


def test_more_workers_take_less_time(tmp_path):
    pq.write_table(hospital.stays(3_000), tmp_path / "stays.parquet")
    table = open_table(tmp_path, schema=hospital.schema(), budget=Budget(1.0), noise=SilentNoise())
    plan, cost = RECIPES["labeltree"]().plan(table), cost_of("labeltree", hospital.schema(), tmp_path)
    few, many = (
        reading_of(plan, "labeltree", tmp_path, cost, unit=None, ledger=False, workers=workers) for workers in (1, 64)
    )
    assert many.seconds < few.seconds
    assert many.bytes == few.bytes


def test_a_score_takes_time_of_its_own():
    stays = hospital.stays(200)
    plain, scored = (
        prepare(stays, schema=hospital.schema(), epsilon=1.0, delta=1e-5, score=share).cost for share in (0.0, 0.03)
    )
    assert scored.seconds - plain.seconds == pytest.approx(4 + 0.4 * len(hospital.schema().features))
    assert scored.bytes == plain.bytes
