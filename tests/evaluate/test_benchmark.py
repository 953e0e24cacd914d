"""Benchmarks, on a made-up table in the registry: what is measured, kept, summed up and shown."""

import json
import re
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest

import threea
from threea import codec, datasets, recipes
from threea.approximate.histograms import LabelHistograms
from threea.certificate import Guarantee
from threea.datasets import Dataset
from threea.datasets.published import TABLE1
from threea.errors import InputError, SettingError
from threea.evaluate import benchmark_environments, benchmark_peers
from threea.evaluate.benchmark import benchmark, html, markdown, mcgen, peers, table1
from threea.evaluate.benchmark_cells import CellFile, Key, finite, summary
from threea.evaluate.benchmark_page import page
from threea.framework import Recipe
from threea.schema import Schema

SCHEMA = Schema.of(
    {
        "age": {"kind": "integer", "lower": 0, "upper": 99, "nullable": False},
        "ward": {"kind": "categorical", "categories": ["a", "b", "c"]},
        "cost": {"kind": "real", "lower": 1.0, "upper": 100.0, "log": True, "special": [0.0], "nullable": False},
        "died": {"kind": "categorical", "categories": ["no", "yes"], "nullable": False},
    },
    target="died",
)


def toy_table(rows: int = 600) -> pa.Table:
    rng = np.random.default_rng(1)
    age = rng.integers(0, 100, rows)
    ward = np.array(["a", "b", "c", None], dtype=object)[rng.integers(0, 4, rows)]
    cost = np.where(rng.random(rows) < 0.3, 0.0, np.exp(rng.uniform(0, np.log(100), rows)))
    died = np.where(rng.random(rows) < 1 / (1 + np.exp(-(age - 50) / 8)), "yes", "no")
    return pa.table({"age": age, "ward": pa.array(ward, pa.string()), "cost": cost, "died": died})


def toy(folder: Path, schema: Schema | None = SCHEMA) -> Dataset:
    return Dataset(
        name="toy",
        title="Toy <b>",
        table=toy_table(),
        target="died",
        schema=schema,
        published=TABLE1["MIMIC-III mortality"],
        stands_in_for="MIMIC-III mortality",
    )


@dataclass(frozen=True, kw_only=True)
class Broken(Recipe):
    name: ClassVar[str] = "broken"
    summary: ClassVar[str] = "always fails"
    guarantee: ClassVar[Guarantee] = Guarantee.CLAIMED

    @property
    def approximate(self) -> LabelHistograms:
        raise ValueError("too\nfew | rows <script>")


@dataclass(frozen=True, kw_only=True)
class Claimed(Recipe):
    name: ClassVar[str] = "claimed"
    summary: ClassVar[str] = "says so itself"
    guarantee: ClassVar[Guarantee] = Guarantee.CLAIMED
    bins: int = 8

    @property
    def approximate(self) -> LabelHistograms:
        return LabelHistograms(bins=self.bins)


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(datasets.LOADERS, "toy", toy)
    for recipe in (Broken, Claimed):
        monkeypatch.setitem(recipes.RECIPES, recipe.name, recipe)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(datasets.LOADERS, "toy", toy)
        for recipe in (Broken, Claimed):
            patch.setitem(recipes.RECIPES, recipe.name, recipe)
        return table1(["toy"], ["independent", "claimed", "broken"], seeds=2, data=tmp_path_factory.mktemp("data"))


def test_every_recipe_is_scored_beside_real_rows(measured: dict) -> None:
    row = measured["datasets"][0]
    assert row["real"]["mean"] > 0.85
    # Of 60 releases the AUC had mean 0.895 and standard deviation 0.032; the mean of two is below 0.6 by 13 of its
    # own, a false alarm far under 1e-6.
    assert row["recipes"]["independent"]["mean"] > 0.6
    assert row["recipes"]["independent"]["seeds"] == 2
    found = row["recipes"]["independent"]
    assert found["mean"] == statistics.fmean(found["by_seed"])
    assert found["stdev"] == statistics.stdev(found["by_seed"])
    assert found["guarantee"] == "proven"
    assert 0.9 < found["accounted_epsilon"] <= 1
    assert found["seconds"] > 0
    # The noisy count of 450 training rows: its standard deviation is 11, so a false alarm is far under 1e-6.
    assert abs(found["rows"] - 450) < 200
    assert row["training_rows"] == 450
    assert row["delta"] == 1 / 450
    assert row["real"]["classifier"]["num_iterations"] > 0
    assert measured["versions"]["threea"] == threea.__version__
    json.dumps(measured, allow_nan=False)


def test_a_claimed_recipe_runs_and_is_marked(measured: dict) -> None:
    found = measured["datasets"][0]["recipes"]["claimed"]
    assert found["guarantee"] == "claimed"
    # No finite epsilon is accounted for what is not proven.
    assert found["accounted_epsilon"] is None
    shown = page(measured).sections[0]
    assert shown.rows[0][list(shown.head).index("claimed")].endswith("†")
    assert not shown.rows[0][list(shown.head).index("independent")].endswith("†")


def test_a_failing_recipe_is_a_cell_and_not_a_crash(measured: dict) -> None:
    found = measured["datasets"][0]["recipes"]["broken"]
    assert found["mean"] is None
    assert found["error"] == "error: ValueError: too few | rows <script>"
    assert found["seeds"] == 0


def test_their_figures_stand_apart(measured: dict) -> None:
    row = measured["datasets"][0]
    assert row["theirs"]["scores"]["ClustMix"] == 0.749
    shown = page(measured).sections[0]
    assert [name for name in shown.head if name.endswith("(theirs)")] == list(shown.head[shown.theirs :])
    assert shown.rows[0][-1] == "0.749"
    assert "stands in for MIMIC-III mortality" in shown.rows[0][0]


def test_mean_distance_is_over_the_datasets_that_all_have_scores(tmp_path: Path, measured: dict) -> None:
    assert measured["mean_distance_to_real"]["over"] == []
    result = table1(["toy"], ["independent"], seeds=1, data=tmp_path)
    row = result["datasets"][0]
    expected = abs(row["real"]["mean"] - row["recipes"]["independent"]["mean"])
    assert result["mean_distance_to_real"]["ours"] == {"independent": expected}
    assert result["mean_distance_to_real"]["over"] == ["toy"]
    assert result["mean_distance_to_real"]["theirs"]["ClustMix"] == 0.087


def test_a_recipe_becomes_a_column_by_being_registered(tmp_path: Path) -> None:
    result = table1(["toy"], None, seeds=1, data=tmp_path)
    assert list(result["recipes"]) == list(recipes.RECIPES)
    assert set(page(result).sections[0].head) >= {"claimed", "broken", "independent"}


def test_without_a_public_schema_bounds_are_discovered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(datasets.LOADERS, "toy", lambda folder: toy(folder, schema=None))
    result = table1(["toy"], ["independent"], epsilon=8.0, seeds=1, data=tmp_path)
    assert result["datasets"][0]["schema"] == "discovered"
    # Of 20 releases the AUC had mean 0.932 and standard deviation 0.011: a false alarm far under 1e-6.
    assert result["datasets"][0]["recipes"]["independent"]["mean"] > 0.7


class Counting:
    """Counts how often a recipe fits, and may crash the process it runs in."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, crash_at: int | None = None) -> None:
        self.fits, fit = 0, LabelHistograms.fit

        def counted(*arguments: object) -> object:
            self.fits += 1
            if self.fits == crash_at:
                raise KeyboardInterrupt
            return fit(*arguments)

        monkeypatch.setattr(LabelHistograms, "fit", counted)


def test_a_broken_run_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = tmp_path / "cells.jsonl"
    arguments = {"datasets": ["toy"], "recipes": ["independent"], "seeds": 4, "data": tmp_path, "cells": cells}
    with monkeypatch.context() as patch:
        first = Counting(patch, crash_at=3)
        with pytest.raises(KeyboardInterrupt):
            table1(**arguments)
    assert first.fits == 3
    kept = cells.read_text()
    assert kept.count("\n") == 5  # three real scores, two releases
    cells.write_text(kept + kept.splitlines()[-1][:40])  # torn by the crash
    with monkeypatch.context() as patch:
        second = Counting(patch)
        result = table1(**arguments)
    assert second.fits == 2
    scores = [json.loads(line)["cell"]["score"] for line in kept.splitlines() if "/independent/" in line]
    assert result["datasets"][0]["recipes"]["independent"]["by_seed"][:2] == scores
    with monkeypatch.context() as patch:
        third = Counting(patch)
        assert table1(**arguments) == result
    assert third.fits == 0


def test_other_settings_are_other_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = {"datasets": ["toy"], "recipes": ["independent"], "seeds": 1, "data": tmp_path}
    counting = Counting(monkeypatch)
    for epsilon, adjacency in ((1.0, "add-remove"), (2.0, "add-remove"), (2.0, "replace"), (1.0, "add-remove")):
        table1(**arguments, epsilon=epsilon, adjacency=adjacency, cells=tmp_path / "cells.jsonl")
    assert counting.fits == 3


def test_the_real_score_does_not_depend_on_epsilon(tmp_path: Path) -> None:
    cells = tmp_path / "cells.jsonl"
    for epsilon in (1.0, 2.0):
        table1(["toy"], ["independent"], epsilon, 1, data=tmp_path, cells=cells)
    assert sum('"toy/real/' in line for line in cells.read_text().splitlines()) == 1


def test_a_failed_cell_is_tried_again(tmp_path: Path) -> None:
    path, key, outcomes = tmp_path / "cells.jsonl", Key("toy", "r", 0, {}), iter([None, {"score": 0.5}])

    def measure() -> dict:
        found = next(outcomes)
        if found is None:
            raise InputError("no luck")
        return found

    assert CellFile(path).measured(key, measure)["error"] == "error: InputError: no luck"
    assert CellFile(path).measured(key, measure)["score"] == 0.5
    assert CellFile(path).measured(key, measure)["score"] == 0.5


@pytest.mark.parametrize("torn", ["", "{", '{"key": "x", "cell": 3}', "[]", '"x"', "\x00\xff", '{"key": 1}'])
def test_lines_that_are_no_cells_are_passed_over(tmp_path: Path, torn: str) -> None:
    path, key = tmp_path / "cells.jsonl", Key("toy", "r", 0, {"a": 1})
    path.write_bytes(torn.encode("latin-1"))
    assert CellFile(path).measured(key, lambda: {"score": 1.0})["score"] == 1.0
    assert key in CellFile(path)


def test_a_cell_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"cells .* cannot be written"):
        CellFile(tmp_path / "none" / "cells.jsonl").measured(Key("a", "b", 0, {}), lambda: {"score": 1.0})


def test_cells_of_differing_source_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = {"datasets": ["toy"], "recipes": ["independent"], "data": tmp_path, "cells": tmp_path / "cells.jsonl"}
    assert "states of the library's source" not in markdown(table1(**arguments, seeds=1))
    monkeypatch.setattr("threea.evaluate.benchmark_cells.source", lambda: "another")
    result = table1(**arguments, seeds=2)
    assert "another" in result["datasets"][0]["recipes"]["independent"]["sources"]
    assert "2 states of the library's source" in markdown(result)


def test_what_json_cannot_say_is_none() -> None:
    assert finite({"a": float("inf"), "b": [float("nan"), 1.0], "c": {"d": "x"}}) == {
        "a": None,
        "b": [None, 1.0],
        "c": {"d": "x"},
    }


def test_a_summary_says_what_failed() -> None:
    found = summary([{"score": 0.5, "seconds": 2.0}, {"error": "error: X: y"}, {"score": 0.7, "seconds": 4.0}])
    assert found["mean"] == pytest.approx(0.6)
    assert found["by_seed"] == [0.5, None, 0.7]
    assert (found["seeds"], found["seconds"], found["error"]) == (2, 3.0, "error: X: y")
    assert summary([{"score": 0.5}])["stdev"] is None


def test_mcgen_has_both_scenarios(tmp_path: Path) -> None:
    result = mcgen(["toy"], ["independent", "broken"], [0.5, 1.0], 1, data=tmp_path, rows=400)
    assert [(line["scenario"], line["learner"]) for line in result["lines"]] == [
        (scenario, learner) for scenario in (1, 2) for learner in ("svm", "logistic", "boosting")
    ]
    for line in result["lines"]:
        assert line["rows"] == 400
        assert line["real"]["mean"] > 0.7
        assert set(line["recipes"]["independent"]) == {"0.5", "1"}
        assert 0 < line["recipes"]["independent"]["1"]["mean"] <= 1
        assert line["recipes"]["broken"]["1"]["error"].startswith("error: ValueError")
    # Scenario 1 releases the smaller part, 80 of 400 rows; scenario 2 the larger, 320. The counts' standard deviations
    # are 9 and 8, so a false alarm is far under 1e-6.
    small, large = (result["lines"][place]["recipes"]["independent"]["1"]["rows"] for place in (0, 3))
    assert small < large
    assert [section.title[:10] for section in page(result).sections] == ["Scenario 1", "Scenario 2"]


def test_mcgen_trains_and_tests_on_the_right_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def scored(dataset: Dataset, *, real: pa.Table, train: pa.Table, test: pa.Table, names: list, seed: int) -> dict:
        seen.append((real, train, test))
        return {name: {"accuracy": 1.0} for name in names}

    def released(dataset: Dataset, train: pa.Table, recipe: Recipe, **settings: object) -> tuple:
        assert settings["delta"] == 1 / train.num_rows
        return train.replace_schema_metadata({"made": "synthetic"}), {}

    monkeypatch.setattr("threea.evaluate.benchmark_mcgen.scored", scored)
    monkeypatch.setattr("threea.evaluate.benchmark_mcgen.released", released)
    mcgen(["toy"], ["independent"], [1.0], 1, data=tmp_path)
    sizes = [(train.num_rows, bool(train.schema.metadata), test.num_rows, bool(test.schema.metadata))
             for _, train, test in seen]  # fmt: skip
    assert sizes == [(480, False, 120, False), (480, False, 120, True), (480, True, 120, False)]
    assert all(real.num_rows == 480 and not real.schema.metadata for real, _, _ in seen)


def test_their_mcgen_baseline_stands_beside_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(datasets.LOADERS, "pima", lambda folder: Dataset(**_fields(toy(folder), name="pima")))
    result = mcgen(["pima"], ["independent"], [1.0], 1, data=tmp_path)
    assert [line["theirs"] for line in result["lines"]] == [0.80, 0.78, 0.75, 0.82, 0.80, 0.85]


def _fields(dataset: Dataset, **changed: object) -> dict:
    return {name: getattr(dataset, name) for name in Dataset.__slots__} | changed


SCRIPT = """
import json, sys
from pathlib import Path
import pyarrow.parquet as pq
folder = Path(sys.argv[1])
job = json.loads((folder / "job.json").read_text())
codes = pq.read_table(folder / "codes.parquet")
assert list(job["domain"]) == codes.column_names
pq.write_table(codes, folder / "synthetic.parquet")
(folder / "report.json").write_text(json.dumps(
    {"version": "1.2.3", "fit_seconds": 1.0, "sample_seconds": 0.5, "peak_memory_mb": 77.0}))
"""


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "scripts"
    folder.mkdir()
    (folder / "exchange.py").write_text("")
    (folder / "echo.py").write_text(SCRIPT)
    (folder / "fail.py").write_text("raise SystemExit('no such thing')")
    (folder / "sleep.py").write_text("import time; time.sleep(600)")
    for name in ("echo", "fail", "sleep"):
        peer = benchmark_peers.Peer(package="p", requirements=("q",), script=f"{name}.py", mechanism="m")
        monkeypatch.setitem(benchmark_peers.PEERS, name, peer)
    monkeypatch.setattr(benchmark_environments.Environments, "python", lambda *arguments: sys.executable)
    return folder


def test_a_peer_gets_codes_and_its_rows_are_scored(tmp_path: Path, scripts: Path) -> None:
    result = peers(
        ["toy"], [], seeds=1, data=tmp_path, cache=tmp_path / "cache", methods=["echo", "fail"], scripts=scripts
    )
    found = {line["method"]: line["result"] for line in result["lines"]}
    # The echo differs from the real rows only by where in its bin a number lies.
    assert abs(found["echo"]["mean"] - found["real"]["mean"]) < 0.05
    assert (found["echo"]["seconds"], found["echo"]["peak_memory_mb"], found["echo"]["version"]) == (1.5, 77.0, "1.2.3")
    assert found["fail"]["error"] == "error: RuntimeError: exit code 1: no such thing"


def test_a_peer_that_takes_too_long_is_given_up(tmp_path: Path, scripts: Path) -> None:
    result = peers(["toy"], [], seeds=1, data=tmp_path, cache=tmp_path, methods=["sleep"], scripts=scripts, longest=1.0)
    assert result["lines"][-1]["result"]["error"] == "error: RuntimeError: took more than 1 s"


def test_our_recipes_run_beside_peers_in_a_process_of_their_own(tmp_path: Path) -> None:
    result = peers(["toy"], ["independent"], seeds=1, data=tmp_path, cache=tmp_path / "cache", methods=[])
    line = result["lines"][-1]
    assert (line["method"], line["ours"]) == ("independent", True)
    # Over nine standard deviations below the mean of 0.895: a false alarm far under 1e-6.
    assert line["result"]["mean"] > 0.6
    assert line["result"]["peak_memory_mb"] > 10
    assert line["result"]["version"] == threea.__version__
    assert page(result).sections[0].rows[-1][1] == "threea independent"


def test_a_peer_that_cannot_be_installed_is_skipped_with_a_reason(
    tmp_path: Path, scripts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def python(self: object, package: str, requirements: tuple) -> str:
        tried.append(package)
        raise benchmark_environments.Unavailable("it cannot be installed (ERROR: nothing found)")

    monkeypatch.setattr(benchmark_environments.Environments, "python", python)
    result = peers(["toy"], [], seeds=2, data=tmp_path, cache=tmp_path, methods=["echo"], scripts=scripts)
    assert tried == ["p"]
    assert result["skipped"] == [{"what": "echo", "reason": "skipped: it cannot be installed (ERROR: nothing found)"}]
    assert "it cannot be installed" in markdown(result)


def test_an_environment_that_fails_is_not_tried_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def call(command: list[str], failure: str) -> None:
        calls.append(command)
        if "pip" in command:
            raise benchmark_environments.Unavailable("offline")

    monkeypatch.setattr(benchmark_environments, "_call", call)
    environments = benchmark_environments.Environments(tmp_path / "cache")
    for _ in range(2):
        with pytest.raises(benchmark_environments.Unavailable, match="offline"):
            environments.python("p", ["q==1"])
    assert len(calls) == 2


def test_an_environment_is_made_once_and_again_for_other_requirements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = []

    def call(command: list[str], failure: str) -> None:
        Path(command[-1]).mkdir(parents=True) if "venv" in command else installed.append(command[-1])

    monkeypatch.setattr(benchmark_environments, "_call", call)
    for requirement in ("q==1", "q==1", "q==2"):
        benchmark_environments.Environments(tmp_path / "cache").python("p", [requirement])
    assert installed == ["q==1", "q==2"]


def test_a_failing_command_says_why() -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('ERROR: no such package')"]
    with pytest.raises(benchmark_environments.Unavailable, match=r"^it failed \(ERROR: no such package\)$"):
        benchmark_environments._call(command, "it failed")


def test_peers_need_bins_that_all_share(tmp_path: Path, scripts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(datasets.LOADERS, "toy", lambda folder: toy(folder, schema=None))
    result = peers(["toy"], [], seeds=1, data=tmp_path, cache=tmp_path, methods=["echo"], scripts=scripts)
    assert result["lines"] == []
    assert result["skipped"][0]["reason"].startswith("skipped: no public schema")


def test_codes_come_back_as_the_cells_they_were(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    table = toy_table()
    schema = codec.fit(SCHEMA, table.schema)
    domain = benchmark_peers.write_codes(table, schema, tmp_path)
    codes = pq.read_table(tmp_path / "codes.parquet")
    back = benchmark_peers.read_codes(codes, schema, table.schema, seed=0)
    assert back.schema == table.schema
    again = tmp_path / "again"
    again.mkdir()
    assert benchmark_peers.write_codes(back, schema, again) == domain
    assert pq.read_table(again / "codes.parquet") == codes
    for name, size in domain.items():
        values = codes[name].to_numpy()
        assert values.min() >= 0
        assert values.max() < size


def test_rendering_escapes(measured: dict) -> None:
    shown = html(measured)
    assert "<script>" not in shown
    assert "few | rows &lt;script&gt;" in shown
    assert "Toy &lt;b&gt;" in shown
    assert 'class="theirs"' in shown
    text = markdown(measured)
    assert r"few \| rows \<script\>" in text
    tables = [line for line in text.splitlines() if line.startswith("|")]
    # Every line of the first table has as many cells as its head.
    widths = {len(re.findall(r"(?<!\\)\|", line)) for line in tables[: len(measured["datasets"]) + 3]}
    assert len(widths) == 1


def test_all_three_files_are_written_whole(tmp_path: Path) -> None:
    lines: list[str] = []
    out = tmp_path / "small.json"
    files = benchmark(
        "table1", data=tmp_path, out=out, datasets=["toy"], recipes=["independent"], seeds=1, progress=lines.append
    )
    assert [file.name for file in files] == ["small.json", "small.md", "small.html"]
    assert json.loads(out.read_text())["table"] == "table1"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["small.json", "small.md", "small.html", "small.cells.jsonl"]
    )
    assert [line.split(":")[0] for line in lines] == ["toy, real, seed 0", "toy, independent, seed 0"]


def test_epsilon_and_seeds_reach_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {}

    def recording(name: str) -> object:
        return lambda **settings: seen.setdefault(name, settings) and {}

    for name in ("table1", "mcgen", "peers"):
        monkeypatch.setitem(sys.modules["threea.evaluate.benchmark"]._MAKERS, name, recording(name))
    monkeypatch.setattr("threea.evaluate.benchmark.write", lambda result, place: [])
    for name in ("table1", "mcgen", "peers"):
        benchmark(name, data="d", out=tmp_path / "x.json", epsilon=0.5, seeds=7)
    assert (seen["table1"]["epsilon"], seen["mcgen"]["epsilons"], seen["peers"]["epsilon"]) == (0.5, (0.5,), 0.5)
    assert all(settings["seeds"] == 7 for settings in seen.values())
    assert seen["peers"]["cache"] == tmp_path / "peer-environments"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"table": "tabel1"}, r"^table \(tabel1\) is unknown; did you mean table1\? known: table1, mcgen, peers$"),
        ({"datasets": ["adlut"]}, r"^dataset \(adlut\) is unknown; did you mean adult\?"),
        ({"datasets": []}, r"^datasets must name at least one"),
        ({"recipes": ["independant"]}, r"^recipe \(independant\) is unknown; did you mean independent\?"),
        ({"epsilon": 0.0}, r"^epsilon \(0.0\) must be"),
        ({"seeds": 0}, r"^seeds \(0\) must be at least 1$"),
        ({"out": "x.html"}, r"^out \(x.html\) must end in .json"),
        ({"out": "none/x.json"}, r"does not exist; make it first$"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, changed: dict, message: str) -> None:
    settings = {"table": "table1", "data": tmp_path, "out": tmp_path / "x.json", "datasets": ["toy"]} | changed
    with pytest.raises(SettingError, match=message) as caught:
        benchmark(settings.pop("table"), **settings)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_peer_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"^method \(mbi\) is unknown; known: mbi MST"):
        peers(["toy"], [], data=tmp_path, cache=tmp_path, methods=["mbi"])


def test_scripts_that_are_not_there_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"of the peers are not there"):
        peers(["toy"], [], data=tmp_path, cache=tmp_path, scripts=tmp_path)


def test_a_dataset_that_cannot_be_read_is_a_line_of_the_table(tmp_path: Path) -> None:
    result = table1(["pima", "toy"], ["independent"], seeds=1, data=tmp_path)
    assert result["datasets"][0]["skipped"].startswith("skipped: ")
    assert "pima_diabetes.parquet is missing" in result["datasets"][0]["skipped"]
    assert "pima\\_diabetes.parquet is missing" in markdown(result)
    with pytest.raises(InputError, match=r"pima_diabetes\.parquet is missing"):
        table1(["pima"], ["independent"], seeds=1, data=tmp_path)
