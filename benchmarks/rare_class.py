"""A very rare class: what a learner makes of one release after another, and other ways to draw its rows.

LightGBM trained on releases of the credit card table, whose frauds are 1 row in 600: for each way and split, several
sets of rows drawn from one model, so that the spread tells chance in drawing and learning from that of splits and
noise. Splits are others than those that tables report. Run it as `python -m benchmarks rare_class`.
"""

import statistics
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks import datasets as library
from benchmarks.adult import DATA
from benchmarks.measure import learner_settings, rows_drawn, scored
from benchmarks.record import record
from threea.adapt import taught
from threea.adapt.taught import Taught, softmax
from threea.release import Release
from threea.session import synthesize

DATASET, SPLITS, DRAWS, EPSILON, LEARNER = "credit", (100, 101, 102), 3, 1.0, "lightgbm"


def as_drawn(release: Release) -> Release:
    """Leave it as it is."""
    return release


def scaled(release: Release, factor: float) -> Release:
    """Return it with its teacher's logits scaled, and shifted until the rare class is as frequent as before."""
    model = release.model
    assert isinstance(model, Taught)
    group, merged = model.model.draw_merged(200_000, np.random.default_rng(0))
    known = np.isin(group, model.classes)
    # Logits are sums of the learned features' weights over merged cells.
    logits, start = np.zeros((2, int(known.sum()))), 0
    for index in model.learned:
        logits += model.weights[:, start + merged[index][known]]
        start += model.model.features[index].merged.size
    wanted, shift = softmax(logits)[1].mean(), 0.0
    for _ in range(50):
        often = softmax(np.vstack([np.zeros(logits.shape[1]), factor * (logits[1] - logits[0]) + shift]))[1].mean()
        shift += float(np.log(wanted / often))
    weights = factor * model.weights
    weights[1, : model.model.features[model.learned[0]].merged.size] += shift
    return replace(release, model=replace(model, weights=weights))


WAYS: Mapping[str, tuple[str, Callable[[Release], Release], Mapping[str, Any]]] = {
    "as released": ("auto", as_drawn, {}),
    "no rows alike": ("auto", as_drawn, {"_ALIKE": 1}),
    "eight rows alike": ("auto", as_drawn, {"_FEWEST_RARE": 1}),
    "logits halved": ("auto", partial(scaled, factor=0.5), {}),
    "logits doubled": ("auto", partial(scaled, factor=2.0), {}),
    "balanced classes": ("auto", partial(replace, balance=True), {}),
    "gaussians": ("gaussians", as_drawn, {}),
    "pategan": ("pategan", as_drawn, {}),
}
"""The recipe, what is done to its release, and names in `threea.adapt.taught` with what they are set to."""


def main() -> None:
    """Measure every way; AUC and log loss, their means, and standard deviations over draws and over splits."""
    dataset = library.load(DATASET, DATA.parent)
    lines: dict[str, list[list[dict[str, float]]]] = {way: [] for way in WAYS}
    for split in SPLITS:
        train, test = dataset.split(split)
        rows = rows_drawn(train.num_rows, train.num_columns)
        described = {"target": dataset.target, "schema": dataset.schema}
        options = {"epsilon": EPSILON, "delta": dataset.delta, "rows": rows}
        releases = {
            recipe: synthesize(train, recipe=recipe, seed=split, **options, **described)
            for recipe in {recipe for recipe, _, _ in WAYS.values()}
        }
        for way, (recipe, change, names) in WAYS.items():
            release, drawn = change(releases[recipe]), []
            for draw in range(DRAWS):
                with ExitStack() as patched:
                    for name, value in names.items():
                        patched.enter_context(patch.object(taught, name, value))
                    table = replace(release, seed=1000 * split + draw).table
                drawn.append(scored(dataset, real=train, train=table, test=test, names=[LEARNER], seed=split)[LEARNER])
            lines[way].append(drawn)
    results = {
        way: {
            figure: {
                "mean": round(statistics.mean(cell[figure] for drawn in by_split for cell in drawn), 4),
                "stdev_of_draws": round(
                    statistics.mean(statistics.stdev(cell[figure] for cell in drawn) for drawn in by_split), 4
                ),
                "by_split": [round(statistics.mean(cell[figure] for cell in drawn), 4) for drawn in by_split],
            }
            for figure in ("auc", "log_loss")
        }
        for way, by_split in lines.items()
    }
    settings = {"dataset": DATASET, "splits": SPLITS, "draws": DRAWS, "epsilon": EPSILON}
    record("rare_class", settings | {"learner": learner_settings(LEARNER)}, results)
