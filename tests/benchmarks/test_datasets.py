"""Loaders: on the real files where these are present, and what is said where they are not."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from benchmarks import datasets
from benchmarks.datasets import Dataset
from benchmarks.datasets.dataset import STAYS, public_schema, stay_class
from benchmarks.datasets.published import MCGEN_BASELINE, MEAN_DISTANCE_TO_REAL, METHODS, TABLE1
from threea.errors import InputError, SettingError
from threea.table import codec

DATA = Path(os.environ.get("THREEA_DATA", Path(__file__).parents[3] / "shared" / "data"))

FILES = {
    "adult": "adult.parquet",
    "adult32": "adult.parquet",
    "census": "census_income_kdd.parquet",
    "credit": "creditcard.parquet",
    "isolet": "isolet.parquet",
    "mnist": "mnist.npz",
    "physionet2012": "physionet2012_icu.parquet",
    "support2": "support2.parquet",
    "diabetes130": "diabetes130_hospitals.parquet",
    "pima": "pima_diabetes.parquet",
    "phishing": "phishing_websites.parquet",
    "mimic3-demo": "mimic3_demo_admissions.parquet",
}
# rows, features, training rows, classes
SHAPES = {
    "adult": (48_842, 14, 36_631, 2),
    "adult32": (32_561, 14, 24_420, 2),
    "census": (299_285, 40, 224_463, 2),
    "credit": (284_807, 29, 213_605, 2),
    "isolet": (6_238, 617, 4_366, 2),
    "mnist": (70_000, 784, 60_000, 10),
    "physionet2012": (12_000, 149, 9_000, 2),
    "support2": (9_105, 32, 6_828, 2),
    "diabetes130": (101_766, 46, 76_324, 4),
    "pima": (768, 8, 576, 2),
    "phishing": (11_055, 30, 8_291, 2),
    "mimic3-demo": (129, 14, 96, 2),
}


def load(name: str) -> Dataset:
    if not (DATA / FILES[name]).exists():
        pytest.skip(f"{FILES[name]} is not in the data folder")
    return datasets.load(name, DATA)


@pytest.mark.parametrize("name", FILES)
def test_a_loader_gives_features_and_target_alone(name: str) -> None:
    dataset = load(name)
    classes = pc.count_distinct(dataset.table[dataset.target], mode="all").as_py()
    assert (dataset.table.num_rows, dataset.features, dataset.training_rows, classes) == SHAPES[name]
    assert dataset.name == name
    assert dataset.delta == (1e-5 if name == "mnist" else 1 / dataset.training_rows)
    assert dataset.metric == ("accuracy" if name == "mnist" else "auc")
    if dataset.published and not dataset.stands_in_for:
        assert dataset.features == dataset.published.features


@pytest.mark.parametrize("name", ["adult", "census", "isolet", "mnist", "pima", "phishing"])
def test_a_public_schema_describes_every_value(name: str) -> None:
    dataset = load(name)
    assert dataset.schema is not None
    assert dataset.schema.confirmed
    assert dataset.schema.target == dataset.target
    schema = codec.fit(dataset.schema, dataset.table.schema)
    part = dataset.table.slice(0, 5_000) if name == "mnist" else dataset.table
    chunk = codec.encode(part, schema)
    for column in schema.columns:
        values, nulls = chunk[column.name], part[column.name].null_count
        if column.kind.listed:
            assert (values < 0).sum() == nulls, f"{column.name} has a category that is not listed"
        else:
            raw = part[column.name].to_numpy()
            clipped = (values != raw) & ~np.isnan(values)
            assert clipped.mean() < 0.001, f"{column.name} is clipped in {clipped.mean():.2%} of the rows"
        assert column.nullable or nulls == 0


@pytest.mark.parametrize("name", ["credit", "physionet2012", "support2", "diabetes130", "mimic3-demo"])
def test_what_no_documentation_bounds_is_discovered(name: str) -> None:
    dataset = load(name)
    assert dataset.schema_origin == "discovered"
    # Only text is discovered as classes.
    assert dataset.table.schema.field(dataset.target).type == pa.string()


@pytest.mark.parametrize(
    ("name", "left_out"),
    [
        ("physionet2012", {"SAPS_I", "SOFA", "length_of_stay", "survival_days", "RecordID", "set"}),
        ("support2", {"surv2m", "surv6m", "prg2m", "prg6m", "dnr", "dnrday", "sfdm2", "d.time", "death"}
         | {"charges", "totcst", "totmcst", "avtisst", "slos", "id"}),
        ("diabetes130", {"encounter_id", "patient_nbr", "readmitted"}),
        ("census", {"instance_weight", "split"}),
        ("adult", {"split"}),
        ("mimic3-demo", {"subject_id", "hadm_id", "los_icu_days", "los_hospital_days", "discharge_location"}),
    ],
)  # fmt: skip
def test_ids_and_what_is_known_later_are_left_out(name: str, left_out: set[str]) -> None:
    dataset = load(name)
    assert not left_out & set(dataset.table.column_names)
    assert left_out <= set(pq.read_schema(DATA / FILES[name]).names)


def test_adult32_is_the_training_file() -> None:
    whole, part = load("adult"), load("adult32")
    assert part.table == whole.table.slice(0, 32_561)


def test_isolet_leaves_the_last_speakers_out() -> None:
    vowels = pc.value_counts(load("isolet").table["vowel"]).to_pylist()
    assert {entry["values"]: entry["counts"] for entry in vowels} == {1: 1_200, 0: 5_038}


def test_mnist_is_split_as_published() -> None:
    dataset = load("mnist")
    for seed in (0, 1):
        train, test = dataset.split(seed)
        assert (train.num_rows, test.num_rows) == (60_000, 10_000)
        assert train["digit"].slice(0, 5).to_pylist() == [5, 0, 4, 1, 9]
        assert test["digit"].slice(0, 5).to_pylist() == [7, 2, 1, 0, 4]


def test_stays_of_diabetes130_are_classes() -> None:
    classes = np.array(load("diabetes130").table["time_in_hospital"].to_pylist())
    days = pq.read_table(DATA / FILES["diabetes130"])["time_in_hospital"].to_numpy()
    assert (np.array(STAYS)[np.digitize(days, [3, 7, 14])] == classes).all()


def test_lengths_of_stay_are_cut_at_3_7_and_14_days() -> None:
    days = [0.0, 2.99, 3, 6.99, 7, 13.99, 14, 300, None]
    assert stay_class(pa.array(days)).to_pylist() == [*(STAYS[place] for place in (0, 0, 1, 1, 2, 2, 3, 3)), None]


def _small(**changed: object) -> Dataset:
    table = pa.table({"x": np.arange(101), "y": ["a"] * 101})
    return Dataset(**({"name": "s", "title": "S", "table": table, "target": "y", "schema": None} | changed))


def test_a_split_is_drawn_by_its_seed_and_loses_no_row() -> None:
    dataset = _small()
    train, test = dataset.split(0)
    assert (train.num_rows, test.num_rows) == (dataset.training_rows, 26)
    assert sorted(train["x"].to_pylist() + test["x"].to_pylist()) == list(range(101))
    assert dataset.split(0)[1] == test
    assert dataset.split(1)[1] != test


def test_a_split_of_another_size_is_drawn_even_from_an_official_one() -> None:
    dataset = _small(official_test=10)
    assert dataset.split(0)[1]["x"].to_pylist() == list(range(91, 101))
    train, test = dataset.split(0, 0.2)
    assert (train.num_rows, test.num_rows) == (80, 21)
    assert test["x"].to_pylist() != list(range(80, 101))


def test_the_papers_figures_are_as_published() -> None:
    # SEEDS: Real, DP-GAN, PATE-GAN, ADS-GAN (no DP), DP-MERF, ClustMix.
    published = """
        adult | 32561 | 14 | .931 | .511 | .732 | .821 | .650 | .863
        census | 299285 | 40 | .952 | .529 | .544 | .856 | .686 | .906
        credit | 284807 | 29 | .973 | .435 | .739 | .911 | .772 | .969
        isolet | 4366 | 617 | .988 | .618 | .529 | .924 | .547 | .903
        MIMIC-III mortality | 58976 | 18 | .896 | .632 | .473 | .530 | .728 | .749
        MIMIC-III length of stay | 57171 | 25 | .728 | .497 | .501 | .550 | .508 | .624
        MNIST | 60000 | 784 | .972 | .403 | .563 | .710 | .650 | .818
    """
    lines = [[cell.strip() for cell in line.split("|")] for line in published.strip().splitlines()]
    found = [[row.dataset, row.rows, row.features, *row.scores] for row in TABLE1.values()]
    assert found == [[name, int(rows), int(features), *map(float, scores)] for name, rows, features, *scores in lines]
    assert METHODS == ("Real", "DP-GAN", "PATE-GAN", "ADS-GAN (no DP)", "DP-MERF", "ClustMix")


def test_the_papers_last_line_follows_from_the_others() -> None:
    for place, method in enumerate(METHODS):
        distances = [abs(row.scores[0] - row.scores[place]) for row in TABLE1.values()]
        # Published with three digits, from figures of three digits.
        assert MEAN_DISTANCE_TO_REAL[method] == pytest.approx(np.mean(distances), abs=1.5e-3)


def test_their_mcgen_baselines_cover_both_scenarios() -> None:
    for scenario in (1, 2):
        assert set(MCGEN_BASELINE[scenario]) == {"pima", "adult", "phishing"}
        assert all(set(row) == {"svm", "logistic", "boosting"} for row in MCGEN_BASELINE[scenario].values())


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_one_line_that_names_it(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"{FILES[name]} is missing; README\.md of the data folder") as caught:
        datasets.load(name, tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "file"), FILES.items())
def test_a_file_of_another_kind_is_one_line(name: str, file: str, tmp_path: Path) -> None:
    (tmp_path / file).write_bytes(b"not what it says")
    with pytest.raises(InputError, match=file):
        datasets.load(name, tmp_path)


@pytest.mark.parametrize(("name", "file"), [(name, file) for name, file in FILES.items() if name != "mnist"])
def test_a_table_of_another_shape_is_one_line(name: str, file: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / file)
    with pytest.raises(InputError, match=r"lacks columns \(.*\w.*\); README\.md"):
        datasets.load(name, tmp_path)


def test_an_unknown_name_gives_the_nearest() -> None:
    with pytest.raises(SettingError, match=r"^dataset \(mnsit\) is unknown; did you mean mnist\? known: adult, "):
        datasets.load("mnsit", DATA)


def test_a_missing_folder_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^data folder \(.*\) does not exist"):
        datasets.load("adult", tmp_path / "none")


@pytest.mark.parametrize("name", ["adult", "census", "pima", "phishing"])
def test_shipped_schemas_are_confirmed_and_from_their_documentation(name: str) -> None:
    schema = public_schema(name)
    assert schema.confirmed
    assert schema.origin == "owner"
    assert schema.target is not None
    assert schema[schema.target].kind.listed
