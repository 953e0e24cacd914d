"""The commands that measure, as scripts rely on them: files, exit codes, one line per mistake, nothing half-written."""

import dataclasses
import hashlib
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import datasets
from benchmarks.datasets import Dataset
from threea import cli, hospital, recipes, synthesize
from threea.audit.runs import Batch
from threea.cli import measuring
from threea.evaluate.owner_report import NOTICE
from threea.recipes import Independent
from threea.testing import SeededNoise

REPOSITORY = Path(__file__).parents[2]
STAYS = hospital.stays(900)
# One stay a patient: without a unit, an id that rows share would be warned of.
STAYS = STAYS.take(np.random.default_rng(0).permutation(np.unique(STAYS["patient_id"], return_index=True)[1])[:450])
TRAIN, HOLDOUT = STAYS.slice(0, 300), STAYS.slice(300)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A release, made once.

    Its noise cannot be seeded. At this epsilon it is far too small to lose a class, of which no test may hang.
    """
    folder = tmp_path_factory.mktemp("made")
    synthesize(TRAIN, schema=hospital.schema(), epsilon=50.0, rows=1000, seed=0).save(folder / "release")
    return folder / "release"


@pytest.fixture
def threea(capsys, monkeypatch, tmp_path):
    """Run a command in this process, in a folder of its own; return exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("THREEA_DATA", raising=False)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["threea", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        out, err = capsys.readouterr()
        return end.value.code, out, err

    return run


@pytest.fixture
def place(made, tmp_path):
    """A folder with a copy of the release to spoil, and the real rows."""
    (tmp_path / "release").mkdir()
    for file in made.iterdir():
        (tmp_path / "release" / file.name).write_bytes(file.read_bytes())
    pq.write_table(TRAIN, tmp_path / "train.parquet")
    pq.write_table(HOLDOUT, tmp_path / "holdout.parquet")
    return tmp_path


def contents(folder):
    """Return what is in a folder, hidden files and all."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in sorted(Path(folder).rglob("*"))
    }


def refused(result, code, *words):
    """Check for one clear line and no traceback."""
    found, _, err = result
    assert found == code, err
    assert err.count("\n") == 1, err
    assert "Traceback" not in err
    for word in words:
        assert word in err
    return True


EVALUATE = ("evaluate", "release", "--train", "train.parquet", "--holdout", "holdout.parquet")


class TestEvaluate:
    def test_makes_a_report_and_scores_beside_the_release_and_leaves_it_alone(self, threea, place):
        before = contents(place)
        code, out, err = threea(*EVALUATE)
        assert (code, err) == (0, "")
        after = contents(place)
        assert before.items() <= after.items()
        new = {"release-evaluation", "release-evaluation/owner-report.html", "release-evaluation/scores.json"}
        assert set(after) - set(before) == new
        scores = json.loads((place / "release-evaluation/scores.json").read_text())
        assert scores["notice"] == NOTICE
        assert scores["warnings"] == []
        assert scores["certificate"]["guarantee"] == "proven"
        page = (place / "release-evaluation/owner-report.html").read_text()
        assert NOTICE in page
        assert f"{scores['utility']['learners']['lightgbm']['real']['auc']['value']:.3f}" in page
        for question in ("Is it useful?", "Does it look alike?", "Does it give anyone away?"):
            assert question in out
        for name in ("owner-report.html", "scores.json", "do not release"):
            assert name in out

    def test_an_overlapping_holdout_is_warned_of_with_its_share(self, threea, place):
        known = pa.concat_tables([HOLDOUT.slice(0, 60), TRAIN.slice(0, 40)])
        pq.write_table(known, place / "holdout.parquet")
        code, _, err = threea(*EVALUATE, "--out", "elsewhere")
        assert code == 0
        assert "warning: 40.0% of the holdout rows are equal to a training row" in err
        page = (place / "elsewhere/owner-report.html").read_text()
        assert "40.0% of the holdout rows are equal to a training row" in page
        assert not (place / "release-evaluation").exists()

    def test_the_owner_may_name_the_person(self, threea, place):
        assert refused(threea(*EVALUATE, "--unit", "nobody"), 2, "train lacks the column", "(nobody)", "give a table")
        assert not (place / "release-evaluation").exists()
        assert threea(*EVALUATE, "--unit", "patient_id", "--dry-run")[0] == 0

    def test_an_id_that_rows_share_is_warned_of(self, threea, place):
        again = STAYS.take(np.arange(300, 450).repeat(2))
        admitted = pa.array(hospital.stays(300, seed=5)["admitted"].to_pylist(), again["admitted"].type)
        again = again.set_column(again.column_names.index("admitted"), "admitted", admitted)
        pq.write_table(pa.concat_tables([TRAIN, again.slice(0, 100)]), place / "train.parquet")
        pq.write_table(again, place / "holdout.parquet")
        code, _, err = threea(*EVALUATE)
        assert code == 0
        assert "say `--unit patient_id` if it names persons; 50 of the 150 patient_id of the holdout" in err
        scores = json.loads((place / "release-evaluation/scores.json").read_text())
        assert scores["attacks"]["sizes"]["persons attacked"] == 75

    @pytest.mark.parametrize("out", ["release", "release/scores", "link/scores"])
    def test_a_place_in_the_release_is_refused(self, threea, place, out):
        (place / "link").symlink_to(place / "release")
        before = contents(place)
        assert refused(threea(*EVALUATE, "--out", out), 2, "inside the release")
        assert contents(place) == before

    def test_a_folder_with_something_in_it_is_refused(self, threea, place):
        (place / "release-evaluation").mkdir()
        (place / "release-evaluation/mine.txt").write_text("keep")
        before = contents(place)
        assert refused(threea(*EVALUATE), 2, "empty folder")
        assert refused(threea(*EVALUATE, "--out", "no/where"), 2, "does not exist")
        assert contents(place) == before

    SPOILS: ClassVar = {
        "no certificate": (lambda place: (place / "release/certificate.json").unlink(), "has no certificate.json"),
        "certificate is no JSON": (lambda place: (place / "release/certificate.json").write_text("{"), "is not JSON"),
        "rows replaced": (
            lambda place: pq.write_table(TRAIN, place / "release/synthetic.parquet"),
            "synthetic.parquet is not the file that its certificate names",
        ),
        "schema changed": (
            lambda place: (place / "release/schema.toml").write_text(
                (place / "release/schema.toml").read_text() + "# changed\n"
            ),
            "schema.toml is not the schema that the certificate names",
        ),
        "no rows": (lambda place: (place / "release/synthetic.parquet").unlink(), "no synthetic rows"),
        "train lacks a column": (
            lambda place: pq.write_table(TRAIN.drop_columns(["ward"]), place / "train.parquet"),
            "train lacks columns (ward)",
        ),
        "holdout lacks a column": (
            lambda place: pq.write_table(HOLDOUT.drop_columns(["age"]), place / "holdout.parquet"),
            "holdout lacks columns (age)",
        ),
        "holdout has one class": (
            lambda place: pq.write_table(
                HOLDOUT.filter(pa.compute.equal(HOLDOUT["died"], False)), place / "holdout.parquet"
            ),
            "holdout has 1 class of the target (died)",
        ),
        "train has one class": (
            lambda place: pq.write_table(TRAIN.filter(pa.compute.equal(TRAIN["died"], False)), place / "train.parquet"),
            "train has 1 class",
        ),
        "holdout is empty": (lambda place: pq.write_table(HOLDOUT.slice(0, 0), place / "holdout.parquet"), "holdout"),
        "train is missing": (lambda place: (place / "train.parquet").unlink(), "train.parquet"),
    }

    @pytest.mark.parametrize("case", SPOILS)
    def test_what_does_not_belong_together_is_refused(self, threea, place, case):
        spoil, word = self.SPOILS[case]
        spoil(place)
        before = contents(place)
        assert refused(threea(*EVALUATE), 2, word)
        assert contents(place) == before

    @pytest.mark.parametrize("option", ["--train", "--holdout"])
    def test_both_tables_must_be_given(self, threea, place, option):
        arguments = list(EVALUATE)
        number = arguments.index(option)
        del arguments[number : number + 2]
        assert refused(threea(*arguments), 2, option)

    @pytest.mark.parametrize(("module", "package"), [("lightgbm", "lightgbm"), ("sklearn", "scikit-learn")])
    def test_a_missing_extra_is_named(self, threea, place, monkeypatch, module, package):
        for name in [name for name in sys.modules if name.split(".")[0] == module]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, module, None)
        before = contents(place)
        assert refused(threea(*EVALUATE), 2, f"{package} is not installed", "threea[evaluate]")
        assert contents(place) == before

    def test_a_full_disk_gives_one_line_and_nothing_written(self, tmp_path):
        code = (
            "import resource; from threea.evaluate import evaluation; evaluation.render = lambda *_: 'x' * 50_000;"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000)); evaluation.save({}, None, 'e')"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=120)
        assert "SettingError: out (e) cannot be written: File too large" in done.stderr
        assert list(tmp_path.iterdir()) == []


@dataclass(frozen=True, kw_only=True)
class Stumbles(Independent):
    """Honest but for one thing: it fails on a table that holds a NaN, and so tells it apart."""

    name: ClassVar[str] = "stumbles"
    bins: int = 4

    def run(self, table, rows=None, seed=None, plan=None, progress=None):
        table._interior = dataclasses.replace(table._interior, noise=SeededNoise(seed))
        if table._interior.backend.table()["amount"].type == pa.float64():
            amounts = table._interior.backend.table()["amount"].to_numpy()
            if np.isnan(amounts).any():
                raise ZeroDivisionError
        return super().run(table, rows, seed, plan, progress)


@dataclass(frozen=True, kw_only=True)
class Steady(Independent):
    """Honest, with noise that repeats; few bins, to be quick."""

    name: ClassVar[str] = "steady"
    bins: int = 4

    def run(self, table, rows=None, seed=None, plan=None, progress=None):
        table._interior = dataclasses.replace(table._interior, noise=SeededNoise(seed))
        return super().run(table, rows, seed, plan, progress)


class TestAudit:
    @pytest.fixture(autouse=True)
    def here(self, monkeypatch):
        """Run in this process: another would not know the recipes above."""
        monkeypatch.setattr(measuring, "_cores", lambda: 1)
        for recipe in (Stumbles, Steady):
            monkeypatch.setitem(recipes.RECIPES, recipe.name, recipe)

    def test_an_honest_recipe_passes_and_a_broken_off_audit_goes_on(self, threea, tmp_path, monkeypatch):
        work, calls = Batch.run, []

        def breaks_off(batch):
            if len(calls) == 3:
                raise KeyboardInterrupt
            calls.append(batch)
            return work(batch)

        arguments = ("audit", "steady", "--trials", 20, "--out", "a.json")
        monkeypatch.setattr(Batch, "run", breaks_off)
        assert refused(threea(*arguments), 130, "interrupted")
        assert set(contents(tmp_path)) == {"a.json.runs.jsonl"}
        monkeypatch.setattr(Batch, "run", lambda batch: calls.append(batch) or work(batch))
        code, out, err = threea(*arguments)
        assert (code, err) == (0, "")
        assert len({(batch.pair.name, batch.side, batch.numbers) for batch in calls}) == len(calls)
        assert set(contents(tmp_path)) == {"a.json"}
        result = json.loads((tmp_path / "a.json").read_text())
        assert (result["recipe"], result["epsilon"], result["delta"], result["trials"]) == ("steady", 1.0, 1e-6, 20)
        assert result["violation"] is False
        for word in ("pair", "best statistic", "lower bound", "claimed", "rare category", "no violation found"):
            assert word in out

    def test_a_violated_claim_ends_with_1_and_is_said(self, threea, tmp_path):
        # Told apart in every run: the bound does not hang on chance.
        code, out, err = threea("audit", "stumbles", "--trials", 40, "--epsilon", 0.1, "--out", "a.json")
        assert (code, err) == (1, "")
        assert "stumbles violates the claim of (0.1, 1e-06)-DP" in out
        assert "40 runs with the target of not a number ended in ZeroDivisionError" in out
        result = json.loads((tmp_path / "a.json").read_text())
        assert result["violation"]
        assert result["found_by"]["pair"] == "not a number"
        assert sum(line.rstrip().endswith("violated") for line in out.splitlines()) == 1

    def test_without_out_nothing_is_written(self, threea, tmp_path, monkeypatch):
        monkeypatch.setattr("threea.audit.audit", lambda recipe, **_: {**FOUND, "recipe": recipe})
        code, out, _ = threea("audit", "steady")
        assert code == 0
        assert "nothing was found" in out
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        ("arguments", "word"),
        [
            (["independant"], "did you mean independent"),
            (["steady", "--epsilon", "0"], "epsilon (0.0)"),
            (["steady", "--epsilon", "much"], "epsilon (much)"),
            (["steady", "--delta", "2"], "delta (2.0)"),
            (["steady", "--trials", "3"], "trials (3)"),
            (["steady", "--trials", "many"], "--trials"),
            (["steady", "--out", "no/where.json"], "does not exist"),
            (["steady", "--out", "there.json"], "exists already"),
            ([], "RECIPE"),
        ],
    )
    def test_bad_settings_are_refused(self, threea, tmp_path, arguments, word):
        (tmp_path / "there.json").write_text("keep")
        before = contents(tmp_path)
        assert refused(threea("audit", *arguments), 2, word)
        assert contents(tmp_path) == before

    def test_a_strangers_file_in_place_of_the_runs_is_left_alone(self, threea, tmp_path):
        (tmp_path / "a.json.runs.jsonl").write_text("my notes\n")
        assert refused(threea("audit", "steady", "--trials", 20, "--out", "a.json"), 2, "something else")
        assert (tmp_path / "a.json.runs.jsonl").read_text() == "my notes\n"
        assert not (tmp_path / "a.json").exists()


FOUND = {
    "epsilon": 1.0,
    "trials": 20,
    "bounds": [],
    "failures": [],
    "could_show": 0.5,
    "violation": False,
    "verdict": "nothing was found",
}


def toy(folder):
    """A made-up dataset of simulated stays."""
    described = hospital.schema()
    kept = [column.name for column in described.columns if column.name != "patient_id"]
    columns = tuple(column for column in described.columns if column.name in kept)
    schema = type(described)(columns=columns, target="died", confirmed=True)
    return Dataset(name="toy", title="Toy", table=hospital.stays(300).select(kept), target="died", schema=schema)


class TestBenchmark:
    @pytest.fixture(autouse=True)
    def registry(self, monkeypatch):
        monkeypatch.setitem(datasets.LOADERS, "toy", toy)

    ARGUMENTS = ("benchmark", "table1", "--datasets", "toy", "--recipes", "independent", "--seeds", 1)

    def test_a_table_is_written_three_ways_and_a_second_run_goes_on(self, threea, tmp_path, monkeypatch):
        monkeypatch.setenv("THREEA_DATA", str(tmp_path))
        code, out, err = threea(*self.ARGUMENTS, "--epsilon", 2)
        assert (code, err) == (0, "")
        assert set(contents(tmp_path)) == {f"table1.{kind}" for kind in ("json", "md", "html", "cells.jsonl")}
        assert all(f"table1.{kind}" in out for kind in ("json", "md", "html"))
        result = json.loads((tmp_path / "table1.json").read_text())
        assert result["epsilon"] == 2.0
        assert result["datasets"][0]["dataset"] == "toy"
        assert list(result["datasets"][0]["recipes"]) == ["independent"]

        def again(*_, **__):
            raise AssertionError("measured again")

        monkeypatch.setattr("benchmarks.tables.table1.released", again)
        assert threea(*self.ARGUMENTS, "--epsilon", 2)[0] == 0
        assert json.loads((tmp_path / "table1.json").read_text()) == result

    def test_mcgen_can_be_run_in_parts(self, threea, tmp_path):
        parts = ("benchmark", "mcgen", "--datasets", "toy", "--recipes", "independent", "--seeds", 1, "--data", ".")
        code, _, err = threea(*parts, "--scenarios", "2", "--epsilons", "0.5,1", "--ks", "none")
        assert (code, err) == (0, "")
        result = json.loads((tmp_path / "mcgen.json").read_text())
        assert (result["epsilons"], result["ks"], result["scenarios"]) == ([0.5, 1.0], [], [2])
        cells = (tmp_path / "mcgen.cells.jsonl").read_text()
        assert threea(*parts, "--scenarios", "1,2", "--epsilons", "1")[0] == 0
        added = (tmp_path / "mcgen.cells.jsonl").read_text().removeprefix(cells)
        assert [json.loads(line)["settings"]["scenario"] for line in added.splitlines()] == [1]

    def test_data_is_looked_for_in_the_option_the_variable_then_here(self, threea, tmp_path, monkeypatch):
        assert refused(threea(*self.ARGUMENTS), 2, "data folder (data)")
        monkeypatch.setenv("THREEA_DATA", "variable")
        assert refused(threea(*self.ARGUMENTS), 2, "data folder (variable)")
        assert refused(threea(*self.ARGUMENTS, "--data", "option"), 2, "data folder (option)")
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        ("arguments", "word"),
        [
            (["tabel1"], "did you mean table1"),
            (["figurs"], "did you mean figures? known: table1, mcgen, peers, sweep, ablations, figures\n"),
            (["table1", "--datasets", "adlut"], "did you mean adult"),
            (["table1", "--datasets", " , "], "at least one"),
            (["table1", "--datasets", "toy", "--recipes", "independant"], "did you mean independent"),
            (["table1", "--datasets", "toy", "--epsilon", "0"], "epsilon (0.0)"),
            (["table1", "--datasets", "toy", "--epsilon", "much"], "epsilon (much)"),
            (["table1", "--datasets", "toy", "--epsilons", "0.1,1"], "epsilons (0.1, 1) must be one for table1"),
            (["table1", "--datasets", "toy", "--ks", "0.5"], "ks (0.5) cannot be chosen for table1"),
            (["mcgen", "--datasets", "toy", "--ks", "0,1"], "ks (0) must be shares of the rows"),
            (["mcgen", "--datasets", "toy", "--scenarios", "3"], "scenarios (3) must be 1 or 2"),
            (["mcgen", "--datasets", "toy", "--k-epsilons", "5"], "k_epsilons (5) must be among the epsilons"),
            (["figures", "--scenarios", "1"], "scenarios (1) cannot be chosen for figures"),
            (["table1", "--datasets", "toy", "--seeds", "0"], "seeds (0)"),
            (["table1", "--datasets", "toy", "--out", "table.txt"], "must end in .json"),
            (["table1", "--datasets", "toy", "--out", "no/where.json"], "does not exist"),
            ([], "TABLE"),
        ],
    )
    def test_bad_settings_are_refused(self, threea, tmp_path, arguments, word):
        assert refused(threea("benchmark", *arguments), 2, word)
        assert list(tmp_path.iterdir()) == []

    def test_a_missing_extra_is_named(self, threea, tmp_path, monkeypatch):
        monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
        assert refused(threea(*self.ARGUMENTS, "--data", tmp_path), 2, "is not installed", "threea[evaluate]")
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("table", ["table1", "figures"])
    def test_without_a_clone_it_says_how_to_get_one(self, threea, tmp_path, monkeypatch, table):
        monkeypatch.setattr(measuring, "_is_clone", lambda folder: False)
        assert refused(threea("benchmark", table), 2, "clone the threea repository and run this in its folder")
        assert list(tmp_path.iterdir()) == []

    def test_another_projects_benchmarks_are_not_run_in_their_place(self, tmp_path):
        (tmp_path / "benchmarks").mkdir()
        for name in ("__init__.py", "command.py"):
            (tmp_path / "benchmarks" / name).write_text("raise SystemExit('not mine')")
        path = os.pathsep.join([str(REPOSITORY / "src"), str(tmp_path)])
        done = subprocess.run(
            [sys.executable, "-c", "from threea.cli import main; main()", "benchmark", "tabel1"],
            env=os.environ | {"PYTHONPATH": path},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 2
        assert "did you mean table1" in done.stderr

    def test_a_clone_is_used_from_its_folder_first(self, threea, tmp_path, monkeypatch):
        for name in ("src/threea/__init__.py", "benchmarks/command.py"):
            (tmp_path / name).parent.mkdir(parents=True)
            (tmp_path / name).write_text("")
        monkeypatch.setattr(sys, "path", list(sys.path))
        assert refused(threea("benchmark", "tabel1"), 2, "did you mean table1")
        assert sys.path[0] == str(tmp_path)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_shows_on_a_terminal_and_nowhere_else(monkeypatch):
    screen, pipe = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    with measuring._status("Measuring", keep=True) as tell:
        tell("toy [bold]independent[/bold]: auc 0.9")
    assert "toy [bold]independent[/bold]: auc 0.9" in screen.getvalue()
    monkeypatch.setattr(sys, "stderr", pipe)
    with measuring._status("Measuring") as tell:
        assert tell is None
    assert pipe.getvalue() == ""


def test_the_command_line_starts_without_anything_heavy():
    script = "import sys, threea.cli; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert "typer" in loaded
    heavy = {
        "numpy",
        "pyarrow",
        "scipy",
        "sklearn",
        "lightgbm",
        "opendp",
        "dp_accounting",
        "pandas",
        "polars",
        "jinja2",
    }
    assert not heavy & set(loaded)


def test_help_lists_the_commands_and_their_contract(threea):
    code, out, _ = threea("--help")
    assert code == 0
    options = {
        "evaluate": ("--train", "--holdout", "--out", "DIR"),
        "audit": ("--epsilon", "--delta", "--trials", "--out", "RECIPE", "caught"),
        "benchmark": (
            "--datasets",
            "--recipes",
            "--epsilon",
            "--seeds",
            "--ks",
            "--scenarios",
            "--out",
            "TABLE",
            "THREEA_DATA",
        ),
    }
    for command, words in options.items():
        assert command in out
        _, told, _ = threea(command, "--help")
        assert all(word in told for word in words), told
