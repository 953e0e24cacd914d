"""Processor time and peak memory of a whole release, by recipe and by the shape of the table, beside the prediction.

`threea.cost` predicts both from public facts. Its coefficients are fitted here: never negative, and relative errors
count, so that a minute is met as well as an hour. Rows are many and tell of the classes, so that no recipe gets off
lightly because noise drowns its cells. Processor seconds and a process's own peak do not hang on what else the machine
does.

`python -m benchmarks times` goes on where it was stopped: what is measured stands in times.cells.jsonl. Variables of
the environment: `TIMES_CASES`, how many more to measure at most; `TIMES_FIT=1` to write the coefficients to
src/threea/cost.json.
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.optimize import lsq_linear

from benchmarks.cells import CellFile, Key
from benchmarks.record import RESULTS, record
from threea import cost
from threea.cost import passes, terms
from threea.table.schema import Schema

RECIPES = (
    "independent",
    "labeltree",
    "gaussians",
    "clustmix",
    "privbayes",
    "mcgen",
    "noifs",
    "rongauss",
    "mst",
    "aim",
)
ROWS, EPSILON, SECONDS, MEMORY = 20_000, 8.0, 240, 10 << 30
PROCESSORS = 2
"""Of the machine that measures: as many chunks of rows are drawn at once."""
LEAST = {
    "seconds": {"cells": 1.2e-6, "sizes": 1e-5},
    "bytes": {"pairs": 24.0, "labels": 24.0, "labelled": 16.0, "scored": 8.0, "hessians": 16.0, "wide": 68.0},
}
"""What shapes that are done in time are too small to show. A noisy count takes as much with every recipe as with
`independent`, if a table has rows enough to ask for it; the size of a model would be is worked out for every pair of
columns in every round. What is expected of pairs is held three times, and so is a table of classes by classes; the
scores of a chunk's rows twice, and a Hessian; 17 cells of each column by each column once."""
TIME_ALONE, _SEEN = ("rounds", "sizes", "choices", "learned"), 1e-6
"""Terms that take time and no memory; and how much of a release a term takes at least, to count."""
ROWS_OF_A_CLASS = {"mcgen": 400, "noifs": 400, "rongauss": 400}
"""These ask for histograms by class only where classes have so many rows."""
RELEASE = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds}))
resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
import threea
release = threea.synthesize({data!r}, schema={schema!r}, epsilon={epsilon}, recipe={recipe!r})
release.save({out!r})
used = resource.getrusage(resource.RUSAGE_SELF)
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({{"seconds": round(used.ru_utime + used.ru_stime, 2), "mb": int(peak.split()[1]) >> 10}}))
"""
"""What a parent is told of a child's peak may be its own, from before the child became another program: it says it."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A table: so many numeric features, so many of a list of categories, and a target of so many classes.

    Args:
        target: ``classes``, ``number`` or ``none``.
    """

    numbers: int = 4
    lists: int = 0
    categories: int = 2
    classes: int = 2
    rows: int = ROWS
    target: str = "classes"


COMMON = (
    Shape(numbers=4),
    Shape(numbers=17, classes=7),
    Shape(numbers=100),
    Shape(numbers=4, classes=300),
    Shape(numbers=2, lists=20, categories=50),
    Shape(numbers=4, lists=1, categories=3000),
)
_WIDE, _LARGER = Shape(numbers=1000, rows=300), Shape(numbers=4, rows=400_000)
_LISTS, _LABELS = Shape(numbers=0, lists=1000, rows=300), Shape(numbers=4, lists=1, categories=300, classes=300)
_MANY, _MORE = Shape(numbers=4, classes=3000), Shape(numbers=4, classes=10_000)
_AMOUNT, _FREE = Shape(numbers=17, target="number"), Shape(numbers=20, target="none")
SHAPES = {
    "independent": (_WIDE, _LARGER, _LISTS, _MANY, _AMOUNT, Shape(numbers=4, lists=1, categories=1000, classes=1000)),
    "labeltree": (
        *(_LARGER, _LABELS, _AMOUNT, _FREE, _MANY, Shape(numbers=0, lists=300, rows=2000), Shape(numbers=200)),
        *(Shape(numbers=60, target="number"), Shape(numbers=20, classes=50), Shape(numbers=4, classes=1000)),
    ),
    "gaussians": (_WIDE, _LARGER, _LISTS, _MANY, Shape(numbers=5000, rows=300), Shape(numbers=784, classes=10)),
    "clustmix": (_WIDE, _LARGER, _LISTS, _MORE),
    "privbayes": (_LARGER, _FREE, Shape(numbers=300), Shape(numbers=4, classes=1000)),
    "mcgen": (_WIDE, _LARGER, _LISTS, _LABELS, _AMOUNT),
    "noifs": (_WIDE, _LARGER, _LISTS, _LABELS, _AMOUNT),
    "rongauss": (_WIDE, _LARGER, _LISTS, _LABELS, _AMOUNT),
    "mst": (_LARGER, _FREE, _AMOUNT, _MANY, Shape(numbers=200)),
    "aim": (_LARGER, _FREE, _AMOUNT, _MANY, Shape(numbers=40)),
}
CASES = [
    *((recipe, shape) for shape in COMMON for recipe in RECIPES),
    *((recipe, shape) for recipe in RECIPES for shape in SHAPES[recipe]),
]


def table(shape: Shape) -> pa.Table:
    """Make rows whose every feature tells of the class."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, shape.classes, shape.rows)
    columns: dict[str, Any] = {"label": [str(code) for code in label]}
    for number in range(shape.numbers):
        columns[f"number{number}"] = (label / shape.classes + rng.normal(0, 0.3, shape.rows)).clip(0, 1)
    for number in range(shape.lists):
        code = (label + rng.integers(0, max(shape.categories // 4, 1), shape.rows)) % shape.categories
        columns[f"list{number}"] = [str(value) for value in code]
    if shape.target == "number":
        amount = columns["label"] = rng.beta(2, 3, shape.rows)
        columns |= {f"number{n}": (amount + rng.normal(0, 0.3, shape.rows)).clip(0, 1) for n in range(shape.numbers)}
    return pa.table(columns)


def description(shape: Shape) -> str:
    """Return the table's schema as TOML."""
    parts = ["confirmed = true" if shape.target == "none" else 'confirmed = true\ntarget = "label"']
    parts += [_number("label") if shape.target == "number" else _listed("label", shape.classes)]
    parts += [_number(f"number{n}") for n in range(shape.numbers)]
    parts += [_listed(f"list{n}", shape.categories) for n in range(shape.lists)]
    return "\n\n".join(parts) + "\n"


def _listed(name: str, count: int) -> str:
    return f'[column.{name}]\nkind = "categorical"\ncategories = {json.dumps([str(code) for code in range(count)])}'


def _number(name: str) -> str:
    return f'[column.{name}]\nkind = "real"\nlower = 0.0\nupper = 1.0'


def measured(shape: Shape, recipe: str) -> dict[str, Any]:
    """Release a table of this shape in a process of its own; nothing is known of one that took too long."""
    shape = replace(shape, rows=max(shape.rows, shape.classes * ROWS_OF_A_CLASS.get(recipe, 0)))
    with tempfile.TemporaryDirectory() as scratch:
        data, schema = Path(scratch, "data.parquet"), Path(scratch, "schema.toml")
        pq.write_table(table(shape), data)
        schema.write_text(description(shape))
        size = data.stat().st_size
        names = {"data": str(data), "schema": str(schema), "out": f"{scratch}/out", "recipe": recipe}
        code = RELEASE.format(seconds=SECONDS, memory=MEMORY, epsilon=EPSILON, **names)
        alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        child = subprocess.run([sys.executable, "-c", code], env=alone, capture_output=True, text=True)
    done = child.returncode == 0
    taken = json.loads(child.stdout) if done else {"ended": child.stderr.strip().rpartition("\n")[2][:100]}
    return {"recipe": recipe, **asdict(shape), "data_bytes": size, "done": done, **taken}


def schema_of(row: dict[str, Any]) -> Schema:
    """Return the schema of a line's table."""
    return Schema.from_toml(description(shape_of(row)))


def read_of(row: dict[str, Any]) -> int:
    """Return how many bytes a line's release read, as the prediction counts them."""
    size: int = row["data_bytes"]
    return passes(row["recipe"], schema_of(row)) * size


def shape_of(row: dict[str, Any]) -> Shape:
    """Return the shape that a line is about."""
    return Shape(**{name: row[name] for name in asdict(Shape())})


def predicted(row: dict[str, Any]) -> dict[str, float]:
    """Return what the receipt says of a line's release."""
    recipe, units = row["recipe"], terms(row["recipe"], schema_of(row), PROCESSORS)
    seconds = sum(cost.SECONDS[recipe][name] * count for name, count in {**units, "data": read_of(row)}.items())
    memory = sum(cost.BYTES[recipe][name] * count for name, count in units.items())
    return {"seconds": round(seconds, 2), "mb": round(memory / 2**20)}


def fitted(results: list[dict[str, Any]], recipe: str, what: str) -> dict[str, float]:
    """Return what a unit of each term of a recipe's work takes, in seconds or bytes: never less than nothing."""
    rows = [row for row in results if row["recipe"] == recipe and row["done"]]
    units = [terms(recipe, schema_of(row), PROCESSORS) for row in rows]
    if what == "seconds":
        units = [{**unit, "data": read_of(row)} for unit, row in zip(units, rows, strict=True)]
    taken = np.array([row["seconds"] if what == "seconds" else row["mb"] << 20 for row in rows], np.float64)
    work = np.array([list(unit.values()) for unit in units], np.float64)
    if what == "bytes":
        work *= [name not in TIME_ALONE for name in units[0]]
    # Terms differ by ten orders of magnitude: each is scaled by its largest.
    largest = np.maximum(work.max(axis=0), 1e-9)
    least = largest * [LEAST[what].get(name, 0.0) for name in units[0]]
    found = lsq_linear(work / largest / taken[:, None], np.ones(len(rows)), (least, np.inf)).x
    # What adds nothing that can be seen to any release is rounding.
    found = np.where((found[None, :] * work / largest / taken[:, None]).max(axis=0) < _SEEN, 0.0, found)
    return {name: float(f"{value:.3g}") for name, value in zip(units[0], found / largest, strict=True)}


def main() -> None:
    """Measure every case that is not measured yet, as many as are asked for, and compare with the predictions."""
    cells = CellFile(RESULTS / "times.cells.jsonl")
    left, results = int(os.environ.get("TIMES_CASES", len(CASES))), []
    for recipe, shape in CASES:
        key = Key("made up", recipe, 0, {**asdict(shape), "epsilon": EPSILON, "seconds": SECONDS, "memory": MEMORY})
        if key in cells or left:
            left -= key not in cells
            results.append(cells.measured(key, partial(measured, shape, recipe)))
            print(results[-1], flush=True)
    save(results)


def save(results: list[dict[str, Any]]) -> None:
    """Write down what was measured beside what is predicted."""
    if os.environ.get("TIMES_FIT"):
        found = {recipe: {what: fitted(results, recipe, what) for what in ("seconds", "bytes")} for recipe in RECIPES}
        Path(cost.__file__).with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")
        importlib.reload(cost)
    lines = [{**row, "predicted": predicted(row)} for row in results if "error" not in row]
    record("times", {"epsilon": EPSILON, "seconds": SECONDS, "bytes": MEMORY}, {"measured": lines})


if __name__ == "__main__":
    main()
