"""The MC-GEN paper's figures 4 to 15 made again: accuracy over k, and accuracy over epsilon.

A figure is one dataset in one scenario, numbered as in the paper. Over k it has a row of panels for each classifier and
a column for each recipe, so that forms of the method stand beside one another; over epsilon a panel for each
classifier, and a curve for each recipe.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from benchmarks.datasets.published import MCGEN_FIGURES
from benchmarks.page.section import MARKS
from threea.report.charts import round_ticks
from threea.report.words import number, shown

WIDTH = 880.0
_LEFT, _RIGHT, _GAP, _PANEL = 60.0, 12.0, 12.0, 150.0
"""Margins, the room between panels, and the height of a panel."""
_HEAD, _TITLE, _MARKS, _LINE = 30.0, 20.0, 26.0, 22.0
"""Heights: a figure's title, a panel's, the marks below it, a line of the legend or of words below a figure."""
_LETTER, _SMALL_LETTER = 7.0, 6.0
_LEAST = 0.04
"""The narrowest axis, so that nothing looks far apart that is not."""
COLOURS = ("#2f74b5", "#a85500", "#2a7f62", "#7a3e9d", "#b0355c", "#5a6570", "#6b7a00", "#0b7f8f", "#c23b22", "#3d3d99")
SHADES = ("#9dc3e6", "#6aa5d8", "#2f74b5", "#235a8e", "#173f66", "#0b2440")
"""Epsilons, from light to dark."""
DASHES = {"proven": "", "claimed": "6 3", "none": "2 3"}
REAL, THEIRS = ("#1b1f24", "2 4"), ("#4a4f57", "10 3 2 3")
"""Colour and dashes of the lines of the real rows: measured here, and the paper's."""

Summary = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Style:
    """How a curve looks."""

    label: str
    colour: str
    dashes: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves by style, each from the value along it to a summary; and the lines of the real rows."""

    title: str
    curves: Sequence[tuple[Style, Mapping[str, Summary]]]
    real: float | None
    theirs: float | None
    mark: str = ""
    """Of the guarantee, if the panel is a recipe's."""

    def heights(self) -> Iterator[float]:
        """Yield all that the axis must hold."""
        for _, points in self.curves:
            for point in _scored(points).values():
                yield point["mean"] - (point["stdev"] or 0.0)
                yield point["mean"] + (point["stdev"] or 0.0)
        yield from (line for line in (self.real, self.theirs) if line is not None)


@dataclass(frozen=True, slots=True)
class Figure:
    """Rows of panels under a title, which share their axes; what each row is about stands beside it."""

    title: str
    rows: Mapping[str, Sequence[Panel]]

    def panels(self) -> Iterator[Panel]:
        """Yield them all."""
        return (panel for row in self.rows.values() for panel in row)


def by_k(result: Mapping[str, Any]) -> str | None:
    """Draw accuracy over k as one SVG; None if no recipe was measured at several k."""
    epsilons = [f"{epsilon:g}" for epsilon in result["k_epsilons"]]
    step = (len(SHADES) - 1) / max(len(epsilons) - 1, 1)
    styles = {epsilon: Style(f"ε {epsilon}", SHADES[round(place * step)]) for place, epsilon in enumerate(epsilons)}
    figures = []
    for title, lines in _figures(result, "k"):
        rows = {
            line["learner"]: [
                Panel(
                    name,
                    [(styles[epsilon], points) for epsilon, points in by_epsilon.items()],
                    line["real"]["mean"],
                    line["theirs"],
                    MARKS.get(result["recipes"][name]["guarantee"], ""),
                )
                for name, by_epsilon in line["by_k"].items()
            ]
            for line in lines
        }
        figures.append(Figure(title, rows))
    return _drawn(figures, [f"{k:g}" for k in result["ks"]], "k, share of the rows in a cluster", list(styles.values()))


def by_epsilon(result: Mapping[str, Any]) -> str | None:
    """Draw accuracy over epsilon as one SVG; None if nothing has a score."""
    styles = recipe_styles(result["recipes"])
    figures = []
    for title, lines in _figures(result, "epsilon"):
        panels = [
            Panel(
                line["learner"],
                [(styles[name], points) for name, points in line["recipes"].items()],
                line["real"]["mean"],
                line["theirs"],
            )
            for line in lines
        ]
        figures.append(Figure(title, {"": panels}))
    return _drawn(figures, [f"{epsilon:g}" for epsilon in result["epsilons"]], "epsilon", list(styles.values()))


def recipe_styles(recipes: Mapping[str, Any]) -> dict[str, Style]:
    """Return a style for each recipe: a method has a colour, its guarantee is the dashes."""
    taken: dict[tuple[str, str], str] = {}
    styles = {}
    for name, recipe in recipes.items():
        method, guarantee = name.partition(":")[0].removesuffix("-published"), recipe["guarantee"]
        colours = {one: colour for (one, _), colour in taken.items()}
        # A method that has a form of the same guarantee already counts as another.
        method = f"{method} {len(taken)}" if (method, guarantee) in taken else method
        colour = colours.get(method, COLOURS[len(set(colours.values())) % len(COLOURS)])
        taken[method, guarantee] = colour
        styles[name] = Style(f"{shown(name, 36)}{MARKS.get(guarantee, '')}", colour, DASHES.get(guarantee, ""))
    return styles


def _figures(result: Mapping[str, Any], along: str) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    """Yield a title and its lines, one each classifier, in the paper's order; what it lacks comes last."""
    groups: dict[tuple[int, str], list[Mapping[str, Any]]] = {}
    for line in result["lines"]:
        if along == "epsilon" or line["by_k"]:
            groups.setdefault((line["scenario"], line["dataset"]), []).append(line)
    numbers = {key: MCGEN_FIGURES[along].get(key[0], {}).get(key[1], math.inf) for key in groups}
    for key in sorted(groups, key=lambda one: (numbers[one], one)):
        figure = f"Figure {numbers[key]}: " if numbers[key] < math.inf else ""
        yield f"{figure}{key[1]}, scenario {key[0]}", groups[key]


def _scored(points: Mapping[str, Summary]) -> dict[str, Summary]:
    return {value: point for value, point in points.items() if point["mean"] is not None}


@dataclass(frozen=True, slots=True)
class _Axes:
    """One panel's, in its own place."""

    values: Sequence[str]
    width: float
    low: float
    high: float

    def across(self, value: str) -> float:
        first, last = float(self.values[0]), float(self.values[-1])
        share = (float(value) - first) / (last - first) if last > first else 0.5
        return 10 + (self.width - 20) * share

    def up(self, score: float) -> float:
        return _PANEL * (self.high - score) / (self.high - self.low)


def _drawn(figures: Sequence[Figure], values: Sequence[str], label: str, styles: Sequence[Style]) -> str | None:
    figures = [
        figure for figure in figures if any(_scored(points) for panel in figure.panels() for _, points in panel.curves)
    ]
    if not figures:
        return None
    values = sorted(values, key=float)
    theirs = any(panel.theirs is not None for figure in figures for panel in figure.panels())
    legend, top = _legend(styles, theirs)
    parts = list(legend)
    for figure in figures:
        parts.append(f'<text x="{_LEFT:g}" y="{top + 18:g}" font-weight="600">{escape(figure.title)}</text>')
        body, top = _figure(figure, values, label, top + _HEAD)
        parts += body
    summary = f"Accuracy over {label}: " + "; ".join(figure.title for figure in figures)
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {top:g}" role="img" '
        'font-family="system-ui, sans-serif" font-size="12" fill="#1b1f24">',
        f"<title>{escape(summary)}</title>",
        f'<rect width="{WIDTH:g}" height="{top:g}" fill="#fff"/>',
    ]
    return "\n".join([*head, *parts, "</svg>"]) + "\n"


def _legend(styles: Sequence[Style], theirs: bool) -> tuple[list[str], float]:
    """Return the legend, and how far down it reaches."""
    entries = [*styles, Style("real rows", *REAL), *([Style("real rows (theirs)", *THEIRS)] if theirs else [])]
    parts, x, y = [], _LEFT, 18.0
    for style in entries:
        wide = 44 + _LETTER * len(style.label)
        if x + wide > WIDTH and x > _LEFT:
            x, y = _LEFT, y + _LINE
        parts.append(f'<path d="M{x:g} {y - 4:g}h24" {_stroke(style)}/>')
        parts.append(f'<text x="{x + 30:g}" y="{y:g}">{escape(style.label)}</text>')
        x += wide
    return parts, y + 10


def _figure(figure: Figure, values: Sequence[str], label: str, top: float) -> tuple[list[str], float]:
    heights = [height for panel in figure.panels() for height in panel.heights()]
    low, high = min(heights), max(heights)
    margin = max(_LEAST - (high - low), 0.0) / 2 + 0.04 * max(high - low, _LEAST)
    parts = []
    for name, row in figure.rows.items():
        width = (WIDTH - _LEFT - _RIGHT - _GAP * (len(row) - 1)) / len(row)
        axes = _Axes(values, width, low - margin, high + margin)
        beside = f'transform="translate(14 {top + _TITLE + _PANEL / 2:.1f}) rotate(-90)" text-anchor="middle"'
        parts += [f"<text {beside}>{escape(name)}</text>"] if name else []
        for place, panel in enumerate(row):
            parts.append(f'<g transform="translate({_LEFT + place * (width + _GAP):.1f} {top + _TITLE:.1f})">')
            parts += _panel(panel, axes, scale=place == 0)
            parts.append("</g>")
        top += _TITLE + _PANEL + _MARKS
    middle = (_LEFT + WIDTH - _RIGHT) / 2
    parts.append(f'<text x="{middle:g}" y="{top + 8:g}" text-anchor="middle">{escape(label)}</text>')
    return parts, top + _LINE


def _panel(panel: Panel, axes: _Axes, *, scale: bool) -> list[str]:
    title = f"{shown(panel.title, int(axes.width / _SMALL_LETTER) - 1)}{panel.mark}"
    parts = [f'<text x="0" y="-7" font-size="11">{escape(title)}</text>']
    for score in round_ticks(axes.low, axes.high, most=5):
        parts.append(f'<path d="M0 {axes.up(score):.1f}h{axes.width:.1f}" stroke="#e6e9ee"/>')
        if scale:
            parts.append(f'<text x="-7" y="{axes.up(score) + 4:.1f}" text-anchor="end">{number(score)}</text>')
    parts += [
        f'<text x="{axes.across(value):.1f}" y="{_PANEL + 16:g}" text-anchor="middle">{value}</text>'
        for value in axes.values
    ]
    for height, style in ((panel.real, REAL), (panel.theirs, THEIRS)):
        if height is not None:
            parts.append(f'<path d="M0 {axes.up(height):.1f}h{axes.width:.1f}" {_stroke(Style("", *style))}/>')
    for style, points in panel.curves:
        parts += _curve(style, _scored(points), axes)
    return parts


def _curve(style: Style, points: Mapping[str, Summary], axes: _Axes) -> list[str]:
    """Return a curve through the means, and a thin whisker of one standard deviation to each side."""
    places = [(axes.across(value), points[value]) for value in axes.values if value in points]
    if not places:
        return []
    whiskers = "".join(
        f"M{x:.1f} {axes.up(point['mean'] - point['stdev']):.1f}V{axes.up(point['mean'] + point['stdev']):.1f}"
        for x, point in places
        if point["stdev"]
    )
    dots = [f"{x:.1f} {axes.up(point['mean']):.1f}" for x, point in places]
    parts = [f'<path d="{whiskers}" stroke="{style.colour}" stroke-opacity=".3"/>'] if whiskers else []
    parts.append(f'<path d="M{"L".join(dots)}" {_stroke(style)}/>')
    round_dots = "".join(f"M{dot}h.01" for dot in dots)
    parts.append(f'<path d="{round_dots}" stroke="{style.colour}" stroke-width="5" stroke-linecap="round"/>')
    return parts


def _stroke(style: Style) -> str:
    dashes = f' stroke-dasharray="{style.dashes}"' if style.dashes else ""
    return f'fill="none" stroke="{style.colour}" stroke-width="1.7"{dashes}'
