"""Table 1 of the ClustMix paper: what a classifier learns from synthetic rows, by dataset and recipe."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

import pyarrow as pa

import threea
from benchmarks.cells import Cell, CellFile, Key, Progress, shown, summary
from benchmarks.datasets import Dataset
from benchmarks.datasets.published import MEAN_DISTANCE_TO_REAL, METHODS
from benchmarks.measure import (
    about,
    checked,
    facts,
    learner_settings,
    loaded,
    released,
    rows_drawn,
    scored,
    versions,
)
from threea.budget import Adjacency
from threea.drawing import LEAST_ROWS, LEAST_VALUES
from threea.framework import Recipe
from threea.recipes import DEFAULT

DATASETS = ("adult32", "census", "credit", "isolet", "physionet2012", "support2", "diabetes130", "mnist")
LEARNER = "lightgbm"
REAL = "real"
RECIPES, REPLACE, BALANCE = "recipes", "replace", "balance"
"""How releases are made: by default, under the paper's adjacency, with rare classes drawn more often."""


def table1(
    datasets: Sequence[str] | None = None,
    recipes: Sequence[str] | None = None,
    epsilon: float = 1.0,
    seeds: int = 5,
    *,
    data: str | PathLike[str],
    replaced: Sequence[str] = (DEFAULT,),
    balanced: Sequence[str] = (DEFAULT,),
    cells: str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Measure how well LightGBM, trained on each recipe's synthetic rows, does on real rows held out.

    Args:
        datasets: Names; the paper's, or their stand-ins, by default.
        recipes: Names, also with settings (`measure.named_recipe`); every recipe with its default settings if
            None, so that none is as published unless it is named so.
        epsilon: Of every release; delta is the dataset's.
        seeds: How many splits; each also seeds sampling and the classifier. Noise cannot be seeded.
        data: The folder that holds the datasets.
        replaced: Of which recipes also releases under ``replace`` are made, the paper's adjacency; the default one. All
            others are under ``add-remove``.
        balanced: Of which recipes also releases with balanced classes are made; the default one.
        cells: Where finished cells are kept, to go on from after a break.
        progress: Told of each cell.

    Returns:
        table, epsilon, adjacency, seeds, learner, versions; recipes (guarantee and settings of each); datasets, a list
        of what `measure.facts` says with real, recipes, replace and balance (the recipes made so; a `cells.summary`
        each) and theirs (the paper's figures, or None), or dataset and skipped; mean_distance_to_real with ours,
        replace, balance, theirs and over (the datasets that it is the mean over).

    Raises:
        SettingError: A name or number is wrong.
        InputError: No dataset can be read.
    """
    names = DATASETS if datasets is None else tuple(datasets)
    chosen = checked(names, recipes, [epsilon], seeds)
    also = {
        REPLACE: [name for name in chosen if name in replaced],
        BALANCE: [name for name in chosen if name in balanced],
    }
    store, rows = CellFile(cells), []
    for name, dataset in loaded(names, data):
        if isinstance(dataset, str):
            rows.append({"dataset": name, "skipped": dataset})
            continue
        rows.append(_row(dataset, chosen, also, epsilon, seeds, store, progress))
    return {
        "table": "table1",
        "epsilon": epsilon,
        "adjacency": str(Adjacency.ADD_REMOVE),
        "seeds": seeds,
        "learner": LEARNER,
        "drawn": {"most_rows": LEAST_ROWS, "most_values": LEAST_VALUES},
        "versions": versions(),
        "recipes": about(chosen),
        "datasets": rows,
        "mean_distance_to_real": _distances(rows),
    }


def _row(
    dataset: Dataset,
    recipes: dict[str, Recipe],
    also: Mapping[str, Sequence[str]],
    epsilon: float,
    seeds: int,
    store: CellFile,
    progress: Progress | None,
) -> dict[str, Any]:
    by_recipe: dict[tuple[str, str], list[Cell]] = {(RECIPES, name): [] for name in (REAL, *recipes)}
    by_recipe |= {(made, name): [] for made, names in also.items() for name in names}
    for seed in range(seeds):
        train, test = dataset.split(seed)
        for (made, name), cells in by_recipe.items():
            recipe = recipes.get(name)
            key = _key(dataset, name, recipe, seed, epsilon, made)
            cell = store.measured(key, _work(dataset, train, test, recipe, epsilon, made, seed))
            cells.append(cell)
            if progress:
                how = "" if made == RECIPES else f" ({made})"
                progress(f"{dataset.name}, {name}{how}, seed {seed}: {shown(cell, dataset.metric)}")
    theirs = dataset.published
    return {
        **facts(dataset),
        REAL: summary(by_recipe[RECIPES, REAL]),
        RECIPES: {name: summary(by_recipe[RECIPES, name]) for name in recipes},
        **{made: {name: summary(by_recipe[made, name]) for name in names} for made, names in also.items()},
        "theirs": theirs
        and {"dataset": theirs.dataset, "rows": theirs.rows, "features": theirs.features, "scores": theirs.by_method},
    }


def _key(dataset: Dataset, name: str, recipe: Recipe | None, seed: int, epsilon: float, made: str) -> Key:
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
        released_with = {"epsilon": epsilon, "delta": dataset.delta, "adjacency": str(_adjacency(made))}
        if made == BALANCE:
            released_with[BALANCE] = True
        settings |= {"recipe": about({name: recipe})[name]["settings"], **released_with}
        drawn = _drawn(recipe, dataset.training_rows, dataset.features + 1)
        if drawn not in (None, dataset.training_rows):
            settings["drawn"] = drawn
    return Key(dataset.name, name, seed, settings)


def _work(
    dataset: Dataset,
    train: pa.Table,
    test: pa.Table,
    recipe: Recipe | None,
    epsilon: float,
    made: str,
    seed: int,
) -> Callable[[], Cell]:
    def work() -> Cell:
        learned = train
        took: Cell = {}
        if recipe is not None:
            learned, took = released(
                dataset,
                train,
                recipe,
                epsilon=epsilon,
                delta=dataset.delta,
                adjacency=_adjacency(made),
                balance=made == BALANCE,
                seed=seed,
                rows=_drawn(recipe, train.num_rows, train.num_columns),
            )
        figures = scored(dataset, real=train, train=learned, test=test, names=[LEARNER], seed=seed)[LEARNER]
        return took | figures | {"score": figures[dataset.metric]}

    return work


def _adjacency(made: str) -> Adjacency:
    return Adjacency.REPLACE if made == REPLACE else Adjacency.ADD_REMOVE


def _drawn(recipe: Recipe, rows: int, columns: int) -> int | None:
    """Return how many rows to draw; None from a recipe that makes a number of its own."""
    return None if recipe.fixed else rows_drawn(rows, columns)


def _distances(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean distance of each recipe's scores to the real ones, over the datasets where all have one."""
    measured = [row for row in rows if "skipped" not in row]
    parts = (RECIPES, REPLACE, BALANCE)
    whole = [
        row
        for row in measured
        if all(
            result["mean"] is not None
            for result in (row[REAL], *(cell for part in parts for cell in row[part].values()))
        )
    ]
    ours = {
        part: {
            name: statistics.fmean(abs(row[REAL]["mean"] - row[part][name]["mean"]) for row in whole)
            for name in (whole[0][part] if whole else ())
        }
        for part in parts
    }
    theirs = {method: MEAN_DISTANCE_TO_REAL[method] for method in METHODS}
    return {
        "ours": ours[RECIPES],
        REPLACE: ours[REPLACE],
        BALANCE: ours[BALANCE],
        "theirs": theirs,
        "over": [row["dataset"] for row in whole],
    }
