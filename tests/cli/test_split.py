"""A table cut in two, for its owner: every row on one side, persons whole, nothing half-written."""

import json
import stat
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import threea
from threea.cli import app
from threea.errors import SettingError
from threea.evaluate.split import split
from threea.table.dialect import Dialect

RNG = np.random.default_rng(5)
TABLE = pa.table({"person": RNG.integers(0, 400, 2000), "row": np.arange(2000), "word": RNG.choice(["a", "b"], 2000)})


@pytest.fixture
def data(tmp_path):
    pyarrow.parquet.write_table(TABLE, tmp_path / "table.parquet")
    pyarrow.csv.write_csv(TABLE, tmp_path / "table.csv")
    return tmp_path


@pytest.mark.parametrize("form", ["parquet", "csv"])
@pytest.mark.parametrize("unit", [None, "person"])
def test_every_row_is_on_one_side_and_persons_are_whole(data, form, unit):
    files = split(data / f"table.{form}", data / "out", holdout=0.3, unit=unit, seed=1)
    read = pyarrow.csv.read_csv if form == "csv" else pyarrow.parquet.read_table
    train, held = (read(file) for file in files)
    assert sorted(train["row"].to_pylist() + held["row"].to_pylist()) == list(range(2000))
    assert train.column_names == TABLE.column_names
    # With this seed; the share of 400 persons strays by at most 4 standard deviations of 2.3 points.
    assert 0.2 < held.num_rows / 2000 < 0.4
    shared = set(train["person"].to_pylist()) & set(held["person"].to_pylist())
    assert bool(shared) is (unit is None)


def test_a_seed_repeats_the_split_and_no_seed_does_not(data):
    cuts = [split(data / "table.parquet", data / f"out{n}", unit="person", seed=seed) for n, seed in enumerate((1, 1))]
    cuts += [split(data / "table.parquet", data / f"free{n}", unit="person") for n in range(2)]
    first, again, one, other = (pyarrow.parquet.read_table(files[1])["row"].to_pylist() for files in cuts)
    assert first == again
    assert one != other


def test_only_the_owner_may_enter(data):
    files = split(data / "table.csv", data / "out")
    assert stat.S_IMODE(files[0].parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"holdout": 1.0}, r"holdout \(1.0\) must be > 0 and < 1"),
        ({"unit": "nobody"}, r"unit \(nobody\) is not a column; columns are: person, row, word"),
    ],
)
def test_what_cannot_be_split_is_refused_and_nothing_is_written(data, options, message):
    before = sorted(data.iterdir())
    with pytest.raises(SettingError, match=message):
        split(data / "table.csv", data / "out", **options)
    assert sorted(data.iterdir()) == before


def test_a_folder_with_something_in_it_is_left_alone(data):
    with pytest.raises(SettingError, match="must be a new or empty folder"):
        split(data / "table.csv", data)


def test_a_broken_file_leaves_nothing_behind(data):
    (data / "broken.csv").write_bytes(b"person,row\n1,2\n1,2,3\n")
    before = sorted(data.iterdir())
    result = CliRunner().invoke(app, ["split", str(data / "broken.csv"), "--out", str(data / "out")])
    assert result.exit_code != 0
    assert sorted(data.iterdir()) == before


def test_the_commands_say_where_the_files_are_and_what_is_installed(data):
    done = CliRunner().invoke(app, ["split", str(data / "table.csv"), "--out", str(data / "out"), "--unit", "person"])
    assert done.exit_code == 0
    assert "holdout.csv" in done.stdout
    found = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).stdout)
    assert found["noise"] is True
    assert found["core"]["opendp"]
    assert set(found["extras"]["evaluate"]) == {"scikit-learn", "lightgbm"}


def test_a_missing_package_is_named_with_its_remedy(monkeypatch, tmp_path):
    import importlib.metadata

    from threea.cli import doctor

    known = importlib.metadata.version

    def version(name):
        if name == "lightgbm":
            raise importlib.metadata.PackageNotFoundError
        return known(name)

    monkeypatch.setattr(doctor.importlib.metadata, "version", version)
    told = CliRunner().invoke(app, ["doctor"]).stdout
    assert "lightgbm (missing)" in told
    assert f"pip install -e '{Path(__file__).parents[2]}[evaluate]'" in told.replace("\n", "")
    monkeypatch.setattr(threea, "__file__", str(tmp_path / "site" / "threea" / "__init__.py"))
    assert "pip install 'threea[evaluate]'" in CliRunner().invoke(app, ["doctor"]).stdout


def test_noise_that_cannot_be_drawn_is_told(monkeypatch):
    from threea.anonymize import noise

    def broken(self):
        raise OSError

    monkeypatch.setattr(noise.SecureNoise, "__init__", broken)
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 1
    assert "OpenDP does not load" in result.stdout


def test_every_value_comes_back_as_it_came(tmp_path):
    """Nothing is interpreted on the way: not numbers, dates or missing texts; quotes stand where they are needed."""
    rows = ["1,5;31.01.2024;NA;007", 'null;"a;b";"say ""yes""";1.000', ";2024-01-31;x y;é"] * 20
    lines = ["a;b;c;d", *(f"{row}{number}" for number, row in enumerate(rows))]
    for encoding in ("cp1252", "utf-16"):
        path = tmp_path / f"{encoding}.csv"
        path.write_bytes("\n".join(lines).encode(encoding))
        dialect = Dialect(encoding=encoding, decimal=",", date_format="%d.%m.%Y")
        files = split(path, tmp_path / f"out-{encoding}", seed=1, dialect=dialect)
        parts = [file.read_bytes().decode(encoding).splitlines() for file in files]
        assert [part[0] for part in parts] == [lines[0]] * 2
        assert sorted(line for part in parts for line in part[1:]) == sorted(lines[1:])


def test_persons_are_told_apart_by_the_text_of_their_ids(tmp_path):
    lines = ["id;x", *(f"{name};{row}" for name in ("1.234", "1234", "NA", "null", "31.01.2024") for row in range(40))]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines))
    sides = set()
    for seed in range(20):
        files = split(path, tmp_path / f"out{seed}", holdout=0.5, unit="id", seed=seed, dialect=Dialect(decimal=","))
        held = {line.partition(";")[0] for line in files[1].read_text().splitlines()[1:]}
        kept = {line.partition(";")[0] for line in files[0].read_text().splitlines()[1:]}
        assert not held & kept
        sides.add("1.234" in held and "1234" in kept)
    # Of 20 seeds one would part them by chance in all but 3 of 1,000 runs; these seeds are fixed.
    assert True in sides
