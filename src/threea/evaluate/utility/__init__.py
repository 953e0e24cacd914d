"""What a release is worth for learning: train on synthetic, test on real; beside the same models on real rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.evaluate.evidence import Evidence, Matrix, matrices
from threea.evaluate.utility import importance, metrics
from threea.evaluate.utility.baseline import independent_rows
from threea.evaluate.utility.learners import LEARNERS, RARE, Fitted, Task, fit
from threea.evaluate.utility.threads import side_by_side

Progress = Callable[[str], None]
"""Told what begins."""

SCENARIOS = {
    "real": "trained on the real training rows, tested on the holdout: what the synthetic rows aim at",
    "synthetic": "trained on the released rows, tested on the holdout",
    "independent": "trained on rows that `independent` makes from the same budget, tested on the holdout: the bar",
    "reverse": "trained on the real training rows, tested on the released rows",
    "synthetic_minus_real": "what is lost by training on the released rows, on the same holdout rows",
    "synthetic_minus_independent": "what is gained over `independent`, on the same holdout rows",
}


def utility(evidence: Evidence, seed: int = 0, progress: Progress | None = None) -> dict[str, Any]:
    """Score models trained on the release against models trained on real rows. Owner-only: it reads real rows.

    Args:
        evidence: The release and the real rows.
        seed: Makes it repeatable.
        progress: Told what begins.

    Returns:
        Plain data. ``target``, ``task`` (classification or regression), ``classes``, ``positive`` (which of two classes
        counts as positive: the rarer in the training rows), ``rare_target`` (whether the settings for one were used,
        and why), ``rows`` (per table), ``class_weights`` (how much a released row counts by its class, where models
        learn from it or are tested on it; empty if all count the same), ``interval`` (how intervals were made),
        ``meanings`` (per metric), ``scenarios`` (per scenario), ``independent`` (``made``, ``how``), ``notes``,
        ``importance`` (see `importance.agreement`), and ``learners``: per learner its ``settings``, ``fitted_rows`` and
        ``test_rows`` per table, ``calibration`` (of two classes, curves on the holdout), and per scenario and metric
        a ``value`` and an ``interval``, None where undefined.

    Raises:
        SettingError: The release has no target.
        InputError: The real rows have nothing to learn.
        MissingExtra: scikit-learn or LightGBM is not installed.
    """
    tell = progress or (lambda _: None)
    tell("independent rows of the same budget")
    baseline, how = independent_rows(evidence, seed)
    tables = {"real": evidence.train, "synthetic": evidence.synthetic, "holdout": evidence.holdout}
    tables |= {"independent": baseline} if baseline is not None else {}
    coded = dict(zip(tables, matrices(list(tables.values()), evidence.schema), strict=True))
    coded["synthetic"] = replace(coded["synthetic"], weights=evidence.weights)
    coded["holdout"] = replace(coded["holdout"], units=evidence.units[1])
    task = Task.of(coded["real"])
    pairs = [(learner, name) for learner in LEARNERS for name in ("real", "synthetic", "independent") if name in coded]
    fits = {f"{learner} on {name} rows": partial(fit, learner, coded[name], seed, task) for learner, name in pairs}
    models = dict(zip(pairs, side_by_side(fits, tell).values(), strict=True))
    tests = {
        learner: partial(
            _scores, {name: model for (fitted, name), model in models.items() if fitted == learner}, coded, seed
        )
        for learner in LEARNERS
    }
    learners = side_by_side(tests, lambda learner: tell(f"testing {learner}"))
    tell("feature importance")
    return {
        **_described(evidence, coded, task),
        "rows": {name: table.num_rows for name, table in tables.items()},
        "class_weights": evidence.class_weights,
        "interval": metrics.INTERVAL,
        "meanings": {name: metrics.MEANINGS[name] for name in learners[LEARNERS[0]]["real"]},
        "scenarios": SCENARIOS,
        "independent": {"made": baseline is not None, "how": how},
        "learners": learners,
        "importance": importance.agreement(
            models["lightgbm", "real"], models["lightgbm", "synthetic"], coded["holdout"], seed
        ),
    }


def _described(evidence: Evidence, coded: dict[str, Matrix], task: Task) -> dict[str, Any]:
    """Say what is learned, and what was left out of it."""
    classes = coded["real"].classes
    notes = list(evidence.warnings)
    for name in ("holdout", "synthetic"):
        lost = len(coded[name].labelled().target) - len(task.testable(coded[name]).target)
        if lost:
            notes.append(f"{lost} {name} rows have a class that no training row has; they are not scored")
    if not task.numeric:
        absent = set(task.labels) - {int(label) for label in np.unique(coded["synthetic"].labelled().target)}
        if absent:
            notes.append(f"{len(absent)} of {len(task.labels)} classes are absent from the synthetic rows")
    below = f"{RARE['below_share']:.0%}"
    return {
        "target": evidence.schema.target,
        "task": "regression" if task.numeric else "classification",
        "classes": [classes[label] for label in task.labels],
        "positive": None if task.positive is None else classes[task.positive],
        "rare_target": {
            "applies": task.rare,
            "rule": f"if the rarer of two classes has under {below} of the real training rows, LightGBM learns slower "
            "and with fewer leaves on every table; its usual settings fall apart even on real rows",
        },
        "notes": notes,
    }


def _scores(models: dict[str, Fitted], coded: dict[str, Matrix], seed: int) -> dict[str, Any]:
    """Score one learner's models in every scenario."""
    drawn: dict[str, dict[str, NDArray[np.float64]]] = {}
    tested: dict[str, int] = {}
    pairs = [(name, model, coded["holdout"]) for name, model in models.items()]
    if len(models["real"].task.testable(coded["synthetic"]).target):
        pairs.append(("reverse", models["real"], coded["synthetic"]))
    for name, model, test in pairs:
        figures, tested[name] = model.figures(test)
        drawn[name] = metrics.draws(figures, tested[name], seed, model.tested(test).units)
    for other in ("real", "independent"):
        if other in drawn:
            drawn[f"synthetic_minus_{other}"] = {
                metric: values - drawn[other][metric] for metric, values in drawn["synthetic"].items()
            }
    model = models["real"]
    return {
        "settings": model.task.settings[model.learner],
        "fitted_rows": {name: fitted.rows for name, fitted in models.items()},
        "test_rows": tested,
        "calibration": {name: fitted.calibration(coded["holdout"]) for name, fitted in models.items()},
        **{
            name: {metric: metrics.summary(values) for metric, values in by_metric.items()}
            for name, by_metric in drawn.items()
        },
    }
