"""Gradients of ordinal regressions: those of the log-likelihood, within the bound, the same however rows are cut."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.anonymize.test_gradient import AGE, BEYOND, LABEL, TABLES, WARD, WEIGHTS, part_of, rows_of, table_of
from threea.anonymize import score_gradient
from threea.anonymize.clipping import step_of
from threea.anonymize.score_gradient import ScoreGradient
from threea.errors import SettingError

LAW = settings(max_examples=60, deadline=None)
SCORES = np.array([[-1.5, 0.5], [0.25, -1.0], [np.nan, 0.0], [2.0, 1.0]])


@st.composite
def queries(draw):
    cells = draw(st.lists(st.sampled_from([WARD, AGE, BEYOND]), min_size=1, max_size=3))
    pool = draw(st.lists(WEIGHTS, min_size=1, max_size=8))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    scores = rng.choice([-8.0, 8.0, 0.0, 2.0**-11, 1.7], (LABEL.size, draw(st.integers(1, 3))))
    scores[2:][rng.random(2) < 0.5] = np.nan
    weights = rng.choice(pool, (scores.shape[1], sum(each.size for each in cells)))
    clip = draw(st.one_of(st.floats(2.0**-10, 64), st.sampled_from([64.0, 1.0, 2.0**-10])))
    return ScoreGradient(LABEL, scores, rng.choice(pool, LABEL.size), tuple(cells), weights, clip)


def expected_of(query, rows):
    """Return the sum as a textbook has it, with no thought of bits."""
    codes = [cells.index(rows.values[cells.column]) for cells in query.cells]
    label = query.label.index(rows.values[query.label.column])
    starts = np.cumsum([0, *(cells.size for cells in query.cells)])
    known = np.flatnonzero(np.isfinite(query.scores).all(axis=1))
    total = np.zeros(query.shape)
    for row in np.flatnonzero(np.isin(label, known)):
        taken = [start + code[row] for start, code in zip(starts, codes, strict=False) if code[row] >= 0]
        logits = query.biases[known] + query.scores[known] @ query.weights[:, taken].sum(axis=1)
        p = np.exp(logits - logits.max())
        off = (p / p.sum()) @ query.scores[known] - query.scores[label[row]]
        total[:, taken] += (off * min(1.0, query.clip / max(np.linalg.norm(off), 1e-300)))[:, None]
    return total


@pytest.mark.parametrize("clip", [8.0, 0.4])
def test_the_gradient_is_that_of_the_log_likelihood(clip):
    rng, cells = np.random.default_rng(1), (WARD, AGE, BEYOND)
    weights = rng.integers(-1500, 1500, (2, sum(each.size for each in cells))) / 1024
    query = ScoreGradient(LABEL, SCORES, rng.integers(-999, 999, 4) / 1024, cells, weights, clip)
    rows, step = table_of(500, 5), step_of(query.l2)
    found = query.total(rows, step).reshape(query.shape) * step
    expected = expected_of(query, rows)
    assert np.abs(expected).max() > 2 * clip
    # Logits are rounded down to 1/1024: each of some hundred rows of a cell is off by a thousandth at most.
    np.testing.assert_allclose(found, expected, atol=0.15)
    assert np.abs(found - expected).mean() < 0.01


def test_rows_whose_label_has_no_scores_add_nothing():
    weights = np.random.default_rng(0).normal(size=(2, WARD.size + AGE.size))
    query = ScoreGradient(LABEL, SCORES, np.zeros(4), (WARD, AGE), weights, 2.0)
    # A label that is not listed counts as the first.
    for label, adds in ((-1, True), (0, True), (2, False), (4, True), (3, True)):
        rows = rows_of([{"label": label, "ward": 1, "age": 0.5, "code": 0}] * 3)
        assert query.total(rows, 2.0**-28).any() == adds


@LAW
@given(queries(), TABLES, st.sampled_from([1.0, 2.0, 2.0**10, 2.0**29]))
def test_one_row_alone_is_within_the_bound(query, table, coarser):
    """On the door's grid, and on coarser ones: within a stack, a query may have to do with these."""
    step = step_of(query.l2) * coarser
    allowed = (Fraction(query.clip) / Fraction(step)) ** 2
    for row in table:
        whole = np.array([int(n) for n in query.total(rows_of([row]), step).tolist()], object).reshape(query.shape)
        assert (whole**2).sum() <= (Fraction(query.l2) / Fraction(step)) ** 2
        assert all((part**2).sum() <= allowed for part in np.split(whole, np.cumsum([c.size for c in query.cells]), 1))


@LAW
@given(queries(), TABLES)
def test_the_sum_does_not_depend_on_how_rows_are_cut(query, table):
    step = step_of(query.l2)
    whole = query.total(rows_of(table), step)
    np.testing.assert_array_equal(whole, sum(query.total(rows_of([row]), step) for row in table))
    np.testing.assert_array_equal(whole, query.total(rows_of(table[::-1]), step))


def test_long_chunks_give_the_sums_of_short_ones(monkeypatch):
    """Long enough for vector instructions, whose rows at the end are worked out one by one; and block by block."""
    rng = np.random.default_rng(3)
    weights = rng.normal(size=(2, AGE.size + BEYOND.size))
    query = ScoreGradient(LABEL, SCORES, rng.normal(size=4), (AGE, BEYOND), weights, 0.4)
    rows, step = table_of(20_000, 7), step_of(query.l2)
    whole = query.total(rows, step)
    parts = (query.total(part_of(rows, slice(n, n + 777)), step) for n in range(0, rows.count, 777))
    np.testing.assert_array_equal(whole, sum(parts))
    monkeypatch.setattr(score_gradient, "BLOCK", 4096)
    np.testing.assert_array_equal(query.total(rows, step), whole)


GOOD = {
    "label": LABEL,
    "scores": SCORES,
    "biases": np.zeros(4),
    "cells": (WARD,),
    "weights": np.zeros((2, 3)),
    "clip": 1.0,
}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"cells": (), "weights": np.zeros((2, 0))}, "feature"),
        ({"scores": SCORES[:3]}, "scores"),
        ({"scores": SCORES[:, 0]}, "scores"),
        ({"scores": np.full((4, 2), np.nan)}, "two cells"),
        ({"scores": SCORES * 5}, "from -8 to 8"),
        ({"biases": np.zeros(3)}, "biases"),
        ({"weights": np.zeros((1, 3))}, "weights"),
        ({"clip": 0.0}, "clip"),
        ({"clip": 65.0}, "clip"),
        ({"clip": np.nan}, "clip"),
    ],
)
def test_what_does_not_fit_is_refused(wrong, message):
    assert ScoreGradient(**GOOD).size == 6
    with pytest.raises(SettingError, match=message):
        ScoreGradient(**(GOOD | wrong))
