"""Attribute inference and linkability: what released neighbours of a row give away about the rest of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.evaluate.attacks.nearness import Indices, Pool, Scaled, entropies, smallest
from threea.evaluate.attacks.scene import Scene, paired, report, targets

SECRETS = 6
TOLERANCE = 0.01
"""A guessed number is right within this share of its column's range."""
LINKS = 1
"""How many nearest released rows of each half may make a link."""


def attribute_inference(scene: Scene) -> dict[str, Any]:
    """Guess each secret column of a row from the released row that is nearest in all others.

    The secrets are the target and the columns of highest entropy: these are guessed least by luck.
    """
    secrets = _secrets(scene)
    pool = Pool.of(scene.synthetic)
    guessed = [guesses(pool, rows, secrets) for rows in (scene.train, scene.control)]
    names = [column.name for column in scene.schema.valued]
    figures = []
    for number, secret in enumerate(secrets):
        right = [
            np.abs(scene.synthetic[guess[number], secret] - rows[:, secret]) <= TOLERANCE
            for guess, rows in zip(guessed, (scene.train, scene.control), strict=True)
        ]
        figures += paired(f"right guesses of {names[secret]}", (right[0], right[1]), scene)
    return report(
        "attribute inference",
        question="Given all of a row but one column, is that column guessed better for training rows than for others?",
        shows="An excess on training rows means that the release gives away their values, beyond what holds of anyone.",
        cannot_show="Success on control rows alike is knowledge about the population, which any useful release holds.",
        claim="values of training rows can be guessed because they were in the training set",
        figures=figures,
        rows=f"{targets(scene)}; numbers are right within {TOLERANCE:.0%} of their column's range",
    )


def _secrets(scene: Scene) -> list[int]:
    """Return the target's place and those of the columns of highest entropy among the reference rows."""
    names = [column.name for column in scene.schema.valued]
    first = [names.index(scene.schema.target)] if scene.schema.target else []
    entropy = entropies(scene.reference)
    others = [int(index) for index in np.argsort(-entropy, kind="stable") if index not in first and entropy[index] > 0]
    return (first + others)[:SECRETS]


def guesses(pool: Pool, rows: Scaled, secrets: Sequence[int]) -> list[Indices]:
    """Return, for each secret, each row's nearest released row by all columns but that one."""
    known = [index for index in range(rows.shape[1]) if index not in secrets]
    nearest: list[list[NDArray[np.intp]]] = [[] for _ in secrets]
    for block in pool.blocks(rows):
        base = pool.distances(rows[block], known)
        gaps = [pool.distances(rows[block], [index]) for index in secrets]
        for number in range(len(secrets)):
            # Summed afresh, never subtracted from the whole: rounding would let the secret break ties.
            total = base.copy()
            for other, gap in enumerate(gaps):
                if other != number:
                    total += gap
            nearest[number].append(total.argmin(axis=1))
    return [np.concatenate(parts) for parts in nearest]


def linkability(scene: Scene) -> dict[str, Any]:
    """Try to join the two halves of a row through a released row that is nearest to both.

    Reference:
        Giomi, Boenisch, Wehmeyer, Tasnádi (2022), section 4.2.
    """
    width = scene.train.shape[1]
    order = scene.rng("linkability").permutation(width)
    halves = [sorted(int(index) for index in half) for half in (order[: width // 2], order[width // 2 :])]
    pool = Pool.of(scene.synthetic)
    names = [column.name for column in scene.schema.valued]
    linked = linked_rows(pool, scene.train, halves), linked_rows(pool, scene.control, halves)
    return report(
        "linkability",
        question="Can two halves of a training row be joined through the release, more often than halves of others?",
        shows="An excess means that the release helps to join files about the people in the training set.",
        cannot_show="It splits the columns one way of many; another split may link better.",
        claim="the release joins what belongs to one training row",
        figures=paired("share linked", linked, scene),
        rows=f"{targets(scene)}; one half is {', '.join(names[index] for index in halves[0])}",
    )


def linked_rows(pool: Pool, rows: Scaled, halves: Sequence[Sequence[int]], links: int = LINKS) -> NDArray[np.bool_]:
    """Return whether the two halves of each row share one of their nearest released rows."""
    linked = []
    for block in pool.blocks(rows):
        first, second = (smallest(pool.distances(rows[block], half), links)[1] for half in halves)
        linked.append((first[:, :, None] == second[:, None, :]).any(axis=(1, 2)))
    return np.concatenate(linked)
