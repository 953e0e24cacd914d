"""The MC-GEN table, on a made-up dataset: what is measured and kept, means, who is ahead, the page and the figures."""

import dataclasses
import json
import re
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest

from benchmarks import datasets, measure
from benchmarks.command import benchmark, html, markdown, mcgen
from benchmarks.datasets import Dataset
from benchmarks.datasets.published import MCGEN_FIGURES, MCGEN_SIZES
from benchmarks.page import mcgen_charts
from benchmarks.page.layouts import page
from benchmarks.tables import mcgen as module
from benchmarks.tables.mcgen_means import ahead, best_k, means
from threea import recipes
from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Plan
from threea.approximate.histograms import LabelHistograms
from threea.certificate import Guarantee
from threea.drawing import LEAST_ROWS
from threea.errors import SettingError
from threea.evaluate.utility import learners
from threea.framework import Recipe
from threea.table.schema import Schema

SCHEMA = Schema.of(
    {
        "age": {"kind": "integer", "lower": 0, "upper": 99, "nullable": False},
        "died": {"kind": "categorical", "categories": ["no", "yes"], "nullable": False},
    },
    target="died",
)


def toy(folder: Path, name: str = "toy") -> Dataset:
    rng = np.random.default_rng(1)
    age = rng.integers(0, 100, 600)
    died = np.where(rng.random(600) < 1 / (1 + np.exp(-(age - 50) / 8)), "yes", "no")
    return Dataset(name=name, title="Toy", table=pa.table({"age": age, "died": died}), target="died", schema=SCHEMA)


@dataclass(frozen=True, kw_only=True)
class Sized(Recipe):
    """Has a share of the rows in a cluster, as MC-GEN does."""

    name: ClassVar[str] = "mcgen-sized"
    summary: ClassVar[str] = "has a k"
    k: float = 0.4
    noise: str = "algorithm"

    @property
    def guarantee(self) -> Guarantee:
        return {"algorithm": Guarantee.CLAIMED, "code": Guarantee.NONE}.get(self.noise, Guarantee.PROVEN)

    @property
    def approximate(self) -> LabelHistograms:
        return LabelHistograms(bins=8)


@dataclass(frozen=True, kw_only=True)
class Parents(Recipe):
    """Its k is a number of something else."""

    name: ClassVar[str] = "parents"
    summary: ClassVar[str] = "another k"
    k: int = 2

    @property
    def approximate(self) -> LabelHistograms:
        return LabelHistograms(bins=8)

    def plan(self, table: PrivateTable, score: float = 0.0) -> Plan:
        raise ValueError("always fails")


class Fake:
    """Stands in for releases and learners: counts, and scores by the recipe's k, epsilon and scenario."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.released: list[tuple[Recipe, float, int]] = []
        patch.setattr(module, "released", self.release)
        patch.setattr(module, "scored", self.score)
        self.last: tuple[float, float] = (0.0, 0.0)

    def release(self, dataset: Dataset, train: pa.Table, recipe: Recipe, **settings: float) -> tuple:
        assert settings["delta"] == 1 / train.num_rows
        if isinstance(recipe, Parents):
            raise ValueError("always fails")
        self.released.append((recipe, settings["epsilon"], train.num_rows))
        self.last = (getattr(recipe, "k", 0.5), settings["epsilon"])
        made = {"seconds": 1.0, "rows": train.num_rows, "guarantee": str(recipe.guarantee)}
        return train.replace_schema_metadata({"made": "synthetic"}), made

    def score(self, dataset: Dataset, *, train: pa.Table, test: pa.Table, names: list, seed: int, **_: object) -> dict:
        synthetic = train.schema.metadata or test.schema.metadata
        k, epsilon = self.last
        # Best at k = 0.6; better with epsilon; seeds differ.
        accuracy = 0.7 + 0.1 * epsilon - (k - 0.6) ** 2 if synthetic else 0.9
        return {name: {"accuracy": accuracy + 0.01 * seed - 0.02 * place} for place, name in enumerate(names)}


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    register(monkeypatch)
    return Fake(monkeypatch)


def register(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(datasets.LOADERS, "toy", toy)
    patch.setitem(datasets.LOADERS, "pima", lambda folder: toy(folder, "pima"))
    for recipe in (Sized, Parents):
        patch.setitem(recipes.RECIPES, recipe.name, recipe)


NAMES = ["independent", "mcgen-sized:noise=gaussian", "mcgen-sized", "mcgen-sized:noise=code", "parents"]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict:
    with pytest.MonkeyPatch.context() as patch:
        register(patch)
        Fake(patch)
        return mcgen(["pima", "toy"], NAMES, [0.1, 1.0], 2, data=tmp_path_factory.mktemp("data"), ks=[0.2, 0.6, 1.0])


def test_real_releases_are_scored_in_both_scenarios(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch)
    result = mcgen(["toy"], ["independent", "parents"], [0.5, 1.0], 1, data=tmp_path, rows=400)
    assert [(line["scenario"], line["learner"]) for line in result["lines"]] == [
        (scenario, learner) for scenario in (1, 2) for learner in ("svm", "logistic", "boosting")
    ]
    for line in result["lines"]:
        assert line["rows"] == 400
        assert line["real"]["mean"] > 0.7
        assert set(line["recipes"]["independent"]) == {"0.5", "1"}
        assert 0 < line["recipes"]["independent"]["1"]["mean"] <= 1
        assert line["recipes"]["parents"]["1"]["error"].startswith("error: ValueError")
        assert line["by_k"] == {}
    # So many are drawn by default from tables that are smaller.
    assert {line["recipes"]["independent"]["1"]["rows"] for line in result["lines"]} == {LEAST_ROWS}
    json.dumps(result, allow_nan=False)


def test_it_trains_and_tests_on_the_right_rows(tmp_path: Path, fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def scored(dataset: Dataset, *, real: pa.Table, train: pa.Table, test: pa.Table, names: list, **_: object) -> dict:
        seen.append((real, train, test))
        return {name: {"accuracy": 1.0} for name in names}

    monkeypatch.setattr(module, "scored", scored)
    mcgen(["toy"], ["independent"], [1.0], 1, data=tmp_path)
    sizes = [
        (train.num_rows, bool(train.schema.metadata), test.num_rows, bool(test.schema.metadata))
        for _, train, test in seen
    ]
    assert sizes == [(480, False, 120, False), (480, False, 120, True), (480, True, 120, False)]
    assert all(real.num_rows == 480 and not real.schema.metadata for real, _, _ in seen)


def test_learners_of_the_same_rows_are_fitted_once_and_score_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    fits = []

    def fit(*arguments: object) -> learners.Fitted:
        fits.append(arguments[0])
        return original(*arguments)

    original = learners.fit
    monkeypatch.setattr(learners, "fit", fit)
    dataset = toy(Path())
    train, test = dataset.split(0, 0.5)
    other = test.slice(0, 100)
    settings = {"real": train, "train": train, "names": module.LEARNERS, "seed": 0}
    kept = measure.FittedLearners()
    found = [measure.scored(dataset, test=one, fitted=kept, **settings) for one in (test, other)]
    assert fits == list(module.LEARNERS)
    assert found == [measure.scored(dataset, test=one, **settings) for one in (test, other)]
    assert found[0] != found[1]
    # Other rows to learn from, or another seed, are other fits.
    for changed in ({"train": test}, {"seed": 1}):
        fits.clear()
        measure.scored(dataset, test=other, fitted=kept, **settings | changed)
        assert fits == list(module.LEARNERS)


def test_what_is_measured_unasked_is_every_column_that_is_registered(tmp_path: Path, fake: Fake) -> None:
    result = mcgen(["toy"], None, [1.0], 1, data=tmp_path, ks=[], scenarios=[2])
    known = [text for text in module.COLUMNS if text.partition(":")[0] in recipes.RECIPES]
    assert list(result["recipes"]) == known
    assert known[:2] == ["auto", "independent"]


def test_the_papers_own_figures_stand_beside_ours(measured: dict) -> None:
    own = [line["theirs"] for line in measured["lines"] if line["dataset"] == "pima"]
    assert own == [0.80, 0.78, 0.75, 0.82, 0.80, 0.85]
    assert all(line["theirs"] is None for line in measured["lines"] if line["dataset"] == "toy")
    numbers = [number for by in MCGEN_FIGURES.values() for one in by.values() for number in one.values()]
    assert sorted(numbers) == list(range(4, 16))
    assert set(MCGEN_SIZES) == set(module.DATASETS)


class TestK:
    def test_recipes_that_leave_k_open_are_measured_at_every_k(self, measured: dict) -> None:
        for line in measured["lines"]:
            # A whole number named k is no share of the rows.
            assert list(line["by_k"]) == [name for name in NAMES if name.startswith("mcgen-sized")]
            for by_epsilon in line["by_k"].values():
                assert {epsilon: list(by_k) for epsilon, by_k in by_epsilon.items()} == {
                    epsilon: ["0.2", "0.6", "1"] for epsilon in ("0.1", "1")
                }
            by_k = line["by_k"]["mcgen-sized"]["1"]
            assert by_k["0.6"]["mean"] > line["recipes"]["mcgen-sized"]["1"]["mean"] > by_k["0.2"]["mean"]

    def test_a_k_that_is_named_is_not_varied(self, tmp_path: Path, fake: Fake) -> None:
        result = mcgen(["toy"], ["mcgen-sized:noise=code,k=0.2"], [1.0], 1, data=tmp_path, scenarios=[2])
        assert [recipe.k for recipe, _, _ in fake.released] == [0.2]
        assert result["lines"][0]["by_k"] == {}

    def test_each_release_is_made_once_however_it_is_named(self, tmp_path: Path, fake: Fake) -> None:
        names = ["mcgen-sized", "mcgen-sized:k=0.4", "mcgen-sized:k=0.6"]
        settings = {"seeds": 1, "data": tmp_path, "cells": tmp_path / "cells.jsonl"}
        mcgen(["toy"], names, [1], ks=[0.4, 0.6, 1], scenarios=[2.0], **settings)
        assert [recipe.k for recipe, _, _ in fake.released] == [0.4, 0.6, 1.0]
        mcgen(["toy"], ["mcgen-sized:k=1", "mcgen-sized:k=0.6"], [1.0], scenarios=[2], **settings)
        assert len(fake.released) == 3

    def test_k_can_be_varied_at_some_epsilons_only(self, tmp_path: Path, fake: Fake) -> None:
        settings = {"ks": [0.2, 1.0], "k_epsilons": [1.0], "scenarios": [1], "data": tmp_path}
        result = mcgen(["toy"], ["mcgen-sized"], [0.1, 1.0], 1, **settings)
        assert [(recipe.k, epsilon) for recipe, epsilon, _ in fake.released] == [
            (0.4, 0.1),
            (0.4, 1.0),
            (0.2, 1.0),
            (1.0, 1.0),
        ]
        assert {rows for _, _, rows in fake.released} == {120}
        assert list(result["lines"][0]["by_k"]["mcgen-sized"]) == ["1"]
        assert [(entry["k"], list(entry["epsilons"])) for entry in result["means"]][-1] == ("best", ["1"])
        # The page has the figures that there are.
        assert page(result).sections[0].rows[-1][2] == ""

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"ks": [0.0]}, r"^ks \(0\) must be shares of the rows, above 0 and at most 1$"),
            ({"ks": [20]}, r"^ks \(20\) must be shares"),
            ({"ks": [0.2, 0.2]}, r"^ks \(0.2, 0.2\) must be at least one, each once$"),
            ({"scenarios": []}, r"^scenarios \(\) must be at least one, each once$"),
            ({"scenarios": [1.5]}, r"^scenarios \(1.5\) must be 1 or 2$"),
            ({"epsilons": [1.0, 1]}, r"^epsilons \(1.0, 1.0\) must be at least one, each once$"),
            ({"k_epsilons": [0.5]}, r"^k_epsilons \(0.5\) must be among the epsilons \(0.1, 0.2, "),
        ],
    )
    def test_mistakes_are_one_line(self, tmp_path: Path, fake: Fake, changed: dict, message: str) -> None:
        with pytest.raises(SettingError, match=message):
            mcgen(["toy"], ["mcgen-sized"], data=tmp_path, **changed)
        assert fake.released == []


def test_a_run_in_parts_ends_in_the_same_table(tmp_path: Path, fake: Fake, measured: dict) -> None:
    settings = {"seeds": 2, "data": tmp_path, "cells": tmp_path / "cells.jsonl", "ks": [0.2, 0.6, 1.0]}
    for dataset in ("toy", "pima"):
        for scenario in (1, 2):
            mcgen([dataset], NAMES[:3], [0.1, 1.0], scenarios=[scenario], **settings)
    mcgen(["pima", "toy"], NAMES[3:], [1.0, 0.1], **settings)
    fits = len(fake.released)
    assert mcgen(["pima", "toy"], NAMES, [0.1, 1.0], **settings) == measured
    assert len(fake.released) == fits


def summary(mean: float | None, *by_seed: float | None) -> dict:
    scores = by_seed or (mean,)
    return {"mean": mean, "stdev": None, "by_seed": list(scores), "seeds": sum(one is not None for one in scores)}


def line(scenario: int, real: float, by_k: dict | None = None, **scores: float | None) -> dict:
    return {
        "dataset": "d",
        "scenario": scenario,
        "learner": "svm",
        "real": summary(real),
        "theirs": None,
        "recipes": {name.replace("_", "-"): {"1": summary(mean)} for name, mean in scores.items()},
        "by_k": by_k or {},
    }


class TestMeans:
    def test_they_are_over_datasets_classifiers_and_seeds(self, measured: dict) -> None:
        own = [one for one in measured["lines"] if one["scenario"] == 2]
        for name in ("independent", "mcgen-sized"):
            (entry,) = [
                entry
                for entry in measured["means"]
                if (entry["scenario"], entry["recipe"], entry["k"]) == (2, name, "own")
            ]
            scores = [score for one in own for score in one["recipes"][name]["0.1"]["by_seed"]]
            found = entry["epsilons"]["0.1"]
            # Two datasets, three classifiers, two seeds.
            assert (found["scores"], found["of"]) == (12, 12)
            assert found["accuracy"] == pytest.approx(statistics.fmean(scores))
            assert found["distance"] == pytest.approx(0.9 - found["accuracy"] + 0.005 - 0.02)

    def test_distances_to_either_side_count(self) -> None:
        found = means([line(2, 0.8, a=0.9), line(2, 0.8, a=0.7), line(1, 0.8, a=0.8)])
        by = {(one["scenario"], one["recipe"]): one["epsilons"]["1"] for one in found}
        assert by[2, "a"]["accuracy"] == pytest.approx(0.8)
        assert by[2, "a"]["distance"] == pytest.approx(0.1)
        assert by[2, "real"] == {"accuracy": 0.8, "distance": 0.0, "scores": 2, "of": 2}
        assert [one["scenario"] for one in found] == [2, 2, 1, 1]

    def test_what_failed_is_seen_in_the_count(self) -> None:
        found = means([line(2, 0.8, a=None), line(2, 0.8, a=0.7)])[1]["epsilons"]["1"]
        assert found == {"accuracy": 0.7, "distance": pytest.approx(0.1), "scores": 1, "of": 2}
        assert means([line(2, 0.8, a=None)])[1]["epsilons"]["1"]["accuracy"] is None

    def test_the_best_k_is_chosen_for_each_line(self) -> None:
        first = {"a": {"1": {"0.2": summary(0.9), "1": summary(0.5)}}}
        second = {"a": {"1": {"0.2": summary(0.4), "1": summary(0.6)}}}
        found = means([line(2, 1.0, first, a=0.5), line(2, 1.0, second, a=0.4)])
        (best,) = [one for one in found if one["k"] == "best"]
        assert best["epsilons"]["1"]["accuracy"] == pytest.approx(0.75)
        assert best_k({"0.2": summary(None), "1": summary(0.1)})[0] == "1"
        assert best_k({"0.2": summary(None), "1": summary(None)})[0] == "0.2"

    def test_who_is_ahead_is_counted_where_both_have_a_score(self) -> None:
        found = ahead([line(2, 1, mcgen=0.8, a=0.7, b=None), line(2, 1, mcgen=0.8, a=0.8, b=0.9)])
        assert found == [
            {"scenario": 2, "recipe": "mcgen", "than": "a", "ahead": 1, "of": 2},
            {"scenario": 2, "recipe": "mcgen", "than": "b", "ahead": 0, "of": 1},
        ]


class TestPage:
    def test_means_stand_first_then_every_accuracy(self, measured: dict) -> None:
        shown = page(measured)
        assert [section.title.partition(".")[0].partition(",")[0].partition(":")[0] for section in shown.sections] == [
            "Mean accuracy",
            "Mean accuracy",
            "How often MC-GEN has the higher mean accuracy",
            "Scenario 2",
            "Scenario 1",
            "By k",
            "By k",
        ]
        assert all(len(row) == len(section.head) for section in shown.sections for row in section.rows)
        first = {row[0]: row[1:] for row in shown.sections[0].rows}
        assert list(shown.sections[0].head) == ["recipe", "guarantee", "ε 0.1", "ε 1", "scores"]
        assert first["real"][1:] == ["0.885 (0.000)", "0.885 (0.000)", "12"]
        assert [first[name][0] for name in NAMES[1:4]] == ["proven", "claimed", "none"]
        assert first["parents"][1:] == ["", "", "0"]
        assert first["mcgen-sized, best k each"][2] == "0.785 (0.100)"
        assert "too high by that choice" in markdown(measured)
        assert "(mcgen-sized:noise=gaussian 0.4, mcgen-sized† 0.4, mcgen-sized:noise=code‡ 0.4)" in markdown(measured)
        assert shown.sections[3].head[-1] == "Real (theirs)"
        assert shown.sections[-1].rows[0][:4] == ["pima", "svm", "mcgen-sized:noise=gaussian", "0.1"]
        assert shown.sections[-1].rows[0][-1] == "0.6"

    def test_a_mean_of_fewer_scores_says_so(self, measured: dict) -> None:
        changed = json.loads(json.dumps(measured))
        changed["means"][1]["epsilons"]["1"] |= {"scores": 7}
        row = page(changed).sections[0].rows[1]
        assert row[3].endswith(" from 7 of 12")
        assert row[-1] == "7 to 12"

    def test_figures_stand_between_the_means_and_the_details(self, measured: dict) -> None:
        text = html(measured)
        places = [text.index(word) for word in ("<h2>Mean accuracy", "<svg", "Figure 4: pima", "<h2>Scenario 2")]
        assert places == sorted(places)
        assert text.count("<svg") == 2

    def test_without_any_line_there_is_a_page(self, measured: dict) -> None:
        empty = measured | {"lines": [], "means": [], "ahead": []}
        assert page(empty).sections == []
        assert mcgen_charts.by_k(empty) is mcgen_charts.by_epsilon(empty) is None

    def test_the_pictures_are_files_too(self, tmp_path: Path, fake: Fake) -> None:
        out = tmp_path / "small.json"
        settings = {"datasets": ["toy"], "epsilons": [1.0], "seeds": 1, "data": tmp_path, "out": out}
        files = benchmark("mcgen", recipes=["independent"], **settings)
        kinds = ["small.json", "small.md", "small.html", "small-epsilon.svg"]
        assert [file.name for file in files] == kinds
        files = benchmark("mcgen", recipes=["mcgen-sized"], ks=[0.2, 1.0], scenarios=[2], k_epsilons=[1.0], **settings)
        assert [file.name for file in files] == [*kinds, "small-k.svg"]
        assert json.loads(out.read_text())["ks"] == [0.2, 1.0]


SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(svg).iter(f"{SVG}text")]


class TestCharts:
    def test_over_k_every_form_of_the_method_has_a_panel(self, measured: dict) -> None:
        svg = mcgen_charts.by_k(measured)
        words = texts(svg)
        # The paper's numbers for the paper's datasets, in its order; others after them.
        assert [word for word in words if "scenario" in word] == [
            "Figure 4: pima, scenario 1",
            "Figure 7: pima, scenario 2",
            "toy, scenario 1",
            "toy, scenario 2",
        ]
        panels = [word for word in words if word.startswith("mcgen-sized")]
        assert panels[:3] == ["mcgen-sized:noise=gaussian", "mcgen-sized†", "mcgen-sized:noise=code‡"]
        assert len(panels) == 36
        assert [word for word in words if word in module.LEARNERS] == 4 * list(module.LEARNERS)
        assert words[:4] == ["ε 0.1", "ε 1", "real rows", "real rows (theirs)"]
        # A curve for each of two epsilons in each of 36 panels, and two in the legend.
        light, dark = mcgen_charts.SHADES[0], mcgen_charts.SHADES[-1]
        for shade in (light, dark):
            assert svg.count(f'stroke="{shade}" stroke-width="1.7"') == 36 + 1
        # The paper's baseline stands in the 18 panels of its dataset alone, and in the legend.
        assert svg.count(f'stroke="{mcgen_charts.THEIRS[0]}"') == 18 + 1
        assert svg.count(f'stroke="{mcgen_charts.REAL[0]}"') == 36 + 1

    def test_over_epsilon_every_recipe_has_a_curve(self, measured: dict) -> None:
        svg = mcgen_charts.by_epsilon(measured)
        words = texts(svg)
        assert [word for word in words if "scenario" in word][:2] == [
            "Figure 10: pima, scenario 1",
            "Figure 13: pima, scenario 2",
        ]
        styles = mcgen_charts.recipe_styles(measured["recipes"])
        assert words[: len(styles)] == [style.label for style in styles.values()]
        for name, style in styles.items():
            dashes = f' stroke-dasharray="{style.dashes}"' if style.dashes else ""
            drawn = svg.count(f'stroke="{style.colour}" stroke-width="1.7"{dashes}/>')
            # Of 12 panels and the legend; what failed everywhere is in the legend alone.
            assert drawn == (1 if name == "parents" else 13)

    def test_a_method_has_a_colour_and_its_guarantee_is_the_dashes(self) -> None:
        guarantees = {
            "independent": "proven",
            "mcgen": "proven",
            "mcgen:k=1": "proven",
            "mcgen-published:noise=algorithm": "claimed",
            "mcgen-published:noise=code": "none",
            **{f"r{number}": "proven" for number in range(6)},
        }
        styles = mcgen_charts.recipe_styles({name: {"guarantee": one} for name, one in guarantees.items()})
        own = [styles[name] for name in ("mcgen", "mcgen-published:noise=algorithm", "mcgen-published:noise=code")]
        assert len({style.colour for style in own}) == 1
        assert [style.label[-1] for style in own[1:]] == ["†", "‡"]
        assert len({(style.colour, style.dashes) for style in styles.values()}) == len(styles)

    def test_higher_scores_stand_higher_and_values_in_order(self) -> None:
        points = {"1": summary(0.9), "0.1": summary(0.5), "0.4": summary(0.7)}
        one = line(2, 0.95) | {"recipes": {"independent": points}}
        about = {"independent": {"guarantee": "proven"}}
        svg = mcgen_charts.by_epsilon({"lines": [one], "recipes": about, "epsilons": [1.0, 0.1, 0.4]})
        colour = mcgen_charts.COLOURS[0]
        (curve,) = re.findall(rf'd="M([^"h]*)" fill="none" stroke="{colour}"', svg)
        across, up = zip(*(map(float, place.split()) for place in curve.split("L")), strict=True)
        assert list(across) == sorted(across)
        assert (across[2] - across[1]) / (across[1] - across[0]) == pytest.approx(2, rel=0.01)
        assert up[0] > up[1] > up[2]
        assert up[0] - up[1] == pytest.approx(up[1] - up[2], abs=0.2)
        assert "real rows (theirs)" not in texts(svg)

    def test_names_cannot_break_the_picture(self, measured: dict) -> None:
        lines = [dict(one, dataset="<b>") for one in measured["lines"]]
        for svg in (
            mcgen_charts.by_k(measured | {"lines": lines}),
            mcgen_charts.by_epsilon(measured | {"lines": lines}),
        ):
            assert "<b>" in " ".join(texts(svg))
            assert "<b>" not in svg


def test_settings_of_a_recipe_are_in_the_result(measured: dict) -> None:
    assert measured["recipes"]["mcgen-sized:noise=code"]["settings"] == dataclasses.asdict(Sized(noise="code"))
