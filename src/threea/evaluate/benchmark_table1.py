"""Table 1 of the ClustMix paper: what a classifier learns from synthetic rows, by dataset and recipe."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

import pyarrow as pa

import threea
from threea.datasets import Dataset
from threea.datasets.published import MEAN_DISTANCE_TO_REAL, METHODS
from threea.evaluate.benchmark_cells import Cell, CellFile, Key, Progress, shown, summary
from threea.evaluate.benchmark_work import about, checked, facts, learner_settings, loaded, released, scored, versions
from threea.framework import Recipe

DATASETS = ("adult32", "census", "credit", "isolet", "physionet2012", "support2", "diabetes130", "mnist")
LEARNER = "lightgbm"
REAL = "real"


def table1(
    datasets: Sequence[str] | None = None,
    recipes: Sequence[str] | None = None,
    epsilon: float = 1.0,
    seeds: int = 5,
    *,
    data: str | PathLike[str],
    adjacency: str = "add-remove",
    cells: str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Measure how well LightGBM, trained on each recipe's synthetic rows, does on real rows held out.

    Args:
        datasets: Names; the paper's, or their stand-ins, by default.
        recipes: Names; all by default.
        epsilon: Of every release; delta is the dataset's.
        seeds: How many splits; each also seeds sampling and the classifier. Noise cannot be seeded.
        data: The folder that holds the datasets.
        adjacency: ``add-remove`` or ``replace``.
        cells: Where finished cells are kept, to go on from after a break.
        progress: Told of each cell.

    Returns:
        table, epsilon, adjacency, seeds, learner, versions; recipes (guarantee and settings of each); datasets, a list
        of what `benchmark_work.facts` says with classifier, real, recipes (a `benchmark_cells.summary` each) and
        theirs (the paper's figures, or None), or dataset and skipped; mean_distance_to_real with ours, theirs and
        over (the datasets that it is the mean over).

    Raises:
        SettingError: A name or number is wrong.
        InputError: No dataset can be read.
    """
    names = DATASETS if datasets is None else tuple(datasets)
    chosen = checked(names, recipes, [epsilon], seeds)
    store, rows = CellFile(cells), []
    for name, dataset in loaded(names, data):
        if isinstance(dataset, str):
            rows.append({"dataset": name, "skipped": dataset})
            continue
        rows.append(_row(dataset, chosen, epsilon, adjacency, seeds, store, progress))
    return {
        "table": "table1",
        "epsilon": epsilon,
        "adjacency": adjacency,
        "seeds": seeds,
        "learner": LEARNER,
        "versions": versions(),
        "recipes": about(chosen),
        "datasets": rows,
        "mean_distance_to_real": _distances(rows, chosen),
    }


def _row(
    dataset: Dataset,
    recipes: dict[str, Recipe],
    epsilon: float,
    adjacency: str,
    seeds: int,
    store: CellFile,
    progress: Progress | None,
) -> dict[str, Any]:
    found: dict[str, list[Cell]] = {name: [] for name in (REAL, *recipes)}
    for seed in range(seeds):
        train, test = dataset.split(seed)
        for name, cells in found.items():
            recipe = recipes.get(name)
            key = _key(dataset, name, recipe, seed, epsilon, adjacency)
            cell = store.measured(key, _work(dataset, train, test, recipe, epsilon, adjacency, seed))
            cells.append(cell)
            if progress:
                progress(f"{dataset.name}, {name}, seed {seed}: {shown(cell, dataset.metric)}")
    theirs = dataset.published
    return {
        **facts(dataset),
        REAL: summary(found[REAL]),
        "recipes": {name: summary(found[name]) for name in recipes},
        "theirs": theirs
        and {"dataset": theirs.dataset, "rows": theirs.rows, "features": theirs.features, "scores": theirs.by_method},
    }


def _key(dataset: Dataset, name: str, recipe: Recipe | None, seed: int, epsilon: float, adjacency: str) -> Key:
    settings: dict[str, Any] = {
        "table": "table1",
        "learner": learner_settings(LEARNER),
        "rows": dataset.table.num_rows,
        "features": dataset.features,
        "schema": dataset.schema_origin,
        "held_out": dataset.test_rows,
        "threea": threea.__version__,
    }
    if recipe is not None:
        released_with = {"epsilon": epsilon, "delta": dataset.delta, "adjacency": adjacency}
        settings |= {"recipe": about({name: recipe})[name]["settings"], **released_with}
    return Key(dataset.name, name, seed, settings)


def _work(
    dataset: Dataset,
    train: pa.Table,
    test: pa.Table,
    recipe: Recipe | None,
    epsilon: float,
    adjacency: str,
    seed: int,
) -> Callable[[], Cell]:
    def work() -> Cell:
        learned = train
        made: Cell = {}
        if recipe is not None:
            learned, made = released(
                dataset, train, recipe, epsilon=epsilon, delta=dataset.delta, adjacency=adjacency, seed=seed
            )
        figures = scored(dataset, real=train, train=learned, test=test, names=[LEARNER], seed=seed)[LEARNER]
        return made | figures | {"score": figures[dataset.metric]}

    return work


def _distances(rows: Sequence[dict[str, Any]], recipes: dict[str, Recipe]) -> dict[str, Any]:
    """Return the mean distance of each recipe's scores to the real ones, over the datasets where all have one."""
    whole = [
        row
        for row in rows
        if "skipped" not in row and all(found["mean"] is not None for found in (row[REAL], *row["recipes"].values()))
    ]
    ours = {
        name: statistics.fmean(abs(row[REAL]["mean"] - row["recipes"][name]["mean"]) for row in whole)
        for name in recipes
        if whole
    }
    theirs = {method: MEAN_DISTANCE_TO_REAL[method] for method in METHODS}
    return {"ours": ours, "theirs": theirs, "over": [row["dataset"] for row in whole]}
