"""The bar that a release must pass: rows that `independent` makes from the same private rows and the same budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from threea.anonymize.noise import Integers
from threea.anonymize.open_table import open_table
from threea.budget import Budget
from threea.errors import InternalError, ThreeaError
from threea.evaluate.evidence import Evidence
from threea.recipes import Independent


class RepeatableNoise:
    """Gaussian noise of the right size that a seed repeats, so that an evaluation gives the same scores again.

    For rows that never leave the evaluation: a release made with it would be stamped `guarantee: none`. What
    `independent` does not ask for is refused.
    """

    secure = False
    arithmetic = "repeatable noise of an evaluation"

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def gaussian(self, sums: Integers, scale: float) -> Integers:
        """Add rounded Gaussian noise."""
        return sums + np.round(self._rng.normal(0.0, scale, sums.shape)).astype(np.int64)

    def laplace(self, sums: Integers, scale: float) -> Integers:
        """Refuse."""
        raise _unasked("Laplace noise")

    def counts(self, values: Sequence[str], counts: Integers, scale: float) -> Integers:
        """Refuse."""
        raise _unasked("values that nobody listed")

    def choose(self, scores: Integers, scale: float) -> int:
        """Refuse."""
        raise _unasked("a private choice")

    def exponential(self, scores: Integers, scale: float) -> int:
        """Refuse."""
        raise _unasked("a private choice")

    def bernoulli(self, rate: float, size: int) -> NDArray[np.bool_]:
        """Refuse."""
        raise _unasked("a random sample")

    def generator(self) -> np.random.Generator:
        """Refuse."""
        raise _unasked("noise of its own")


def _unasked(what: str) -> InternalError:
    return InternalError(f"the baseline asked for {what}, which an evaluation cannot repeat")


def independent_rows(evidence: Evidence, seed: int) -> tuple[pa.Table | None, str]:
    """Make rows by `independent` from the training rows, under the release's budget; and say how, or why not."""
    certificate = evidence.certificate
    try:
        budget = Budget(float(certificate["epsilon"]), float(certificate["delta"]), certificate["adjacency"])
        unit, most = certificate["unit_column"], int(certificate["max_rows_per_unit"])
        table = open_table(
            evidence.train,
            budget=budget,
            # Of what was dropped, these rows have nothing any more.
            schema=replace(evidence.schema, confirmed=True, dropped=()),
            unit=unit,
            max_rows_per_unit=most,
            noise=RepeatableNoise(seed),
        )
        release = Independent().run(table, rows=evidence.synthetic.num_rows, seed=seed)
    except InternalError:
        raise
    except KeyError as error:
        return None, f"not made: the certificate has no {error}"
    except (ThreeaError, ValueError, TypeError, OverflowError) as error:
        return None, f"not made: {error}"
    protects = "each row" if unit is None else f"at most {most} rows per {unit}"
    return release.table, (
        f"epsilon {budget.epsilon:g}, delta {budget.delta:g}, {budget.adjacency}, {protects}; as many rows as "
        "released, the release's schema at no cost; one draw of noise, whose chance the intervals leave out"
    )
