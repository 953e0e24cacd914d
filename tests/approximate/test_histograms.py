"""P(y) and P(feature | y): exact without noise, and what is sampled follows them."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from threea import hospital
from threea.anonymize.open_table import open_table
from threea.anonymize.query import Answer
from threea.approximate.histograms import HistogramModel, LabelHistograms, draw, proportions
from threea.budget import Budget
from threea.recipes import Independent
from threea.table.cells import Bins, Categories
from threea.table.codec import encode
from threea.table.schema import Schema
from threea.testing import SeededNoise, SilentNoise

FALSE_ALARMS = 1e-6
STAYS = hospital.stays(3_000)
SCHEMA = hospital.schema()
# No deadline: a busy machine is no failure.
LAW = settings(max_examples=100, deadline=None)
COUNTS = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12).map(np.array)


def fitted(table: Any, schema: Schema, *, noise: Any = None, bins: int = 8, target: str | None = None) -> Any:
    private = open_table(table, schema=schema, target=target, budget=Budget(1.0), noise=noise or SilentNoise())
    recipe = Independent(bins=bins)
    return recipe.approximate.fit(private, recipe.plan(private))


@pytest.fixture(scope="module")
def model() -> HistogramModel:
    return fitted(STAYS, SCHEMA)


# What is asked.


def test_silent_noise_gives_the_exact_tables(model: HistogramModel) -> None:
    rows = encode(STAYS, SCHEMA)
    died = rows["died"]
    np.testing.assert_allclose(model.classes, np.bincount(died), rtol=1e-12)
    assert [cells.column for cells in model.features] == [column.name for column in SCHEMA.features]
    for cells, table in zip(model.features, model.tables, strict=True):
        index = SCHEMA[cells.column].cells(8).index(rows[cells.column])
        expected = np.zeros((2, cells.size))
        np.add.at(expected, (died, index), 1)
        np.testing.assert_array_equal(table, expected, cells.column)
    assert model.rows == STAYS.num_rows


def test_without_a_target_features_are_counted_alone() -> None:
    schema = Schema(SCHEMA.columns)
    model = fitted(STAYS, schema)
    assert model.label is None
    assert [cells.column for cells in model.features] == [column.name for column in schema.modelled]
    rows = encode(STAYS, schema)
    for cells, table in zip(model.features, model.tables, strict=True):
        np.testing.assert_array_equal(table[0], np.bincount(cells.index(rows[cells.column]), minlength=cells.size))
    np.testing.assert_allclose(model.classes, [STAYS.num_rows], rtol=1e-12)


def test_a_table_of_labels_alone_is_modelled_by_them() -> None:
    table = pa.table({"person": ["p"] * 10, "label": ["a"] * 7 + ["b"] * 3})
    schema = Schema.of({"person": {"kind": "id"}, "label": {"kind": "categorical", "categories": ["a", "b"]}}, "label")
    model = fitted(table, schema)
    np.testing.assert_array_equal(model.classes, [7, 3, 0])
    assert set(model.sample(100, np.random.default_rng(0))) == {"label"}


def test_all_of_it_is_one_question() -> None:
    (step,) = LabelHistograms().steps(SCHEMA)
    assert (step.count, step.weight) == (1, 1.0)


@pytest.mark.parametrize("bins", [2, 5, 32])
def test_bins_set_the_number_of_cells(bins: int) -> None:
    model = fitted(STAYS, SCHEMA, bins=bins)
    sizes = {cells.column: cells.size for cells in model.features}
    assert sizes["age"] == bins
    assert sizes["lactate"] == bins + 1
    assert sizes["cost"] == bins + 1


# What is made of noisy answers.

LABEL = Categories(column="y", count=2, missing=False)


def answered(*tables: Any, stddev: float = 1.0) -> HistogramModel:
    """Read a model off given noisy (label, feature) tables."""
    parts = tuple(Answer(np.array(table, dtype=np.float64), stddev) for table in tables)
    features = tuple(
        Categories(column=f"f{number}", count=part.value.shape[1], missing=False) for number, part in enumerate(parts)
    )
    flat = np.concatenate([part.value.ravel() for part in parts])
    return HistogramModel.of(LABEL, features, Answer(flat, stddev, parts))


def test_class_totals_combine_the_marginals_by_precision() -> None:
    """Two cells tell a total with half the variance of four: their word counts twice."""
    model = answered([[10, 2], [3, 5]], [[4, 4, 4, 6], [0, 0, 1, 1]])
    np.testing.assert_allclose(model.classes, [(2 * 12 + 18) / 3, (2 * 8 + 2) / 3])


def test_combined_totals_are_more_precise_than_any_marginal() -> None:
    """Over 3,000 seeded draws; the ratio of variances has a standard error of 4%, so 20% is five of them."""
    rng = np.random.default_rng(0)
    exact = [np.full((2, 2), 100.0), np.full((2, 8), 25.0), np.full((2, 4), 50.0)]
    totals = np.array(
        [answered(*(table + rng.normal(0, 1, table.shape) for table in exact)).classes[0] for _ in range(3_000)]
    )
    assert totals.mean() == pytest.approx(200, abs=0.2)
    assert totals.var() == pytest.approx(1 / (1 / 2 + 1 / 8 + 1 / 4), rel=0.2)


def test_the_noisy_number_of_rows_is_never_negative() -> None:
    assert answered([[-10, 2], [-3, 5]]).rows == 0
    assert answered([[10.4, 2], [3, 5]]).rows == 20


def test_histograms_are_the_noisy_counts_over_all_classes(model: HistogramModel) -> None:
    noisy = answered([[10, 2], [3, 5]], [[4, 4, 4, 6], [0, 0, 1, 1]], stddev=3.0)
    np.testing.assert_array_equal(noisy.histograms["f0"].counts, [13, 7])
    assert noisy.histograms["f0"].stddev == pytest.approx(3 * np.sqrt(2))
    np.testing.assert_array_equal(noisy.histograms["y"].counts, noisy.classes)
    assert set(model.histograms) == {column.name for column in SCHEMA.modelled}
    for histogram in model.histograms.values():
        assert histogram.counts.shape == (histogram.cells.size,)


def test_stated_noise_on_the_classes_is_what_they_have() -> None:
    """A mean square over 6,000 seeded numbers has a standard error of 2%, so 10% off is over five of them."""
    rng = np.random.default_rng(1)
    exact = [np.full((2, 2), 100.0), np.full((2, 8), 25.0), np.full((2, 4), 50.0)]
    models = [answered(*(table + rng.normal(0, 3, table.shape) for table in exact), stddev=3.0) for _ in range(3_000)]
    squares = [((model.classes - 200) / model.class_stddev) ** 2 for model in models]
    assert np.mean(squares) == pytest.approx(1, abs=0.1)
    assert models[0].histograms["y"].stddev == models[0].class_stddev


def test_stated_noise_of_a_histogram_is_what_it_has() -> None:
    """Mean squares over 1,000 and more seeded numbers per column, so 25% off is over five standard errors."""
    exact = fitted(STAYS, SCHEMA).histograms
    squares: dict[str, list[float]] = {"diagnosis": [], "cost": []}
    for seed in range(30):
        noisy = fitted(STAYS, SCHEMA, noise=SeededNoise(seed)).histograms
        for column, found in squares.items():
            found += list(((noisy[column].counts - exact[column].counts) / noisy[column].stddev) ** 2)
    assert np.mean(squares["diagnosis"]) == pytest.approx(1, abs=0.25)
    assert np.mean(squares["cost"]) == pytest.approx(1, abs=0.5)


# What is sampled.


def is_drawn_from(observed: Any, expected: Any) -> bool:
    """Tell by Pearson's chi-square whether counts follow a distribution, at the stated false-alarm rate."""
    assert observed[expected == 0].sum() == 0
    observed, expected = observed[expected > 0], expected[expected > 0]
    expected = expected / expected.sum() * observed.sum()
    # Cells of few rows are put together, for the statistic's distribution to hold.
    order = np.argsort(expected)
    observed, expected = observed[order], expected[order]
    few = int(np.searchsorted(np.cumsum(expected), 20.0)) + 1
    observed = np.append(observed[:few].sum(), observed[few:])
    expected = np.append(expected[:few].sum(), expected[few:])
    statistic = ((observed - expected) ** 2 / expected).sum()
    return bool(statistic < chi2.isf(FALSE_ALARMS, max(len(observed) - 1, 1)))


def test_the_check_of_frequencies_can_fail() -> None:
    assert is_drawn_from(np.array([510, 490]), np.array([1.0, 1.0]))
    assert not is_drawn_from(np.array([600, 400]), np.array([1.0, 1.0]))


def test_sampled_frequencies_follow_the_tables(model: HistogramModel) -> None:
    """One chi-square test per feature and class, each with a false-alarm rate of 1e-6; the seed is fixed."""
    chunk = model.sample(100_000, np.random.default_rng(2))
    label = chunk["died"]
    assert is_drawn_from(np.bincount(label), model.classes)
    for cells, table in zip(model.features, model.tables, strict=True):
        index = cells.index(chunk[cells.column])
        for group in (0, 1):
            drawn = np.bincount(index[label == group], minlength=cells.size)
            assert is_drawn_from(drawn, table[group]), (cells.column, group)


def test_features_are_independent_given_the_label(model: HistogramModel) -> None:
    """The name of the recipe that uses it: within a class, wards and admissions are drawn apart. False alarms 1e-6."""
    chunk = model.sample(100_000, np.random.default_rng(3))
    living = chunk["died"] == 0
    pair = chunk["ward"][living] * 3 + chunk["admission_type"][living]
    tables = {cells.column: table[0] for cells, table in zip(model.features, model.tables, strict=True)}
    expected = np.outer(tables["ward"], tables["admission_type"]).ravel()
    assert is_drawn_from(np.bincount(pair, minlength=len(expected)), expected)


def test_sampling_repeats_with_its_generator(model: HistogramModel) -> None:
    first, again, other = (model.sample(500, np.random.default_rng(seed)) for seed in (4, 4, 5))
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])
    assert any(not np.array_equal(first[name], other[name], equal_nan=True) for name in first)


def test_no_rows_can_be_drawn(model: HistogramModel) -> None:
    assert {len(values) for values in model.sample(0, np.random.default_rng(0)).values()} == {0}


def test_a_class_that_never_occurs_is_never_drawn() -> None:
    model = answered([[0.0, 0.0], [3.0, 5.0]])
    assert set(model.sample(1000, np.random.default_rng(0))["y"]) == {1}


def test_classes_that_noise_alone_explains_are_not_drawn() -> None:
    """Of three listed classes that no row has, and "other", noise alone would draw some. The noise is seeded."""
    listed = {"kind": "categorical", "categories": ["False", "True", "never", "nobody", "none"], "open_ended": True}
    schema = Schema.of({"age": {"kind": "integer", "lower": 18, "upper": 100}, "died": listed}, target="died")
    died = ["True" if each else "False" for each in STAYS["died"].to_pylist()]
    rows = pa.table({"age": STAYS["age"], "died": died})
    invented = 0
    for seed in range(5):
        model = fitted(rows, schema, noise=SeededNoise(seed))
        invented += int((model.classes[2:] > 0).sum())
        assert set(model.sample(50_000, np.random.default_rng(0))["died"].tolist()) == {0, 1}, seed
    assert invented > 0, "noise has invented classes"
    assert model.histograms["died"].counts.min() < 0, "what is reported is what was answered"


def test_the_two_largest_classes_are_always_drawn_as_often_as_they_are_told() -> None:
    """Deterministic: without them, classes would be drawn evenly, or one alone."""
    for stddev in (10.0, 100.0):
        model = answered([[40.0, 40.0], [8.0, 8.0]], stddev=stddev)
        assert model.sample(10_000, np.random.default_rng(0))["y"].mean() == pytest.approx(1 / 6, abs=0.02)


def test_ranges_of_a_numeric_target_are_drawn_however_few_their_rows() -> None:
    """A range between others exists; a class may not."""
    label = Bins(column="y", edges=(0.0, 1.0, 2.0, 3.0), missing=False)
    counts = Answer(np.array([[90.0], [30.0], [2.0]]), 5.0)
    model = HistogramModel.of(
        label, (Categories(column="f", count=1, missing=False),), Answer(counts.value.ravel(), 5.0, (counts,))
    )
    assert model.sample(2000, np.random.default_rng(0))["y"].max() > 2


def test_missing_numbers_are_drawn_even_where_noise_hides_them() -> None:
    """A learner that never saw a missing number takes one for a 0; without noise nothing hides."""
    cells = Bins(column="f", edges=(0.0, 1.0, 2.0), missing=True)
    shares = []
    for stddev in (20.0, 0.0):
        part = Answer(np.array([[300.0, 310.0, -30.0], [200.0, 190.0, 0.0]]), stddev)
        model = HistogramModel.of(LABEL, (cells,), Answer(part.value.ravel(), stddev, (part,)))
        chunk = model.sample(20_000, np.random.default_rng(0))
        shares.append([np.isnan(chunk["f"][chunk["y"] == group]).mean() for group in (0, 1)])
    assert shares[0] == pytest.approx([0.01, 0.01], abs=0.005), "half a standard deviation in 970 rows is 1%"
    assert shares[1] == [0, 0]


@LAW
@given(st.lists(st.lists(st.floats(-50, 50), min_size=3, max_size=3), min_size=1, max_size=3), st.integers(0, 2**32))
def test_drawn_cells_are_cells_with_mass(tables: list[list[float]], seed: int) -> None:
    counts = np.array(tables)
    group = np.repeat(np.arange(len(counts)), 20)
    shares = np.array([proportions(row) for row in counts])
    cells = draw(shares, group, np.random.default_rng(seed))
    assert (shares[group, cells] > 0).all()


# The nearest distribution to noisy counts.


@LAW
@given(COUNTS)
def test_proportions_are_a_distribution(counts: Any) -> None:
    shares = proportions(counts)
    assert shares.shape == counts.shape
    assert (shares >= 0).all()
    assert shares.sum() == pytest.approx(1.0)


@LAW
@given(COUNTS.filter(lambda counts: counts.sum() > 1e-3))
def test_proportions_are_the_euclidean_projection(counts: Any) -> None:
    """Karush-Kuhn-Tucker: what is positive was shifted by one amount, what is zero would not pass it."""
    total = counts.sum()
    nearest = proportions(counts) * total
    positive = nearest > 0
    shift = (counts - nearest)[positive]
    scale = np.abs(counts).max()
    np.testing.assert_allclose(shift, shift[0], atol=1e-9 * scale)
    assert (counts[~positive] <= shift[0] + 1e-9 * scale).all()


@LAW
@given(COUNTS.filter(lambda counts: counts.sum() > 1e-3), st.integers(0, 2**32))
def test_no_other_distribution_is_nearer(counts: Any, seed: int) -> None:
    total = counts.sum()
    nearest = np.linalg.norm(counts - proportions(counts) * total)
    others = np.random.default_rng(seed).dirichlet(np.full(len(counts), 0.3), 50) * total
    assert (np.linalg.norm(counts - others, axis=1) >= nearest - 1e-9 * np.abs(counts).max()).all()


@LAW
@given(COUNTS)
def test_proportions_keep_the_order_of_the_counts(counts: Any) -> None:
    shares = proportions(counts)
    order = np.argsort(counts, kind="stable")
    assert (np.diff(shares[order]) >= 0).all()


@LAW
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=12).map(np.array).filter(lambda counts: counts.sum() > 1e-3))
def test_counts_without_noise_are_only_divided(counts: Any) -> None:
    np.testing.assert_allclose(proportions(counts), counts / counts.sum(), atol=1e-12)


@pytest.mark.parametrize("counts", [[0.0, 0.0, 0.0], [-1.0, -5.0], [3.0, -3.0], [-1e300, 1.0]])
def test_counts_that_add_up_to_nothing_give_an_even_spread(counts: list[float]) -> None:
    np.testing.assert_array_equal(proportions(np.array(counts)), np.full(len(counts), 1 / len(counts)))


def test_empty_cells_of_a_long_tail_get_little() -> None:
    """Cutting negative counts off at 0 would leave half of the noise: here a third of all mass. Seeded."""
    counts = np.zeros(1000)
    counts[:10] = 1000.0
    noisy = counts + np.random.default_rng(0).normal(0, 10, 1000)
    cut = np.maximum(noisy, 0) / np.maximum(noisy, 0).sum()
    assert proportions(noisy)[10:].sum() < cut[10:].sum() / 5
