"""What people install: a wheel that holds the package and its templates, no benchmark, and runs the demo by itself."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build a wheel, with nothing fetched."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("threea-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Unpack the wheel as pip does; return a function that runs Python there, away from the repository."""
    site, empty = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("empty")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    environment = {name: value for name, value in os.environ.items() if name != "THREEA_DATA"}

    def python(code, *arguments):
        return subprocess.run(
            [sys.executable, "-c", code, *arguments],
            env=environment | {"PYTHONPATH": str(site)},
            cwd=empty,
            capture_output=True,
            text=True,
        )

    python.site, python.folder = site, empty
    return python


THREEA = "from threea.cli import main; main()"


def test_the_wheel_holds_the_package_whole_and_nothing_else(wheel):
    source = ROOT / "src"
    wanted = {
        str(file.relative_to(source).as_posix())
        for file in (source / "threea").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == wanted
    templates = {name.rsplit("/", 1)[1] for name in held if name.endswith(".j2")}
    assert templates >= {"page.html.j2", "style.css.j2", "owner.html.j2", "base.html.j2", "studio.css.j2"}
    assert "threea/studio/progress.js" in held
    assert "threea/py.typed" in held
    assert not [name for name in held if "benchmark" in name or "dataset" in name]


def test_the_demo_runs_from_the_wheel_in_an_empty_folder(installed):
    where = installed("import threea; print(threea.__file__)").stdout.strip()
    assert Path(where).is_relative_to(installed.site)
    done = installed(THREEA, "demo", "--out", "release")
    assert (done.returncode, done.stderr) == (0, "")
    certificate = json.loads((installed.folder / "release" / "certificate.json").read_text())
    assert certificate["guarantee"] == "proven"
    assert (installed.folder / "release" / "report.html").stat().st_size > 10_000


def test_the_owners_page_is_found_in_the_wheel(installed):
    code = (
        "from threea.evaluate import owner_report as o; print(o._environment().get_template('owner.html.j2').filename)"
    )
    done = installed(code)
    assert Path(done.stdout.strip()).is_relative_to(installed.site), done.stderr


def test_without_a_clone_a_benchmark_says_how_to_get_it(installed):
    done = installed(THREEA, "benchmark", "table1")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "clone the threea repository" in done.stderr
