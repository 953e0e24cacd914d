"""ClustMix taken apart: simulated tables of the shapes they claim, cells that are kept, a page and a picture."""

import json
import re
from dataclasses import asdict
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from benchmarks.command import benchmark, html, markdown
from benchmarks.measure import named_recipe
from benchmarks.page import ablation_charts
from benchmarks.page.layouts import page
from benchmarks.tables import ablations as module
from benchmarks.tables.ablations import ALPHAS, RECIPES, SIMULATED, ablations, simulated
from threea import recipes
from threea.errors import SettingError

ROWS = 900
FEW = [
    "clustmix:alpha=1",
    "clustmix-published:sigma_max=0.5,alpha=1",
    "clustmix-published:sigma_max=0.5,clusters=random",
]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate few rows, for speed."""
    monkeypatch.setattr(module, "simulated", partial(simulated, rows=ROWS))


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "simulated", partial(simulated, rows=ROWS))
        return ablations(list(SIMULATED), FEW, 8.0, 2, data=tmp_path_factory.mktemp("data"))


def test_the_ablations_ask_what_they_say() -> None:
    found = [named_recipe(text) for text in RECIPES]
    clustered = [recipe for recipe in found if isinstance(recipe, recipes.ClustMix)]
    published = [recipe for recipe in found if isinstance(recipe, recipes.ClustMixPublished)]
    assert ALPHAS == (0.0, 0.25, 0.5, 0.75, 1.0)
    assert [recipe.alpha for recipe in clustered] == list(ALPHAS)
    assert recipes.DPMix() in found
    kept, mixed = ([one for one in published if one.clusters == kind] for kind in ("constrained", "random"))
    # Random groups are as large as clusters: each sigma_max of one is also the other's.
    sigmas = {recipe.sigma_max for recipe in mixed}
    assert {(recipe.sigma_max, recipe.alpha) for recipe in kept} == {(s, alpha) for s in sigmas for alpha in ALPHAS}
    assert len(sigmas) == len(mixed) == 2
    assert recipes.ClustMixPublished().sigma_max in sigmas


@pytest.mark.parametrize("name", SIMULATED)
def test_a_simulated_table_is_always_the_same_and_within_its_bounds(name: str) -> None:
    dataset = simulated(name)
    assert dataset.table.equals(simulated(name).table)
    assert (dataset.table.num_rows, dataset.features) == (6000, 6)
    assert dataset.schema_origin == "public"
    for column in dataset.table.column_names[:-1]:
        values = dataset.table[column].to_numpy()
        # Bounds must not cut the shape off.
        at_bounds = np.mean((values == module.LOWER) | (values == module.UPPER))
        assert at_bounds < 0.05
        assert values.min() >= module.LOWER
        assert values.max() <= module.UPPER
    shares = np.mean(dataset.table["class"].to_numpy(zero_copy_only=False) == "a")
    assert 0.3 < shares < 0.7


def test_shapes_differ_as_they_say() -> None:
    def nearest_is_of_its_class(name: str) -> float:
        """Share of rows whose nearest other row has their class: 1 if classes are apart."""
        dataset = simulated(name, 600)
        values = np.column_stack([dataset.table[column].to_numpy() for column in dataset.table.column_names[:-1]])
        classes = dataset.table["class"].to_numpy(zero_copy_only=False)
        distances = np.square(values[:, None] - values).sum(axis=2)
        np.fill_diagonal(distances, np.inf)
        return float(np.mean(classes[distances.argmin(axis=1)] == classes))

    assert nearest_is_of_its_class("separated") == 1
    assert 0.6 < nearest_is_of_its_class("overlapping") < 0.95
    uniform = simulated("uniform").table
    for column in uniform.column_names[:-1]:
        counts = np.histogram(uniform[column].to_numpy(), 10, (0, 1))[0]
        # The tables are fixed, so this cannot fail by chance; 600 a bin are expected, with a standard deviation of 23.
        assert np.abs(counts - 600).max() < 5 * 23


def test_every_variant_is_measured_on_every_shape_with_its_spread(measured: dict) -> None:
    assert [line["dataset"] for line in measured["lines"]] == ["separated", "overlapping", "uniform"]
    for line in measured["lines"]:
        assert line["simulated"] is True
        assert line["real"]["mean"] > 0.7
        for name in FEW:
            found = line["recipes"][name]
            assert "error" not in found
            assert found["seeds"] == len(found["by_seed"]) == 2
            assert found["mean"] == pytest.approx(np.mean(found["by_seed"]))
            assert found["stdev"] == pytest.approx(np.std(found["by_seed"], ddof=1))
    # Of 60 releases the AUC had mean 0.9998 and standard deviation 0.0003: a false alarm far under 1e-6.
    assert measured["lines"][0]["recipes"][FEW[0]]["mean"] > 0.9
    assert [measured["recipes"][name]["guarantee"] for name in FEW] == ["proven", "claimed", "claimed"]
    taken = [one["interval"] for line in measured["lines"] for one in line["contrasts"]]
    without = [low for low, high in taken if low > 0 or high < 0]
    assert measured["intervals"] == {"taken": len(taken), "without_zero": len(without)}
    json.dumps(measured, allow_nan=False)


def test_both_modes_are_compared_with_equally_many_rows(measured: dict) -> None:
    for line in measured["lines"]:
        (found,) = line["equal_rows"]
        assert (found["published"], found["proven"]) == (FEW[1], FEW[0])
        assert found["rows"] == line["recipes"][FEW[1]]["rows"] < line["recipes"][FEW[0]]["rows"]
        assert (found["guarantee"], found["seeds"]) == ("proven", 2)
    section = page(measured).sections[-1]
    assert section.title == "Both modes with equally many rows"
    assert [row[:2] for row in section.rows] == [[name, FEW[1]] for name in SIMULATED]


def test_without_both_modes_nothing_is_compared_with_equally_many_rows(tmp_path: Path) -> None:
    assert ablations(["uniform"], FEW[1:], 8.0, 1, data=tmp_path)["lines"][0]["equal_rows"] == []


def test_a_run_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    taught = module.taught

    def counting(*arguments: object, **settings: object) -> object:
        made.append(arguments)
        if len(made) == 4:
            raise KeyboardInterrupt
        return taught(*arguments, **settings)

    monkeypatch.setattr(module, "taught", counting)
    arguments = {"datasets": ["separated"], "recipes": FEW[2:], "epsilon": 8.0, "data": tmp_path}
    with pytest.raises(KeyboardInterrupt):
        ablations(**arguments, seeds=2, cells=tmp_path / "cells.jsonl")
    result = ablations(**arguments, seeds=2, cells=tmp_path / "cells.jsonl")
    assert len(made) == 5
    assert result["lines"][0]["recipes"][FEW[2]]["seeds"] == 2
    ablations(**arguments | {"epsilon": 4.0}, seeds=2, cells=tmp_path / "cells.jsonl")
    # Another epsilon needs new releases, but no new scores of the real rows.
    assert len(made) == 7


def test_a_variant_that_fails_is_a_line_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(*arguments: object) -> None:
        raise SettingError("no clusters today")

    monkeypatch.setattr("threea.published.clustmix_clusters.SizeConstrained.fit", refusing)
    result = ablations(["uniform"], FEW, 8.0, 1, data=tmp_path)
    found = result["lines"][0]["recipes"]
    assert found[FEW[1]]["error"] == "error: SettingError: no clusters today"
    assert found[FEW[0]]["mean"] is not None
    assert "no clusters today" in markdown(result)
    picture = ablation_charts.charts(result)
    assert picture is not None
    assert picture.count("(alpha 1)") == 1


def test_a_dataset_that_cannot_be_read_leaves_the_simulated_ones(tmp_path: Path) -> None:
    result = ablations(["adult32", "separated"], FEW[2:], 8.0, 1, data=tmp_path)
    assert [one["dataset"] for one in result["skipped"]] == ["adult32"]
    assert [line["dataset"] for line in result["lines"]] == ["separated"]
    assert "adult32: skipped" in markdown(result)


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"^dataset \(seperated\) is unknown"):
        ablations(["seperated"], FEW, data=tmp_path)
    with pytest.raises(SettingError, match=r"^alpha \(2"):
        ablations(["separated"], ["clustmix-published:alpha=2"], data=tmp_path)


def test_the_page_says_guarantee_and_every_seed(measured: dict) -> None:
    shown = page(measured)
    assert [section.title.split(":")[0] for section in shown.sections[:-2]] == ["separated", "overlapping", "uniform"]
    for section, line in zip(shown.sections[:-2], measured["lines"], strict=True):
        assert [row[0] for row in section.rows[1:]] == FEW
        assert [row[1] for row in section.rows[1:]] == ["proven", "claimed", "claimed"]
        assert section.rows[2][4] == ", ".join(f"{score:.3f}" for score in line["recipes"][FEW[1]]["by_seed"])
    text = html(measured)
    assert text.count("<svg") == 1
    # Styles of the sweep's curves, which have no filled marks, would take the colours away.
    assert not re.findall(r"^svg [.\w]+ \{", text, re.MULTILINE)
    assert "epsilon 8" in markdown(measured)


def test_contrasts_are_taken_seed_by_seed() -> None:
    found = {
        "proven": {"0.5": summary(0.7, 0.6, 0.8), "1": summary(0.6, 0.55, 0.65), "random": summary(0.5, 0.5, 0.5)},
        "other": {"1": {"by_seed": [0.5, None]}, "random": {"by_seed": [0.25, 0.5]}, "0": {"by_seed": [None, 0.5]}},
        "alone": {"0": summary(0.7, 0.7)},
    }
    moved, clustered, nothing, single = module.contrasts(found)
    assert (moved["series"], moved["contrast"]) == ("proven", "alpha 0.5 - alpha 1")
    assert moved["by_seed"] == pytest.approx([0.05, 0.15])
    assert moved["mean"] == pytest.approx(0.1)
    assert moved["stdev"] == pytest.approx(np.std([0.05, 0.15], ddof=1))
    assert clustered["contrast"] == "alpha 1 - random"
    assert clustered["by_seed"] == pytest.approx([0.05, 0.15])
    # Of a seed that one of the two lacks there is no difference.
    assert (nothing["by_seed"], nothing["mean"]) == ([None, None], None)
    assert single["by_seed"] == [0.25, None]
    assert single["interval"] is None
    # Student's quantile for two values is 12.706, their standard error half their distance.
    assert moved["interval"] == pytest.approx((0.1 - 12.706 * 0.05, 0.1 + 12.706 * 0.05), abs=1e-4)


def test_scores_of_too_few_rows_are_not_compared(measured: dict) -> None:
    few = {"rows": 39, "classifier": {"min_data_in_leaf": 20}} | summary(0.5, 0.5)
    enough = few | {"rows": 40}
    about = {text: {"settings": asdict(named_recipe(text))} for text in FEW}
    found = ablation_charts.series({FEW[0]: few, FEW[1]: enough, FEW[2]: few}, about)
    assert found == {"published, sigma_max 0.5": {"1": enough}}


def test_contrasts_stand_on_the_page(measured: dict) -> None:
    section = page(measured).sections[-2]
    named = ["published, sigma_max 0.5", "alpha 1 - random"]
    assert [row[:3] for row in section.rows] == [[name, *named] for name in SIMULATED]
    for row, line in zip(section.rows, measured["lines"], strict=True):
        difference = line["recipes"][FEW[1]]["mean"] - line["recipes"][FEW[2]]["mean"]
        assert float(row[3].split(" ± ")[0]) == pytest.approx(difference, abs=0.0006)


def summary(mean: float | None, *scores: float) -> dict:
    return {"mean": mean, "stdev": float(np.std(scores, ddof=1)) if len(scores) > 1 else None, "by_seed": list(scores)}


def drawn(found: dict[str, dict], real: float | None = 0.9) -> dict:
    line = {"dataset": "d<b>", "metric": "auc", "real": summary(real), "recipes": found}
    return {"lines": [line], "recipes": {text: {"settings": asdict(named_recipe(text))} for text in found}}


def places(svg: str, colour: str) -> list[tuple[float, float]]:
    """Return where the marks of the means of a series stand, the legend's left out."""
    marks = re.findall(rf'transform="translate\(([\d.]+) ([\d.]+)\)" fill="{colour}"', svg)
    return [(float(x), float(y)) for x, y in marks[1:]]


def test_the_picture_stands_scores_where_they_are() -> None:
    result = drawn(
        {
            "clustmix:alpha=0": summary(0.6, 0.55, 0.65),
            "clustmix:alpha=1": summary(0.8, 0.8, 0.8),
            "dpmix": summary(0.7, 0.7),
            "clustmix-published:sigma_max=0.2,alpha=0": summary(None),
            "clustmix-published:sigma_max=0.2,clusters=random": summary(0.6, 0.6),
        }
    )
    svg = ablation_charts.charts(result)
    assert svg is not None
    ElementTree.fromstring(svg)
    assert "d&lt;b&gt;" in svg
    random, first, last = places(svg, ablation_charts.COLOURS[0])
    assert random[0] < first[0] < last[0]
    # Higher scores stand higher, that is at smaller numbers, and in proportion.
    assert first[1] - last[1] == pytest.approx(2 * (random[1] - last[1]), abs=0.2)
    (other,) = places(svg, ablation_charts.COLOURS[1])
    assert other[1] == pytest.approx(first[1], abs=0.1)
    assert other[0] != random[0]
    # One whisker: of the others one has no spread, and two a single seed.
    assert svg.count('stroke-width="1.5"') == 1
    assert svg.count("h.01") == 6
    assert "1 (no KIP)" in svg
    assert "d&lt;b&gt;, proven: 0.600 (alpha 0), 0.800 (alpha 1), 0.700 (random mixing)" in svg


def test_without_any_score_there_is_no_picture() -> None:
    assert ablation_charts.charts(drawn({"dpmix": summary(None)})) is None
    assert ablation_charts.charts({"lines": [], "recipes": {}}) is None


def test_the_command_writes_the_picture_beside_the_table(tmp_path: Path) -> None:
    lines: list[str] = []
    files = benchmark(
        "ablations",
        data=tmp_path,
        out=tmp_path / "a.json",
        datasets=["uniform"],
        recipes=FEW[2:],
        epsilons=[8.0],
        seeds=1,
        progress=lines.append,
    )
    assert [file.name for file in files] == ["a.json", "a.md", "a.html", "a.svg"]
    assert (tmp_path / "a.cells.jsonl").read_text().count("\n") == 2
    ElementTree.parse(tmp_path / "a.svg")
    assert [line.split(": ")[0] for line in lines] == ["uniform, real, seed 0", f"uniform, {FEW[2]}, seed 0"]
