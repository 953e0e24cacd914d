"""Wide rows: exact whole numbers, within the bound, and the same however the rows are cut."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threea.anonymize.clipping import step_of
from threea.anonymize.query import Answer, Rows
from threea.anonymize.vectors import BASIS_BITS, MOST_SCORE, Frame, Lengths, Moment, Vectors, basis, frequencies
from threea.errors import SettingError
from threea.table.cells import Bins, Categories

LAW = settings(max_examples=60, deadline=None)
STEP = step_of(1.0)
SIDE = 3
CELLS = tuple(Bins(column=f"c{n}", edges=tuple(np.linspace(-1, 1, 9)), missing=n % 2 == 0) for n in range(SIDE**2))
LABEL = Categories(column="label", count=3, missing=False)
SCORES = st.tuples(*(st.tuples(*[st.integers(-MOST_SCORE, MOST_SCORE)] * cells.size) for cells in CELLS))
VALUES = st.one_of(st.floats(-1, 1), st.sampled_from([np.nan, np.inf, -np.inf, 1e308, 0.0]))
TABLES = st.lists(st.tuples(st.integers(-1, 3), *[VALUES] * len(CELLS)), min_size=1, max_size=6)


@st.composite
def frames(draw):
    kept = draw(st.lists(st.integers(0, SIDE**2 - 1), min_size=1, unique=True))
    grid = draw(st.sampled_from([(SIDE**2,), (SIDE, SIDE)]))
    return Frame(cells=CELLS, scores=draw(SCORES), grid=grid, kept=tuple(kept))


QUERIES = st.builds(
    Vectors,
    frame=frames(),
    radius=st.sampled_from([1e-9, 0.1, 1.0, 7.3, 1e9]),
    moment=st.sampled_from(list(Moment)),
    by=st.sampled_from([None, LABEL]),
)


def rows_of(table):
    matrix = np.array(table, dtype=np.float64).reshape(len(table), len(CELLS) + 1)
    values = {cells.column: matrix[:, place + 1].copy() for place, cells in enumerate(CELLS)}
    return Rows(values | {"label": matrix[:, 0].astype(np.int64)}, len(table))


def length(whole):
    return sum(int(number) ** 2 for number in whole.tolist())


@LAW
@given(QUERIES, TABLES, st.sampled_from([STEP, 2.0**-29, 2.0**-20, 2.0**-8, 1.0]))
def test_one_row_alone_is_within_the_bound(query, table, step):
    for row in table:
        whole = query.total(rows_of([row]), step)
        assert whole.shape == (query.size,)
        assert length(whole) <= (Fraction(query.l2) / Fraction(step)) ** 2


@LAW
@given(QUERIES, TABLES)
def test_the_sum_does_not_depend_on_how_rows_are_cut(query, table):
    whole = query.total(rows_of(table), STEP)
    alone = sum(query.total(rows_of([row]), STEP) for row in table)
    np.testing.assert_array_equal(whole, alone)
    np.testing.assert_array_equal(whole, query.total(rows_of(table[::-1]), STEP))


@LAW
@given(QUERIES, TABLES)
def test_rows_that_cannot_point_apart_do_not(query, table):
    whole = [[int(number) for number in query.total(rows_of([row]), STEP).tolist()] for row in table]
    for one, other in itertools.product(whole, whole):
        product = sum(a * b for a, b in zip(one, other, strict=True))
        assert product >= 0 or not query.nonnegative
        distance = sum((a - b) ** 2 for a, b in zip(one, other, strict=True))
        assert distance <= (2 if query.nonnegative else 4) / Fraction(STEP) ** 2


def test_long_chunks_give_the_sums_of_short_ones():
    rng = np.random.default_rng(0)
    many = 40_000
    table = np.column_stack([rng.integers(0, 3, many), rng.uniform(-1, 1, (many, len(CELLS)))])
    scores = tuple(tuple(int(s) for s in rng.integers(-1000, 1000, cells.size)) for cells in CELLS)
    frame = Frame(cells=CELLS, scores=scores, grid=(SIDE, SIDE), kept=(0, 1, 2, 5, 8))
    for moment in Moment:
        query = Vectors(frame=frame, radius=1.0, moment=moment, by=LABEL)
        parts = sum(query.total(rows_of(table[start : start + 777]), STEP) for start in range(0, many, 777))
        np.testing.assert_array_equal(query.total(rows_of(table), STEP), parts)


@pytest.mark.parametrize("moment", list(Moment))
def test_silent_answers_are_the_moments(moment):
    rng = np.random.default_rng(1)
    table = np.column_stack([rng.integers(0, 3, 500), rng.uniform(-1, 1, (500, len(CELLS)))])
    places = [int(1024 * (2 * (place + 0.5) / 8 - 1)) for place in range(8)]
    scores = tuple(tuple(places) + (0,) * cells.missing for cells in CELLS)
    frame = Frame(cells=CELLS, scores=scores, grid=(SIDE, SIDE), kept=(0, 3, 4))
    rows = rows_of(table)
    scored = np.column_stack([np.array(s)[c.index(rows.values[c.column])] for c, s in zip(CELLS, scores, strict=True)])
    found = scored / 1024 @ basis((SIDE, SIDE), (0, 3, 4)) / 2**BASIS_BITS
    query = Vectors(frame=frame, radius=4.0, moment=moment, by=LABEL)
    value = query.total(rows, STEP).reshape(query.shape) * STEP
    read, stddev = query.read(Answer(value, 1.0))
    for label in range(3):
        members = found[table[:, 0] == label] / 4
        expected = {
            Moment.SUMS: members.sum(axis=0),
            Moment.POWER: (members**2).sum(axis=0),
            Moment.SECOND_MOMENTS: members.T @ members,
        }[moment]
        np.testing.assert_allclose(read[label], expected, atol=0.02)
    expected = 1.0 if moment is not Moment.SECOND_MOMENTS else 1 / np.sqrt(2)
    assert stddev == pytest.approx(expected, rel=1e-3)


def test_rows_longer_than_the_radius_are_shortened_to_it():
    scores = tuple((1024,) * cells.size for cells in CELLS)
    frame = Frame(cells=CELLS, scores=scores, grid=(SIDE**2,), kept=tuple(range(SIDE**2)))
    rows = rows_of([[0] + [0.5] * SIDE**2])
    # Nine equal scores of 1 are one constant cosine of length 3.
    for radius, expected in ((1.0, 1.0), (3.0, 1.0), (6.0, 0.5)):
        query = Vectors(frame=frame, radius=radius, moment=Moment.SUMS)
        read, _ = query.read(Answer(query.total(rows, STEP).reshape(query.shape) * STEP, 0.0))
        assert np.linalg.norm(read) == pytest.approx(expected, rel=1e-3)
        assert read[0, 0] == pytest.approx(expected, rel=1e-3)


@LAW
@given(frames(), TABLES)
def test_lengths_are_counted_once_for_each_row(frame, table):
    query = Lengths(frame=frame, edges=(0.5, 1.0, 4.0))
    cells = query.cell(rows_of(table))
    assert cells.shape == (len(table),)
    assert query.shape == (4,)
    assert cells.min() >= 0
    assert cells.max() < query.size
    np.testing.assert_array_equal(cells, np.concatenate([query.cell(rows_of([row])) for row in table]))
    for cell, row in zip(cells, table, strict=True):
        whole = next(iter(frame.blocks(rows_of([row]))))[1][0]
        exact = Fraction(length(whole)) / 2 ** (2 * (10 + BASIS_BITS))
        edges = [Fraction(0), Fraction(1, 4), Fraction(1), Fraction(16), Fraction(10**9)]
        slack = 1 + Fraction(1, 2**30)
        assert edges[cell] <= exact * slack
        assert exact <= edges[cell + 1] * slack


@pytest.mark.parametrize("grid", [(7,), (4, 5), (16, 16), (1,)])
def test_the_basis_is_orthonormal(grid):
    every = tuple(range(int(np.prod(grid))))
    matrix = basis(grid, every) / 2**BASIS_BITS
    np.testing.assert_allclose(matrix.T @ matrix, np.eye(len(every)), atol=len(every) * 2.0**-BASIS_BITS)
    assert np.all(basis(grid, every) == np.round(basis(grid, every)))
    assert np.abs(basis(grid, every)).max() <= 2**BASIS_BITS


def test_slow_cosines_come_first():
    found = frequencies((4, 8))
    assert found[0].tolist() == [0, 0]
    assert found[1].tolist() == [0, 1]
    assert sorted(map(tuple, found.tolist())) == list(itertools.product(range(4), range(8)))


GOOD = {"cells": CELLS[1:2], "scores": ((0,) * 8,), "grid": (1,), "kept": (0,)}


@pytest.mark.parametrize(
    "wrong",
    [
        {"grid": (2,)},
        {"scores": ((0,) * 7,)},
        {"scores": ((MOST_SCORE + 1,) * 8,)},
        {"scores": ((0.5,) * 8,)},
        {"kept": ()},
        {"kept": (0, 0)},
        {"kept": (1,)},
        {"kept": (-1,)},
    ],
)
def test_a_frame_that_does_not_fit_is_refused(wrong):
    assert Frame(**GOOD).columns == ("c1",)
    with pytest.raises(SettingError):
        Frame(**(GOOD | wrong))


@pytest.mark.parametrize("radius", [0.0, -1.0, np.nan, np.inf, 1e300])
def test_a_radius_out_of_range_is_refused(radius):
    with pytest.raises(SettingError, match="radius"):
        Vectors(frame=Frame(**GOOD), radius=radius, moment=Moment.SUMS)


def test_a_column_that_stands_twice_in_a_frame_is_read_once():
    frame = Frame(cells=CELLS[1:2] * 2, scores=((0,) * 8,) * 2, grid=(2,), kept=(0,))
    assert frame.columns == Lengths(frame=frame, edges=()).columns == ("c1",)
    assert Vectors(frame=frame, radius=1.0, moment=Moment.SUMS, by=LABEL).columns == ("label", "c1")
