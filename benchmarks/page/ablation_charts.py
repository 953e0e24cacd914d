"""Charts of the ablations: a panel for each dataset, scores of every seed, their mean and spread.

Across stands how rows are grouped: at random, or by clusters whose centroids may move (alpha from 0 to 1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from benchmarks.measure import too_few
from benchmarks.page.sweep_chart import COLOURS
from threea.recipes import ClustMix, ClustMixPublished, DPMix
from threea.report.charts import round_ticks
from threea.report.words import number

WIDTH, PANEL_HEIGHT, LEGEND = 880.0, 290.0, 34.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 14.0, 34.0, 50.0
_ASIDE = 11.0
"""Between the series in one column."""
_LEAST = 0.04
"""The narrowest axis, so that nothing looks far apart that is not."""
RANDOM = "random"
"""The column of rows that are mixed at random."""
_SHAPES = (
    "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z",
    "M-4 -4h8v8h-8z",
    "M0 -5.5l5.5 5.5l-5.5 5.5l-5.5 -5.5z",
    "M0 -5l5 9h-10z",
)

Summary = Mapping[str, Any]
Series = dict[str, dict[str, Summary]]
"""By series and column: a `cells.summary`."""


def charts(result: Mapping[str, Any]) -> str | None:
    """Draw a result of `ablations.ablations` as one SVG; None if nothing in it has a score."""
    sorted_out = [(line, series(line["recipes"], result["recipes"])) for line in result["lines"]]
    drawn = [(line, by_label) for line, by_label in sorted_out if by_label]
    if not drawn:
        return None
    labels = list(dict.fromkeys(label for _, by_label in drawn for label in by_label))
    columns = _columns([by_label for _, by_label in drawn])
    across = min(2, len(drawn))
    height = LEGEND + PANEL_HEIGHT * math.ceil(len(drawn) / across)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height:g}" role="img" '
        'font-family="system-ui, sans-serif" font-size="13" fill="#1b1f24">',
        f"<title>{escape(_summary(drawn))}</title>",
        f'<rect width="{WIDTH:g}" height="{height:g}" fill="#fff"/>',
        *_legend(labels),
    ]
    for panel, (line, by_label) in enumerate(drawn):
        left, top = (panel % across) * WIDTH / across, LEGEND + (panel // across) * PANEL_HEIGHT
        parts.append(f'<g transform="translate({left:g} {top:g})">')
        parts += _panel(line, by_label, labels, columns, WIDTH / across)
        parts.append("</g>")
    return "\n".join([*parts, "</svg>"]) + "\n"


def series(results: Mapping[str, Summary], recipes: Mapping[str, Any]) -> Series:
    """Sort results of recipes by series, which is the mode and the noise, and by column.

    Those of too few rows to learn from are left out: their scores tell of the learner alone.

    Args:
        results: By recipe.
        recipes: What `measure.about` says of each.
    """
    by_label: Series = {}
    for text, result in results.items():
        name, settings = text.partition(":")[0], recipes[text]["settings"]
        if result["mean"] is None or too_few(result) or name not in (ClustMix.name, ClustMixPublished.name, DPMix.name):
            continue
        published = name == ClustMixPublished.name
        label = f"published, sigma_max {settings['sigma_max']:g}" if published else "proven"
        mixed = name == DPMix.name or settings.get("clusters") == "random"
        column = RANDOM if mixed else f"{settings['alpha']:g}"
        by_label.setdefault(label, {}).setdefault(column, result)
    return by_label


def _columns(panels: Sequence[Series]) -> list[str]:
    names = {column for panel in panels for points in panel.values() for column in points}
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
    line: Mapping[str, Any], by_label: Series, labels: Sequence[str], columns: Sequence[str], width: float
) -> list[str]:
    real = line["real"]["mean"]
    axes = _Axes(columns, width, *_ends(by_label, real))
    metric = "AUC" if line["metric"] == "auc" else line["metric"]
    right, floor = width - _RIGHT, PANEL_HEIGHT - _BOTTOM
    parts = [f'<text x="{_LEFT:g}" y="20" font-weight="600">{escape(line["dataset"])}: {escape(str(metric))}</text>']
    for score in round_ticks(axes.low, axes.high, most=8):
        y = axes.up(score)
        parts.append(f'<path d="M{_LEFT:g} {y:.1f}H{right:g}" stroke="#e6e9ee"/>')
        parts.append(f'<text x="{_LEFT - 7:g}" y="{y + 4:.1f}" text-anchor="end">{number(score)}</text>')
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
    for label, points in by_label.items():
        position = labels.index(label)
        parts += _drawn(points, axes, position, _ASIDE * (position - (len(labels) - 1) / 2))
    return parts


def _drawn(points: Mapping[str, Summary], axes: _Axes, position: int, aside: float) -> list[str]:
    """Return one series: a dot a seed, a whisker of one standard deviation to each side, a mark at the mean."""
    colour, shape = COLOURS[position % len(COLOURS)], _SHAPES[position % len(_SHAPES)]
    ordered = [column for column in axes.columns if column in points]
    means = {column: (axes.across(column, aside), axes.up(points[column]["mean"])) for column in ordered}
    line = "L".join(f"{x:.1f} {y:.1f}" for column, (x, y) in means.items() if column != RANDOM)
    parts = [f'<path d="M{line}" fill="none" stroke="{colour}" stroke-opacity=".45"/>'] if line else []
    for column, (x, y) in means.items():
        result = points[column]
        seeds = "".join(f"M{x:.1f} {axes.up(score):.1f}h.01" for score in result["by_seed"] if score is not None)
        parts.append(f'<path d="{seeds}" stroke="{colour}" stroke-width="4" stroke-linecap="round" opacity=".4"/>')
        if result["stdev"]:
            low, high = axes.up(result["mean"] - result["stdev"]), axes.up(result["mean"] + result["stdev"])
            parts.append(f'<path d="M{x:.1f} {low:.1f}V{high:.1f}" stroke="{colour}" stroke-width="1.5"/>')
        parts.append(f'<path d="{shape}" transform="translate({x:.1f} {y:.1f})" fill="{colour}"/>')
    return parts


def _legend(labels: Sequence[str]) -> list[str]:
    parts, x = [], _LEFT
    for position, label in enumerate(labels):
        colour, shape = COLOURS[position % len(COLOURS)], _SHAPES[position % len(_SHAPES)]
        parts.append(f'<path d="{shape}" transform="translate({x:g} 18)" fill="{colour}"/>')
        parts.append(f'<text x="{x + 11:g}" y="22">{escape(label)}</text>')
        x += 36 + 7.2 * len(label)
    parts.append(f'<path d="M{x:g} 18h22" stroke="#1b1f24" stroke-dasharray="2 4"/>')
    parts.append(f'<text x="{x + 28:g}" y="22">trained on real rows</text>')
    return parts


def _ends(by_label: Series, real: float | None) -> tuple[float, float]:
    scores = [
        score
        for points in by_label.values()
        for result in points.values()
        for score in (
            result["mean"] - (result["stdev"] or 0.0),
            result["mean"] + (result["stdev"] or 0.0),
            *(score for score in result["by_seed"] if score is not None),
        )
    ]
    scores += [] if real is None else [real]
    low, high = min(scores), max(scores)
    margin = max(_LEAST - (high - low), 0.0) / 2 + 0.04 * max(high - low, _LEAST)
    return low - margin, high + margin


def _summary(drawn: Sequence[tuple[Mapping[str, Any], Series]]) -> str:
    """Say what is seen, for those who cannot see it."""
    texts = [
        f"{line['dataset']}, {label}: "
        + ", ".join(f"{result['mean']:.3f} ({_named(column)})" for column, result in points.items())
        for line, by_label in drawn
        for label, points in by_label.items()
    ]
    return "Score by alpha; dots are seeds, whiskers one standard deviation. " + "; ".join(texts)


def _named(column: str) -> str:
    return "random mixing" if column == RANDOM else f"alpha {column}"
