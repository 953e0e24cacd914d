"""What a model loses when its target is a number: R2 and mean absolute error on held-out rows, three public tables."""

import statistics
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks import datasets
from benchmarks.adult import DATA
from benchmarks.datasets.dataset import Dataset, read
from benchmarks.datasets.houses import houses
from benchmarks.measure import described, released, rows_drawn, scored
from benchmarks.record import RESULTS, record
from threea.evaluate.evidence import matrices
from threea.evaluate.utility import learners, metrics
from threea.recipes import Auto, Independent
from threea.table.target_kind import NUMBER

SEEDS, EPSILON, HELD_OUT = 3, 1.0, 0.25
RECIPES = {"real": None, "auto": Auto(), "independent": Independent()}
FIGURES = ("r2", "mae")
MEAN = "the mean"


def tables() -> dict[str, Dataset]:
    """Return the tables by what is predicted: years of age, days in hospital, dollars of cost."""
    adult = datasets.load("adult", DATA.parent)
    assert adult.schema is not None
    return {
        "adult: age": replace(adult, target="age", schema=replace(adult.schema, target="age")),
        "diabetes130: time_in_hospital": _numeric("diabetes130", "diabetes130_hospitals.parquet", "time_in_hospital"),
        "support2: totcst": _numeric("support2", "support2.parquet", "totcst"),
        "houses: price": houses(),
    }


def _numeric(name: str, file: str, target: str) -> Dataset:
    """Return a dataset with a number of its file in place of its target."""
    dataset = datasets.load(name, DATA.parent)
    number = read(DATA.parent, file, keep=[target])[target]
    return replace(
        dataset, table=dataset.table.drop_columns([dataset.target]).append_column(target, number), target=target
    )


def about(dataset: Dataset) -> dict[str, Any]:
    """Return what is to be known of a table."""
    return {
        "title": dataset.title,
        "rows": dataset.table.num_rows,
        "training_rows": dataset.training_rows,
        "features": dataset.features,
        "schema": dataset.schema_origin,
    }


def measured(dataset: Dataset, seed: int) -> dict[str, dict[str, float]]:
    """Return the figures of LightGBM trained on real and on released rows, and of the real rows' mean."""
    train, test = dataset.split(seed, HELD_OUT)
    real, truth = (part.labelled().target for part in matrices([train, test], described(dataset)))
    figures = metrics.regression(np.full(len(truth), real.mean()), truth)(np.ones((1, len(truth))))
    scores_by = {MEAN: {name: float(figures[name][0]) for name in FIGURES}}
    for name, recipe in RECIPES.items():
        learned = train
        if recipe is not None:
            learned, made = released(
                dataset,
                train,
                recipe,
                epsilon=EPSILON,
                delta=1 / train.num_rows,
                adjacency="add-remove",
                seed=seed,
                rows=rows_drawn(train.num_rows, train.num_columns),
                # Few whole numbers, such as days, would be taken for classes.
                target_kind=NUMBER if dataset.schema is None else None,
            )
            assert made["guarantee"] == "proven"
            assert made["accounted_epsilon"] <= EPSILON
        scores = scored(dataset, real=train, train=learned, test=test, names=["lightgbm"], seed=seed)["lightgbm"]
        scores_by[name] = {figure: scores[figure] for figure in FIGURES}
    return scores_by


def main() -> None:
    """Measure every table, with a split of its own for each seed; write a page beside the JSON."""
    results: dict[str, Any] = {}
    for target, dataset in tables().items():
        by_seed = [measured(dataset, seed) for seed in range(SEEDS)]
        results[target] = about(dataset) | {
            name: {
                figure: {
                    "mean": statistics.mean(scores[name][figure] for scores in by_seed),
                    "stdev": statistics.stdev(scores[name][figure] for scores in by_seed),
                    "by_seed": [scores[name][figure] for scores in by_seed],
                }
                for figure in FIGURES
            }
            for name in (*RECIPES, MEAN)
        }
    settings = {
        "epsilon": EPSILON,
        "delta": "one in the number of training rows",
        "adjacency": "add-remove",
        "seeds": SEEDS,
        "held_out": HELD_OUT,
        "synthetic_rows": {name: rows_drawn(r["training_rows"], r["features"] + 1) for name, r in results.items()},
        "learner": {"lightgbm": learners.SETTINGS["lightgbm"], "objective": "regression"},
    }
    record("regression", settings, results)
    (RESULTS / "regression.md").write_text(page(results))


def page(results: dict[str, Any]) -> str:
    """Return the figures as a table in Markdown."""
    ways = (*RECIPES, MEAN)
    lines = [f"| predicted | figure | rows | bounds | {' | '.join(ways)} |", "| --- " * (4 + len(ways)) + "|"]
    for target, result in results.items():
        for figure in FIGURES:
            # As many decimals as make three digits of the error: costs have none.
            decimals = 3 if figure == "r2" else max(2 - int(np.log10(result["real"][figure]["mean"])), 0)
            cells = (
                f"{result[w][figure]['mean']:z,.{decimals}f} ± {result[w][figure]['stdev']:z,.{decimals}f}"
                for w in ways
            )
            lines.append(f"| {target} | {figure} | {result['rows']:,} | {result['schema']} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
