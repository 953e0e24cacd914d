"""The page of `mcgen`: means first, then the paper's figures made again, then every accuracy."""

from __future__ import annotations

from typing import Any

from benchmarks.datasets.published import MCGEN_ROUNDS
from benchmarks.page import mcgen_charts
from benchmarks.page.section import LEGEND, MARKS, Page, Section, closing, number, score
from benchmarks.tables.mcgen_means import BEST, best_k

TITLES = {
    1: "Scenario 1: trained on real rows (80%), tested on synthetic rows made from the other 20%",
    2: "Scenario 2: trained on synthetic rows made from 80%, tested on the real other 20%",
}


def mcgen(result: dict[str, Any]) -> Page:
    """Lay a result of `mcgen` out."""
    drawings = [mcgen_charts.by_epsilon(result), mcgen_charts.by_k(result)]
    summaries = [*_means(result), *_ahead(result)]
    if summaries:
        summaries[-1] = Section(
            summaries[-1].title,
            summaries[-1].head,
            summaries[-1].rows,
            drawings=[drawing for drawing in drawings if drawing],
        )
    sections = [*summaries, *_details(result), *_by_k(result)]
    return Page("MC-GEN's two scenarios", sections, _notes(result))


def _scenarios(result: dict[str, Any]) -> list[int]:
    """Return the scenarios that were measured; training sets first, for which most are made."""
    return sorted({line["scenario"] for line in result["lines"]}, reverse=True)


def _means(result: dict[str, Any]) -> list[Section]:
    epsilons = [f"{epsilon:g}" for epsilon in result["epsilons"]]
    head = ["recipe", "guarantee", *(f"ε {epsilon}" for epsilon in epsilons), "scores"]
    return [
        Section(
            f"Mean accuracy, and distance to real rows. {TITLES[scenario]}",
            head,
            [
                [
                    _called(entry),
                    result["recipes"].get(entry["recipe"], {}).get("guarantee", ""),
                    *(_mean(entry["epsilons"].get(epsilon)) for epsilon in epsilons),
                    _counted(list(entry["epsilons"].values())),
                ]
                for entry in result["means"]
                if entry["scenario"] == scenario
            ],
        )
        for scenario in _scenarios(result)
    ]


def _called(entry: dict[str, Any]) -> str:
    return f"{entry['recipe']}, best k each" if entry["k"] == BEST else str(entry["recipe"])


def _mean(figures: dict[str, Any] | None) -> str:
    if figures is None or figures["accuracy"] is None:
        return ""
    partly = "" if figures["scores"] == figures["of"] else f" from {figures['scores']} of {figures['of']}"
    return f"{figures['accuracy']:.3f} ({number(figures['distance'], '.3f')}){partly}"


def _counted(figures: list[dict[str, Any]]) -> str:
    counts = sorted({one["scores"] for one in figures})
    return " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1]))) if counts else ""


def _ahead(result: dict[str, Any]) -> list[Section]:
    forms = list(dict.fromkeys(entry["recipe"] for entry in result["ahead"]))
    found = {
        (entry["scenario"], entry["than"], entry["recipe"]): f"{entry['ahead']} of {entry['of']}"
        for entry in result["ahead"]
    }
    rows = [
        [str(scenario), other, *(found.get((scenario, other, form), "") for form in forms)]
        for scenario, other in dict.fromkeys((entry["scenario"], entry["than"]) for entry in result["ahead"])
    ]
    title = "How often MC-GEN has the higher mean accuracy, over datasets, classifiers and epsilons"
    return [Section(title, ["scenario", "than", *forms], rows)] if rows else []


def _details(result: dict[str, Any]) -> list[Section]:
    epsilons = [f"{epsilon:g}" for epsilon in result["epsilons"]]
    head = ["dataset", "rows", "classifier", "recipe", "Real", *(f"ε {epsilon}" for epsilon in epsilons)]
    return [
        Section(
            TITLES[scenario],
            [*head, "Real (theirs)"],
            [
                [
                    line["dataset"],
                    f"{line['rows']:,}",
                    line["learner"],
                    name,
                    score(line["real"]),
                    *(score(cells[epsilon]) for epsilon in epsilons),
                    number(line["theirs"], ".2f"),
                ]
                for line in result["lines"]
                if line["scenario"] == scenario
                for name, cells in line["recipes"].items()
            ],
            theirs=len(head),
        )
        for scenario in _scenarios(result)
    ]


def _by_k(result: dict[str, Any]) -> list[Section]:
    ks = [f"{k:g}" for k in result["ks"]]
    head = ["dataset", "classifier", "recipe", "ε", *(f"k {k}" for k in ks), "best k"]
    sections = []
    for scenario in _scenarios(result):
        rows = [
            [line["dataset"], line["learner"], name, epsilon, *(score(by_k[k]) for k in ks), best_k(by_k)[0]]
            for line in result["lines"]
            if line["scenario"] == scenario
            for name, by_epsilon in line["by_k"].items()
            for epsilon, by_k in by_epsilon.items()
        ]
        sections += [Section(f"By k, scenario {scenario}", head, rows)] if rows else []
    return sections


def _notes(result: dict[str, Any]) -> list[str]:
    swept = list(dict.fromkeys(name for line in result["lines"] for name in line["by_k"]))
    own = ", ".join(
        f"{name}{MARKS.get(result['recipes'][name]['guarantee'], '')} {result['recipes'][name]['settings']['k']:g}"
        for name in swept
    )
    best = (
        f"k is the share of the seed rows in a cluster. Lines without a word on it are at the recipe's own k ({own}). "
        "Best k each is, for each dataset and classifier, the k with the highest accuracy on the very rows that test: "
        "the paper reports its method so, and the figure is too high by that choice."
    )
    return [
        LEGEND,
        f"Accuracy. {result['seeds']} seeds; of larger datasets {result['rows']:,} rows, drawn anew for each seed. "
        "Delta is one in the number of rows that a release is made from, adjacency add-remove.",
        "Means are over datasets, classifiers and seeds; in brackets the mean over datasets and classifiers of the "
        "distance between the recipe's mean accuracy and that of the real rows. In scenario 1 higher is not better: a "
        "test set should give a classifier the accuracy that real rows give it.",
        *([best] if swept else []),
        "Real (theirs) is the MC-GEN paper's baseline for the scenario: real rows train, real rows test; the mean of "
        f"{MCGEN_ROUNDS} experiments. Its curves are pictures without numbers, and are not drawn here.",
        *(f"{skipped['dataset']}: {skipped['reason']}" for skipped in result["skipped"]),
        *closing(result),
    ]
