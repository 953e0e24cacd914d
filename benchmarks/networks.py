"""Generators trained on noisy answers: AUC on Adult and accuracy on MNIST of LightGBM that learns from their rows.

Releases already in the results are not made again: remove the file to start anew.
"""

import datetime
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

from benchmarks import datasets
from benchmarks.measure import named_recipe, taught
from benchmarks.record import RESULTS, record

DATA = Path(os.environ.get("THREEA_DATA", Path(__file__).parents[2] / "shared" / "data"))
RUNS = (
    ("adult", "laplacegan:form=input", (10.0, 3.0, 1.0), 3),
    ("adult", "laplacegan:form=gradient", (10.0,), 3),
    ("adult", "dpmerf", (1.0,), 3),
    ("mnist", "dpmerf", (1.0,), 3),
    ("adult", "laplacegan:form=gradient", (3.0, 1.0), 1),
    ("mnist", "laplacegan:form=input", (10.0, 3.0, 1.0), 1),
)
"""Table, recipe, epsilons and seeds. Settings were chosen on these two tables."""
ROWS = {"adult": 50_000, "mnist": 15_000}
"""Drawn from each release."""
SETTINGS = {"delta": "1 / rows", "rows drawn": ROWS, "learner": "lightgbm", "schema": "public"}


def main() -> None:
    """Make releases, and score what learns from them on held-out rows; THREEA_RUNS names tables and recipes."""
    wanted = os.environ.get("THREEA_RUNS")
    for name, text, epsilons, seeds in RUNS:
        for epsilon in epsilons:
            key = f"{name}-{text.replace(':form=', '-')}-{epsilon:g}"
            for seed in range(seeds):
                if (wanted is None or key in wanted.split(",")) and len(held(key)["by_seed"]) <= seed:
                    found = score(name, text, epsilon, seed)
                    record("networks", SETTINGS, results() | {key: added(held(key), *found)})


def results() -> dict[str, Any]:
    """Return what was measured so far."""
    path = RESULTS / "networks.json"
    return dict(json.loads(path.read_text())["results"]) if path.exists() else {}


def held(key: str) -> dict[str, Any]:
    """Return what was measured so far of one recipe."""
    return dict(results().get(key, {"by_seed": [], "cpu_seconds": []}))


def score(name: str, text: str, epsilon: float, seed: int) -> tuple[str, float, float]:
    """Make one release; return the metric, the score, and the seconds it took."""
    dataset, start = datasets.load(name, DATA), time.process_time()
    train, test = dataset.split(seed)
    options: dict[str, Any] = {"epsilon": epsilon, "seed": seed, "learner": "lightgbm", "rows": ROWS[name]}
    cell = taught(dataset, train, test, named_recipe(text), **options)
    return dataset.metric, float(cell["score"]), round(time.process_time() - start, 1)


def added(held: dict[str, Any], metric: str, found: float, seconds: float) -> dict[str, Any]:
    """Return a result with one more seed."""
    scores = [*held["by_seed"], found]
    return {
        "metric": metric,
        "mean": statistics.mean(scores),
        "stdev": statistics.stdev(scores) if len(scores) > 1 else None,
        "by_seed": scores,
        "cpu_seconds": [*held["cpu_seconds"], seconds],
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }
