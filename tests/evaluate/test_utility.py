"""Utility: a copy is worth as much as the rows, the shape is as documented, odd targets are scored."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from threea import hospital
from threea.errors import SettingError
from threea.evaluate import utility as module
from threea.evaluate.evidence import Evidence
from threea.evaluate.utility import SCENARIOS, baseline, utility
from threea.evaluate.utility.learners import LEARNERS, SETTINGS
from threea.table.schema import Schema

pytestmark = pytest.mark.usefixtures("quick_learners")

BUDGET = {"epsilon": 1.0, "delta": 1e-6, "adjacency": "add-remove", "unit_column": None, "max_rows_per_unit": 1}
COLUMNS = ("ward", "admission_type", "age", "diagnosis", "lactate", "ventilated", "length_of_stay", "died")
# Stays are in order of admission: the last ones are not like the others.
STAYS = hospital.stays(1600).take(np.random.default_rng(0).permutation(1600)).select(COLUMNS)
TRAIN, HOLDOUT = STAYS.slice(0, 1000), STAYS.slice(1000)


def schema(target: str | None, columns: tuple[str, ...] = COLUMNS) -> Schema:
    return Schema.of({name: hospital.COLUMNS_PUBLIC[name] for name in columns}, target=target)


def evidence(synthetic: pa.Table, target: str | None, certificate: dict[str, Any] | None = None) -> Evidence:
    columns = tuple(synthetic.column_names)
    return Evidence(
        schema(target, columns), certificate or BUDGET, synthetic, TRAIN.select(columns), HOLDOUT.select(columns)
    )


@pytest.fixture(scope="module")
def copied() -> dict[str, Any]:
    return utility(evidence(TRAIN, "died"))


def test_a_copy_of_the_rows_is_worth_as_much_as_they_are(copied: dict[str, Any]) -> None:
    for learner in LEARNERS:
        scores = copied["learners"][learner]
        assert scores["synthetic"] == scores["real"]
        assert all(found == {"value": 0.0, "interval": [0.0, 0.0]} for found in scores["synthetic_minus_real"].values())
    assert copied["importance"]["spearman"] == {"value": pytest.approx(1.0), "interval": pytest.approx([1.0, 1.0])}


def test_the_shape_is_plain_and_as_documented(copied: dict[str, Any]) -> None:
    assert json.loads(json.dumps(copied, allow_nan=False)) == copied
    assert (copied["target"], copied["task"], copied["positive"]) == ("died", "classification", "true")
    assert copied["classes"] == ["false", "true"]
    assert copied["rows"] == {"real": 1000, "synthetic": 1000, "holdout": 600, "independent": 1000}
    assert copied["rare_target"]["applies"] is False
    assert copied["interval"] == {**copied["interval"], "resamples": 200, "level": 0.95}
    assert list(copied["learners"]) == list(LEARNERS)
    for learner, scores in copied["learners"].items():
        assert set(scores) == {"settings", "fitted_rows", "test_rows", "calibration", *SCENARIOS}
        for curve in scores["calibration"].values():
            assert sum(point["share"] for point in curve) == pytest.approx(1.0)
            assert [point["predicted"] for point in curve] == sorted(point["predicted"] for point in curve)
        assert scores["settings"] == SETTINGS[learner]
        assert scores["test_rows"] == {"real": 600, "synthetic": 600, "independent": 600, "reverse": 1000}
        for scenario in SCENARIOS:
            assert set(scores[scenario]) == set(copied["meanings"])
    for learner in LEARNERS:
        found = copied["learners"][learner]["real"]["auc"]
        assert found["interval"][0] < found["value"] < found["interval"][1]
    assert {feature["name"] for feature in copied["importance"]["features"]} == set(COLUMNS) - {"died"}


def test_testing_on_the_training_rows_flatters(copied: dict[str, Any]) -> None:
    # The reverse scenario tests on the synthetic rows, which here are those that the models were trained on.
    for learner in ("lightgbm", "boosting", "forest"):
        scores = copied["learners"][learner]
        assert scores["reverse"]["auc"]["value"] > scores["real"]["auc"]["value"]


def test_the_same_seed_gives_the_same_scores(copied: dict[str, Any]) -> None:
    heard: list[str] = []
    assert utility(evidence(TRAIN, "died"), progress=heard.append) == copied
    assert [f"{learner} on synthetic rows" in heard for learner in LEARNERS] == [True] * len(LEARNERS)


def test_labels_shuffled_are_worth_nothing() -> None:
    rng = np.random.default_rng(0)
    place = COLUMNS.index("died")
    shuffled = TRAIN.set_column(place, "died", TRAIN["died"].take(rng.permutation(1000)))
    found = utility(evidence(shuffled, "died"))
    for learner in LEARNERS:
        scores = found["learners"][learner]
        assert scores["synthetic"]["auc"]["value"] < 0.65
        assert scores["synthetic_minus_real"]["auc"]["interval"][1] < 0


def test_independent_is_made_from_the_certificates_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    real = baseline.open_table

    def spy(data: Any, **settings: Any) -> Any:
        asked.append(settings)
        return real(data, **settings)

    monkeypatch.setattr(baseline, "open_table", spy)
    budget = {"epsilon": 0.5, "delta": 1e-5, "adjacency": "replace", "unit_column": None, "max_rows_per_unit": 1}
    table, how = baseline.independent_rows(evidence(TRAIN.slice(0, 70), "died", budget), 0)
    assert table is not None
    assert table.num_rows == 70
    assert table.column_names == list(COLUMNS)
    assert (asked[0]["budget"].epsilon, asked[0]["budget"].delta) == (0.5, 1e-5)
    assert (asked[0]["budget"].adjacency, asked[0]["unit"]) == ("replace", None)
    assert how.startswith("epsilon 0.5, delta 1e-05, replace, each row; ")


def test_independent_protects_the_certificates_unit() -> None:
    stays = hospital.stays(500)
    budget = BUDGET | {"unit_column": "patient_id", "max_rows_per_unit": 3}
    given = Evidence(hospital.schema(), budget, stays.slice(0, 50), stays.slice(0, 400), stays.slice(400))
    table, how = baseline.independent_rows(given, 0)
    assert table is not None
    assert "at most 3 rows per patient_id" in how


def test_independent_is_made_of_a_release_with_columns_that_were_dropped() -> None:
    given = evidence(TRAIN.slice(0, 70), "died")
    table, how = baseline.independent_rows(replace(given, schema=given.schema.without(["name"])), 0)
    assert table is not None, how
    assert table.column_names == list(COLUMNS)


@pytest.mark.parametrize(
    "wrong",
    [{"epsilon": "inf"}, {"epsilon": None}, {"delta": 0}, {"adjacency": "odd"}, {"max_rows_per_unit": math.inf}],
)
def test_without_a_budget_independent_is_left_out_and_says_why(wrong: dict[str, Any]) -> None:
    table, how = baseline.independent_rows(evidence(TRAIN, "died", BUDGET | wrong), 0)
    assert table is None
    assert how.startswith("not made: ")


def test_a_numeric_target_with_missing_values() -> None:
    columns = ("age", "lactate", "ventilated", "length_of_stay")
    holes = pa.array([None if place % 5 == 0 else value for place, value in enumerate(TRAIN["lactate"].to_pylist())])
    synthetic = TRAIN.set_column(COLUMNS.index("lactate"), "lactate", holes).select(columns)
    found = utility(evidence(synthetic, "length_of_stay"))
    assert found["task"] == "regression"
    assert (found["classes"], found["positive"]) == ([], None)
    assert set(found["meanings"]) == {"r2", "rmse", "mae", "spearman"}
    for learner in LEARNERS:
        assert found["learners"][learner]["real"]["spearman"]["value"] > 0.1
    json.dumps(found, allow_nan=False)


def test_many_classes_of_which_the_synthetic_rows_lack_some() -> None:
    columns = ("age", "diagnosis", "admission_type")
    kept = pa.compute.not_equal(TRAIN["admission_type"], "urgent")
    found = utility(evidence(TRAIN.filter(kept).select(columns), "admission_type"))
    assert (found["positive"], found["classes"]) == (None, ["elective", "emergency", "urgent"])
    assert "1 of 3 classes are absent from the synthetic rows" in found["notes"]
    scores = found["learners"]["lightgbm"]
    assert 0.5 < scores["synthetic"]["auc"]["value"] < scores["real"]["auc"]["value"]
    json.dumps(found, allow_nan=False)


def test_a_single_feature_and_one_class_only() -> None:
    alive = TRAIN.filter(pa.compute.invert(TRAIN["died"])).select(("lactate", "died"))
    found = utility(evidence(alive, "died"))
    for learner in LEARNERS:
        scores = found["learners"][learner]
        assert scores["synthetic"]["auc"]["value"] == 0.5
        assert scores["reverse"]["auc"] == {"value": None, "interval": None}
    assert found["importance"]["spearman"] == {"value": None, "interval": None}
    assert "1 of 2 classes are absent from the synthetic rows" in found["notes"]


def test_without_a_target_there_is_no_utility() -> None:
    with pytest.raises(SettingError, match="no target"):
        utility(evidence(TRAIN, None))


def test_a_release_with_another_ratio_of_classes_is_learned_by_its_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every death five times over, at a fifth of the weight, says what the rows say; without weights it does not."""
    monkeypatch.setattr(module, "LEARNERS", ("lightgbm", "logistic"))
    died = TRAIN["died"].to_numpy(zero_copy_only=False)
    synthetic = TRAIN.take(np.repeat(np.arange(1000), np.where(died, 5, 1)))
    share, private = 5 * died.sum() / synthetic.num_rows, died.mean()
    classes = [
        {"class": "false", "share": 1 - share, "share_private": 1 - private, "weight": (1 - private) / (1 - share)},
        {"class": "true", "share": share, "share_private": private, "weight": private / share},
    ]
    plain = utility(evidence(synthetic, "died"))
    found = utility(evidence(synthetic, "died", BUDGET | {"classes": classes}))
    assert plain["class_weights"] == {}
    assert found["class_weights"] == {each["class"]: each["weight"] for each in classes}
    scores, ignored = found["learners"]["logistic"], plain["learners"]["logistic"]
    wanted = scores["real"]["brier"]["value"]
    assert scores["synthetic"]["brier"]["value"] == pytest.approx(wanted, abs=0.005)
    assert ignored["synthetic"]["brier"]["value"] > wanted + 0.02
    # Real rows' models meet the ratio that they learned.
    assert scores["reverse"]["calibration_error"]["value"] < ignored["reverse"]["calibration_error"]["value"] - 0.05
