"""The contracts of pyproject.toml hold, and break where an import is planted that must not be."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import threea

ROOT = Path(__file__).parents[1]
PACKAGE = Path(threea.__file__).parent
PLANTED = {
    "threea.describe.propose_schema": "from threea.describe import propose_schema",
    "threea.anonymize.cache": "from threea.anonymize.cache import Cache",
    "threea.anonymize.open_table": "import threea.anonymize.open_table",
    "threea.anonymize.open_tables": "from threea.anonymize.open_tables import open_tables",
    "threea.table.codec": "def late():\n    from threea.table.codec import encode",
    "threea.testing.noise": "from threea.testing.noise import SilentNoise",
    "threea.backends.memory": "from threea.backends import memory",
    "pandas": "import pandas as pd",
    "polars": "try:\n    import polars\nexcept ImportError:\n    pass",
    "pyarrow": "import pyarrow.compute",
}
"""What must not be known to a recipe or a stage, and a way to import it."""
CULPRITS = {
    "threea.recipes.independent": "recipes/independent.py",
    "threea.approximate.histograms": "approximate/histograms.py",
    "threea.adapt.teacher": "adapt/teacher.py",
    "threea.published.dpmix": "published/dpmix.py",
}
ABOVE = {
    "threea.recipes.independent": "threea.published.scaling",
    "threea.published.dpmix": "threea.recipes.independent",
    "threea.approximate.histograms": "threea.adapt.kip",
    "threea.adapt.teacher": "threea.recipes.auto",
}
"""Imports against the layers: of a neighbour that must stay apart, or of a layer above."""


def linted(folder):
    """Return import-linter's exit code and every import that it objects to."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as lint; lint()", "--no-cache"]
    environment = os.environ | {"PYTHONPATH": str(folder / "src"), "COLUMNS": "200"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return done.returncode, set(re.findall(r"([\w.]+) +-> +([\w.]+) +\(l", done.stdout.replace("\n", " ")))


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    folder = tmp_path_factory.mktemp("contracts")
    shutil.copytree(PACKAGE, folder / "src" / "threea", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def test_every_planted_import_breaks_a_contract(copied):
    assert linted(copied) == (0, set())
    planted = set()
    for module, path in CULPRITS.items():
        lines = [*PLANTED.values(), f"import {ABOVE[module]}"]
        planted |= {(module, name) for name in (*PLANTED, ABOVE[module])}
        with (copied / "src" / "threea" / path).open("a", encoding="utf-8") as file:
            file.write("\n".join(["", *lines, ""]))
    code, found = linted(copied)
    assert code == 1
    assert planted <= found
