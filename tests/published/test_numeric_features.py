"""Columns as features from -1 to 1 and back: categories, missing values, dates, constant columns."""

import numpy as np
import pytest

from threea.errors import SettingError
from threea.published.numeric_features import MOST_FEATURES, NumericFeatures, check_width
from threea.table.schema import Schema

SCHEMA = Schema.of(
    {
        "amount": {"kind": "real", "lower": 0.0, "upper": 100.0},
        "day": {"kind": "date", "lower": "2020-01-01", "upper": "2021-01-01"},
        "grade": {"kind": "ordinal", "categories": ["low", "middle", "high"]},
        "town": {"kind": "categorical", "categories": ["a", "b", "c"]},
        "same": {"kind": "integer", "lower": 0, "upper": 9, "nullable": False},
        "income": {"kind": "integer", "lower": 10, "upper": 90, "special": [0], "nullable": False},
    }
)
CHUNK = {
    "amount": np.array([10.0, 30.0, np.nan, 50.0]),
    "day": np.array([18262.0, 18300.0, 18400.0, 18628.0]),
    "grade": np.array([0, 2, -1, 1]),
    "town": np.array([0, 2, -1, 0]),
    "same": np.array([7.0, 7.0, 7.0, 7.0]),
    "income": np.array([0.0, 20.0, 40.0, 80.0]),
}


@pytest.fixture
def features():
    return NumericFeatures.of(SCHEMA.columns, CHUNK)


def test_rows_come_back_as_they_were(features):
    for name, values in features.decode(features.encode(CHUNK)).items():
        np.testing.assert_allclose(values, CHUNK[name])
        assert values.dtype == CHUNK[name].dtype


def test_features_are_from_minus_1_to_1(features):
    values = features.encode(CHUNK)
    assert (values.min(axis=0) == -1).all()
    assert (values.max(axis=0) == 1).all()


def test_constant_features_and_categories_that_never_occur_have_none(features):
    # Place and whether missing of amount and grade, day, three towns (one of them missing), income.
    assert features.encode(CHUNK).shape[1] == 2 + 1 + 2 + 3 + 1


def test_a_missing_number_is_at_the_median_and_has_a_feature_of_its_own(features):
    assert features.encode(CHUNK)[:, :2].tolist() == [[-1, -1], [0, -1], [0, 1], [1, -1]]


def test_draws_beyond_the_bounds_are_at_them_and_special_values_are_hit(features):
    drawn = features.decode(np.full((1, 9), 40.0) * np.array([1, -1, 1, 1, -1, -1, 1, 0, 1]))
    assert drawn["amount"].tolist() == [100.0]
    assert drawn["grade"].tolist() == [2]
    assert drawn["town"].tolist() == [0]
    # 0 is special and 10 the lowest besides: 4 is nearer to 0, 7 to 10.
    near = [features.decode(np.array([[0.0] * 8 + [income / 40 - 1]]))["income"].item() for income in (4, 7)]
    assert near == [0, 10]


def test_a_column_without_any_value_stays_so():
    chunk = CHUNK | {"amount": np.full(4, np.nan), "town": np.full(4, -1)}
    features = NumericFeatures.of(SCHEMA.columns, chunk)
    drawn = features.decode(features.encode(chunk))
    assert np.isnan(drawn["amount"]).all()
    assert drawn["town"].tolist() == [-1] * 4


def test_too_many_categories_are_refused_in_one_line():
    wide = {f"c{n}": {"kind": "categorical", "categories": [str(i) for i in range(500)]} for n in range(5)}
    with pytest.raises(SettingError, match=rf"^mcgen-published would have up to 2505 .* at most {MOST_FEATURES}; list"):
        check_width("mcgen-published", Schema.of(wide))
