"""Attacks by distance: are released rows nearer to the rows they were made from than to others of the same kind?"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.evaluate.areas import area_figure
from threea.evaluate.attacks.nearness import Pool, entropies, scaled
from threea.evaluate.attacks.scene import WORK, Scene, contrast, paired, report, targets
from threea.evaluate.intervals import clustered_share, figure, quantile
from threea.evaluate.pairs import chance_of_hits, chance_of_sum
from threea.table.schema import Kind

Vector = NDArray[np.float64]
QUERIES = 5_000


def closest_record(scene: Scene) -> dict[str, Any]:
    """Count for how many released rows a training row is the nearest real row, and for how many a holdout row is."""
    crowd = len(scene.raw_train)
    count = min(len(scene.synthetic), QUERIES, max(WORK // (2 * crowd * scene.synthetic.shape[1]), 1))
    queries = scene.synthetic[:count]
    pool = Pool.of(scaled(np.concatenate([scene.raw_train, scene.raw_holdout]), scene.schema))
    votes, nearest = np.zeros(2 * crowd), []
    for block in pool.blocks(queries):
        distances = pool.distances(queries[block])
        nearest.append(np.column_stack([part.min(axis=1) for part in (distances[:, :crowd], distances[:, crowd:])]))
        # Rows that are equally near share a released row's vote.
        winners = distances == nearest[-1].min(axis=1, keepdims=True)
        votes += (1 / winners.sum(axis=1)) @ winners
    near = np.concatenate(nearest).astype(np.float64)
    train, holdout = (np.bincount(scene.crowd, part).astype(np.float64) for part in (votes[:crowd], votes[crowd:]))
    figures = [
        figure(f"{word} distance to {rows} rows", *quantile(distances, level), "order statistics")
        for rows, distances in (("training", near[:, 0]), ("holdout", near[:, 1]))
        for word, level in (("median", 0.5), ("5th percentile of", 0.05))
    ]
    figures.append(
        figure(
            "share of released rows closest to a training row",
            *clustered_share(train, holdout),
            "Clopper-Pearson at the effective number of nearest persons (Korn and Graubard)",
            0.5,
            chance_of_sum((train - holdout) / count, scene.rng("closest record")),
        )
    )
    return report(
        "distance to closest record",
        question="Are released rows closer to training rows than to real rows that the release never saw?",
        shows="A share above one half means that released rows were drawn towards training rows.",
        cannot_show="A few memorised rows among many drown in this average, and the distance itself is one of many.",
        claim="released rows lean towards the rows they were made from",
        figures=figures,
        rows=f"{count} released rows against {crowd} training and {crowd} holdout rows",
    )


def neighbour_ratio(scene: Scene) -> dict[str, Any]:
    """Compare how much nearer the nearest released row is than the second, for training and control rows."""
    train, control = (-_ratio(near.astype(np.float64)) for near in (scene.near_train, scene.near_control))
    name = "probability that a training row has the lower ratio"
    return report(
        "nearest-neighbour ratio",
        question="Does one released row stand out as near a training row, more than for rows the release never saw?",
        shows="Lower ratios for training rows mean that single released rows point at single training rows.",
        cannot_show="A row copied twice has a ratio of 1 and goes unseen, and so does a row that blurs into a crowd.",
        claim="single released rows point at single training rows",
        figures=[area_figure(name, (train, control), scene.pair, scene.rng("ratio"))],
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
        figures=paired("share identifiable", (train, control), scene),
        rows=f"{targets(scene)} and {len(scene.reference)} other real rows",
    )


def exact_copies(scene: Scene) -> dict[str, Any]:
    """Count real rows that stand in the release word for word."""
    released = _signatures(scene, scene.raw_synthetic)
    known = set(released)
    train, control = (
        np.array([row in known for row in _signatures(scene, raw)], np.bool_) for raw in scene.raw_persons
    )
    p = chance_of_hits(train, control)
    return report(
        "exact copies",
        question="Do training rows stand in the release word for word, more often than rows it never saw?",
        shows="An excess means that rows were copied; the share of holdout rows is what chance alone repeats.",
        cannot_show="A copy with one digit changed is no exact copy.",
        claim="training rows were copied",
        figures=contrast("share found in the release", train.astype(np.float64), control.astype(np.float64), p),
        rows=f"{len(train)} training and {len(control)} holdout rows, one a person, against {len(released)} released",
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
