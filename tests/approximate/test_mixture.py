"""Clusters within classes: samples keep what depends on what, and any table will do."""

import math

import numpy as np
import pyarrow as pa
import pytest

from threea.anonymize.open_table import open_table
from threea.anonymize.plan import Plan
from threea.approximate.coordinates import ClusterAnswer, normal_scores, tilted
from threea.approximate.denoise import proportions
from threea.approximate.label_counts import CLASSES
from threea.approximate.mixture import CLUSTERS, HISTOGRAMS, Mixture
from threea.budget import Adjacency, Budget
from threea.errors import SettingError
from threea.table import codec
from threea.table.cells import Bins
from threea.table.schema import Schema
from threea.testing import SeededNoise, SilentNoise


def fitted(table, schema, *, noise=None, epsilon=100.0, adjacency=Adjacency.ADD_REMOVE, **settings):
    """Fit, without noise by default."""
    private = open_table(table, schema=schema, budget=Budget(epsilon, 1e-6, adjacency), noise=noise or SilentNoise())
    mixture = Mixture(**settings)
    return mixture.fit(private, Plan.calibrate(private.budget, mixture.steps(private.schema)))


NAMES = ["a", "b", "c", "d"]
KNOTTED = Schema.of(
    {f"n{n}": {"kind": "real", "lower": -5.0, "upper": 5.0, "nullable": False} for n in range(4)}
    | {f"k{n}": {"kind": "categorical", "categories": ["u", "v"], "nullable": False} for n in range(4)}
    | {"y": {"kind": "categorical", "categories": NAMES[:2], "nullable": False}},
    target="y",
)


def knotted(rows, seed=0):
    """Return rows of two hidden kinds in each class: columns depend on one another, but hardly on the class."""
    rng = np.random.default_rng(seed)
    label, kind = rng.integers(0, 2, rows), rng.integers(0, 2, rows)
    # Within a class, kinds differ in all columns; between the classes, in which columns go together.
    signs = np.where(label[:, None] == 0, [1, 1, 1, 1], [1, -1, 1, -1]) * (2 * kind - 1)[:, None]
    numbers = 1.5 * signs + rng.standard_normal((rows, 4))
    words = np.where(rng.random((rows, 4)) < 0.9, signs > 0, signs < 0)
    columns = {f"n{n}": numbers[:, n] for n in range(4)}
    columns |= {f"k{n}": np.where(words[:, n], "u", "v") for n in range(4)}
    return pa.table(columns | {"y": np.array(NAMES)[label]})


def numbers_of(chunk, label):
    return np.column_stack([chunk[f"n{n}"][chunk["y"] == label] for n in range(4)])


def test_clusters_keep_what_depends_on_what():
    table = knotted(8_000)
    chunk = fitted(table, KNOTTED).sample(8_000, np.random.default_rng(1))
    real = codec.encode(table, KNOTTED)
    for label in (0, 1):
        found, expected = (np.corrcoef(numbers_of(each, label).T) for each in (chunk, real))
        # Correlations are about 0.7 up or down; columns that are independent given the class would have none.
        np.testing.assert_allclose(found, expected, atol=0.12)
        agree = [np.mean(each["k0"][each["y"] == label] == each["k1"][each["y"] == label]) for each in (chunk, real)]
        assert agree[0] == pytest.approx(agree[1], abs=0.06)
        assert abs(agree[1] - 0.5) > 0.25


def test_with_noise_dependence_is_found_still():
    chunk = fitted(knotted(20_000), KNOTTED, noise=SeededNoise(4), epsilon=1.0).sample(9_000, np.random.default_rng(1))
    assert np.corrcoef(numbers_of(chunk, 0).T)[0, 1] > 0.4
    assert np.corrcoef(numbers_of(chunk, 1).T)[0, 1] < -0.4


def test_without_noise_columns_are_distributed_as_the_rows_are():
    table = knotted(8_000)
    model = fitted(table, KNOTTED)
    real = codec.encode(table, KNOTTED)
    chunk = model.sample(40_000, np.random.default_rng(2))
    assert model.summary.private_rows == 8_000
    for label in (0, 1):
        found, expected = (numbers_of(each, label) for each in (chunk, real))
        np.testing.assert_allclose(found.mean(axis=0), expected.mean(axis=0), atol=0.08)
        np.testing.assert_allclose(found.std(axis=0), expected.std(axis=0), atol=0.08)


def test_clusters_are_fewer_where_there_is_more_noise_and_at_least_one_for_each_class():
    table = knotted(4_000)
    few, many = (len(fitted(table, KNOTTED, epsilon=epsilon).classes) for epsilon in (0.1, 100.0))
    assert few == 2 < many
    few, many = (len(fitted(table, KNOTTED, sigma_max=sigma_max).classes) for sigma_max in (0.0005, 0.05))
    assert few < many


WIDE = 150


def wide(rows, seed=0):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, rows)
    values = rng.standard_normal((rows, WIDE)) + label[:, None] * np.linspace(-1, 1, WIDE)
    table = pa.table({f"c{n}": values[:, n] for n in range(WIDE)} | {"y": np.array(NAMES)[label]})
    real = {"kind": "real", "lower": -6.0, "upper": 6.0, "nullable": False}
    label = {"kind": "categorical", "categories": NAMES[:2], "nullable": False}
    return table, Schema.of({f"c{n}": real for n in range(WIDE)} | {"y": label}, target="y")


def test_of_many_columns_scores_are_summed_and_tell_the_classes_apart():
    table, schema = wide(1_500)
    model = fitted(table, schema, epsilon=0.5)
    assert {column.heaviest for column in model.columns} == {None}
    chunk = model.sample(8_000, np.random.default_rng(0))
    apart = [chunk[f"c{n}"][chunk["y"] == 1].mean() - chunk[f"c{n}"][chunk["y"] == 0].mean() for n in range(WIDE)]
    assert np.corrcoef(apart, np.linspace(-1, 1, WIDE))[0, 1] > 0.95
    assert np.ptp(apart) > 0.8
    histogram = model.summary.histograms["c0"]
    assert histogram.counts.sum() == pytest.approx(1_500)
    assert histogram.stddev == pytest.approx(model.noise[HISTOGRAMS])


def mixed(rows, target, seed=0):
    """Return a table of numbers (some missing, some spiked, logarithmic or whole), dates and categories."""
    rng = np.random.default_rng(seed)
    length = rng.normal(0, 1, rows)
    length[rng.random(rows) < 0.2] = np.nan
    plain = {
        "length": pa.array(length, from_pandas=True),
        "count": pa.array(np.where(rng.random(rows) < 0.6, 0, rng.poisson(5.0, rows))),
        "cost": pa.array(np.exp(rng.normal(3, 1, rows)).clip(1, 1e4)),
        "day": pa.array(rng.integers(18_000, 19_000, rows).astype("datetime64[D]")),
        "ward": pa.array(rng.choice(NAMES, rows)),
        "flag": pa.array(rng.random(rows) < 0.2),
        "same": pa.array(["x"] * rows, pa.string()),
    }
    described = {
        "length": {"kind": "real", "lower": -4.0, "upper": 4.0},
        "count": {"kind": "integer", "lower": 0, "upper": 50, "special": [0], "nullable": False},
        "cost": {"kind": "real", "lower": 1.0, "upper": 1e4, "log": True, "special": [0.0]},
        "day": {"kind": "date", "lower": "2019-01-01", "upper": "2023-01-01"},
        "ward": {"kind": "categorical", "categories": NAMES[:3], "open_ended": True},
        "flag": {"kind": "boolean"},
        "same": {"kind": "categorical", "categories": ["x"], "nullable": False},
    }
    return pa.table(plain), Schema.of(described, target=target)


@pytest.mark.parametrize("target", [None, "ward", "flag", "cost", "count", "day", "same"])
def test_any_table_is_sampled_as_its_schema_says(target):
    table, schema = mixed(3_000, target)
    model = fitted(table, schema)
    chunk = model.sample(9_000, np.random.default_rng(2))
    assert set(chunk) == {column.name for column in schema.columns} == set(model.summary.histograms)
    again = codec.encode(codec.decode(chunk, schema, table.schema, first_row=0), schema)
    for column in schema.columns:
        np.testing.assert_array_equal(np.isnan(again[column.name]), np.isnan(chunk[column.name]), column.name)
    # Six standard errors of a share of 9,000 draws: 0.03.
    if target != "cost":
        assert np.isnan(chunk["length"]).mean() == pytest.approx(0.2, abs=0.05)
    assert (chunk["count"] == 0).mean() == pytest.approx(0.6, abs=0.05)
    assert (chunk["flag"] == 1).mean() == pytest.approx(0.2, abs=0.05)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 1000.0])
@pytest.mark.parametrize("rows", [1, 300])
@pytest.mark.parametrize("target", [None, "ward", "cost"])
def test_samples_stay_within_the_schema_at_any_noise(adjacency, epsilon, rows, target):
    table, schema = mixed(rows, target)
    model = fitted(table, schema, noise=SeededNoise(3), epsilon=epsilon, adjacency=adjacency)
    chunk = model.sample(200, np.random.default_rng(0))
    assert all(len(values) == 200 for values in chunk.values())
    known = chunk["cost"][~np.isnan(chunk["cost"])]
    assert ((known == 0) | ((known >= 1) & (known <= 1e4))).all()
    assert set(chunk["ward"]) <= {-1, 0, 1, 2, 3}
    assert set(chunk["same"]) == {0}
    assert all(np.allclose(shares.sum(axis=1), 1) for shares in model.shares)
    assert all((shares >= 0).all() for shares in model.shares)


@pytest.mark.parametrize("name", ["length", "count", "ward", "same"])
def test_one_column_alone_will_do(name):
    table, schema = mixed(500, None)
    person = Schema.of({"person": {"kind": "id"}})["person"]
    table = table.select([name]).append_column("person", pa.array([str(n) for n in range(500)]))
    model = fitted(table, Schema((schema[name], person)))
    assert set(model.sample(10, np.random.default_rng(0))) == {name}
    assert model.summary.private_rows == 500


def test_many_classes_each_have_a_cluster():
    rng = np.random.default_rng(0)
    label = rng.integers(0, 40, 4_000)
    table = pa.table({"n": label + rng.normal(0, 0.5, 4_000), "y": label.astype(str)})
    labels = {"kind": "categorical", "categories": [str(n) for n in range(40)], "nullable": False}
    schema = Schema.of({"n": {"kind": "real", "lower": -5, "upper": 45}, "y": labels}, target="y")
    model = fitted(table, schema)
    assert set(model.classes) == set(range(40))
    chunk = model.sample(4_000, np.random.default_rng(1))
    assert np.corrcoef(chunk["n"], chunk["y"])[0, 1] > 0.98


def test_a_rare_class_is_drawn_as_often_as_it_occurs():
    rng = np.random.default_rng(0)
    label = (np.arange(50_000) % 500 == 0).astype(int)
    table = pa.table({"n": rng.normal(label, 1), "y": np.array(NAMES)[label]})
    labels = {"kind": "categorical", "categories": NAMES[:2], "nullable": False}
    schema = Schema.of({"n": {"kind": "real", "lower": -5, "upper": 5}, "y": labels}, target="y")
    model = fitted(table, schema)
    chunk = model.sample(50_000, np.random.default_rng(1))
    # The share's standard error is 0.0002.
    assert (chunk["y"] == 1).mean() == pytest.approx(1 / 500, abs=0.001)


def test_points_are_drawn_around_the_centroids_of_their_class():
    model = fitted(knotted(8_000), KNOTTED)
    points, labels = model.drawn(20_000, np.random.default_rng(0))
    assert points.shape == (20_000, model.centroids.shape[1])
    for code in (0, 1):
        weights = model.sizes[model.classes == code]
        expected = weights @ model.centroids[model.classes == code] / weights.sum()
        # Coordinates have about unit variance, so a mean of 10,000 has a standard error of 0.01.
        np.testing.assert_allclose(points[labels == code].mean(axis=0), expected, atol=0.06)


def test_rows_go_to_the_centroids_that_are_given():
    table = knotted(2_000)
    private = open_table(table, schema=KNOTTED, budget=Budget(100.0), noise=SilentNoise())
    mixture = Mixture(iterations=2)
    plan = Plan.calibrate(private.budget, mixture.steps(KNOTTED))
    other = open_table(table, schema=KNOTTED, budget=Budget(100.0), noise=SilentNoise())
    model = mixture.fit(private, plan)
    far = model.centroids.copy()
    far[1:] = 7.9
    moved = model.measured(other, plan, CLUSTERS, far)
    # All rows of class 0 are nearest to its first cluster, and the empty ones are merged with it.
    assert (moved.classes == 0).sum() == 1
    assert moved.sizes[moved.classes == 0].sum() == pytest.approx((np.array(table["y"]) == "a").sum())


def test_small_clusters_are_merged_into_the_nearest_of_their_class():
    classes = np.array([0, 0, 0, 1, 1, 2])
    centroids = np.array([[0], [10], [9], [9], [0], [4]])
    counts, sums = np.array([50.0, 60.0, 3.0, 2.0, 4.0, -1.0]), np.arange(6.0)[:, None]
    found = ClusterAnswer.of(classes, centroids, counts, sums, stddev=2.0, l_min=20.0)
    assert found.classes.tolist() == [0, 0, 1, 2]
    # Where all are small they become one; nothing is divided by less than one row.
    assert found.counts.tolist() == [50, 63, 6, 1]
    assert found.sums[:, 0].tolist() == [0, 3, 7, 5]
    np.testing.assert_allclose(found.stddevs, 2 * np.sqrt([1, 2, 2, 1]))


def test_normal_scores_follow_the_ranks_and_special_values_have_their_place():
    cells = Bins(column="n", edges=(1.0, 2.0, 3.0, 4.0), special=(0.0, 2.5), missing=True)
    scores = normal_scores(cells, np.array([0.4, 0.1, 0.1, 0.1, 0.1, 0.2]))
    zero, middle, first, second, third, missing = scores
    assert zero < first < middle < second < third
    assert missing == 0
    share = 0.8
    assert zero == pytest.approx(-0.6744897, abs=1e-6), "the middle of the lower half"
    assert third == pytest.approx(1.5341206, abs=1e-6), f"the middle of the last eighth of {share}"
    assert np.abs(normal_scores(cells, np.array([1.0, 0, 0, 0, 0, 0]))).max() <= 2.5


def test_tilting_meets_sure_means_and_ignores_unsure_ones():
    given = np.full((2, 9), 1 / 9)
    scores = np.linspace(-1, 1, 9)
    scores = np.column_stack([scores, scores**2])
    aim = proportions(np.exp(-8 * (scores[:, 0] - 0.3) ** 2))
    means = np.tile(aim @ scores, (2, 1))
    sure, unsure = tilted(given, scores, means, np.array([1e-6, 1e3]))
    np.testing.assert_allclose(sure, aim, atol=1e-4)
    np.testing.assert_allclose(unsure, given[0], atol=1e-3)
    # Means that no distribution has give a distribution still.
    wild = tilted(given, scores, np.array([[50.0, -50.0], [np.pi, 1e9]]), np.array([1e-6, 0.1]))
    assert np.isfinite(wild).all()
    np.testing.assert_allclose(wild.sum(axis=1), 1)


def test_every_step_is_charged_and_weighed():
    steps = {step.name: step for step in Mixture(histograms=0.3, clusters=0.4, iterations=7).steps(KNOTTED)}
    assert list(steps) == [CLASSES, HISTOGRAMS, CLUSTERS]
    assert (steps[HISTOGRAMS].weight, steps[CLUSTERS].weight, steps[CLUSTERS].count) == (0.3, 0.4, 7)
    alone = Schema((KNOTTED["y"],), target="y")
    assert [step.name for step in Mixture().steps(alone)] == [CLASSES]


def test_the_model_remembers_its_noise():
    model = fitted(knotted(500), KNOTTED, epsilon=1.0)
    assert set(model.noise) == {CLASSES, HISTOGRAMS, CLUSTERS}
    assert all(0 < stddev < math.inf for stddev in model.noise.values())


@pytest.mark.parametrize("wrong", [{"sigma_max": 0.0}, {"sigma_max": 11.0}, {"iterations": 0}, {"iterations": 101}])
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(SettingError, match=next(iter(wrong))):
        Mixture(**wrong)
