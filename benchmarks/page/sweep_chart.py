"""A chart of a sweep: score over epsilon, a curve for each recipe, and the real rows as a line.

Geometry is computed here; the page places it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from threea.report.charts import coordinate, round_ticks
from threea.report.words import number, shown

WIDTH, HEIGHT = 760.0, 360.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 60.0, 190.0, 16.0, 44.0
_LINE = 18.0
"""Height of a label."""
COLOURS = ("#2f74b5", "#a85500", "#2a7f62", "#7a3e9d", "#b0355c", "#5a6570")
_ASIDE = 4.0
_LEAST = 0.02
"""The narrowest axis, so that nothing looks far apart that is not."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A recipe's scores."""

    label: str
    colour: str
    dashes: str
    line: str
    whiskers: str
    """One standard deviation to each side, where there is more than one seed."""
    dots: str
    height: str
    """Where the label stands."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart, ready to be placed."""

    title: str
    summary: str
    """The chart in words, for those who cannot see it."""
    curves: tuple[Curve, ...]
    across: tuple[tuple[str, str], ...]
    """Position and text of the marks on the axis of epsilon."""
    up: tuple[tuple[str, str], ...]
    """Height and text of the marks on the axis of scores."""
    real: tuple[str, str] | None
    """Height of the line of the real rows, and of its label."""


def chart(line: dict[str, Any], epsilons: Sequence[float]) -> Chart | None:
    """Draw a line of `sweep.sweep`; None if nothing in it has a score."""
    curves = {
        name: [(epsilon, cells[f"{epsilon:g}"]) for epsilon in epsilons if cells[f"{epsilon:g}"]["mean"] is not None]
        for name, cells in line["recipes"].items()
    }
    real = line["real"]["mean"]
    if not any(curves.values()):
        return None
    ends = [
        cell["mean"] + side * (cell["stdev"] or 0.0)
        for points in curves.values()
        for _, cell in points
        for side in (-1, 1)
    ]
    ends += [] if real is None else [real]
    low, high = min(ends), max(ends)
    short_of = max(_LEAST - (high - low), 0.0) / 2
    margin = 0.05 * max(high - low, _LEAST)
    axis = _Axis(low - short_of - margin, high + short_of + margin, math.log(epsilons[0]), math.log(epsilons[-1]))
    wanted = {name: axis.up(points[-1][1]["mean"]) for name, points in curves.items() if points}
    heights = _apart(wanted | ({"": axis.up(real)} if real is not None else {}))
    drawn = [
        # Whiskers at the same epsilon stand beside one another.
        _curve(name, position, points, replace(axis, aside=_ASIDE * (position - (len(curves) - 1) / 2)), heights[name])
        for position, (name, points) in enumerate(curves.items())
        if points
    ]
    return Chart(
        title=f"{line['dataset']}: {_metric(line)} by epsilon; whiskers reach one standard deviation over the seeds",
        summary=_summary(line, curves),
        curves=tuple(drawn),
        across=tuple((coordinate(axis.across(epsilon)), f"{epsilon:g}") for epsilon in epsilons),
        up=tuple((coordinate(axis.up(value)), number(value)) for value in round_ticks(axis.low, axis.high, most=5)),
        real=None if real is None else (coordinate(axis.up(real)), coordinate(heights[""])),
    )


@dataclass(frozen=True, slots=True)
class _Axis:
    low: float
    high: float
    first: float
    last: float
    aside: float = 0.0

    def up(self, score: float) -> float:
        return _TOP + (HEIGHT - _TOP - _BOTTOM) * (self.high - score) / (self.high - self.low)

    def across(self, epsilon: float) -> float:
        width = WIDTH - _LEFT - _RIGHT
        # A single epsilon stands in the middle.
        share = (math.log(epsilon) - self.first) / (self.last - self.first) if self.last > self.first else 0.5
        return _LEFT + width * share + self.aside


def _curve(
    name: str, position: int, points: Sequence[tuple[float, dict[str, Any]]], axis: _Axis, height: float
) -> Curve:
    dots = [(coordinate(axis.across(epsilon)), coordinate(axis.up(cell["mean"]))) for epsilon, cell in points]
    whiskers = [
        f"M{coordinate(axis.across(epsilon))} {coordinate(axis.up(cell['mean'] - cell['stdev']))}"
        f"V{coordinate(axis.up(cell['mean'] + cell['stdev']))}"
        for epsilon, cell in points
        if cell["stdev"]
    ]
    return Curve(
        label=shown(name, 24),
        colour=COLOURS[position % len(COLOURS)],
        dashes="" if position < len(COLOURS) else "5 4",
        line="M" + "L".join(f"{x} {y}" for x, y in dots),
        whiskers="".join(whiskers),
        dots="".join(f"M{x} {y}h.01" for x, y in dots),
        height=coordinate(height),
    )


def _apart(wanted: dict[str, float]) -> dict[str, float]:
    """Move labels just as far that none covers another, none leaves the chart, and their order stays."""
    heights: dict[str, float] = {}
    taken = -math.inf
    for name, height in sorted(wanted.items(), key=lambda item: item[1]):
        heights[name] = taken = max(height, taken + _LINE)
    floor = HEIGHT - _BOTTOM
    for name in reversed(heights):
        heights[name] = min(heights[name], floor)
        floor = heights[name] - _LINE
    return heights


def _summary(line: dict[str, Any], curves: dict[str, list[tuple[float, dict[str, Any]]]]) -> str:
    texts = [
        f"{shown(name)} " + ", ".join(f"{cell['mean']:.3f} at {epsilon:g}" for epsilon, cell in points)
        for name, points in curves.items()
        if points
    ]
    real = [] if line["real"]["mean"] is None else [f"real rows {line['real']['mean']:.3f}"]
    return f"{_metric(line)} on {line['dataset']} by epsilon: {'; '.join([*real, *texts])}"


def _metric(line: dict[str, Any]) -> str:
    return "AUC" if line["metric"] == "auc" else str(line["metric"])
