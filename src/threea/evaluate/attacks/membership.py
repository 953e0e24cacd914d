"""Membership inference: can one tell, from the release, whether a row was among those it was made from?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.evaluate.areas import area_figure, weights
from threea.evaluate.attacks.nearness import Pool, Scaled, cells
from threea.evaluate.attacks.scene import Scene, report, targets
from threea.evaluate.intervals import excess, figure, share
from threea.evaluate.learned import learned
from threea.evaluate.pairs import Swapped, by_person, chance

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
        figures=_figures((train.astype(np.float64), control.astype(np.float64)), scene.pair, scene.rng("density")),
        rows=f"{targets(scene)}; {len(scene.reference)} reference rows",
    )


def classifier(scene: Scene) -> dict[str, Any]:
    """Learn to tell members from distances and likelihoods, on rows whose membership the attacker knows.

    Half of the people teach the attacker, the other half are attacked. Scoring every row by a model fitted to the
    others would use them all, but such scores hang together. Another stay of a person whom the attacker knows is
    recognised without any release: so a person is on one side.
    """
    samples = ((scene.train, scene.near_train), (scene.control, scene.near_control))
    features = [_features(scene, rows, near) for rows, near in samples]
    rng = scene.rng("membership classifier")
    scores, attacked = learned((features[0], features[1]), scene.pair, int(rng.integers(1 << 30)))
    return report(
        "membership inference by classifier",
        question="Can a model that knows some members learn to tell the others, from distances and likelihoods?",
        shows="An area above one half means that membership can be learned.",
        cannot_show=_AVERAGE,
        claim="membership of the training set can be learned",
        figures=_figures(scores, attacked, rng),
        rows=f"{targets(scene)}; half of the people teach the attacker, {2 * len(attacked)} rows are attacked",
    )


def _figures(rows: tuple[Vector, Vector], pair: NDArray[np.int64], rng: np.random.Generator) -> list[dict[str, Any]]:
    """Return how well the scores of training and of control rows, which are of these pairs of people, tell them."""
    caught, threshold = _caught(rows, pair)
    true, false = (by_person(scores >= threshold, pair) for scores in rows)
    name = f"true positives at {FALSE_POSITIVES:.0%} false positives"
    p = chance(lambda swapped: caught(swapped).max(axis=1), len(true), 2 * len(pair), rng)
    return [
        area_figure("area under the curve", rows, pair, rng),
        figure(name, *share(true), "Clopper-Pearson over persons", float(false.mean())),
        figure(f"{name}, excess", *excess(true, false), "Newcombe over persons", 0.0, p),
    ]


def _caught(rows: tuple[Vector, Vector], pair: NDArray[np.int64]) -> tuple[Callable[[Swapped], Vector], float]:
    """Return a function from swaps to the true positives at each threshold, and the threshold that has most.

    These are shares of the rows at or above a threshold; one with too many false positives has no true ones.
    """
    scores = np.concatenate(rows)
    order = np.argsort(-scores, kind="stable")
    scores, pairs, mass = scores[order], np.tile(pair, 2)[order], np.tile(weights(pair), 2)[order]
    member = order < len(pair)
    last = np.flatnonzero(np.append(scores[1:] != scores[:-1], True))
    reached = np.cumsum(mass)[last]

    def caught(swapped: Swapped) -> Vector:
        true = np.cumsum((member ^ swapped[:, pairs]) * mass, axis=1)[:, last]
        return np.where(reached - true <= FALSE_POSITIVES + 1e-9, true, 0.0)

    true = caught(np.zeros((1, int(pair[-1]) + 1), np.bool_))[0]
    return caught, float(scores[last][true.argmax()]) if true.any() else float("inf")


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
