"""Charts of the owner's report: dots with whiskers, bars, heatmaps of correlations.

Geometry is computed here, in thousandths of a chart's width; the template places it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from threea.report.charts import coordinate, round_ticks
from threea.report.words import number, shown

Figure = dict[str, Any]
"""A ``value`` and an ``interval`` of two ends, None where undefined."""
Matrix = Sequence[Sequence[float | None]]

_WIDTH = 1000.0
_LEVELS = 20
_COLD, _WARM, _NEUTRAL = (0x24, 0x52, 0x7A), (0xA8, 0x55, 0x00), (0xF7, 0xF7, 0xF5)
_LABELLED = 20
"""Heatmaps of at most so many columns have room for names."""
_SIDE, _MARGIN = 320.0, 96.0


def short(value: float | None, *, signed: bool = False) -> str:
    """Return a score in three digits after the point, or four significant ones if it is large.

    Example:
        >>> short(0.84889), short(-0.02, signed=True), short(31234.6), short(None)
        ('0.849', '−0.020', '31,235', 'undefined')
    """
    if value is None:
        return "undefined"
    if not abs(value) < 10:
        return number(value)
    text = f"{value:+.3f}" if signed else f"{value:.3f}"
    # What rounds to nought has no sign.
    return ("0.000" if float(text) == 0 else text).replace("-", "−")


def between(figure: Figure, *, signed: bool = False) -> str:
    """Return a figure's interval as text, empty where it has none."""
    if not figure.get("interval"):
        return ""
    low, high = figure["interval"]
    return f"[{short(low, signed=signed)}, {short(high, signed=signed)}]"


@dataclass(frozen=True, slots=True)
class Dot:
    """A figure on a line: a dot, and a whisker over its interval."""

    label: str
    kind: str
    """How it is drawn: a class of the page's style."""
    whisker: str
    dot: str
    text: str
    interval: str


@dataclass(frozen=True, slots=True)
class Dots:
    """Figures one below the other, over one axis."""

    rows: tuple[Dot, ...]
    ticks: tuple[tuple[str, str, str], ...]
    """Position in percent, alignment and text."""
    line: str
    """Where a figure without any effect would stand; empty if nowhere."""
    summary: str


def dots(
    figures: Sequence[tuple[str, str, Figure]], *, title: str, baseline: float | None = None, least: float = 0.02
) -> Dots:
    """Draw figures over an axis that is as wide as they and their intervals need.

    Args:
        figures: Label, kind and figure.
        title: What is drawn, for those who cannot see it.
        baseline: A value to draw a line at.
        least: The narrowest axis, so that nothing looks far apart that is not.
    """
    reach = [value for *_, figure in figures for value in (figure["value"], *(figure["interval"] or ()))]
    known = [value for value in (*reach, baseline) if value is not None]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    short_of = max(least - (high - low), 0.0) / 2
    low, high = low - short_of, high + short_of
    margin = 0.06 * (high - low)
    axis = low - margin, high + margin
    texts = (f"{shown(label)} {short(figure['value'])} {between(figure)}".strip() for label, _, figure in figures)
    return Dots(
        rows=tuple(_dot(label, kind, figure, axis) for label, kind, figure in figures),
        ticks=tuple(_ticks(*axis)),
        line="" if baseline is None else _along(baseline, axis),
        summary=f"{title}: {'; '.join(texts)}",
    )


def _dot(label: str, kind: str, figure: Figure, axis: tuple[float, float]) -> Dot:
    value, whisker = figure["value"], ""
    if figure["interval"]:
        low, high = (_along(end, axis) for end in figure["interval"])
        whisker = f"M{low} 10H{high}"
    spot = "" if value is None else f"M{_along(value, axis)} 10h.01"
    return Dot(label, kind, whisker, spot, short(value), between(figure))


def _along(value: float, axis: tuple[float, float]) -> str:
    low, high = axis
    return coordinate(min(max((value - low) / ((high - low) or 1.0), 0.0), 1.0) * _WIDTH)


def _ticks(low: float, high: float) -> Iterator[tuple[str, str, str]]:
    """Yield round numbers on an axis."""
    for value in round_ticks(low, high, most=4):
        position = (value - low) / (high - low)
        align = "start" if position < 0.05 else "end" if position > 0.95 else "middle"
        yield f"{100 * position:.1f}", align, number(value)


@dataclass(frozen=True, slots=True)
class Bar:
    """A column's distance as a bar, beside what sampling alone gives as a dot with a whisker."""

    label: str
    kind: str
    bar: str
    whisker: str
    dot: str
    text: str
    title: str
    other: str


def distance_bars(columns: Sequence[dict[str, Any]]) -> list[Bar]:
    """Draw the columns' distances, largest first; all on one scale."""
    ranked = sorted(columns, key=lambda column: -column["total_variation"]["matched"]["value"])
    reach = [column["total_variation"][name]["value"] for column in ranked for name in ("matched", "floor")]
    axis = 0.0, max(reach, default=0.0) or 1.0
    bars = []
    for column in ranked:
        matched, floor = (column["total_variation"][name] for name in ("matched", "floor"))
        drawn = _dot("", "", floor, axis)
        moved = column.get("wasserstein", {}).get("matched", {}).get("value")
        bars.append(
            Bar(
                label=column["name"],
                kind=column["kind"],
                bar=_along(matched["value"], axis),
                whisker=drawn.whisker,
                dot=drawn.dot,
                text=short(matched["value"]),
                title=f"released {short(matched['value'])} {between(matched)}; sampling alone {short(floor['value'])}"
                f" {between(floor)}",
                other="" if moved is None else short(moved),
            )
        )
    return bars


@dataclass(frozen=True, slots=True)
class Overlay:
    """A column's real rows as an outline over its released rows as bars."""

    label: str
    kind: str
    bars: str
    outline: str
    touch: tuple[tuple[str, str, str], ...]
    """Start, width and words of each bar, for whoever points at it."""
    ends: tuple[str, str]
    peak: str
    broken: tuple[str, ...]


def overlay(column: dict[str, Any]) -> Overlay:
    """Draw the shares of real and of released rows in the same cells."""
    bars = column["picture"]
    full = max((max(bar["real"], bar["synthetic"]) for bar in bars), default=0.0) or 1.0
    each = _WIDTH / max(len(bars), 1)
    filled, line, touch = [], [], []
    for index, bar in enumerate(bars):
        left, right = coordinate(index * each), coordinate((index + 1) * each)
        width = coordinate(each * 0.86)
        filled.append(f"M{coordinate((index + 0.07) * each)} 100V{_height(bar['synthetic'], full)}h{width}V100z")
        line.append(f"M{left} {_height(bar['real'], full)}H{right}")
        words = f"{shown(bar['label'], 40)}: real {bar['real']:.1%}, released {bar['synthetic']:.1%}"
        touch.append((left, coordinate(each), words))
    labels = [shown(bar["label"], 18) for bar in bars] or ["", ""]
    return Overlay(
        label=column["name"],
        kind=column["kind"],
        bars="".join(filled),
        outline="".join(line),
        touch=tuple(touch),
        ends=(labels[0], labels[-1]),
        peak=f"{full:.0%}" if full >= 0.1 else f"{full:.1%}",
        broken=tuple(column.get("values", {}).get("broken", ())),
    )


def _height(share: float, full: float) -> str:
    return coordinate(100 - 96 * share / full)


@dataclass(frozen=True, slots=True)
class Curve:
    """Told probabilities and observed rates, a line for each table that was trained on."""

    lines: tuple[tuple[str, str, str], ...]
    """Kind, path and dots."""
    highest: str
    """Where both axes end."""
    summary: str


def curve(curves: dict[str, list[dict[str, float]]]) -> Curve:
    """Draw calibration curves in a square from 0 to the highest rate, rounded up to tenths."""
    rates = [point[side] for points in curves.values() for point in points for side in ("predicted", "observed")]
    highest = math.ceil(10 * max(rates, default=1.0)) / 10 or 1.0
    lines = []
    for kind, points in curves.items():
        placed = [
            (coordinate(100 * p["predicted"] / highest), coordinate(100 - 100 * p["observed"] / highest))
            for p in points
        ]
        path = "M" + "L".join(f"{x} {y}" for x, y in placed)
        lines.append((kind, path, "".join(f"M{x} {y}h.01" for x, y in placed)))
    return Curve(tuple(lines), number(highest), "Predicted and observed rates; on the diagonal they are equal")


@dataclass(frozen=True, slots=True)
class Twin:
    """A feature's importance to two models, as two thin bars."""

    label: str
    real: str
    synthetic: str
    title: str


def importance_bars(features: Sequence[dict[str, Any]], limit: int) -> list[Twin]:
    """Draw the most important features; one that the model is better without has no bar."""
    lengths = [feature[side] or 0.0 for feature in features for side in ("real", "synthetic")]
    full = max(lengths, default=0.0) or 1.0
    bars = []
    for feature in features[:limit]:
        real, synthetic = (_along(max(feature[side] or 0.0, 0.0), (0.0, full)) for side in ("real", "synthetic"))
        title = f"trained on real rows {short(feature['real'])}, on released rows {short(feature['synthetic'])}"
        bars.append(Twin(feature["name"], real, synthetic, title))
    return bars


@dataclass(frozen=True, slots=True)
class Heatmap:
    """A square of coloured cells: one path a colour."""

    title: str
    paths: tuple[tuple[str, str], ...]
    labels: tuple[tuple[str, str], ...]
    """Height and text of each row's name; none if there is no room."""
    size: str
    left: str


def heatmaps(matrices: dict[str, Matrix], names: Sequence[str]) -> list[Heatmap]:
    """Draw correlation matrices and the difference of the second from the first."""
    first, second = matrices.values()
    apart = [
        [None if a is None or b is None else b - a for a, b in zip(*rows, strict=True)]
        for rows in zip(first, second, strict=True)
    ]
    return [_heatmap(title, matrix, names) for title, matrix in {**matrices, "difference": apart}.items()]


def _heatmap(title: str, matrix: Matrix, names: Sequence[str]) -> Heatmap:
    left = _MARGIN if len(names) <= _LABELLED else 0.0
    cell = (_SIDE - left) / len(names)
    paths: dict[str, list[str]] = {}
    for row, values in enumerate(matrix):
        for column, value in enumerate(values):
            if value is not None:
                corner = f"M{coordinate(left + column * cell)} {coordinate(row * cell)}"
                paths.setdefault(colour(value), []).append(
                    f"{corner}h{coordinate(cell - 0.5)}v{coordinate(cell - 0.5)}h-{coordinate(cell - 0.5)}z"
                )
    labels = [(coordinate((row + 0.5) * cell), shown(name, 15)) for row, name in enumerate(names)] if left else []
    return Heatmap(
        title=title,
        paths=tuple((shade, "".join(parts)) for shade, parts in sorted(paths.items())),
        labels=tuple(labels),
        size=coordinate(_SIDE - left),
        left=coordinate(left - 6),
    )


def colour(value: float) -> str:
    """Return the colour of a correlation: blue below nought, near white at it, brown above.

    Example:
        >>> colour(-1.0), colour(0.0), colour(1.0)
        ('#24527a', '#f7f7f5', '#a85500')
    """
    level = round(min(max(value, -1.0), 1.0) * _LEVELS) / _LEVELS
    end = _WARM if level > 0 else _COLD
    mixed = (round(near + (far - near) * abs(level)) for near, far in zip(_NEUTRAL, end, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)
