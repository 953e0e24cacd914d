"""Gaussians in clusters: what columns have in common is drawn, their histograms are kept, and no noise breaks them."""

import math

import numpy as np
import pytest

from threea.anonymize.cluster_moments import NoisyMoments
from threea.anonymize.query import Norm
from threea.approximate.class_histograms import HISTOGRAMS
from threea.approximate.feature import Feature
from threea.approximate.fitted_gaussians import fitted
from threea.approximate.gaussian_clusters import LOOSE, GaussianClusters, correlated
from threea.approximate.label_counts import CLASSES
from threea.approximate.scored_columns import ScoredColumn, normal_parts, radius_of
from threea.approximate.tree_model import TreeModel
from threea.table.cells import Bins, Categories, Merged
from threea.table.schema import Kind

ROWS = 50_000
NUMBER = Bins(column="number", edges=tuple(np.linspace(0, 1, 33)), missing=True)
WARD = Categories(column="ward", count=3, missing=False)
LABEL = Categories(column="label", count=2, missing=False)


def base(stddev=1.0, by_class=True):
    label = Merged(cells=LABEL, groups=(0, 1))
    sizes = np.array([3000.0, 1000.0])
    number, ward = np.append(np.linspace(1, 3, 32), 2.0), np.array([0.2, 0.3, 0.5])
    features = []
    for cells, share in ((NUMBER, number / number.sum()), (WARD, ward)):
        other = share[::-1] if by_class and cells is WARD else share
        counts = np.vstack([sizes[0] * share, sizes[1] * other])
        features.append(Feature.of(cells, counts, sizes, 0.01))
    noise = {CLASSES: 1.0, HISTOGRAMS: stddev if by_class else 2 * stddev}
    return TreeModel(label, np.eye(2), sizes, tuple(features), (), stddev, noise)


def columns_of(model):
    return [ScoredColumn.of(feature, np.array([0.75, 0.25]), Kind.CATEGORICAL) for feature in model.features]


def moments(covariance, stddev, counts=(3000.0, 1000.0), means=0.0):
    counts = np.array(counts)
    sums = counts[:, None] * np.array([[-means, 0.0], [means, 0.0]])
    products = counts[:, None, None] * np.array([[1.0, covariance], [covariance, 1.0]])
    return NoisyMoments(counts, sums, products, (stddev,) * 3)


def model_of(told, **options):
    model = base(**options)
    columns = columns_of(model)
    part = fitted(model, columns, (0, 1), np.array([0, 1]), told)
    return GaussianClusters(model, tuple(column.order for column in columns), (part,), model.noise)


def test_parts_of_a_normal_number_have_its_moments():
    share = np.full(1000, 1e-3)
    assert normal_parts(share).sum() == pytest.approx(0.0, abs=1e-12)
    assert (normal_parts(share) ** 2 / share).sum() == pytest.approx(1.0, abs=0.01)


def test_histograms_are_kept_whatever_the_correlation():
    """Fixed seed; a share's deviation is at most 0.0023, and the bound is five of them."""
    for covariance in (-0.5, 0.0, 0.6):
        model = model_of(moments(covariance, 0.1))
        drawn = model.sample(ROWS, np.random.default_rng(0))
        for code, given in enumerate(model.base.features[1].given):
            own = drawn["ward"][drawn["label"] == code]
            np.testing.assert_allclose(np.bincount(own, minlength=3) / len(own), given, atol=0.025)
        assert (np.isnan(drawn["number"])).mean() == pytest.approx(model.base.features[0].given[0, -1], abs=0.01)


def test_columns_covary_as_measured():
    """The covariance of the scores drawn is the one told, though one column has three cells only."""
    model = model_of(moments(0.4, 0.1))
    columns = columns_of(model.base)
    drawn = model.sample(ROWS, np.random.default_rng(1))
    own = drawn["label"] == 0
    one = columns[0].points[NUMBER.index(drawn["number"][own])]
    other = columns[1].points[drawn["ward"][own]]
    assert np.cov(one, other)[0, 1] == pytest.approx(0.4, abs=0.05)


def test_what_noise_explains_is_independent():
    part = model_of(moments(0.4, 5_000.0)).sets[0]
    for cluster in (0, 1):
        assert part.correlations(cluster, [0])[1, 0] == pytest.approx(0.0, abs=1e-9)


def test_means_tell_classes_apart_where_histograms_do_not():
    told = moments(0.0, 0.1, means=0.5)
    apart, alone = model_of(told, by_class=False), model_of(told)
    for model, differs in ((apart, True), (alone, False)):
        drawn = model.sample(ROWS, np.random.default_rng(2))
        low, high = (np.nanmean(drawn["number"][drawn["label"] == code]) for code in (0, 1))
        assert (high - low > 0.1) == differs


def test_any_symmetric_matrix_becomes_correlations():
    """Indefinite, singular, or huge: what leaves has a unit diagonal and no negative eigenvalue."""
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 3, (5, 5))
    for matrix in (noise + noise.T, np.ones((5, 5)), -np.ones((5, 5)), np.zeros((5, 5)), 1e9 * (noise + noise.T)):
        factors, alone = correlated(matrix)
        whole = factors @ factors.T + np.diag(alone**2)
        np.testing.assert_allclose(np.diag(whole), 1.0)
        assert np.linalg.eigvalsh(whole).min() >= LOOSE / 2
    assert np.linalg.norm(correlated(np.eye(3))[0] @ correlated(np.eye(3))[0].T - (1 - LOOSE) * np.eye(3)) < 1e-9


def test_empty_classes_and_negative_counts_are_no_harm():
    told = moments(0.3, 10.0, counts=(-5.0, 0.0))
    drawn = model_of(told).sample(100, np.random.default_rng(0))
    assert {len(values) for values in drawn.values()} == {100}


def test_a_radius_can_be_reached_and_is_never_nothing():
    columns = columns_of(base())
    for norm in Norm:
        most = sum(float((np.abs(column.points) ** norm.power).max()) for column in columns) ** (1 / norm.power)
        assert 0 < radius_of(columns, norm) <= most
    constant = Categories(column="c", count=1, missing=False)
    still = ScoredColumn.of(Feature.of(constant, np.ones((1, 1)), np.ones(1), 1.0), np.ones(1), Kind.CATEGORICAL)
    assert (still.scores == 0).all()
    assert radius_of([still], Norm.L2) > 0


def test_categories_are_in_order_of_the_class_they_tell():
    given = np.array([[0.1, 0.6, 0.3], [0.6, 0.1, 0.3]])
    feature = Feature.of(WARD, 1e6 * given, np.array([1e6, 1e6]), 0.01)
    order = ScoredColumn.of(feature, np.array([0.5, 0.5]), Kind.CATEGORICAL).order.tolist()
    assert order in ([0, 2, 1], [1, 2, 0])
    assert ScoredColumn.of(feature, np.array([0.5, 0.5]), Kind.ORDINAL).order.tolist() == [0, 1, 2]
    assert math.isclose(ScoredColumn.of(feature, np.array([0.5, 0.5]), Kind.ORDINAL).overall.sum(), 1.0)
