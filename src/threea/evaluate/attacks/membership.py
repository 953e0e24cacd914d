"""Membership inference: can one tell, from the release, whether a row was among those it was made from?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.errors import MissingExtra
from threea.evaluate.attacks.nearness import Pool, Scaled, cells
from threea.evaluate.attacks.scene import FEWEST, Scene, report, targets
from threea.evaluate.intervals import area, excess, figure

Vector = NDArray[np.float64]
FALSE_POSITIVES = 0.01
_TINY = 1e-6  # keeps the logarithm of a distance of nought finite
_AVERAGE = "It is one attacker among many; a stronger one, or one after a single odd row, may still succeed."


def density_ratio(scene: Scene) -> dict[str, Any]:
    """Guess that a row is a member if the release is denser about it than rows of the same kind are.

    Reference:
        Hilprecht, Härterich, Bernau (2019); van Breugel, Sun, Qian, van der Schaar (2023), DOMIAS.
    """
    other = Pool.of(scene.reference)
    train, control = (
        np.log(other.nearest(rows, 1)[0][:, 0] + _TINY) - np.log(near[:, 0] + _TINY)
        for rows, near in ((scene.train, scene.near_train), (scene.control, scene.near_control))
    )
    return report(
        "membership inference by density ratio",
        question="Is the release denser about training rows than about other rows, given how common such rows are?",
        shows="An area above one half means that membership can be guessed better than by a coin.",
        cannot_show=_AVERAGE,
        claim="membership of the training set can be guessed by density",
        figures=_figures(train.astype(np.float64), control.astype(np.float64)),
        rows=f"{targets(scene)}; {len(scene.reference)} reference rows",
    )


def classifier(scene: Scene) -> dict[str, Any]:
    """Learn to tell members from distances and likelihoods, on rows whose membership the attacker knows.

    Half of the people teach the attacker, the other half are attacked. Scoring every row by a model fitted to the
    others would use them all, but such scores hang together and their interval would be too narrow.
    """
    samples = ((scene.train, scene.near_train), (scene.control, scene.near_control))
    features = np.concatenate([_features(scene, rows, near) for rows, near in samples])
    member = np.repeat([True, False], [len(scene.train), len(scene.control)])
    rng = scene.rng("membership classifier")
    people = np.concatenate([scene.train_people, scene.control_people])
    # Another stay of a person whom the attacker knows is recognised without any release.
    taught = rng.permutation(int(people.max()) + 1)[people] % 2 == 0
    attacked = member[~taught]
    figures = []
    # A few people may all fall on one side.
    if (
        min(np.count_nonzero(member[side] == kind) for side in (taught, ~taught) for kind in (True, False))
        >= FEWEST // 2
    ):
        scores = _fitted(features[taught], member[taught], int(rng.integers(1 << 30)))(features[~taught])
        figures = _figures(scores[attacked], scores[~attacked])
    return report(
        "membership inference by classifier",
        question="Can a model that knows some members learn to tell the others, from distances and likelihoods?",
        shows="An area above one half means that membership can be learned.",
        cannot_show=_AVERAGE,
        claim="membership of the training set can be learned",
        figures=figures,
        rows=f"{targets(scene)}; {taught.sum()} of them teach the attacker, the other {len(attacked)} are attacked",
    )


def _figures(train: Vector, control: Vector) -> list[dict[str, Any]]:
    value = area(train, control)
    # The threshold is taken from the control rows themselves; their spread enters the interval as that of a share.
    threshold = np.sort(control)[::-1][int(FALSE_POSITIVES * len(control))]
    true, false = train > threshold, control > threshold
    name = f"true positives at {FALSE_POSITIVES:.0%} false positives"
    return [
        figure("area under the curve", *value, "DeLong", 0.5, decides=True),
        figure(name, *_share(true, false), "Newcombe, about the control rows' share", float(false.mean())),
        figure(f"{name}, excess", *excess(true, false), "Newcombe", 0.0, decides=True),
    ]


def _share(true: NDArray[np.bool_], false: NDArray[np.bool_]) -> tuple[float, tuple[float, float]]:
    base, (low, high) = float(false.mean()), excess(true, false)[1]
    return float(true.mean()), (max(base + low, 0.0), min(base + high, 1.0))


def _features(scene: Scene, rows: Scaled, near: Scaled) -> Vector:
    """Return log distances to the nearest released rows, their ratio, and each cell's log-likelihood among them."""
    likelihoods = [_likelihood(rows[:, index], scene.synthetic[:, index]) for index in range(rows.shape[1])]
    distances = np.log(near.astype(np.float64) + _TINY)
    total = np.sum(likelihoods, axis=0)
    return np.column_stack([distances, distances[:, 0] - distances[:, -1], total, *likelihoods])


def _likelihood(column: Scaled, released: Scaled) -> Vector:
    mine, model = cells(column, released)
    # One cell more for what the release lacks, whether or not these rows have it: samples must share their scale.
    counts = np.bincount(model, minlength=int(model.max()) + 2) + 0.5
    likelihood: Vector = np.log(counts / counts.sum())[mine]
    return likelihood


def _fitted(features: Vector, member: NDArray[np.bool_], seed: int) -> Callable[[Vector], Vector]:
    """Return the scores of a model fitted to rows whose membership is known."""
    try:
        import lightgbm
    except ImportError:
        raise MissingExtra("lightgbm", "evaluate") from None
    settings = {"objective": "binary", "num_leaves": 8, "learning_rate": 0.05, "min_data_in_leaf": 20, "verbose": -1}
    fixed = {"seed": seed, "deterministic": True, "num_threads": 1, "force_row_wise": True}
    model = lightgbm.train(settings | fixed, lightgbm.Dataset(features, member), num_boost_round=100)
    return lambda rows: np.asarray(model.predict(rows))
