"""The tree of features as a picture: a line per feature, indented under the one it is drawn from.

It is as wide as a phone and as tall as it needs to be, so names never overlap and nothing shrinks. Geometry is computed
here, in pixels; the template places it.
"""

from __future__ import annotations

from dataclasses import dataclass

from threea.model_summary import TreeFigure
from threea.report.charts import coordinate
from threea.report.words import LONG, percent, shown

MOST = 60
"""How many edges are shown: the strongest."""
ROW = 26.0
_LEFT, _TOP, _DOT = 9.0, 15.0, 5.0
_INDENT, _DEEPEST = 24.0, 132.0
"""How far a child is indented, and all generations together at most: names still fit beside them on a phone."""
_THIN, _THICK = 1.2, 7.0
_CROWDED = 0.75
"""How much of the room between two generations a line may fill."""
_LETTERS = 18
"""How much of a name is shown; the rest is in its tooltip."""


@dataclass(frozen=True, slots=True)
class Node:
    """A feature."""

    name: str
    x: str
    y: str
    root: bool
    share: str
    """How strongly it depends on its parent, in percent of the rows."""
    edge: str
    """The line from its parent."""
    width: str
    title: str
    short: str


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree, ready to be placed on the page."""

    nodes: tuple[Node, ...]
    height: str
    label: str | None
    label_line: str
    """From the label to the roots."""
    left_out: int
    """How many features are not shown."""
    total: int
    strongest: str
    summary: str
    """The picture in words, for those who cannot see it."""


def tree(figure: TreeFigure, label: str | None) -> Tree:
    """Lay a tree out.

    Args:
        figure: Features, parents and strengths.
        label: The target's name, if any: every pair is known in each of its classes.
    """
    kept = _kept(figure)
    children: dict[int, list[int]] = {node: [] for node in kept}
    roots = []
    edges = _strongest(figure)
    for node in kept:
        parent = figure.parents[node]
        if parent is None or node not in edges:
            roots.append(node)
        else:
            children[parent].append(node)
    sizes = dict.fromkeys(kept, 1)
    for node in reversed(kept):
        if (parent := figure.parents[node]) is not None and node in edges:
            sizes[parent] += sizes[node]
    # The larger a family, the further down: so no line passes by more than it must.
    children = {node: sorted(below, key=lambda child: sizes[child]) for node, below in children.items()}
    depths = _depths(figure, kept, edges)
    first = 1 if label else 0
    step = min(_INDENT, _DEEPEST / (max(depths.values()) + first or 1))
    order = [node for root in roots for node in _downwards(root, children)]
    places = {
        node: (_LEFT + step * (depths[node] + first), _TOP + ROW * (row + first)) for row, node in enumerate(order)
    }
    thick = max(min(_THICK, _CROWDED * step), _THIN)
    most = max((figure.strengths[node] for node in edges), default=0.0) or 1.0

    def elbow(above: tuple[float, float], x: float, y: float) -> str:
        bend = min(9.0, step)
        start = f"M{coordinate(above[0])} {coordinate(above[1])}V{coordinate(y - bend)}"
        return f"{start}q0 {coordinate(bend)} {coordinate(bend)} {coordinate(bend)}H{coordinate(x)}"

    def drawn(node: int) -> Node:
        x, y = places[node]
        if node in edges:
            parent = figure.parents[node]
            assert parent is not None
            edge = elbow(places[parent], x, y)
            share, given = percent(figure.strengths[node]), f" depends on {shown(figure.nodes[parent], LONG)}"
            title = f"{shown(figure.nodes[node], LONG)}{given}: {share} of the rows"
        else:
            share, edge, title = "", "", f"{shown(figure.nodes[node], LONG)}: a root"
        return Node(
            name=figure.nodes[node],
            x=coordinate(x),
            y=coordinate(y),
            root=node not in edges,
            share=share,
            edge=edge,
            width=coordinate(_THIN + (thick - _THIN) * figure.strengths[node] / most if edge else 0.0),
            title=title,
            short=shown(figure.nodes[node], _LETTERS + round((_DEEPEST - step * depths[node]) / 8)),
        )

    nodes = tuple(drawn(node) for node in order)
    top = max((node for node in edges), key=lambda node: figure.strengths[node], default=None)
    strongest = "" if top is None else f"{shown(figure.nodes[top])} and {shown(figure.nodes[figure.parents[top] or 0])}"
    return Tree(
        nodes=nodes,
        height=coordinate(_TOP + ROW * (len(nodes) + first - 1) + _TOP),
        label=label,
        label_line="".join(elbow((_LEFT, _TOP), *places[root]) for root in roots) if label else "",
        left_out=len(figure.nodes) - len(kept),
        total=len(figure.nodes),
        strongest=strongest,
        summary="; ".join(node.title for node in nodes),
    )


def _strongest(figure: TreeFigure) -> set[int]:
    """Return the children of the edges that are shown."""
    joined = [node for node, parent in enumerate(figure.parents) if parent is not None]
    return set(sorted(joined, key=lambda node: -figure.strengths[node])[:MOST])


def _kept(figure: TreeFigure) -> list[int]:
    """Return the features that are shown, in their order: all, or the ends of the edges that are."""
    edges = _strongest(figure)
    if len(edges) == sum(parent is not None for parent in figure.parents):
        return list(range(len(figure.nodes)))
    ends = edges | {parent for node in edges if (parent := figure.parents[node]) is not None}
    return sorted(ends)


def _depths(figure: TreeFigure, kept: list[int], edges: set[int]) -> dict[int, int]:
    depths: dict[int, int] = {}
    for node in kept:
        parent = figure.parents[node]
        depths[node] = 0 if parent is None or node not in edges else depths[parent] + 1
    return depths


def _downwards(root: int, children: dict[int, list[int]]) -> list[int]:
    """Return a family in the order of its lines: each feature, then all that hangs below it."""
    order, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        order.append(node)
        waiting += reversed(children[node])
    return order
