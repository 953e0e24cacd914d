"""A score that may be published: what a model trained on the release reaches on the private rows, by one noisy answer.

The model is trained on synthetic rows, which is post-processing. How it scores the private rows, by label, is one
histogram, to which each row adds 1 in a single place; it is planned, priced and charged with all else.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.door import PrivateTable
from threea.anonymize.plan import Plan
from threea.anonymize.score_histogram import ScoreHistogram
from threea.certificate import Guarantee
from threea.describe import discover
from threea.errors import SettingError
from threea.framework import Recipe
from threea.pricing import SCORE
from threea.release import Release
from threea.score import Expected, Score
from threea.scoring import estimate
from threea.scoring.learner import Learned, learned, lightgbm
from threea.scoring.optimism import exact, gains
from threea.table.cells import AnyCells, Bins
from threea.table.schema import OTHER, Chunk, Schema

MOST_ROWS, FRESH_ROWS = 1 << 17, 20_000
"""How many synthetic rows a model learns from at most, and how many others say where to cut its scores."""
MOST_SHARE = 0.5
"""Of the budget. Chosen: beyond it the release would be made from less than its score."""
_RANGES = 8
"""Of a number to predict, and of its prediction."""
LEARNER = "LightGBM"
_UNSURE = "noise hides the counts; give the score a larger share, or the release a larger epsilon"
_OPTIMISM = "The private rows had a part in the release; differential privacy bounds what the score gains by that."


def check(share: float, recipe: Recipe, schema: Schema) -> None:
    """Refuse a score that cannot be had, by what is public.

    Raises:
        SettingError: The share is out of bounds, the recipe has no proof, or there is nothing to predict.
        MissingExtra: LightGBM is not installed.
    """
    if not 0 <= share <= MOST_SHARE:
        raise SettingError(f"score ({share:g}) must be a share of the budget, from 0 to {MOST_SHARE:g}")
    if not share:
        return
    if recipe.guarantee is not Guarantee.PROVEN:
        raise SettingError(f"score ({share:g}) needs a proven recipe, and {recipe.name} so set spends all by its own")
    if schema.target is None or not schema.features:
        raise SettingError(f"score ({share:g}) needs a target and a feature to predict it by; name a --target")
    # Loaded and not only looked for: what it needs of the system may be missing, and later is too late.
    lightgbm()


def scored(release: Release, recipe: Recipe, table: PrivateTable, plan: Plan) -> Release:
    """Return a release with its score.

    Guarantees:
        - What it asks of the rows is one histogram: a row adds 1 to one count, or nothing.
        - The model that scores them is made from synthetic rows alone.

    Cost:
        The plan's line for the score, a `Gaussian` event, or `Pure` if delta is 0.

    Args:
        release: What was made; its rows are what the model learns from.
        recipe: By what.
        table: The private table.
        plan: What pays, with a line for the score.
    """
    others = {SCORE, *(step.name for step in discover.steps(table.schema))}
    table = table.described(release.schema)
    rows = training_rows(release)
    count = len(next(iter(rows.values())))
    model = learned(rows, release.schema, release.class_weights)
    if model is None:
        said = "the synthetic rows have nothing to learn; the question was not asked"
        return replace(release, score=Score(learner=LEARNER, rows=count, task="", counts=np.zeros((0, 0)), note=said))
    fresh = release.schema.learned(release.source.sample(FRESH_ROWS, np.random.default_rng([release.seed, 1])))
    if not model.classes:
        score = _number(release, table, plan, model, fresh)
    elif len(model.classes) == 2:
        score = _two_classes(release, table, plan, model, fresh)
    else:
        score = _many_classes(release, table, plan, model)
    table.check_ledger()
    own = sum(line.share for line in plan.lines if line.name not in others)
    gained = gains(release, recipe, plan, model, 1 - own)
    reached = exact(model, fresh, release.schema) if gained else {}
    figures = tuple(estimate.corrected(each, gained.get(each.name), reached.get("auc", 0.5)) for each in score.figures)
    score = replace(score, rows=count, figures=figures)
    return replace(release, score=score, spent=table.spent(plan), ledger_head=table.ledger_head)


def training_rows(release: Release) -> Chunk:
    """Return the first synthetic rows, encoded as private ones are, as many as a model learns from."""
    parts: list[Chunk] = []
    found = 0
    for chunk in release.chunks():
        parts.append(chunk)
        found += len(next(iter(chunk.values())))
        if found >= MOST_ROWS:
            break
    rows = {name: np.concatenate([part[name] for part in parts])[:MOST_ROWS] for name in parts[0]}
    return release.schema.learned(rows)


def _two_classes(release: Release, table: PrivateTable, plan: Plan, model: Learned, fresh: Chunk) -> Score:
    schema, label = release.schema, _label(release.schema)
    codes = fresh[label.column]
    mine = np.isin(codes, model.classes)
    scores, positive = model.scores(fresh)[0][mine], codes[mine] == model.classes[1]
    stddev = table.stddev(ScoreHistogram(label, model.trees, (0,)), plan[SCORE])
    rows = max(release.summary.private_rows or release.rows, 1.0)
    cuts = estimate.cuts_for(scores, positive, stddev, rows)
    answer = table.measure(ScoreHistogram(label, model.trees, cuts), plan[SCORE])
    known = estimate.Within.of(scores, positive, cuts, model.unit)
    figures, calibration = estimate.two_classes(answer.value[list(model.classes)], answer.stddev, known, cuts)
    return Score(
        learner=LEARNER,
        rows=0,
        task="two classes",
        positive=(*schema[label.column].categories, OTHER)[model.classes[1]],
        figures=figures or (Expected("auc", None, None),),
        calibration=calibration,
        counts=answer.value,
        stddev=answer.stddev,
        note=_OPTIMISM if figures else _UNSURE,
    )


def _many_classes(release: Release, table: PrivateTable, plan: Plan, model: Learned) -> Score:
    answer = table.measure(ScoreHistogram(_label(release.schema), model.trees), plan[SCORE])
    figures = estimate.many_classes(answer.value[list(model.classes)], answer.stddev)
    return Score(
        learner=LEARNER,
        rows=0,
        task="classes",
        figures=figures or (Expected("accuracy", None, None),),
        counts=answer.value,
        stddev=answer.stddev,
        note=f"{_OPTIMISM} Of more than two classes there is no AUC." if figures else _UNSURE,
    )


def _number(release: Release, table: PrivateTable, plan: Plan, model: Learned, fresh: Chunk) -> Score:
    target = release.schema.target or ""
    known = ~np.isnan(fresh[target])
    values, predicted = fresh[target][known], model.scores(fresh)[0][known]
    edges = tuple(float(edge) for edge in _quantiles(values))
    label = Bins(column=target, edges=(-np.inf, *edges, np.inf), missing=True)
    query = ScoreHistogram(label, model.trees, tuple(int(cut) for cut in _quantiles(predicted)))
    answer = table.measure(query, plan[SCORE])
    figures = estimate.number(
        answer.value[:-1],
        answer.stddev,
        estimate.Ranges.of(values, label.index(values), label.size - 1),
        estimate.Ranges.of(predicted * model.unit, query.group(predicted[None]), query.shape[1]),
    )
    return Score(
        learner=LEARNER,
        rows=0,
        task="number",
        figures=figures or (Expected("r2", None, None),),
        counts=answer.value,
        stddev=answer.stddev,
        note=f"{_OPTIMISM} Target and prediction were counted in {_RANGES} ranges each." if figures else _UNSURE,
    )


def _quantiles(values: NDArray[Any]) -> NDArray[Any]:
    """Return where ranges of equally many values end, each once."""
    ordered = np.sort(values)
    return np.unique(ordered[len(values) * np.arange(1, _RANGES) // _RANGES]) if len(values) else ordered


def _label(schema: Schema) -> AnyCells:
    return schema[schema.target or ""].cells(bins=1)
