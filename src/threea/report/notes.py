"""What people are told of a release first: what is not as one would expect.

A column that came out empty was often read wrongly, or described wrongly. The noisy counts tell, free of charge: what
is said here follows from them and the schema alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from threea.model_summary import Histogram, ModelSummary
from threea.report import words
from threea.report.charts import between, value_text
from threea.table.cells import Bins, Categories
from threea.table.schema import Column, Kind, Origin, Schema
from threea.table.spreadsheet import formula_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from threea.release import Release

NEARLY_ALL, ALIKE = 0.95, 0.99
"""Share of the rows from which a column is said to hold nothing, and one value. Chosen."""
SURELY = 3.0
"""It is said if the noisy count exceeds that share by so many standard deviations of the noise: of a column that is not
so, wrongly with a chance of at most 0.14%."""
FALSE_ALARM = 0.00135
"""That chance: of a normal number to exceed 3 standard deviations."""
_READING = "how the file is read (decimal mark, date format, missing texts)"


def notes(release: Release, form: str = "parquet") -> list[str]:
    """Return what is to be said of a release beside its guarantee, if it is written in this form."""
    said = (
        words.REBALANCED if release.classes else "",
        release.rows_note,
        _made_up(release.schema, release.unit.column),
    )
    run = run_as_formulas((release.schema, release.layout)) if form == "csv" and not release.spreadsheet_safe else []
    return [note for note in (*said, *hollow(release.schema, release.summary), *run) if note]


def run_as_formulas(*tables: tuple[Schema, pa.Schema]) -> list[str]:
    """Say which columns of tables, of these schemas and layouts, have text that a spreadsheet would run, if any has."""
    names = [name for schema, layout in tables for name in formula_columns(schema, layout)]
    return [words.formulas(names)] if names else []


def _made_up(schema: Schema, unit_column: str | None) -> str:
    """Say which columns discovery took for ids."""
    if schema.origin is not Origin.DISCOVERED:
        return ""
    taken = [column.name for column in schema.columns if column.kind is Kind.ID and column.name != unit_column]
    if not taken:
        return ""
    return f"Taken for ids by their names, and made up: {', '.join(map(words.shown, taken))}; a schema says otherwise."


def hollow(schema: Schema, summary: ModelSummary) -> list[str]:
    """Say which columns came out nearly all missing, "other" or alike, and what to look at.

    Guarantees:
        - It follows from the model's noisy counts and the schema: no private row is looked at.
        - A column that is not so is named with a chance of at most `FALSE_ALARM` for each of the three.

    Args:
        schema: What the columns are.
        summary: Of the model; a column without noisy counts of its own is passed over, and so is one that is learned as
            a distance.
    """
    if summary.private_rows is None:
        return []
    counted = [column for column in schema.valued if column.name in summary.histograms.keys() - schema.distances.keys()]
    said = (_said(schema, column, summary.histograms[column.name], summary) for column in counted)
    return [sentence for sentence in said if sentence]


def _said(schema: Schema, column: Column, histogram: Histogram, summary: ModelSummary) -> str:
    cells = histogram.cells
    absent = [cell for cell in cells.unlisted if not _is_other(histogram, cell)]
    others = [cell for cell in cells.unlisted if _is_other(histogram, cell)]
    for what, group in (("missing", absent), ('"other"', others), ('missing or "other"', list(cells.unlisted))):
        if group and (share := _surely(histogram, group, summary, NEARLY_ALL)):
            return _sentence(column, what, share, _remedy(schema, column, other=bool(others) and group is not absent))
    listed = [cell for cell in range(cells.size) if cell not in cells.unlisted]
    for cell in listed if len(listed) > 1 else ():
        if share := _surely(histogram, [cell], summary, ALIKE):
            return _sentence(column, f"alike: {_name(column, histogram, cell)}", share, _remedy(schema, column))
    return ""


def _is_other(histogram: Histogram, cell: int) -> bool:
    cells = histogram.cells
    return isinstance(cells, Categories) and cells.other and cell == cells.count - 1


def _surely(histogram: Histogram, group: list[int], summary: ModelSummary, least: float) -> float:
    """Return the share of the rows that some cells hold, if that is more than `least` by more than noise explains."""
    rows = max(summary.private_rows or 0.0, 1.0)
    count = float(histogram.counts[group].sum())
    noise = math.hypot(histogram.stddev * math.sqrt(len(group)), least * summary.private_rows_stddev)
    return min(count / rows, 1.0) if count - least * rows > SURELY * noise else 0.0


def _name(column: Column, histogram: Histogram, cell: int) -> str:
    cells = histogram.cells
    if not isinstance(cells, Bins):
        return words.shown(column.categories[cell])
    first = len(cells.special)
    if cell < first:
        return value_text(column, cells.special[cell])
    return between(column, cells.edges[cell - first], cells.edges[cell - first + 1])


def _sentence(column: Column, what: str, share: float, remedy: str) -> str:
    return (
        f"Column {words.shown(column.name)} came out nearly all {what} ({words.percent(share)} of the rows, by noisy"
        f" counts). {remedy}"
    )


def _remedy(schema: Schema, column: Column, *, other: bool = False) -> str:
    if schema.origin is Origin.DISCOVERED:
        if other:
            return "Too few rows share a value to tell it: list its categories in a schema, or make it an id there."
        return f"If that is not so, look at {_READING}, or describe it in a schema."
    described = "categories" if column.kind.listed else "kind and bounds"
    return f"If that is not so, look at {_READING}, and at its {described} in the schema."
