"""ClustMix taken apart: what its adapted centroids and its clusters are each worth, by the shape of the data.

Questions that the paper leaves open. alpha says how far centroids may move for the task: at 1 they stay, which is
ClustMix without kernel inducing points. DPMix mixes rows at random, which is ClustMix without clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import stats

import threea
from benchmarks.cells import Cell, CellFile, Key, Progress, shown, spread, summary
from benchmarks.datasets import Dataset
from benchmarks.datasets.dataset import uniform_schema
from benchmarks.measure import about, checked, facts, learner_settings, loaded, taught, versions
from benchmarks.page.ablation_charts import RANDOM, Series, series
from threea.framework import Recipe
from threea.recipes import ClustMix, ClustMixPublished, DPMix

ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)
STAY = "1"
"""The alpha at which centroids stay, as a column."""
SIGMAS = (ClustMixPublished().sigma_max, 0.2)
"""As published: the recipe's default, which makes so few points of a small table that LightGBM, which wants 20 in a
leaf, learns nothing from them; and one that makes more. Random groups are as large as clusters."""
_PUBLISHED = tuple(f"{ClustMixPublished.name}:sigma_max={sigma:g}" for sigma in SIGMAS)
RECIPES = (
    *(f"{ClustMix.name}:alpha={alpha:g}" for alpha in ALPHAS),
    *(f"{published},alpha={alpha:g}" for published in _PUBLISHED for alpha in ALPHAS),
    DPMix.name,
    *(f"{published},clusters=random" for published in _PUBLISHED),
)
LEARNER = "lightgbm"
REAL = "real"

ROWS, COLUMNS, BLOBS = 6000, 6, 3
"""Of a simulated table; and how many clusters each of its two classes has."""
LOWER, UPPER = -0.5, 1.5
"""The public bounds of its columns."""
_GENERATED = 20_250_103
"""Seeds the simulated tables."""
Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


def ablations(
    datasets: Sequence[str] | None = None,
    recipes: Sequence[str] | None = None,
    epsilon: float = 1.0,
    seeds: int = 5,
    *,
    data: str | PathLike[str],
    cells: str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Measure ClustMix by alpha in both modes, and random mixing, on adult and on simulated tables.

    Args:
        datasets: Names, of `SIMULATED` or of a dataset; adult32 and all simulated ones by default.
        recipes: What `measure.named_recipe` reads; `RECIPES` by default.
        epsilon: Of every release; delta is the dataset's.
        seeds: How many splits; each also seeds sampling and the classifier. Noise cannot be seeded.
        data: The folder that holds the datasets; simulated ones need none.
        cells: Where finished cells are kept, to go on from after a break.
        progress: Told of each cell.

    Returns:
        table, epsilon, seeds, learner, versions, recipes; lines, a list of what `measure.facts` says of a
        dataset with simulated (whether it was made up), real and recipes (a `cells.summary` each: mean,
        stdev and by_seed), `contrasts`, and equal_rows (the names of a published and a proven recipe, and a summary of
        the latter with as many rows drawn, for a learner learns more from more rows, whatever made them); intervals,
        of how many differences and how many do without 0; skipped, a list of dataset and reason.

    Raises:
        SettingError: A name or number is wrong.
        InputError: No dataset can be read.
    """
    names = ("adult32", *SIMULATED) if datasets is None else tuple(datasets)
    chosen = checked(names, RECIPES if recipes is None else recipes, [epsilon], seeds, simulated=SIMULATED)
    store = CellFile(cells)
    lines: list[dict[str, Any]] = []
    skipped: list[dict[str, str]] = []
    for name, dataset in loaded(names, data, {name: partial(simulated, name) for name in SIMULATED}):
        if isinstance(dataset, str):
            skipped.append({"dataset": name, "reason": dataset})
        else:
            lines.append(_line(dataset, chosen, epsilon, seeds, store, progress))
    intervals = [
        contrast["interval"] for line in lines for contrast in line["contrasts"] if contrast["interval"] is not None
    ]
    return {
        "table": "ablations",
        "epsilon": epsilon,
        "seeds": seeds,
        "learner": LEARNER,
        "versions": versions(),
        "recipes": about(chosen),
        "lines": lines,
        "intervals": {"taken": len(intervals), "without_zero": sum(low > 0 or high < 0 for low, high in intervals)},
        "skipped": skipped,
    }


def simulated(name: str, rows: int = ROWS) -> Dataset:
    """Return a table of one of the shapes in `SIMULATED`, the same at every call."""
    make, title = SIMULATED[name]
    rng = np.random.default_rng([_GENERATED, *name.encode()])
    values, classes = make(rows, rng)
    names = [f"x{index}" for index in range(COLUMNS)]
    columns = dict(zip(names, np.clip(values, LOWER, UPPER).T, strict=True))
    column = {"kind": "real", "lower": LOWER, "upper": UPPER, "nullable": False}
    return Dataset(
        name=name,
        title=title,
        table=pa.table({**columns, "class": np.array(["a", "b"])[classes]}),
        target="class",
        schema=uniform_schema(names, column, "class", ["a", "b"]),
    )


def _blobs(spread: float) -> Callable[[int, np.random.Generator], tuple[Floats, Whole]]:
    """Return a maker of round clusters, those of the two classes in turn, around centres in the unit cube."""

    def make(rows: int, rng: np.random.Generator) -> tuple[Floats, Whole]:
        centres = rng.random((2 * BLOBS, COLUMNS))
        blob = rng.integers(0, 2 * BLOBS, rows)
        return centres[blob] + spread * rng.standard_normal((rows, COLUMNS)), blob % 2

    return make


def _uniform(rows: int, rng: np.random.Generator) -> tuple[Floats, Whole]:
    """Return rows without clusters; their class depends on a sum of two columns and a product of two others."""
    values = rng.random((rows, COLUMNS))
    slope = 6 * (values[:, 0] + values[:, 1] - 1) + 24 * (values[:, 2] - 0.5) * (values[:, 3] - 0.5)
    return values, (rng.random(rows) < 1 / (1 + np.exp(-slope))).astype(np.int64)


SIMULATED: dict[str, tuple[Callable[[int, np.random.Generator], tuple[Floats, Whole]], str]] = {
    "separated": (_blobs(0.08), f"simulated, {BLOBS} round clusters a class, far apart (0.08 wide in the unit cube)"),
    "overlapping": (_blobs(0.32), f"simulated, {BLOBS} round clusters a class, that overlap (0.32 wide)"),
    "uniform": (_uniform, "simulated, uniform columns, no clusters; the class depends on four of them"),
}
"""Shapes of simulated tables: what makes each, and what it is."""


@dataclass(frozen=True, slots=True)
class _Seed:
    """One split of a dataset, and where its cells go."""

    dataset: Dataset
    seed: int
    train: pa.Table
    test: pa.Table
    epsilon: float
    store: CellFile
    progress: Progress | None

    def measured(self, name: str, recipe: Recipe | None, rows: int | None = None) -> Cell:
        work = partial(taught, self.dataset, self.train, self.test, recipe)
        key = _key(self.dataset, name, recipe, self.seed, self.epsilon, rows)
        cell = self.store.measured(key, partial(work, epsilon=self.epsilon, seed=self.seed, learner=LEARNER, rows=rows))
        if self.progress:
            asked = "" if rows is None else f", {rows} rows"
            figures = shown(cell, self.dataset.metric)
            self.progress(f"{self.dataset.name}, {name}{asked}, seed {self.seed}: {figures}")
        return cell


def _line(
    dataset: Dataset,
    recipes: dict[str, Recipe],
    epsilon: float,
    seeds: int,
    store: CellFile,
    progress: Progress | None,
) -> dict[str, Any]:
    jobs: dict[str, Recipe | None] = {REAL: None, **recipes}
    pairs = _pairs(recipes)
    by_recipe: dict[str, list[Cell]] = {name: [] for name in jobs}
    equal: dict[str, list[Cell]] = {name: [] for name in pairs}
    for number in range(seeds):
        seed = _Seed(dataset, number, *dataset.split(number), epsilon, store, progress)
        for name, recipe in jobs.items():
            by_recipe[name].append(seed.measured(name, recipe))
        for published, proven in pairs.items():
            rows = by_recipe[published][-1].get("rows")
            nothing = {"error": "error: no published rows to draw as many as"}
            equal[published].append(seed.measured(proven, recipes[proven], rows) if rows else nothing)
    results = {name: summary(by_recipe[name]) for name in recipes}
    return {
        **facts(dataset),
        "simulated": dataset.name in SIMULATED,
        REAL: summary(by_recipe[REAL]),
        "recipes": results,
        "contrasts": contrasts(series(results, about(recipes))),
        "equal_rows": [{"published": name, "proven": pairs[name], **summary(cells)} for name, cells in equal.items()],
    }


def _pairs(recipes: dict[str, Recipe]) -> dict[str, str]:
    """Return, by each published form whose centroids stay, the proven form to draw as many rows from."""
    proven = next(
        (name for name, recipe in recipes.items() if isinstance(recipe, ClustMix) and recipe.alpha == 1), None
    )
    still = {
        name: recipe for name, recipe in recipes.items() if isinstance(recipe, ClustMixPublished) and recipe.alpha == 1
    }
    return {name: proven for name, recipe in still.items() if recipe.clusters == "constrained"} if proven else {}


def contrasts(by_label: Series) -> list[dict[str, Any]]:
    """Return what moving the centroids adds to leaving them, and what clusters add to random groups, seed by seed.

    A seed's two releases are of the same rows and tested on the same ones, so their difference varies less than either.

    Returns:
        series, contrast, by_seed (None where one of the two is missing), mean, stdev and interval of each.
    """
    entries = []
    for label, points in by_label.items():
        pairs = [(column, STAY) for column in points if column not in (STAY, RANDOM)] + [(STAY, RANDOM)]
        for ours, other in pairs:
            if ours in points and other in points:
                both = zip(points[ours]["by_seed"], points[other]["by_seed"], strict=True)
                by_seed = [None if None in pair else pair[0] - pair[1] for pair in both]
                name = f"{_column(ours)} - {_column(other)}"
                cells = [{"difference": difference} for difference in by_seed]
                interval = _interval([difference for difference in by_seed if difference is not None])
                about_it = {"series": label, "contrast": name, "by_seed": by_seed, "interval": interval}
                entries.append(about_it | spread(cells, "difference"))
    return entries


def _interval(differences: Sequence[float]) -> tuple[float, float] | None:
    """Return Student's interval of their mean, at 95% confidence."""
    if len(differences) < 2:
        return None
    reach = float(stats.t.ppf(0.975, len(differences) - 1)) * float(stats.sem(differences))
    return fmean(differences) - reach, fmean(differences) + reach


def _column(column: str) -> str:
    return column if column == RANDOM else f"alpha {column}"


def _key(dataset: Dataset, name: str, recipe: Recipe | None, seed: int, epsilon: float, rows: int | None) -> Key:
    settings: dict[str, Any] = {
        "table": "ablations",
        "learner": learner_settings(LEARNER),
        "rows": dataset.table.num_rows,
        "schema": dataset.schema_origin,
        "held_out": dataset.test_rows,
        "threea": threea.__version__,
    }
    if dataset.name in SIMULATED:
        settings["generated"] = [_GENERATED, dataset.title]
    if recipe is not None:
        own = about({name: recipe})[name]["settings"]
        settings |= {"recipe": own, "epsilon": epsilon, "delta": dataset.delta}
    if rows is not None:
        settings["drawn"] = rows
    return Key(dataset.name, name, seed, settings)
