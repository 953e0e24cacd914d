"""The command line as scripts rely on it: files, exit codes, one line per mistake, nothing half-written."""

import json
import os
import resource
import signal
import subprocess
import sys

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from threea import cli, hospital
from threea.ledger import Ledger
from threea.place import STAGING

CANARY = "Xanthippe-7731"


def run(capsys, monkeypatch, *arguments):
    """Run a command in this process; return exit code, standard output and standard error."""
    monkeypatch.setattr(sys, "argv", ["threea", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    out, err = capsys.readouterr()
    return end.value.code, out, err


@pytest.fixture
def threea(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: run(capsys, monkeypatch, *arguments)


@pytest.fixture
def stays(tmp_path):
    path = tmp_path / "stays.parquet"
    pq.write_table(hospital.stays(400), path)
    return path


@pytest.fixture
def described(tmp_path):
    path = tmp_path / "described.toml"
    path.write_text(hospital.schema().to_toml())
    return path


def refused(result, code, *words):
    """Check for one clear line and no traceback."""
    found, _, err = result
    assert found == code, err
    assert err.count("\n") == 1, err
    assert "Traceback" not in err
    assert CANARY not in err
    for word in words:
        assert word in err
    return True


def test_demo_names_the_files_it_made(threea, tmp_path):
    code, out, err = threea("demo", "--out", "made")
    assert (code, err) == (0, "")
    assert "imulated" in out
    names = {"synthetic.parquet", "certificate.json", "model.threea", "report.html", "schema.toml"}
    assert {path.name for path in (tmp_path / "made").iterdir()} == names
    assert all(name in out for name in names)
    certificate = json.loads((tmp_path / "made/certificate.json").read_text())
    assert certificate["guarantee"] == "proven"
    assert certificate["accounted_epsilon"] <= certificate["epsilon"] == 1.0
    assert certificate["recipe"] == "labeltree"
    assert "Recipe labeltree for died (2 classes): epsilon 1," in out
    assert "It was picked by auto: 7 numeric columns" in out


def test_release_with_a_schema_has_the_same_columns_and_types(threea, stays, described, tmp_path):
    code, out, _ = threea("release", stays, "--schema", described, "--epsilon", 1, "--out", "r", "--rows", 123)
    assert code == 0
    assert "share of budget" in out
    synthetic = pq.read_table(tmp_path / "r/synthetic.parquet")
    assert synthetic.num_rows == 123
    assert synthetic.schema.equals(pq.read_schema(stays).remove_metadata(), check_metadata=True)


def test_a_recipe_that_is_named_is_not_picked(threea, stays, described, tmp_path):
    arguments = ("release", stays, "--schema", described, "--epsilon", 1, "--rows", 5)
    code, out, _ = threea(*arguments, "--recipe", "independent", "--set", "bins=4", "--out", "r")
    assert code == 0
    assert "Recipe independent for died (2 classes):" in out
    assert "picked by" not in out
    certificate = json.loads((tmp_path / "r/certificate.json").read_text())
    assert (certificate["recipe"], certificate["settings"]) == ("independent", {"bins": 4})


def test_release_without_a_schema_finds_one_from_the_budget(threea, stays, tmp_path):
    assert threea("release", stays, "--target", "died", "--epsilon", 1, "--out", "r", "--format", "csv")[0] == 0
    certificate = json.loads((tmp_path / "r/certificate.json").read_text())
    assert [event["name"] for event in certificate["events"]][:2] == ["discover categories", "discover ranges"]
    assert certificate["schema_origin"] == "discovered"
    assert pa.csv.read_csv(tmp_path / "r/synthetic.csv").column_names == hospital.stays(1).column_names


def test_a_drafted_schema_is_refused_until_confirmed(threea, stays, tmp_path):
    code, out, _ = threea("schema", stays, "--target", "died", "--out", "draft.toml")
    assert code == 0
    assert "confirmed" in out
    arguments = ("release", stays, "--schema", "draft.toml", "--epsilon", 1, "--out", "r")
    assert refused(threea(*arguments), 2, "confirm")
    assert not (tmp_path / "r").exists()
    assert threea(*arguments, "--confirm-schema")[0] == 0


def test_the_seed_repeats_sampling_but_never_noise(threea, stays, described, tmp_path):
    for name in ("a", "b"):
        threea("release", stays, "--schema", described, "--epsilon", 1, "--out", name, "--seed", 7, "--rows", 300)
    first, second = (pq.read_table(tmp_path / name / "synthetic.parquet") for name in ("a", "b"))
    assert not first.equals(second)


def test_every_privacy_setting_changes_the_certificate(threea, stays, described, tmp_path):
    plain = ("release", stays, "--schema", described, "--rows", 5)
    variants = {
        "plain": ("--epsilon", 1),
        "epsilon": ("--epsilon", 2),
        "delta": ("--epsilon", 1, "--delta", 1e-9),
        "adjacency": ("--epsilon", 1, "--adjacency", "replace"),
        "unit": ("--epsilon", 1, "--unit", "patient_id", "--max-rows-per-unit", 2),
    }
    facts = {}
    for name, options in variants.items():
        assert threea(*plain, *options, "--out", name)[0] == 0
        certificate = json.loads((tmp_path / name / "certificate.json").read_text())
        facts[name] = tuple(str(certificate[key]) for key in ("epsilon", "delta", "adjacency", "unit", "events"))
    assert len(set(facts.values())) == len(variants)


def test_ledger_over_its_cap_is_refused_with_requested_spent_left(threea, stays, described, tmp_path):
    arguments = ("release", stays, "--schema", described, "--ledger", "ledger.db", "--cap", 1.5, "--rows", 5)
    assert threea(*arguments, "--epsilon", 1, "--out", "a", "--new-ledger")[0] == 0
    assert refused(threea(*arguments, "--epsilon", 1, "--out", "b"), 3, "requested epsilon 1", "spent 1", "left 0.5")
    assert not (tmp_path / "b").exists()
    code, out, _ = threea("ledger", "ledger.db")
    assert code == 0
    assert "stays: epsilon 1 spent" in out
    assert "left 0.5" in out
    assert threea("ledger", "ledger.db", "--dataset", "nothing")[0] == 2


def test_the_same_rows_under_another_name_are_noticed(threea, stays, described):
    arguments = ("release", stays, "--schema", described, "--ledger", "ledger.db", "--epsilon", 1, "--rows", 5)
    assert threea(*arguments, "--dataset", "first", "--out", "a")[0] == 0
    assert refused(threea(*arguments, "--dataset", "second", "--out", "b"), 2, "first")


def test_a_corrupt_ledger_gives_one_line_and_no_release(threea, stays, described, tmp_path):
    (tmp_path / "ledger.db").write_bytes(os.urandom(4096))
    arguments = ("release", stays, "--schema", described, "--ledger", "ledger.db", "--epsilon", 1, "--out", "r")
    assert refused(threea(*arguments), 2, "ledger")
    assert not (tmp_path / "r").exists()
    assert refused(threea("ledger", "ledger.db"), 2, "ledger")
    assert refused(threea("ledger", "missing.db"), 2, "missing.db")
    assert not (tmp_path / "missing.db").exists()


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


BAD_FILES = {
    "no such file": ("nothing.csv", None, "no such file"),
    "empty file": ("empty.csv", "", "empty"),
    "empty parquet": ("empty.parquet", "", "empty"),
    "no rows": ("norows.csv", "a,y\n", "no rows"),
    "one column": ("one.csv", f"y\n{CANARY}\n", "column"),
    "target missing": ("notarget.csv", f"a,b\n1,{CANARY}\n", "target (y)"),
    "target all null": ("nulls.csv", f"a,y\n{CANARY},\n2,\n", "target (y)"),
    "duplicate column names": ("twice.csv", f"a,a,y\n1,{CANARY},3\n", "more than once"),
    "ragged": ("ragged.csv", f"a,y\n1,2\n{CANARY}\n1,2\n", "more or fewer"),
    "wrong encoding": ("latin.csv", "a,y\nJosé,1\n".encode("latin-1"), "UTF-8"),
    "binary garbage": ("garbage.csv", bytes(range(256)) * 64, "garbage.csv"),
    "parquet garbage": ("garbage.parquet", bytes(range(256)) * 64, "Parquet"),
    "unknown ending": ("table.ods", "PK", ".csv"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_file_gives_one_line_and_nothing_written(threea, tmp_path, case):
    name, content, word = BAD_FILES[case]
    if content is not None:
        write(tmp_path / name, content)
    before = sorted(tmp_path.iterdir())
    assert refused(threea("release", name, "--target", "y", "--epsilon", 1, "--out", "r"), 2, word)
    assert sorted(tmp_path.iterdir()) == before


BAD_SETTINGS = {
    "epsilon zero": (["--epsilon", "0"], "epsilon (0.0)"),
    "epsilon negative": (["--epsilon", "-1"], "epsilon (-1.0)"),
    "epsilon nan": (["--epsilon", "nan"], "epsilon (nan)"),
    "epsilon infinite": (["--epsilon", "inf"], "epsilon (inf)"),
    "epsilon text": (["--epsilon", "much"], "much"),
    "epsilon absent": ([], "epsilon"),
    "delta zero": (["--epsilon", "1", "--delta", "0"], "delta (0)"),
    "delta one": (["--epsilon", "1", "--delta", "1"], "delta (1.0)"),
    "recipe unknown": (["--epsilon", "1", "--recipe", "independant"], "did you mean independent"),
    "setting unknown": (["--epsilon", "1", "--recipe", "independent", "--set", "bin=4"], "did you mean bins"),
    "setting without a recipe": (
        ["--epsilon", "1", "--set", "alpha=0.5"],
        "setting (alpha) is unknown to auto; name a recipe with --recipe, e.g. labeltree",
    ),
    "setting of auto": (["--epsilon", "1", "--recipe", "auto", "--set", "bins=4"], "e.g. gaussians"),
    "setting malformed": (["--epsilon", "1", "--set", "bins"], "key=value"),
    "setting of another type": (["--epsilon", "1", "--recipe", "independent", "--set", "bins=few"], "few"),
    "setting out of bounds": (["--epsilon", "1", "--recipe", "independent", "--set", "bins=1"], "bins (1)"),
    "adjacency unknown": (["--epsilon", "1", "--adjacency", "swap"], "swap"),
    "rows zero": (["--epsilon", "1", "--rows", "0"], "rows (0)"),
    "format unknown": (["--epsilon", "1", "--format", "xlsx"], "xlsx"),
    "unit unknown": (["--epsilon", "1", "--unit", "nobody"], "nobody"),
    "rows per unit without a unit": (["--epsilon", "1", "--max-rows-per-unit", "3"], "unit"),
    "cap without a ledger": (["--epsilon", "1", "--cap", "3"], "ledger"),
    "flag unknown": (["--epsilon", "1", "--frobnicate"], "frobnicate"),
}


@pytest.mark.parametrize("case", BAD_SETTINGS)
def test_bad_setting_gives_one_line_and_nothing_written(threea, stays, tmp_path, case):
    options, word = BAD_SETTINGS[case]
    before = sorted(tmp_path.iterdir())
    assert refused(threea("release", stays, "--target", "died", *options, "--out", "r"), 2, word)
    assert sorted(tmp_path.iterdir()) == before


def test_neither_schema_nor_target_is_refused(threea, stays):
    assert refused(threea("release", stays, "--epsilon", 1, "--out", "r"), 2, "--schema", "--target")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda text: text.replace('[column."age"]', '[column."years"]'), "years"),
        (lambda text: text.replace('kind = "datetime"', 'kind = "real"'), "admitted"),
        (lambda text: text.replace("lower = 0\n", "lower = 900\n", 1), "lower"),
        (lambda text: text + "nonsense", "TOML"),
        (lambda text: "", "column"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused(threea, stays, described, tmp_path, change, word):
    described.write_text(change(described.read_text()))
    assert refused(threea("release", stays, "--schema", described, "--epsilon", 1, "--out", "r"), 2, word)
    assert not (tmp_path / "r").exists()


def test_an_output_folder_with_something_in_it_is_refused_before_anything_is_spent(threea, stays, described, tmp_path):
    (tmp_path / "r").mkdir()
    (tmp_path / "r/mine.txt").write_text("keep")
    arguments = ("release", stays, "--schema", described, "--epsilon", 1, "--ledger", "ledger.db", "--out", "r")
    assert refused(threea(*arguments), 2, "empty folder")
    assert not (tmp_path / "ledger.db").exists()
    assert [path.name for path in (tmp_path / "r").iterdir()] == ["mine.txt"]


def test_a_disk_that_is_too_small_gives_one_line_before_anything_is_charged(stays, described, tmp_path):
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (99000, 99000));"
        "from threea.cli import main; main()"
    )
    ledger = tmp_path / "books.db"
    Ledger(ledger, create=True).close()
    arguments = ["release", stays, "--schema", described, "--epsilon", "1", "--rows", "5000", "--out", tmp_path / "r"]
    arguments += ["--ledger", ledger]
    before = sorted(tmp_path.iterdir())
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120)
    assert refused((done.returncode, done.stdout, done.stderr), 2, "too little room", "File too large; make room")
    assert sorted(tmp_path.iterdir()) == before
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 99000
    with Ledger(ledger) as book:
        assert not book.releases()


def test_an_interrupt_leaves_nothing_but_the_charge(stays, described, tmp_path):
    arguments = ["--epsilon", "1", "--rows", "20000000", "--ledger", tmp_path / "ledger.db", "--out", tmp_path / "r"]
    Ledger(tmp_path / "ledger.db", create=True).close()
    # Whoever runs the tests in the background may have them ignore interrupts, and a child would, too.
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from threea.cli import main; main()"
    )
    command = [sys.executable, "-c", code, "release", stays, "--schema", described, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            while not list(tmp_path.glob(f"{STAGING}*/contents/synthetic.parquet")):
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    assert err.startswith("interrupted: no result was written; what was charged stays charged; the same again with --")
    assert not any(path.name == "r" or path.name.startswith(STAGING) for path in tmp_path.iterdir())
    with Ledger(tmp_path / "ledger.db") as book:
        assert [row.spent for row in book.datasets()] == [1.0]


def test_a_bug_never_looks_like_a_mistake_nor_quotes_a_row(threea, stays, described, monkeypatch):
    def broken(*_, **__):
        raise ValueError(CANARY)

    monkeypatch.setattr("threea.publish.write", broken)
    code, _, err = threea("release", stays, "--schema", described, "--epsilon", 1, "--out", "r")
    assert code == 1
    assert "internal error: ValueError" in err
    assert CANARY not in err


def test_recipes_lists_every_recipe(threea):
    from threea.recipes import RECIPES

    code, out, _ = threea("recipes")
    assert code == 0
    assert all(name in out and str(recipe().guarantee) in out for name, recipe in RECIPES.items())
    assert out.splitlines()[1].startswith("auto (default)")


def test_importing_threea_loads_nothing_heavy():
    script = "import sys, threea; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert "threea" in loaded
    heavy = {"numpy", "pyarrow", "scipy", "opendp", "dp_accounting", "pandas", "polars", "rich", "typer"}
    assert not heavy & set(loaded)


def test_help_of_every_command_fits_the_contract(threea):
    code, out, _ = threea("--help")
    assert code == 0
    assert all(command in out for command in ("demo", "schema", "release", "ledger", "recipes"))
