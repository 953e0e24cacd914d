"""A tree told in finer cells and ranges, or without its label: the same distribution of what is left."""

import numpy as np
import pytest

from threea import hospital
from threea.anonymize.open_table import open_table
from threea.approximate.finer_tree import with_finer_features, with_finer_ranges, without_label
from threea.approximate.label_tree import LabelAugmentedTree
from threea.budget import Budget
from threea.recipes import LabelTree
from threea.table.schema import Schema
from threea.testing import SilentNoise


@pytest.fixture(scope="module")
def tree():
    schema = Schema(hospital.schema().columns, target="age")
    table = open_table(hospital.stays(4000), schema=schema, budget=Budget(20.0), noise=SilentNoise())
    return LabelAugmentedTree(ranges=4).fit(table, LabelTree(alpha=1.0).plan(table))


def test_finer_features_and_ranges_draw_the_same_distribution(tree):
    """Exact: the probability of every label's cell and every fine cell of a pair of features is what it was."""
    assert tree.edges
    finer = with_finer_features(with_finer_ranges(tree, 12), 24, 0.0)
    assert finer.label.size > tree.label.size
    assert sum(f.merged.size for f in finer.features) > sum(f.merged.size for f in tree.features)
    np.testing.assert_allclose(finer.sizes @ finer.spread, tree.sizes @ tree.spread)
    for before, after in zip(tree.edges, finer.edges, strict=True):
        np.testing.assert_allclose(pairs(finer, after), pairs(tree, before), atol=1e-12)


def pairs(tree, edge):
    """Return the distribution of an edge's fine cells and the label's cells."""
    tables = []
    for index in (edge.parent, edge.child):
        feature = tree.features[index]
        inside = np.zeros((*feature.given.shape[:1], feature.merged.size, feature.cells.size))
        inside[:, feature.merged.groups, np.arange(feature.cells.size)] = feature.given
        total = inside.sum(axis=2, keepdims=True)
        tables.append(np.divide(inside, total, out=np.zeros_like(inside), where=total > 0))
    return np.einsum("c,cl,cab,cax,cby->lxy", tree.ratio, tree.spread, edge.joint, *tables, optimize=True)


def test_histograms_and_their_noise_stay(tree):
    finer = with_finer_ranges(tree, 12)
    for name, histogram in tree.histograms.items():
        np.testing.assert_allclose(finer.histograms[name].counts, histogram.counts, atol=1e-6)
        assert finer.histograms[name].stddev == pytest.approx(histogram.stddev)


def test_without_its_label_a_tree_has_the_same_features_and_pairs(tree):
    """Exact: every feature's and every pair's distribution is that of all classes together."""
    alone = without_label(tree)
    for before, after in zip(tree.features, alone.features, strict=True):
        np.testing.assert_allclose(after.given, tree.ratio[None] @ before.given)
    for before, after in zip(tree.edges, alone.edges, strict=True):
        np.testing.assert_allclose(after.joint[0], np.tensordot(tree.ratio, before.joint, 1))
    assert alone.label is None
    assert alone.rows == tree.rows
