"""`threea sample`: more rows from a saved release, whole or not at all, free."""

import json
import shutil
import sys

import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import threea as library
from threea import cli, hospital


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sample") / "release"
    library.synthesize(hospital.stays(2_000), schema=hospital.schema(), epsilon=2.0, rows=100, seed=6).save(folder)
    return folder


@pytest.fixture
def threea(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["threea", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        out, err = capsys.readouterr()
        return end.value.code, out, err

    return run


def test_rows_that_fit_at_no_cost_under_the_releases_guarantee(threea, saved, tmp_path):
    before = {file.name: file.read_bytes() for file in saved.iterdir()}
    code, out, err = threea(
        "sample", saved, "--rows", 250, "--given", "died=true", "--where", "age>=65", "--where", "age<80",
        "--seed", 3, "--out", "more.parquet",
    )  # fmt: skip
    assert (code, err) == (0, "")
    stated = json.loads((saved / "certificate.json").read_text())
    assert out == (
        f"more.parquet: 250 rows at no cost, under the guarantee of the release they come from"
        f" ({stated['guarantee']}, at epsilon 2, delta 1e-06).\n"
    )
    rows = pq.read_table(tmp_path / "more.parquet")
    assert rows.num_rows == 250
    assert set(rows["died"].to_pylist()) == {True}
    assert 65 <= pc.min(rows["age"]).as_py() <= pc.max(rows["age"]).as_py() < 80
    assert {file.name: file.read_bytes() for file in saved.iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["more.parquet"]


def test_the_releases_own_seed_repeats_its_rows(threea, saved, tmp_path):
    assert threea("sample", saved / "model.threea", "--rows", 100, "--seed", 6, "--out", "same.parquet")[0] == 0
    assert pq.read_table(tmp_path / "same.parquet").equals(pq.read_table(saved / "synthetic.parquet"))


@pytest.mark.parametrize(("name", "options"), [("rows.csv", []), ("rows.txt", ["--format", "csv"])])
def test_csv_by_name_or_on_request(threea, saved, tmp_path, name, options):
    assert threea("sample", saved, "--rows", 30, "--given", "ward=surgery", "--out", name, *options)[0] == 0
    rows = pyarrow.csv.read_csv(tmp_path / name)
    assert set(rows["ward"].to_pylist()) == {"surgery"}
    assert rows.num_rows == 30


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--given", "dead=true"], "condition on column (dead): unknown; did you mean died?"),
        (["--given", "ward=surgry"], "condition on ward: value (surgry): unknown; did you mean surgery?"),
        (["--where", "age>=old"], "condition on age: (old) must be a number"),
        (["--where", "ward>surgery"], "which has no order; use ="),
        (["--where", "age>=90", "--where", "age<40"], "no row that the model draws fits the conditions on age"),
        (["--rows", "0"], "rows (0) must be a whole number, at least 1"),
        (["--seed", "-1"], "seed (-1) must be a whole number, at least 0"),
        (["--format", "xlsx"], "format (xlsx) must be parquet or csv"),
        (["--out", "no/such/folder.csv"], "does not exist, or is not writable"),
        (["--out", "."], "exists already; choose another name"),
    ],
)
def test_mistakes_end_in_one_line_and_nothing_is_written(threea, saved, tmp_path, arguments, said):
    code, out, err = threea("sample", saved, "--rows", 10, "--out", "new.csv", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_model_is_refused_in_one_line(threea, saved, tmp_path):
    shutil.copytree(saved, tmp_path / "copy")
    model = tmp_path / "copy" / "model.threea"
    model.write_bytes(model.read_bytes()[:-1])
    code, out, err = threea("sample", "copy", "--rows", 10, "--out", "new.csv")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "is damaged" in err
    assert not (tmp_path / "new.csv").exists()


def test_a_file_that_is_there_is_never_replaced(threea, saved, tmp_path):
    (tmp_path / "kept.csv").write_text("mine")
    code, _, err = threea("sample", saved, "--rows", 10, "--out", "kept.csv")
    assert (code, err.count("\n")) == (2, 1)
    assert (tmp_path / "kept.csv").read_text() == "mine"


def test_a_failure_halfway_leaves_nothing(threea, saved, tmp_path, monkeypatch):
    from threea.table.writing import RowWriter

    def full(self, batch):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RowWriter, "write", full)
    code, _, err = threea("sample", saved, "--rows", 10, "--out", "new.parquet")
    assert code == 2
    assert "No space left on device; make room" in err
    assert list(tmp_path.iterdir()) == []


def test_csv_is_written_as_the_release_was(threea, tmp_path):
    """With the separator of the file that came in, and cells that no spreadsheet runs if it was asked for."""
    lines = ["age;ward;died", *(f"{row % 90};=ward{row % 2};{'yes' if row % 3 else 'no'}" for row in range(300))]
    (tmp_path / "stays.csv").write_text("\n".join(lines) + "\n")
    columns = {
        "age": {"kind": "integer", "lower": 0, "upper": 99},
        "ward": {"kind": "categorical", "categories": ["=ward0", "=ward1"], "nullable": False},
        "died": {"kind": "categorical", "categories": ["no", "yes"]},
    }
    schema = library.Schema.of(columns, target="died")
    library.synthesize(tmp_path / "stays.csv", schema=schema, epsilon=1.0).save(
        tmp_path / "release", spreadsheet_safe=True
    )
    assert threea("sample", "release", "--rows", 20, "--out", "more.csv")[0] == 0
    head, *rows = (tmp_path / "more.csv").read_text().splitlines()
    assert head.replace('"', "") == "age;ward;died"
    assert all("'=ward" in row and row.count(";") == 2 for row in rows)
