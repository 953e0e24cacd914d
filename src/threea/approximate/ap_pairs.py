"""AP pairs: which attributes may be given which parents, so that a noisy table of them is still of use.

Reference:
    Zhang, Cormode, Procopiuc, Srivastava and Xiao 2017, PrivBayes: private data release via Bayesian networks.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from threea.approximate.denoise import grouped
from threea.approximate.feature import Feature
from threea.table.cells import Merged

FINEST, FINEST_TARGET = 16, 64
"""Cells that an attribute has in a table at most, and the target; special and missing ones not counted. Chosen."""
MOST_CANDIDATES = 400
"""AP pairs that are compared in a step, at most. Chosen: 15 columns stay below it with up to two parents beside the
target."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute and its generalisations.

    Args:
        feature: Its one-way table, as a feature of a single class.
        levels: Its cells put together into ever fewer: the paper's taxonomy tree, made of noisy counts.
    """

    feature: Feature
    levels: tuple[Merged, ...]

    @classmethod
    def of(cls, feature: Feature, finest: int, least: float) -> Attribute:
        """Put cells together into groups of about equally many rows, none of a smaller share than `least`."""
        levels: list[Merged] = []
        while finest >= 2:
            level = Merged(cells=feature.cells, groups=grouped(feature.cells, feature.given[0], finest, least))
            if not levels or level.size < levels[-1].size:
                levels.append(level)
            finest //= 2
        return cls(feature, tuple(levels))

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many cells each level has."""
        return tuple(level.size for level in self.levels)

    def within(self, cells: float) -> Merged:
        """Return the finest level of at most so many cells; the coarsest if all have more."""
        return next((level for level in self.levels if level.size <= cells), self.levels[-1])


@dataclass(frozen=True, slots=True)
class Pair:
    """A candidate: an attribute X, its parent set, and the cells of all of them in the table.

    Args:
        child: Position of X among the attributes.
        own: The cells of X.
        parents: Positions of the parents.
        levels: The cells of the parents.
    """

    child: int
    own: Merged
    parents: tuple[int, ...]
    levels: tuple[Merged, ...]

    @property
    def cells(self) -> tuple[Merged, ...]:
        """The axes of its table, X last."""
        return (*self.levels, self.own)


def candidates(
    attributes: Sequence[Attribute], added: Sequence[int], useful: float, degree: int, always: int | None
) -> list[Pair]:
    """Return the AP pairs to choose from: attributes not yet in the network, with parents that are.

    A table has at most `useful` cells. X takes up to the square root of that; each set of parents has the finest levels
    that fit beside it. No more than `MOST_CANDIDATES` pairs: attributes are taken in the order of the table, all sets
    of one before the next, smaller sets and newer parents first. All of it follows from noisy answers.

    Args:
        attributes: All of them.
        added: Those in the network, in their order.
        useful: How many cells a table may have to be theta-useful.
        degree: How many parents at most.
        always: An attribute that is a parent wherever it fits; None for none.
    """
    pairs: list[Pair] = []
    inside = set(added)
    sizes = [attribute.sizes for attribute in attributes]
    parents = [parent for parent in reversed(added) if sizes[parent][0] > 1]
    for child in range(len(attributes)):
        if child in inside:
            continue
        own = attributes[child].within(math.sqrt(max(useful, 1.0)))
        sets = _parent_sets(attributes, sizes, parents, useful / own.size, degree, always)
        found = [Pair(child, own, *chosen) for chosen in itertools.islice(sets, MOST_CANDIDATES)]
        if pairs and len(pairs) + len(found) > MOST_CANDIDATES:
            break
        pairs += found
    return pairs


def generalised(attributes: Sequence[Attribute], cells: float) -> tuple[Merged, ...] | None:
    """Return levels that have at most so many cells together: the finest, the largest of them made coarser first.

    None if even the coarsest have more.
    """
    chosen = _generalised(tuple(attribute.sizes for attribute in attributes), cells)
    return None if chosen is None else _levels(attributes, chosen)


@functools.lru_cache(maxsize=1 << 16)
def _generalised(sizes: tuple[tuple[int, ...], ...], cells: float) -> tuple[int, ...] | None:
    """Return which level of each attribute, by the sizes of all: few differ, however many attributes there are."""
    chosen = [0] * len(sizes)
    while math.prod(own[level] for own, level in zip(sizes, chosen, strict=True)) > cells:
        coarser = [place for place, own in enumerate(sizes) if chosen[place] + 1 < len(own)]
        if not coarser:
            return None
        chosen[max(coarser, key=lambda place: (sizes[place][chosen[place]], place))] += 1
    return tuple(chosen)


def _levels(attributes: Sequence[Attribute], chosen: tuple[int, ...]) -> tuple[Merged, ...]:
    return tuple(attribute.levels[level] for attribute, level in zip(attributes, chosen, strict=True))


def _parent_sets(
    attributes: Sequence[Attribute],
    sizes: Sequence[tuple[int, ...]],
    parents: Sequence[int],
    cells: float,
    degree: int,
    always: int | None,
) -> Iterator[tuple[tuple[int, ...], tuple[Merged, ...]]]:
    """Yield sets of parents, with their levels, that have at most so many cells together."""
    fixed = tuple(parent for parent in parents if parent == always and sizes[parent][-1] <= cells)
    left = cells / math.prod(sizes[parent][-1] for parent in fixed)
    others = [parent for parent in parents if parent not in fixed]
    fewest = sorted(sizes[parent][-1] for parent in others)
    for count in range(0 if fixed else 1, degree - len(fixed) + 1):
        # Parents that fit nowhere, beside the coarsest others, are not tried: of hundreds there are millions of sets.
        room = left / math.prod(fewest[: max(count - 1, 0)])
        fitting = [parent for parent in others if sizes[parent][-1] <= room]
        for more in itertools.combinations(fitting, count):
            chosen = (*fixed, *more)
            levels = _generalised(tuple(sizes[parent] for parent in chosen), cells)
            if levels is not None:
                yield chosen, _levels([attributes[parent] for parent in chosen], levels)
