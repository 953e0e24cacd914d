"""What the benchmark tables share: which datasets and recipes, a release and its score, versions."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import importlib.util
import math
import os
import platform
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa

import threea
from benchmarks import datasets as library
from benchmarks.cells import Cell
from benchmarks.datasets import Dataset
from threea.budget import check_epsilon
from threea.certificate import Guarantee
from threea.drawing import least_rows
from threea.errors import InputError, MissingExtra, SettingError
from threea.evaluate.evidence import Matrix, matrices
from threea.evaluate.utility import learners, metrics
from threea.evaluate.utility.threads import side_by_side
from threea.framework import Recipe
from threea.recipes import RECIPES
from threea.session import make_recipe, synthesize
from threea.table.from_types import widest
from threea.table.schema import Schema

PACKAGES = ("numpy", "scipy", "pyarrow", "opendp", "dp-accounting", "lightgbm", "scikit-learn")


def checked(
    datasets: Sequence[str],
    recipes: Sequence[str] | None,
    epsilons: Sequence[float],
    seeds: int,
    *,
    simulated: Collection[str] = (),
) -> dict[str, Recipe]:
    """Refuse wrong names and numbers before anything runs; return the recipes by the text that names them.

    Args:
        datasets: Names.
        recipes: What `named_recipe` reads; every recipe, with its default settings, if None.
        epsilons: Of the releases.
        seeds: How many.
        simulated: Names of datasets that the table makes itself.

    Raises:
        SettingError: A name is unknown, or a number is out of bounds.
        MissingExtra: The learners are not installed.
    """
    if not datasets:
        raise SettingError(f"datasets must name at least one; known: {', '.join(library.LOADERS)}")
    for name in datasets:
        if name not in simulated:
            library.check(name)
    for epsilon in epsilons:
        check_epsilon(epsilon)
    if seeds < 1:
        raise SettingError(f"seeds ({seeds}) must be at least 1")
    chosen = {text: named_recipe(text) for text in (RECIPES if recipes is None else recipes)}
    for module, package in (("lightgbm", "lightgbm"), ("sklearn", "scikit-learn")):
        if importlib.util.find_spec(module) is None:
            raise MissingExtra(package, "evaluate")
    return chosen


def named_recipe(text: str) -> Recipe:
    """Make a recipe from its name, which settings may follow.

    Raises:
        SettingError: No such recipe or setting, or a value that it cannot have.

    Example:
        >>> named_recipe("clustmix-published:alpha=0.5").guarantee.value
        'claimed'
    """
    name, colon, rest = text.partition(":")
    settings = {}
    # A comma may also stand within a value; the next setting's name is what ends one.
    for part in re.split(r",(?=[^,=]*=)", rest) if colon else ():
        key, equals, value = part.partition("=")
        if not equals:
            raise SettingError(f"recipe ({text}) must be a name, or like {name}:setting=value,setting=value")
        settings[key.strip()] = value.strip()
    return make_recipe(name.strip(), settings)


def loaded(
    names: Sequence[str], data: str | PathLike[str], simulated: Mapping[str, Callable[[], Dataset]] | None = None
) -> Iterator[tuple[str, Dataset | str]]:
    """Yield each dataset by name, one in memory at a time, or why it cannot be read; some may be made and not read.

    Raises:
        InputError: None of them can be read.
    """
    failures: list[InputError] = []
    for name in names:
        dataset: Dataset | str
        try:
            dataset = simulated[name]() if simulated and name in simulated else library.load(name, data)
        except InputError as error:
            failures.append(error)
            if len(failures) == len(names):
                raise
            dataset = f"skipped: {error}"
        yield name, dataset


def described(dataset: Dataset) -> Schema:
    """Return a schema that says of each column what it holds, for the learners."""
    return dataset.schema or widest(dataset.table.schema, dataset.target, None)


def facts(dataset: Dataset) -> dict[str, Any]:
    """Return what a table says of a dataset."""
    return {
        "dataset": dataset.name,
        "title": dataset.title,
        "stands_in_for": dataset.stands_in_for,
        "rows": dataset.table.num_rows,
        "features": dataset.features,
        "training_rows": dataset.training_rows,
        "schema": dataset.schema_origin,
        "metric": dataset.metric,
        "delta": dataset.delta,
    }


def rows_drawn(rows: int, columns: int) -> int:
    """Return how many synthetic rows every recipe draws: as many as by default, but for the noise on their number."""
    return max(rows, least_rows(columns))


def released(
    dataset: Dataset,
    train: pa.Table,
    recipe: Recipe,
    *,
    epsilon: float,
    delta: float,
    adjacency: str,
    seed: int,
    rows: int | None = None,
    target_kind: str | None = None,
    balance: bool = False,
) -> tuple[pa.Table, Cell]:
    """Make a release from the training rows; return its rows, and what it took.

    Methods without a proof may read the rows here: they are public, and their cells say what they promise.
    """
    start = time.perf_counter()
    release = synthesize(
        train,
        epsilon=epsilon,
        delta=delta,
        target=dataset.target,
        schema=dataset.schema,
        adjacency=adjacency,
        recipe=recipe,
        rows=rows,
        seed=seed,
        accept_unproven=recipe.guarantee is not Guarantee.PROVEN,
        target_kind=target_kind,
        balance=balance,
    )
    synthetic = release.table
    seconds = time.perf_counter() - start
    certificate = release.certificate()
    return synthetic, {
        "seconds": seconds,
        "rows": synthetic.num_rows,
        "guarantee": str(release.guarantee),
        "accounted_epsilon": certificate.accounted_epsilon,
    }


class FittedLearners:
    """Learners that were fitted already, so that scoring on another table need not fit them again.

    They are known by the exact numbers that they were fitted to, whose codes depend on the tested categories, too.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int, str], learners.Fitted] = {}

    def fit(self, name: str, train: Matrix, seed: int, task: learners.Task) -> learners.Fitted:
        """Return a learner fitted to the table, now or before; call it through `side_by_side`, as `learners.fit`."""
        numbers = hashlib.sha256(train.values.tobytes() + train.target.tobytes())
        key = (name, seed, numbers.hexdigest())
        if key not in self._kept:
            self._kept[key] = learners.fit(name, train, seed, task)
        return self._kept[key]


def scored(
    dataset: Dataset,
    *,
    real: pa.Table,
    train: pa.Table,
    test: pa.Table,
    names: Sequence[str],
    seed: int,
    fitted: FittedLearners | None = None,
) -> dict[str, Cell]:
    """Fit learners on one table and score them on another, with settings decided from the real training rows.

    Args:
        dataset: What the tables are of.
        real: The real training rows.
        train: Rows to learn from.
        test: Rows to score on.
        names: Of the learners.
        seed: Makes it repeatable.
        fitted: Of the same real rows; give it where several calls have the same rows to learn from.

    Returns:
        By learner: its figures, and its settings under ``classifier``.
    """
    kept = FittedLearners() if fitted is None else fitted
    coded = matrices([real, train, test], described(dataset))
    task = learners.Task.of(coded[0])
    cells: dict[str, Cell] = {}
    for name in names:
        work = partial(_figures, kept, name, coded[1], coded[2], seed, task)
        figures, rows = side_by_side({name: work})[name]
        by_name = {figure: float(values[0]) for figure, values in figures(np.ones((1, rows))).items()}
        cells[name] = by_name | {"classifier": task.settings[name]}
    return cells


def _figures(
    kept: FittedLearners, name: str, train: Matrix, test: Matrix, seed: int, task: learners.Task
) -> tuple[metrics.Figures, int]:
    return kept.fit(name, train, seed, task).figures(test)


def taught(
    dataset: Dataset,
    train: pa.Table,
    test: pa.Table,
    recipe: Recipe | None,
    *,
    epsilon: float,
    seed: int,
    learner: str,
    rows: int | None = None,
) -> Cell:
    """Score a learner that is trained on a recipe's rows, as many as it makes unasked, or on the real ones if None."""
    learned, made = train, Cell()
    if recipe is not None:
        learned, made = released(
            dataset, train, recipe, epsilon=epsilon, delta=dataset.delta, adjacency="add-remove", seed=seed, rows=rows
        )
    figures = scored(dataset, real=train, train=learned, test=test, names=[learner], seed=seed)[learner]
    return made | figures | {"score": figures[dataset.metric]}


def learner_settings(*names: str) -> dict[str, Any]:
    """Return the learners' settings, those for rare classes included: a cell is as good as what it was scored with."""
    return {name: [learners.SETTINGS[name], learners.RARE.get(name)] for name in names}


def too_few(result: Mapping[str, Any]) -> bool:
    """Return whether a `cells.summary` is of fewer rows than LightGBM can split, whatever they are."""
    return bool(result.get("rows", math.inf) < 2 * result.get("classifier", {}).get("min_data_in_leaf", 0))


def about(recipes: dict[str, Recipe]) -> dict[str, Any]:
    """Return each recipe's guarantee, settings and summary."""
    return {
        name: {
            "guarantee": str(recipe.guarantee),
            "settings": dataclasses.asdict(recipe),
            "summary": recipe.summary,
            "assumptions": list(recipe.assumptions),
        }
        for name, recipe in recipes.items()
    }


def versions() -> dict[str, str]:
    """Return the versions that figures may depend on."""
    by_package = {"python": platform.python_version(), "threea": threea.__version__, "cores": str(os.cpu_count())}
    for package in PACKAGES:
        try:
            by_package[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            by_package[package] = "not installed"
    return by_package
