"""What a release loads: nothing that it does not need. Loading was most of the time of a small release.

Arrow loads pandas by itself where it is installed.
"""

import subprocess
import sys

import pyarrow.csv
import pytest

from threea import hospital

SCRIPT = """
import atexit, sys
atexit.register(lambda: print("loaded", *sorted({".".join(name.split(".")[:2]) for name in sys.modules})))
from threea.__main__ import main
main()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("start")
    pyarrow.csv.write_csv(hospital.stays(300), path / "stays.csv")
    (path / "schema.toml").write_text(hospital.schema().to_toml())
    return path


def loaded(folder, recipe):
    arguments = ["release", folder / "stays.csv", "--schema", folder / "schema.toml", "--epsilon", "1"]
    command = [sys.executable, "-c", SCRIPT, *arguments, "--recipe", recipe, "--out", folder / recipe]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_a_release_of_sums_loads_no_accountant_and_little_of_scipy(folder):
    found = loaded(folder, "independent")
    # Noise on many numbers at once takes the normal quantile from scipy.special.
    assert {"numpy", "pyarrow", "opendp", "mpmath", "scipy.special"} <= found
    assert not found & {"dp_accounting", "scipy.optimize", "scipy.stats", "polars", "jax", "sklearn", "rich", "optuna"}


def test_a_release_with_private_choices_is_priced_without_an_accountant(folder):
    found = loaded(folder, "labeltree")
    assert "threea.adapt" in found
    assert not found & {"dp_accounting", "scipy.optimize", "scipy.stats", "scipy.signal", "polars", "jax", "sklearn"}
