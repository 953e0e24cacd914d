"""Is choosing privately worth its price? Releases of the default recipe beside the best of two or three, same budget."""

import math
import statistics
from typing import Any

from benchmarks import datasets
from benchmarks.adult import DATA
from benchmarks.record import record
from threea.scoring import learned, optimism, training_rows
from threea.session import synthesize
from threea.table import codec

EPSILON, HELD_OUT = 1.0, 0.25
SEEDS = {"pima": 6, "adult": 2, "phishing": 3, "support2": 3}
TUNED: dict[str, dict[str, Any]] = {"auto": {}, "tune 2": {"tune": 2}, "tune 3": {"tune": 3}}


def reached(name: str, seed: int, options: dict[str, Any]) -> tuple[float, str]:
    """Return the held-out AUC of a model trained on a release, and which recipe made it."""
    dataset = datasets.load(name, DATA.parent)
    train, test = dataset.split(seed, HELD_OUT)
    known = {"target": dataset.target} if dataset.schema is None else {"schema": dataset.schema}
    release = synthesize(train, epsilon=EPSILON, delta=1 / train.num_rows, seed=seed, **known, **options)
    model = learned(training_rows(release), release.schema, release.class_weights)
    assert model is not None
    return optimism.exact(model, codec.encode(test, release.schema), release.schema)["auc"], release.recipe


def main() -> None:
    """Measure and write down."""
    results: dict[str, Any] = {}
    for name, seeds in SEEDS.items():
        runs = {way: [reached(name, seed, options) for seed in range(seeds)] for way, options in TUNED.items()}
        base = [auc for auc, _ in runs["auto"]]
        results[name] = {
            way: {
                "mean_auc": statistics.mean(auc for auc, _ in found),
                "stdev": statistics.stdev(auc for auc, _ in found),
                "mean_gain": statistics.mean(auc - other for (auc, _), other in zip(found, base, strict=True)),
                "gain_stderr": statistics.stdev(auc - other for (auc, _), other in zip(found, base, strict=True))
                / math.sqrt(seeds),
                "kept": [recipe for _, recipe in found],
            }
            for way, found in runs.items()
        }
        print(name, results[name], flush=True)
    settings = {
        "epsilon": EPSILON,
        "delta": "one in the number of training rows",
        "adjacency": "add-remove",
        "seeds": SEEDS,
        "held_out": HELD_OUT,
        "chosen_on": ["pima", "adult"],
        "reported_on": ["phishing", "support2"],
    }
    record("tune", settings, results)


if __name__ == "__main__":
    main()
