"""What a model loses when it learns from a release of Adult instead of from the rows: AUC on held-out rows."""

import os
import statistics
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import record

DATA = Path(os.environ.get("THREEA_DATA", Path(__file__).parents[2] / "shared" / "data")) / "adult.parquet"
SEEDS, EPSILON, DELTA, TREES, HELD_OUT = 5, 1.0, 1e-5, 200, 0.25


def auc(train: Any, test: Any) -> float:
    """Train LightGBM on one table, and return its AUC on the other."""
    import lightgbm
    import pandas
    from sklearn.metrics import roc_auc_score

    train, test = train.dropna(subset=["income"]).copy(), test.copy()
    for name in train.columns.drop("income"):
        if train[name].dtype.kind not in "if":
            known = sorted({*train[name].dropna(), *test[name].dropna()})
            train[name], test[name] = (pandas.Categorical(table[name], categories=known) for table in (train, test))
    model = lightgbm.LGBMClassifier(n_estimators=TREES, verbose=-1)
    model.fit(train.drop(columns="income"), train["income"] == ">50K")
    return float(roc_auc_score(test["income"] == ">50K", model.predict_proba(test.drop(columns="income"))[:, 1]))


def main() -> None:
    """Release Adult from three quarters of its rows, with nothing but the target's name given."""
    import pandas

    import threea

    rows = pandas.read_parquet(DATA).drop(columns="split")
    scores: dict[str, list[float]] = {"real": [], "independent": [], "independent, replace": []}
    for seed in range(SEEDS):
        held_out = np.random.default_rng(seed).random(len(rows)) < HELD_OUT
        train, test = rows[~held_out], rows[held_out]
        scores["real"].append(auc(train, test))
        for name, adjacency in (("independent", "add-remove"), ("independent, replace", "replace")):
            made = threea.synthesize(
                train, target="income", epsilon=EPSILON, delta=DELTA, adjacency=adjacency, recipe="independent"
            )
            assert made.guarantee == "proven"
            assert made.plan.epsilon <= EPSILON
            scores[name].append(auc(made.frame, test))
    results = {
        name: {"mean_auc": statistics.mean(by_seed), "stdev": statistics.stdev(by_seed), "by_seed": by_seed}
        for name, by_seed in scores.items()
    }
    settings = {"epsilon": EPSILON, "delta": DELTA, "seeds": SEEDS, "held_out": HELD_OUT, "schema": "discovered"}
    record("adult", settings | {"classifier": f"LGBMClassifier(n_estimators={TREES}), defaults otherwise"}, results)
