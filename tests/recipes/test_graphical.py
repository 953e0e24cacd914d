"""`mst` and `aim`: what they choose, how large they get, and what they keep of pairs of columns."""

import numpy as np
import pytest

from threea import hospital
from threea.anonymize.open_table import open_table
from threea.approximate.adaptive import weights
from threea.approximate.graph_column import GraphColumn
from threea.approximate.graphical import drawn_evenly
from threea.budget import Budget
from threea.errors import SettingError
from threea.recipes import AIM, MST, Independent
from threea.table import codec
from threea.table.cells import Categories
from threea.table.schema import Schema
from threea.testing import SeededNoise

STAYS = hospital.stays(6_000)


def released(recipe, schema=None):
    described = schema or hospital.schema()
    return recipe.run(open_table(STAYS, schema=described, budget=Budget(4.0), noise=SeededNoise(0)), rows=6_000, seed=0)


def off(release):
    """Return the mean distance of all pairs of columns' tables to the private rows', in coarse cells."""
    cells = [column.cells(6) for column in release.schema.modelled]
    found = []
    for rows in (STAYS, release.table):
        chunk = codec.encode(rows, release.schema)
        index = [np.maximum(cell.index(chunk[cell.column]), 0) for cell in cells]
        shapes = [(a.size, b.size) for a in cells for b in cells]
        pairs = [(a, b) for a in index for b in index]
        found.append(
            [np.bincount(a * s[1] + b, minlength=s[0] * s[1]) / len(a) for (a, b), s in zip(pairs, shapes, strict=True)]
        )
    return float(np.mean([np.abs(one - other).sum() / 2 for one, other in zip(*found, strict=True)]))


def test_pairs_are_kept_better_than_by_independent_columns_and_by_aim_best():
    """Seeded noise: no chance."""
    independent, mst, aim = (off(released(each)) for each in (Independent(), MST(), AIM(iterations=300)))
    assert aim < mst < independent


@pytest.mark.parametrize("recipe", [MST(iterations=50), AIM(iterations=50)], ids=lambda recipe: recipe.name)
def test_no_target_is_needed(recipe):
    schema = hospital.schema()
    release = released(recipe, Schema(schema.columns))
    assert abs(release.summary.private_rows - STAYS.num_rows) < 5 * release.summary.private_rows_stddev
    assert set(release.table.column_names) == set(STAYS.column_names)


def test_a_tree_has_pairs_and_no_more():
    model = released(MST(iterations=50)).model
    assert {len(clique) for clique in model.tree.cliques} == {2}
    assert len(model.tree.cliques) == len(model.columns) - 1


def test_a_model_stays_within_its_size():
    small, large = (released(AIM(max_model_size=size, iterations=100)).model.tree for size in (0.01, 8.0))
    assert small.cells * 8 / 2**20 <= 0.01 < large.cells * 8 / 2**20


def test_the_target_weighs_more_and_all_alike_if_asked_for():
    assert weights(3, 0, 2) == {(0,): 4, (1,): 3, (2,): 3, (0, 1): 7, (0, 2): 7, (1, 2): 6}
    assert len(set(weights(5, 1, 1).values())) == 2
    assert max(weights(400, None, 1).values()) == 512
    assert AIM().approximate.target_weight > AIM(workload="all").approximate.target_weight == 1


def test_rare_and_too_many_values_are_merged_by_noisy_counts():
    cells = Categories(column="ward", count=10_000, missing=False)
    counts = np.r_[np.arange(10_000, 0, -1.0)]
    column = GraphColumn.of(cells, counts, stddev=3_000.0, most=64)
    assert column.merged.size == 64
    assert GraphColumn.of(cells, counts, stddev=3_330.0, most=64).merged.size == 12
    assert column.shares[:63] == pytest.approx(np.ones(63))
    assert column.shares[63:].sum() == pytest.approx(1.0)


def test_rows_are_drawn_nearly_as_often_as_they_weigh():
    rng = np.random.default_rng(0)
    drawn = drawn_evenly(np.array([[0.5, 0.3, 0.2, 0.0], [0.0, 0.0, 1.0, 0.0]]), np.repeat([0, 1], [1000, 500]), rng)
    assert np.abs(np.bincount(drawn[:1000], minlength=4) - [500, 300, 200, 0]).max() <= 1
    assert set(drawn[1000:]) == {2}


@pytest.mark.parametrize(
    ("recipe", "settings", "match"),
    [
        (AIM, {"workload": "pairs"}, r"workload \(pairs\) must be one of target, all"),
        (AIM, {"max_model_size": 0.0}, r"max_model_size \(0\) must be from 0.01 to 1024 MB"),
        (AIM, {"bins": 1}, r"bins \(1\) must be from 2"),
        (AIM, {"iterations": 0}, r"iterations \(0\) must be from 1"),
        (MST, {"bins": 2000}, r"bins \(2000\) must be from 2 to 1024"),
        (MST, {"iterations": 0}, r"iterations \(0\) must be from 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(recipe, settings, match):
    with pytest.raises(SettingError, match=match):
        recipe(**settings)


@pytest.mark.parametrize("recipe", [MST(bins=8, iterations=10), AIM(bins=8, iterations=10)], ids=lambda each: each.name)
def test_the_target_is_not_missing_nor_other_where_noise_alone_says_so(recipe):
    """Without a schema a target may be both. Of 25 seeded releases most had such classes, some of both kinds."""
    stays = STAYS.select(["ward", "sex", "died"])
    stays = stays.set_column(2, "died", stays["died"].cast("string"))
    for seed in range(25):
        table = open_table(stays, target="died", budget=Budget(2.0), noise=SeededNoise(seed))
        release = recipe.run(table, rows=5_000, seed=0)
        assert set(release.table["died"].to_pylist()) <= {"true", "false"}
        # The rows of what is left keep their ratio, and conditions hold.
        private = np.mean([died == "true" for died in stays["died"].to_pylist()])
        drawn = np.mean([died == "true" for died in release.table["died"].to_pylist()])
        assert drawn == pytest.approx(private, abs=0.02)
        assert set(release.sample(50, given={"died": "true"}, seed=1)["died"].to_pylist()) == {"true"}


def test_a_target_that_is_missing_in_many_rows_stays_so():
    died = np.where(np.arange(STAYS.num_rows) % 4 == 0, None, np.where(np.arange(STAYS.num_rows) % 3 == 0, "a", "b"))
    stays = STAYS.select(["ward", "sex"]).append_column("died", [died.tolist()])
    table = open_table(stays, target="died", budget=Budget(2.0), noise=SeededNoise(0))
    drawn = MST(bins=8, iterations=50).run(table, rows=5_000, seed=0).table["died"]
    assert drawn.null_count / len(drawn) == pytest.approx(0.25, abs=0.03)
