"""A benchmark's result as Markdown and as one HTML file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any

from benchmarks.datasets.published import METHODS
from benchmarks.measure import too_few
from benchmarks.page import ablation_charts, sweep_chart
from benchmarks.page.mcgen_layout import mcgen
from benchmarks.page.section import (
    LEGEND,
    Page,
    Section,
    by_seed,
    closing,
    few_rows,
    listed,
    named,
    number,
    score,
)
from benchmarks.tables.peers import DISTANCES
from benchmarks.tables.table1 import BALANCE, REAL, RECIPES, REPLACE
from threea.recipes import ClustMix, ClustMixPublished


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

    size = {"width": sweep_chart.WIDTH, "height": sweep_chart.HEIGHT}
    template = resources.files("benchmarks.page").joinpath("page.html.j2").read_text(encoding="utf-8")
    return (
        Environment(autoescape=True, keep_trailing_newline=True).from_string(template).render(page=page(result), **size)
    )


def _table1(result: dict[str, Any]) -> Page:
    # The recipe, and where a row keeps its figures: releases under replace, and balanced ones, stand apart.
    columns = [(RECIPES, name) for name in result[RECIPES]]
    for part in (REPLACE, BALANCE):
        columns += dict.fromkeys((part, name) for row in result["datasets"] for name in row.get(part, ()))
    recipes = [name if part == RECIPES else f"{name} ({part})" for part, name in columns]
    head = ["dataset", "rows", "features", "bounds", "Real", *recipes, *(f"{method} (theirs)" for method in METHODS)]
    blank = [""] * (len(head) - 2)
    rows, costs = [], []
    for row in result["datasets"]:
        if "skipped" in row:
            rows.append([row["dataset"], row["skipped"], *blank])
            continue
        theirs = (row["theirs"] or {}).get("scores", {})
        measured = [row[REAL], *(row[part][name] for part, name in columns)]
        size = [named(row), f"{row['rows']:,}", f"{row['features']:,}", row["schema"]]
        rows.append([*size, *map(score, measured), *(number(theirs.get(method), ".3f") for method in METHODS)])
        costs += [
            _cost(row["dataset"], label, row[part][name]) for label, (part, name) in zip(recipes, columns, strict=True)
        ]
    distances = result["mean_distance_to_real"]
    kept = {RECIPES: distances["ours"], **{part: distances.get(part, {}) for part in (REPLACE, BALANCE)}}
    ours = [number(kept[part].get(name), ".3f") for part, name in columns]
    published = [number(distances["theirs"][method], ".3f") for method in METHODS]
    rows.append(
        ["mean distance to Real", "", "", "", number(0.0 if distances["over"] else None, ".3f"), *ours, *published]
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
            number(cell.get("rows"), ","),
            score(row[REAL]),
            score(cell),
            *(number(row["theirs"]["scores"][method], ".3f") for method in ("ClustMix", "Real")),
        ]
        for row in result["datasets"]
        if row.get("theirs") and not row["stands_in_for"]
        for name, cell in row["recipes"].items()
        if name.partition(":")[0] in (ClustMix.name, ClustMixPublished.name)
    ]
    head = ["dataset", "recipe", "guarantee", "synthetic rows", "Real", "score", "ClustMix (theirs)", "Real (theirs)"]
    return [Section("ClustMix here and in the paper", head, rows, theirs=6)] if rows else []


def _cost(dataset: str, name: str, cell: dict[str, Any]) -> list[str]:
    accounted = number(cell.get("accounted_epsilon"), ".4g") or "unbounded"
    numbers = [number(cell["seconds"], ".1f"), number(cell.get("rows"), ",")]
    done = "guarantee" in cell
    return [dataset, name, *numbers, accounted if done else "", cell.get("guarantee", "failed")]


def _table1_notes(result: dict[str, Any]) -> list[str]:
    distances = result["mean_distance_to_real"]
    present = [row for row in result["datasets"] if "skipped" not in row]
    notes = [
        LEGEND,
        f"AUC, one-vs-one for many classes, unless the row says accuracy. {result['seeds']} seeds, each a split of its "
        "own (25% held out, isolet 30%, mnist as published); delta is one in the number of training rows, mnist 1e-5; "
        f"adjacency {result['adjacency']} but for columns that say replace, which is the paper's. "
        "Classes are in the private ratio but for columns that say balance.",
        "Figures marked (theirs) are those of the ClustMix paper: not measured here, on splits of its own. For a "
        "stand-in they are of the dataset that it stands in for, and not to be compared.",
        "Bounds: public, from the dataset's documentation, or discovered, from the release's own budget.",
        *_drawn(result),
        *few_rows(present),
        f"Our mean distance to Real is over: {', '.join(distances['over']) or 'none'}; theirs is over their seven.",
    ]
    notes += [
        f"{row['dataset']}: {row['title']}; delta {row['delta']:.3g}; "
        f"LightGBM with {listed(row[REAL].get('classifier'))}."
        for row in present
    ]
    return [*notes, *closing(result)]


def _drawn(result: dict[str, Any]) -> list[str]:
    if "drawn" not in result:
        return []
    most = result["drawn"]
    return [
        f"Drawing is free: each release draws {most['most_rows']:,} rows (at most {most['most_values']:,} values), or "
        "as many as it was given if those are more; recipes that make a number of rows of their own do not."
    ]


def _peers(result: dict[str, Any]) -> Page:
    head = ["dataset", "method", "bins", "score", "accuracy", *DISTANCES]
    head += ["fit and sample, s", "peak memory, MB", "synthetic rows", "version"]
    rows = []
    for line in result["lines"]:
        cell, name = line["result"], line["method"]
        own = result["recipes"].get(name, {}).get("settings", {}).get("bins", "its own") if line["ours"] else ""
        rows.append(
            [
                line["dataset"],
                f"threea {name}" if line["ours"] else name,
                str(line["bins"] or own),
                score(cell),
                number(line["accuracy"]["mean"], ".3f"),
                *(number(line[distance]["mean"], ".3f") for distance in DISTANCES),
                number(cell["seconds"], ".1f"),
                number(cell.get("peak_memory_mb"), ",.0f"),
                number(cell.get("rows"), ","),
                cell.get("version", ""),
            ]
        )
    notes = [
        LEGEND,
        f"LightGBM trained on synthetic rows, tested on held-out real ones, at epsilon {result['epsilon']:g} and delta "
        f"one in the number of training rows; {result['seeds']} seeds. The score is its AUC unless the dataset says "
        "accuracy, which stands beside it. Rows are taken as drawn: a recipe that draws a rare class more often than "
        "it occurs loses accuracy by that, for the weights in its certificate that undo it are not used here.",
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
        *(f"{skipped['what']}: {skipped['reason']}" for skipped in result["skipped"]),
    ]
    title = "Score, distance, time and memory"
    return Page("Beside other libraries", [Section(title, head, rows)], [*notes, *closing(result)])


def _sweep(result: dict[str, Any]) -> Page:
    epsilons = [f"{epsilon:g}" for epsilon in result["epsilons"]]
    head = ["dataset", "rows", "recipe", "Real", *(f"ε {epsilon}" for epsilon in epsilons)]
    rows = [
        [named(line), f"{line['rows']:,}", name, score(line[REAL]), *(score(cells[column]) for column in epsilons)]
        for line in result["lines"]
        for name, cells in line["recipes"].items()
    ]
    notes = [
        LEGEND,
        f"AUC, one-vs-one for many classes, unless the row says accuracy; LightGBM trained on synthetic rows, tested "
        f"on held-out real ones. {result['seeds']} seeds, each a split of its own; adjacency add-remove.",
        *(
            f"{line['dataset']}: {line['title']}; delta {line['delta']:.3g}; "
            f"LightGBM with {listed(line[REAL].get('classifier'))}."
            for line in result["lines"]
        ),
        *(f"{skipped['dataset']}: {skipped['reason']}" for skipped in result["skipped"]),
    ]
    charts = [sweep_chart.chart(line, result["epsilons"]) for line in result["lines"]]
    return Page(
        "Score by epsilon",
        [Section("Score of LightGBM on held-out real rows", head, rows)],
        [*notes, *closing(result)],
        [chart for chart in charts if chart is not None],
    )


def _ablations(result: dict[str, Any]) -> Page:
    """Lay a table a dataset out: a line for each form of grouping, a column for each way to run it."""
    head = ["recipe", "guarantee", "synthetic rows", "score", "by seed", "seconds"]
    sections = []
    for line in result["lines"]:
        rows = [["trained on real rows", "", "", score(line[REAL]), by_seed(line[REAL]), ""]]
        rows += [
            [
                name,
                result["recipes"][name]["guarantee"],
                number(cell.get("rows"), ","),
                score(cell),
                by_seed(cell),
                number(cell["seconds"], ".1f"),
            ]
            for name, cell in line["recipes"].items()
        ]
        sections.append(Section(f"{named(line)}: {line['title']}", head, rows))
    differences = [
        [line["dataset"], contrast["series"], contrast["contrast"], *_difference(contrast), by_seed(contrast)]
        for line in result["lines"]
        for contrast in line["contrasts"]
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
        "alpha 1 leaves the centroids where they are, which is ClustMix without kernel inducing points (KIP). "
        "Random mixing is ClustMix without clusters. As published, by `clusters=random`, and with the same sigma_max, "
        "its groups are as large as ClustMix's clusters. Proven, `dpmix` makes a fixed number of rows, ClustMix as "
        "many as it counts.",
        "Settings that a name leaves out are the recipe's defaults.",
        f"Differences whose interval is without 0: {result['intervals']['without_zero']} of "
        f"{result['intervals']['taken']}. Each interval is Student's and of its difference alone: of 20 that are "
        "nothing but chance one would be without 0.",
        *few_rows(result["lines"]),
        *(
            f"{line['dataset']}: {line['rows']:,} rows, {line['features']} features, delta {line['delta']:.3g}; "
            f"LightGBM with {listed(line[REAL].get('classifier'))}."
            for line in result["lines"]
        ),
        *(f"{skipped['dataset']}: {skipped['reason']}" for skipped in result["skipped"]),
    ]
    title = "ClustMix taken apart"
    # What the recipes are has been said; of their settings a name says all that are not the default.
    without_recipes = closing(result | {"recipes": {}})
    return Page(title, sections, [*notes, *without_recipes], drawing=ablation_charts.charts(result))


def _equal_rows(result: dict[str, Any]) -> Section:
    rows = [
        [
            line["dataset"],
            cell["published"],
            f"{cell['rows']:,}",
            score(line["recipes"][cell["published"]]),
            score(cell),
            by_seed(cell),
        ]
        for line in result["lines"]
        for cell in line["equal_rows"]
        if "rows" in cell and not too_few(cell)
    ]
    head = ["dataset", "published", "rows", "score", "proven, with as many rows", "by seed"]
    return Section("Both modes with equally many rows", head, rows)


def _difference(contrast: dict[str, Any]) -> tuple[str, str]:
    spread = "" if contrast["stdev"] is None else f" ± {contrast['stdev']:.3f}"
    mean = "" if contrast["mean"] is None else f"{contrast['mean']:+.3f}{spread}"
    return mean, "" if contrast["interval"] is None else "{:+.3f} to {:+.3f}".format(*contrast["interval"])


_LAYOUTS: dict[str, Callable[[dict[str, Any]], Page]] = {
    "table1": _table1,
    "mcgen": mcgen,
    "peers": _peers,
    "sweep": _sweep,
    "ablations": _ablations,
}
