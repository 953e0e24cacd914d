"""The tree: what it finds in tables whose shape is known, and what it costs."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from threea.anonymize.open_table import open_table
from threea.anonymize.query import Count, Stack
from threea.approximate.label_counts import CLASSES, RARE, RARE_OF_MANY
from threea.approximate.label_tree import EDGES, FEATURES, PAIR_UNITS, PAIRS, LabelAugmentedTree
from threea.approximate.tree_model import TreeModel
from threea.budget import Budget
from threea.recipes import LabelTree
from threea.table.schema import Schema
from threea.testing import SeededNoise, SilentNoise

ROWS = 4000


def chain(rows: int = ROWS, **options: Any) -> tuple[pa.Table, Schema]:
    """Return a - b - c - d, each mostly a copy of the one before, and a label that d tells of."""
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {}
    value = rng.integers(0, 4, rows)
    for name in "abcd":
        columns[name] = value
        value = np.where(rng.random(rows) < 0.85, value, rng.integers(0, 4, rows))
    label = np.where(columns["d"] + rng.random(rows) > 3, "yes", "no")
    table = pa.table({name: pa.array(codes.astype(str)) for name, codes in columns.items()} | {"label": label})
    kinds: dict[str, Any] = {name: {"kind": "categorical", "categories": list("0123")} for name in "abcd"}
    return table, Schema.of(
        kinds | {"label": {"kind": "categorical", "categories": ["no", "yes"]}}, target=options.get("target", "label")
    )


def fitted(table: pa.Table, schema: Schema, noise: Any = None, epsilon: float = 1.0, alpha: float = 1.0) -> TreeModel:
    recipe = LabelTree(alpha=alpha)
    opened = open_table(table, schema=schema, budget=Budget(epsilon), noise=noise or SeededNoise(1))
    model = recipe.approximate.fit(opened, recipe.plan(opened))
    assert isinstance(model, TreeModel)
    return model


def edges(model: TreeModel) -> set[frozenset[str]]:
    names = [feature.cells.column for feature in model.features]
    return {frozenset((names[edge.parent], names[edge.child])) for edge in model.edges}


CHAIN = {frozenset("ab"), frozenset("bc"), frozenset("cd")}


@pytest.mark.parametrize("epsilon", [1.0, 10.0])
def test_it_finds_the_tree_that_made_the_rows(epsilon: float) -> None:
    assert edges(fitted(*chain(), epsilon=epsilon)) == CHAIN


def test_without_a_target_it_is_a_plain_tree() -> None:
    table, schema = chain(target=None)
    model = fitted(table, schema)
    assert model.label is None
    assert len(model.edges) == 4
    assert edges(model) >= CHAIN
    assert set(model.sample(10, np.random.default_rng(0))) == {*"abcd", "label"}


def test_samples_have_the_dependence_of_the_rows() -> None:
    """Deterministic: exact answers, a fixed seed."""
    table, schema = chain()
    model = fitted(table, schema, SilentNoise())
    drawn = model.sample(20_000, np.random.default_rng(5))
    for left, right in ("ab", "bc", "cd", "ad"):
        real = np.mean(np.array(table[left]) == np.array(table[right]))
        assert np.mean(drawn[left] == drawn[right]) == pytest.approx(real, abs=0.03)
    assert np.mean(drawn["label"]) == pytest.approx(np.mean(np.array(table["label"]) == "yes"), abs=0.02)


def test_the_number_of_rows_is_noisy_and_near() -> None:
    """False-alarm rate below 1e-9: ten standard deviations of the count alone."""
    assert fitted(*chain()).summary.private_rows == pytest.approx(ROWS, abs=10 / np.sqrt(0.02) / 0.2)


def test_a_rare_class_is_drawn_more_often_and_the_model_says_so() -> None:
    rng = np.random.default_rng(2)
    rows = 40_000
    label = np.where(rng.random(rows) < 0.005, "yes", "no")
    value = np.where(label == "yes", "b", "a")
    schema = Schema.of(
        {
            "x": {"kind": "categorical", "categories": ["a", "b"]},
            "label": {"kind": "categorical", "categories": ["no", "yes"], "nullable": False},
        },
        target="label",
    )
    table = pa.table({"x": value, "label": label})
    model = fitted(table, schema, SilentNoise())
    assert model.sizes[1] == pytest.approx((label == "yes").sum())
    drawn = model.draw_balanced(20_000, np.random.default_rng(0))[0]
    assert drawn.mean() == pytest.approx(1 / (1 + RARE), abs=0.01)
    # In a release as often as it occurs. Six standard errors of 20,000 draws: 0.003.
    drawn = model.sample(20_000, np.random.default_rng(0))["label"]
    assert drawn.mean() == pytest.approx((label == "yes").mean(), abs=0.004)


def test_of_many_classes_frequent_ones_count_for_more_beside_a_rare_one() -> None:
    schema = Schema.of(
        {
            "x": {"kind": "categorical", "categories": ["a", "b"]},
            "label": {"kind": "categorical", "categories": ["no", "yes", "rare"], "nullable": False},
        },
        target="label",
    )
    label = ["no"] * 20_000 + ["yes"] * 10_000 + ["rare"] * 200
    model = fitted(pa.table({"x": ["a"] * len(label), "label": label}), schema, SilentNoise())
    np.testing.assert_allclose(model.balanced[:3], [RARE_OF_MANY * 200, RARE_OF_MANY * 200, 200], rtol=0.01)


def test_a_numeric_target_keeps_its_distribution() -> None:
    rng = np.random.default_rng(3)
    days = np.where(rng.random(20_000) < 0.8, 0, rng.integers(1, 50, 20_000))
    schema = Schema.of(
        {
            "x": {"kind": "categorical", "categories": ["a", "b"]},
            "days": {"kind": "integer", "lower": 0, "upper": 50, "special": [0], "nullable": False},
        },
        target="days",
    )
    model = fitted(pa.table({"x": np.where(days > 0, "b", "a"), "days": days}), schema, SilentNoise())
    drawn = model.sample(20_000, np.random.default_rng(0))["days"]
    assert (drawn == 0).mean() == pytest.approx(0.8, abs=0.02)


def test_a_numeric_target_is_cut_into_ranges_and_drawn_back() -> None:
    """Deterministic: exact answers, a fixed seed."""
    rng = np.random.default_rng(4)
    x = rng.normal(0, 1, ROWS)
    y = 3 * x + rng.normal(0, 1, ROWS)
    number = {"kind": "real", "lower": -12, "upper": 12}
    schema = Schema.of({"x": number, "y": number}, target="y")
    model = fitted(pa.table({"x": x, "y": y}), schema, SilentNoise(), epsilon=10.0)
    drawn = model.sample(20_000, np.random.default_rng(1))
    assert model.label is not None
    assert 4 <= model.label.size <= 12
    known = ~np.isnan(drawn["x"])
    assert known.mean() > 0.98, "few are missing: only as many as noise could hide"
    assert np.corrcoef(drawn["x"][known], drawn["y"][known])[0, 1] == pytest.approx(np.corrcoef(x, y)[0, 1], abs=0.06)
    assert np.std(drawn["y"]) == pytest.approx(np.std(y), rel=0.05)


def test_steps_cover_what_it_asks() -> None:
    _, schema = chain()
    names = {step.name: step.count for step in LabelAugmentedTree().steps(schema)}
    assert names == {CLASSES: 1, FEATURES: 1, EDGES: 3, PAIRS: PAIR_UNITS}


def test_ten_thousand_categories_cost_no_more_than_their_counts() -> None:
    rng = np.random.default_rng(0)
    words = [f"w{number}" for number in range(10_000)]
    schema = Schema.of(
        {
            "word": {"kind": "categorical", "categories": words},
            "x": {"kind": "real", "lower": 0, "upper": 1},
            "label": {"kind": "boolean"},
        },
        target="label",
    )
    table = pa.table(
        {
            "word": rng.choice(words, 2000),
            "x": rng.random(2000),
            "label": rng.random(2000) < 0.5,
        }
    )
    model = fitted(table, schema, SilentNoise())
    assert max(feature.merged.size for feature in model.features) <= 34
    assert sum(edge.joint.size for edge in model.edges) <= 3 * 34 * 34


def test_where_rows_are_few_pairs_give_way_to_a_second_look() -> None:
    """Twenty noisy columns and 500 rows: pairs would drown, so their share tells more of the columns one by one."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, 500)
    columns = {f"n{n}": rng.random(500) + (label if n < 2 else 0) for n in range(20)}
    table = pa.table(columns | {"label": np.where(label == 1, "yes", "no")})
    kinds: dict[str, Any] = {name: {"kind": "real", "lower": 0.0, "upper": 2.0} for name in columns}
    schema = Schema.of(kinds | {"label": {"kind": "categorical", "categories": ["no", "yes"]}}, target="label")
    model = fitted(table, schema)
    assert model.edges == ()
    assert set(model.summary.noise) == {CLASSES, FEATURES, PAIRS}
    blur = [feature.stddev for feature in model.features]
    assert sorted(np.argsort(blur)[:2]) == [0, 1], "those that tell the classes apart are among the features seen again"
    assert min(blur) < model.summary.noise[FEATURES] == max(blur)
    assert fitted(*chain(rows=20_000)).edges, "with rows enough there is a tree"


def copies(rows: int = 3_000) -> tuple[pa.Table, Schema]:
    """Return five numbers, four copies of each with a little chance, and a rare label that two of them tell of."""
    rng = np.random.default_rng(0)
    numbers = rng.random((5, rows))
    label = np.where(numbers[0] + numbers[1] + 0.3 * rng.random(rows) > 1.7, "yes", "no")
    columns = {f"{'abcde'[n]}{m}": numbers[n] + 0.1 * rng.random(rows) for m in range(4) for n in range(5)}
    kinds: dict[str, Any] = {name: {"kind": "real", "lower": 0.0, "upper": 1.1, "nullable": False} for name in columns}
    kinds["label"] = {"kind": "categorical", "categories": ["no", "yes"]}
    return pa.table(columns | {"label": label}), Schema.of(kinds, target="label")


def test_where_rows_are_too_few_for_pairs_by_class_they_are_paired_in_all_classes_together() -> None:
    """Of 3,000 rows, a seventh of one class; noise is seeded. Copies are told, and drawn rows keep what ties them."""
    table, schema = copies()
    model = fitted(table, schema)
    assert not model.by_class
    within = [edge for edge in edges(model) if len({name[0] for name in edge}) == 1]
    assert len(model.edges) == 19
    assert len(within) == 15, "each number's copies are tied to one another"
    drawn = model.sample(20_000, np.random.default_rng(0))
    assert np.corrcoef(drawn["a0"], drawn["a3"])[0, 1] > 0.5
    assert abs(np.corrcoef(drawn["c0"], drawn["d3"])[0, 1]) < 0.2
    yes = drawn["label"] == 1
    assert drawn["a0"][yes].mean() > drawn["a0"][~yes].mean() + 0.15, "margins are each class's own"


def test_half_of_what_pairs_by_class_would_cost_pays_for_pairs_and_half_for_the_second_look() -> None:
    table, schema = copies()
    opened = open_table(table, schema=schema, budget=Budget(1.0), noise=SeededNoise(1))
    recipe = LabelTree()
    plan = recipe.plan(opened)
    model = recipe.approximate.fit(opened, plan)
    assert model.noise[PAIRS] == pytest.approx(opened.stddev(Stack((Count(),) * 19), plan[PAIRS]))
    again = [feature.stddev for feature in model.features if feature.stddev < model.stddev]
    second = opened.stddev(Stack((Count(),) * len(again)), plan[PAIRS])
    np.testing.assert_allclose(again, (model.stddev**-2 + second**-2) ** -0.5)


def test_classes_that_noise_alone_explains_are_not_drawn() -> None:
    """A few rows of a class that does not exist can throw a learner off. Noise is seeded: the same each time."""
    table, schema = chain()
    kinds = {name: {"kind": "categorical", "categories": list("0123")} for name in "abcd"}
    listed = {"kind": "categorical", "categories": ["no", "yes", "never", "nobody", "none"]}
    schema = Schema.of(kinds | {"label": listed}, target="label")
    for seed in range(5):
        model = fitted(table, schema, SeededNoise(seed))
        group, _ = model.draw(2_000, np.random.default_rng(0))
        assert set(group.tolist()) == {0, 1}
    tiny = fitted(table.slice(0, 12), schema, SeededNoise(0))
    assert (tiny.sizes > 0).sum() >= 1, "of a few rows, the largest classes stay"


def test_features_of_few_cells_are_paired_by_class_under_noise_that_is_too_much_for_more() -> None:
    """Of 3,000 rows, pairs by class of columns with three values stand out; of columns with many, they would not."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, 3_000).astype(str)
    names = [f"x{index}" for index in range(6)]
    few = {name: rng.integers(0, 3, 3_000).astype(str) for name in names}
    many = {name: rng.integers(0, 30, 3_000).astype(str) for name in names}
    for columns, values in ((few, 3), (many, 30)):
        kinds = {n: {"kind": "categorical", "categories": [str(v) for v in range(values)]} for n in names}
        kinds["label"] = {"kind": "categorical", "categories": ["0", "1"]}
        schema = Schema.of(kinds, target="label")
        table = open_table(
            pa.table({**columns, "label": label}), schema=schema, budget=Budget(1.0), noise=SeededNoise(1)
        )
        recipe = LabelTree()
        model = recipe.approximate.fit(table, recipe.plan(table))
        assert len(model.edges) == 5
        assert model.by_class == (values == 3)
