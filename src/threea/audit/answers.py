"""White-box evidence: what a run's answers say about which of two known tables they came from.

An audit plays the strongest attacker that differential privacy speaks of: it knows both tables and sees every answer.
The door works as always, noise and ledger included; beside it, each question is also put, without noise, to both
crafted tables, and the answer's log-likelihood ratio is added up. For Gaussian and Laplace noise that is the best
test there is (Neyman and Pearson 1933), even when later questions depend on earlier answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.clipping import Norm, step_of
from threea.anonymize.door import Exposed, PrivateTable
from threea.anonymize.events import Gaussian, PartitionSelection, Pure, Sampled
from threea.anonymize.interior import Interior, Teacher
from threea.anonymize.plan import Charge
from threea.anonymize.query import Answer, Query, Stack
from threea.anonymize.sampled import SampledTable
from threea.anonymize.selection import QualityScores, Values, choice_scale
from threea.backends import RowBackend
from threea.budget import Adjacency
from threea.table.schema import Chunk, Schema

Vector = NDArray[np.float64]
_REMEMBERED = 64


@dataclass(slots=True)
class Tape:
    """What was learned from one run's answers."""

    ratio: float = 0.0
    """Log-likelihood of the right table over the left, given all answers."""
    numbers: int = 0
    """How many numbers were answered; the same on both tables if nothing was read beside the door."""
    gaussian: bool = True
    """Whether all that was paid for is Gaussian noise on sums, so that the claim is a Gaussian trade-off curve."""


@dataclass(slots=True)
class Sides:
    """The two crafted tables, and the exact sums over them that were needed before."""

    backends: tuple[RowBackend, RowBackend]
    _sums: dict[Any, tuple[Vector, Vector]] = field(default_factory=dict)

    def sums(self, interior: Interior, query: Query, norm: Norm) -> tuple[Vector, Vector]:
        """Return a query's exact sums over both tables, in the query's own units."""
        try:
            known = self._sums.get((query, interior.schema, norm))
        except TypeError:  # a query that holds an array has no hash
            return self._computed(interior, query, norm)
        if known is None:
            known = self._computed(interior, query, norm)
            if len(self._sums) >= _REMEMBERED:
                self._sums.clear()
            self._sums[(query, interior.schema, norm)] = known
        return known

    def _computed(self, interior: Interior, query: Query, norm: Norm) -> tuple[Vector, Vector]:
        step = np.float64(step_of(norm.bound(query)))
        left, right = (interior.exact(query, norm, backend) * step for backend in self.backends)
        return left, right


class AuditedTable(PrivateTable):
    """A crafted table behind the same door, which notes what each answer gives away.

    For made-up tables only: it puts every question to both of them without noise. What it hands to a recipe is what
    the door answers, and nothing else.
    """

    __slots__ = ("_sides", "_tape")

    def __init__(self, interior: Interior, sides: Sides, tape: Tape) -> None:
        super().__init__(interior)
        self._sides, self._tape = sides, tape

    def described(self, schema: Schema) -> AuditedTable:
        """Return the same table under another description."""
        return AuditedTable(self._interior.described(schema), self._sides, self._tape)

    def measure(self, query: Query | Values, charge: Charge) -> Any:
        """Answer as the door does."""
        answer = super().measure(query, charge)
        self._note_plan(charge)
        if isinstance(query, Values):
            self._note_values(query, charge.event, answer)
        else:
            laplace = isinstance(charge.event, Pure)
            left, right = self._sides.sums(self._interior, query, Norm.L1 if laplace else Norm.L2)
            self._tell(answer, left, right, laplace=laplace)
        return answer

    def select(self, scores: QualityScores, charge: Charge, among: Sequence[int] | None = None) -> int:
        """Choose as the door does."""
        eligible = list(range(len(scores.marginals)) if among is None else among)
        choice = super().select(scores, charge, eligible)
        self._note_plan(charge)
        assert isinstance(charge.event, Pure | Gaussian)
        rows = self.unit.max_rows * (2 if self.budget.adjacency is Adjacency.REPLACE else 1)
        scale = choice_scale(charge.event, rows * scores.heaviest(eligible))
        left, right = (_log_chances(self._scored(scores, side)[eligible], scale) for side in (0, 1))
        self._tape.ratio += float((right - left)[eligible.index(choice)])
        self._tape.numbers += 1
        return choice

    def vote(self, teacher: Teacher, inputs: Chunk, classes: int, parts: int, charge: Charge) -> Answer:
        """Count votes as the door does."""
        answer = super().vote(teacher, inputs, classes, parts, charge)
        self._note_plan(charge)
        left, right = (
            replace(self._interior, backend=backend).votes(teacher, inputs, classes, parts).astype(np.float64)
            for backend in self._sides.backends
        )
        self._tell(answer, left, right)
        return answer

    def sampled(self, rate: float) -> SampledTable:
        """Return a view over fresh samples, as the door does."""
        super().sampled(rate)
        return _AuditedSample(self._interior, rate, self._note, self._note_sample)

    def expose(self, reason: str) -> Exposed:
        """Hand out the rows as the door does."""
        self._tape.gaussian = False
        return super().expose(reason)

    def _note_plan(self, charge: Charge) -> None:
        self._tape.gaussian &= all(isinstance(line.event, Gaussian) for line in charge.plan.lines)

    def _tell(self, answer: Answer, left: Vector, right: Vector, *, laplace: bool = False) -> None:
        value, left, right = answer.value.ravel(), left.ravel(), right.ravel()
        if laplace:
            ratio = (np.abs(value - left) - np.abs(value - right)).sum() / (answer.stddev / math.sqrt(2))
        else:
            ratio = (value - (left + right) / 2) @ (right - left) / answer.stddev**2
        self._tape.ratio += float(ratio)
        self._tape.numbers += value.size

    def _note_sample(self, query: Query, charge: Charge, answer: Answer) -> None:
        """Note an answer over a sample, as if rows were in it by their share: no best test, but a fair one."""
        self._note_plan(charge)
        assert isinstance(charge.event, Sampled)
        left, right = self._sides.sums(self._interior, query, Norm.L2)
        self._tell(answer, charge.event.rate * left, charge.event.rate * right)

    def _note_values(self, query: Values, event: Any, shown: dict[str, dict[str, float]]) -> None:
        assert isinstance(event, PartitionSelection)
        apart = 1.0 if self.budget.adjacency is Adjacency.ADD_REMOVE else math.sqrt(2)
        stddev = event.noise_multiplier * math.sqrt(len(query.columns)) * self.unit.max_rows * apart
        for column, counts in shown.items():
            left, right = (backend.count_values(column) for backend in self._sides.backends)
            value = np.array(list(counts.values()))
            exact = [np.array([float(side[word]) for word in counts]) for side in (left, right)]
            self._tell(Answer(value, stddev), *exact)

    def _scored(self, scores: QualityScores, side: int) -> Vector:
        stack = Stack(scores.marginals)
        exact = stack.parts(self._sides.sums(self._interior, stack, Norm.L1)[side], 0.0)
        distances = [
            np.abs(part.value.ravel() - np.ravel(expected)).sum()
            for part, expected in zip(exact, scores.expected, strict=True)
        ]
        scored: Vector = np.array(distances) - np.array(scores.penalties or [0.0] * len(distances))
        scored *= np.array(scores.weights or [1] * len(distances))
        return scored


@dataclass(frozen=True, slots=True)
class _AuditedSample(SampledTable):
    tell: Callable[[Query, Charge, Answer], None]

    def measure(self, query: Query, charge: Charge) -> Answer:
        # Named in full: a dataclass with slots is a new class, which a bare super() does not know.
        answer = SampledTable.measure(self, query, charge)
        self.tell(query, charge, answer)
        return answer


def _log_chances(scores: Vector, scale: float) -> Vector:
    """Return the log-probabilities of the exponential mechanism, which permute-and-flip stays close to."""
    scaled = scores / scale
    top = scaled.max()
    chances: Vector = scaled - top - math.log(np.exp(scaled - top).sum())
    return chances
