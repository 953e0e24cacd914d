"""Other settings of the label tree's teacher, and columns described better: what was tried, and what it gave.

Each is a whole release's teacher, AUC and log loss on held-out rows, on splits that tables do not report. Run it as
`python -m benchmarks teacher_settings`.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks import datasets as library
from benchmarks.adult import DATA
from benchmarks.limits import cells_of, figures_of
from benchmarks.record import mean_and_stdev, record
from threea.adapt import teacher
from threea.adapt.taught import Taught, softmax
from threea.session import synthesize
from threea.table.schema import Schema

DATASETS = ("adult", "census", "credit", "phishing", "diabetes130", "physionet2012", "support2", "pima")
SPLITS, EPSILON = (100, 101, 102, 103, 104), 1.0
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "as released": {},
    "start drawn to 0 half as much": {"_DAMPING": 1.0, "_POOLED_DAMPING": 8.0},
    "start drawn to 0 three times as much": {"_DAMPING": 6.0, "_POOLED_DAMPING": 48.0},
    "weights taken to be off by twice as much": {"_OFF": 0.36, "_OFF_WITHOUT": 0.24, "_LOGIT_OFF": 1.7},
    "coarser cells": {"_MOST_CELLS": 8, "_LEAST": 0.02},
    "finer cells": {"_MOST_CELLS": 64, "_LEAST": 0.001},
    "all features": {"_CLEAR": -1e9},
}
"""Names in `threea.adapt.teacher`, and what they are set to."""
CLIPS = (0.25, 1.0)
SPIKES = {
    "capital-gain": (
        0,
        2174,
        3103,
        3137,
        3325,
        4064,
        4386,
        4650,
        5013,
        5178,
        7298,
        7688,
        8614,
        10520,
        15024,
        27828,
        99999,
    ),
    "capital-loss": (0, 1485, 1564, 1590, 1602, 1672, 1740, 1848, 1876, 1887, 1902, 1977, 2415),
}
"""Adult's amounts that many people have: what a search for single values could find at best."""


def main() -> None:
    """Measure every setting on every dataset."""
    results: dict[str, Any] = {}
    for name in DATASETS:
        dataset = library.load(name, DATA.parent)
        results[name] = {words: measured(dataset, values) for words, values in SETTINGS.items()}
        for clip in CLIPS:
            results[name][f"residuals clipped at {clip}"] = measured(dataset, {}, clip=clip)
        if name == "adult":
            known = replace(dataset, schema=with_spikes(dataset.schema))
            results[name]["spikes of amounts known beforehand"] = measured(known, {})
    record("teacher_settings", {"splits": SPLITS, "epsilon": EPSILON, "settings": SETTINGS, "spikes": SPIKES}, results)


def measured(dataset: library.Dataset, settings: Mapping[str, Any], clip: float | None = None) -> dict[str, Any]:
    """Return means and standard deviations over the splits."""
    train = teacher.Teacher.adapt

    def adapt(own: teacher.Teacher, *arguments: Any) -> Any:
        return train(own if clip is None else replace(own, clip=clip), *arguments)

    with ExitStack() as patched:
        for name, value in settings.items():
            patched.enter_context(patch.object(teacher, name, value))
        patched.enter_context(patch.object(teacher.Teacher, "adapt", adapt))
        lines = [figures(dataset, split) for split in SPLITS]
    return {figure: mean_and_stdev([line[figure] for line in lines]) for figure in ("auc", "log_loss")}


def figures(dataset: library.Dataset, split: int) -> dict[str, float]:
    """Return the AUC and log loss of a release's teacher."""
    train, test = dataset.split(split)
    described = {"target": dataset.target, "schema": dataset.schema}
    release = synthesize(train, epsilon=EPSILON, delta=dataset.delta, recipe="labeltree", rows=1, **described)
    assert isinstance(release.model, Taught)
    cells, actual = cells_of(release, test)
    known = np.isin(actual, release.model.classes)
    guessed = softmax(release.model.logits(cells)).T[known]
    return figures_of(actual[known], guessed, np.array(release.model.classes))


def with_spikes(schema: Schema | None) -> Schema:
    """Return Adult's schema with the amounts that many people have as special values."""
    assert schema is not None
    columns = (
        replace(column, special=tuple(map(float, SPIKES.get(column.name, column.special)))) for column in schema.columns
    )
    return replace(schema, columns=tuple(columns))
