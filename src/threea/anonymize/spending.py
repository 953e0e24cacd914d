"""Who pays, and for whom: the privacy unit, and who takes payment before an answer."""

from __future__ import annotations

import logging
import math
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from threea.anonymize.accountant import Line
from threea.anonymize.events import NonPrivate, to_json
from threea.anonymize.plan import Charge, Plan
from threea.anonymize.transcript import Transcript
from threea.budget import Budget
from threea.errors import BudgetRefused, SettingError
from threea.ledger import Ledger

_log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unit:
    """Whom the privacy protects.

    Args:
        column: The column that names the person; None if every row is one.
        max_rows: How many rows of one person count.
    """

    column: str | None = None
    max_rows: int = 1

    def __post_init__(self) -> None:
        if self.max_rows < 1:
            raise SettingError(f"max_rows_per_unit ({self.max_rows}) must be at least 1")
        if self.column is None and self.max_rows != 1:
            raise SettingError(f"max_rows_per_unit ({self.max_rows}) needs a unit; name its column with --unit")

    @property
    def described(self) -> str:
        """The unit in words, for the certificate and the ledger."""
        if self.column is None:
            return "row"
        return f"all rows of one {self.column}, of which at most {self.max_rows} count"


class Spending:
    """Takes payment: reserves a plan once, then logs each charge before its answer.

    `charged` says whether anything was, or may have been where the ledger failed. With a transcript, the answers to
    its first plan are kept, and those that were kept by an interrupted run are paid for.
    """

    def __init__(self, budget: Budget, ledger: Ledger, dataset: str, transcript: Transcript | None = None) -> None:
        self.budget, self.ledger, self.dataset, self.transcript = budget, ledger, dataset, transcript
        self.exposed: list[str] = []
        self.charged = transcript is not None and bool(transcript.release)
        self.foreign: dict[str, None] = {}
        self._releases: list[tuple[Plan, str, float]] = []
        self._asked: Counter[tuple[str, str]] = Counter()
        self._prepaid: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    def answered(self, charge: Charge, question: object, ask: Callable[[], T], *, sized: bool = True) -> T:
        """Return the answer that a question got before it was interrupted; or have it paid for, asked and kept.

        Args:
            charge: Which line of which plan pays.
            question: What is asked, and of what its answer depends but the rows and the noise.
            ask: Asks it.
            sized: Whether the size of the answer says nothing of it.
        """
        transcript = self.transcript
        if transcript is not None and transcript.resumed and self._keeps(charge.plan):
            known: T | None = transcript.recall(charge, question)
            if known is not None:
                return known
        self.pay(charge)
        answer = ask()
        if transcript is not None and self._keeps(charge.plan):
            transcript.keep(charge, question, answer, sized=sized)
        return answer

    def _keeps(self, plan: Plan) -> bool:
        """Whether the answers of a plan, which is reserved if it is not, are kept."""
        with self._lock:
            release, transcript = self._release_of(plan), self.transcript
            return transcript is not None and transcript.waits and release == transcript.release

    def pay(self, charge: Charge) -> None:
        """Reserve the charge's plan if need be, and log the charge unless it is prepaid; then it may be answered."""
        with self._lock:
            paid = next(((number, charge.name) for plan, number, _ in self._releases if plan is charge.plan), None)
            if paid is not None and self._prepaid[paid] >= charge.units:
                self._prepaid[paid] -= charge.units
                return
            self._pay(charge)

    def prepay(self, charge: Charge, count: int) -> None:
        """Log so many charges of a line at once; as many answers may then be made without another entry."""
        if not isinstance(count, int) or count < 1:
            raise SettingError(f"count ({count}) of charges paid at once must be a whole number, at least 1")
        if self.transcript is not None:
            # So many answers are too much to keep, and without all of them none can be asked for again.
            self.transcript.forget()
        with self._lock:
            release = self._pay(replace(charge, units=count))
            self._prepaid[release, charge.name] += count

    def _release_of(self, plan: Plan) -> str:
        # By identity: an equal plan made for a second release is to be paid again.
        release = next((number for known, number, _ in self._releases if known is plan), None)
        return release or self._reserve(plan)

    def _pay(self, charge: Charge) -> str:
        release = self._release_of(charge.plan)
        if self._asked[release, charge.name] + charge.units > charge.line.count:
            raise BudgetRefused(
                f"line {charge.name} of this plan was asked as often as planned",
                requested=charge.plan.budget.epsilon,
                spent=math.fsum(cost for _, _, cost in self._releases),
                cap=self.budget.epsilon,
                remedy="make another plan",
            )
        self._asked[release, charge.name] += charge.units
        self.ledger.charge(release, charge.name, charge.units)
        _log.info("charged: %s, %d of %d", charge.name, self._asked[release, charge.name], charge.line.count)
        return release

    def _reserve(self, plan: Plan) -> str:
        if plan.budget.adjacency is not self.budget.adjacency:
            raise SettingError(
                f"the plan's adjacency ({plan.budget.adjacency}) must be the table's ({self.budget.adjacency})"
            )
        spent = math.fsum(cost for _, _, cost in self._releases)
        spent_delta = math.fsum(other.budget.delta for other, _, _ in self._releases)
        cost = max(plan.budget.epsilon, plan.epsilon)
        fits = spent + cost <= self.budget.epsilon * (1 + 1e-9)
        if not fits or spent_delta + plan.budget.delta > self.budget.delta * (1 + 1e-9):
            raise BudgetRefused(
                "the table's budget does not cover this plan",
                requested=cost,
                spent=spent,
                cap=self.budget.epsilon,
                remedy="calibrate the plan to what is left, or open the table with a larger budget",
            )
        enter = partial(self._enter, cost, plan.budget.delta, plan.lines, plan.recipe)
        transcript = None if self._releases else self.transcript
        release = (transcript.begin(plan, self.ledger, enter) if transcript else None) or enter()
        if transcript and transcript.resumed:
            charged, owed = transcript.owed(self.ledger)
            self._asked.update({(release, line): times for line, times in charged.items()})
            self._prepaid.update({(release, line): times for line, times in owed.items()})
        _log.info("reserved: epsilon %g, delta %g for recipe %s", cost, plan.budget.delta, plan.recipe)
        self._releases.append((plan, release, cost))
        return release

    def expose(self, reason: str) -> None:
        """Record that the rows were handed out."""
        if self.transcript is not None:
            self.transcript.forget()
        line = Line("expose", NonPrivate(reason))
        self.ledger.charge(self._enter(math.inf, 0.0, (line,), ""), "expose")
        self.exposed.append(reason)
        _log.info("rows handed out to a method without a proof")

    def spent(self, plan: Plan) -> tuple[Line, ...]:
        """Return the lines of a plan as often as they were charged, and one for every time rows were handed out."""
        with self._lock:
            release = next((number for known, number, _ in self._releases if known is plan), "")
            charged = [(line, self._asked[release, line.name]) for line in plan.lines]
        exposed = tuple(Line("expose", NonPrivate(reason)) for reason in self.exposed)
        return (*(replace(line, count=count) for line, count in charged if count), *exposed)

    def _enter(
        self, epsilon: float, delta: float, lines: Sequence[Line], recipe: str, release: str | None = None
    ) -> str:
        entries = [(line.name, to_json(line.event), line.count) for line in lines]
        before, self.charged = self.charged, True
        try:
            return self.ledger.reserve(
                self.dataset, epsilon=epsilon, delta=delta, lines=entries, recipe=recipe, release=release
            )
        except BudgetRefused:
            # Of any other end, an interrupt say, nobody knows whether it came before the ledger's commit or after.
            self.charged = before
            raise

    def __repr__(self) -> str:
        return f"Spending({self.budget})"
