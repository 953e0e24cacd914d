"""An evaluation as one self-contained HTML page, for the owner of the private rows and nobody else.

The answers come first, on about a page: is the release useful, does it look alike, does it give anyone away. What they
rest on follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from threea.evaluate.owner_report import charts
from threea.evaluate.owner_report.charts import Dots, Figure, between, dots, short
from threea.report.words import number, percent, shown

if TYPE_CHECKING:
    from jinja2 import Environment

    from threea.evaluate.evidence import Evidence

NOTICE = "For the owner only - do not release: this page was made by reading the private rows"

MAIN_LEARNER = "lightgbm"
CURVES = ("lightgbm", "logistic", "forest")
"""Learners whose calibration is drawn."""
INDEPENDENT = "independent"
OPEN_COLUMNS, OPEN_FEATURES = 24, 15
"""How many columns, and how many features, are on view; other columns unfold, other features are named in the file."""

LEARNERS = {
    "classification": {
        "lightgbm": "LightGBM",
        "logistic": "Logistic regression",
        "svm": "Support vector machine",
        "boosting": "Gradient boosting",
        "forest": "Random forest",
    },
    "regression": {
        "lightgbm": "LightGBM",
        "logistic": "Ridge regression",
        "svm": "Support vector regression",
        "boosting": "Gradient boosting",
        "forest": "Random forest",
    },
}
METRICS = {
    "auc": "AUC",
    "accuracy": "Accuracy",
    "f1": "F1",
    "average_precision": "Average precision",
    "calibration_error": "Calibration error",
    "brier": "Brier score",
    "log_loss": "Log loss",
    "r2": "R²",
    "rmse": "Root mean squared error",
    "mae": "Mean absolute error",
    "spearman": "Rank correlation",
}
NOT_TRIED: Figure = {"name": "not tried", "value": None, "interval": None, "baseline": 0.0}
"""Stands for the deciding figure of an attack that the rows left nothing to try with."""
TRAINED_ON = {"real": "real rows", "synthetic": "released rows", "independent": "independent's rows"}
SIZES = {1: "single columns", 2: "pairs of columns", 3: "triples of columns"}


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one of the owner's questions."""

    question: str
    tone: str
    """good, fair or bad: a class of the page's style."""
    verdict: str
    text: str


def answers(scores: dict[str, Any]) -> list[Answer]:
    """Return the three answers: is it useful, does it look alike, does it give anyone away."""
    made_by = str(scores["certificate"]["recipe"])
    return [
        _useful(scores["utility"], made_by),
        _alike(scores["fidelity"]),
        _gives_away(scores["attacks"], scores["split"]["random"]),
    ]


def _useful(utility: dict[str, Any] | None, made_by: str) -> Answer:
    question = "Is it useful?"
    if utility is None:
        return Answer(question, "fair", "Not measured", "The release has no target: there is nothing to predict.")
    metric = main_metric(utility)
    scores = utility["learners"][MAIN_LEARNER]
    real, synthetic = scores["real"][metric], scores["synthetic"][metric]
    if real["value"] is None or synthetic["value"] is None:
        return Answer(question, "fair", "Not measured", f"{METRICS[metric]} is undefined on these holdout rows.")
    text = (
        f"{LEARNERS[utility['task']][MAIN_LEARNER]} trained on the released rows reaches {METRICS[metric]}"
        f" {_worded(synthetic)} on the holdout; trained on the real rows, {_worded(real)}."
    )
    gain = scores.get("synthetic_minus_independent", {}).get(metric, {}).get("interval")
    if gain:
        bar = _worded(scores["independent"][metric])
        # Against itself a recipe wins or loses by the chance of its noise, which no interval here covers.
        itself = made_by == INDEPENDENT
        text += (
            f" Another draw of noise by the same recipe gives {bar}."
            if itself
            else f" The rows that the simple recipe {INDEPENDENT} makes from the same budget give {bar}."
        )
        gain = None if itself else gain
    tone, verdict = _usefulness(scores["synthetic_minus_real"][metric]["interval"], gain)
    return Answer(question, tone, verdict, text)


def _usefulness(loss: list[float] | None, gain: list[float] | None) -> tuple[str, str]:
    """Judge by intervals: of the score against that of real rows, and against that of `independent`."""
    if loss and loss[1] >= 0:
        return "good", "As good as the real rows, as far as this holdout can tell"
    if gain is None:
        return "fair", "Less than the real rows"
    if gain[0] > 0:
        return "good", "Less than the real rows, better than independent"
    if gain[1] < 0:
        return "bad", "Worse than independent"
    return "fair", "Less than the real rows, no better than independent"


def _alike(fidelity: dict[str, Any]) -> Answer:
    question, parts, far = "Does it look alike?", [], False
    for entry in fidelity["marginals"]:
        matched, floor = (entry["total_variation"][name] for name in ("matched", "floor"))
        parts.append(
            f"{SIZES[entry['columns']]} by {short(matched['value'])} (sampling alone: {short(floor['value'])})"
        )
        far |= bool(matched["interval"] and floor["interval"] and matched["interval"][0] > floor["interval"][1])
    text = f"Distance to the training rows, from 0 (the same) to 1 (nothing in common): {'; '.join(parts)}."
    verdict = "Further off than sampling alone" if far else "As close as sampling allows"
    return Answer(question, "fair" if far else "good", verdict, text)


def _gives_away(attacks: dict[str, Any], random: bool) -> Answer:
    question, signs = "Does it give anyone away?", attacks["signs"]
    count = sum(_deciding(attack) is not NOT_TRIED for attack in attacks["attacks"])
    if not count:
        return Answer(question, "fair", "Not measured", attacks["caveat"])
    if signs:
        tried = f"{len(signs)} of {count} attacks found a sign"
        text = f"Signs that the release remembers training rows: {', '.join(signs)}."
        if not random:
            text += " Training and holdout rows were not divided at random, which by itself can make such signs."
        return Answer(question, "bad", tried, text)
    return Answer(question, "good", f"No sign in {count} attacks", attacks["caveat"])


def main_metric(utility: dict[str, Any]) -> str:
    """Return the metric that stands for all."""
    return "r2" if utility["task"] == "regression" else "auc"


def _worded(figure: Figure) -> str:
    return f"{short(figure['value'])} {between(figure)}".strip()


def render(scores: dict[str, Any], evidence: Evidence) -> str:
    """Return the page.

    Guarantees:
        - It says on top, and on every printed page, that it must not be released.
        - It needs nothing but itself: no script, no picture, style or font from elsewhere.
        - Equal arguments give equal pages.

    Args:
        scores: What `evaluation.evaluate` made.
        evidence: What it was made from.
    """
    utility, fidelity = scores["utility"], scores["fidelity"]
    page = _environment().get_template("owner.html.j2")
    return page.render(
        notice=NOTICE,
        scores=scores,
        certificate=scores["certificate"],
        utility=utility,
        fidelity=fidelity,
        attacks=scores["attacks"],
        answers=answers(scores),
        rows={
            "train": evidence.train.num_rows,
            "holdout": evidence.holdout.num_rows,
            "synthetic": evidence.synthetic.num_rows,
        },
        columns=len(evidence.schema.columns),
        metrics=METRICS,
        trained_on=TRAINED_ON,
        learner_names=LEARNERS[utility["task"]] if utility else {},
        useful=_useful_chart(utility) if utility else None,
        alike=_alike_chart(fidelity),
        attacked=_attack_charts(scores["attacks"]),
        calibration=_calibration_chart(utility) if utility and utility["task"] == "classification" else None,
        importance=charts.importance_bars(utility["importance"]["features"], OPEN_FEATURES) if utility else [],
        curves=_curves(utility) if utility else [],
        distances=charts.distance_bars(fidelity["columns"]),
        overlays=[charts.overlay(column) for column in _by_distance(fidelity["columns"])],
        dated=_dated(fidelity["columns"]),
        open_columns=OPEN_COLUMNS,
        heatmaps=_heatmaps(fidelity["correlation"]),
    )


def _dated(columns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return how dates are spread over the calendar, column by column and part by part."""
    return [
        {"column": column["name"], **entry}
        for column in columns
        for entry in column.get("values", {}).get("calendar", ())
    ]


def _useful_chart(utility: dict[str, Any]) -> Dots:
    metric, scores = main_metric(utility), utility["learners"][MAIN_LEARNER]
    rows = [(label, name, scores[name][metric]) for name, label in TRAINED_ON.items() if name in scores]
    return dots(rows, title=f"{METRICS[metric]} on the holdout, by what was trained on")


def _alike_chart(fidelity: dict[str, Any]) -> Dots:
    rows = [
        (label or SIZES[entry["columns"]], kind, entry["total_variation"][name])
        for entry in fidelity["marginals"]
        for name, kind, label in (("matched", "synthetic", ""), ("floor", "real", "sampling alone"))
    ]
    return dots(rows, title="Total variation distance to the training rows", baseline=0.0)


def _attack_charts(attacks: dict[str, Any]) -> list[tuple[dict[str, Any], Figure, Dots]]:
    """Return each attack, its deciding figure (the furthest above its baseline if there is a sign), and a chart.

    All share an axis: how far above what a release without memory gives.
    """
    chosen = [(attack, _deciding(attack)) for attack in attacks["attacks"]]
    over = [
        {
            "value": _over(figure, figure["value"]),
            "interval": figure["interval"] and [_over(figure, end) for end in figure["interval"]],
        }
        for _, figure in chosen
    ]
    together = [
        (attack["name"], "bad" if attack["sign"] else "real", gap)
        for (attack, _), gap in zip(chosen, over, strict=True)
    ]
    drawn = dots(together, title="How far above a release without memory", baseline=0.0, least=0.1)
    return [
        (
            attack,
            figure,
            Dots((row,), drawn.ticks, drawn.line, f"{attack['name']}: {row.text} {row.interval} above the baseline"),
        )
        for (attack, figure), row in zip(chosen, drawn.rows, strict=True)
    ]


def _deciding(attack: dict[str, Any]) -> Figure:
    figures: list[Figure] = [figure for figure in attack["figures"] if figure["decides"]]
    if not figures:
        return NOT_TRIED
    return (
        max(figures, key=lambda figure: _over(figure, figure["interval"][0]) or 0.0) if attack["sign"] else figures[0]
    )


def _over(figure: Figure, value: float | None) -> float | None:
    return None if value is None else value - (figure["baseline"] or 0.0)


def _calibration_chart(utility: dict[str, Any]) -> Dots:
    names = LEARNERS["classification"]
    rows = [
        (f"{names[learner]}, {label}", name, scores[name]["calibration_error"])
        for learner, scores in utility["learners"].items()
        for name, label in TRAINED_ON.items()
        if name in scores
    ]
    return dots(rows, title="Calibration error on the holdout", baseline=0.0)


def _curves(utility: dict[str, Any]) -> list[tuple[str, charts.Curve]]:
    """Draw calibration curves, of two classes."""
    names = LEARNERS[utility["task"]]
    return [
        (names[learner], charts.curve({name: found[name] for name in TRAINED_ON if name in found}))
        for learner, found in ((name, utility["learners"][name]["calibration"]) for name in CURVES)
        if found.get("real")
    ]


def _by_distance(columns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(columns, key=lambda column: -column["total_variation"]["matched"]["value"])


def _heatmaps(correlation: dict[str, Any]) -> list[tuple[str, dict[str, Any], list[charts.Heatmap]]]:
    titles = {"spearman": "Numbers: rank correlation", "cramers_v": "Categories: Cramér's V"}
    sections = []
    for name, title in titles.items():
        entry = correlation[name]
        if entry is not None:
            drawn = {"training rows": entry["matrices"]["train"], "released rows": entry["matrices"]["synthetic"]}
            sections.append((title, entry, charts.heatmaps(drawn, entry["columns"])))
    return sections


@cache
def _environment() -> Environment:
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    # Names and categories come from outside: every one of them is escaped.
    environment = Environment(
        loader=ChoiceLoader([PackageLoader("threea", "evaluate/owner_report"), PackageLoader("threea", "report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(shown=shown, number=number, percent=percent, short=short, between=between)
    return environment
