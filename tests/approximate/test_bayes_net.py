"""The Bayesian network: which AP pairs are looked at and chosen, what tables become, and that conditions are met."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from threea.anonymize.events import Gaussian, Pure
from threea.anonymize.open_table import open_table
from threea.approximate import ap_pairs
from threea.approximate.ap_pairs import Attribute, candidates, generalised
from threea.approximate.bayes_net import ONE_WAY, PAIRS, TABLES
from threea.approximate.bayes_net_model import BayesNetModel
from threea.approximate.conditional_table import conditional
from threea.approximate.conditioning import distributions
from threea.approximate.feature import Feature
from threea.budget import Budget
from threea.errors import SettingError
from threea.recipes import PrivBayes
from threea.table.cells import Bins, Categories
from threea.table.conditions import Among, Between, fits, fitting
from threea.table.schema import Schema
from threea.testing import SeededNoise, SilentNoise

ROWS = 4000


def chain(target: str | None = "label", rows: int = ROWS) -> tuple[pa.Table, Schema]:
    """Return a - b - c, each mostly a copy of the one before, a label that c tells of, and what nothing tells of."""
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {}
    value = rng.integers(0, 4, rows)
    for name in "abc":
        columns[name] = pa.array(value.astype(str))
        value = np.where(rng.random(rows) < 0.85, value, rng.integers(0, 4, rows))
    columns["label"] = np.where(value + rng.random(rows) > 3, "yes", "no")
    columns["alone"] = rng.uniform(0, 1, rows)
    kinds: dict[str, Any] = {name: {"kind": "categorical", "categories": list("0123")} for name in "abc"}
    kinds["label"] = {"kind": "categorical", "categories": ["no", "yes"], "nullable": False}
    kinds["alone"] = {"kind": "real", "lower": 0.0, "upper": 1.0}
    return pa.table(columns), Schema.of(kinds, target=target)


def fitted(recipe: PrivBayes, target: str | None = "label", epsilon: float = 4.0, noise: Any = None) -> BayesNetModel:
    table, schema = chain(target)
    opened = open_table(table, schema=schema, budget=Budget(epsilon), noise=noise or SeededNoise(1))
    model = recipe.run(opened).model
    assert isinstance(model, BayesNetModel)
    return model


def parents(model: BayesNetModel) -> dict[str, tuple[str, ...]]:
    names = [node.feature.cells.column for node in model.nodes]
    return {name: tuple(names[p] for p in node.parents) for name, node in zip(names, model.nodes, strict=True)}


def attribute(name: str, size: int, finest: int = 16) -> Attribute:
    cells = Categories(column=name, count=size, missing=False)
    counts = np.arange(size, 0.0, -1)[None, :]
    return Attribute.of(Feature.of(cells, counts, np.array([counts.sum()]), 0.0), finest, 0.0)


class TestPairs:
    def test_levels_are_ever_coarser(self) -> None:
        assert [level.size for level in attribute("x", 40).levels] == [16, 8, 4, 2]
        assert [level.size for level in attribute("x", 3).levels] == [3, 2]
        assert [level.size for level in attribute("x", 1).levels] == [1]
        assert [attribute("x", 40).within(cells).size for cells in (99, 15, 1)] == [16, 8, 2]

    def test_the_largest_is_generalised_first_until_all_fit(self) -> None:
        sizes = [attribute("x", 16), attribute("y", 4)]
        found = {cells: generalised(sizes, cells) for cells in (64, 63, 8, 4, 3.9)}
        assert [levels and tuple(level.size for level in levels) for levels in found.values()] == [
            (16, 4), (8, 4), (4, 2), (2, 2), None,
        ]  # fmt: skip

    def test_no_table_has_more_cells_than_are_useful(self) -> None:
        attributes = [attribute(name, size) for name, size in zip("abcdef", (2, 16, 9, 40, 3, 1), strict=True)]
        for useful, degree in itertools.product((3, 8, 50, 400), (1, 2, 3)):
            pairs = candidates(attributes, [0, 2, 1, 5], useful, degree, always=0)
            assert bool(pairs) == (useful >= 4)
            for pair in pairs:
                assert np.prod([cells.size for cells in pair.cells]) <= useful
                assert len(pair.parents) <= degree
                assert pair.child in (3, 4)
                assert 0 in pair.parents, "the target is a parent wherever it fits"
                assert 5 not in pair.parents, "a constant tells nothing"

    def test_what_does_not_fit_is_no_parent_though_always_asked_for(self) -> None:
        attributes = [attribute("y", 64, finest=4), attribute("a", 2), attribute("b", 2)]
        object.__setattr__(attributes[0], "levels", attributes[0].levels[:1])
        assert {pair.parents for pair in candidates(attributes, [0, 1], 4, 3, always=0)} == {(1,)}

    def test_they_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        attributes = [attribute(f"c{place}", 4) for place in range(60)]
        pairs = candidates(attributes, range(30), 1e6, 3, always=0)
        assert len(pairs) == len(set(pairs)) <= ap_pairs.MOST_CANDIDATES
        singles = candidates(attributes, range(30), 1e6, 2, always=0)
        assert {pair.child for pair in singles} == set(range(30, 43)), "all sets of one attribute before the next"
        monkeypatch.setattr(ap_pairs, "MOST_CANDIDATES", 7)
        assert [pair.parents for pair in candidates(attributes, range(30), 1e6, 2, always=0)] == [
            (0,), *((0, newest) for newest in range(29, 23, -1))
        ]  # fmt: skip

    def test_sets_that_cannot_fit_are_not_tried(self, monkeypatch: pytest.MonkeyPatch) -> None:
        tried: list[int] = []
        once = ap_pairs._generalised
        monkeypatch.setattr(ap_pairs, "_generalised", lambda sizes, cells: tried.append(1) or once(sizes, cells))
        attributes = [attribute(f"c{place}", 4) for place in range(60)]
        pairs = candidates(attributes, range(59), 8, 4, always=0)
        assert {pair.parents for pair in pairs} == {(0,), *((0, other) for other in range(1, 59))}
        assert len(tried) == len(pairs), "not the thousands of sets of two and three beside the target"


class TestConditional:
    def test_exact_counts_give_their_own_distribution(self) -> None:
        counts = np.random.default_rng(0).integers(1, 50, (2, 3, 4)).astype(float)
        flat = counts.reshape(6, 4)
        given = conditional(counts, flat.sum(axis=1) / flat.sum(), flat.sum(axis=0) / flat.sum(), 1e-9)
        np.testing.assert_allclose(given, flat / flat.sum(axis=1, keepdims=True), atol=1e-5)

    def test_noise_leaves_the_one_way_table(self) -> None:
        own = np.array([0.7, 0.2, 0.1])
        counts = np.random.default_rng(0).normal(0, 50, (4, 5, 3))
        given = conditional(counts, np.full(20, 0.05), own, 1e3)
        np.testing.assert_allclose(given, np.tile(own, (20, 1)), atol=1e-6)

    def test_margins_hold_and_what_cannot_be_is_not(self) -> None:
        own, parents = np.array([0.6, 0.4, 0.0]), np.array([0.5, 0.5, 0.0])
        given = conditional(np.array([[300.0, 90, 9], [60.0, 300, 5], [-9.0, -4, 3]]), parents, own, 5.0)
        np.testing.assert_allclose(parents @ given, own, atol=1e-6)
        assert (given[:, 2] == 0).all()
        assert (given[:, :2] > 0).all(), "or a condition could not be met"


class TestNetwork:
    @pytest.mark.parametrize("noise", ["gaussian", "laplace"])
    def test_it_finds_who_depends_on_whom(self, noise: Any) -> None:
        """Fixed seed; the second largest R is hundreds of rows smaller, a choice errs by tens."""
        found = parents(fitted(PrivBayes(noise=noise, degree=2)))
        assert next(iter(found)) == "label"
        assert found["label"] == ()
        assert found["alone"] == ("label",), "chance and noise are no reason for more parents"
        tied = {frozenset((name, given[1])) for name, given in found.items() if len(given) == 2}
        assert tied == {frozenset("ab"), frozenset("bc")}
        assert all(given[0] == "label" for name, given in found.items() if name != "label")

    def test_without_a_target_the_first_column_starts(self) -> None:
        found = parents(fitted(PrivBayes(degree=1), target=None))
        assert list(found.items())[:3] == [("a", ()), ("b", ("a",)), ("c", ("b",))]

    def test_drawn_rows_are_like_the_private_ones(self) -> None:
        """Fixed seeds; 4,000 rows: shares of agreeing pairs are known to 0.01 and drawn to 0.005."""
        table, _ = chain()
        drawn = fitted(PrivBayes(), epsilon=50.0).sample(20_000, np.random.default_rng(0))
        for one, other in (("a", "b"), ("b", "c"), ("a", "c")):
            real = np.mean(table[one].to_numpy() == table[other].to_numpy())
            assert np.mean(drawn[one] == drawn[other]) == pytest.approx(real, abs=0.04)
        yes = table["label"].to_numpy() == "yes"
        three = table["c"].to_numpy() == "3"
        assert drawn["label"][drawn["c"] == 3].mean() == pytest.approx(yes[three].mean(), abs=0.04)

    @pytest.mark.parametrize("noise", ["gaussian", "laplace"])
    def test_too_large_a_theta_leaves_no_parents_and_every_charge_is_a_count(self, noise: Any) -> None:
        model = fitted(PrivBayes(theta=1e6, noise=noise))
        assert set(parents(model).values()) == {()}
        counted = {node.feature.cells.column: node.feature.stddev for node in model.nodes}
        assert counted["label"] == model.noise[ONE_WAY], "the first was counted once"
        assert all(stddev < model.noise[ONE_WAY] / 2 for name, stddev in counted.items() if name != "label")

    def test_degree_0_asks_for_one_way_tables_alone(self) -> None:
        table, schema = chain()
        opened = open_table(table, schema=schema, budget=Budget(1.0))
        assert [(line.name, line.count) for line in PrivBayes(degree=0).plan(opened).lines] == [(ONE_WAY, 5)]
        model = fitted(PrivBayes(degree=0))
        assert set(parents(model).values()) == {()}

    def test_the_budget_is_shared_as_the_settings_say(self) -> None:
        table, schema = chain()
        opened = open_table(table, schema=schema, budget=Budget(1.0))
        for noise, kind in (("gaussian", Gaussian), ("laplace", Pure)):
            lines = PrivBayes(noise=noise, beta=0.25).plan(opened).lines  # type: ignore[arg-type]
            assert {line.name: (type(line.event), line.count) for line in lines} == {
                ONE_WAY: (kind, 5), PAIRS: (Pure, 4), TABLES: (kind, 4),
            }  # fmt: skip
            assert [line.share for line in lines] == pytest.approx([0.15, 0.25, 0.6])

    def test_useful_is_theta_times_the_scale_of_the_noise(self) -> None:
        gaussian, laplace = (PrivBayes(noise=noise).approximate for noise in ("gaussian", "laplace"))  # type: ignore[arg-type]
        assert gaussian.useful(8000.0, 20.0, 10) == pytest.approx(100)
        assert laplace.useful(8000.0, 20.0 * 2**0.5, 10) == pytest.approx(100)
        assert gaussian.useful(8000.0, 1e-3, 10) == 2000, "cells of less than theta rows say little"
        assert gaussian.useful(1e12, 1.0, 10) == 1 << 13
        assert gaussian.useful(1e12, 1.0, 1024) == 1 << 10
        assert gaussian.useful(0.0, 1.0, 10) == 0

    def test_classes_of_noise_alone_are_not_drawn(self) -> None:
        table, _ = chain()
        kinds: dict[str, Any] = {"label": {"kind": "categorical", "categories": ["no", "yes", "never"]}}
        schema = Schema.of(kinds | {"alone": {"kind": "real", "lower": 0.0, "upper": 1.0}}, target="label")
        opened = open_table(table.select(["label", "alone"]), schema=schema, budget=Budget(1.0), noise=SeededNoise(3))
        drawn = PrivBayes().run(opened).model.sample(50_000, np.random.default_rng(0))["label"]
        assert set(drawn.tolist()) == {0, 1}


class TestConditions:
    @pytest.fixture(scope="class")
    def model(self) -> BayesNetModel:
        return fitted(PrivBayes(), noise=SilentNoise())

    def exact(self, model: BayesNetModel, name: str, given: Any) -> np.ndarray:
        """Return a column's distribution over its merged cells under conditions: every combination, enumerated."""
        names = [node.feature.cells.column for node in model.nodes]
        sizes = [node.feature.cells.size for node in model.nodes if node.feature.cells.column != "alone"]
        total = np.zeros(model.nodes[names.index(name)].feature.cells.size)
        shown = [place for place, each in enumerate(names) if each != "alone"]
        for cells in itertools.product(*(range(size) for size in sizes)):
            code = dict(zip(shown, cells, strict=True))
            likely = 1.0
            for place in shown:
                node = model.nodes[place]
                row = 0
                for parent, level in zip(node.parents, node.levels, strict=True):
                    row = row * level.size + level.groups[code[parent]]
                merged = node.feature.merged.groups[code[place]]
                inside = np.asarray(node.feature.merged.groups) == merged
                share = node.feature.given[0, code[place]] / max(node.feature.given[0, inside].sum(), 1e-300)
                fit = fitting(node.feature.cells, given.get(names[place]))[code[place]]
                likely *= distributions(node.given)[row, merged] * share * fit
            total[code[names.index(name)]] += likely
        return total / total.sum()

    @pytest.mark.parametrize("given", [{"c": Among((3,))}, {"a": Among((0, 2)), "label": Among((1,))}], ids=str)
    def test_they_hold_and_other_columns_follow_bayes_rule(self, model: BayesNetModel, given: Any) -> None:
        """Against every combination of cells. Fixed seed; of 8 * 20,000 weighted rows shares are known to 0.01."""
        assert parents(model)["alone"] == ("label",), "or it would not drop out of the sums"
        drawn = model.sample(20_000, np.random.default_rng(0), given)
        assert fits(drawn, given).all()
        for name in ("a", "b", "c", "label"):
            size = 5 if name != "label" else 2
            codes = np.where(drawn[name] < 0, size - 1, drawn[name])
            share = np.bincount(codes, minlength=size) / len(codes)
            np.testing.assert_allclose(share, self.exact(model, name, given), atol=0.02)

    def test_the_first_column_needs_no_pool(self, model: BayesNetModel, monkeypatch: pytest.MonkeyPatch) -> None:
        asked, whole = [], BayesNetModel._codes
        monkeypatch.setattr(
            BayesNetModel, "_codes", lambda self, rows, *rest: asked.append(rows) or whole(self, rows, *rest)
        )
        assert set(model.sample(50, np.random.default_rng(0), {"label": Among((1,))})["label"]) == {1}
        assert len(model.sample(1000, np.random.default_rng(0), {"a": Among((1,))})["a"]) == 1000
        assert asked == [50, 8000]

    def test_where_nothing_fits_one_line_says_so(self, model: BayesNetModel) -> None:
        for given in ({"label": Among(())}, {"a": Among(())}, {"alone": Between(2.0, 3.0), "label": Among((1,))}):
            with pytest.raises(SettingError, match="no row that the model draws fits the conditions on"):
                model.sample(5, np.random.default_rng(0), given)

    def test_bins_are_drawn_within_what_is_asked(self, model: BayesNetModel) -> None:
        drawn = model.sample(500, np.random.default_rng(0), {"alone": Between(0.333, 0.334)})["alone"]
        assert isinstance(next(n for n in model.nodes if n.feature.cells.column == "alone").feature.cells, Bins)
        assert (drawn >= 0.333).all()
        assert (drawn <= 0.334).all()
