"""Laws about tables: whichever a recipe does not refuse, rows come out, and sums are all it needs.

Each law is a function that raises `AssertionError` with a line that says what is wrong.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from threea.budget import Budget
from threea.errors import UserError
from threea.framework import Recipe
from threea.ledger import Ledger
from threea.release import Release
from threea.testing.noise import OneSidedNoise, SilentNoise
from threea.testing.releases import check_fits, hold, run
from threea.testing.tables import FLAGS, PLAIN, ROWS, Case, OnlySums

_BILLION = 10**9


def survives(recipe: Recipe, case: Case) -> bool:
    """Rows come out of every table, unless it is refused before anything is spent; tell whether they did."""
    ledger = Ledger()
    try:
        release = run(recipe, case, ledger=ledger)
    except UserError as refusal:
        if ledger.releases():
            raise AssertionError(f"refuses only after it has spent something: {refusal}") from refusal
        return False
    check_fits(release, case)
    return True


def survives_discovery(recipe: Recipe, case: Case) -> None:
    """Nor does a schema that is found through the door break it."""
    check_fits(run(recipe, case, known=False), case)


def needs_only_sums(recipe: Recipe, case: Case) -> None:
    """An engine that can do no more gives the same release, however it cuts and orders the rows.

    Without noise, so a release is made of exact zeros, too, which is where divisions by nothing hide.
    """

    def release(data: Any = None) -> Release:
        return run(recipe, case, noise=SilentNoise(), seed=5, data=data)

    plain = release()
    check_fits(plain, case)
    shuffled = case.table.take(np.random.default_rng(7).permutation(case.table.num_rows))
    if release(OnlySums(shuffled)).table.equals(plain.table):
        return
    hold(release(shuffled).table.equals(plain.table), "rows in another order give another release")
    raise AssertionError("an engine that only sums gives another release: rows are not treated alone")


TABLE_LAWS: tuple[Callable[[Recipe, Case], Any], ...] = (
    survives,
    survives_discovery,
    needs_only_sums,
)
"""Laws for every table that a recipe does not refuse."""


def survives_emptiness(recipe: Recipe) -> None:
    """No rows at all, or none with a label: an engine that only sums cannot say so before it is asked."""
    for target, noise in itertools.product(("label", "length", None), (None, SilentNoise())):
        case = dataclasses.replace(PLAIN, target=target)
        check_fits(run(recipe, case, data=OnlySums(case.table.slice(0, 0)), noise=noise), case)
    labels = pa.nulls(ROWS, pa.string())
    case = PLAIN.with_column("label", labels, kind="categorical", categories=["no", "yes"], nullable=False)
    check_fits(run(recipe, case, data=OnlySums(case.table), noise=SilentNoise()), case)


def survives_extreme_budgets(recipe: Recipe) -> None:
    """A hundredth of epsilon and a thousand of it both give rows."""
    for epsilon in (0.01, 1e3):
        release = run(recipe, PLAIN, budget=Budget(epsilon))
        check_fits(release, PLAIN)
        hold(release.plan.epsilon <= epsilon, f"the plan costs {release.plan.epsilon}, more than epsilon {epsilon}")


def survives_unlikely_noise(recipe: Recipe) -> None:
    """Noise that takes all that there is, from all counts at once, or adds as much to each: someone will draw it."""
    targets = (dataclasses.replace(PLAIN, target=target) for target in ("label", "length", None))
    lawful = [case for case in (*targets, FLAGS) if survives(recipe, case)]
    for case, far in itertools.product(lawful, (-9.0, 9.0)):
        check_fits(run(recipe, case, noise=OneSidedNoise(far)), case)


def survives_a_billion_rows(recipe: Recipe) -> None:
    """Nor do the sums of very many rows break it: next to them, noise is tiny, and what rounding takes off is not."""
    for target, noise in (("label", None), ("length", SilentNoise())):
        case = dataclasses.replace(PLAIN, target=target)
        check_fits(run(recipe, case, data=OnlySums(case.table, _BILLION // ROWS), noise=noise), case)
