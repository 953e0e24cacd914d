"""`mcgen-published`: the noise of Algorithm 1 and of its authors' code, what is drawn, what is taken for granted."""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from threea import hospital
from threea.anonymize.open_table import open_table
from threea.budget import Budget
from threea.certificate import Guarantee
from threea.errors import InputError, SettingError
from threea.published import mcgen
from threea.published.mcgen import ASSUMPTIONS, CODE, COVARIANCE, MultiLevelClustering
from threea.published.mcgen_sanitizer import NoisyGaussian, Scales, algorithm_scales, code_scales, square_root
from threea.recipes import RECIPES, MCGenPublished
from threea.table.schema import Schema
from threea.testing import SeededNoise

STAYS = hospital.stays(300)
REAL = {"kind": "real", "lower": 0.0, "upper": 1.0, "nullable": False}
LABEL = {"kind": "categorical", "categories": ["no", "yes"], "nullable": False}


class Recorded:
    """A source of noise that notes the scales it is asked for, and has none."""

    def __init__(self):
        self.asked = []

    def laplace(self, loc, scale, size):
        self.asked.append((scale, size))
        return np.zeros(size)

    def standard_normal(self, shape):
        return np.zeros(shape)


def opened(table=STAYS, schema=None, **options):
    schema = schema or hospital.schema()
    return open_table(table, schema=schema, budget=Budget(1.0), accept_unproven=True, noise=SeededNoise(0), **options)


def table_of(labels=None, **columns):
    """Return a table of real columns, and a label if there is one, with its schema."""
    data = {name: np.asarray(values, float) for name, values in columns.items()}
    fields = dict.fromkeys(columns, REAL)
    if labels is not None:
        data["label"], fields["label"] = labels, LABEL
    return pa.table(data), Schema.of(fields, target="label" if labels is not None else None)


def test_it_is_claimed_and_says_why_it_is_not_proven():
    assert RECIPES["mcgen-published"] is MCGenPublished
    options = {"schema": hospital.schema(), "budget": Budget(1.0)}
    with pytest.raises(SettingError, match="--accept-unproven"):
        MCGenPublished().plan(open_table(STAYS, **options))
    release = MCGenPublished().run(open_table(STAYS, accept_unproven=True, **options))
    certificate = release.certificate()
    assert certificate.guarantee is Guarantee.CLAIMED
    assert certificate.accounted_epsilon == math.inf
    assert {*ASSUMPTIONS, COVARIANCE} <= set(certificate.assumptions)
    assert CODE not in certificate.assumptions
    assert release.table.num_rows == release.rows == STAYS.num_rows


def test_the_noise_of_its_code_has_no_guarantee():
    options = {"schema": hospital.schema(), "budget": Budget(1.0)}
    with pytest.raises(SettingError, match="--accept-unproven"):
        MCGenPublished(noise="code").plan(open_table(STAYS, **options))
    certificate = MCGenPublished(noise="code").run(open_table(STAYS, accept_unproven=True, **options)).certificate()
    assert certificate.guarantee is Guarantee.NONE
    assert CODE in certificate.assumptions


def test_scales_are_those_of_algorithm_1():
    # Delta / (|c| epsilon_m), with Delta = 2 d_m for both.
    assert algorithm_scales(3, 40, 0.25) == Scales(2 * 3 / (40 * 0.25), 2 * 3 / (40 * 0.25))
    assert algorithm_scales(3, 40, 0.25, rows_per_unit=2).mean == 2 * algorithm_scales(3, 40, 0.25).mean


def test_scales_of_the_code_are_n_times_smaller():
    n, d = 1000, 3
    paper, code = algorithm_scales(d, 40, 0.25), code_scales(d, 40, 0.25, n)
    assert code == Scales(2 * 3 / (n * 40 * 0.25 * 0.4), 3 * 4 / (n * 40 * 0.25 * 0.6))
    # But for the shares of epsilon, 0.4 and 0.6, and for d(d + 1) in place of 2d.
    assert code.mean * n * 0.4 == pytest.approx(paper.mean)
    assert code.covariance * n * 0.6 / (d + 1) * 2 == pytest.approx(paper.covariance)


@pytest.mark.parametrize("noise", ["algorithm", "code"])
def test_noise_is_asked_for_with_these_scales(noise, monkeypatch):
    """Two sets of two features and one; a class of 20 rows and one of 10; k = 0.5; epsilon is shared by size."""
    recorded, rng = Recorded(), np.random.default_rng(0)
    base = rng.random(30)
    data, schema = table_of(["no"] * 20 + ["yes"] * 10, a=base, b=rng.random(30), c=base * 0.9 + 0.1 * rng.random(30))
    table = opened(data, schema)
    stage = MultiLevelClustering(k=0.5, feature_sets=2, noise=noise, draw="gaussian")
    expose = type(table).expose
    monkeypatch.setattr(type(table), "expose", lambda self, reason: replace(expose(self, reason), rng=recorded))
    plan = MCGenPublished(k=0.5).plan(table)
    stage.fit(table, plan)
    epsilon = plan["sanitizer"].event.epsilon
    assert epsilon == pytest.approx(1.0, rel=2e-3)
    expected = []
    for d_m in (2, 1):
        for n in (20, 10):
            size, epsilon_m = n // 2, epsilon * d_m / 3
            if noise == "algorithm":
                scales = [2 * d_m / (size * epsilon_m)] * 2
            else:
                per_row = n * size * epsilon_m
                scales = [2 * d_m / (per_row * 0.4), d_m * (d_m + 1) / (per_row * 0.6)]
            expected += 2 * [(pytest.approx(scales[0]), d_m), (pytest.approx(scales[1]), d_m * (d_m + 1) // 2)]
    assert recorded.asked == expected


def test_noise_on_a_covariance_is_symmetric_and_on_each_number_once():
    values = np.random.default_rng(0).normal(size=(50, 4))
    noisy = NoisyGaussian.of(values, Scales(0.5, 0.25), np.random.default_rng(1))
    again = np.random.default_rng(1)
    np.testing.assert_allclose(noisy.mean, values.mean(axis=0) + again.laplace(0.0, 0.5, 4))
    off = noisy.covariance - np.cov(values.T, bias=True)
    np.testing.assert_allclose(off, off.T)
    np.testing.assert_allclose(off[np.tril_indices(4)], again.laplace(0.0, 0.25, 10))


def test_a_matrix_that_is_no_covariance_is_projected_to_the_nearest_that_is():
    noisy = np.array([[1.0, 2.0], [2.0, 1.0]])
    root = square_root(noisy)
    # Eigenvalues 3 along (1, 1) and -1 along (1, -1): the latter becomes 0.
    np.testing.assert_allclose(root @ root, [[1.5, 1.5], [1.5, 1.5]])
    fine = np.array([[2.0, 0.5], [0.5, 1.0]])
    np.testing.assert_allclose(square_root(fine) @ square_root(fine), fine)


def test_the_private_covariance_is_looked_at_once(monkeypatch):
    """Noise that makes it no covariance is kept: none is drawn again."""
    recorded = Recorded()
    monkeypatch.setattr(recorded, "laplace", lambda *asked: recorded.asked.append(asked) or -np.ones(asked[2]))
    noisy = NoisyGaussian.of(np.random.default_rng(0).random((9, 3)), Scales(1.0, 1.0), recorded)
    assert np.linalg.eigvalsh(noisy.covariance).min() < 0
    assert np.isfinite(noisy.draw(5, np.random.default_rng(0))).all()
    assert len(recorded.asked) == 2


def test_draws_have_the_mean_and_covariance_of_the_cluster():
    """A fixed seed; of others, one in 1e6 would be off by this much."""
    values = np.random.default_rng(0).multivariate_normal([1.0, -1.0], [[1.0, 0.6], [0.6, 2.0]], 200)
    drawn = NoisyGaussian.of(values, Scales(1e-9, 1e-9), np.random.default_rng(1)).draw(
        50_000, np.random.default_rng(2)
    )
    np.testing.assert_allclose(drawn.mean(axis=0), values.mean(axis=0), atol=0.04)
    np.testing.assert_allclose(np.cov(drawn.T), np.cov(values.T, bias=True), atol=0.07)


def test_means_are_microaggregation(monkeypatch):
    """Without noise, every row is the mean of its cluster, and clusters have at least k rows."""
    monkeypatch.setattr(mcgen, "algorithm_scales", lambda *sizes: Scales(0.0, 0.0))
    amounts = np.random.default_rng(0).random(50)
    data, schema = table_of(["no"] * 50, a=amounts)
    drawn = MCGenPublished(k=0.2, draw="means").run(opened(data, schema)).model.chunk["a"]
    values, counts = np.unique(drawn.round(9), return_counts=True)
    assert counts.tolist() == [10] * 5
    for value in values:
        assert amounts[drawn.round(9) == value].mean() == pytest.approx(value)


def test_two_correlated_blocks_keep_their_correlations_and_nothing_across(monkeypatch):
    monkeypatch.setattr(mcgen, "algorithm_scales", lambda *sizes: Scales(0.0, 0.0))
    rng = np.random.default_rng(0)
    one, two = 0.5 + 0.1 * rng.normal(size=(2, 2000))

    def near(values):
        return np.clip(values + 0.02 * rng.normal(size=2000), 0, 1)

    data, schema = table_of(a=near(one), b=near(one), c=near(two), d=near(two), e=near(one))
    drawn = MCGenPublished(k=1.0, feature_sets=2).run(opened(data, schema)).model.chunk
    found = np.corrcoef([drawn[name] for name in "abcde"])
    inside = np.array([[0, 1], [0, 4], [1, 4], [2, 3]])
    assert found[inside[:, 0], inside[:, 1]].min() > 0.9
    # Of independent draws, one in 1e6 correlations would be larger.
    assert np.abs(found[2, [0, 1, 4]]).max() < 5 / math.sqrt(2000)


def test_classes_stay_as_they_are_and_rows_with_them():
    release = MCGenPublished(noise="code").run(opened())
    assert release.table["died"].to_pylist() == STAYS["died"].to_pylist()


@pytest.mark.parametrize("draw", ["gaussian", "means"])
@pytest.mark.parametrize(
    ("labels", "columns"),
    [
        (None, {"a": [0.1, 0.2, 0.9, 0.4], "b": [0.4, 0.3, 0.8, 0.1]}),
        (["no", "no", "yes", "yes"], {"a": [0.1, 0.2, 0.9, 0.4]}),
        (["no", "no", "yes", "yes"], {"a": [0.5] * 4}),
        (["no"], {"a": [0.5]}),
        (["no"] * 4, {"a": [0.1, 0.2, 0.3, 0.4], "b": [0.4, 0.3, 0.2, 0.1]}),
        (["no", "no", "no", "yes"], {"a": [0.1, 0.2, 0.3, 0.4], "b": [0.5] * 4}),
        (["no", "yes"] * 2, {name: [0.1, 0.2, 0.3, 0.4] for name in "abcd"}),
    ],
    ids=["no target", "one feature", "constant", "one row", "one class", "a class of one row", "singular covariance"],
)
def test_odd_tables_work(labels, columns, draw):
    data, schema = table_of(labels, **columns)
    release = MCGenPublished(draw=draw).run(opened(data, schema))
    assert release.table.num_rows == data.num_rows
    for name, values in columns.items():
        drawn = release.table[name].to_numpy()
        assert ((drawn >= 0) & (drawn <= 1)).all()
        if len(set(values)) == 1:
            assert set(drawn) == set(values)


def test_only_a_target_is_refused_before_anything_is_exposed():
    schema = Schema.of({"name": {"kind": "id"}, "label": LABEL}, target="label")
    table = opened(pa.table({"name": ["x", "y"], "label": ["no", "yes"]}), schema)
    with pytest.raises(InputError, match="nothing to mix"):
        MCGenPublished().run(table)
    assert table.spent(MCGenPublished().plan(table)) == ()


def test_too_wide_a_table_is_refused_before_the_first_charge():
    wide = {f"c{n}": {"kind": "categorical", "categories": [str(i) for i in range(500)]} for n in range(5)}
    table = opened(pa.table({name: ["1"] for name in wide}), Schema.of(wide))
    with pytest.raises(SettingError, match="at most 2000; list fewer categories"):
        MCGenPublished().plan(table)


def test_300_columns_work():
    rng = np.random.default_rng(0)
    data, schema = table_of(["no", "yes"] * 20, **{f"c{n}": rng.random(40) for n in range(300)})
    assert MCGenPublished().run(opened(data, schema)).table.num_columns == 301


def test_a_numeric_target_is_a_column_like_others():
    data, schema = table_of(a=np.linspace(0, 1, 30), y=np.linspace(1, 0, 30))
    schema = Schema(schema.columns, target="y")
    drawn = MCGenPublished(noise="code", k=1.0).run(opened(data, schema)).model.chunk
    assert np.corrcoef(drawn["a"], drawn["y"])[0, 1] < -0.9


@pytest.mark.parametrize(
    "wrong", [{"k": 0.0}, {"k": 1.1}, {"feature_sets": -1}, {"feature_sets": 1.5}, {"noise": "none"}, {"draw": "rows"}]
)
def test_settings_are_checked_when_made(wrong):
    (name,) = wrong
    with pytest.raises(SettingError, match=rf"^{name} \("):
        MCGenPublished(**wrong)
