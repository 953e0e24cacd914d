"""Moments of clusters: a row adds to one of them, exactly, within its L2 or its L1 bound, whoever else is there."""

import itertools
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_cluster_sums import LABEL, TABLES, WARD, looked_up, many, queries, rows_of

from threea import hospital
from threea.anonymize.clipping import Norm, step_of
from threea.anonymize.cluster_moments import ClusterMoments
from threea.anonymize.cluster_sums import Scores
from threea.anonymize.events import Pure
from threea.anonymize.open_table import open_table
from threea.anonymize.plan import Plan, Step
from threea.anonymize.products import longest_row, product_norms, read_products, summed_products
from threea.anonymize.projection import Projection
from threea.anonymize.query import Answer
from threea.anonymize.vectors import Frame, Moment, Vectors
from threea.budget import Budget
from threea.errors import SettingError
from threea.ledger import Ledger

LAW = settings(max_examples=60, deadline=None)
NORMS = st.sampled_from(list(Norm))
WEIGHTS = st.sampled_from([(1.0, 1.0, 1.0), (0.2, 1.0, 5.0), (1.0, 2.0**-20, 3.0), (0.5, 1.0)])


@st.composite
def moments(draw):
    sums = draw(queries())
    summed = sums.summed
    if draw(st.booleans()):
        rng = np.random.default_rng(draw(st.integers(0, 9999)))
        summed = Projection(summed, rng.integers(-(2**14), 2**14 + 1, (summed.width, draw(st.integers(1, 3)))))
    parts = {name: getattr(sums, name) for name in ("space", "centroids", "classes", "radius", "by")}
    return ClusterMoments(summed=summed, weights=draw(WEIGHTS), **parts)


@LAW
@given(moments(), TABLES, NORMS, st.sampled_from([1.0, 2.0**10, 2.0**25]))
def test_one_row_alone_is_within_the_bound(query, table, norm, coarser):
    step = step_of(norm.bound(query)) * coarser
    for row in table:
        whole = query.total(rows_of([row]), step, norm)
        assert whole.shape == (query.size,)
        length = sum(abs(int(number)) ** norm.power for number in whole)
        assert length <= (Fraction(norm.bound(query)) / Fraction(step)) ** norm.power


@LAW
@given(moments(), TABLES, NORMS)
def test_the_sum_does_not_depend_on_how_rows_are_cut(query, table, norm):
    step = step_of(norm.bound(query))
    whole = query.total(rows_of(table), step, norm)
    np.testing.assert_array_equal(whole, sum(query.total(rows_of([row]), step, norm) for row in table))
    np.testing.assert_array_equal(whole, query.total(rows_of(table[::-1]), step, norm))


@LAW
@given(moments(), TABLES, TABLES, NORMS)
def test_a_further_row_moves_one_cluster_only(query, table, others, norm):
    step = step_of(norm.bound(query))
    before = query.total(rows_of(table), step, norm).reshape(query.shape)
    for other in others:
        moved = query.total(rows_of([*table, other]), step, norm).reshape(query.shape) - before
        assert np.count_nonzero(moved.any(axis=1)) <= 1


def plain(radius, weights=(0.5, 1.0, 2.0), basis=None):
    rng = np.random.default_rng(3)
    space = Scores((WARD,), (rng.integers(-300, 301, (WARD.size, 3)),))
    return ClusterMoments(
        space=space,
        centroids=rng.integers(-300, 301, (4, 3)),
        classes=(0, 1, 1, 2),
        summed=space if basis is None else Projection(space, basis),
        radius=radius,
        weights=weights,
        by=LABEL,
    )


@pytest.mark.parametrize("norm", Norm)
def test_long_chunks_give_the_sums_of_short_ones(norm):
    table, query = many(40_000), plain(1.0)
    step = step_of(norm.bound(query))
    parts = sum(query.total(rows_of(table[start : start + 777]), step, norm) for start in range(0, len(table), 777))
    np.testing.assert_array_equal(query.total(rows_of(table), step, norm), parts)


@pytest.mark.parametrize("norm", Norm)
@pytest.mark.parametrize("basis", [None, np.array([[2**14, 0], [0, 3000], [-5000, 2**13]])])
def test_silent_answers_are_the_moments(norm, basis):
    """Nothing is longer than the radius, so nothing is shortened; rounding moves a product by one part in thousands."""
    table, query = many(500), plain(8.0, basis=basis)
    step = step_of(norm.bound(query))
    value = query.total(rows_of(table), step, norm).reshape(query.shape) * step
    found = query.read(Answer(value, 5.0), step, norm)
    width = query.summed.width
    counts, sums, products = np.zeros(4), np.zeros((4, width)), np.zeros((4, width, width))
    for row in table:
        (place,) = np.flatnonzero(query.total(rows_of([row]), step, norm).reshape(query.shape)[:, 0])
        x = np.array(looked_up(query.space, row)) / 256
        if basis is not None:
            x = x @ basis / 2**14 / np.linalg.norm(x)
        counts[place] += 1
        sums[place] += x
        products[place] += np.outer(x, x)
    np.testing.assert_allclose(found.counts, counts, rtol=1e-7)
    np.testing.assert_allclose(found.sums, sums, atol=500 * 1e-5)
    np.testing.assert_allclose(found.products, products, atol=500 * 0.03)
    assert found.stddevs[0] == pytest.approx(10.0)
    # 64 is the radius squared, 2 the weight; beside the diagonal a product stands for two, or for its square root.
    assert found.stddevs[2] == pytest.approx(5 * 64 / 2 / (2 if norm is Norm.L1 else np.sqrt(2)), rel=0.01)


def test_without_a_third_weight_there_are_no_products():
    assert plain(1.0, weights=(1.0, 1.0)).shape == (4, 4)
    assert plain(1.0).shape == (4, 1 + 3 + 6)


def test_a_query_can_be_sent_to_another_process():
    query = plain(1.0, basis=np.eye(3, dtype=np.int64))
    again, table = pickle.loads(pickle.dumps(query)), many(50)
    step = step_of(query.l1)
    np.testing.assert_array_equal(
        again.total(rows_of(table), step, Norm.L1), query.total(rows_of(table), step, Norm.L1)
    )


@given(st.lists(st.integers(-(2**20), 2**20), min_size=1, max_size=5), NORMS)
def test_norms_of_products_are_exact_or_too_long(numbers, norm):
    exact = summed_products(np.array([numbers], np.float64), norm)
    length = sum(abs(int(number)) ** norm.power for number in exact)
    (found,) = product_norms(np.array([numbers], np.float64), norm).tolist()
    assert found == length or found >= 2**60


@pytest.mark.parametrize("norm", Norm)
def test_products_of_a_row_of_the_longest_length_fit_in_their_steps(norm):
    longest = longest_row(10_000, norm)
    for row in itertools.product(range(-longest, longest + 1, 7), repeat=2):
        if sum(abs(number) ** norm.power for number in row) <= longest**norm.power:
            assert product_norms(np.array([row], np.float64), norm)[0] <= 10_000**norm.power


@pytest.mark.parametrize("norm", Norm)
def test_products_are_read_as_symmetric_matrices(norm):
    row = np.array([[3.0, -2.0, 5.0]])
    (matrix,), _ = read_products(summed_products(row, norm)[None] + 0.0, 1.0, 3, norm)
    np.testing.assert_allclose(matrix, np.outer(row, row))


def test_lookups_without_an_l1_bound_are_refused_under_laplace_noise():
    cells = hospital.schema()["age"].cells(4)
    frame = Frame(cells=(cells,), scores=((1,) * cells.size,), grid=(1,), kept=(0,))
    ledger = Ledger()
    table = open_table(hospital.stays(50), schema=hospital.schema(), budget=Budget(1.0), ledger=ledger)
    charge = Plan.calibrate(Budget(1.0), [Step(name="ask", weight=1.0, kind=Pure)])["ask"]
    with pytest.raises(SettingError, match="finite L1 bound"):
        table.measure(Vectors(frame=frame, radius=1.0, moment=Moment.SUMS), charge)
    assert ledger.releases() == []


ONE = Scores((WARD,), (np.ones((WARD.size, 2), np.int64),))
GOOD = {
    "space": ONE,
    "centroids": np.zeros((1, 2), np.int64),
    "classes": (0,),
    "summed": ONE,
    "radius": 1.0,
    "weights": (1.0, 1.0, 1.0),
    "by": LABEL,
}


@pytest.mark.parametrize(
    "wrong",
    [
        {"radius": 0.0},
        {"radius": np.nan},
        {"weights": (1.0,)},
        {"weights": (1.0, 0.0)},
        {"weights": (1.0, np.nan, 1.0)},
        {"weights": (1.0, 1.0, np.inf)},
        {"classes": (3,)},
        {"centroids": np.zeros((1, 3), np.int64)},
    ],
)
def test_clusters_that_do_not_fit_are_refused(wrong):
    assert ClusterMoments(**GOOD).shape == (1, 6)
    with pytest.raises(SettingError):
        ClusterMoments(**(GOOD | wrong))


@pytest.mark.parametrize(
    "basis",
    [
        np.zeros((3, 1), np.int64),
        np.zeros((2, 3), np.int64),
        np.zeros((2, 0), np.int64),
        np.zeros(2, np.int64),
        np.zeros((2, 1)),
        np.full((2, 1), 2**14 + 1),
    ],
)
def test_a_basis_that_does_not_fit_is_refused(basis):
    with pytest.raises(SettingError):
        Projection(ONE, basis)


def test_a_basis_is_copied_and_a_row_of_zeros_stays_there():
    basis = np.full((2, 1), 2**14)
    nothing = Scores((WARD,), (np.zeros((WARD.size, 2), np.int64),))
    projection = Projection(nothing, basis)
    basis[:] = 1 << 40
    ((_, found),) = projection.blocks(rows_of(many(5)))
    assert projection.basis.max() == 2**14
    assert not found.any()
