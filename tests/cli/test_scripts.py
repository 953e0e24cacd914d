"""For scripts: one JSON object and nothing else with --json, rehearsals that leave no trace, words for the shell."""

import json
import os
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from threea import cli, hospital, synthesize
from threea.evaluate import evaluation, owner_report
from threea.ledger import Ledger
from threea.recipes import RECIPES


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with real rows, a schema, a ledger and a release that is in it."""
    folder = tmp_path_factory.mktemp("made")
    stays = hospital.stays(300)
    pq.write_table(stays.slice(0, 200), folder / "train.parquet")
    pq.write_table(stays.slice(200), folder / "holdout.parquet")
    (folder / "described.toml").write_text(hospital.schema().to_toml())
    book = {"ledger": folder / "books.db", "new_ledger": True, "dataset": "stays", "cap": 3.0}
    schema = hospital.schema()
    synthesize(stays, schema=schema, epsilon=1.0, rows=50, recipe="independent", **book).save(folder / "release")
    return folder


@pytest.fixture
def threea(capsys, monkeypatch, made):
    monkeypatch.chdir(made)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["threea", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return (end.value.code, *capsys.readouterr())

    return run


RELEASE = ("release", "train.parquet", "--schema", "described.toml", "--epsilon", "1", "--recipe", "independent")
EVALUATE = ("evaluate", "release", "--train", "train.parquet", "--holdout", "holdout.parquet")
TOLD = {
    (*RELEASE, "--rows", "50", "--seed", "1", "--out", "{new}"): {
        "dry_run": False,
        "recipe": "independent",
        "epsilon": 1.0,
        "delta": 1e-6,
        "adjacency": "add-remove",
        "unit": "row",
        "ledger": None,
        "guarantee": "proven",
        "rows": 50,
        "score": None,
        "notes": [],
    },
    ("schema", "train.parquet", "--target", "died", "--unit", "patient_id", "--out", "{new}"): {
        "target": "died",
        "columns": 15,
    },
    ("sample", "release", "--rows", "7", "--out", "{new}"): {"rows": 7, "guarantee": "proven", "format": "parquet"},
    ("split", "train.parquet", "--out", "{new}"): {"dry_run": False},
    ("ledger", "books.db", "--verify", "release"): {"whole": True},
    ("audit", "independent", "--dry-run"): {"dry_run": True, "replay": False, "trials": 1000},
    ("audit", "independent", "--replay", "--dry-run"): {"replay": True},
}


@pytest.mark.parametrize("arguments", TOLD, ids=lambda arguments: " ".join(arguments[:2]))
def test_one_object_on_standard_output_and_nothing_else(threea, tmp_path, arguments):
    code, out, err = threea(*(part.format(new=tmp_path / "new") for part in arguments), "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert {key: told[key] for key in TOLD[arguments]} == TOLD[arguments]
    for file in told.get("files", []):
        assert Path(file).is_file()


def test_a_receipt_and_its_plan_are_told(threea, tmp_path):
    told = json.loads(threea(*RELEASE, "--out", tmp_path / "new", "--dry-run", "--json")[1])
    assert told["dry_run"] is True
    assert told["receipt"][0].startswith("Recipe independent for died (2 classes): epsilon 1")
    assert sum(line["share"] for line in told["plan"]) == pytest.approx(1.0)
    assert {line["event"]["event"] for line in told["plan"]} == {"Gaussian"}
    assert not (tmp_path / "new").exists()


def test_a_ledger_is_told_with_what_is_left(threea):
    (dataset,) = json.loads(threea("ledger", "books.db", "--json")[1])["datasets"]
    assert (dataset["name"], dataset["spent"], dataset["cap"], dataset["left"]) == ("stays", 1.0, 3.0, 2.0)
    assert [release["recipe"] for release in dataset["releases"]] == ["independent"]


def test_a_release_that_the_ledger_does_not_hold_is_told_with_its_exit_code(threea, made, tmp_path):
    with Ledger(tmp_path / "other.db", create=True):
        pass
    code, out, err = threea("ledger", tmp_path / "other.db", "release", "--verify", "--json")
    assert (code, err) == (2, "")
    (release,) = json.loads(out)["releases"]
    assert release["in_ledger"] is False
    assert "older copy, or another ledger" in release["message"]


Answer = namedtuple("Answer", "question verdict text")


def test_an_evaluation_is_told_with_its_warnings(threea, monkeypatch, tmp_path):
    monkeypatch.setattr(evaluation, "evaluate", lambda *_, **__: {"warnings": ["few rows"]})
    monkeypatch.setattr(evaluation, "save", lambda scores, evidence, folder: [folder / "scores.json"])
    monkeypatch.setattr(owner_report, "answers", lambda scores: [Answer("Is it useful?", "yes", "Nearly as good.")])
    code, out, err = threea(*EVALUATE, "--out", tmp_path / "new", "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["answers"] == [{"question": "Is it useful?", "verdict": "yes", "text": "Nearly as good."}]
    assert told["warnings"] == ["few rows"]
    assert "do not release" in told["notice"]
    assert told["files"] == [str(tmp_path / "new" / "scores.json")]


def test_recipes_are_told_with_their_settings(threea):
    told = json.loads(threea("recipes", "--json")[1])["recipes"]
    assert set(told) == set(RECIPES)
    assert told["independent"]["guarantee"] == "proven"
    assert [name for name, recipe in told.items() if recipe["default"]] == ["auto"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((*RELEASE, "--out", "{new}", "--epsilom", "2"), 2, "--epsilom"),
        (("release", "gone.csv", "--target", "died", "--epsilon", "1", "--out", "{new}"), 2, "no such file"),
        ((*RELEASE, "--out", "{new}", "--ledger", "books.db", "--dataset", "stays", "--epsilon", "9"), 3, "left 2"),
        (("sample", "release", "--rows", "0", "--out", "{new}"), 2, "rows (0)"),
        (("audit", "independant", "--dry-run"), 2, "did you mean independent"),
        (("audit", "independent", "--trials", "3", "--dry-run"), 2, "trials (3)"),
    ],
)
def test_a_failure_is_one_object_on_standard_error_and_the_usual_exit_code(threea, tmp_path, arguments, code, words):
    plain = threea(*(part.format(new=tmp_path / "new") for part in arguments))
    found = threea(*(part.format(new=tmp_path / "new") for part in arguments), "--json")
    assert plain[0] == found[0] == code
    assert found[1] == ""
    told = json.loads(found[2])
    assert told["exit_code"] == code
    assert words in told["error"]
    assert plain[2].count("\n") == 1
    assert f"error: {told['error']}" == plain[2].strip()


def test_a_bug_is_told_to_scripts_without_what_it_says(threea, monkeypatch, tmp_path):
    def broken(*_, **__):
        raise ValueError("Xanthippe-7731")

    monkeypatch.setattr("threea.session.prepare", broken)
    code, out, err = threea(*RELEASE, "--out", tmp_path / "new", "--json")
    assert (code, out) == (1, "")
    assert json.loads(err)["error"].startswith("internal error: ValueError at test_scripts.py")
    assert "Xanthippe" not in err


def contents(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


@pytest.mark.parametrize(
    "arguments",
    [
        (*RELEASE, "--out", "new", "--ledger", "books.db", "--dataset", "stays"),
        ("sample", "release", "--rows", "7", "--given", "died=true", "--out", "new.parquet"),
        ("split", "train.parquet", "--unit", "patient_id", "--out", "new"),
        EVALUATE,
        ("audit", "independent", "--out", "new.json"),
        ("audit", "independent", "--replay", "--out", "new.json"),
        ("schema", "train.parquet", "--target", "died", "--out", "new.toml"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_rehearsal_says_so_and_leaves_no_trace(threea, made, arguments):
    before = contents(made)
    code, out, err = threea(*arguments, "--dry-run")
    assert (code, err) == (0, "")
    assert "A rehearsal: nothing was" in out
    assert {path for path in contents(made) if not path.name.startswith("books.db-")} == set(before)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("sample", "release", "--rows", "7", "--given", "dead=true", "--out", "new.csv"), "dead"),
        (("split", "train.parquet", "--unit", "nobody", "--out", "new"), "unit (nobody) is not a column"),
        ((*EVALUATE[:-1], "gone.parquet"), "no such file"),
        (("schema", "train.parquet", "--target", "dead", "--out", "new.toml"), "target (dead) is not a column"),
    ],
)
def test_a_rehearsal_finds_the_mistake(threea, arguments, words):
    code, _, err = threea(*arguments, "--dry-run")
    assert code == 2
    assert words in err


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("threea rel", {"release", "release-tables"}),
        ("threea release x.csv --recipe dpm", {"dpmix", "dpmerf", "dpmix-published"}),
        ("threea audit privb", {"privbayes"}),
        ("threea release x.csv --adjacency ", {"add-remove", "replace"}),
    ],
)
def test_the_shell_completes_commands_recipes_and_choices(line, expected):
    environment = os.environ | {
        "_THREEA_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
    }
    done = subprocess.run([sys.executable, "-m", "threea"], env=environment, capture_output=True, text=True)
    assert set(done.stdout.split()) == expected


def test_completion_can_be_installed(threea):
    code, out, _ = threea("--help")
    assert code == 0
    assert "--install-completion" in out
