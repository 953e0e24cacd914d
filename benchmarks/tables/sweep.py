"""A sweep over epsilon: what the default recipe and the simplest one are worth under budgets from tight to loose."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from os import PathLike
from typing import Any

import threea
from benchmarks.cells import Cell, CellFile, Key, Progress, shown, summary
from benchmarks.datasets import Dataset
from benchmarks.measure import about, checked, facts, learner_settings, loaded, taught, versions
from threea.errors import SettingError
from threea.framework import Recipe
from threea.recipes import DEFAULT, Independent

DATASETS = ("adult",)
RECIPES = tuple(dict.fromkeys((Independent.name, DEFAULT)))
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
LEARNER = "lightgbm"
REAL = "real"


def sweep(
    datasets: Sequence[str] | None = None,
    recipes: Sequence[str] | None = None,
    epsilons: Sequence[float] = EPSILONS,
    seeds: int = 3,
    *,
    data: str | PathLike[str],
    cells: str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Measure how well LightGBM, trained on synthetic rows, does on real rows held out, by epsilon.

    Args:
        datasets: Names; adult by default.
        recipes: Names, also with settings (`measure.named_recipe`); `independent` and the default if None.
        epsilons: Of the releases; delta is the dataset's.
        seeds: How many splits; each also seeds sampling and the classifier. Noise cannot be seeded.
        data: The folder that holds the datasets.
        cells: Where finished cells are kept, to go on from after a break.
        progress: Told of each cell.

    Returns:
        table, epsilons, seeds, learner, versions, recipes; lines, a list of what `measure.facts` says of a
        dataset with real (a `cells.summary`) and recipes (by name and epsilon, a summary each); skipped, a
        list of dataset and reason.

    Raises:
        SettingError: A name or number is wrong.
        InputError: No dataset can be read.
    """
    names = DATASETS if datasets is None else tuple(datasets)
    if not epsilons or len(set(epsilons)) != len(epsilons):
        raise SettingError(f"epsilons ({', '.join(map(str, epsilons))}) must be at least one, each once")
    chosen = checked(names, RECIPES if recipes is None else recipes, epsilons, seeds)
    store = CellFile(cells)
    lines: list[dict[str, Any]] = []
    skipped: list[dict[str, str]] = []
    for name, dataset in loaded(names, data):
        if isinstance(dataset, str):
            skipped.append({"dataset": name, "reason": dataset})
        else:
            lines.append(_line(dataset, chosen, sorted(epsilons), seeds, store, progress))
    return {
        "table": "sweep",
        "epsilons": sorted(epsilons),
        "seeds": seeds,
        "learner": LEARNER,
        "versions": versions(),
        "recipes": about(chosen),
        "lines": lines,
        "skipped": skipped,
    }


def _line(
    dataset: Dataset,
    recipes: dict[str, Recipe],
    epsilons: Sequence[float],
    seeds: int,
    store: CellFile,
    progress: Progress | None,
) -> dict[str, Any]:
    jobs: list[tuple[str, Recipe | None, float]] = [(REAL, None, 0.0)]
    jobs += [(name, recipe, epsilon) for name, recipe in recipes.items() for epsilon in epsilons]
    cells: dict[tuple[str, float], list[Cell]] = {(name, epsilon): [] for name, _, epsilon in jobs}
    for seed in range(seeds):
        train, test = dataset.split(seed)
        for name, recipe, epsilon in jobs:
            key = _key(dataset, name, recipe, seed, epsilon)
            work = partial(taught, dataset, train, test, recipe, epsilon=epsilon, seed=seed, learner=LEARNER)
            cell = store.measured(key, work)
            cells[name, epsilon].append(cell)
            if progress:
                where = f", epsilon {epsilon:g}" if recipe else ""
                progress(f"{dataset.name}, {name}{where}, seed {seed}: {shown(cell, dataset.metric)}")
    return {
        **facts(dataset),
        REAL: summary(cells[REAL, 0.0]),
        "recipes": {name: {f"{epsilon:g}": summary(cells[name, epsilon]) for epsilon in epsilons} for name in recipes},
    }


def _key(dataset: Dataset, name: str, recipe: Recipe | None, seed: int, epsilon: float) -> Key:
    settings: dict[str, Any] = {
        "table": "sweep",
        "learner": learner_settings(LEARNER),
        "rows": dataset.table.num_rows,
        "schema": dataset.schema_origin,
        "held_out": dataset.test_rows,
        "threea": threea.__version__,
    }
    if recipe is not None:
        own = about({name: recipe})[name]["settings"]
        settings |= {"recipe": own, "epsilon": epsilon, "delta": dataset.delta}
    return Key(dataset.name, name, seed, settings)
