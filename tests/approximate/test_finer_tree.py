"""A tree told in finer cells and ranges, or without its label: the same distribution of what is left."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from threea import hospital
from threea.anonymize.open_table import open_table
from threea.approximate.finer_tree import (
    with_finer_features,
    with_finer_ranges,
    with_informative_cells,
    without_label,
)
from threea.approximate.label_tree import LabelAugmentedTree
from threea.approximate.tree_model import Edge
from threea.budget import Budget
from threea.recipes import LabelTree
from threea.table.cells import Merged
from threea.table.schema import Schema
from threea.testing import SeededNoise, SilentNoise


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
    assert alone.row_counts.rows == tree.row_counts.rows


@pytest.fixture(scope="module")
def parts():
    """A tree of two columns of 16 values, in 4 cells each: within these, one tells the classes apart, one does not."""
    rng = np.random.default_rng(0)
    label, telling, other = rng.integers(0, 2, 20_000), rng.integers(0, 16, 20_000), rng.integers(0, 16, 20_000)
    telling = np.where(rng.random(len(label)) < 0.5, telling // 2 * 2 + label, telling)
    columns = {name: {"kind": "integer", "lower": 0, "upper": 15, "nullable": False} for name in ("telling", "other")}
    kinds = {**columns, "label": {"kind": "categorical", "categories": ["0", "1"], "nullable": False}}
    rows = pa.table({"telling": telling, "other": other, "label": label.astype(str)})
    table = open_table(rows, schema=Schema.of(kinds, target="label"), budget=Budget(1.0), noise=SeededNoise(2))
    tree = LabelAugmentedTree().fit(table, LabelTree(alpha=1.0).plan(table))
    coarse = tuple(f.coarser(4, tree.weights, 0.0) for f in tree.features)
    joint = np.einsum("ca,cb->cab", coarse[0].coarse, coarse[1].coarse)
    return replace(tree, features=coarse, edges=(Edge(0, 1, joint, 0.0),))


def test_cells_are_finer_only_where_that_tells_more_of_the_classes(parts):
    """Seeded; under noise alone the statistic passes 4 about once in thirty thousand times, were it normal."""
    finer = with_informative_cells(parts, 16, 0.0, 4.0)
    assert [f.merged.size for f in finer.features] == [16, 4]
    np.testing.assert_allclose(pairs(finer, finer.edges[0]), pairs(parts, parts.edges[0]), atol=1e-12)


def test_what_finer_cells_tell_beyond_coarser_ones_is_a_test_statistic(parts):
    """About normal where they tell nothing: over 200 columns of noise its mean is near 0 and its deviation near 1."""
    rng = np.random.default_rng(1)
    coarser, sizes = Merged(cells=parts.features[1].cells, groups=tuple(np.arange(16) // 4)), np.array([9e3, 1.1e4])
    found = []
    for _ in range(200):
        counts = rng.poisson(sizes[:, None] * np.ones(16) / 16) + rng.normal(0, 20.0, (2, 16))
        finest = replace(parts.features[1], counts=counts, stddev=20.0)
        groups = Merged(cells=finest.cells, groups=tuple(range(16)))
        found.append(replace(finest, merged=groups).informative_within(coarser, sizes))
    assert abs(np.mean(found)) < 0.3
    assert 0.7 < np.std(found) < 1.3


@pytest.mark.parametrize("sizes", [[0.0, 0.0], [-3.0, -5.0], [0.0, 40.0]])
def test_classes_without_rows_by_the_noisy_counts_leave_the_cells_as_they_are(parts, sizes):
    finer = with_informative_cells(replace(parts, sizes=np.array(sizes)), 16, 0.0, 4.0)
    assert [f.merged.size for f in finer.features] == [4, 4]
