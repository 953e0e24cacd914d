"""Clusters around public centroids: a row adds to one of them, exactly, within its bound, whoever else is there."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threea.anonymize.clipping import step_of
from threea.anonymize.cluster_moments import ClusterMoments
from threea.anonymize.cluster_sums import MOST_SCORE, Scores
from threea.anonymize.query import Answer, Norm, Rows
from threea.errors import SettingError
from threea.table.cells import Bins, Categories, Merged

LAW = settings(max_examples=60, deadline=None)
NUMBER = Bins(column="number", edges=tuple(np.linspace(-1, 1, 9)), special=(0.0,), missing=True)
WARD = Categories(column="ward", count=4, missing=False)
CELLS = (NUMBER, WARD, Merged(cells=NUMBER, groups=tuple(cell // 3 for cell in range(NUMBER.size))))
LABEL = Categories(column="label", count=3, missing=False)
VALUES = st.one_of(st.floats(-1, 1), st.sampled_from([np.nan, np.inf, -np.inf, 1e308, 0.0, -0.0]))
TABLES = st.lists(st.tuples(st.integers(-1, 3), VALUES, st.integers(-1, 4)), min_size=1, max_size=8)
STEPS = st.sampled_from([None, 2.0**-20, 2.0**-8, 1.0, 4.0])


def sums(*, radius, **parts):
    """Return the question for counts and sums alone, whose bound is the length of a count and a radius."""
    return ClusterMoments(radius=radius, weights=(1.0, radius), **parts)


def scores(rng, largest, width=3):
    return Scores(CELLS, tuple(rng.integers(-largest, largest + 1, (cells.size, width)) for cells in CELLS))


@st.composite
def queries(draw):
    """Make clusters; of small scores many are equally near."""
    rng = np.random.default_rng(draw(st.integers(0, 9999)))
    largest = draw(st.sampled_from([0, 1, 300, MOST_SCORE]))
    space, summed = scores(rng, largest), scores(rng, largest, draw(st.integers(1, 30)))
    label = draw(st.sampled_from([None, LABEL]))
    classes = tuple(rng.integers(0, 2 if label else 1, draw(st.integers(1, 7))).tolist())
    return sums(
        space=space,
        centroids=rng.integers(-largest, largest + 1, (len(classes), space.width)),
        classes=classes,
        summed=summed,
        radius=draw(st.sampled_from([2.0**-20, 0.1, 1.0, 7.3, 2.0**20])),
        by=label,
    )


def rows_of(table):
    label, number, ward = (np.array(column) for column in zip(*table, strict=True))
    return Rows({"label": label, "number": number.astype(np.float64), "ward": ward}, len(table))


def looked_up(part, row):
    """Return a row's scores in Python's whole numbers."""
    rows, found = rows_of([row]), []
    for cells, table in zip(part.cells, part.tables, strict=True):
        cell = int(rows.index(cells)[0])
        found += [int(number) for number in table[cell]] if cell >= 0 else [0] * table.shape[1]
    return found


@LAW
@given(queries(), TABLES, STEPS)
def test_one_row_alone_is_within_the_bound(query, table, step):
    step = step or step_of(query.l2)
    if step < step_of(query.l2):
        step = step_of(query.l2)
    for row in table:
        whole = query.total(rows_of([row]), step)
        assert whole.shape == (query.size,)
        assert sum(int(number) ** 2 for number in whole) <= (Fraction(query.l2) / Fraction(step)) ** 2


@LAW
@given(queries(), TABLES)
def test_the_sum_does_not_depend_on_how_rows_are_cut(query, table):
    step = step_of(query.l2)
    whole = query.total(rows_of(table), step)
    np.testing.assert_array_equal(whole, sum(query.total(rows_of([row]), step) for row in table))
    np.testing.assert_array_equal(whole, query.total(rows_of(table[::-1]), step))


@LAW
@given(queries(), TABLES)
def test_a_row_is_in_the_nearest_cluster_of_its_class(query, table):
    step = step_of(query.l2)
    for row in table:
        counts = query.total(rows_of([row]), step).reshape(query.shape)[:, 0]
        placed = looked_up(query.space, row)
        label = LABEL.index(np.array([row[0]]))[0] if query.by else 0
        distances = {
            place: sum((one - int(other)) ** 2 for one, other in zip(placed, query.centroids[place], strict=True))
            for place, code in enumerate(query.classes)
            if code == label
        }
        expected = np.zeros(len(query.classes), np.int64)
        if distances:
            expected[min(distances, key=distances.__getitem__)] = int(1 / step)
        np.testing.assert_array_equal(counts, expected)


@LAW
@given(queries(), TABLES, TABLES)
def test_a_further_row_moves_one_cluster_only(query, table, others):
    step = step_of(query.l2)
    before = query.total(rows_of(table), step).reshape(query.shape)
    for other in others:
        moved = query.total(rows_of([*table, other]), step).reshape(query.shape) - before
        assert np.count_nonzero(moved.any(axis=1)) <= 1
        assert sum(int(number) ** 2 for number in moved.ravel()) <= (Fraction(query.l2) / Fraction(step)) ** 2


def many(rows, seed=0):
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, 3, rows), rng.uniform(-1, 1, rows), rng.integers(0, 4, rows)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def plain(radius, seed=3):
    rng = np.random.default_rng(seed)
    classes = (0, 1, 1, 2, 0, 0)
    space = scores(rng, 300)
    centroids = rng.integers(-300, 301, (len(classes), space.width))
    return sums(space=space, centroids=centroids, classes=classes, summed=scores(rng, 300), radius=radius, by=LABEL)


def test_long_chunks_give_the_sums_of_short_ones():
    table, query = many(40_000), plain(2.0)
    step = step_of(query.l2)
    parts = sum(query.total(rows_of(table[start : start + 777]), step) for start in range(0, len(table), 777))
    np.testing.assert_array_equal(query.total(rows_of(table), step), parts)


def test_silent_answers_are_the_counts_and_sums():
    table, query = many(500), plain(8.0)
    step = step_of(query.l2)
    value = query.total(rows_of(table), step).reshape(query.shape) * step
    read = query.read(Answer(value, 5.0), step, Norm.L2)
    expected = np.zeros(query.shape)
    for row in table:
        (place,) = np.flatnonzero(query.total(rows_of([row]), step).reshape(query.shape)[:, 0])
        expected[place] += [1, *(number / 256 for number in looked_up(query.summed, row))]
    np.testing.assert_array_equal(read.counts, expected[:, 0])
    # No row is longer than 9 scores of 300/256, so nothing is shortened; rounding moves each by a millionth.
    np.testing.assert_allclose(read.sums, expected[:, 1:], atol=500 * 1e-6)
    assert read.stddevs[:2] == (5.0, pytest.approx(5.0, rel=1e-6))


def test_rows_longer_than_the_radius_are_shortened_to_it_and_counted_whole():
    one = Categories(column="ward", count=1, missing=False)
    straight = Scores((one,), (np.array([[3 * 256, 4 * 256]]),))
    for radius, length in ((2.5, 2.5), (5.0, 5.0), (9.0, 5.0)):
        query = sums(space=straight, centroids=np.zeros((1, 2), int), classes=(0,), summed=straight, radius=radius)
        step = step_of(query.l2)
        value = query.total(Rows({"ward": np.array([0])}, 1), step).reshape(query.shape) * step
        read = query.read(Answer(value, 0.0), step, Norm.L2)
        assert read.counts[0] == 1
        np.testing.assert_allclose(read.sums[0], [0.6 * length, 0.8 * length], rtol=1e-6)


def test_no_rows_add_nothing_and_every_cell_is_remembered():
    query = plain(1.0)
    rows = Rows({"label": np.zeros(0, np.int64), "number": np.zeros(0), "ward": np.zeros(0, np.int64)}, 0)
    assert not query.total(rows, step_of(query.l2)).any()
    assert set(query.keys) == {LABEL, NUMBER, WARD} <= set(rows.cached)
    assert query.columns == ("label", "number", "ward")


def test_tables_are_copied_so_that_nothing_changes_once_it_was_checked():
    table, centroids = np.ones((WARD.size, 1), np.int64), np.ones((1, 1), np.int64)
    part = Scores((WARD,), (table,))
    query = sums(space=part, centroids=centroids, classes=(0,), summed=part, radius=1.0)
    table[:], centroids[:] = 1 << 40, 1 << 40
    assert query.summed.tables[0].max() == query.centroids.max() == 1
    with pytest.raises(ValueError, match="read-only"):
        query.centroids[0] = 0


ONE = Scores((WARD,), (np.ones((WARD.size, 2), np.int64),))
GOOD = {
    "space": ONE,
    "centroids": np.zeros((1, 2), np.int64),
    "classes": (0,),
    "summed": ONE,
    "radius": 1.0,
    "by": LABEL,
}


@pytest.mark.parametrize(
    "wrong",
    [
        {"radius": 0.0},
        {"radius": np.nan},
        {"radius": np.inf},
        {"classes": ()},
        {"classes": (0, 1)},
        {"classes": (3,)},
        {"classes": (-1,)},
        {"classes": (1,), "by": None},
        {"centroids": np.zeros((1, 3), np.int64)},
        {"centroids": np.zeros((1, 2))},
        {"centroids": np.full((1, 2), MOST_SCORE + 1)},
        {"centroids": np.full((1, 2), -(2**63))},
    ],
)
def test_clusters_that_do_not_fit_are_refused(wrong):
    assert sums(**GOOD).shape == (1, 3)
    with pytest.raises(SettingError):
        sums(**(GOOD | wrong))


@pytest.mark.parametrize(
    ("cells", "tables"),
    [
        ((), ()),
        ((WARD,), ()),
        ((WARD,), (np.zeros((3, 1), np.int64),)),
        ((WARD,), (np.zeros((4, 0), np.int64),)),
        ((WARD,), (np.zeros(4, np.int64),)),
        ((WARD,), (np.zeros((4, 1)),)),
        ((WARD,), (np.full((4, 1), MOST_SCORE + 1),)),
        ((WARD,), (np.full((4, 1), 2**64 - 1, np.uint64),)),
    ],
)
def test_scores_that_do_not_fit_are_refused(cells, tables):
    with pytest.raises(SettingError):
        Scores(cells, tables)
