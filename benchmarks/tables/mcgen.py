"""The MC-GEN paper's two scenarios: synthetic rows as a test set, and as a training set.

- Scenario 1: a model is trained on 80% of the real rows, and tested on synthetic rows made from the other 20%.
- Scenario 2: a model is trained on synthetic rows made from 80% of the real rows, and tested on the other 20%.

Recipes with a share k of the rows in a cluster are measured at their own k, and at every k of a grid.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa

import threea
from benchmarks.cells import Cell, CellFile, Key, Progress, shown, summary
from benchmarks.datasets import Dataset
from benchmarks.datasets.published import MCGEN_BASELINE
from benchmarks.measure import (
    FittedLearners,
    about,
    checked,
    facts,
    learner_settings,
    loaded,
    released,
    scored,
    versions,
)
from benchmarks.tables.mcgen_means import ahead, means
from threea.errors import SettingError
from threea.framework import Recipe
from threea.recipes import RECIPES

DATASETS = ("pima", "phishing", "adult")
EPSILONS = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
KS = (0.2, 0.4, 0.6, 0.8, 1.0)
LEARNERS = ("svm", "logistic", "boosting")
SCENARIOS = (1, 2)
COLUMNS = (
    "auto",
    "independent",
    "mcgen",
    "noifs",
    "rongauss",
    "privbayes",
    "mst",
    "aim",
    "mcgen-published:noise=algorithm",
    "mcgen-published:noise=code",
    "rongauss-published",
)
"""What is measured unasked, as far as it is in `threea.recipes.RECIPES`."""
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
    ks: Sequence[float] = KS,
    k_epsilons: Sequence[float] | None = None,
    scenarios: Sequence[int] = SCENARIOS,
    cells: str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Measure the accuracy of three classifiers in both scenarios.

    Args:
        datasets: Names; the paper's three by default.
        recipes: Names, also with settings (`measure.named_recipe`); `COLUMNS` by default.
        epsilons: Of the releases; delta is one in the number of rows that a release is made from.
        seeds: How many splits; each also seeds sampling and the classifiers. Noise cannot be seeded.
        data: The folder that holds the datasets.
        rows: Most rows that are used of a dataset.
        ks: Shares of the rows in a cluster, at which recipes are measured that have such a setting and whose text
            leaves it open; none to measure them at their own k alone.
        k_epsilons: At which of the epsilons; at all of them by default.
        scenarios: Which of the two.
        cells: Where finished cells are kept, to go on from after a break.
        progress: Told of each cell.

    Returns:
        table, epsilons, ks, k_epsilons, scenarios, seeds, rows, learners, versions, recipes; means and ahead, see
        `mcgen_means`; lines, a list of dataset, title, rows, scenario, learner, real (a `cells.summary` of accuracies),
        theirs (the paper's baseline on real rows, or None), recipes: by name and epsilon a summary, and by_k: by name,
        epsilon and k a summary; skipped, a list of dataset and reason.

    Raises:
        SettingError: A name or number is wrong.
        InputError: No dataset can be read.
    """
    names = DATASETS if datasets is None else tuple(datasets)
    known = [text for text in COLUMNS if text.partition(":")[0] in RECIPES]
    chosen = checked(names, known if recipes is None else recipes, epsilons, seeds)
    # Cells are found again by what is written of these numbers: 1 and 1.0 must not be two.
    wanted = [float(epsilon) for epsilon in epsilons]
    varied = wanted if k_epsilons is None else [float(epsilon) for epsilon in k_epsilons]
    whole = [int(one) if float(one).is_integer() else one for one in scenarios]
    grid = _Grid(chosen, wanted, [float(k) for k in ks], varied, whole, seeds, rows)
    store = CellFile(cells)
    lines: list[dict[str, Any]] = []
    skipped: list[dict[str, str]] = []
    for name, dataset in loaded(names, data):
        if isinstance(dataset, str):
            skipped.append({"dataset": name, "reason": dataset})
        else:
            lines += _lines(dataset, grid, _measure(dataset, grid, store, progress))
    return {
        "table": "mcgen",
        **{name: list(getattr(grid, name)) for name in ("epsilons", "ks", "k_epsilons", "scenarios")},
        "seeds": seeds,
        "rows": rows,
        "learners": list(LEARNERS),
        "versions": versions(),
        "recipes": about(chosen),
        "means": means(lines),
        "ahead": ahead(lines),
        "lines": lines,
        "skipped": skipped,
    }


_Job = tuple[Recipe | None, float, int]
"""A recipe, or None for the real rows; epsilon; scenario."""
_REAL: _Job = (None, 0.0, 0)


@dataclass(frozen=True, slots=True)
class _Grid:
    """What is measured on every dataset."""

    recipes: dict[str, Recipe]
    epsilons: Sequence[float]
    ks: Sequence[float]
    k_epsilons: Sequence[float]
    scenarios: Sequence[int]
    seeds: int
    rows: int

    def __post_init__(self) -> None:
        for name in ("epsilons", "ks", "k_epsilons", "scenarios"):
            values = getattr(self, name)
            if len(set(values)) != len(values) or not (values or name in ("ks", "k_epsilons")):
                listed = ", ".join(map(str, values))
                raise SettingError(f"{name} ({listed}) must be at least one, each once")
        for k in self.ks:
            if not 0 < k <= 1:
                raise SettingError(f"ks ({k:g}) must be shares of the rows, above 0 and at most 1")
        for scenario in self.scenarios:
            if scenario not in SCENARIOS:
                raise SettingError(f"scenarios ({scenario}) must be 1 or 2")
        for epsilon in self.k_epsilons:
            if epsilon not in self.epsilons:
                listed = ", ".join(f"{one:g}" for one in self.epsilons)
                raise SettingError(f"k_epsilons ({epsilon:g}) must be among the epsilons ({listed})")

    @property
    def swept(self) -> dict[str, dict[float, Recipe]]:
        """The recipes that leave k open, by name and k."""
        return {
            name: {k: replace(recipe, k=k) for k in self.ks}  # type: ignore[call-arg]
            for name, recipe in self.recipes.items()
            if self.ks and _has_share(recipe) and "k" not in _given(name)
        }

    def jobs(self) -> dict[_Job, str]:
        """Return what is measured for a seed, each once, with what it is called."""
        jobs: dict[_Job, str] = {_REAL: "real"}
        for scenario in self.scenarios:
            for name, recipe in self.recipes.items():
                jobs |= {(recipe, epsilon, scenario): name for epsilon in self.epsilons}
            for name, by_k in self.swept.items():
                for epsilon in self.k_epsilons:
                    for k, recipe in by_k.items():
                        jobs.setdefault((recipe, epsilon, scenario), f"{name}, k {k:g}")
        return jobs


def _has_share(recipe: Recipe) -> bool:
    """Whether the recipe has a k that is a share of the rows, and not a number of something."""
    return isinstance({field.name: getattr(recipe, field.name) for field in dataclasses.fields(recipe)}.get("k"), float)


def _given(text: str) -> set[str]:
    """Return the settings that a recipe's text names."""
    return {part.partition("=")[0].strip() for part in text.partition(":")[2].split(",")}


_Measured = dict[_Job, list[Cell]]


def _measure(dataset: Dataset, grid: _Grid, store: CellFile, progress: Progress | None) -> _Measured:
    """Return the cells of all seeds."""
    jobs = grid.jobs()
    cells: _Measured = {job: [] for job in jobs}
    for seed in range(grid.seeds):
        part = _part(dataset, grid.rows, seed)
        split = part.split(seed, HELD_OUT)
        # In scenario 1 all learn from the same rows.
        fitted = FittedLearners()
        for job, name in jobs.items():
            kept = fitted if job[2] != 2 else None
            cell = store.measured(_key(part, job, seed), _work(part, *split, job, seed, kept))
            cells[job].append(cell)
            if progress:
                where = f"scenario {job[2]}, epsilon {job[1]:g}, " if job[0] else ""
                progress(f"{dataset.name}, {name}, {where}seed {seed}: {shown(cell, *LEARNERS)}")
    return cells


def _part(dataset: Dataset, rows: int, seed: int) -> Dataset:
    if dataset.table.num_rows <= rows:
        return dataset
    drawn = np.random.default_rng([seed, rows]).choice(dataset.table.num_rows, rows, replace=False)
    return replace(dataset, table=dataset.table.take(np.sort(drawn)))


def _key(part: Dataset, job: _Job, seed: int) -> Key:
    recipe, epsilon, scenario = job
    settings: dict[str, Any] = {"table": "mcgen", "rows": part.table.num_rows, "threea": threea.__version__}
    settings["learners"] = learner_settings(*LEARNERS)
    if recipe is None:
        return Key(part.name, "real", seed, settings)
    own = dataclasses.asdict(recipe)
    settings |= {"recipe": own, "epsilon": epsilon, "scenario": scenario, "schema": part.schema_origin}
    # All settings are in the key, so that a recipe has one cell however its text names it.
    return Key(part.name, recipe.name, seed, settings)


def _work(
    dataset: Dataset, larger: pa.Table, smaller: pa.Table, job: _Job, seed: int, fitted: FittedLearners | None
) -> Callable[[], Cell]:
    recipe, epsilon, scenario = job

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
        scores = scored(dataset, real=larger, train=train, test=test, names=LEARNERS, seed=seed, fitted=fitted)
        return made | {name: figures["accuracy"] for name, figures in scores.items()}

    return work


def _lines(dataset: Dataset, grid: _Grid, cells: _Measured) -> list[dict[str, Any]]:
    return [
        {
            **{name: facts(dataset)[name] for name in ("dataset", "title", "schema")},
            "rows": min(grid.rows, dataset.table.num_rows),
            "scenario": scenario,
            "learner": learner,
            "real": summary(cells[_REAL], learner),
            "theirs": MCGEN_BASELINE[scenario].get(dataset.name, {}).get(learner),
            "recipes": {
                name: {f"{epsilon:g}": summary(cells[recipe, epsilon, scenario], learner) for epsilon in grid.epsilons}
                for name, recipe in grid.recipes.items()
            },
            "by_k": {
                name: {
                    f"{epsilon:g}": {
                        f"{k:g}": summary(cells[recipe, epsilon, scenario], learner) for k, recipe in by_k.items()
                    }
                    for epsilon in grid.k_epsilons
                }
                for name, by_k in grid.swept.items()
            },
        }
        for scenario in grid.scenarios
        for learner in LEARNERS
    ]
