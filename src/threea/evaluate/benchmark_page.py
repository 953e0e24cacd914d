"""A benchmark's result as Markdown and as one HTML file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from threea.datasets.published import METHODS
from threea.evaluate import benchmark_chart, benchmark_panels
from threea.evaluate.benchmark_chart import Chart
from threea.evaluate.benchmark_peers import DISTANCES
from threea.evaluate.benchmark_table1 import REAL
from threea.evaluate.benchmark_work import too_few
from threea.recipes import ClustMix

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
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    theirs: int | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """A result as text: a title, tables, notes below them; and pictures, which stand above on the HTML page."""

    title: str
    sections: Sequence[Section]
    notes: Sequence[str]
    charts: Sequence[Chart] = ()
    picture: str | None = None
    """An SVG of our own making, to be placed as it is."""


def page(result: dict[str, Any]) -> Page:
    """Lay a result of `table1`, `mcgen`, `peers`, `sweep` or `ablations` out."""
    return _LAYOUTS[result["table"]](result)


def markdown(result: dict[str, Any]) -> str:
    """Return a result as Markdown."""
    shown = page(result)
    lines = [f"# {_plain(shown.title)}"]
    for section in shown.sections:
        lines += ["", f"## {_plain(section.title)}", "", _line(section.head), "|" + " --- |" * len(section.head)]
        lines += [_line(row) for row in section.rows]
    lines += ["", *(f"- {_plain(note)}" for note in shown.notes)]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_plain(cell) for cell in cells) + " |"


def _plain(text: str) -> str:
    """Return text that Markdown takes literally, on one line."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", " ".join(str(text).split()))


def html(result: dict[str, Any]) -> str:
    """Return a result as a self-contained HTML page."""
    from jinja2 import Environment

    size = {"width": benchmark_chart.WIDTH, "height": benchmark_chart.HEIGHT}
    template = resources.files("threea.evaluate").joinpath("benchmark.html.j2").read_text(encoding="utf-8")
    return (
        Environment(autoescape=True, keep_trailing_newline=True).from_string(template).render(page=page(result), **size)
    )


def _score(found: dict[str, Any], digits: int = 3) -> str:
    """Return a mean, its spread and how it is guaranteed; or what went wrong."""
    if found["mean"] is None:
        return str(found.get("error", "no score"))
    spread = "" if found["stdev"] is None else f" ± {found['stdev']:.{digits}f}"
    failed = len(found["by_seed"]) - found["seeds"]
    partly = f" ({failed} of {len(found['by_seed'])} seeds failed: {found.get('error', 'no score')})" if failed else ""
    return f"{found['mean']:.{digits}f}{spread}{MARKS.get(found.get('guarantee', ''), '')}{partly}"


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _table1(result: dict[str, Any]) -> Page:
    # The recipe, and where a row keeps its figures: releases under replace stand apart.
    columns = [("recipes", name) for name in result["recipes"]]
    columns += dict.fromkeys(("replace", name) for row in result["datasets"] for name in row.get("replace", ()))
    recipes = [name if part == "recipes" else f"{name} (replace)" for part, name in columns]
    head = ["dataset", "rows", "features", "bounds", "Real", *recipes, *(f"{method} (theirs)" for method in METHODS)]
    blank = [""] * (len(head) - 2)
    rows, costs = [], []
    for row in result["datasets"]:
        if "skipped" in row:
            rows.append([row["dataset"], row["skipped"], *blank])
            continue
        theirs = (row["theirs"] or {}).get("scores", {})
        measured = [row[REAL], *(row[part][name] for part, name in columns)]
        size = [_named(row), f"{row['rows']:,}", f"{row['features']:,}", row["schema"]]
        rows.append([*size, *map(_score, measured), *(_number(theirs.get(method), ".3f") for method in METHODS)])
        costs += [
            _cost(row["dataset"], label, row[part][name]) for label, (part, name) in zip(recipes, columns, strict=True)
        ]
    distances = result["mean_distance_to_real"]
    kept = {"recipes": distances["ours"], "replace": distances.get("replace", {})}
    ours = [_number(kept[part].get(name), ".3f") for part, name in columns]
    published = [_number(distances["theirs"][method], ".3f") for method in METHODS]
    rows.append(
        ["mean distance to Real", "", "", "", _number(0.0 if distances["over"] else None, ".3f"), *ours, *published]
    )
    sections = [
        Section("Score of LightGBM on held-out real rows", head, rows, theirs=5 + len(recipes)),
        Section(
            "What it took", ["dataset", "recipe", "seconds", "synthetic rows", "epsilon accounted", "guarantee"], costs
        ),
        *_clustmix(result),
    ]
    return Page(f"Table 1 at epsilon {result['epsilon']:g}", sections, _table1_notes(result))


def _clustmix(result: dict[str, Any]) -> list[Section]:
    """Set the recipe that is after the paper's own method beside its figures, if it was measured."""
    # Figures of a dataset that another stands in for are not to be compared.
    rows = [
        [
            row["dataset"],
            name,
            result["recipes"][name]["guarantee"],
            _number(found.get("rows"), ","),
            _score(row[REAL]),
            _score(found),
            *(_number(row["theirs"]["scores"][method], ".3f") for method in ("ClustMix", "Real")),
        ]
        for row in result["datasets"]
        if row.get("theirs") and not row["stands_in_for"]
        for name, found in row["recipes"].items()
        if name.partition(":")[0] == ClustMix.name
    ]
    head = ["dataset", "recipe", "guarantee", "synthetic rows", "Real", "score", "ClustMix (theirs)", "Real (theirs)"]
    return [Section("ClustMix here and in the paper", head, rows, theirs=6)] if rows else []


def _named(row: dict[str, Any]) -> str:
    metric = "" if row["metric"] == "auc" else f", {row['metric']}"
    stands = f" (stands in for {row['stands_in_for']})" if row["stands_in_for"] else ""
    return f"{row['dataset']}{stands}{metric}"


def _cost(dataset: str, name: str, found: dict[str, Any]) -> list[str]:
    accounted = _number(found.get("accounted_epsilon"), ".4g") or "unbounded"
    numbers = [_number(found["seconds"], ".1f"), _number(found.get("rows"), ",")]
    done = "guarantee" in found
    return [dataset, name, *numbers, accounted if done else "", found.get("guarantee", "failed")]


def _table1_notes(result: dict[str, Any]) -> list[str]:
    distances = result["mean_distance_to_real"]
    present = [row for row in result["datasets"] if "skipped" not in row]
    notes = [
        LEGEND,
        f"AUC, one-vs-one for many classes, unless the row says accuracy. {result['seeds']} seeds, each a split of its "
        "own (25% held out, isolet 30%, mnist as published); delta is one in the number of training rows, mnist 1e-5; "
        f"adjacency {result['adjacency']} but for columns that say replace, which is the paper's.",
        "Figures marked (theirs) are those of the ClustMix paper: not measured here, on splits of its own. For a "
        "stand-in they are of the dataset that it stands in for, and not to be compared.",
        "Bounds: public, from the dataset's documentation, or discovered, from the release's own budget.",
        *_drawn(result),
        *_too_few(present),
        f"Our mean distance to Real is over: {', '.join(distances['over']) or 'none'}; theirs is over their seven.",
    ]
    notes += [
        f"{row['dataset']}: {row['title']}; delta {row['delta']:.3g}; "
        f"LightGBM with {_listed(row[REAL].get('classifier'))}."
        for row in present
    ]
    return [*notes, *_closing(result)]


def _drawn(result: dict[str, Any]) -> list[str]:
    if "drawn" not in result:
        return []
    most = result["drawn"]
    return [
        f"Drawing is free: each release draws {most['most_rows']:,} rows (at most {most['most_values']:,} values), or "
        "as many as it was given if those are more; recipes that make a number of rows of their own do not."
    ]


def _too_few(lines: Sequence[dict[str, Any]]) -> list[str]:
    """Name the scores that tell of the learner and not of the rows: it cannot split so few of them at all."""
    named = [
        f"{name} on {line['dataset']} ({found['rows']})"
        for line in lines
        for name, found in line["recipes"].items()
        if too_few(found)
    ]
    few = "Fewer rows than two leaves of LightGBM need: it learns nothing from them, whatever they are. Not compared: "
    return [f"{few}{'; '.join(named)}."] if named else []


def _listed(settings: dict[str, Any] | None) -> str:
    return ", ".join(f"{name} {value}" for name, value in (settings or {}).items()) or "none"


def _closing(result: dict[str, Any]) -> list[str]:
    recipes = [
        f"{name}: {one['summary']}; guarantee {one['guarantee']}, settings: {_listed(one['settings'])}."
        for name, one in result["recipes"].items()
    ]
    sources = sorted(_sources(result))
    mixed = (
        f"Cells were measured with {len(sources)} states of the library's source ({', '.join(sources)}); "
        "delete the file of cells to measure all of them again."
    )
    recipes += [mixed] if len(sources) > 1 else []
    return [*recipes, "Versions: " + ", ".join(f"{name} {number}" for name, number in result["versions"].items()) + "."]


def _sources(part: Any) -> set[str]:
    """Collect the hashes of the source that the parts of a result were measured with."""
    if isinstance(part, dict):
        own = set(part.get("sources", ()))
        return own.union(*(_sources(inner) for inner in part.values()))
    return set().union(*(_sources(inner) for inner in part)) if isinstance(part, list) else set()


def _mcgen(result: dict[str, Any]) -> Page:
    titles = {
        1: "Scenario 1: trained on real rows (80%), tested on synthetic rows made from the other 20%",
        2: "Scenario 2: trained on synthetic rows made from 80%, tested on the real other 20%",
    }
    epsilons = [f"{epsilon:g}" for epsilon in result["epsilons"]]
    head = ["dataset", "rows", "classifier", "recipe", "Real", *(f"ε {epsilon}" for epsilon in epsilons)]
    sections = []
    for scenario, title in titles.items():
        rows = [
            [
                line["dataset"],
                f"{line['rows']:,}",
                line["learner"],
                name,
                _score(line["real"]),
                *(_score(found[epsilon]) for epsilon in epsilons),
                _number(line["theirs"], ".2f"),
            ]
            for line in result["lines"]
            if line["scenario"] == scenario
            for name, found in line["recipes"].items()
        ]
        sections.append(Section(title, [*head, "Real (theirs)"], rows, theirs=len(head)))
    notes = [
        LEGEND,
        f"Accuracy. {result['seeds']} seeds; of larger datasets {result['rows']:,} rows, drawn anew for each seed. "
        "Delta is one in the number of rows that a release is made from, adjacency add-remove.",
        "Real (theirs) is the MC-GEN paper's baseline for the scenario: real rows train, real rows test.",
        *(f"{one['dataset']}: {one['reason']}" for one in result["skipped"]),
    ]
    return Page("MC-GEN's two scenarios", sections, [*notes, *_closing(result)])


def _peers(result: dict[str, Any]) -> Page:
    head = ["dataset", "method", "bins", "score", *DISTANCES]
    head += ["fit and sample, s", "peak memory, MB", "synthetic rows", "version"]
    rows = []
    for line in result["lines"]:
        found, name = line["result"], line["method"]
        own = result["recipes"].get(name, {}).get("settings", {}).get("bins", "its own") if line["ours"] else ""
        rows.append(
            [
                line["dataset"],
                f"threea {name}" if line["ours"] else name,
                str(line["bins"] or own),
                _score(found),
                *(_number(line[distance]["mean"], ".3f") for distance in DISTANCES),
                _number(found["seconds"], ".1f"),
                _number(found.get("peak_memory_mb"), ",.0f"),
                _number(found.get("rows"), ","),
                found.get("version", ""),
            ]
        )
    notes = [
        LEGEND,
        f"LightGBM trained on synthetic rows, tested on held-out real ones, at epsilon {result['epsilon']:g} and delta "
        f"one in the number of training rows; {result['seeds']} seeds.",
        f"tv1, tv2, tv3: mean total variation distance to the training rows, from 0 to 1, over single columns, pairs "
        f"and triples (all, or a fixed random sample), numbers in {result['marginal_bins']} bins; lower is better. The "
        "line of real has that of the held-out rows, which are fewer: about what sampling alone gives.",
        "Every run is a process of its own on one core. All methods cut numbers by the same public schema, with its "
        "special values, log scales and edges, into as many bins of equal width as the column says. Peers get the rows "
        "as these cells, and the exact number of rows; our recipes get the rows, and a noisy number of them.",
        "Peak memory is the process's, libraries included; time leaves out loading them and reading the file, and "
        "includes what a library compiles on the way.",
        "mbi ships models without mechanisms: its MST and AIM follow the papers and their author's scripts, in the "
        "benchmarks' own script, which says where it departs.",
        *(f"{one['what']}: {one['reason']}" for one in result["skipped"]),
    ]
    title = "Score, distance, time and memory"
    return Page("Beside other libraries", [Section(title, head, rows)], [*notes, *_closing(result)])


def _sweep(result: dict[str, Any]) -> Page:
    epsilons = [f"{epsilon:g}" for epsilon in result["epsilons"]]
    head = ["dataset", "rows", "recipe", "Real", *(f"ε {epsilon}" for epsilon in epsilons)]
    rows = [
        [_named(line), f"{line['rows']:,}", name, _score(line[REAL]), *(_score(found[one]) for one in epsilons)]
        for line in result["lines"]
        for name, found in line["recipes"].items()
    ]
    notes = [
        LEGEND,
        f"AUC, one-vs-one for many classes, unless the row says accuracy; LightGBM trained on synthetic rows, tested "
        f"on held-out real ones. {result['seeds']} seeds, each a split of its own; adjacency add-remove.",
        *(
            f"{line['dataset']}: {line['title']}; delta {line['delta']:.3g}; "
            f"LightGBM with {_listed(line[REAL].get('classifier'))}."
            for line in result["lines"]
        ),
        *(f"{one['dataset']}: {one['reason']}" for one in result["skipped"]),
    ]
    charts = [benchmark_chart.chart(line, result["epsilons"]) for line in result["lines"]]
    return Page(
        "Score by epsilon",
        [Section("Score of LightGBM on held-out real rows", head, rows)],
        [*notes, *_closing(result)],
        [one for one in charts if one is not None],
    )


def _ablations(result: dict[str, Any]) -> Page:
    """Lay a table a dataset out: a line for each form of grouping, a column for each way to run it."""
    head = ["recipe", "guarantee", "synthetic rows", "score", "by seed", "seconds"]
    sections = []
    for line in result["lines"]:
        rows = [["trained on real rows", "", "", _score(line[REAL]), _by_seed(line[REAL]), ""]]
        rows += [
            [
                name,
                result["recipes"][name]["guarantee"],
                _number(found.get("rows"), ","),
                _score(found),
                _by_seed(found),
                _number(found["seconds"], ".1f"),
            ]
            for name, found in line["recipes"].items()
        ]
        sections.append(Section(f"{_named(line)}: {line['title']}", head, rows))
    differences = [
        [line["dataset"], one["series"], one["contrast"], *_difference(one), _by_seed(one)]
        for line in result["lines"]
        for one in line["contrasts"]
    ]
    sections.append(
        Section(
            "Differences, seed by seed", ["dataset", "mode", "of", "difference", "95% interval", "by seed"], differences
        )
    )
    sections.append(_equal_rows(result))
    notes = [
        LEGEND,
        f"LightGBM trained on synthetic rows, tested on held-out real ones, at epsilon {result['epsilon']:g}; AUC "
        f"unless the title says accuracy. {result['seeds']} seeds, each a split of its own; adjacency add-remove.",
        "alpha 1 leaves the centroids where they are, which is ClustMix without kernel inducing points (KIP); dpmix "
        "mixes rows at random, which is ClustMix without clusters. As published and with the same sigma_max its "
        "groups are as large as ClustMix's clusters. Proven, it makes a fixed number of rows, ClustMix as many as it "
        "counts.",
        "Settings that a name leaves out are the recipe's defaults.",
        f"Differences whose interval is without 0: {result['intervals']['without_zero']} of "
        f"{result['intervals']['taken']}. Each interval is Student's and of its difference alone: of 20 that are "
        "nothing but chance one would be without 0.",
        *_too_few(result["lines"]),
        *(
            f"{line['dataset']}: {line['rows']:,} rows, {line['features']} features, delta {line['delta']:.3g}; "
            f"LightGBM with {_listed(line[REAL].get('classifier'))}."
            for line in result["lines"]
        ),
        *(f"{one['dataset']}: {one['reason']}" for one in result["skipped"]),
    ]
    title = "ClustMix taken apart"
    # What the recipes are has been said; of their settings a name says all that are not the default.
    closing = _closing(result | {"recipes": {}})
    return Page(title, sections, [*notes, *closing], picture=benchmark_panels.picture(result))


def _equal_rows(result: dict[str, Any]) -> Section:
    rows = [
        [
            line["dataset"],
            found["published"],
            f"{found['rows']:,}",
            _score(line["recipes"][found["published"]]),
            _score(found),
            _by_seed(found),
        ]
        for line in result["lines"]
        for found in line["equal_rows"]
        if "rows" in found and not too_few(found)
    ]
    head = ["dataset", "published", "rows", "score", "proven, with as many rows", "by seed"]
    return Section("Both modes with equally many rows", head, rows)


def _difference(found: dict[str, Any]) -> tuple[str, str]:
    spread = "" if found["stdev"] is None else f" ± {found['stdev']:.3f}"
    mean = "" if found["mean"] is None else f"{found['mean']:+.3f}{spread}"
    return mean, "" if found["interval"] is None else "{:+.3f} to {:+.3f}".format(*found["interval"])


def _by_seed(found: dict[str, Any]) -> str:
    return ", ".join("failed" if score is None else f"{score:.3f}" for score in found["by_seed"])


_LAYOUTS: dict[str, Callable[[dict[str, Any]], Page]] = {
    "table1": _table1,
    "mcgen": _mcgen,
    "peers": _peers,
    "sweep": _sweep,
    "ablations": _ablations,
}
