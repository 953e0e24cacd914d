"""The estimator behaves as scikit-learn expects, hands back what came in, and keeps no row."""

import datetime
import pickle

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest

import threea
from threea import hospital
from threea.errors import InputError, SettingError
from threea.table.layout import is_declared

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import check_estimator

from threea.sklearn import Synthesizer

STAYS = hospital.stays(400)
QUICK = {"epsilon": 1.0, "recipe": "independent"}


@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks_pass():
    results = check_estimator(Synthesizer(**QUICK), on_fail=None)
    assert {result["check_name"]: result["status"] for result in results if result["status"] == "failed"} == {}
    assert sum(result["status"] == "passed" for result in results) > 30


@pytest.mark.parametrize(
    ("convert", "names"),
    [
        (lambda table: table.to_pandas(), lambda frame: list(frame.columns)),
        (polars.from_arrow, lambda frame: list(frame.columns)),
        (lambda table: table, lambda table: table.schema.names),
    ],
    ids=["pandas", "polars", "arrow"],
)
def test_tables_come_back_as_they_came(convert, names):
    features, label = convert(STAYS.select(["age", "ward"])), convert(STAYS.select(["died"]))["died"]
    fitted = Synthesizer(**QUICK).fit(features, label)
    rows, target = fitted.sample(7)
    assert type(rows) is type(features)
    assert names(rows) == ["age", "ward"]
    assert len(target) == 7
    assert type(target) is type(label)
    assert fitted.n_features_in_ == 2
    assert str(fitted.release_.guarantee) == "proven"


def test_arrays_come_back_as_arrays():
    rng = np.random.default_rng(0)
    features, label = rng.normal(size=(300, 3)), rng.integers(0, 2, 300)
    rows, target = Synthesizer(**QUICK).fit(features, label).sample(11)
    assert rows.shape == (11, 3)
    assert set(target) <= {0, 1}
    assert Synthesizer(**QUICK).fit(features).sample(4).shape == (4, 3)


def test_a_schema_names_the_target_and_a_seed_repeats_rows():
    schema = hospital.schema()
    features = STAYS.drop_columns(["died"])
    fitted = Synthesizer(**QUICK, schema=schema, random_state=3).fit(features, STAYS["died"])
    assert fitted.release_.schema.target == "died"
    assert fitted.sample(20)[0].equals(fitted.sample(20)[0])
    _, label = fitted.sample(5, given={"died": True})
    assert set(label.to_pylist()) == {True}


def test_a_name_that_is_taken_is_refused_before_anything_is_spent(tmp_path):
    frame = STAYS.to_pandas()
    with pytest.raises(SettingError, match=r"y \(age\) has the name of a column of X; rename it"):
        Synthesizer(**QUICK, ledger=str(tmp_path / "ledger.db")).fit(frame[["age", "ward"]], frame["age"])
    assert not (tmp_path / "ledger.db").exists()


def test_it_keeps_no_row():
    words = [f"secret-{number}" for number in range(300)]
    table = pa.table({"word": words, "number": np.arange(300.0), "label": ["yes", "no"] * 150})
    fitted = Synthesizer(**QUICK).fit(table.select(["word", "number"]), table["label"])
    assert b"secret-" not in pickle.dumps(fitted)


def test_a_card_for_notebooks_says_what_is_promised():
    release = threea.synthesize(STAYS, schema=hospital.schema(), epsilon=1.0, recipe="independent", rows=50)
    card = release._repr_html_()
    assert "<td>proven</td>" in card
    assert "epsilon 1, delta 1e-06, add-remove" in card
    assert "<script" not in card


def test_a_release_is_shown_in_a_line():
    release = threea.synthesize(STAYS, schema=hospital.schema(), epsilon=1.0, recipe="independent", rows=50)
    assert repr(release) == (
        "<threea release: proven, epsilon 1, delta 1e-06, add-remove, row; independent, 50, and more from"
        " release.sample(n)>"
    )


@pytest.mark.parametrize("form", [list, lambda values: np.array(values, dtype=object)], ids=["list", "objects"])
def test_lists_and_objects_declare_nothing_so_one_value_changes_no_other(form):
    """One half among whole numbers made floats of all, and one text made text of all."""
    features, schema = (
        np.zeros((300, 2)),
        threea.Schema.of(
            {
                "x0": {"kind": "real", "lower": -1, "upper": 1},
                "x1": {"kind": "real", "lower": -1, "upper": 1},
                "target": {"kind": "integer", "lower": 0, "upper": 1},
            },
            target="target",
        ),
    )
    for described, kind in ((schema, pa.int64()), (None, pa.string())):
        looks = []
        for odd in (1, 0.5, "secret-17", None):
            estimator = Synthesizer(epsilon=100.0, recipe="independent", schema=described)
            fitted = estimator.fit(features, form([0, 1] * 149 + [0, odd]))
            target = fitted.release_.schema["target"]
            looks.append((fitted.release_.layout, target.kind, target.categories, fitted.release_.restore))
        assert set(map(str, looks)) == {str(looks[0])}
        assert looks[0][0].field("target").type == kind


def test_classes_that_are_whole_numbers_come_back_as_numbers():
    target = Synthesizer(**QUICK).fit(np.zeros((300, 2)), [1, 0] * 150).sample(9)[1]
    assert set(target) <= {0, 1}


@pytest.mark.parametrize("values", [["a", None], [datetime.date(2020, 1, 1)] * 2, [1, 2], [True, False]], ids=str)
@pytest.mark.parametrize(
    "form", [list, lambda values: pd.Series(values, dtype=object).array, pd.Series], ids=["list", "array", "series"]
)
def test_pandas_looks_for_no_type_among_objects(values, form):
    """A frame would take a list of texts, or of dates, for a column of a type that one number more takes away."""
    target = form(values) if form is not pd.Series else pd.Series(values, dtype=object, index=[7, 8])
    frame, _ = Synthesizer()._joined(pd.DataFrame({"x": [1.0, 2.0]}), target)
    assert frame["target"].dtype == object
    assert frame["target"].tolist() == values


@pytest.mark.parametrize("form", [list, lambda values: np.array(values, dtype=object)], ids=["lists", "objects"])
def test_features_that_declare_nothing_are_read_value_by_value(form):
    rows = [[number % 2, "a"] for number in range(298)] + [[0.5, None], ["secret-17", 3]]
    table, _ = Synthesizer()._joined(form(rows), None)
    assert table["x0"].to_pylist()[-3:] == ["1", "0.5", "secret-17"]
    assert table["x1"].to_pylist()[-3:] == ["a", None, "3"]
    assert not any(is_declared(field) for field in table.schema)


@pytest.mark.parametrize(
    ("features", "target", "message"),
    [
        (np.zeros((3, 2)), [1, 2, {"secret-17": 1}], "column target: every argument must be a string, a number"),
        ([["secret-17", {"a": 1}]] * 3, [1, 2, 3], "column x1: every argument must be a string, a number"),
        ([["secret-17"], ["a", "b"], []], [1, 2, 3], "Expected 2D array, got 1D array instead"),
        (np.array(["secret-17"] * 3), [1, 2, 3], "Expected 2D array"),
        (np.array([7391.0] * 3), [1, 2, 3], "Expected 2D array"),
        (np.array([[7391j]] * 3), [1, 2, 3], "Complex data not supported"),
        (np.zeros((3, 2)), np.array([7391j] * 3), "Complex data not supported"),
        (np.zeros((3, 2)), np.array([["secret-17"]] * 3, dtype=object), r"y \(ndarray\) must be one column"),
        (np.zeros((3, 2)), ["secret-17", 7391], "inconsistent numbers of samples"),
        (np.array([[7391.0, np.inf]] * 3), [1, 2, 3], "Input X contains infinity"),
        (polars.DataFrame({"a": [1, 2]}), ["secret-17", 7391], "must be a polars Series"),
    ],
)
def test_what_cannot_be_fitted_is_refused_without_a_value(features, target, message):
    with pytest.raises((InputError, SettingError, TypeError, ValueError), match=message) as refusal:
        Synthesizer(**QUICK).fit(features, target)
    said, error = "", refusal.value
    while error is not None:
        said, error = said + str(error), error.__cause__ or error.__context__
    assert "secret-17" not in said
    assert "7391" not in said
