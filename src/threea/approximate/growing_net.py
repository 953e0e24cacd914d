"""A Bayesian network while it grows: what it tells of its attributes so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.query import Answer
from threea.approximate.ap_pairs import Pair
from threea.approximate.bayes_net_model import Node, rows_of
from threea.approximate.conditional_table import conditional
from threea.approximate.denoise import proportions
from threea.approximate.feature import Feature
from threea.approximate.label_counts import existing
from threea.table.cells import Merged

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

DRAWS, _SEED = 1 << 15, 0
"""Rows that are drawn from the network as it grows, with a public seed: what they tell is post-processing. Chosen."""
_MOST_KEPT = 1 << 22
"""Numbers in the distributions that are kept, at most."""


class GrowingNet:
    """Nodes so far, and rows drawn from them.

    Args:
        features: All attributes, as features of a single class; those that are given come first.
        rows: Noisy number of private rows.
        given: Fine cells of `DRAWS` rows in the attributes that are given: they have no nodes, and all may be parents.
    """

    def __init__(self, features: Sequence[Feature], rows: float, given: Sequence[Whole] = ()) -> None:
        self.features, self.rows = list(features), rows
        self.added = list(range(len(given)))
        self.nodes: list[Node] = []
        self._rng = np.random.default_rng(_SEED)
        self._given, self._codes = len(given), list(given)
        self._known: dict[tuple[tuple[int, ...], tuple[Merged, ...]], Floats] = {}
        self._kept = 0

    @property
    def left(self) -> list[int]:
        """Positions of the attributes that are not in it yet."""
        return sorted(set(range(len(self.features))) - set(self.added))

    def add_first(self, place: int, *, existing_only: bool) -> None:
        """Add the first attribute; of a target, no classes that noise alone explains."""
        feature = self.features[place]
        if existing_only:
            counts = existing(feature.cells, feature.counts[0], feature.stddev)
            feature = replace(feature, given=proportions(counts)[None, :])
        self.add_alone(place, feature)

    def add_alone(self, place: int, feature: Feature) -> None:
        """Add an attribute without parents."""
        self.added.append(place)
        self.nodes.append(Node(feature, (), (), feature.coarse, 0.0))

    def add(self, pair: Pair, answer: Answer) -> None:
        """Add an attribute by the noisy table of its AP pair."""
        feature = replace(self.features[pair.child], merged=pair.own)
        parents, own = self.distribution(pair), feature.coarse[0]
        given = conditional(answer.value, parents, own, answer.stddev)
        gap = self.rows * float((parents[:, None] * np.abs(given - own)).sum())
        self.nodes.append(Node(feature, self._places(pair), pair.levels, given, gap))
        self.added.append(pair.child)

    def expected(self, pair: Pair) -> Floats:
        """Return the counts that a pair's table would have if X did not depend on its parents."""
        own = replace(self.features[pair.child], merged=pair.own).coarse[0]
        return self.rows * np.outer(self.distribution(pair), own)

    def distribution(self, pair: Pair) -> Floats:
        """Return the distribution of a pair's parents, flat, as the network draws them."""
        key = (pair.parents, pair.levels)
        if key not in self._known:
            cells = math.prod(level.size for level in pair.levels)
            if self._kept + cells > _MOST_KEPT:
                self._known, self._kept = {}, 0
            drawn = self._drawn()
            row = rows_of(pair.levels, [drawn[place] for place in self._places(pair)], DRAWS)
            self._known[key] = np.bincount(row, minlength=cells) / DRAWS
            self._kept += cells
        return self._known[key]

    def _places(self, pair: Pair) -> tuple[int, ...]:
        """Return the parents' positions among what is given and the nodes."""
        return tuple(self.added.index(parent) for parent in pair.parents)

    def _drawn(self) -> list[Whole]:
        """Return the fine cells of rows drawn from all nodes so far; each node is drawn once."""
        for node in self.nodes[len(self._codes) - self._given :]:
            self._codes.append(node.draw(node.row(self._codes, DRAWS), self._rng)[0])
        return self._codes
