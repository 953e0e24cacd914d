"""Audit: an empirical lower bound on epsilon, from many runs of a recipe on neighbouring tables.

A proof bounds epsilon from above; an audit bounds it from below, by attacking. Where the lower bound passes the claim
the recipe leaks more than it says. Where it does not, no more is known than that these attacks, on these pairs, with
so many runs, did not find a leak.

The crafted tables are public, so an audit's result may be shown to anyone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from os import PathLike
from typing import Any

from threea.audit.bounds import INTERVALS, Bound, direct_bound, gaussian_bound, most_direct
from threea.audit.pairs import PAIRS, Pair
from threea.audit.runs import Progress, collect
from threea.audit.statistics import STATISTICS, WHITE_BOX, Run, scores
from threea.budget import Adjacency, Budget
from threea.errors import SettingError
from threea.framework import Recipe
from threea.session import make_recipe

_LEAST_TRIALS = 20


def audit(
    recipe: Recipe | str,
    *,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
    trials: int = 1000,
    confidence: float = 0.95,
    pairs: Sequence[Pair] = tuple(PAIRS.values()),
    statistics: Sequence[str] = tuple(STATISTICS),
    workers: int = 1,
    record: str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Try to catch a recipe at leaking more than it claims.

    Guarantees:
        - If the recipe keeps its claim, a violation is reported with probability at most 1 - confidence, over all
          pairs and statistics together, whatever their number.
        - Runs in the record are not made again. The number of trials is part of the claim to confidence: fix it first.

    Args:
        recipe: A recipe, or the name of one.
        epsilon: The claim to test; each run gets this budget.
        delta: The claim's delta.
        adjacency: ``add-remove`` or ``replace``.
        trials: How many runs on each side of each pair, at least 20; half of them choose the test.
        confidence: That of the whole audit.
        pairs: Crafted neighbours to tell apart.
        statistics: Names out of `STATISTICS`.
        workers: How many processes share the work. With more than one, a script must start from a guarded main.
        record: A file of JSON lines, one per run, from which an interrupted audit goes on.
        progress: Told how many runs are done, of how many.

    Returns:
        Plain data: ``recipe``, ``settings``, ``epsilon``, ``delta``, ``adjacency``, ``trials``, ``confidence``,
        ``intervals`` (how many share the confidence), ``could_show`` (the direct bound if the sides were always told
        apart), ``bounds`` (for each pair and statistic: ``pair``, ``statistic``, ``box``, ``direct``, ``gaussian`` or
        None where the claim is no Gaussian trade-off curve, each with its error rates; ``epsilon``, the larger of the
        two, and its ``route``), ``failures`` (runs that ended in an error), ``lower_bound``, ``direct_lower_bound``
        (which takes nothing for granted of the trade-off curve), ``found_by``, ``violation``, ``verdict``.

    Raises:
        SettingError: A setting is outside its bounds, the record cannot be used, or the recipe fails on every run.

    Example:
        >>> pair = PAIRS["rare category"]
        >>> result = audit("independent", epsilon=1.0, trials=20, pairs=[pair], statistics=["answers"])
        >>> result["violation"], result["intervals"]
        (False, 4)
    """
    chosen = recipe if isinstance(recipe, Recipe) else make_recipe(recipe)
    budget = Budget(epsilon, delta, adjacency)  # type: ignore[arg-type]  # Budget reads text, too
    _check(trials, confidence, pairs, statistics, workers)
    runs = collect(chosen, budget, pairs, trials, workers=workers, record=record, progress=progress)
    intervals = INTERVALS * len(pairs) * len(statistics)
    alpha = (1 - confidence) / intervals
    bounds = [
        _bound(pair.name, name, *_checked(pair, *runs[pair.name]), delta, alpha)
        for pair in pairs
        for name in statistics
    ]
    top = max(bounds, key=lambda bound: bound["epsilon"])
    violation = top["epsilon"] > epsilon
    return {
        "recipe": chosen.name,
        "settings": dataclasses.asdict(chosen),
        "epsilon": epsilon,
        "delta": delta,
        "adjacency": str(budget.adjacency),
        "trials": trials,
        "confidence": confidence,
        "intervals": intervals,
        "could_show": most_direct(trials, delta, alpha),
        "bounds": bounds,
        "failures": _failures(runs),
        "lower_bound": top["epsilon"],
        "direct_lower_bound": max(bound["direct"]["epsilon"] for bound in bounds),
        "found_by": {key: top[key] for key in ("pair", "statistic", "box", "route")} if top["epsilon"] else None,
        "violation": violation,
        "verdict": _verdict(chosen.name, budget, top, confidence, violation),
    }


def check_trials(trials: int) -> None:
    """Refuse too few runs to choose a test and to judge by it.

    Raises:
        SettingError: They are.
    """
    if trials < _LEAST_TRIALS:
        raise SettingError(f"trials ({trials}) must be at least {_LEAST_TRIALS}; 1000 show an epsilon of 1 or 2")


def _check(trials: int, confidence: float, pairs: Sequence[Pair], statistics: Sequence[str], workers: int) -> None:
    check_trials(trials)
    if not 0 < confidence < 1:
        raise SettingError(f"confidence ({confidence}) must be > 0 and < 1; 0.95 is a common choice")
    if workers < 1:
        raise SettingError(f"workers ({workers}) must be at least 1")
    names = [pair.name for pair in pairs]
    if not names or len(set(names)) != len(names):
        raise SettingError(f"pairs ({', '.join(names)}) must be at least one, each name once")
    unknown = [name for name in statistics if name not in STATISTICS]
    if unknown or not statistics or len(set(statistics)) != len(statistics):
        raise SettingError(
            f"statistics ({', '.join(statistics)}) must be of {', '.join(STATISTICS)}, at least one, each once"
        )


def _checked(pair: Pair, left: list[Run], right: list[Run]) -> tuple[list[Run], list[Run]]:
    """Refuse to judge a recipe that never ran: it would seem to leak nothing."""
    if all(run.failed for run in (*left, *right)):
        raise SettingError(f"the recipe fails on every run of the pair ({pair.name}) with {left[0].failed}; mend it")
    return left, right


def _bound(pair: str, name: str, left: list[Run], right: list[Run], delta: float, alpha: float) -> dict[str, Any]:
    without, within = scores(name, left, right)
    direct = direct_bound(without, within, delta=delta, alpha=alpha)
    gaussian: Bound | None = None
    if all(run.gaussian for run in (*left, *right)):
        gaussian = gaussian_bound(without, within, delta=delta, alpha=alpha)
    return {
        "pair": pair,
        "statistic": name,
        "box": "white" if name in WHITE_BOX else "black",
        "route": "gaussian" if gaussian and gaussian.epsilon > direct.epsilon else "direct",
        "epsilon": max(direct.epsilon, gaussian.epsilon if gaussian else 0.0),
        "direct": dataclasses.asdict(direct),
        "gaussian": dataclasses.asdict(gaussian) if gaussian else None,
    }


def _failures(by_pair: dict[str, tuple[list[Run], list[Run]]]) -> list[dict[str, Any]]:
    """Count the runs that ended in an error, by pair, side and kind."""
    tally: dict[tuple[str, int, str], int] = {}
    for sides in by_pair.values():
        for run in (run for runs in sides for run in runs if run.failed):
            kind = (run.pair, run.side, run.failed)
            tally[kind] = tally.get(kind, 0) + 1
    return [
        {"pair": pair, "side": ("without", "with")[side], "error": error, "runs": runs}
        for (pair, side, error), runs in sorted(tally.items())
    ]


def _verdict(name: str, budget: Budget, top: dict[str, Any], confidence: float, violation: bool) -> str:
    claim = f"({budget.epsilon:g}, {budget.delta:g})-DP under {budget.adjacency}"
    bound = f"epsilon is at least {top['epsilon']:.3g} with {confidence:.6g} confidence"
    if violation:
        curve = ", read off the Gaussian trade-off curve of its events" if top["route"] == "gaussian" else ""
        attack = f"pair: {top['pair']}; statistic: {top['statistic']}{curve}"
        return f"{name} violates the claim of {claim}: {bound} ({attack})"
    return f"no violation found: {name} claims {claim}; {bound}. An audit cannot prove a claim"
