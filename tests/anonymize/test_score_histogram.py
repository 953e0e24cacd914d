"""Scores of trees over cells, counted by label: each row by itself, in whole numbers, as a walk down the trees says."""

import numpy as np
import pytest

from threea.anonymize.clipping import Norm, clipped_sum
from threea.anonymize.query import Rows
from threea.anonymize.score_histogram import ScoreHistogram, Trees
from threea.errors import SettingError
from threea.table.cells import Bins, Categories, Digits

AGE = Bins(column="age", edges=(-np.inf, 40.0, 65.0, np.inf), missing=True)
WARD = Categories(column="ward", count=2, missing=False)
LABEL = Categories(column="died", count=2, missing=False)
# One tree: age < 40 -> leaf 0; else ward 0 -> leaf 1, ward 1 -> leaf 2. Missing ages go right.
REACHABLE = np.array([[0b001, 0b110, 0b110, 0b110, 0b011, 0b101]])
VALUES = np.array([[-5, 0, 7]])
TREES = Trees((AGE, WARD), REACHABLE, VALUES)


def chunk(age, ward, died):
    return Rows({"age": np.array(age, float), "ward": np.array(ward), "died": np.array(died)}, len(age))


def counts(query, rows):
    return clipped_sum(query, rows, step=1.0, norm=Norm.L2).reshape(query.shape).tolist()


def test_a_row_is_counted_by_label_and_range_of_its_leafs_value():
    rows = chunk([30, 50, 70, np.nan], [1, 0, 1, 1], [0, 0, 1, 1])
    assert counts(ScoreHistogram(LABEL, TREES, (0, 7)), rows) == [[1, 1, 0], [0, 0, 2]]
    assert counts(ScoreHistogram(LABEL, TREES), rows) == [[2], [2]]


def test_of_several_scores_the_largest_counts_and_the_first_of_equals():
    trees = Trees((AGE, WARD), np.vstack([REACHABLE, REACHABLE]), np.array([[-5, 0, 7], [4, 0, 8]]), outputs=2)
    rows = chunk([30, 50, 70], [1, 0, 1], [0, 0, 1])
    assert counts(ScoreHistogram(LABEL, trees), rows) == [[1, 1], [0, 1]]


def test_rows_without_a_label_or_a_leaf_are_within_the_bound():
    nowhere = Trees((AGE, WARD), np.zeros((1, 6), np.int64), VALUES)
    rows = chunk([30, 50], [0, -1], [-1, 1])
    assert counts(ScoreHistogram(LABEL, nowhere, (0, 1)), rows) == [[0, 1, 0], [0, 1, 0]]
    unlabelled = ScoreHistogram(Digits(column="died"), nowhere, (0, 1))
    assert not np.any(counts(unlabelled, chunk([30, 50], [0, -1], [np.nan, np.nan])))
    assert np.sum(counts(unlabelled, chunk([30, 50], [0, -1], [np.nan, 1.0]))) == 1


@pytest.mark.parametrize("rows", [1, 7, 70_001])
def test_a_rows_cell_does_not_depend_on_the_others(rows):
    rng = np.random.default_rng(0)
    cells = (AGE, WARD)
    trees = Trees(cells, rng.integers(0, 1 << 31, (20, 6)).astype(np.int32), rng.integers(-999, 999, (20, 31)))
    query = ScoreHistogram(LABEL, trees, (-500, 0, 500))
    every = chunk(rng.uniform(0, 90, 70_001), rng.integers(-1, 2, 70_001), rng.integers(-1, 2, 70_001))
    some = Rows({name: values[-rows:] for name, values in every.values.items()}, rows)
    assert np.array_equal(query.cell(every)[-rows:], query.cell(some))


@pytest.mark.parametrize(
    "change",
    [
        {"cells": ()},
        {"reachable": REACHABLE[:, 1:]},
        {"reachable": REACHABLE.astype(float)},
        {"values": VALUES.astype(float)},
        {"values": np.array([[-5, 0, 1 << 41]])},
        {"values": np.zeros((1, 63), np.int64)},
        {"outputs": 0},
    ],
    ids=lambda change: next(iter(change)),
)
def test_trees_that_do_not_fit_are_refused(change):
    parts = {"cells": (AGE, WARD), "reachable": REACHABLE, "values": VALUES, "outputs": 1} | change
    with pytest.raises(SettingError):
        Trees(**parts)


@pytest.mark.parametrize("cuts", [(1, 0), (0, 0), (0.5,), (np.int64(3),)])
def test_cuts_that_do_not_rise_are_refused(cuts):
    with pytest.raises(SettingError, match="rise"):
        ScoreHistogram(LABEL, TREES, cuts)


def test_several_scores_are_not_cut():
    trees = Trees((AGE, WARD), REACHABLE, VALUES, outputs=3)
    with pytest.raises(SettingError, match=r"cuts \(1\) are for one score, and there are 3"):
        ScoreHistogram(LABEL, trees, (0,))
