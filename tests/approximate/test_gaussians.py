"""Gaussians of wide rows: samples follow the table's moments, histograms and classes; any wide table will do."""

import numpy as np
import pyarrow as pa
import pytest

from threea.anonymize.open_table import open_table
from threea.anonymize.plan import Plan
from threea.anonymize.query import Answer
from threea.approximate.covariance_denoising import covariances, second_moment, shrunk_covariances, shrunk_means, spiked
from threea.approximate.gaussians import HISTOGRAMS, SECOND_MOMENTS, ClassGaussians
from threea.budget import Adjacency, Budget
from threea.errors import SettingError
from threea.table import codec
from threea.table.schema import Schema
from threea.testing import SeededNoise, SilentNoise

WIDE = 120
REAL = {"kind": "real", "lower": -4.0, "upper": 4.0, "nullable": False}


def fitted(table, schema, *, noise=None, epsilon=1e5, adjacency=Adjacency.ADD_REMOVE, **settings):
    """Fit; without noise by default, and with an epsilon at which the model expects none either."""
    private = open_table(table, schema=schema, budget=Budget(epsilon, 1e-6, adjacency), noise=noise or SilentNoise())
    gaussians = ClassGaussians(**settings)
    return gaussians.fit(private, Plan.calibrate(private.budget, gaussians.steps(private.schema)))


def smooth(rows, rng, wide=WIDE):
    """Return rows whose neighbouring columns go together."""
    places = np.arange(wide)
    waves = np.array([np.cos(np.pi * (places + 0.5) * number / wide) for number in range(1, 6)])
    return rng.standard_normal((rows, 5)) @ waves * 0.5 + rng.standard_normal((rows, wide)) * 0.3


def two_classes(rows, seed=0):
    """Return rows of two classes that differ in their means, and their schema."""
    rng = np.random.default_rng(seed)
    label = (rng.random(rows) < 0.3).astype(int)
    values = smooth(rows, rng) + label[:, None] * np.linspace(-1, 1, WIDE)
    table = pa.table({f"c{n}": values[:, n] for n in range(WIDE)} | {"y": pa.array(label.astype(str))})
    described = {f"c{n}": REAL for n in range(WIDE)} | {"y": {"kind": "categorical", "categories": ["0", "1"]}}
    return table, Schema.of(described, target="y"), values, label


def columns(chunk):
    return np.column_stack([chunk[f"c{n}"] for n in range(WIDE)])


def test_without_noise_samples_have_the_classes_means_and_correlations():
    table, schema, values, label = two_classes(20_000)
    model = fitted(table, schema, bins=32)
    chunk = model.sample(20_000, np.random.default_rng(1))
    found, drawn = columns(chunk), chunk["y"]
    assert model.rows == 20_000
    assert abs((drawn == 1).mean() - label.mean()) < 1e-4
    # Tolerances are many standard errors (0.01) wide; they cover the cutting into bins.
    for code in (0, 1):
        np.testing.assert_allclose(found[drawn == code].mean(axis=0), values[label == code].mean(axis=0), atol=0.12)
        np.testing.assert_allclose(found[drawn == code].std(axis=0), values[label == code].std(axis=0), atol=0.12)
        real, made = np.corrcoef(values[label == code].T), np.corrcoef(found[drawn == code].T)
        assert np.abs(real - made).mean() < 0.05


def linear_auc(values, label, test, truth):
    """Return how well least squares, fitted to some rows, tells the classes of others apart."""
    design = np.column_stack([values, np.ones(len(values))])
    weights = np.linalg.solve(design.T @ design + 10 * np.eye(WIDE + 1), design.T @ (2.0 * label - 1))
    score = np.column_stack([test, np.ones(len(test))]) @ weights
    return (score[truth == 1][:, None] > score[truth == 0][None, :]).mean()


@pytest.mark.parametrize(("epsilon", "lost"), [(1e5, 0.005), (10.0, 0.005), (1.0, 0.04)])
def test_samples_teach_nearly_as_well_as_the_rows(epsilon, lost):
    # The noise is seeded: the outcome is the same each time.
    table, schema, values, label = two_classes(20_000)
    _, _, test, truth = two_classes(4_000, seed=5)
    chunk = fitted(table, schema, noise=SeededNoise(0), epsilon=epsilon).sample(20_000, np.random.default_rng(1))
    real = linear_auc(values, label, test, truth)
    assert real > 0.85
    assert linear_auc(columns(chunk), chunk["y"], test, truth) > real - lost


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("rows", [1, 500])
def test_samples_stay_within_the_schema_at_any_noise(adjacency, epsilon, rows):
    table, schema, *_ = two_classes(rows)
    model = fitted(table, schema, noise=SeededNoise(3), epsilon=epsilon, adjacency=adjacency)
    found = columns(model.sample(300, np.random.default_rng(0)))
    assert np.isfinite(found).all()
    assert found.min() >= -4
    assert found.max() <= 4


def mixed(rows, target, seed=0):
    """Return a table of numbers (some missing, some spiked, logarithmic or whole), dates and categories."""
    rng = np.random.default_rng(seed)
    values = smooth(rows, rng)
    values[rng.random(values.shape) < 0.1] = np.nan
    plain = {f"c{n}": pa.array(values[:, n], from_pandas=True) for n in range(WIDE)}
    described = {f"c{n}": {"kind": "real", "lower": -4.0, "upper": 4.0} for n in range(WIDE)}
    plain["count"] = pa.array(rng.poisson(2.0, rows))
    described["count"] = {"kind": "integer", "lower": 0, "upper": 50, "special": [0], "nullable": False}
    plain["cost"] = pa.array(np.exp(rng.normal(3, 1, rows)).clip(1, 1e4))
    described["cost"] = {"kind": "real", "lower": 1.0, "upper": 1e4, "log": True, "special": [0.0]}
    plain["day"] = pa.array(rng.integers(18_000, 19_000, rows).astype("datetime64[D]"))
    described["day"] = {"kind": "date", "lower": "2019-01-01", "upper": "2023-01-01"}
    plain["ward"] = pa.array(rng.choice(["a", "b", "c"], rows))
    described["ward"] = {"kind": "categorical", "categories": ["a", "b", "c"], "open_ended": True}
    plain["flag"] = pa.array(rng.random(rows) < 0.2)
    described["flag"] = {"kind": "boolean"}
    return pa.table(plain), Schema.of(described, target=target)


@pytest.mark.parametrize("target", [None, "ward", "flag", "cost", "count", "day"])
def test_any_wide_table_is_sampled_as_its_schema_says(target):
    table, schema = mixed(2_000, target)
    model = fitted(table, schema, noise=SilentNoise())
    chunk = model.sample(2_000, np.random.default_rng(2))
    assert set(chunk) == {column.name for column in schema.columns} == set(model.histograms)
    again = codec.encode(codec.decode(chunk, schema, table.schema, first_row=0), schema)
    real = codec.encode(table, schema)
    for column in schema.columns:
        np.testing.assert_array_equal(np.isnan(again[column.name]), np.isnan(chunk[column.name]), column.name)
        if column.kind.listed:
            shares = [np.bincount(part[column.name] + 1, minlength=5) / 2_000 for part in (chunk, real)]
            np.testing.assert_allclose(shares[0], shares[1], atol=0.06, err_msg=column.name)
        else:
            # Encoding clips and rounds: a value that it moves was not allowed.
            np.testing.assert_allclose(again[column.name], chunk[column.name], rtol=1e-6, err_msg=column.name)
            missing = [np.isnan(part[column.name]).mean() for part in (chunk, real)]
            assert missing[0] == pytest.approx(missing[1], abs=0.05)
    assert (chunk["count"] == 0).mean() == pytest.approx((real["count"] == 0).mean(), abs=0.06)


@pytest.mark.parametrize("epsilon", [1.0, 1e5])
def test_one_row_is_enough(epsilon):
    table, schema = mixed(1, "flag")
    chunk = fitted(table, schema, epsilon=epsilon).sample(10, np.random.default_rng(0))
    assert {len(values) for values in chunk.values()} == {10}


def test_constant_and_wholly_missing_columns_stay_so():
    rng = np.random.default_rng(0)
    plain = {f"c{n}": pa.array(rng.normal(size=3_000)) for n in range(WIDE)}
    plain["c0"], plain["c1"] = pa.array(np.full(3_000, 1.0)), pa.nulls(3_000, pa.float64())
    schema = Schema.of({f"c{n}": REAL | {"nullable": True, "special": [1.0]} for n in range(WIDE)})
    chunk = fitted(pa.table(plain), schema).sample(500, np.random.default_rng(0))
    assert (chunk["c0"] == 1.0).all()
    assert np.isnan(chunk["c1"]).all()


def images(side, lower=0.0):
    return Schema.of({f"p{n}": {"kind": "integer", "lower": lower, "upper": 255} for n in range(side * side)})


def test_square_numbers_of_like_columns_are_images():
    assert ClassGaussians()._grid(images(16)) == (16, 16)
    assert ClassGaussians()._grid(images(15)) == (225,)
    assert ClassGaussians(image=(5, 45))._grid(images(15)) == (5, 45)
    unlike = images(16).columns[:-1] + images(16, lower=1.0).columns[-1:]
    assert ClassGaussians()._grid(Schema(unlike)) == (256,)
    with pytest.raises(SettingError, match="pixels"):
        ClassGaussians(image=(5, 5))._grid(images(15))


def test_noise_alone_has_no_covariance():
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 1, (200, 200))
    noise = np.triu(noise, 1) + np.triu(noise, 1).T + np.diag(rng.normal(0, np.sqrt(2), 200))
    # The largest eigenvalue of such noise passes the edge by more than 5% with probability below 1e-6.
    assert np.linalg.norm(spiked(noise, 1.05)) == 0
    spike = np.outer(np.ones(200), np.ones(200))
    found = spiked(noise + spike, 1.0)
    assert np.linalg.norm(found - spike) < np.linalg.norm(noise) / 2


def seen_means(apart, stddev, rng):
    """Return two classes' noisy means, and their sizes."""
    sizes = np.array([300.0, 100.0])
    means = np.array([-apart / 4, 3 * apart / 4])
    stddevs = stddev * 100 / sizes
    return means + rng.standard_normal(means.shape) * stddevs[:, None], stddevs, sizes, means


def test_means_are_drawn_together_where_rows_hardly_vary():
    rng = np.random.default_rng(5)
    moment = np.diag(np.concatenate([np.full(10, 4.0), np.full(190, 0.01)]))
    apart = np.concatenate([rng.standard_normal(10), np.zeros(190)])
    seen, stddevs, sizes, _ = seen_means(apart, 0.3, rng)
    found = shrunk_means(seen, stddevs, sizes, moment)
    # Of 200 coordinates 10 tell the classes apart: noise on the others goes, and these stay.
    error = ((np.diff(found, axis=0) - apart) ** 2).sum()
    assert error < 0.2 * ((np.diff(seen, axis=0) - apart) ** 2).sum()
    np.testing.assert_allclose(found[1, :10] - found[0, :10], apart[:10], atol=4 * 0.35)


def test_means_without_noise_are_kept_and_those_of_noise_alone_are_not():
    rng = np.random.default_rng(6)
    moment = np.diag(rng.uniform(0.5, 2.0, 100))
    seen, stddevs, sizes, means = seen_means(rng.standard_normal(100), 1e-9, rng)
    np.testing.assert_allclose(shrunk_means(seen, stddevs, sizes, moment), means, atol=1e-6)
    seen, stddevs, sizes, _ = seen_means(np.zeros(100), 1.0, rng)
    found = shrunk_means(seen, stddevs, sizes, moment)
    assert ((found[1] - found[0]) ** 2).sum() < 0.05 * ((seen[1] - seen[0]) ** 2).sum()


def test_the_second_moment_has_all_the_power():
    rng = np.random.default_rng(7)
    strongest = np.array([0, 2, 3])
    rows = rng.standard_normal((5_000, 5)) * [3.0, 0.5, 2.0, 2.0, 0.1]
    products = (rows[:, strongest].T @ rows[:, strongest])[None]
    found = second_moment(products, 0.0, (rows**2).mean(axis=0), strongest, len(rows))
    np.testing.assert_allclose(np.diag(found), (rows**2).mean(axis=0))
    np.testing.assert_allclose(found[np.ix_(strongest, strongest)], products[0] / len(rows))
    assert found[0, 1] == found[1, 4] == 0


def test_shortened_rows_keep_their_means():
    """Most rows are longer than the radius; what they lose on average is made up for, and longer ones lose more."""
    table, schema, _, _ = two_classes(4_000)
    apart = [np.diff(fitted(table, schema, quantile=quantile).centres, axis=0) for quantile in (0.05, 0.99)]
    assert np.linalg.norm(apart[0]) == pytest.approx(np.linalg.norm(apart[1]), rel=0.15)


@pytest.mark.parametrize("denoise", [covariances, shrunk_covariances])
@pytest.mark.parametrize("stddev", [0.0, 1.0, 1e9])
def test_covariances_have_no_negative_eigenvalues(denoise, stddev):
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 50, (3, 20, 20))
    sizes = np.array([10.0, 50.0, 2.0])
    found = denoise(noise + noise.transpose(0, 2, 1), stddev, rng.normal(size=(3, 20)), sizes, sizes)
    assert np.isfinite(found).all()
    assert np.linalg.eigvalsh(found).min() >= -1e-9 * np.abs(found).max()


def seen_moments(differ, stddev, rng, width=60):
    """Return two classes' noisy second moments around 0, their sizes, and their covariances.

    Rows vary less and less along the coordinates; each class's covariance differs by about a share of that.
    """
    sizes = np.array([3_000.0, 1_000.0])
    root = np.sqrt(4.0 / (1 + np.arange(width)))
    draws = rng.standard_normal((2, width, 4 * width)) / np.sqrt(4 * width)
    inner = (1 - differ) * np.eye(width) + differ * draws @ draws.transpose(0, 2, 1)
    truth = root[:, None] * inner * root
    noise = np.triu(rng.normal(0, stddev, (2, width, width)), 1)
    noise += noise.transpose(0, 2, 1) + np.eye(width) * rng.normal(0, stddev * np.sqrt(2), (2, 1, width))
    return truth * sizes[:, None, None] + noise, sizes, truth


def test_covariances_without_noise_are_kept_and_differences_of_noise_alone_are_not():
    rng = np.random.default_rng(8)
    moments, sizes, truth = seen_moments(0.5, 0.0, rng)
    means = np.zeros((2, 60))
    np.testing.assert_allclose(shrunk_covariances(moments, 0.0, means, sizes, sizes), truth, atol=1e-6)
    moments, sizes, _ = seen_moments(0.0, 100.0, rng)
    found = shrunk_covariances(moments, 100.0, means, sizes, sizes)
    seen = moments / sizes[:, None, None]
    assert np.linalg.norm(found[1] - found[0]) < 0.05 * np.linalg.norm(seen[1] - seen[0])


def test_small_differences_in_many_directions_are_found_where_no_eigenvalue_stands_out():
    # The noise is seeded: the outcome is the same each time.
    moments, sizes, truth = seen_moments(1.0, 100.0, np.random.default_rng(9))
    missed = [
        np.linalg.norm(np.diff(denoise(moments, 100.0, np.zeros((2, 60)), sizes, sizes) - truth, axis=0))
        for denoise in (shrunk_covariances, covariances)
    ]
    apart = np.linalg.norm(np.diff(truth, axis=0))
    assert missed[1] == pytest.approx(apart)
    assert missed[0] < 0.9 * apart


def test_classes_share_a_covariance_where_there_are_many():
    rng = np.random.default_rng(0)
    label = rng.integers(0, 20, 2_000)
    values = smooth(2_000, rng) + label[:, None] * 0.1
    table = pa.table({f"c{n}": values[:, n] for n in range(WIDE)} | {"y": pa.array(label.astype(str))})
    classes = {"kind": "categorical", "categories": [str(n) for n in range(20)], "nullable": False}
    model = fitted(table, Schema.of({f"c{n}": REAL for n in range(WIDE)} | {"y": classes}, target="y"))
    assert len(model.factors) == 1
    assert model.centres.shape == (20, WIDE)
    chunk = model.sample(2_000, np.random.default_rng(1))
    means = [columns(chunk)[chunk["y"] == code].mean() for code in range(20)]
    assert np.corrcoef(means, np.arange(20))[0, 1] > 0.95


def test_every_step_is_charged_and_weighed():
    _, schema, *_ = two_classes(1)
    weights = {step.name: step.weight for step in ClassGaussians().steps(schema)}
    assert len(weights) == 6
    assert weights[SECOND_MOMENTS] > weights[HISTOGRAMS]


def test_a_table_without_numbers_is_refused():
    with pytest.raises(SettingError, match="numeric"):
        ClassGaussians().steps(Schema.of({"flag": {"kind": "boolean"}}))


@pytest.mark.parametrize(
    "wrong",
    [
        {"bins": 1},
        {"most_second_moments": 0},
        {"most_coefficients": 10},
        {"most_coefficients": 5000},
        {"quantile": 1.0},
    ],
)
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(SettingError):
        ClassGaussians(**wrong)


def test_the_answer_of_a_label_tells_the_rows():
    table, schema, *_ = two_classes(700)
    model = fitted(table, schema)
    assert isinstance(model.classes, Answer)
    assert model.rows == 700
    assert model.histograms["y"].counts.sum() == pytest.approx(700)
