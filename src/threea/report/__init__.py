"""A release as one self-contained HTML page, for those who decide whether it may leave the house.

Everything on the page follows from the release: its certificate, its plan, its model's noisy answers and its synthetic
rows. So it may be passed on with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from threea.anonymize.accountant import Line
from threea.model_summary import ModelSummary
from threea.report import words
from threea.report.charts import ColumnChart, column_chart
from threea.report.curve import Curve, curve
from threea.report.notes import hollow
from threea.report.terms import Terms, terms
from threea.report.tree import MOST, Tree, tree
from threea.score import NAMES
from threea.table import codec
from threea.table.calendar import Calendar
from threea.table.schema import Column, Kind, Schema
from threea.table.spreadsheet import formula_columns

if TYPE_CHECKING:
    import pyarrow as pa
    from jinja2 import Environment

    from threea.certificate import Certificate
    from threea.release import Release

OPEN_COLUMNS = 24
"""How many columns are on view; the others unfold."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A line of what was spent as a piece of the budget's bar."""

    number: int
    line: Line

    @property
    def width(self) -> str:
        """Its share of the bar, in percent."""
        return f"{100 * self.line.share:.3f}"

    @property
    def roomy(self) -> bool:
        """Whether its number fits in."""
        return self.line.share >= 0.04


@dataclass(frozen=True, slots=True)
class ChildRows:
    """What a page shows of a child table.

    Args:
        rows: How many children were drawn.
        schema: The child table's description.
        summary: Of their model.
        sample: Synthetic children to draw pictures from.
    """

    rows: int
    schema: Schema
    summary: ModelSummary
    sample: pa.Table

    @property
    def charts(self) -> list[ColumnChart]:
        """Draw the modelled columns."""
        return _drawn(self.schema, self.summary, self.sample, self.schema.modelled)


def _formulas(release: Release, children: ChildRows | None) -> tuple[str, ...]:
    """Return the columns of both tables that a spreadsheet would run."""
    own = formula_columns(release.schema, release.layout)
    return (*own, *(formula_columns(children.schema, children.sample.schema) if children else ()))


def render(release: Release, certificate: Certificate, sample: pa.Table, children: ChildRows | None = None) -> str:
    """Return the page.

    Guarantees:
        - It is made from the release alone: no private row is looked at, directly or through the model.
        - It needs nothing but itself: no script, no picture, style or font from elsewhere.
        - Equal arguments give equal pages.

    Args:
        release: What was made.
        certificate: The privacy facts of it.
        sample: Synthetic rows to draw pictures from.
        children: Of two tables, what there is of the child table; the release is then the parents'.
    """
    target, features = _charts(release, sample)
    trees, teachers, curves = _figures(release)
    page = _environment().get_template("page.html.j2")
    return page.render(
        release=release,
        certificate=certificate,
        columns=release.schema.columns,
        formulas=words.formulas(_formulas(release, children)),
        ids=[column.name for column in release.schema.columns if column.kind is Kind.ID],
        target=target,
        open_features=features[:OPEN_COLUMNS],
        folded_features=features[OPEN_COLUMNS:],
        segments=[Segment(position, line) for position, line in enumerate(release.spent, start=1)],
        trees=trees,
        most_edges=MOST,
        teachers=teachers,
        curves=curves,
        classes=release.classes,
        score=release.score,
        score_names=NAMES,
        noise=_noise(release, children),
        children=children,
        sampled_rows=sample.num_rows,
        private_rows=release.summary.private_rows,
        counted=words.counted(certificate.unit_column),
        hollow=hollow(release.schema, release.summary)
        + (hollow(children.schema, children.summary) if children else []),
        stands=words.stands(certificate),
        banner=words.banner(certificate),
        badge=words.badge(certificate),
        weakness=words.weakness(certificate.epsilon, certificate.delta),
        meaning=words.meaning(certificate),
        guess=words.best_guess(certificate.epsilon, certificate.delta),
        caveats=words.caveats(certificate),
        origin=words.origin(certificate)[0],
        rules=certificate.schema_rules,
        followed=release.schema.followed,
    )


def _charts(release: Release, sample: pa.Table) -> tuple[ColumnChart | None, list[ColumnChart]]:
    """Draw the target, if any, and the other columns."""
    schema, summary = release.schema, release.summary
    target = [schema[schema.target]] if schema.target else []
    drawn = _drawn(schema, summary, sample, target, scale=1.0)
    others = [column for column in schema.valued if column.name != schema.target]
    charts = [_by_calendar(chart, release.calendars) for chart in (*drawn, *_drawn(schema, summary, sample, others))]
    return (charts[0], charts[1:]) if drawn else (None, charts)


def _by_calendar(chart: ColumnChart, calendars: Sequence[Calendar]) -> ColumnChart:
    """Say of a chart of dates what its days were drawn by."""
    parts = [part for calendar in calendars if calendar.cells.column == chart.name for part in calendar.weights]
    return replace(chart, caption=f"{chart.caption}; drawn by {' and by '.join(parts)}") if parts else chart


def _drawn(
    schema: Schema, summary: ModelSummary, sample: pa.Table, columns: Sequence[Column], scale: float | None = None
) -> list[ColumnChart]:
    chunk = codec.encode(sample, schema)
    # The noisy counts of a column that is learned as a distance are of distances.
    histograms = {name: found for name, found in summary.histograms.items() if name not in schema.distances}
    return [
        column_chart(
            column, chunk[column.name], histograms.get(column.name), scale=scale, note=_note(schema, column.name)
        )
        for column in columns
    ]


def _note(schema: Schema, name: str) -> str:
    """Say what a rule spares a column."""
    if name in schema.followed:
        return f"Not asked about: it follows by the rule {words.shown(schema.followed[name], words.LONG)}."
    if name in schema.distances:
        return f"Asked about as a distance: {words.shown(schema.distances[name].text, words.LONG)}."
    return ""


def _noise(release: Release, children: ChildRows | None) -> Mapping[str, float]:
    """Return the noise of every answer by the plan's line."""
    own = release.summary.noise
    if children is None:
        return own
    return {f"parents: {line}": stddev for line, stddev in own.items()} | {
        f"children: {line}": stddev for line, stddev in children.summary.noise.items()
    }


def _figures(release: Release) -> tuple[list[Tree], list[Terms], list[Curve]]:
    """Lay out what the model shows of itself."""
    trees, teachers, curves = [], [], []
    for figure in release.summary.figures:
        if figure.kind == "tree":
            trees.append(tree(figure, release.schema.target))
        elif figure.kind == "terms":
            teachers.append(terms(figure, release.schema))
        else:
            curves.append(curve(figure))
    return trees, teachers, curves


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    # Names and categories come from outside: every one of them is escaped.
    environment = Environment(
        loader=PackageLoader("threea", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = {
        "shown": words.shown,
        "number": words.number,
        "percent": words.percent,
        "chance": words.chance,
        "event": words.event,
        "rounded": words.rounded,
        "noise_multiplier": words.noise_multiplier,
    }
    environment.filters.update(filters)
    return environment
