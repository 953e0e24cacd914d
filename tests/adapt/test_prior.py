"""What a teacher takes its weights to be like: about linear in a number, where there is no tree."""

from dataclasses import replace

import numpy as np
import pytest

from threea.adapt.prior import PART, SLOPE, places, prior_covariance
from threea.approximate.feature import Feature
from threea.approximate.tree_model import Edge, TreeModel
from threea.table.cells import Bins, Categories, Cells, Merged

AGE = Bins(column="age", edges=(0.0, 10.0, 20.0, 30.0, 40.0), special=(-1.0,), missing=True)
SEX = Categories(column="sex", count=2, missing=False)
LABEL = Categories(column="label", count=2, missing=False)


def feature(cells: Cells, *given: list[float]) -> Feature:
    shares = np.array(given)
    return Feature(cells, 100 * shares, shares, Merged(cells=cells, groups=tuple(range(cells.size))), 1.0)


MODEL = TreeModel(
    label=Merged(cells=LABEL, groups=(0, 1)),
    spread=np.eye(2),
    sizes=np.array([100.0, 100.0]),
    features=(
        feature(AGE, [0.1, 0.4, 0.3, 0.1, 0.0, 0.1], [0.1, 0.0, 0.1, 0.3, 0.4, 0.1]),
        feature(SEX, [0.5, 0.5], [0.5, 0.5]),
    ),
    edges=(),
    stddev=1.0,
)


def test_a_numbers_cells_lie_where_their_values_do() -> None:
    """Middles 5, 15, 25, 35 with equal shares: mean 20, variance 125."""
    found = places(MODEL.features[0], AGE, MODEL.weights)
    assert found == pytest.approx([0, *(np.array([-15, -5, 5, 15]) / np.sqrt(125)), 0], abs=1e-6)


@pytest.mark.parametrize("farthest", [1e-300, 1e6, 1e300])
def test_places_do_not_depend_on_the_unit(farthest: float) -> None:
    cells = replace(AGE, edges=tuple(farthest * edge / 40 for edge in AGE.edges))
    found = places(replace(MODEL.features[0], cells=cells), cells, MODEL.weights)
    assert found == pytest.approx(places(MODEL.features[0], AGE, MODEL.weights))


def test_weights_of_a_number_go_together_and_others_do_not() -> None:
    covariance = prior_covariance(MODEL, (0, 1), 1.0, MODEL)
    place = places(MODEL.features[0], AGE, MODEL.weights)
    assert covariance[:6, :6] == pytest.approx(np.eye(6) + SLOPE * np.outer(place, place))
    assert covariance[6:, 6:] == pytest.approx(np.eye(2))
    assert not covariance[:6, 6:].any()


def test_the_rarer_a_class_the_more_a_slope_may_tell_up_to_a_bound() -> None:
    place = places(MODEL.features[0], AGE, MODEL.weights)
    for rarest, slope in ((0.5, 2.0), (1e-6, 4.0), (0.0, 4.0)):
        assert prior_covariance(MODEL, (0,), rarest, MODEL) == pytest.approx(np.eye(6) + slope * np.outer(place, place))


def test_with_a_tree_each_weight_is_on_its_own() -> None:
    joint = np.full((2, 6, 2), 1 / 12)
    tree = replace(MODEL, edges=(Edge(0, 1, joint, 0.0),))
    assert (prior_covariance(tree, (0, 1), 1.0, tree) == np.eye(8)).all()


def test_with_pairs_of_all_classes_a_slope_tells_as_far_as_a_class_is_rare() -> None:
    joint, place = np.full((2, 6, 2), 1 / 12), places(MODEL.features[0], AGE, MODEL.weights)
    tree = replace(MODEL, edges=(Edge(0, 1, joint, 0.0),), by_class=False)
    for rarest, slope in ((1.0, 0.0), (0.75, 0.25), (0.0, 1.0)):
        covariance = prior_covariance(tree, (0, 1), rarest, tree)
        assert covariance[:6, :6] == pytest.approx(np.eye(6) + SLOPE * slope * np.outer(place, place))
        assert covariance[6:, 6:] == pytest.approx(np.eye(2))


def test_parts_of_one_of_the_trees_cells_share_its_weight() -> None:
    joint = np.full((2, 6, 2), 1 / 12)
    finer = replace(MODEL, edges=(Edge(0, 1, joint, 0.0),))
    halves = replace(finer.features[0], merged=Merged(cells=AGE, groups=(0, 1, 1, 2, 2, 3)))
    tree = replace(finer, features=(halves, finer.features[1]))
    covariance = prior_covariance(finer, (0, 1), 1.0, tree)
    together = np.array([[one == other for other in (0, 1, 1, 2, 2, 3)] for one in (0, 1, 1, 2, 2, 3)], float)
    assert covariance[:6, :6] == pytest.approx(together + PART * np.eye(6))
    assert covariance[6:, 6:] == pytest.approx(np.eye(2))
