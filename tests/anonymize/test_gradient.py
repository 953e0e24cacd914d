"""Gradients: those of the logistic loss, within the bound, and the same however the rows are cut."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threea.anonymize import gradient
from threea.anonymize.clipping import step_of
from threea.anonymize.gradient import Gradient
from threea.anonymize.query import Rows
from threea.errors import SettingError
from threea.table.cells import Bins, Categories, Digits, Merged

LAW = settings(max_examples=80, deadline=None)
LABEL = Categories(column="label", count=4, missing=False)
WARD = Categories(column="ward", count=3, missing=False)
AGE = Bins(column="age", edges=tuple(np.linspace(0, 1, 6)), missing=True)
MERGED = Merged(cells=AGE, groups=(0, 0, 1, 1, 2, 2))
# Two columns of cells at the limit of a byte: 128 fit, 129 do not.
BYTE = Categories(column="code", count=128, missing=False)
BEYOND = Merged(cells=Categories(column="code", count=200, missing=False), groups=tuple(n % 129 for n in range(200)))
FEATURES = [WARD, AGE, MERGED, BYTE, BEYOND]

ROWS = st.fixed_dictionaries(
    {
        "label": st.integers(-1, 5),
        "ward": st.integers(-2, 4),
        "age": st.one_of(st.floats(0, 1), st.sampled_from([np.nan, np.inf, -np.inf, 1e308])),
        "code": st.sampled_from([-1, 0, 1, 126, 127, 128, 129, 199, 200, 2**40]),
    }
)
TABLES = st.lists(ROWS, min_size=1, max_size=6)
WEIGHTS = st.one_of(
    st.floats(-3, 3), st.sampled_from([np.nan, np.inf, -np.inf, 1e308, -1e308, 30.0, -30.0, 1e-320, 2.0**-11])
)
SHARES = st.one_of(st.floats(0.01, 1), st.sampled_from([2.0**-40, 1.0, 1 / 3]))


@st.composite
def queries(draw):
    classes = draw(st.lists(st.integers(0, LABEL.size - 1), min_size=2, max_size=4, unique=True))
    cells = draw(st.lists(st.sampled_from(FEATURES), min_size=1, max_size=4))
    pool = draw(st.lists(WEIGHTS, min_size=1, max_size=8))
    width = sum(each.size for each in cells)
    places = np.random.default_rng(draw(st.integers(0, 99))).integers(0, len(pool), (len(classes), width))
    return Gradient(
        LABEL,
        tuple(classes),
        tuple(cells),
        np.array(pool)[places],
        tuple(draw(SHARES) for _ in classes),
        draw(st.one_of(st.floats(1e-3, 2), st.sampled_from([2.0, 1.0, 0.5, 2.0**-40]))),
    )


def rows_of(table):
    kinds = {"label": np.int64, "ward": np.int64, "age": np.float64, "code": np.int64}
    return Rows({name: np.array([row[name] for row in table], kind) for name, kind in kinds.items()}, len(table))


def expected_of(query, rows):
    """Return the sum as a textbook has it, with no thought of bits."""
    codes = [cells.index(rows.values[cells.column]) for cells in query.cells]
    label = query.label.index(rows.values[query.label.column])
    starts = np.cumsum([0, *(cells.size for cells in query.cells)])
    total = np.zeros((len(query.classes), starts[-1]))
    for row in range(rows.count):
        if label[row] not in query.classes:
            continue
        taken = [start + code[row] for start, code in zip(starts, codes, strict=False) if code[row] >= 0]
        logits = query.weights[:, taken].sum(axis=1)
        powers = np.exp(logits - logits.max())
        actual = query.classes.index(label[row])
        wrong = powers / powers.sum() - (np.arange(len(query.classes)) == actual)
        wrong *= query.class_weights[actual]
        told = wrong if len(query.classes) > 2 else wrong[1:]
        wrong *= min(1.0, query.clip / max(np.linalg.norm(told), 1e-300))
        total[:, taken] += wrong[:, None]
    return total if len(query.classes) > 2 else total[1:]


def table_of(count, seed):
    rng = np.random.default_rng(seed)
    return Rows(
        {
            "label": rng.integers(-1, 5, count),
            "ward": rng.integers(-1, 4, count),
            "age": np.where(rng.random(count) < 0.2, np.nan, rng.random(count)),
            "code": rng.integers(-1, 202, count),
        },
        count,
    )


@pytest.mark.parametrize("classes", [(1, 3), (3, 1), (0, 1, 2, 3), (2, 0, 3)], ids=str)
@pytest.mark.parametrize("clip", [2.0, 0.3])
def test_the_gradient_is_that_of_the_logistic_loss(classes, clip):
    rng = np.random.default_rng(len(classes))
    cells = (WARD, AGE, MERGED, BYTE, BEYOND)
    # Whole multiples of the grid on which weights are rounded, so that only the grid of the sum is in between.
    weights = rng.integers(-1500, 1500, (len(classes), sum(each.size for each in cells))) / 1024
    query = Gradient(LABEL, classes, cells, weights, tuple(rng.uniform(0.2, 1, len(classes))), clip)
    rows, step = table_of(1500, 5), step_of(query.l2)
    found = query.total(rows, step).reshape(query.shape) * step
    expected = expected_of(query, rows)
    assert query.shape == expected.shape
    assert np.count_nonzero(expected) > expected.size / 2
    assert np.abs(expected).max() > 2 * clip
    np.testing.assert_allclose(found, expected, atol=rows.count * 2 * step)


def test_clipping_and_class_weights_matter():
    rows, weights = table_of(300, 1), np.zeros((2, WARD.size))
    plain, class_weights, clip = (
        Gradient(LABEL, (0, 1), (WARD,), weights, shares, clip).total(rows, 2.0**-30)
        for shares, clip in (((1.0, 1.0), 2.0), ((0.5, 0.5), 2.0), ((1.0, 1.0), 0.25))
    )
    # Without weights each class is as likely as the other, so that all are wrong by one half.
    np.testing.assert_allclose(class_weights, plain / 2, rtol=1e-6)
    np.testing.assert_allclose(clip, plain / 2, rtol=1e-6)


def test_weights_off_the_grid_are_rounded_and_not_numbers_count_as_nothing():
    rows = table_of(50, 2)

    def total(weight):
        weights = np.zeros((2, WARD.size))
        weights[1, 0] = weight
        return Gradient(LABEL, (0, 1), (WARD,), weights, (1.0, 1.0), 2.0).total(rows, 2.0**-30)

    np.testing.assert_array_equal(total(1 + 2.0**-12), total(1.0))
    np.testing.assert_array_equal(total(np.nan), total(0.0))
    np.testing.assert_array_equal(total(np.inf), total(30.0))
    np.testing.assert_array_equal(total(-1e300), total(-30.0))
    assert not np.array_equal(total(1 + 2.0**-10), total(1.0))


def test_rows_without_a_class_add_nothing():
    weights = np.random.default_rng(0).normal(size=(2, WARD.size + AGE.size))
    for label in (-1, 0, 2, 4, 5):
        rows = rows_of([{"label": label, "ward": 1, "age": 0.5, "code": 0}] * 3)
        query = Gradient(LABEL, (1, 3), (WARD, AGE), weights, (1.0, 1.0), 2.0)
        assert not query.total(rows, 2.0**-30).any()


def test_a_missing_cell_adds_nothing_there_and_to_no_logit():
    digits = Digits(column="age")
    weights = np.random.default_rng(0).normal(size=(2, WARD.size + digits.size))
    query = Gradient(LABEL, (1, 3), (WARD, digits), weights, (1.0, 1.0), 2.0)
    alone = Gradient(LABEL, (1, 3), (WARD,), weights[:, : WARD.size], (1.0, 1.0), 2.0)
    rows = rows_of([{"label": 3, "ward": 2, "age": np.nan, "code": 0}])
    found = query.total(rows, 2.0**-29)
    assert not found[WARD.size :].any()
    np.testing.assert_array_equal(found[: WARD.size], alone.total(rows, 2.0**-29))


@LAW
@given(queries(), TABLES, st.sampled_from([1.0, 2.0, 2.0**10, 2.0**29]))
def test_one_row_alone_is_within_the_bound(query, table, coarser):
    """On the door's grid, and on coarser ones: within a stack, a query may have to do with these."""
    step = step_of(query.l2) * coarser
    for row in table:
        whole = [int(number) for number in query.total(rows_of([row]), step).tolist()]
        assert len(whole) == query.size
        allowed = (Fraction(query.clip) / Fraction(step)) ** 2
        assert sum(number**2 for number in whole) <= allowed * len(query.cells)
        assert sum(number**2 for number in whole) <= (Fraction(query.l2) / Fraction(step)) ** 2
        each = np.split(np.array(whole, object).reshape(query.shape), query._offsets[1:-1], axis=1)
        assert all((part**2).sum() <= allowed for part in each)


@LAW
@given(queries(), TABLES)
def test_a_replaced_row_moves_the_sum_by_at_most_twice_the_bound(query, table):
    assert not query.nonnegative
    step = step_of(query.l2)
    alone = [[int(number) for number in query.total(rows_of([row]), step).tolist()] for row in table]
    for one, other in itertools.combinations(alone, 2):
        moved = sum((a - b) ** 2 for a, b in zip(one, other, strict=True))
        assert moved <= (2 * Fraction(query.l2) / Fraction(step)) ** 2


@LAW
@given(queries(), TABLES)
def test_the_sum_does_not_depend_on_how_rows_are_cut(query, table):
    step = step_of(query.l2)
    whole = query.total(rows_of(table), step)
    np.testing.assert_array_equal(whole, sum(query.total(rows_of([row]), step) for row in table))
    np.testing.assert_array_equal(whole, query.total(rows_of(table[::-1]), step))


def part_of(rows, part):
    cut = {name: values[part] for name, values in rows.values.items()}
    return Rows(cut, len(cut["label"]))


def test_long_chunks_give_the_sums_of_short_ones():
    """Long enough for vector instructions, whose rows at the end are worked out one by one."""
    rng = np.random.default_rng(3)
    weights = rng.normal(size=(4, AGE.size + BEYOND.size))
    query = Gradient(LABEL, (0, 1, 2, 3), (AGE, BEYOND), weights, (0.9, 0.1, 0.7, 1.0), 0.4)
    rows, step = table_of(30_000, 7), step_of(query.l2)
    whole = query.total(rows, step)
    for width in (777, 4096):
        parts = (query.total(part_of(rows, slice(n, n + width)), step) for n in range(0, rows.count, width))
        np.testing.assert_array_equal(whole, sum(parts))


def test_more_rows_than_a_block_holds_are_added_block_by_block(monkeypatch):
    query = Gradient(LABEL, (0, 1), (WARD,), np.ones((2, WARD.size)), (1.0, 1.0), 1.0)
    rows = table_of(1000, 8)
    whole = query.total(rows, 2.0**-30)
    monkeypatch.setattr(gradient, "BLOCK", 64)
    np.testing.assert_array_equal(query.total(rows, 2.0**-30), whole)
    assert np.any(whole != query.total(part_of(rows, slice(0, 64)), 2.0**-30))


def test_sums_of_a_block_are_exact_in_a_double():
    assert gradient.BLOCK * 2**30 < 2**53


def test_cells_are_all_it_takes_from_the_rows():
    query = Gradient(LABEL, (0, 1), (MERGED, AGE, WARD), np.ones((2, 12)), (1.0, 1.0), 1.0)
    assert query.keys == (LABEL, AGE, WARD)
    assert query.columns == ("label", "age", "ward")
    rows = table_of(40, 9)
    expected = query.total(rows, 2.0**-29)
    known = Rows({}, rows.count)
    known.cached = {key: rows.cached[key] for key in query.keys}
    np.testing.assert_array_equal(query.total(known, 2.0**-29), expected)


def test_no_rows_add_nothing():
    query = Gradient(LABEL, (0, 1), (WARD,), np.ones((2, 3)), (1.0, 1.0), 1.0)
    assert query.total(rows_of([]), 2.0**-30).tolist() == [0, 0, 0]


GOOD = {
    "label": LABEL,
    "classes": (0, 1),
    "cells": (WARD,),
    "weights": np.zeros((2, 3)),
    "class_weights": (1.0, 1.0),
    "clip": 1.0,
}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"classes": (0,), "weights": np.zeros((1, 3)), "class_weights": (1.0,)}, "classes"),
        ({"classes": (0, 0)}, "differ"),
        ({"classes": (0, 4)}, "from 0 to 3"),
        ({"classes": (-1, 0)}, "from 0 to 3"),
        ({"cells": (), "weights": np.zeros((2, 0))}, "feature"),
        ({"weights": np.zeros((2, 4))}, "weights"),
        ({"weights": np.zeros((3, 3))}, "weights"),
        ({"class_weights": (1.0,)}, "class_weights"),
        ({"class_weights": (1.0, 0.0)}, "class_weights"),
        ({"class_weights": (1.0, 1.1)}, "class_weights"),
        ({"class_weights": (1.0, math.nan)}, "class_weights"),
        ({"class_weights": (1.0, 1e-170)}, "class_weights"),
        ({"clip": 0.0}, "clip"),
        ({"clip": -1.0}, "clip"),
        ({"clip": 2.1}, "clip"),
        ({"clip": math.nan}, "clip"),
        ({"clip": 1e-250}, "clip"),
    ],
)
def test_what_does_not_fit_is_refused(wrong, message):
    assert Gradient(**GOOD).size == 3
    with pytest.raises(SettingError, match=message):
        Gradient(**(GOOD | wrong))
