"""What a model loses when it learns from a release by `privbayes`, with either kind of noise.

Settings were chosen on rows of Adult; the other table had no say in them.
"""

import os
import statistics
from pathlib import Path
from typing import Any

from benchmarks import datasets
from benchmarks.datasets import Dataset
from benchmarks.measure import rows_drawn, taught
from benchmarks.record import record
from threea.framework import Recipe
from threea.recipes import Independent, PrivBayes

DATA = Path(os.environ.get("THREEA_DATA", Path(__file__).parents[2] / "shared" / "data"))
DATASETS, SEEDS, EPSILON = ("support2", "adult"), 3, 1.0


def scores(dataset: Dataset, recipe: Recipe | None) -> dict[str, Any]:
    """Learn from releases of three quarters of the rows, or from these rows if None, and test on the others."""
    cells = []
    for seed in range(SEEDS):
        train, test = dataset.split(seed)
        rows = rows_drawn(train.num_rows, train.num_columns)
        cells.append(taught(dataset, train, test, recipe, epsilon=EPSILON, seed=seed, learner="lightgbm", rows=rows))
        assert recipe is None or cells[-1]["guarantee"] == "proven"
    by_seed = [float(cell["score"]) for cell in cells]
    found = {"mean_auc": statistics.mean(by_seed), "stdev": statistics.stdev(by_seed), "by_seed": by_seed}
    return found if recipe is None else found | {"seconds": [round(float(cell["seconds"]), 1) for cell in cells]}


def main() -> None:
    """Score the real rows, both kinds of noise, and `independent` beside them."""
    recipes: dict[str, Recipe | None] = {"real": None, "gaussian": PrivBayes(), "laplace": PrivBayes(noise="laplace")}
    recipes["independent"] = Independent()
    results = {}
    for name in DATASETS:
        dataset = datasets.load(name, DATA)
        results[name] = {text: scores(dataset, recipe) for text, recipe in recipes.items()}
    record("privbayes", {"epsilon": EPSILON, "delta": "1 / training rows", "seeds": SEEDS}, results)


if __name__ == "__main__":
    main()
