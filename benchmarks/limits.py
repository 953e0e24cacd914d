"""Where the distance to real rows comes from: the teacher's form, noise, or what a learner makes of the rows.

Four classifiers on the same held-out rows: LightGBM trained on real rows; a logistic regression on the cells that the
teacher of a release looks at, trained on real rows without any privacy; that teacher; LightGBM trained on the release.
Splits are others than those that tables report. Run it as `python -m benchmarks limits`.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks import datasets as library
from benchmarks.adult import DATA
from benchmarks.measure import learner_settings, rows_drawn, scored
from benchmarks.record import mean_and_stdev, record
from threea.adapt.taught import Taught, softmax
from threea.release import Release
from threea.session import synthesize
from threea.table.codec import encode

DATASETS = ("adult", "diabetes130", "phishing", "credit", "physionet2012", "support2", "pima")
SPLITS, EPSILON, LEARNER = (100, 101, 102, 103, 104), 1.0, "lightgbm"
PENALTY = 0.3
"""Inverse strength of the logistic regression's penalty."""
Figures = dict[str, dict[str, float]]


def main() -> None:
    """Measure every dataset; figures are means and standard deviations over the splits."""
    results: dict[str, Any] = {}
    for name in DATASETS:
        dataset = library.load(name, DATA.parent)
        lines = [measured(dataset, split) for split in SPLITS]
        results[name] = {
            who: {figure: mean_and_stdev([line[who][figure] for line in lines]) for figure in ("auc", "log_loss")}
            for who in lines[0]
        }
    learners = {**learner_settings(LEARNER), "additive": {"C": PENALTY, "cells": "the teacher's"}}
    record("limits", {"splits": SPLITS, "epsilon": EPSILON, "recipe": "auto", "learners": learners}, results)


def measured(dataset: library.Dataset, split: int) -> Figures:
    """Return AUC and log loss of the four classifiers."""
    train, test = dataset.split(split)
    rows = rows_drawn(train.num_rows, train.num_columns)
    described = {"target": dataset.target, "schema": dataset.schema}
    release = synthesize(train, epsilon=EPSILON, delta=dataset.delta, seed=split, rows=rows, **described)
    assert isinstance(release.model, Taught)
    by_who: Figures = {}
    for who, table in (("real", train), ("release", release.table)):
        figures = scored(dataset, real=train, train=table, test=test, names=[LEARNER], seed=split)[LEARNER]
        by_who[who] = {figure: figures[figure] for figure in ("auc", "log_loss")}
    cells, label = cells_of(release, train)
    tested, actual = cells_of(release, test)
    teacher = softmax(release.model.logits(tested)).T
    additive = LogisticRegression(C=PENALTY, max_iter=300).fit(indicators(release.model, cells), label)
    known = np.isin(actual, additive.classes_) & np.isin(actual, release.model.classes)
    guessed = additive.predict_proba(indicators(release.model, tested))
    by_who["teacher"] = figures_of(actual[known], teacher[known], np.array(release.model.classes))
    by_who["additive"] = figures_of(actual[known], guessed[known], additive.classes_)
    return by_who


def cells_of(release: Release, table: pa.Table) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
    """Return rows as the cells of a release's model, and their classes."""
    assert isinstance(release.model, Taught)
    tree, chunk = release.model.model, encode(table, release.schema)
    assert tree.label is not None
    codes = [np.maximum(feature.cells.index(chunk[feature.cells.column]), 0) for feature in tree.features]
    return codes, tree.label.cells.index(chunk[tree.label.column])


def indicators(model: Taught, codes: list[NDArray[np.int64]]) -> NDArray[np.float32]:
    """Return rows as indicators of the merged cells that the teacher looks at."""
    merged = [model.model.features[index].merged for index in model.learned]
    pairs = zip(merged, model.learned, strict=True)
    return np.hstack([np.eye(cells.size, dtype=np.float32)[cells.merge(codes[index])] for cells, index in pairs])


def figures_of(actual: NDArray[np.int64], guessed: NDArray[np.float64], classes: NDArray[np.int64]) -> dict[str, float]:
    """Return the AUC, one-vs-one of several classes, and the log loss."""
    label = np.searchsorted(classes, actual)
    if len(classes) == 2:
        auc = roc_auc_score(label, guessed[:, 1])
    else:
        auc = roc_auc_score(label, guessed, multi_class="ovo", labels=np.arange(len(classes)))
    return {"auc": float(auc), "log_loss": float(log_loss(label, guessed, labels=np.arange(len(classes))))}
