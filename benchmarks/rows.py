"""How many rows to draw: what LightGBM learns from one release, by how many of its rows it sees.

Splits are others than those that tables report. Run it as `python -m benchmarks rows`.
"""

import io
import statistics
import time
from dataclasses import replace
from typing import Any

import pyarrow.csv

from benchmarks import datasets as library
from benchmarks.adult import DATA
from benchmarks.measure import learner_settings, scored
from benchmarks.record import record
from threea.release import Release
from threea.session import synthesize

DATASETS = ("pima", "phishing", "adult", "diabetes130")
ROWS = ("same", 20_000, 50_000, 200_000, 500_000)
SPLITS, EPSILON, LEARNER = (100, 101, 102), 1.0, "lightgbm"


def main() -> None:
    """Measure every dataset; figures are means over the splits."""
    results: dict[str, Any] = {}
    for name in DATASETS:
        by_rows: dict[str, list[dict[str, float]]] = {}
        for split in SPLITS:
            for rows, figures in measured(library.load(name, DATA.parent), split).items():
                by_rows.setdefault(rows, []).append(figures)
        results[name] = {
            rows: {figure: round(statistics.mean(each[figure] for each in lines), 4) for figure in lines[0]}
            for rows, lines in by_rows.items()
        }
    settings = {"splits": SPLITS, "epsilon": EPSILON, "recipe": "auto", "learner": learner_settings(LEARNER)}
    record("rows", settings, results)


def measured(dataset: library.Dataset, split: int) -> dict[str, dict[str, float]]:
    """Return the figures by the number of rows that one release draws; `same` is that of the private ones."""
    train, test = dataset.split(split)
    described = {"target": dataset.target, "schema": dataset.schema}
    release = synthesize(train, epsilon=EPSILON, delta=dataset.delta, seed=split, **described)
    by_rows = {}
    for rows in ROWS:
        drawn, cost = written(replace(release, rows=train.num_rows if rows == "same" else rows))
        scores = scored(dataset, real=train, train=drawn, test=test, names=[LEARNER], seed=split)[LEARNER]
        by_rows[str(rows)] = {figure: scores[figure] for figure in ("auc", "log_loss")} | cost
    return by_rows


def written(release: Release) -> tuple[pyarrow.Table, dict[str, float]]:
    """Draw rows, and tell how many, how long that and writing them takes, and how large the file is."""
    start, file = time.perf_counter(), io.BytesIO()
    drawn = release.table
    pyarrow.csv.write_csv(drawn, file)
    seconds = time.perf_counter() - start
    return drawn, {"rows": release.rows, "seconds": seconds, "csv_mb": file.tell() / 1e6}
