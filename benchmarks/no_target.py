"""Tables without a target: how far releases are from the private rows in columns, pairs and triples.

What `auto` picks there was chosen on `CHOSEN_ON`; the others are reported only.
"""

import dataclasses
import os
import statistics
import time
from pathlib import Path
from typing import Any

from benchmarks import datasets
from benchmarks.datasets import Dataset
from benchmarks.record import record
from threea.evaluate.fidelity import marginals
from threea.framework import Recipe
from threea.recipes import AIM, MST, Independent, LabelTree, PrivBayes
from threea.session import synthesize
from threea.table import codec

DATA = Path(os.environ.get("THREEA_DATA", Path(__file__).parents[2] / "shared" / "data"))
CHOSEN_ON, REPORTED = ("pima", "phishing"), ("adult32",)
SEEDS, EPSILON = 2, 1.0
DISTANCES = ("tv1", "tv2", "tv3")


def distances(dataset: Dataset, recipe: Recipe) -> dict[str, Any]:
    """Make releases of three quarters of the rows, and return their mean distances to these rows, and the time."""
    assert dataset.schema is not None
    cells = []
    for seed in range(SEEDS):
        train, _ = dataset.split(seed)
        schema = dataclasses.replace(codec.fit(dataset.schema, train.schema), target=None)
        start = time.process_time()
        release = synthesize(
            train,
            schema=schema,
            epsilon=EPSILON,
            delta=1 / train.num_rows,
            recipe=recipe,
            rows=train.num_rows,
            seed=seed,
        )
        left, right = (marginals.Sorted.of(table, schema, seed=0) for table in (train, release.table))
        cells.append(marginals.mean_total_variation(left, right, 0) | {"seconds": time.process_time() - start})
    return {name: round(statistics.mean(cell[name] for cell in cells), 4) for name in (*DISTANCES, "seconds")}


def main() -> None:
    """Measure every recipe that works without a target."""
    recipes: dict[str, Recipe] = {
        "labeltree": LabelTree(),
        "mst": MST(),
        "aim": AIM(),
        "privbayes": PrivBayes(),
        "independent": Independent(),
    }
    results = {}
    for name in (*CHOSEN_ON, *REPORTED):
        dataset = datasets.load(name, DATA)
        results[name] = {text: distances(dataset, recipe) for text, recipe in recipes.items()}
        print(name, results[name], flush=True)
    settings = {"epsilon": EPSILON, "delta": "1 / training rows", "seeds": SEEDS, "chosen_on": CHOSEN_ON}
    record("no_target", settings, results)


if __name__ == "__main__":
    main()
