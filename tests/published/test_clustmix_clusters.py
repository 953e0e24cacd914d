"""Clusters of at least l_min rows: exact assignment, no cluster too small, and the paper's arithmetic."""

import itertools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threea.anonymize.events import Gaussian
from threea.anonymize.open_table import open_table
from threea.anonymize.plan import Plan
from threea.budget import Budget
from threea.errors import InputError, InternalError, SettingError
from threea.model_summary import ModelSummary
from threea.published import clustmix_clusters, constrained_gmm
from threea.published.clustmix_clusters import STEP, Clusters, SizeConstrained, sliced
from threea.published.constrained_gmm import COVARIANCES, constrained_means, means, mixture, squared_distances
from threea.published.size_constrained_assignment import NoSolution, assign
from threea.table.schema import Schema
from threea.testing import SeededNoise


def table_of(labels: Any, values: Any, classes: int = 2) -> tuple[pa.Table, Schema]:
    columns = {f"f{place}": np.asarray(column, np.float64) for place, column in enumerate(np.transpose(values))}
    kinds: dict[str, Any] = {name: {"kind": "real", "lower": 0, "upper": 1} for name in columns}
    kinds["label"] = {"kind": "categorical", "categories": [str(place) for place in range(classes)]}
    text = [None if label < 0 else str(label) for label in labels]
    return pa.table(columns | {"label": pa.array(text, pa.string())}), Schema.of(kinds, target="label")


def clusters_of(stage: Any, table: pa.Table, schema: Schema, budget: Budget | None = None, **opening: Any) -> Clusters:
    opened = open_table(
        table, schema=schema, budget=budget or Budget(1.0), noise=SeededNoise(0), accept_unproven=True, **opening
    )
    plan = Plan.calibrate(opened.budget, stage.steps(opened.schema))
    found = stage.fit(opened, plan)
    assert isinstance(found, Clusters)
    return found


def cheapest(costs: np.ndarray, least: int) -> float:
    """Return the least cost by looking at every assignment."""
    rows, clusters = costs.shape
    every = np.array(list(itertools.product(range(clusters), repeat=rows)))
    fair = np.all([(every == place).sum(axis=1) >= least for place in range(clusters)], axis=0)
    return float(costs[np.arange(rows), every[fair]].sum(axis=1).min())


@settings(deadline=None, max_examples=80)
@given(data=st.data(), clusters=st.integers(2, 3), least=st.integers(1, 3))
def test_the_assignment_is_optimal(data: st.DataObject, clusters: int, least: int) -> None:
    rows = data.draw(st.integers(clusters * least, 9 if clusters == 3 else 10))
    cost = st.one_of(st.integers(0, 3).map(float), st.floats(-100, 100))
    costs = np.array(data.draw(st.lists(cost, min_size=rows * clusters, max_size=rows * clusters))).reshape(rows, -1)
    start = data.draw(st.none() | st.lists(st.floats(0, 10), min_size=clusters, max_size=clusters).map(np.array))
    labels, _ = assign(costs, least, start)
    assert np.bincount(labels, minlength=clusters).min() >= least
    assert costs[np.arange(rows), labels].sum() == pytest.approx(cheapest(costs, least), abs=1e-6)


@pytest.mark.parametrize("least", [10, 24, 25])
def test_the_assignment_costs_what_a_linear_program_says(least: int) -> None:
    from scipy import optimize, sparse

    rng = np.random.default_rng(least)
    rows, clusters = 305, 12
    values = rng.random((rows, 3)) ** 3
    costs = squared_distances(values, values[rng.choice(rows, clusters, replace=False)])
    labels, _ = assign(costs, least)
    once = sparse.kron(sparse.eye(rows), np.ones((1, clusters)))
    sizes = sparse.kron(np.ones((1, rows)), sparse.eye(clusters))
    best = optimize.linprog(
        costs.ravel(), A_eq=once, b_eq=np.ones(rows), A_ub=-sizes, b_ub=np.full(clusters, -least)
    ).fun
    assert np.bincount(labels).min() >= least
    assert costs[np.arange(rows), labels].sum() == pytest.approx(best, rel=1e-9)


def test_the_assignment_refuses_what_cannot_be() -> None:
    with pytest.raises(SettingError, match="5 rows are too few for 2 clusters of 3"):
        assign(np.zeros((5, 2)), 3)
    with pytest.raises(NoSolution):
        assign(np.arange(12.0).reshape(6, 2), 3, deadline=-math.inf)


@settings(deadline=None, max_examples=40)
@given(
    data=st.data(),
    sigma_max=st.floats(0.5, 20),
    slices=st.integers(1, 5),
    scaling=st.sampled_from(["minmax", "quantile"]),
    covariance=st.sampled_from(COVARIANCES),
)
def test_no_cluster_is_under_l_min_unless_its_class_is(
    data: st.DataObject, sigma_max: float, slices: int, scaling: Any, covariance: Any
) -> None:
    """Few distinct values make duplicates and constant columns; a class may be absent, or smaller than l_min."""
    rows = data.draw(st.integers(1, 120))
    values = data.draw(st.lists(st.integers(0, 2), min_size=2 * rows, max_size=2 * rows))
    labels = np.array(data.draw(st.lists(st.integers(-1, 2), min_size=rows, max_size=rows)))
    labels[0] = 1
    table, schema = table_of(labels, np.reshape(values, (rows, 2)) / 2, classes=3)
    stage = SizeConstrained(sigma_max=sigma_max, slices=slices, scaling=scaling, covariance=covariance)
    found = clusters_of(stage, table, schema, Budget(5.0, 1e-2))
    kept = labels[labels >= 0]
    sizes = np.bincount(found.memberships)
    assert found.size == len(sizes) == len(found.centroids)
    assert len(found.memberships) == len(kept)
    for label, size in zip(found.labels, sizes, strict=True):
        whole = (kept == label).sum()
        assert size >= found.l_min or size == whole
    assert set(found.labels) == set(kept)
    assert all(len(set(kept[found.memberships == place])) == 1 for place in range(len(sizes)))


@pytest.mark.parametrize(
    ("epsilon", "delta", "mu"), [(1, 1 / 32561, 0.2880), (1, 1e-5, 0.2681), (10, 1 / 32561, 2.0893)]
)
def test_mu_comes_from_the_plan(epsilon: float, delta: float, mu: float) -> None:
    _, schema = table_of([], np.zeros((0, 1)))
    event = Plan.calibrate(Budget(epsilon, delta), SizeConstrained().steps(schema))[STEP].event
    assert isinstance(event, Gaussian)
    assert 1 / event.noise_multiplier == pytest.approx(mu, abs=5e-5)


@pytest.mark.parametrize(("columns", "classes", "delta", "least"), [(14, 2, 1 / 32561, 92), (784, 10, 1e-5, 1652)])
def test_l_min_is_the_papers(columns: int, classes: int, delta: float, least: int) -> None:
    rng = np.random.default_rng(0)
    table, schema = table_of(rng.integers(0, classes, 20), rng.random((20, columns)), classes)
    found = clusters_of(SizeConstrained(sigma_max=0.2), table, schema, Budget(1.0, delta))
    assert found.l_min == least
    assert found.sigma_l / found.l_min <= 0.2 < found.sigma_l / (found.l_min - 1)


def test_a_unit_of_several_rows_needs_as_many_times_larger_clusters() -> None:
    rng = np.random.default_rng(0)
    table, schema = table_of(rng.integers(0, 2, 60), rng.random((60, 2)))
    table = table.append_column("person", pa.array([str(place // 3) for place in range(60)]))
    columns = (*schema.columns, *Schema.of({"person": {"kind": "id"}}).columns)
    found = clusters_of(SizeConstrained(), table, Schema(columns, target="label"), unit="person", max_rows_per_unit=3)
    alone = clusters_of(SizeConstrained(), table.drop_columns("person"), schema)
    assert found.sigma_l == pytest.approx(3 * alone.sigma_l)


@pytest.mark.parametrize("stage", [SizeConstrained(sigma_max=0.1), SizeConstrained(sigma_max=0.1, clusters="random")])
def test_as_many_clusters_as_the_rows_of_a_class_allow(stage: Any) -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], [700, 300])
    table, schema = table_of(labels, rng.random((1000, 2)))
    found = clusters_of(stage, table, schema, Budget(4.0, 1e-2))
    assert 1 < found.l_min < 50
    assert np.bincount(found.labels).tolist() == [700 // found.l_min, 300 // found.l_min]


def test_without_classes_all_rows_are_one_and_the_target_is_a_column() -> None:
    rng = np.random.default_rng(0)
    table, schema = table_of(np.zeros(50, int), rng.random((50, 2)))
    numeric = Schema.of({name: {"kind": "real", "lower": 0, "upper": 1} for name in ("f0", "f1")}, target="f1")
    found = clusters_of(SizeConstrained(), table.drop_columns("label"), numeric)
    assert found.exposed.target is None
    assert [column.name for column in found.exposed.columns] == ["f0", "f1"]
    listed = clusters_of(SizeConstrained(), table, schema)
    assert listed.sigma_l == pytest.approx(math.sqrt(2) * found.sigma_l)


def test_rows_without_a_class_are_left_out() -> None:
    table, schema = table_of([0, -1, 1, -1, 0], np.arange(10).reshape(5, 2) / 10)
    found = clusters_of(SizeConstrained(), table, schema)
    assert found.exposed.labels.tolist() == [0, 1, 0]
    assert found.exposed.chunk["f0"].tolist() == [0.0, 0.4, 0.8]


def test_nothing_to_mix_is_said() -> None:
    lonely = pa.table({"name": ["x", "y"], "label": ["0", "1"]})
    kinds = {"name": {"kind": "id"}, "label": {"kind": "categorical", "categories": ["0", "1"]}}
    schema = Schema.of(kinds, target="label")
    with pytest.raises(InputError, match="only column"):
        clusters_of(SizeConstrained(), lonely, schema)
    table, schema = table_of([5, 6], [[0.1], [0.2]])
    with pytest.raises(InputError, match="no row has a class"):
        clusters_of(SizeConstrained(), table, schema)


def test_clusters_are_nothing_to_draw_from() -> None:
    table, schema = table_of([0, 1], [[0.1], [0.2]])
    found = clusters_of(SizeConstrained(), table, schema)
    assert found.summary == ModelSummary()
    with pytest.raises(InternalError, match="anonymized"):
        found.sample(1, np.random.default_rng(0))
    assert "0.1" not in repr(found)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_components_find_groups_that_lie_apart(covariance: Any) -> None:
    rng = np.random.default_rng(1)
    truth = np.repeat(np.arange(3), [40, 50, 60])
    values = np.array([[0.1, 0.1], [0.9, 0.2], [0.4, 0.9]])[truth] + rng.normal(0, 0.03, (150, 2))
    found = mixture(values, 3, 30, covariance, np.random.default_rng(0), math.inf)
    assert len(set(zip(truth, found, strict=True))) == 3


@pytest.mark.parametrize(
    ("covariance", "spread"),
    [("isotropic", [[0.1, 0], [0, 0.1]]), ("diagonal", [[0.3, 0], [0, 0.01]]), ("full", [[0.2, 0.1], [0.1, 0.1]])],
)
def test_costs_are_minus_the_log_density(covariance: Any, spread: Any) -> None:
    from scipy.stats import multivariate_normal

    rng = np.random.default_rng(0)
    values = rng.multivariate_normal([0.3, 0.6], spread, 400)
    memberships = np.repeat([0, 1], 200)
    costs = constrained_gmm._DENSITIES[covariance](values, memberships)
    for place in range(2):
        inside = values[memberships == place]
        moments = np.cov(inside.T, bias=True)
        kept = {
            "isotropic": np.eye(2) * np.trace(moments) / 2,
            "diagonal": np.diag(np.diag(moments)),
            "full": moments,
        }[covariance] + constrained_gmm._LEAST_VARIANCE * np.eye(2)
        expected = -multivariate_normal(inside.mean(axis=0), kept).logpdf(values) - math.log(2 * math.pi)
        assert costs[:, place] == pytest.approx(expected)


def test_when_the_time_is_up_constrained_k_means_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    table, schema = table_of(np.zeros(200, int), rng.random((200, 2)))
    called = []

    def spy(values: Any, count: int, least: int, rng: Any) -> Any:
        called.append(count)
        return constrained_means(values, count, least, rng)

    monkeypatch.setattr(clustmix_clusters, "constrained_means", spy)
    budget = Budget(4.0, 1e-2)
    assert clusters_of(SizeConstrained(sigma_max=0.5), table, schema, budget).size > 1
    assert not called
    found = clusters_of(SizeConstrained(sigma_max=0.5, timeout=-1.0), table, schema, budget)
    assert called == [found.size]
    assert np.bincount(found.memberships).min() >= found.l_min


def test_means_are_means() -> None:
    values = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 9.0]])
    assert means(values, np.array([1, 0, 1])).tolist() == [[3.0, 4.0], [3.0, 5.5]]


@pytest.mark.parametrize("slices", [1, 3, 8])
def test_slices_are_cut_along_a_feature(slices: int) -> None:
    values = np.random.default_rng(0).random((500, 1))
    regions = sliced(values, np.zeros(500, np.int64), slices, 5, np.random.default_rng(1))
    assert len(np.unique(regions)) == slices
    order = np.argsort(values[:, 0])
    assert (np.diff(regions[order]) != 0).sum() == slices - 1


def test_a_slice_that_is_too_large_is_cut_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustmix_clusters, "MOST_CELLS", 1000)
    values, labels = np.zeros((5000, 3)), np.zeros(5000, np.int64)
    regions = sliced(values, labels, 1, 10, np.random.default_rng(0))
    assert len(np.unique(regions)) >= 50
    monkeypatch.setattr(clustmix_clusters, "MOST_CELLS", 10**9)
    monkeypatch.setattr(clustmix_clusters, "MOST_CLUSTERS", 10)
    assert len(np.unique(sliced(values, labels, 1, 10, np.random.default_rng(0)))) >= 50
    monkeypatch.setattr(clustmix_clusters, "MOST_CLUSTERS", 500)
    assert not sliced(values, labels, 1, 10, np.random.default_rng(0)).any()


def test_random_groups_ignore_where_rows_are_and_use_each_once() -> None:
    """Rows that lie apart are mixed: a group's mean is near the middle, but for 1e-6 in Hoeffding's bound."""
    values = np.repeat([[0.0], [1.0]], 500, axis=0)
    table, schema = table_of(np.zeros(1000, int), values)
    found = clusters_of(SizeConstrained(sigma_max=0.1, clusters="random"), table, schema, Budget(1.0, 1e-2))
    sizes = np.bincount(found.memberships)
    assert sizes.sum() == 1000
    assert sizes.min() >= found.l_min > 10
    margin = np.sqrt(np.log(2 * len(sizes) / 1e-6) / (2 * sizes))
    assert (np.abs(found.centroids[:, 0] - 0.5) < margin).all()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"sigma_max": 0.0}, "sigma_max"),
        ({"sigma_max": math.nan}, "sigma_max"),
        ({"scaling": "log"}, "scaling"),
        ({"covariance": "tied"}, "covariance"),
        ({"slices": 0}, "slices"),
    ],
)
def test_settings_are_checked(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        SizeConstrained(**wrong)


def test_rows_are_not_read_unless_the_user_accepts() -> None:
    table, schema = table_of([0, 1], [[0.1], [0.2]])
    opened = open_table(table, schema=schema, budget=Budget(1.0), noise=SeededNoise(0))
    plan = Plan.calibrate(opened.budget, SizeConstrained().steps(schema))
    with pytest.raises(SettingError, match="without a proof"):
        SizeConstrained().fit(opened, plan)
