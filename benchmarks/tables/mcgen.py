"""The MC-GEN paper's two scenarios: synthetic rows as a test set, and as a training set.

- Scenario 1: a model is trained on 80% of the real rows, and tested on synthetic rows made from the other 20%.
- Scenario 2: a model is trained on synthetic rows made from 80% of the real rows, and tested on the other 20%.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa

import threea
from benchmarks.cells import Cell, CellFile, Key, Progress, shown, summary
from benchmarks.datasets import Dataset
from benchmarks.datasets.published import MCGEN_BASELINE
from benchmarks.measure import about, checked, facts, learner_settings, loaded, released, scored, versions
from threea.framework import Recipe

DATASETS = ("pima", "phishing", "adult")
EPSILONS = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
LEARNERS = ("svm", "logistic", "boosting")
SCENARIOS = (1, 2)
HELD_OUT = 0.2
ROWS = 10_000
"""Most rows that are used of a dataset, drawn anew for each seed."""


def mcgen(
    datasets: Sequence[str] | None = None,
    recipes: Sequence[str] | None = None,
    epsilons: Sequence[float] = EPSILONS,
    seeds: int = 5,
    *,
    data: str | PathLike[str],
    rows: int = ROWS,
    cells: str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Measure the accuracy of three classifiers in both scenarios.

    Args:
        datasets: Names; the paper's three by default.
        recipes: Names; all by default.
        epsilons: Of the releases; delta is one in the number of rows that a release is made from.
        seeds: How many splits; each also seeds sampling and the classifiers. Noise cannot be seeded.
        data: The folder that holds the datasets.
        rows: Most rows that are used of a dataset.
        cells: Where finished cells are kept, to go on from after a break.
        progress: Told of each cell.

    Returns:
        table, epsilons, seeds, rows, learners, versions, recipes; lines, a list of dataset, title, rows, scenario,
        learner, real (a `cells.summary` of accuracies), theirs (the paper's baseline on real rows, or None)
        and recipes: by name and epsilon a summary; skipped, a list of dataset and reason.

    Raises:
        SettingError: A name or number is wrong.
        InputError: No dataset can be read.
    """
    names = DATASETS if datasets is None else tuple(datasets)
    chosen = checked(names, recipes, epsilons, seeds)
    store = CellFile(cells)
    lines: list[dict[str, Any]] = []
    skipped: list[dict[str, str]] = []
    for name, dataset in loaded(names, data):
        if isinstance(dataset, str):
            skipped.append({"dataset": name, "reason": dataset})
        else:
            measured = _measure(dataset, chosen, epsilons, seeds, rows, store, progress)
            lines += _lines(dataset, chosen, epsilons, rows, measured)
    return {
        "table": "mcgen",
        "epsilons": list(epsilons),
        "seeds": seeds,
        "rows": rows,
        "learners": list(LEARNERS),
        "versions": versions(),
        "recipes": about(chosen),
        "lines": lines,
        "skipped": skipped,
    }


_Measured = dict[tuple[str, float, int], list[Cell]]


def _measure(
    dataset: Dataset,
    recipes: dict[str, Recipe],
    epsilons: Sequence[float],
    seeds: int,
    rows: int,
    store: CellFile,
    progress: Progress | None,
) -> _Measured:
    """Return the cells of all seeds, by recipe, epsilon and scenario."""
    cells: _Measured = {}
    jobs = [("real", None, 0.0, 0)]
    jobs += [
        (name, chosen, e, scenario) for scenario in SCENARIOS for name, chosen in recipes.items() for e in epsilons
    ]  # type: ignore[misc]
    for seed in range(seeds):
        part = _part(dataset, rows, seed)
        larger, smaller = part.split(seed, HELD_OUT)
        for name, recipe, epsilon, scenario in jobs:
            settings: dict[str, Any] = {"table": "mcgen", "rows": part.table.num_rows, "threea": threea.__version__}
            settings["learners"] = learner_settings(*LEARNERS)
            if recipe is not None:
                own = about({name: recipe})[name]["settings"]
                settings |= {"recipe": own, "epsilon": epsilon, "scenario": scenario, "schema": part.schema_origin}
            key = Key(dataset.name, name, seed, settings)
            cell = store.measured(key, _work(part, larger, smaller, recipe, epsilon, scenario, seed))
            cells.setdefault((name, epsilon, scenario), []).append(cell)
            if progress:
                where = f"scenario {scenario}, epsilon {epsilon:g}, " if scenario else ""
                progress(f"{dataset.name}, {name}, {where}seed {seed}: {shown(cell, *LEARNERS)}")
    return cells


def _part(dataset: Dataset, rows: int, seed: int) -> Dataset:
    if dataset.table.num_rows <= rows:
        return dataset
    drawn = np.random.default_rng([seed, rows]).choice(dataset.table.num_rows, rows, replace=False)
    return replace(dataset, table=dataset.table.take(np.sort(drawn)))


def _work(
    dataset: Dataset,
    larger: pa.Table,
    smaller: pa.Table,
    recipe: Recipe | None,
    epsilon: float,
    scenario: int,
    seed: int,
) -> Callable[[], Cell]:
    def work() -> Cell:
        train, test = larger, smaller
        made: Cell = {}
        if recipe is not None:
            source = smaller if scenario == 1 else larger
            synthetic, made = released(
                dataset,
                source,
                recipe,
                epsilon=epsilon,
                delta=1 / source.num_rows,
                adjacency="add-remove",
                seed=seed,
            )
            train, test = (larger, synthetic) if scenario == 1 else (synthetic, smaller)
        scores = scored(dataset, real=larger, train=train, test=test, names=LEARNERS, seed=seed)
        return made | {name: figures["accuracy"] for name, figures in scores.items()}

    return work


def _lines(
    dataset: Dataset, recipes: dict[str, Recipe], epsilons: Sequence[float], rows: int, cells: _Measured
) -> list[dict[str, Any]]:
    lines = []
    for scenario in SCENARIOS:
        for learner in LEARNERS:
            theirs = MCGEN_BASELINE[scenario].get(dataset.name, {}).get(learner)
            lines.append(
                {
                    **{name: facts(dataset)[name] for name in ("dataset", "title", "schema")},
                    "rows": min(rows, dataset.table.num_rows),
                    "scenario": scenario,
                    "learner": learner,
                    "real": summary(cells["real", 0.0, 0], learner),
                    "theirs": theirs,
                    "recipes": {
                        name: {f"{epsilon:g}": summary(cells[name, epsilon, scenario], learner) for epsilon in epsilons}
                        for name in recipes
                    },
                }
            )
    return lines
