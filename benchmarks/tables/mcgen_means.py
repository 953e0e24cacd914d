"""What the cells of `mcgen` come to: means by recipe and epsilon, the best k, and who is ahead of whom how often."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

Line = Mapping[str, Any]
Summary = Mapping[str, Any]
OWN, BEST = "own", "best"
"""Which k a mean is of: the recipe's setting, or for each line the one that scored best on its test rows."""


def means(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Average over datasets, classifiers and seeds.

    Returns:
        A list of scenario, recipe (or ``real``), k (`OWN` or `BEST`) and epsilons: by epsilon accuracy, the mean of all
        scores; distance, the mean over datasets and classifiers of the distance between the recipe's mean accuracy and
        that of the real rows; scores, how many there are; of, how many there would be if none had failed.
    """
    found = []
    for scenario in sorted({line["scenario"] for line in lines}, reverse=True):
        own = [line for line in lines if line["scenario"] == scenario]
        epsilons = list(dict.fromkeys(epsilon for line in own for one in line["recipes"].values() for epsilon in one))
        real = _mean([(line["real"], line["real"]) for line in own])
        found.append(_entry(scenario, "real", OWN, dict.fromkeys(epsilons, real)))
        for name in dict.fromkeys(name for line in own for name in line["recipes"]):
            by_epsilon = {
                epsilon: _mean([(line["recipes"][name][epsilon], line["real"]) for line in own]) for epsilon in epsilons
            }
            found.append(_entry(scenario, name, OWN, by_epsilon))
        for name in dict.fromkeys(name for line in own for name in line["by_k"]):
            by_epsilon = {
                epsilon: _mean([(best_k(line["by_k"][name][epsilon])[1], line["real"]) for line in own])
                for epsilon in own[0]["by_k"][name]
            }
            found.append(_entry(scenario, name, BEST, by_epsilon))
    return found


def _entry(scenario: int, recipe: str, k: str, epsilons: Mapping[str, Any]) -> dict[str, Any]:
    return {"scenario": scenario, "recipe": recipe, "k": k, "epsilons": dict(epsilons)}


def _mean(pairs: Sequence[tuple[Summary, Summary]]) -> dict[str, Any]:
    scores = [score for made, _ in pairs for score in made["by_seed"] if score is not None]
    distances = [
        abs(made["mean"] - real["mean"])
        for made, real in pairs
        if made["mean"] is not None and real["mean"] is not None
    ]
    return {
        "accuracy": statistics.fmean(scores) if scores else None,
        "distance": statistics.fmean(distances) if distances else None,
        "scores": len(scores),
        "of": sum(len(made["by_seed"]) for made, _ in pairs),
    }


def best_k(by_k: Mapping[str, Summary]) -> tuple[str, Summary]:
    """Return the k with the highest mean accuracy, and its summary; the first if none has a score.

    Chosen by the very scores that are then reported, as the paper does: they are too high by that choice.
    """
    k = max(by_k, key=lambda one: -1.0 if by_k[one]["mean"] is None else by_k[one]["mean"])
    return k, by_k[k]


def ahead(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Count how often each form of MC-GEN has a higher mean accuracy than another recipe.

    Returns:
        A list of scenario, recipe (a form of MC-GEN), than, ahead and of: in how many of the datasets, classifiers and
        epsilons where both have a score.
    """
    counts: dict[tuple[int, str, str], list[bool]] = {}
    for line in lines:
        for name in (name for name in line["recipes"] if name.startswith("mcgen")):
            for other in (other for other in line["recipes"] if other != name):
                for epsilon, mine in line["recipes"][name].items():
                    theirs = line["recipes"][other][epsilon]
                    if mine["mean"] is not None and theirs["mean"] is not None:
                        key = (line["scenario"], name, other)
                        counts.setdefault(key, []).append(mine["mean"] > theirs["mean"])
    return [
        {"scenario": scenario, "recipe": name, "than": other, "ahead": sum(won), "of": len(won)}
        for (scenario, name, other), won in sorted(counts.items(), key=lambda item: -item[0][0])
    ]
