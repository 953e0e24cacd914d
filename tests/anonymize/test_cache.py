"""The door's cache: it saves reading rows again, and changes nothing else."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from threea.anonymize import cache as module
from threea.anonymize.accountant import Line
from threea.anonymize.cache import Cache, Fill
from threea.anonymize.events import Gaussian, Pure, Sampled
from threea.anonymize.gradient import Gradient
from threea.anonymize.open_table import open_table
from threea.anonymize.plan import Plan
from threea.anonymize.query import Count, Marginal, Rows, Stack
from threea.anonymize.score_gradient import ScoreGradient
from threea.anonymize.selection import QualityScores
from threea.backends import MemoryBackend
from threea.budget import Budget
from threea.errors import RowFunctionError
from threea.table.cells import Categories, Digits, Merged
from threea.table.schema import Schema
from threea.testing import SilentNoise

A, B, C = (Categories(column=name, count=3, missing=True) for name in "abc")
MERGED = Merged(cells=A, groups=(0, 0, 1, 1))


def chunk(count, *cells, seed=0):
    """Make rows whose cells were worked out."""
    rng = np.random.default_rng(seed)
    rows = Rows({name: rng.integers(-1, 3, count) for name in "abc"}, count)
    for each in cells:
        rows.index(each)
    return rows


def taught(cache, keys, chunks):
    fill = cache.fill(keys)
    for rows in chunks:
        if fill.fits:
            fill.add(rows)
    cache.learn(fill)
    return fill


# Lessons.


def test_a_lesson_keeps_what_was_asked_and_nothing_else():
    fill, rows = Fill((A,), 100), chunk(10, A, B, MERGED)
    fill.add(rows)
    (kept,) = fill.chunks
    assert kept.values == {}
    assert kept.count == 10
    assert list(kept.cached) == [A]
    np.testing.assert_array_equal(kept.index(A), A.index(rows.values["a"]))


def test_a_lesson_fits_up_to_the_last_byte():
    fill = Fill((A, B), 40)
    fill.add(chunk(10, A, B))
    fill.add(chunk(10, A, B))
    assert fill.fits
    assert len(fill.chunks) == 2
    fill.add(chunk(1, A, B))
    assert not fill.fits
    assert fill.chunks == []


def test_a_lesson_about_nothing_fits_nowhere():
    assert not Fill((), 1 << 30).fits


# Cache.


def test_what_was_learned_is_recalled():
    cache = Cache()
    assert cache.recall((A,)) is None
    chunks = [chunk(5, A, seed=1), chunk(7, A, seed=2)]
    taught(cache, (A,), chunks)
    assert cache.recall((B,)) is None
    assert cache.recall((A, B)) is None
    assert cache.recall(()) is None
    found = cache.recall((A,))
    assert [rows.count for rows in found] == [5, 7]
    for rows, original in zip(found, chunks, strict=True):
        np.testing.assert_array_equal(rows.index(A), original.index(A))
        assert rows.values == {}


def test_lessons_of_the_same_chunks_add_up():
    cache = Cache()
    taught(cache, (A,), [chunk(5, A, seed=1), chunk(7, A, seed=2)])
    taught(cache, (B,), [chunk(5, B, seed=1), chunk(7, B, seed=2)])
    for rows, seed in zip(cache.recall((A, B)), (1, 2), strict=True):
        original = chunk(rows.count, A, B, seed=seed)
        np.testing.assert_array_equal(rows.index(A), original.index(A))
        np.testing.assert_array_equal(rows.index(B), original.index(B))


def test_a_lesson_of_other_chunks_takes_the_place_of_what_was_known():
    cache = Cache()
    taught(cache, (A,), [chunk(5, A), chunk(7, A)])
    taught(cache, (B,), [chunk(12, B)])
    assert cache.recall((A,)) is None
    assert cache.recall((A, B)) is None
    assert [rows.count for rows in cache.recall((B,))] == [12]


def test_a_lesson_that_does_not_fit_leaves_what_was_known():
    cache = Cache(most_bytes=15)
    taught(cache, (A,), [chunk(5, A), chunk(7, A)])
    fill = taught(cache, (B,), [chunk(5, B), chunk(7, B)])
    assert not fill.fits
    assert [rows.count for rows in cache.recall((A,))] == [5, 7]
    assert cache.recall((B,)) is None


def test_what_is_worked_out_from_memory_is_forgotten_when_there_is_too_much():
    """Queries of ever other merged cells must not make it grow beyond its bound."""
    cache = Cache(most_bytes=30)
    taught(cache, (A,), [chunk(10, A)])
    for groups in [(0, 1, 2, 3), (0, 0, 1, 1), (0, 1, 1, 1), (0, 1, 0, 1), (0, 0, 0, 0)]:
        merged = Merged(cells=A, groups=groups)
        (rows,) = cache.recall((A,))
        assert module._size([rows]) <= 30
        np.testing.assert_array_equal(rows.index(merged), merged.index(chunk(10).values["a"]))


def test_merged_cells_are_kept_while_they_fit_and_make_room_for_a_lesson():
    cache = Cache(most_bytes=30)
    taught(cache, (A,), [chunk(10, A)])
    cache.recall((A,))[0].index(MERGED)
    assert MERGED in cache.recall((A,))[0].cached
    cache.fill(())
    assert MERGED in cache.recall((A,))[0].cached
    assert taught(cache, (B, C), [chunk(10, B, C)]).fits
    (rows,) = cache.recall((A, B, C))
    assert module._size([rows]) == 30
    np.testing.assert_array_equal(rows.index(MERGED), chunk(10).index(MERGED))


def test_remembered_arrays_cannot_be_changed():
    rows = chunk(5, A, MERGED)
    for cells in (A, MERGED):
        with pytest.raises(ValueError, match="read-only"):
            rows.index(cells)[0] = 1


@pytest.mark.parametrize("size", [1, 2, 127, 128, 129, 32768, 32769])
def test_cell_numbers_fit_in_the_bytes_they_get(size):
    cells = Categories(column="x", count=size, missing=False)
    rows = Rows({"x": np.array([-1, 0, size // 2, size - 1, size])}, 5)
    assert rows.index(cells).tolist() == [0, 0, size // 2, size - 1, 0]
    assert rows.index(cells).itemsize == (1 if size <= 128 else 2 if size <= 32768 else 4)


def test_values_without_a_cell_have_number_minus_one():
    rows = Rows({"x": np.array([np.nan, 1.0])}, 2)
    assert rows.index(Digits(column="x")).tolist() == [-1, Digits.STEPS.index(1.0)]


def test_scores_are_known_of_the_last_candidates_alone():
    cache, worked_out = Cache(), []
    one, other = (QualityScores((Marginal((A,)),), (np.zeros(4),)) for _ in range(2))

    def scores(gaps):
        return cache.scores(gaps, lambda: worked_out.append(gaps) or np.array([len(worked_out)])).tolist()

    assert [scores(one), scores(one), scores(other), scores(other), scores(one)] == [[1], [1], [2], [2], [3]]
    assert len(worked_out) == 3
    assert all(found is expected for found, expected in zip(worked_out, [one, other, one], strict=True))


def test_candidates_cannot_change_once_they_are_scored():
    counts = np.zeros(4)
    gaps = QualityScores((Marginal((A,)),), (counts,))
    counts[0] = 2.0**60
    assert gaps.expected[0].tolist() == [0.0] * 4
    with pytest.raises(ValueError, match="read-only"):
        gaps.expected[0][0] = 1.0


def test_nothing_of_it_leaves():
    cache = Cache()
    taught(cache, (A,), [chunk(1379, A)])
    fill = cache.fill((B,))
    fill.add(chunk(1379, B))
    for thing in (cache, fill, cache.recall((A,))[0]):
        for act in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot be copied or pickled"):
                act(thing)
        assert "1379" not in repr(thing).partition(" at 0x")[0]
        assert "array" not in repr(thing)
    assert repr(cache) == "Cache()"


# Behind the door.

SCHEMA = Schema.of({name: {"kind": "categorical", "categories": ["x", "y", "z"]} for name in "abc"})
CELLS = tuple(column.cells(8) for column in SCHEMA.columns)
HALVES = Merged(cells=CELLS[0], groups=tuple(n % 2 for n in range(CELLS[0].size)))
ROWS = 500


class Counting(MemoryBackend):
    """Counts how often the rows are read, and can change how they are cut."""

    __slots__ = ("passes", "width")

    def batches(self, columns):
        self.passes = getattr(self, "passes", 0) + 1
        yield from self._table.select(list(columns)).to_batches(max_chunksize=getattr(self, "width", 64))


def rows():
    rng = np.random.default_rng(4)
    return pa.table({name: rng.choice(["x", "y", "z", "?"], ROWS) for name in "abc"})


def door():
    backend = Counting(rows())
    table = open_table(backend, schema=SCHEMA, budget=Budget(500.0, 0.5), noise=SilentNoise())
    backend.passes = 0
    return table, backend


def charge(event=None, count=40):
    return Plan(Budget(500.0, 0.5), (Line("step", event or Gaussian(50.0), count),))["step"]


QUERIES = {
    "marginal": Marginal((CELLS[0], CELLS[1])),
    "merged": Marginal((HALVES, CELLS[1])),
    "gradient": Gradient(CELLS[1], (0, 1, 2), (HALVES, CELLS[0]), np.ones((3, 2 + CELLS[0].size)), (0.5,) * 3, 0.5),
    "score gradient": ScoreGradient(
        CELLS[0], np.arange(CELLS[0].size)[:, None] / 9, np.zeros(CELLS[0].size), (HALVES,), np.ones((1, 2)), 0.5
    ),
    "stack": Stack((Marginal((HALVES,)), Marginal((CELLS[1],)))),
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_question_asked_again_is_answered_alike_without_reading_the_rows(name):
    (table, backend), paid = door(), charge()
    first = table.measure(QUERIES[name], paid).value
    assert backend.passes == 1
    for _ in range(2):
        np.testing.assert_array_equal(table.measure(QUERIES[name], paid).value, first)
    assert backend.passes == 1
    assert np.any(first)


def test_all_questions_about_known_cells_are_answered_from_memory():
    (table, backend), paid = door(), charge()
    table.measure(Marginal(CELLS[:2]), paid)
    found = {name: table.measure(query, paid).value for name, query in QUERIES.items()}
    assert backend.passes == 1
    for name, query in QUERIES.items():
        np.testing.assert_array_equal(found[name], door()[0].measure(query, charge()).value)


def test_a_column_may_be_asked_about_twice_the_first_time_and_from_memory():
    (table, backend), paid = door(), charge()
    query = Marginal((HALVES, CELLS[0]))
    first, again = (table.measure(query, paid).value for _ in range(2))
    assert backend.passes == 1
    np.testing.assert_array_equal(first, again)
    assert first.sum() == ROWS
    assert all(np.count_nonzero(column) <= 1 for column in first.T)


def test_questions_that_need_more_than_cells_read_the_rows():
    (table, backend), paid = door(), charge()
    for passes in (1, 2):
        assert table.measure(Count(), paid).value == ROWS
        assert backend.passes == passes


def test_each_charge_is_paid_though_nothing_is_read():
    (table, _), paid = door(), charge(count=2)
    table.measure(QUERIES["marginal"], paid)
    table.measure(QUERIES["marginal"], paid)
    with pytest.raises(Exception, match="asked as often as planned"):
        table.measure(QUERIES["marginal"], paid)


@pytest.mark.parametrize("most", [0, 1, ROWS, 2 * ROWS - 1])
def test_rows_that_do_not_fit_are_read_again_for_the_same_answer(most):
    (table, backend), paid = door(), charge()
    table._interior = replace(table._interior, cache=Cache(most))
    expected = door()[0].measure(QUERIES["marginal"], charge()).value
    for passes in (1, 2, 3):
        np.testing.assert_array_equal(table.measure(QUERIES["marginal"], paid).value, expected)
        assert backend.passes == passes
    assert module._size(table._interior.cache._chunks) == 0


def test_no_more_is_kept_than_fits():
    """Two columns fit and a third does not; whatever is asked, answers stay right and the cache small."""
    (table, backend), paid = door(), charge()
    table._interior = replace(table._interior, cache=Cache(2 * ROWS))
    pairs = [(0, 1), (0, 2), (1, 2), (0, 1)]
    for pair in pairs:
        query = Marginal(tuple(CELLS[place] for place in pair))
        np.testing.assert_array_equal(table.measure(query, paid).value, door()[0].measure(query, charge()).value)
        assert module._size(table._interior.cache._chunks) <= 2 * ROWS
    assert backend.passes == 3


def test_rows_cut_otherwise_do_not_confuse_it():
    (table, backend), paid = door(), charge()
    for width, place in ((64, 0), (100, 1), (64, 2), (500, 0)):
        backend.width = width
        table.measure(Marginal((CELLS[place],)), paid)
        query = Marginal((CELLS[place], CELLS[1]))
        np.testing.assert_array_equal(table.measure(query, paid).value, door()[0].measure(query, charge()).value)


class Coins(SilentNoise):
    """Leaves out every other row."""

    def bernoulli(self, rate, size):
        return np.arange(size) % 2 == 0


def halved():
    backend = Counting(rows())
    table = open_table(backend, schema=SCHEMA, budget=Budget(500.0, 0.5), noise=Coins())
    plan = Plan(Budget(500.0, 0.5), (Line("whole", Gaussian(50.0), 2), Line("half", Sampled(0.5, 100.0), 4)))
    backend.passes = 0
    return table, backend, plan


def test_samples_read_their_columns_once_and_leave_the_cells_alone():
    table, backend, plan = halved()
    query, other = Marginal((CELLS[0],)), Marginal((CELLS[0], CELLS[1]))
    half = table.sampled(0.5).measure(query, plan["half"]).value.sum()
    assert table._interior.cache.recall(query.keys) is None
    assert table.measure(query, plan["whole"]).value.sum() == ROWS
    assert table.sampled(0.5).measure(query, plan["half"]).value.sum() == half < 0.6 * ROWS
    assert backend.passes == 2
    # Only the column that is not known yet is read.
    assert table.sampled(0.5).measure(other, plan["half"]).value.sum() == half
    assert backend.passes == 3
    assert table.sampled(0.5).measure(Count(), plan["half"]).value == half
    assert backend.passes == 3


def test_a_sample_of_rows_that_do_not_fit_is_the_same():
    (table, _, plan), (large, backend, paid) = halved(), halved()
    large._interior.cache._most = 100
    for query in (Marginal((CELLS[0],)), Count(), Marginal((CELLS[0],))):
        expected = table.sampled(0.5).measure(query, plan["half"]).value
        np.testing.assert_array_equal(large.sampled(0.5).measure(query, paid["half"]).value, expected)
    assert backend.passes >= 3
    assert not large._interior.cache._columns


def test_a_pass_that_failed_teaches_nothing():
    (table, backend), paid = door(), charge()
    broken = Merged(cells=CELLS[0], groups=tuple(range(CELLS[0].size)))
    object.__setattr__(broken, "groups", (0,))
    with pytest.raises(RowFunctionError):
        table.measure(Marginal((CELLS[1], broken)), paid)
    assert table._interior.cache.recall((CELLS[1],)) is None
    assert table.measure(Marginal((CELLS[1],)), paid).value.sum() == ROWS
    assert backend.passes == 2


def test_choices_from_the_same_candidates_read_the_rows_once():
    (table, backend), paid = door(), charge(Pure(1.0))
    marginals = tuple(Marginal((cells,)) for cells in CELLS)
    gaps = QualityScores(marginals, tuple(np.full(marginal.size, 10.0 * n) for n, marginal in enumerate(marginals)))
    chosen = [table.select(gaps, paid, among=among) for among in (None, (1, 2), (2,), None)]
    assert backend.passes == 1
    assert chosen[1] in (1, 2)
    assert chosen[2] == 2
    assert chosen[0] == chosen[3]
