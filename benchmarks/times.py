"""Processor time and peak memory of a whole release, by recipe and by the shape of the table.

`threea.cost` predicts both from public facts. Its coefficients are fitted here: never negative, and relative errors
count, so that a minute is met as well as an hour. Rows are many and tell of the classes, so that no recipe gets off
lightly because noise drowns its cells.
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.optimize import nnls

from benchmarks.record import record
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
ROWS, EPSILON, SECONDS, MEMORY = 20_000, 8.0, 240, 8 << 30
ROWS_OF_A_CLASS = {"mcgen": 400, "noifs": 400, "rongauss": 400}
"""These ask for histograms by class only where classes have so many rows."""
LEAST = {"seconds": {"cells": 1.8e-5, "sizes": 1e-5}, "bytes": {"drawing": 16.0, "pairs": 24.0}}
"""A noisy count takes as much with every recipe as with `independent`, if a table has rows enough to ask for it. What
the size of a model would be is worked out for every pair of columns in every round, which tells where columns are many.
What rows are drawn by is held twice as doubles, and what is expected of pairs three times. Shapes that are done in time
are too small to show these."""
RELEASE = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds}))
resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
import threea
release = threea.synthesize({data!r}, schema={schema!r}, epsilon={epsilon}, recipe={recipe!r})
release.save({out!r})
"""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A table: so many numeric features, so many of a list of categories, and a target of so many classes."""

    numbers: int = 4
    lists: int = 0
    categories: int = 2
    classes: int = 2
    rows: int = ROWS


SHAPES = (
    Shape(numbers=4),
    Shape(numbers=4, rows=400_000),
    Shape(numbers=17, classes=7),
    Shape(numbers=50),
    Shape(numbers=100),
    Shape(numbers=200),
    Shape(numbers=20, classes=50),
    Shape(numbers=4, classes=100),
    Shape(numbers=4, classes=300),
    Shape(numbers=4, classes=1000),
    Shape(numbers=2, lists=20, categories=50),
    Shape(numbers=4, lists=1, categories=3000),
    Shape(numbers=4, lists=1, categories=300, classes=300),
    Shape(numbers=4, lists=1, categories=1000, classes=1000),
)


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
    return pa.table(columns)


def description(shape: Shape) -> str:
    """Return the table's schema as TOML."""
    parts = ['confirmed = true\ntarget = "label"', _listed("label", shape.classes)]
    parts += [f'[column.number{n}]\nkind = "real"\nlower = 0.0\nupper = 1.0' for n in range(shape.numbers)]
    parts += [_listed(f"list{n}", shape.categories) for n in range(shape.lists)]
    return "\n\n".join(parts) + "\n"


def _listed(name: str, count: int) -> str:
    return f'[column.{name}]\nkind = "categorical"\ncategories = {json.dumps([str(code) for code in range(count)])}'


def measured(shape: Shape, recipe: str, folder: Path) -> dict[str, Any]:
    """Release a table of this shape in a process of its own; nothing is known of one that took too long."""
    shape = replace(shape, rows=max(shape.rows, shape.classes * ROWS_OF_A_CLASS.get(recipe, 0)))
    data, schema = folder / "data.parquet", folder / "schema.toml"
    pq.write_table(table(shape), data)
    schema.write_text(description(shape))
    with tempfile.TemporaryDirectory() as scratch:
        names = {"data": str(data), "schema": str(schema), "out": f"{scratch}/out", "recipe": recipe}
        code = RELEASE.format(seconds=SECONDS, memory=MEMORY, epsilon=EPSILON, **names)
        one_core = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen([sys.executable, "-c", code], env=one_core, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
    cost = {
        "seconds": round(usage.ru_utime + usage.ru_stime, 2),
        "mb": usage.ru_maxrss >> 10,
        "done": status == 0,
        "limit": SECONDS,
    }
    return {"recipe": recipe, **vars(shape), "data_bytes": data.stat().st_size, **cost}


def fitted(results: list[dict[str, Any]], recipe: str, what: str) -> dict[str, float]:
    """Return what a unit of each term of a recipe's work takes, in seconds or bytes: never less than nothing."""
    rows = [row for row in results if row["recipe"] == recipe and row["done"]]
    shapes = [Shape(**{field.name: row[field.name] for field in fields(Shape)}) for row in rows]
    schemas = [Schema.from_toml(description(shape)) for shape in shapes]
    units = [terms(recipe, schema) for schema in schemas]
    if what == "seconds":
        read = [passes(recipe, schema) * row["data_bytes"] for schema, row in zip(schemas, rows, strict=True)]
        units = [{**unit, "data": count} for unit, count in zip(units, read, strict=True)]
    taken = np.array([row["seconds"] if what == "seconds" else row["mb"] << 20 for row in rows], np.float64)
    work = np.array([list(unit.values()) for unit in units], np.float64)
    # Terms differ by ten orders of magnitude: each is scaled by its largest.
    largest = work.max(axis=0)
    found, _ = nnls(work / largest / taken[:, None], np.ones(len(rows)))
    pairs = zip(units[0], found / largest, strict=True)
    return {name: max(float(f"{value:.3g}"), LEAST[what].get(name, 0.0)) for name, value in pairs}


def main() -> None:
    """Measure every shape with every recipe, and fit what their terms take."""
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        for recipe in RECIPES:
            for shape in SHAPES:
                results.append(measured(shape, recipe, Path(scratch)))
                print(results[-1], flush=True)
    save(results)


def save(results: list[dict[str, Any]]) -> None:
    """Write down what was measured, and the coefficients for `threea.cost`."""
    found = {recipe: {what: fitted(results, recipe, what) for what in ("seconds", "bytes")} for recipe in RECIPES}
    record("times", {"epsilon": EPSILON, "bytes": MEMORY}, {"measured": results, "fitted": found})


if __name__ == "__main__":
    main()
