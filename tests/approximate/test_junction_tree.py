"""Junction trees, against the whole table enumerated."""

import itertools

import numpy as np
import pytest

from threea.approximate.junction_tree import JunctionTree, model_cells
from threea.approximate.pair_tables import pair_tables
from threea.approximate.table_algebra import multiplied, projected, projections, spread

RANDOM = pytest.mark.parametrize("seed", range(40))


def random_tree(rng):
    columns = int(rng.integers(1, 7))
    sizes = tuple(int(size) for size in rng.integers(1, 4, columns))
    tables = [
        tuple(sorted(rng.choice(columns, size=min(columns, int(rng.integers(1, 4))), replace=False).tolist()))
        for _ in range(int(rng.integers(0, columns + 2)))
    ]
    return JunctionTree.of(sizes, tables), tables


def whole(tree, weights):
    everything = tuple(range(len(tree.sizes)))
    product = np.ones(tree.sizes)
    for table, clique in zip(weights, tree.cliques, strict=True):
        product = product * spread(table, clique, everything)
    return product / product.sum(), everything


@RANDOM
def test_tables_are_held_and_columns_hang_together(seed):
    tree, tables = random_tree(np.random.default_rng(seed))
    assert all(set(table) <= set(tree.cliques[tree.home(table)]) for table in tables)
    assert all(parent < position for position, parent in enumerate(tree.parents))
    assert not any(set(one) <= set(other) for one, other in itertools.permutations(tree.cliques, 2))
    for column in range(len(tree.sizes)):
        holding = [i for i, clique in enumerate(tree.cliques) if column in clique]
        tops = [i for i in holding if tree.parents[i] < 0 or column not in tree.cliques[tree.parents[i]]]
        assert len(tops) == 1
    assert tree.cells <= model_cells(tree.sizes, tables)


@RANDOM
def test_messages_give_the_margins_of_the_whole_product(seed):
    rng = np.random.default_rng(seed)
    tree, _ = random_tree(rng)
    weights = [rng.random(tree.shape(clique)) for clique in tree.cliques]
    joint, everything = whole(tree, weights)
    given, possible = tree.collected(weights)
    assert possible
    marginals = tree.marginals(given)
    for table, clique in zip(marginals, tree.cliques, strict=True):
        np.testing.assert_allclose(table, projected(joint, everything, clique))
    pairs = pair_tables(tree, marginals)
    assert set(pairs) == set(itertools.combinations(everything, 2))
    for pair, table in pairs.items():
        np.testing.assert_allclose(table, projected(joint, everything, pair))


def test_weights_that_are_all_nothing_are_said_to_be():
    tree = JunctionTree.of((2, 2), [(0, 1)])
    assert not tree.collected([np.zeros((2, 2))])[1]


@RANDOM
def test_products_and_sums_do_not_depend_on_their_order(seed):
    rng = np.random.default_rng(seed)
    clique = tuple(range(3, 3 + int(rng.integers(1, 6))))
    table = rng.random(rng.integers(1, 5, len(clique)))
    some = [tuple(sorted(rng.choice(clique, size=rng.integers(0, len(clique) + 1), replace=False))) for _ in range(6)]
    for columns, found in projections(table, clique, some).items():
        np.testing.assert_allclose(found, projected(table, clique, columns))
    factors = {columns: rng.random([table.shape[column - 3] for column in columns]) for columns in some}
    expected = table
    for columns, factor in factors.items():
        expected = expected * spread(factor, columns, clique)
    np.testing.assert_allclose(multiplied(table, clique, factors), expected)


def test_weights_that_all_but_vanish_make_no_infinity():
    tree = JunctionTree.of((2, 2, 2), [(0, 1), (1, 2)])
    shapes = [[2] * len(clique) for clique in tree.cliques]
    weights = [np.where(np.arange(np.prod(shape)).reshape(shape) % 2, 1.0, 5e-324) for shape in shapes]
    given, possible = tree.collected(weights)
    assert possible
    assert all(np.isfinite(table).all() for table in given)
    assert all(np.isfinite(table).all() for table in tree.marginals(given))
