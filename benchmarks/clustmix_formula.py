"""What ClustMix's Eq. 7 can give on wide rows, and what it would give without its factor sqrt(C*D).

The paper reports .903 on isolet and .818 on MNIST, where mixtures are of 118 digits on average. By Eq. 7 noise then has
a standard deviation of sqrt(C*D) / (mu*l), more than twice the range of a pixel. So mixtures of several sizes are made
as published, with the noise that Eq. 7 asks for and with that of 1 / (mu*l), and a learner is trained on each.
"""

import math
import os
from pathlib import Path
from typing import Any

from benchmarks import datasets
from benchmarks.datasets import Dataset
from benchmarks.measure import released, scored
from benchmarks.record import record
from threea.budget import epsilon_from, mu_from
from threea.published.clustmix import ClustMixPublished
from threea.published.scaling import Name

DATA = Path(os.environ.get("THREEA_DATA", Path(__file__).parents[2] / "shared" / "data"))
EPSILON, SEED = 1.0, 0
SIZES: dict[str, tuple[int, ...]] = {"isolet": (15, 30, 60, 100), "mnist": (60, 118, 300)}
SCALINGS: dict[str, Name] = {"isolet": "quantile", "mnist": "minmax"}
LEARNERS = ("lightgbm", "logistic")


def points(dataset: Dataset, classes: int, size: int, factor: bool) -> dict[str, Any]:
    """Make mixtures of `size` rows or more, and score learners that are trained on them."""
    mu, wide = mu_from(EPSILON, dataset.delta), math.sqrt(classes * dataset.features)
    sigma = (wide if factor else 1.0) / (mu * size)
    # Without the factor, noise is that of an epsilon whose mu is larger by as much.
    epsilon = EPSILON if factor else epsilon_from(mu * wide, dataset.delta)
    train, test = dataset.split(SEED)
    recipe = ClustMixPublished(sigma_max=sigma * (1 + 1e-6), scaling=SCALINGS[dataset.name])
    made, cell = released(
        dataset, train, recipe, epsilon=epsilon, delta=dataset.delta, adjacency="add-remove", seed=SEED
    )
    by_learner = scored(dataset, real=train, train=made, test=test, names=LEARNERS, seed=SEED)
    return {
        "rows_mixed": size,
        "noise": "Eq. 7" if factor else "Eq. 7 without sqrt(C*D)",
        "sigma": sigma,
        "epsilon_by_eq_7": epsilon,
        "points": cell["rows"],
        "seconds": round(float(cell["seconds"]), 1),
        **{learner: by_learner[learner][dataset.metric] for learner in LEARNERS},
    }


def main() -> None:
    """Score every size with either noise."""
    results = {}
    for name, sizes in SIZES.items():
        dataset = datasets.load(name, DATA)
        classes = 2 if name == "isolet" else 10
        lines = [points(dataset, classes, size, factor) for size in sizes for factor in (True, False)]
        results[name] = {"metric": dataset.metric, "scaling": SCALINGS[name], "lines": lines}
    record("clustmix_formula", {"epsilon": EPSILON, "seed": SEED, "alpha": 1.0, "learners": list(LEARNERS)}, results)


if __name__ == "__main__":
    main()
