"""Other settings of the teacher of numbers, and more budget: what was tried on the two tables farthest from real rows.

R2 of LightGBM trained on releases, on splits that tables do not report. Run it as
`python -m benchmarks number_settings`.
"""

from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from benchmarks.measure import released, scored
from benchmarks.record import mean_and_stdev, record
from benchmarks.regression import HELD_OUT, tables
from threea.adapt import number_teacher
from threea.recipes import LabelTree
from threea.table.target_kind import NUMBER

TABLES, SPLITS, EPSILON, ROWS = ("diabetes130: time_in_hospital", "houses: price"), (100, 101), 1.0, 100_000
SETTINGS: Mapping[str, tuple[Mapping[str, Any], float, float]] = {
    "as released": ({}, 0.4, EPSILON),
    "more of the budget for the teacher": ({}, 0.6, EPSILON),
    "residuals clipped less": ({"_CLIP": 2.0}, 0.4, EPSILON),
    "residuals clipped more": ({"_CLIP": 0.8}, 0.4, EPSILON),
    "coarser cells": ({"_MOST_CELLS": 10, "_LEAST": 0.02}, 0.4, EPSILON),
    "weights taken to be off by half as much": ({"_OFF": 0.25}, 0.4, EPSILON),
    "a hundred times the budget": ({}, 0.4, 100 * EPSILON),
}
"""Names in `threea.adapt.number_teacher` and what they are set to; the teacher's share; epsilon."""


def main() -> None:
    """Measure every setting, a process for each table; figures are means and standard deviations over the splits."""
    with ProcessPoolExecutor(len(TABLES)) as pool:
        results = dict(zip(TABLES, pool.map(measured, TABLES), strict=True))
    settings = {"splits": SPLITS, "epsilon": EPSILON, "rows": ROWS, "settings": SETTINGS}
    record("number_settings", settings, results)


def measured(name: str) -> dict[str, Any]:
    """Return the R2 of LightGBM on real rows and under every setting."""
    dataset = tables()[name]
    lines: dict[str, list[float]] = {"real rows": [], **{words: [] for words in SETTINGS}}
    for split in SPLITS:
        train, test = dataset.split(split, HELD_OUT)
        tried = {"real rows": train}
        for words, (names, share, epsilon) in SETTINGS.items():
            with ExitStack() as patched:
                for key, value in names.items():
                    patched.enter_context(patch.object(number_teacher, key, value))
                tried[words], _ = released(
                    dataset,
                    train,
                    LabelTree(teacher=share),
                    epsilon=epsilon,
                    delta=1 / train.num_rows,
                    adjacency="add-remove",
                    seed=split,
                    rows=ROWS,
                    target_kind=NUMBER if dataset.schema is None else None,
                )
        for words, table in tried.items():
            figures = scored(dataset, real=train, train=table, test=test, names=["lightgbm"], seed=split)["lightgbm"]
            lines[words].append(figures["r2"])
    return {words: {"r2": mean_and_stdev(line)} for words, line in lines.items()}
