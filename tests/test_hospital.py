"""Simulated hospital stays: the same every time, within public knowledge, hard in the ways that matter."""

import hashlib
import io
import sys
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from threea.errors import SettingError
from threea.hospital import COLUMNS_PUBLIC, stays

DTYPES = {
    "patient_id": pa.string(),
    "admitted": pa.timestamp("us"),
    "ward": pa.string(),
    "admission_type": pa.string(),
    "age": pa.int16(),
    "sex": pa.string(),
    "insurance": pa.string(),
    "diagnosis": pa.string(),
    "prior_stays": pa.int8(),
    "lactate": pa.float64(),
    "creatinine": pa.float32(),
    "cost": pa.float64(),
    "ventilated": pa.bool_(),
    "length_of_stay": pa.int16(),
    "died": pa.bool_(),
}
KINDS = {"id", "categorical", "ordinal", "integer", "real", "boolean", "date", "datetime"}


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return stays()


def sha256(table: pa.Table) -> str:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return hashlib.sha256(sink.getvalue()).hexdigest()


def rate(table: pa.Table, mask: pa.ChunkedArray, column: str, value: str) -> float:
    """Share of ``mask`` among the rows where ``column`` is ``value``."""
    return pc.mean(mask.filter(pc.equal(table[column], value))).as_py()


def test_deterministic(table):
    assert sha256(stays()) == sha256(table)
    assert len({sha256(stays(500, seed)) for seed in range(5)}) == 5


def test_labelled(table):
    assert table.schema.metadata == {b"origin": b"simulated by threea; no real person"}
    assert "no real person" in stays.__doc__


def test_shape_and_dtypes(table):
    assert table.shape == (20_000, 15)
    assert dict(zip(table.schema.names, table.schema.types, strict=True)) == DTYPES
    assert table.column_names == list(COLUMNS_PUBLIC)


@pytest.mark.parametrize("rows", [0, 1, 2, 7])
def test_small_tables(rows):
    small = stays(rows)
    assert small.num_rows == rows
    assert dict(zip(small.schema.names, small.schema.types, strict=True)) == DTYPES
    assert small.schema.metadata == stays(3).schema.metadata


@pytest.mark.parametrize(("rows", "seed", "message"), [(-1, 0, r"rows \(-1\)"), (5, -2, r"seed \(-2\)")])
def test_negative_settings_are_refused(rows, seed, message):
    with pytest.raises(SettingError, match=message):
        stays(rows, seed)


@pytest.mark.parametrize("name", list(COLUMNS_PUBLIC))
@pytest.mark.parametrize("seed", [0, 1])
def test_public(name, seed):
    public, column = COLUMNS_PUBLIC[name], stays(seed=seed)[name]
    assert public["kind"] in KINDS
    assert (column.null_count > 0) == public["nullable"]
    values = column.drop_null().to_pylist()
    if "categories" in public:
        assert set(values) == set(public["categories"])
        assert len(set(public["categories"])) == len(public["categories"])
    if "lower" in public:
        special = public.get("special", [])
        lower, upper = public["lower"], public["upper"]
        if public["kind"] == "datetime":
            lower, upper = datetime.fromisoformat(lower), datetime.fromisoformat(upper)
        assert all(lower <= value <= upper or value in special for value in values)
    if public.get("log"):
        assert public["lower"] > 0


def test_patients_come_back(table):
    per_patient = np.sort(table["patient_id"].value_counts().field("counts").to_numpy())
    assert 1.45 < per_patient.mean() < 1.75
    assert per_patient.max() == 12
    first = pc.equal(table["prior_stays"], 0)
    assert 0.4 < pc.mean(first).as_py() < 0.75
    assert all(pc.match_substring_regex(table["patient_id"], r"^P\d{6}$").to_pylist())


def test_one_patient_is_one_person(table):
    wanted = [("sex", "count_distinct"), ("age", "min"), ("age", "max")]
    grouped = table.group_by("patient_id").aggregate(wanted)
    assert pc.max(grouped["sex_count_distinct"]).as_py() == 1
    assert pc.max(pc.subtract(grouped["age_max"], grouped["age_min"])).as_py() <= 3


def test_prior_stays_grow_with_every_stay(table):
    previous: dict[str, int] = {}
    for patient, prior in zip(table["patient_id"].to_pylist(), table["prior_stays"].to_pylist(), strict=True):
        assert patient not in previous or prior == previous[patient] + 1
        previous[patient] = prior


def test_rare_and_long_tailed(table):
    shares = {w["values"]: w["counts"] / table.num_rows for w in table["ward"].value_counts().to_pylist()}
    assert len(shares) == 8
    assert sum(share < 0.015 for share in shares.values()) == 2
    counts = np.sort(table["diagnosis"].value_counts().field("counts").to_numpy())[::-1]
    assert len(counts) == 60
    assert counts[0] > 50 * counts[-1]
    assert counts[:10].sum() > 0.5 * counts.sum()
    assert 0.03 < pc.mean(table["died"]).as_py() < 0.09
    assert 0 < rate(table, pc.equal(table["sex"], "X"), "ward", "medicine") < 0.02


def test_age_has_two_humps(table):
    counts, _ = np.histogram(table["age"].to_numpy(), bins=[15, 30, 40, 50, 60, 75])
    per_year = counts / np.diff([15, 30, 40, 50, 60, 75])
    assert per_year[0] > 1.3 * per_year[2]
    assert per_year[4] > 1.3 * per_year[2]


def test_skewed_with_a_spike_at_zero(table):
    cost = table["cost"].to_numpy()
    assert 0.03 < (cost == 0).mean() < 0.15
    assert cost[cost > 0].min() >= COLUMNS_PUBLIC["cost"]["lower"]
    for name in ("cost", "creatinine", "length_of_stay"):
        values = table[name].drop_null().to_numpy()
        assert values.mean() > 1.1 * np.median(values)


def test_missing_for_a_reason(table):
    missing = table["lactate"].is_null()
    planned, acute = (rate(table, missing, "admission_type", kind) for kind in ("elective", "emergency"))
    assert planned > acute + 0.3
    assert rate(table, missing, "ward", "medicine") > rate(table, missing, "ward", "intensive care") + 0.2
    assert pc.mean(table["ventilated"].is_null()).as_py() < 0.03


def test_columns_depend_on_each_other(table):
    ages = table["age"].to_numpy()
    chapter = np.array([code[0] for code in table["diagnosis"].to_pylist()])
    assert ages[chapter == "I"].mean() > ages[chapter == "J"].mean() > ages[chapter == "O"].mean()
    assert not ((chapter == "O") & (table["sex"].to_numpy() == "M")).any()
    emergency = pc.equal(table["admission_type"], "emergency")
    assert rate(table, emergency, "ward", "intensive care") > rate(table, emergency, "ward", "surgery") + 0.1
    wanted = [("creatinine", "mean"), ("length_of_stay", "mean")]
    by_ventilation = table.group_by("ventilated").aggregate(wanted).to_pylist()
    means = {row["ventilated"]: row for row in by_ventilation}
    assert means[True]["creatinine_mean"] > 1.3 * means[False]["creatinine_mean"]
    assert means[True]["length_of_stay_mean"] > 1.2 * means[False]["length_of_stay_mean"]


def test_planned_arrivals_come_in_the_morning(table):
    hours = pc.hour(table.filter(pc.equal(table["admission_type"], "elective"))["admitted"])
    assert pc.min_max(hours).as_py() == {"min": 7, "max": 11}
    assert table["admitted"].to_pylist() == sorted(table["admitted"].to_pylist())


def test_many_rows_take_no_more_calls_than_few():
    """Whole columns are made at once, so a demo starts quickly on any machine."""
    stays(10)
    assert _calls(20_000) <= _calls(200) + 20


def _calls(rows: int) -> int:
    """Count the function calls, of Python's own and of libraries, that a table takes."""
    made = []
    sys.setprofile(lambda frame, event, argument: made.append(event) if event in ("call", "c_call") else None)
    try:
        stays(rows)
    finally:
        sys.setprofile(None)
    return len(made)


def test_death_can_be_learned_but_not_read_off(table):
    lightgbm = pytest.importorskip("lightgbm")
    metrics = pytest.importorskip("sklearn.metrics")
    columns, categorical = [], []
    for name in table.column_names[1:-1]:
        values = table[name].combine_chunks()
        if pa.types.is_string(values.type):
            categorical.append(len(columns))
            values = values.dictionary_encode().indices
        if name == "admitted":
            values = values.cast(pa.int64())
        columns.append(values.cast(pa.float64(), safe=False))
    rows = np.column_stack([column.to_numpy(zero_copy_only=False) for column in columns])
    died = table["died"].to_numpy().astype(int)
    train = np.random.default_rng(0).random(len(died)) < 0.75
    quiet = {"verbose": -1, "num_threads": 1, "seed": 0}
    settings = {"objective": "binary", "learning_rate": 0.03, "num_leaves": 15} | quiet
    data = lightgbm.Dataset(rows[train], died[train], categorical_feature=categorical, params=quiet)
    model = lightgbm.train(settings, data, num_boost_round=200)
    assert 0.82 < metrics.roc_auc_score(died[~train], model.predict(rows[~train])) < 0.95
