"""The published score beside the truth: is what a release says of its own worth right, and what does saying it cost?

Every run releases training rows with a score, and tests the very model that the score is about on held-out rows. The
interval is about rows like the private ones, of which the held-out rows are a sample: the distance between the two is
compared with the interval alone, and with the held-out rows' own sampling error beside it.
"""

import json
import math
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import datasets
from benchmarks.adult import DATA
from benchmarks.datasets.dataset import Dataset
from benchmarks.record import RESULTS, record
from threea.release import Release
from threea.scoring import learned, optimism, training_rows
from threea.session import prepare, synthesize
from threea.table import codec

SHARE, EPSILON, HELD_OUT = 0.03, 1.0, 0.25
SEEDS = {"adult": 4, "pima": 8, "phishing": 5, "support2": 5, "diabetes130": 2}
COST_SEEDS, SHARES = {"adult": 4, "pima": 12, "credit": 2}, {"without": 0.0, "with": SHARE}
CELLS = RESULTS / "score.cells.jsonl"
"""Every run as it was made: a broken-off benchmark goes on where it was."""


def kept(key: str, run: Callable[[], Any], cells: Path = CELLS) -> Any:
    """Return a run's result, from the file of those that were made or made now."""
    known = dict(map(json.loads, cells.read_text().splitlines())) if cells.exists() else {}
    if key not in known:
        known[key] = run()
        with cells.open("a") as file:
            file.write(json.dumps([key, known[key]]) + "\n")
    return known[key]


def released(dataset: Dataset, train: pa.Table, seed: int, share: float) -> Release:
    """Make a release with a score."""
    known = {"target": dataset.target} if dataset.schema is None else {"schema": dataset.schema}
    return synthesize(train, epsilon=EPSILON, delta=1 / train.num_rows, seed=seed, score=share, **known)


def truth(release: Release, test: pa.Table) -> tuple[dict[str, float], float]:
    """Return what the scored model reaches on held-out rows, and the standard error of the main figure."""
    model = learned(training_rows(release), release.schema, release.class_weights)
    assert model is not None
    rows = codec.encode(test, release.schema)
    figures = optimism.exact(model, rows, release.schema)
    rng, drawn = np.random.default_rng(0), []
    for _ in range(50):
        chosen = rng.integers(0, test.num_rows, test.num_rows)
        again = optimism.exact(model, {name: values[chosen] for name, values in rows.items()}, release.schema)
        drawn.append(again[next(iter(again))])
    return figures, statistics.stdev(drawn)


def compared_once(dataset: Dataset, seed: int) -> dict[str, Any]:
    """Compare the score of one release with the truth."""
    train, test = dataset.split(seed, HELD_OUT)
    release = released(dataset, train, seed, SHARE)
    figures, error = truth(release, test)
    assert release.score is not None
    main = release.score.figures[0]
    known = main.value is not None and main.margin is not None
    apart = main.value - figures[main.name] if known else None
    return {
        "figure": main.name,
        "expected": main.value,
        "margin": main.margin,
        "optimism_taken_off": main.optimism,
        "held_out": figures[main.name],
        "held_out_stderr": error,
        "covered": abs(apart) <= main.margin if known else None,
        "covered_with_held_out_error": abs(apart) <= math.hypot(main.margin, 1.96 * error) if known else None,
    }


def compared(name: str) -> dict[str, Any]:
    """Compare the score with the truth, once for each seed."""
    dataset = datasets.load(name, DATA.parent)
    runs = [kept(f"{name} score {seed}", partial(compared_once, dataset, seed)) for seed in range(SEEDS[name])]
    told = [run for run in runs if run["expected"] is not None]
    return {
        "training_rows": dataset.training_rows,
        "told": f"{len(told)} of {len(runs)}",
        "mean_margin": statistics.mean(run["margin"] for run in told) if told else None,
        "mean_difference": statistics.mean(run["expected"] - run["held_out"] for run in told) if told else None,
        "covered": f"{sum(run['covered'] for run in told)} of {len(told)}",
        "covered_with_held_out_error": f"{sum(run['covered_with_held_out_error'] for run in told)} of {len(told)}",
        "runs": runs,
    }


def cost(name: str) -> dict[str, Any]:
    """Return the AUC of models trained on releases that spent a share on their score."""
    dataset = datasets.load(name, DATA.parent)
    found: dict[str, list[float]] = {
        name_of: [
            kept(f"{name} cost {share} {seed}", partial(truth_without_score, dataset, seed, share))
            for seed in range(COST_SEEDS[name])
        ]
        for name_of, share in SHARES.items()
    }
    return {
        share: {
            "mean_auc": statistics.mean(values),
            "stdev": statistics.stdev(values),
            "mean_loss": statistics.mean(a - b for a, b in zip(found["without"], values, strict=True)),
            "loss_stderr": statistics.stdev(a - b for a, b in zip(found["without"], values, strict=True))
            / math.sqrt(len(values)),
            "by_seed": values,
        }
        for share, values in found.items()
    }


def truth_without_score(dataset: Dataset, seed: int, share: float) -> float:
    """Return the held-out AUC of a model trained on a release whose recipe had the rest of the budget.

    What the score itself says does not matter here: the question is not asked.
    """
    train, test = dataset.split(seed, HELD_OUT)
    known = {"target": dataset.target} if dataset.schema is None else {"schema": dataset.schema}
    prepared = prepare(train, epsilon=EPSILON, delta=1 / train.num_rows, seed=seed, score=share, **known)
    release = prepared.recipe.run(prepared.table, seed=seed, plan=prepared.plan)
    model = learned(training_rows(release), release.schema)
    assert model is not None
    return optimism.exact(model, codec.encode(test, release.schema), release.schema)["auc"]


def main() -> None:
    """Measure and write down."""
    settings = {
        "recipe": "auto",
        "epsilon": EPSILON,
        "delta": "one in the number of training rows",
        "adjacency": "add-remove",
        "score": SHARE,
        "held_out": HELD_OUT,
        "seeds": SEEDS,
        "cost_seeds": COST_SEEDS,
        "chosen_on": ["adult", "pima", "credit", "simulated hospital stays"],
        "reported_on": ["phishing", "support2", "diabetes130"],
    }
    compared_by = {name: compared(name) for name in SEEDS}
    record("score", settings, {"score_and_truth": compared_by, "cost": {name: cost(name) for name in COST_SEEDS}})


if __name__ == "__main__":
    main()
