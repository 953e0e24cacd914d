"""AP pairs: which attributes may be given which parents, so that a noisy table of them is still of use.

Reference:
    Zhang, Cormode, Procopiuc, Srivastava and Xiao 2017, PrivBayes: theta-usefulness, maximal parent sets and
    generalised attributes (sections 4.2 to 5.2).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from threea.approximate.denoise import grouped, proportions, shrunk
from threea.approximate.feature import Feature
from threea.table.cells import Merged

Floats = NDArray[np.float64]

FINEST = 16
"""Cells of an attribute in a table, at most, special and missing ones not counted. Chosen."""
MOST_CANDIDATES = 400
"""AP pairs that are compared in a step, at most. Chosen."""
SMOOTH = 1e-6
_FITTINGS = 20


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute and its generalisations.

    Args:
        feature: Its one-way table, as a feature of a single class.
        levels: Its cells put together into ever fewer: the taxonomy tree of the paper, made of noisy counts.
    """

    feature: Feature
    levels: tuple[Merged, ...]

    @classmethod
    def of(cls, feature: Feature, finest: int, least: float) -> Attribute:
        """Put cells together into groups of about equally many rows, none of less than a share of `least`."""
        levels: list[Merged] = []
        most = max(finest, 2)
        while most >= 2:
            level = Merged(cells=feature.cells, groups=grouped(feature.cells, feature.given[0], most, least))
            if not levels or level.size < levels[-1].size:
                levels.append(level)
            most //= 2
        return cls(feature, tuple(levels))

    def within(self, cells: float) -> Merged:
        """Return the finest level of at most so many cells, or the coarsest."""
        return next((level for level in self.levels if level.size <= cells), self.levels[-1])


@dataclass(frozen=True, slots=True)
class Pair:
    """A candidate: an attribute, its parents, and the cells of them all in the table.

    Args:
        child: Position of X among the attributes.
        own: The cells of X.
        parents: Positions of the parent set among the attributes.
        levels: The parents' cells.
    """

    child: int
    own: Merged
    parents: tuple[int, ...]
    levels: tuple[Merged, ...]

    @property
    def cells(self) -> tuple[Merged, ...]:
        """The axes of its table, X last."""
        return (*self.levels, self.own)


def generalised(attributes: Sequence[Attribute], cells: float) -> tuple[Merged, ...] | None:
    """Return the attributes' finest levels that have no more cells together, the largest made coarser first.

    None if even the coarsest have more.
    """
    chosen = [0] * len(attributes)
    while True:
        levels = [attribute.levels[level] for attribute, level in zip(attributes, chosen, strict=True)]
        if math.prod(level.size for level in levels) <= cells:
            return tuple(levels)
        coarser = [i for i, attribute in enumerate(attributes) if chosen[i] + 1 < len(attribute.levels)]
        if not coarser:
            return None
        chosen[max(coarser, key=lambda i: (levels[i].size, i))] += 1


def candidates(
    attributes: Sequence[Attribute], added: Sequence[int], useful: float, degree: int, always: int | None
) -> list[Pair]:
    """Return the AP pairs to choose from: attributes not yet added, with parents that were.

    Args:
        attributes: All of them.
        added: Those in the network, in their order.
        useful: How many cells a table may have and be theta-useful.
        degree: How many parents at most.
        always: An attribute that is a parent wherever it can be.
    """
    pairs: list[Pair] = []
    left = [child for child in range(len(attributes)) if child not in set(added)]
    usable = [parent for parent in reversed(added) if attributes[parent].levels[0].size > 1]
    for child in left:
        own = attributes[child].within(math.sqrt(max(useful, 1.0)))
        found = list(itertools.islice(_parent_sets(attributes, usable, useful / own.size, degree, always), MOST_CANDIDATES))
        if pairs and len(pairs) + len(found) > MOST_CANDIDATES:
            break
        pairs += [Pair(child, own, parents, levels) for parents, levels in found]
    return pairs


def _parent_sets(
    attributes: Sequence[Attribute], usable: Sequence[int], cells: float, degree: int, always: int | None
) -> Iterator[tuple[tuple[int, ...], tuple[Merged, ...]]]:
    fixed = (always,) if always in usable and always is not None and generalised([attributes[always]], cells) else ()
    others = [parent for parent in usable if parent not in fixed]
    for count in range(0 if fixed else 1, degree - len(fixed) + 1):
        for more in itertools.combinations(others, count):
            parents = (*fixed, *more)
            levels = generalised([attributes[parent] for parent in parents], cells)
            if levels:
                yield parents, levels


def conditional(counts: Floats, parents: Floats, own: Floats, stddev: float) -> Floats:
    """Return the distribution of X given its parents that noisy counts tell of.

    Parent by parent, X is as it is given the parents before, unless the counts say more than noise would. Then the
    rows are fitted so that X as a whole is as its one-way table says.

    Args:
        counts: Noisy counts, an axis for each parent, X last.
        parents: The parents' distribution, flat.
        own: The distribution of X.
        stddev: Of the noise on a count.

    Returns:
        A row for each combination of the parents' cells.
    """
    known = own
    for axis in range(counts.ndim - 1):
        later = tuple(range(axis + 1, counts.ndim - 1))
        told = counts.sum(axis=later)
        summed = math.prod(counts.shape[position] for position in later)
        expected = np.maximum(told.sum(axis=-1, keepdims=True), 0.0) * known[..., None, :]
        moved = np.maximum(shrunk(told, expected, stddev * math.sqrt(summed)), 0.0) + SMOOTH * known[..., None, :]
        known = moved / np.maximum(moved.sum(axis=-1, keepdims=True), 1e-300)
    given = known.reshape(-1, counts.shape[-1])
    for _ in range(_FITTINGS):
        overall = parents @ given
        given = given * np.divide(own, overall, out=np.zeros_like(own), where=overall > 0)
        given = given / np.maximum(given.sum(axis=1, keepdims=True), 1e-300)
    return np.asarray(given)
