"""What the pages of all benchmarks share: tables, how a figure reads in them, and the notes that close a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.measure import too_few
from benchmarks.page.sweep_chart import Chart

MARKS = {"proven": "", "claimed": "†", "none": "‡"}
LEGEND = (
    "† claimed: the published method's own accounting, not proven. ‡ none: no privacy claim at all. "
    "± is the standard deviation over the seeds."
)


@dataclass(frozen=True, slots=True)
class Section:
    """A table.

    Args:
        title: Above it.
        head: The columns' names.
        rows: Their cells, as text.
        theirs: From which column on figures are others', published and not measured here.
        drawings: SVGs of our own making that stand below it on the HTML page.
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    theirs: int | None = None
    drawings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """A result as text: a title, tables, notes below them; and charts, which stand above on the HTML page."""

    title: str
    sections: Sequence[Section]
    notes: Sequence[str]
    charts: Sequence[Chart] = ()
    drawing: str | None = None
    """An SVG of our own making, to be placed as it is."""


def score(cell: dict[str, Any], digits: int = 3) -> str:
    """Return a mean, its spread and how it is guaranteed; or what went wrong."""
    if cell["mean"] is None:
        return str(cell.get("error", "no score"))
    spread = "" if cell["stdev"] is None else f" ± {cell['stdev']:.{digits}f}"
    failed = len(cell["by_seed"]) - cell["seeds"]
    partly = f" ({failed} of {len(cell['by_seed'])} seeds failed: {cell.get('error', 'no score')})" if failed else ""
    return f"{cell['mean']:.{digits}f}{spread}{MARKS.get(cell.get('guarantee', ''), '')}{partly}"


def number(value: float | None, form: str) -> str:
    """Return a number in this form; nothing if there is none."""
    return "" if value is None else format(value, form)


def by_seed(cell: dict[str, Any]) -> str:
    """Return the scores one by one."""
    return ", ".join("failed" if value is None else f"{value:.3f}" for value in cell["by_seed"])


def named(row: dict[str, Any]) -> str:
    """Return a dataset's name, with what it stands in for and how it is scored if that is not by AUC."""
    metric = "" if row["metric"] == "auc" else f", {row['metric']}"
    stands = f" (stands in for {row['stands_in_for']})" if row["stands_in_for"] else ""
    return f"{row['dataset']}{stands}{metric}"


def few_rows(lines: Sequence[dict[str, Any]]) -> list[str]:
    """Name the scores that tell of the learner and not of the rows: it cannot split so few of them at all."""
    uncompared = [
        f"{name} on {line['dataset']} ({cell['rows']})"
        for line in lines
        for name, cell in line["recipes"].items()
        if too_few(cell)
    ]
    few = "Fewer rows than two leaves of LightGBM need: it learns nothing from them, whatever they are. Not compared: "
    return [f"{few}{'; '.join(uncompared)}."] if uncompared else []


def listed(settings: dict[str, Any] | None) -> str:
    """Return settings as names and values."""
    return ", ".join(f"{name} {value}" for name, value in (settings or {}).items()) or "none"


def closing(result: dict[str, Any]) -> list[str]:
    """Return the last notes: the recipes, the states of the source if there were several, the versions."""
    recipes = [
        f"{name}: {recipe['summary']}; guarantee {recipe['guarantee']}, settings: {listed(recipe['settings'])}."
        for name, recipe in result["recipes"].items()
    ]
    sources = sorted(_sources(result))
    mixed = (
        f"Cells were measured with {len(sources)} states of the library's source ({', '.join(sources)}); "
        "delete the file of cells to measure all of them again."
    )
    recipes += [mixed] if len(sources) > 1 else []
    return [*recipes, "Versions: " + listed(result["versions"]) + "."]


def _sources(part: Any) -> set[str]:
    """Collect the hashes of the source that the parts of a result were measured with."""
    if isinstance(part, dict):
        own = set(part.get("sources", ()))
        return own.union(*(_sources(inner) for inner in part.values()))
    return set().union(*(_sources(inner) for inner in part)) if isinstance(part, list) else set()
