"""Evidence: a release and real rows that belong together, or one line that says why not."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from threea import hospital, synthesize
from threea.errors import InputError, SchemaError, SettingError, UserError
from threea.evaluate.evidence import Evidence, _overlap, matrices, numbers
from threea.table.dialect import Dialect
from threea.table.schema import Schema

MANY = hospital.stays(1000)
# Of each patient the first stay: no two rows are of one person.
STAYS = MANY.take(np.sort(np.unique(MANY["patient_id"], return_index=True)[1])).slice(0, 600)
TRAIN, HOLDOUT = STAYS.slice(0, 400), STAYS.slice(400)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    release = synthesize(TRAIN, schema=hospital.schema(), epsilon=1.0, rows=50, seed=0)
    folders = {form: tmp_path_factory.mktemp("release") / form for form in ("parquet", "csv")}
    for form, folder in folders.items():
        release.save(folder, form)
    return folders


@pytest.fixture
def release(made: dict[str, Path], tmp_path: Path) -> Path:
    """A copy to spoil."""
    folder = tmp_path / "release"
    folder.mkdir()
    for file in made["parquet"].iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


def refusal(release: Path, train: Any = TRAIN, holdout: Any = HOLDOUT, kind: type[UserError] = InputError) -> str:
    with pytest.raises(kind) as caught:
        Evidence.load(release, train, holdout)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message


def test_a_release_and_its_rows_are_read(made: dict[str, Path]) -> None:
    evidence = Evidence.load(made["parquet"], TRAIN, HOLDOUT)
    assert evidence.schema == hospital.schema()
    assert evidence.certificate["recipe"] == "labeltree"
    assert (evidence.synthetic.num_rows, evidence.train.num_rows, evidence.holdout.num_rows) == (50, 400, 200)
    assert evidence.warnings == ()


def test_csv_and_parquet_releases_hold_the_same_numbers(made: dict[str, Path], tmp_path: Path) -> None:
    pq.write_table(TRAIN, tmp_path / "train.parquet")
    pyarrow.csv.write_csv(HOLDOUT, tmp_path / "holdout.csv")
    first = Evidence.load(made["parquet"], TRAIN, HOLDOUT)
    second = Evidence.load(made["csv"], tmp_path / "train.parquet", tmp_path / "holdout.csv")
    for one, other in (
        (first.synthetic, second.synthetic),
        (first.train, second.train),
        (first.holdout, second.holdout),
    ):
        left, right = matrices([one, other], first.schema)
        assert left.values == pytest.approx(right.values, rel=1e-6, nan_ok=True)
        assert np.array_equal(left.target, right.target)


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_real_rows_in_another_dialect(made: dict[str, Path], tmp_path: Path, form: str) -> None:
    pyarrow.csv.write_csv(TRAIN, tmp_path / "train.csv", pyarrow.csv.WriteOptions(delimiter=";"))
    text = (tmp_path / "train.csv").read_text(encoding="utf-8")
    for name in ("train.csv", "holdout.csv"):
        (tmp_path / name).write_text(text, encoding="utf-16-le")
    dialect = Dialect(encoding="utf-16-le")
    evidence = Evidence.load(made[form], tmp_path / "train.csv", tmp_path / "holdout.csv", dialect)
    assert evidence.train["age"].to_pylist() == TRAIN["age"].to_pylist()
    assert evidence.synthetic.num_rows == 50


def test_no_certificate(release: Path, tmp_path: Path) -> None:
    (release / "certificate.json").unlink()
    assert refusal(release) == f"{release} has no certificate.json; give a folder made by `threea release`"
    assert "has no certificate.json" in refusal(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("{}", "names no hash of the synthetic rows"),
        ("null", "names no hash of the synthetic rows"),
        ("5", "names no hash of the synthetic rows"),
    ],
    ids=lambda text: text[:10],
)
def test_a_broken_certificate(release: Path, text: str, said: str) -> None:
    (release / "certificate.json").write_text(text)
    assert said in refusal(release)


def test_no_rows(release: Path) -> None:
    (release / "synthetic.parquet").unlink()
    assert "has no synthetic rows" in refusal(release)


def test_changed_rows_are_refused(release: Path) -> None:
    rows = pq.read_table(release / "synthetic.parquet")
    pq.write_table(rows.slice(1), release / "synthetic.parquet")
    assert "synthetic.parquet is not the file that its certificate names: tampered with" in refusal(release)


def test_a_changed_schema_is_refused(release: Path) -> None:
    path = release / "schema.toml"
    path.write_text(path.read_text().replace("upper = 110", "upper = 90"))
    assert "schema.toml is not the schema that the certificate names: tampered with" in refusal(release)
    path.unlink()
    assert "cannot be read" in refusal(release, kind=SchemaError)


def test_the_hash_is_the_certificates(release: Path) -> None:
    certificate = json.loads((release / "certificate.json").read_text())
    certificate["synthetic_sha256"] = "0" * 64
    (release / "certificate.json").write_text(json.dumps(certificate))
    assert "tampered with" in refusal(release)


@pytest.mark.parametrize("role", ["train", "holdout"])
def test_wrong_columns(made: dict[str, Path], role: str) -> None:
    real = {"train": TRAIN, "holdout": HOLDOUT}
    real[role] = real[role].drop_columns(["ward", "age"])
    said = refusal(made["parquet"], **real)
    assert said == f"{role} lacks columns (ward, age) of the release; give the table it was made from"


def test_further_columns_are_left_out(made: dict[str, Path]) -> None:
    evidence = Evidence.load(made["parquet"], TRAIN.append_column("more", pa.array(range(400))), HOLDOUT)
    assert evidence.train.column_names == TRAIN.column_names


@pytest.mark.parametrize("role", ["train", "holdout"])
def test_a_table_without_rows(made: dict[str, Path], role: str) -> None:
    real = {"train": TRAIN, "holdout": HOLDOUT}
    real[role] = real[role].slice(0, 0)
    assert refusal(made["parquet"], **real) == f"{role} has no rows; give real rows"


def test_a_holdout_of_one_class(made: dict[str, Path]) -> None:
    alive = HOLDOUT.filter(pa.compute.invert(HOLDOUT["died"]))
    said = refusal(made["parquet"], holdout=alive)
    assert said == "holdout has 1 class of the target (died); it needs at least 2"


def test_shared_rows_are_warned_of_with_their_share(made: dict[str, Path]) -> None:
    shared = pa.concat_tables([HOLDOUT.slice(0, 150), TRAIN.slice(30, 50)])
    (warning,) = Evidence.load(made["parquet"], TRAIN, shared).warnings
    assert warning.startswith("25.0% of the holdout rows are equal to a training row")


def test_equal_rows_are_found_across_types() -> None:
    schema = Schema.of(
        {
            "id": {"kind": "id"},
            "n": {"kind": "real", "lower": 0, "upper": 9},
            "c": {"kind": "categorical", "categories": ["x", "y"]},
            "b": {"kind": "boolean"},
        }
    )
    train = pa.table({"id": [1, 2, 3], "n": [0.0, 2.5, None], "c": ["x", "y", None], "b": [True, False, None]})
    words = {"id": ["1", "2", "3", "4"], "n": ["-0", "2.50", None, "0"], "c": ["x", "y", None, "x"]}
    holdout = pa.table(words | {"b": ["yes", "no", None, "yes"]})
    # The fourth differs from the first by its id alone.
    assert _overlap(train, holdout, schema) == 0.75


def test_codes_are_shared_and_missing_is_nan() -> None:
    schema = Schema.of(
        {
            "c": {"kind": "categorical", "categories": ["x", "y", "z"]},
            "n": {"kind": "integer", "lower": 0, "upper": 5},
            "t": {"kind": "boolean"},
        },
        target="t",
    )
    first = pa.table({"c": ["z", None], "n": [1, None], "t": [True, None]})
    second = pa.table({"c": pa.array(["x", "z"]).dictionary_encode(), "n": [99, 2], "t": [0, 1]})
    left, right = matrices([first, second], schema)
    assert left.names == ("c", "n")
    assert left.categorical == (0,)
    assert left.classes == right.classes == ("false", "true")
    assert left.values == pytest.approx(np.array([[1, 1], [np.nan, np.nan]]), nan_ok=True)
    assert right.values == pytest.approx(np.array([[0, 99], [1, 2]]))  # 99 is past the bound, and stays
    assert left.target == pytest.approx([1, np.nan], nan_ok=True)
    assert right.target == pytest.approx([0, 1])
    assert len(left.labelled().target) == 1


def test_a_table_without_features_has_none() -> None:
    schema = Schema.of({"id": {"kind": "id"}, "t": {"kind": "boolean"}}, target="t")
    (matrix,) = matrices([pa.table({"id": [1, 2], "t": [True, False]})], schema)
    assert matrix.values.shape == (2, 0)
    assert numbers([pa.table({"t": [True]})], [])[0].shape == (1, 0)


def test_a_release_without_a_target_has_nothing_to_predict() -> None:
    schema = Schema(hospital.schema().columns)
    with pytest.raises(SettingError, match="the release has no target"):
        matrices([TRAIN], schema)


CLASSES = [
    {"class": "1", "share": 0.5, "share_private": 0.8, "weight": 1.6},
    {"class": "2", "share": 0.3, "share_private": 0.15, "weight": 0.5},
    {"class": "other", "share": 0.1, "share_private": 0.02, "weight": 0.2},
    {"class": "missing", "share": 0.1, "share_private": 0.03, "weight": 0.3},
]


def rebalanced(labels: list[Any], classes: Any) -> Evidence:
    listed = {"label": {"kind": "categorical", "categories": ["1", "2"], "open_ended": True}}
    rows = pa.table({"label": labels})
    return Evidence(Schema.of(listed, target="label"), {"classes": classes}, rows, rows, rows)


@pytest.mark.parametrize("labels", [["2", "1", "else", "2"], [2.0, 1.0, 7.0, 2.0], [2, 1, 7, 2]])
def test_rows_count_by_the_weight_of_their_class_however_it_is_written(labels: list[Any]) -> None:
    np.testing.assert_array_equal(rebalanced(labels, CLASSES).weights, [0.5, 1.6, 0.2, 0.5])


@pytest.mark.parametrize("classes", [None, []])
def test_a_release_of_the_private_ratio_has_no_weights(classes: Any) -> None:
    assert rebalanced(["1", "2"], classes).weights is None
    assert rebalanced(["1", "2"], classes).class_weights == {}


@pytest.mark.parametrize(
    "classes", [[{"class": "1"}], ["1"], 5, [{"class": "1", "weight": "much"}], [{"class": "1", "weight": 0}]]
)
def test_weights_that_cannot_be_read_are_refused(classes: Any) -> None:
    with pytest.raises(InputError, match="make the release again"):
        _ = rebalanced(["1", "2"], classes).weights


def certified(release: Path, unit: str) -> None:
    """Name a unit in a certificate, as a release with one does."""
    file = release / "certificate.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"unit_column": unit}))


def test_the_certificate_names_the_person(release: Path) -> None:
    certified(release, "patient_id")
    evidence = Evidence.load(release, MANY.slice(0, 600), MANY.slice(600))
    assert evidence.unit == "patient_id"
    assert len(np.unique(evidence.units[0])) == len(set(MANY["patient_id"].to_pylist()[:600]))
    shared = {*MANY["patient_id"].to_pylist()[:600]} & {*MANY["patient_id"].to_pylist()[600:]}
    assert len(np.intersect1d(*evidence.units)) == len(shared)
    (warning,) = evidence.warnings
    assert warning.startswith(f"{len(shared)} of the ")
    assert "threea split --unit patient_id" in warning


def test_another_unit_than_the_certificate_names_is_refused(release: Path) -> None:
    certified(release, "patient_id")
    with pytest.raises(SettingError) as caught:
        Evidence.load(release, TRAIN, HOLDOUT, unit="ward")
    assert str(caught.value) == "unit (ward) is not that of the release (patient_id); leave it out"


def test_the_owner_names_the_person_by_a_column_that_the_release_lacks(made: dict[str, Path]) -> None:
    names = pa.array([f"n{row // 3}" for row in range(400)])
    train = TRAIN.append_column("household", names)
    with pytest.raises(InputError, match=r"holdout lacks the column that names the person \(household\)"):
        Evidence.load(made["parquet"], train, HOLDOUT, unit="household")
    held = HOLDOUT.append_column("household", pa.array([f"h{row // 2}" for row in range(200)]))
    evidence = Evidence.load(made["parquet"], train, held, unit="household")
    assert [len(np.unique(units)) for units in evidence.units] == [134, 100]
    assert evidence.warnings == ()


def test_an_id_that_rows_share_is_taken_for_a_person_and_the_owner_is_told(made: dict[str, Path]) -> None:
    evidence = Evidence.load(made["parquet"], MANY.slice(0, 600), MANY.slice(600))
    assert evidence.unit == "patient_id"
    (warning,) = evidence.warnings
    assert "say `--unit patient_id` if it names persons" in warning
    assert "threea split --unit patient_id" in warning


def test_an_id_outside_the_release_is_taken_for_a_person_too_but_no_code_is(made: dict[str, Path]) -> None:
    person = pa.array([f"n{row // 3}" for row in range(600)])
    train, holdout = (
        (
            STAYS.append_column("insured_id", person).append_column(
                "site_id", pa.array([str(row % 9) for row in range(600)])
            )
        ).slice(0, 400),
        STAYS.append_column("insured_id", person).slice(400),
    )
    assert Evidence.load(made["parquet"], train, holdout).unit == "insured_id"
