"""A picture of the ablations: a panel for each dataset, scores of every seed, their mean and spread.

Across stands how rows are grouped: at random, or by clusters whose centroids may move (alpha from 0 to 1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from threea.evaluate.benchmark_work import too_few
from threea.recipes import ClustMix, ClustMixPublished, DPMix

WIDTH, PANEL_HEIGHT, LEGEND = 880.0, 290.0, 34.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 14.0, 34.0, 50.0
_ASIDE = 11.0
"""Between the series in one column."""
_LEAST = 0.04
"""The narrowest axis, so that nothing looks far apart that is not."""
RANDOM = "random"
"""The column of rows that are mixed at random."""
_COLOURS = ("#2f74b5", "#a85500", "#7a3e9d", "#2a7f62", "#b0355c", "#5a6570")
_SHAPES = (
    "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z",
    "M-4 -4h8v8h-8z",
    "M0 -5.5l5.5 5.5l-5.5 5.5l-5.5 -5.5z",
    "M0 -5l5 9h-10z",
)

Summary = Mapping[str, Any]
Series = dict[str, dict[str, Summary]]
"""By series and column: a `benchmark_cells.summary`."""


def picture(result: Mapping[str, Any]) -> str | None:
    """Draw a result of `benchmark_ablations.ablations` as one SVG; None if nothing in it has a score."""
    sorted_out = [(line, series(line["recipes"], result["recipes"])) for line in result["lines"]]
    drawn = [(line, found) for line, found in sorted_out if found]
    if not drawn:
        return None
    labels = list(dict.fromkeys(label for _, found in drawn for label in found))
    columns = _columns([found for _, found in drawn])
    across = min(2, len(drawn))
    height = LEGEND + PANEL_HEIGHT * math.ceil(len(drawn) / across)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height:g}" role="img" '
        'font-family="system-ui, sans-serif" font-size="13" fill="#1b1f24">',
        f"<title>{escape(_summary(drawn))}</title>",
        f'<rect width="{WIDTH:g}" height="{height:g}" fill="#fff"/>',
        *_legend(labels),
    ]
    for place, (line, found) in enumerate(drawn):
        left, top = (place % across) * WIDTH / across, LEGEND + (place // across) * PANEL_HEIGHT
        parts.append(f'<g transform="translate({left:g} {top:g})">')
        parts += _panel(line, found, labels, columns, WIDTH / across)
        parts.append("</g>")
    return "\n".join([*parts, "</svg>"]) + "\n"


def series(results: Mapping[str, Summary], recipes: Mapping[str, Any]) -> Series:
    """Sort results of recipes by series, which is the mode and the noise, and by column.

    Those of too few rows to learn from are left out: their scores tell of the learner alone.

    Args:
        results: By recipe.
        recipes: What `benchmark_work.about` says of each.
    """
    found: Series = {}
    for text, one in results.items():
        name, settings = text.partition(":")[0], recipes[text]["settings"]
        if one["mean"] is None or too_few(one) or name not in (ClustMix.name, ClustMixPublished.name, DPMix.name):
            continue
        published = name == ClustMixPublished.name
        label = f"published, sigma_max {settings['sigma_max']:g}" if published else "proven"
        mixed = name == DPMix.name or settings.get("clusters") == "random"
        column = RANDOM if mixed else f"{settings['alpha']:g}"
        found.setdefault(label, {}).setdefault(column, one)
    return found


def _columns(found: Sequence[Series]) -> list[str]:
    names = {column for one in found for points in one.values() for column in points}
    return sorted(names, key=lambda name: -1.0 if name == RANDOM else float(name))


@dataclass(frozen=True, slots=True)
class _Axes:
    columns: Sequence[str]
    width: float
    low: float
    high: float

    def across(self, column: str, aside: float = 0.0) -> float:
        step = (self.width - _LEFT - _RIGHT) / len(self.columns)
        return _LEFT + step * (self.columns.index(column) + 0.5) + aside

    def up(self, score: float) -> float:
        return _TOP + (PANEL_HEIGHT - _TOP - _BOTTOM) * (self.high - score) / (self.high - self.low)


def _panel(
    line: Mapping[str, Any], found: Series, labels: Sequence[str], columns: Sequence[str], width: float
) -> list[str]:
    real = line["real"]["mean"]
    axes = _Axes(columns, width, *_ends(found, real))
    metric = "AUC" if line["metric"] == "auc" else line["metric"]
    right, floor = width - _RIGHT, PANEL_HEIGHT - _BOTTOM
    parts = [f'<text x="{_LEFT:g}" y="20" font-weight="600">{escape(line["dataset"])}: {escape(str(metric))}</text>']
    for score, text in _marks(axes.low, axes.high):
        y = axes.up(score)
        parts.append(f'<path d="M{_LEFT:g} {y:.1f}H{right:g}" stroke="#e6e9ee"/>')
        parts.append(f'<text x="{_LEFT - 7:g}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    for column in columns:
        text = "1 (no KIP)" if column == "1" else column
        parts.append(f'<text x="{axes.across(column):.1f}" y="{floor + 18:g}" text-anchor="middle">{text}</text>')
    middle = (_LEFT + right) / 2
    parts.append(f'<text x="{middle:g}" y="{floor + 38:g}" text-anchor="middle">alpha, or random mixing</text>')
    if RANDOM in columns and len(columns) > 1:
        apart = (axes.across(columns[0]) + axes.across(columns[1])) / 2
        parts.append(f'<path d="M{apart:.1f} {_TOP:g}V{floor:g}" stroke="#c5ccd5"/>')
    if real is not None:
        y = axes.up(real)
        parts.append(f'<path d="M{_LEFT:g} {y:.1f}H{right:g}" stroke="#1b1f24" stroke-dasharray="2 4"/>')
    for label, points in found.items():
        place = labels.index(label)
        parts += _drawn(points, axes, place, _ASIDE * (place - (len(labels) - 1) / 2))
    return parts


def _drawn(points: Mapping[str, Summary], axes: _Axes, place: int, aside: float) -> list[str]:
    """Return one series: a dot a seed, a whisker of one standard deviation to each side, a mark at the mean."""
    colour, shape = _COLOURS[place % len(_COLOURS)], _SHAPES[place % len(_SHAPES)]
    ordered = [column for column in axes.columns if column in points]
    means = {column: (axes.across(column, aside), axes.up(points[column]["mean"])) for column in ordered}
    line = "L".join(f"{x:.1f} {y:.1f}" for column, (x, y) in means.items() if column != RANDOM)
    parts = [f'<path d="M{line}" fill="none" stroke="{colour}" stroke-opacity=".45"/>'] if line else []
    for column, (x, y) in means.items():
        one = points[column]
        seeds = "".join(f"M{x:.1f} {axes.up(score):.1f}h.01" for score in one["by_seed"] if score is not None)
        parts.append(f'<path d="{seeds}" stroke="{colour}" stroke-width="4" stroke-linecap="round" opacity=".4"/>')
        if one["stdev"]:
            low, high = axes.up(one["mean"] - one["stdev"]), axes.up(one["mean"] + one["stdev"])
            parts.append(f'<path d="M{x:.1f} {low:.1f}V{high:.1f}" stroke="{colour}" stroke-width="1.5"/>')
        parts.append(f'<path d="{shape}" transform="translate({x:.1f} {y:.1f})" fill="{colour}"/>')
    return parts


def _legend(labels: Sequence[str]) -> list[str]:
    parts, x = [], _LEFT
    for place, label in enumerate(labels):
        colour, shape = _COLOURS[place % len(_COLOURS)], _SHAPES[place % len(_SHAPES)]
        parts.append(f'<path d="{shape}" transform="translate({x:g} 18)" fill="{colour}"/>')
        parts.append(f'<text x="{x + 11:g}" y="22">{escape(label)}</text>')
        x += 36 + 7.2 * len(label)
    parts.append(f'<path d="M{x:g} 18h22" stroke="#1b1f24" stroke-dasharray="2 4"/>')
    parts.append(f'<text x="{x + 28:g}" y="22">trained on real rows</text>')
    return parts


def _ends(found: Series, real: float | None) -> tuple[float, float]:
    scores = [
        score
        for points in found.values()
        for one in points.values()
        for score in (
            one["mean"] - (one["stdev"] or 0.0),
            one["mean"] + (one["stdev"] or 0.0),
            *(score for score in one["by_seed"] if score is not None),
        )
    ]
    scores += [] if real is None else [real]
    low, high = min(scores), max(scores)
    margin = max(_LEAST - (high - low), 0.0) / 2 + 0.04 * max(high - low, _LEAST)
    return low - margin, high + margin


def _marks(low: float, high: float) -> list[tuple[float, str]]:
    """Return round scores on an axis, and how they are written."""
    step = next((step for step in (0.01, 0.02, 0.05) if (high - low) / step <= 8), 0.1)
    counts = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    return [(count * step, f"{count * step:.2f}") for count in counts]


def _summary(drawn: Sequence[tuple[Mapping[str, Any], Series]]) -> str:
    """Say what is seen, for those who cannot see it."""
    told = [
        f"{line['dataset']}, {label}: "
        + ", ".join(f"{one['mean']:.3f} ({_named(column)})" for column, one in points.items())
        for line, found in drawn
        for label, points in found.items()
    ]
    return "Score by alpha; dots are seeds, whiskers one standard deviation. " + "; ".join(told)


def _named(column: str) -> str:
    return "random mixing" if column == RANDOM else f"alpha {column}"
