"""`python -m benchmarks` knows every script that measures something."""

import ast
import runpy
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "benchmarks"


def functions(script: Path) -> set[str]:
    return {node.name for node in ast.parse(script.read_text()).body if isinstance(node, ast.FunctionDef)}


def test_every_benchmark_is_run():
    names = runpy.run_path(str(FOLDER / "__main__.py"))["NAMES"]
    scripts = {script.stem for script in FOLDER.glob("*.py") if "main" in functions(script)}
    assert sorted(names) == sorted(scripts)
    assert "published_leaks" in names
