"""Attacks by distance: are released rows nearer to the rows they were made from than to others of the same kind?"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.evaluate.attacks.nearness import Pool, entropies, scaled
from threea.evaluate.attacks.scene import WORK, Scene, contrast, report, targets
from threea.evaluate.intervals import area, clustered_share, figure, quantile
from threea.table.schema import Kind

Vector = NDArray[np.float64]
QUERIES = 5_000
_ORDER = "order statistics"


def closest_record(scene: Scene) -> dict[str, Any]:
    """Compare how near released rows come to training rows and to as many holdout rows."""
    crowd = len(scene.train_crowd)
    count = min(len(scene.synthetic), QUERIES, max(WORK // (2 * crowd * scene.synthetic.shape[1]), 1))
    queries = scene.synthetic[:count]
    to_train, to_holdout = (
        Pool.of(scaled(raw[chosen], scene.schema)).nearest(queries, 1)
        for raw, chosen in ((scene.raw_train, scene.train_crowd), (scene.raw_holdout, scene.holdout_crowd))
    )
    near, far = to_train[0][:, 0], to_holdout[0][:, 0]
    untied = near != far
    closer = (near < far)[untied]
    # Released rows that share their nearest real row say the same thing about it: they are one piece of evidence.
    winner = np.where(closer, to_train[1][untied, 0], crowd + to_holdout[1][untied, 0])
    share, interval = clustered_share(closer, winner)
    figures = [
        figure(f"{word} distance to {rows} rows", *quantile(distances.astype(np.float64), level), _ORDER)
        for rows, distances in (("training", near), ("holdout", far))
        for word, level in (("median", 0.5), ("5th percentile of", 0.05))
    ]
    figures.append(
        figure(
            "share of released rows closer to a training row (ties left out)",
            share,
            interval,
            "Clopper-Pearson at the effective number of nearest real rows (Korn and Graubard)",
            0.5,
            decides=True,
        )
    )
    return report(
        "distance to closest record",
        question="Are released rows closer to training rows than to real rows that the release never saw?",
        shows="A share above one half means that released rows were drawn towards training rows.",
        cannot_show="A few memorised rows among many drown in this average, and the distance itself is one of many.",
        claim="released rows lean towards the rows they were made from",
        figures=figures,
        rows=f"{count} released rows against {crowd} training and {crowd} holdout rows; {untied.mean():.1%} not tied",
    )


def neighbour_ratio(scene: Scene) -> dict[str, Any]:
    """Compare how much nearer the nearest released row is than the second, for training and control rows."""
    train, control = (_ratio(near.astype(np.float64)) for near in (scene.near_train, scene.near_control))
    figures = [
        figure(f"{word} ratio, {rows} rows", *quantile(ratios, level), _ORDER)
        for rows, ratios in (("training", train), ("control", control))
        for word, level in (("median", 0.5), ("5th percentile of", 0.05))
    ]
    lower = area(-train, -control)
    figures.append(figure("probability that a training row has the lower ratio", *lower, "DeLong", 0.5, decides=True))
    return report(
        "nearest-neighbour ratio",
        question="Does one released row stand out as near a training row, more than for rows the release never saw?",
        shows="Lower ratios for training rows mean that single released rows point at single training rows.",
        cannot_show="A row copied twice has a ratio of 1 and goes unseen, and so does a row that blurs into a crowd.",
        claim="single released rows point at single training rows",
        figures=figures,
        rows=targets(scene),
    )


def _ratio(near: Vector) -> Vector:
    """Return nearest over second nearest distance; 1 where both are nought."""
    if near.shape[1] < 2:
        return np.ones(len(near))
    return np.divide(near[:, 0], near[:, 1], out=np.ones(len(near)), where=near[:, 1] > 0)


def identifiability(scene: Scene) -> dict[str, Any]:
    """Measure the share of rows to which a released row is nearer than any other real row.

    Columns count by the inverse of their entropy, so that agreement on a rare value outweighs agreement on a common
    one. Both training and control rows meet the same other real rows, so that their shares can be compared.

    Reference:
        Yoon, Drumright, van der Schaar (2020), Anonymization through data synthesis using generative adversarial
        networks (ADS-GAN), definition 1.
    """
    entropy = entropies(scene.reference)
    weights = np.divide(1.0, entropy, out=np.zeros_like(entropy), where=entropy > 0)
    released, others = (Pool.of(rows, weights) for rows in (scene.synthetic, scene.reference))
    train, control = (
        released.nearest(rows, 1)[0][:, 0] < others.nearest(rows, 1)[0][:, 0] for rows in (scene.train, scene.control)
    )
    return report(
        "identifiability",
        question="Is some released row nearer to a training row than any other real row is?",
        shows="An excess means that released rows single training rows out better than real neighbours do.",
        cannot_show="The share itself is high for harmless fresh rows too; only its excess over control rows tells.",
        claim="released rows identify training rows better than rows the release never saw",
        figures=contrast("share identifiable", train, control),
        rows=f"{targets(scene)} and {len(scene.reference)} other real rows",
    )


def exact_copies(scene: Scene) -> dict[str, Any]:
    """Count real rows that stand in the release word for word."""
    released = _signatures(scene, scene.raw_synthetic)
    known = set(released)
    train, control = (
        np.array([row in known for row in _signatures(scene, raw)], np.bool_)
        for raw in (scene.raw_train, scene.raw_holdout)
    )
    return report(
        "exact copies",
        question="Do training rows stand in the release word for word, more often than rows it never saw?",
        shows="An excess means that rows were copied; the share of holdout rows is what chance alone repeats.",
        cannot_show="A copy with one digit changed is no exact copy.",
        claim="training rows were copied",
        figures=contrast("share found in the release", train, control),
        rows=f"{len(train)} training and {len(control)} holdout rows against {len(released)} released rows",
    )


def _signatures(scene: Scene, raw: Vector) -> list[bytes]:
    """Return each row as bytes that are equal for equal rows."""
    real = [index for index, column in enumerate(scene.schema.valued) if column.kind is Kind.REAL]
    # A number written to text and read back may differ past its seventh digit, and minus nought equals nought.
    rounded = raw + 0.0
    with np.errstate(over="ignore"):
        rounded[:, real] = raw[:, real].astype(np.float32)
    rounded[np.isnan(rounded)] = np.nan
    return [row.tobytes() for row in rounded]
