"""The door: the only way to a private row.

A stage knocks with a query and a charge. The door reserves the charge's whole plan in the ledger, logs the charge,
clips what each row adds, sums exactly, adds noise, and answers. There is no other way in: no length, no iteration, no
indexing, no values, no repr of data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from threea.anonymize.accountant import Line
from threea.anonymize.clipping import Norm, check, step_of
from threea.anonymize.events import Gaussian, PartitionSelection, Pure
from threea.anonymize.guard import engine
from threea.anonymize.interior import Interior, Teacher
from threea.anonymize.network_gradient import NetworkGradient
from threea.anonymize.noisy_sum import noisy_sum, rounded_up, scale_of
from threea.anonymize.part_sums import Parted
from threea.anonymize.plan import Charge, Plan
from threea.anonymize.query import Answer, Features, Query, Stack, origin_of
from threea.anonymize.sampled import SampledTable
from threea.anonymize.selection import SCORE_STEP, QualityScores, Values, choice_scale, threshold
from threea.anonymize.spending import Unit
from threea.backends import Engine
from threea.backends.base import Elsewhere
from threea.backends.frames import Frame
from threea.budget import Adjacency, Budget
from threea.errors import SettingError
from threea.ledger.chain import LedgerHead
from threea.table.dialect import Dialect
from threea.table.layout import released
from threea.table.schema import Chunk, Schema


@dataclass(frozen=True, slots=True, repr=False)
class Exposed:
    """Rows handed out, for a method without a proof, and what it may draw noise from.

    Args:
        rows: Encoded columns by name.
        count: How many rows.
        rng: Starts from the operating system's entropy.
    """

    rows: Chunk
    count: int
    rng: np.random.Generator


class PrivateTable:
    """A table behind the door.

    Guarantees:
        - Every answer is (epsilon, delta)-differentially private as its event says, under the table's adjacency and
          unit, and is charged before its noise is drawn.
        - All answers together stay within the table's budget, or the next is refused.
        - Nothing else about the rows can be had: not their number, not in a message, not by printing or pickling.

    Made by `open_table`. `schema`, `layout`, `budget`, `unit` and what was spent are public facts.
    """

    __slots__ = ("_interior",)

    def __init__(self, interior: Interior) -> None:
        self._interior = interior

    @property
    def schema(self) -> Schema:
        """The public description of the table."""
        return self._interior.schema

    @property
    def layout(self) -> pa.Schema:
        """Names, order and types that a release's columns have, by the schema and by declared types alone."""
        return released(self.schema, self._interior.backend.layout)

    @property
    def budget(self) -> Budget:
        """What all answers together may cost."""
        return self._interior.spending.budget

    @property
    def unit(self) -> Unit:
        """Whom the privacy protects."""
        return self._interior.unit

    @property
    def accepts_unproven(self) -> bool:
        """Whether its owner allows methods without a proof to read the rows."""
        return self._interior.accept_unproven

    @property
    def restore(self) -> Frame:
        """What turns a synthetic table into the kind of table that came in."""
        return self._interior.restore

    @property
    def dialect(self) -> Dialect | None:
        """How its CSV file is written; None if it came in another form."""
        return self._interior.dialect

    @property
    def elsewhere(self) -> Elsewhere | None:
        """What runs work that needs no rows, such as drawing synthetic ones, where the engine is; None if here."""
        backend = self._interior.backend
        return backend.elsewhere if isinstance(backend, Engine) else None

    @property
    def arithmetic(self) -> str:
        """How sums were added up and noise was drawn, in words, for the certificate."""
        own = self._interior.noise.arithmetic
        return f"{own}; float64 where rows were handed out" if self._interior.spending.exposed else own

    @property
    def secure(self) -> bool:
        """Whether its noise is meant to protect anyone; noise for tests is not."""
        return self._interior.noise.secure

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why a release made from this table could not be called proven; none if it can."""
        noise = () if self.secure else ("the noise was replaced by one for tests, which protects nobody",)
        read = (f"{reason} reads the rows without a proof" for reason in self._interior.spending.exposed)
        return (*read, *noise)

    @property
    def foreign(self) -> tuple[str, ...]:
        """Functions of rows that are not threea's and that were asked here: each is an assumption of the proof."""
        return tuple(self._interior.spending.foreign)

    @property
    def charged(self) -> bool:
        """Whether anything was charged, or may have been."""
        return self._interior.spending.charged

    def spent(self, plan: Plan) -> tuple[Line, ...]:
        """Return what was charged so far: of this plan line by line, and every time the rows were handed out."""
        return self._interior.spending.spent(plan)

    @property
    def ledger_head(self) -> LedgerHead | None:
        """Where the ledger's chain of entries ends, if it is a file: a copy that lacks this entry is an old one."""
        ledger = self._interior.spending.ledger
        return ledger.head if ledger.on_disk else None

    def check_ledger(self) -> None:
        """Check that the ledger is still there, whole, and holds what was charged.

        Raises:
            LedgerError: It was removed, replaced or damaged since; what was charged stays charged.
        """
        self._interior.spending.ledger.check()

    def __repr__(self) -> str:
        return f"PrivateTable({len(self.layout)} columns, {self.budget}, {self.unit})"

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled: rows leave by the door only."""
        raise TypeError("a PrivateTable cannot be copied or pickled; open the table again where you need it")

    def described(self, schema: Schema) -> PrivateTable:
        """Return the same table under another description, made from public facts or from answers of this one.

        It shares budget and spending. What a value means changes; what a row can add to an answer does not.
        """
        return type(self)(self._interior.described(schema))

    def measure(self, query: Query | Values, charge: Charge) -> Any:
        """Answer a query with noise.

        Guarantees:
            - A row adds at most the query's bound, whatever it holds; a unit at most `max_rows` times that.
            - The charge is in the ledger before the noise is drawn, and stays there whatever happens then.

        Cost:
            The charge's event: `Gaussian` (L2 bound), `Pure` (Laplace noise, L1 bound) or, for `Values`,
            `PartitionSelection`.

        Args:
            query: What to sum, one of the closed set of queries; or `Values`.
            charge: Which line of which plan pays.

        Returns:
            An `Answer`; for `Values`, noisy counts by column and value.

        Raises:
            BudgetRefused: The budget or the ledger's cap does not cover the plan.
            RowFunctionError: The query's function failed. The charge stays.
        """
        if type(query) is Values:
            rows, wanted = self._interior.counting("discovering categories"), charge.expect(PartitionSelection)
            ask = partial(self._values, query, rows, wanted)
            return self._interior.spending.answered(charge, query, ask, sized=False)
        event = charge.expect(Gaussian, Pure)
        check(query, Norm.L1 if isinstance(event, Pure) else Norm.L2)
        assert isinstance(query, Query)
        self._note(query)
        return self._interior.spending.answered(charge, query, lambda: noisy_sum(self._interior, query, event))

    def prepay(self, charge: Charge, count: int) -> None:
        """Pay for many answers of a line at once, before the first: one entry in the ledger for a whole training run.

        Guarantees:
            - They are in the ledger before any of them is answered, and stay there, whether they are asked for or not.

        Cost:
            `count` times the charge's event.

        Args:
            charge: Which line of which plan pays; the answers are then asked for with the same charge.
            count: How many answers.

        Raises:
            BudgetRefused: The budget or the ledger's cap does not cover the plan, or the line has fewer charges left.
        """
        self._interior.spending.prepay(charge, count)

    def stddev(self, query: Query, charge: Charge) -> float:
        """Return the standard deviation that the noise on an answer would have. A public fact; it costs nothing."""
        event = charge.expect(Gaussian, Pure)
        check(query, Norm.L1 if isinstance(event, Pure) else Norm.L2)
        return scale_of(query, event, self.budget.adjacency, self.unit.max_rows)[1]

    def select(self, scores: QualityScores, charge: Charge, among: Sequence[int] | None = None) -> int:
        """Choose the candidate with the largest score, or one near it.

        Guarantees:
            - The choice is epsilon-DP or mu-GDP, as the charge's event says: one unit moves each score by at most
              `max_rows` times the largest weight among the candidates (twice that under replace).

        Cost:
            A `Pure` event (permute-and-flip), or a `Gaussian` one (the exponential mechanism).

        Args:
            scores: The candidates and how to score them.
            charge: Which line of which plan pays.
            among: Positions of the candidates that may be chosen; all by default.

        Returns:
            The position of the chosen candidate.
        """
        event = charge.expect(Pure, Gaussian)
        if type(scores) is not QualityScores:
            raise SettingError(f"scores ({type(scores).__name__}) must be QualityScores")
        if not self._interior.cache.has_scored(scores):
            check(Stack(scores.marginals), Norm.L1)
        eligible = list(range(len(scores.marginals)) if among is None else among)
        if not eligible or not all(0 <= position < len(scores.marginals) for position in eligible):
            raise SettingError(f"a choice needs candidates; positions must be from 0 to {len(scores.marginals) - 1}")
        rows = self.unit.max_rows * (2 if self.budget.adjacency is Adjacency.REPLACE else 1)
        moved = rows * scores.heaviest(eligible) / SCORE_STEP

        def choice() -> int:
            exact, noise = self._interior.scores(scores)[eligible], self._interior.noise
            choose = noise.choose if isinstance(event, Pure) else noise.exponential
            return eligible[choose(exact, scale=rounded_up(choice_scale(event, moved)))]

        return self._interior.spending.answered(charge, (scores, eligible), choice)

    def vote(self, query: Parted, teacher: Teacher, *, inputs: int, classes: int, parts: int, charge: Charge) -> Answer:
        """Split the rows into disjoint parts, teach a teacher the sums over each, and count their votes.

        Of a `Grouped` query each group has teachers and inputs of its own: a row has a say in its group's alone.

        Guarantees:
            - A unit is in one part only, by its own values as they were read, so it moves at most one vote per input
              (two under replace), and of no more groups than it has rows.

        Cost:
            A `Gaussian` event over all inputs together.

        Args:
            query: What is summed over the rows of each part; a teacher learns from nothing else.
            teacher: Takes the exact sums over a part's group, and which group it is; returns a class for each input.
            inputs: How many public inputs are voted on, in each group; the teacher knows them.
            classes: Votes are whole numbers from 0 up to, not including, this.
            parts: How many teachers there are, in each group.
            charge: Which line of which plan pays.

        Returns:
            An `Answer` of shape (groups, inputs, classes).

        Reference:
            Papernot et al. 2017, Semi-supervised knowledge transfer (PATE).
        """
        event = charge.expect(Gaussian)
        check(query, Norm.L2)
        if not isinstance(query, Parted):
            raise SettingError(f"query ({type(query).__name__}) of a vote must be a sum over rows, or one by groups")
        if min(inputs, classes, parts) < 1:
            raise SettingError(f"inputs ({inputs}), classes ({classes}) and parts ({parts}) must be at least 1")
        self._note(query)
        if not origin_of(teacher).startswith("threea."):
            self._interior.spending.foreign[origin_of(teacher)] = None

        def counted() -> Answer:
            votes = self._interior.votes(query, teacher, inputs, classes, parts)
            # A teacher's ballot changes at most from one class to another, on every input; in each group it is in.
            touched = min(len(votes), self.unit.max_rows)
            moved = math.sqrt(2 * inputs * touched) * (2 if self.budget.adjacency is Adjacency.REPLACE else 1)
            step = step_of(1.0)
            scale = rounded_up(event.noise_multiplier * moved / step)
            noisy = self._interior.noise.gaussian((votes * int(1 / step)).ravel(), scale)
            return Answer((noisy * np.float64(step)).reshape(votes.shape), scale * step)

        return self._interior.spending.answered(charge, (query, teacher, inputs, classes, parts), counted)

    def sampled(self, rate: float) -> SampledTable:
        """Return a view whose every answer is over a fresh Poisson sample of the units.

        Args:
            rate: Probability with which a unit is in a sample.
        """
        if not 0 < rate <= 1:
            raise SettingError(f"rate ({rate}) must be > 0 and <= 1")
        return SampledTable(self._interior, rate, self._note)

    def expose(self, reason: str) -> Exposed:
        """Hand out the rows. Whatever is made of them has no proven guarantee.

        Cost:
            A `NonPrivate` event: epsilon is infinite from here on.

        Args:
            reason: Why, for the certificate and the ledger.

        Raises:
            SettingError: The user did not accept an unproven release.
        """
        if not self.accepts_unproven:
            raise SettingError(f"{reason} reads the rows without a proof; pass --accept-unproven to allow it")
        self._interior.rows("exposing")
        self._interior.spending.expose(reason)
        rows, count = self._interior.encoded()
        return Exposed(rows, count, self._interior.noise.generator())

    def _note(self, query: Query) -> None:
        """Remember a function of rows that is not threea's: nobody proved that it treats rows one by one."""
        parts = query.queries if isinstance(query, Stack) else (query,)
        for part in parts:
            inner = getattr(part, "query", part)
            if isinstance(inner, Features | NetworkGradient) and not inner.origin.startswith("threea."):
                self._interior.spending.foreign[inner.origin] = None

    def _values(self, query: Values, backend: Engine, event: PartitionSelection) -> dict[str, dict[str, float]]:
        """Count values, drop those of one unit's size unseen, add noise, and show what exceeds the threshold."""
        bound, columns = self.unit.max_rows, len(query.columns)
        replaced = self.budget.adjacency is Adjacency.REPLACE
        spread = math.sqrt(columns) * bound * (math.sqrt(2) if replaced else 1.0)
        step = step_of(spread)
        scale = rounded_up(event.noise_multiplier * spread / step)
        least = threshold(bound, columns, event.delta, scale, step)
        shown: dict[str, dict[str, float]] = {}
        for column in query.columns:
            counts = engine("Values", partial(backend.count_values, column))
            known = sorted(value for value, count in counts.items() if count > bound)
            exact = np.array([counts[value] for value in known], np.int64) * int(1 / step)
            noisy = self._interior.noise.counts(known, exact, scale) * step if known else np.zeros(0)
            shown[column] = {v: float(c) for v, c in zip(known, noisy, strict=True) if c > least}
        return shown
