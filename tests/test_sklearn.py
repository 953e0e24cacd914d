"""The estimator behaves as scikit-learn expects, hands back what came in, and keeps no row."""

import pickle

import numpy as np
import polars
import pyarrow as pa
import pytest

import threea
from threea import hospital
from threea.errors import SettingError

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
