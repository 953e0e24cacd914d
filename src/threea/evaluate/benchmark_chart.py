"""A picture of a sweep: score over epsilon, a curve for each recipe, and the real rows as a line.

Geometry is computed here; the page places it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from threea.report.words import shown

WIDTH, HEIGHT = 760.0, 360.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 60.0, 190.0, 16.0, 44.0
_LINE = 18.0
"""Height of a label."""
_COLOURS = ("#2f74b5", "#a85500", "#2a7f62", "#7a3e9d", "#b0355c", "#5a6570")
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
    """A picture, ready to be placed."""

    title: str
    summary: str
    """The picture in words, for those who cannot see it."""
    curves: tuple[Curve, ...]
    across: tuple[tuple[str, str], ...]
    """Position and text of the marks on the axis of epsilon."""
    up: tuple[tuple[str, str], ...]
    """Height and text of the marks on the axis of scores."""
    real: tuple[str, str] | None
    """Height of the line of the real rows, and of its label."""


def chart(line: dict[str, Any], epsilons: Sequence[float]) -> Chart | None:
    """Draw a line of `benchmark_sweep.sweep`; None if nothing in it has a score."""
    curves = {
        name: [(epsilon, found[f"{epsilon:g}"]) for epsilon in epsilons if found[f"{epsilon:g}"]["mean"] is not None]
        for name, found in line["recipes"].items()
    }
    real = line["real"]["mean"]
    if not any(curves.values()):
        return None
    ends = [
        one["mean"] + side * (one["stdev"] or 0.0)
        for points in curves.values()
        for _, one in points
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
        _curve(name, number, points, replace(axis, aside=_ASIDE * (number - (len(curves) - 1) / 2)), heights[name])
        for number, (name, points) in enumerate(curves.items())
        if points
    ]
    return Chart(
        title=f"{line['dataset']}: {_metric(line)} by epsilon; whiskers reach one standard deviation over the seeds",
        summary=_summary(line, curves),
        curves=tuple(drawn),
        across=tuple((_place(axis.across(epsilon)), f"{epsilon:g}") for epsilon in epsilons),
        up=tuple((_place(axis.up(value)), text) for value, text in _marks(axis.low, axis.high)),
        real=None if real is None else (_place(axis.up(real)), _place(heights[""])),
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


def _curve(name: str, number: int, points: Sequence[tuple[float, dict[str, Any]]], axis: _Axis, height: float) -> Curve:
    places = [(_place(axis.across(epsilon)), _place(axis.up(one["mean"]))) for epsilon, one in points]
    whiskers = [
        f"M{_place(axis.across(epsilon))} {_place(axis.up(one['mean'] - one['stdev']))}"
        f"V{_place(axis.up(one['mean'] + one['stdev']))}"
        for epsilon, one in points
        if one["stdev"]
    ]
    return Curve(
        label=shown(name, 24),
        colour=_COLOURS[number % len(_COLOURS)],
        dashes="" if number < len(_COLOURS) else "5 4",
        line="M" + "L".join(f"{x} {y}" for x, y in places),
        whiskers="".join(whiskers),
        dots="".join(f"M{x} {y}h.01" for x, y in places),
        height=_place(height),
    )


def _apart(wanted: dict[str, float]) -> dict[str, float]:
    """Move labels just as far that none covers another, none leaves the picture, and their order stays."""
    found: dict[str, float] = {}
    taken = -math.inf
    for name, height in sorted(wanted.items(), key=lambda item: item[1]):
        found[name] = taken = max(height, taken + _LINE)
    floor = HEIGHT - _BOTTOM
    for name in reversed(found):
        found[name] = min(found[name], floor)
        floor = found[name] - _LINE
    return found


def _marks(low: float, high: float) -> list[tuple[float, str]]:
    """Return round scores on an axis, and how they are written."""
    power = 10.0 ** math.floor(math.log10((high - low) / 5))
    step = next(power * digit for digit in (1, 2, 5, 10) if power * digit >= (high - low) / 5 * 0.999)
    digits = max(-math.floor(math.log10(step) + 1e-9), 0)
    counts = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    return [(count * step, f"{count * step:.{digits}f}") for count in counts]


def _summary(line: dict[str, Any], curves: dict[str, list[tuple[float, dict[str, Any]]]]) -> str:
    told = [
        f"{shown(name)} " + ", ".join(f"{one['mean']:.3f} at {epsilon:g}" for epsilon, one in points)
        for name, points in curves.items()
        if points
    ]
    real = [] if line["real"]["mean"] is None else [f"real rows {line['real']['mean']:.3f}"]
    return f"{_metric(line)} on {line['dataset']} by epsilon: {'; '.join([*real, *told])}"


def _metric(line: dict[str, Any]) -> str:
    return "AUC" if line["metric"] == "auc" else str(line["metric"])


def _place(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
