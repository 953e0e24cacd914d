"""Noise that writes down what it was asked to hide, so that a run can be replayed with its answers held fixed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.events import Event
from threea.anonymize.noise import Integers
from threea.anonymize.plan import Charge
from threea.anonymize.spending import Spending
from threea.budget import Budget
from threea.ledger import Ledger

_HIDDEN = -(1 << 62)
_Kind = Literal["gaussian", "laplace", "counts", "choose", "exponential"]
_Answer = TypeVar("_Answer", Integers, int)


@dataclass(frozen=True, slots=True)
class Draw:
    """One draw of noise: who paid for it, and the exact numbers beneath it.

    Args:
        charge: Which of the run's charges paid, counted from 0.
        line: The plan's line.
        event: What was paid.
        kind: How noise is drawn.
        exact: The numbers, in grid steps.
        scale: Of the noise, in grid steps.
        values: For counts of values that nobody listed, the values.
        answer: What came out.
    """

    charge: int
    line: str
    event: Event
    kind: _Kind
    exact: Integers
    scale: float
    values: tuple[str, ...]
    answer: Any


class WatchedSpending(Spending):
    """Takes payment as ever, and keeps what was presented."""

    def __init__(self, budget: Budget, ledger: Ledger, dataset: str) -> None:
        super().__init__(budget, ledger, dataset)
        self.presented: list[Charge] = []

    def pay(self, charge: Charge) -> None:
        """Take payment."""
        super().pay(charge)
        self.presented.append(charge)


class Recorder:
    """Noise that writes down what it was asked to hide, and answers as a first run did, if there was one.

    Args:
        spending: Who took payment.
        first: The draws of a first run, whose answers are held fixed.
    """

    secure = False
    arithmetic = "noise for an audit"

    def __init__(self, spending: WatchedSpending, first: Sequence[Draw] = ()) -> None:
        self._spending, self._first, self.draws = spending, first, list[Draw]()
        self._rng = np.random.default_rng(0)

    def gaussian(self, sums: Integers, scale: float) -> Integers:
        """Add seeded noise, or answer as before."""
        return self._drawn("gaussian", sums, scale, lambda: sums + _whole(self._rng.normal(0, scale, sums.shape)))

    def laplace(self, sums: Integers, scale: float) -> Integers:
        """Add seeded noise, or answer as before."""
        return self._drawn("laplace", sums, scale, lambda: sums + _whole(self._rng.laplace(0, scale, sums.shape)))

    def choose(self, scores: Integers, scale: float) -> int:
        """Choose by seeded chance, or as before."""
        return self._chosen("choose", scores, scale)

    def exponential(self, scores: Integers, scale: float) -> int:
        """Choose by seeded chance, or as before."""
        return self._chosen("exponential", scores, scale)

    def counts(self, values: Sequence[str], counts: Integers, scale: float) -> Integers:
        """Add seeded noise, or answer as before to values that were known before, and hide the others."""
        before = self._before()
        known = dict(zip(before.values, before.answer, strict=True)) if before and before.kind == "counts" else {}
        fixed = np.array([known.get(value, _HIDDEN) for value in values], np.int64)
        fresh = counts + _whole(self._rng.normal(0, scale, counts.shape))
        return self._note("counts", counts, scale, fixed if before else fresh, tuple(values))

    def bernoulli(self, rate: float, size: int) -> NDArray[np.bool_]:
        """Draw every unit into every sample: the worst case for what one can change."""
        return np.ones(size, np.bool_)

    def generator(self) -> np.random.Generator:
        """Return one for methods without a proof, which cannot be replayed."""
        return np.random.default_rng(0)

    def _before(self) -> Draw | None:
        return self._first[len(self.draws)] if len(self.draws) < len(self._first) else None

    def _drawn(self, kind: _Kind, exact: Integers, scale: float, fresh: Callable[[], _Answer]) -> _Answer:
        before = self._before()
        same = before is not None and before.kind == kind and before.exact.shape == exact.shape
        return self._note(kind, exact, scale, before.answer if before is not None and same else fresh())

    def _chosen(self, kind: _Kind, scores: Integers, scale: float) -> int:
        noisy = partial(self._rng.gumbel, 0, scale, scores.shape)
        return int(self._drawn(kind, scores, scale, lambda: int(np.argmax(scores + noisy()))))

    def _note(
        self, kind: _Kind, exact: Integers, scale: float, answer: _Answer, values: tuple[str, ...] = ()
    ) -> _Answer:
        charge = self._spending.presented[-1]
        number = len(self._spending.presented) - 1
        self.draws.append(Draw(number, charge.name, charge.event, kind, exact, scale, values, answer))
        return answer


def _whole(noise: NDArray[np.float64]) -> Integers:
    return np.round(noise).astype(np.int64)
