"""The door: the only way to a private row.

A stage knocks with a query and a charge. The door reserves the charge's whole plan in the ledger, logs the charge,
clips what each row adds, sums exactly, adds noise, and answers. There is no other way in: no length, no iteration, no
indexing, no values, no repr of data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from threea.anonymize.cache import Cache
from threea.anonymize.clipping import check, integer_sum, step_of
from threea.anonymize.events import Gaussian, PartitionSelection, Pure, Sampled
from threea.anonymize.guard import Guard
from threea.anonymize.noise import Noise
from threea.anonymize.plan import Charge
from threea.anonymize.query import Answer, Query, Rows, Stack
from threea.anonymize.sampled import SampledTable
from threea.anonymize.selection import QualityScores, Values
from threea.anonymize.spending import Spending, Unit
from threea.backends import Backend, RowBackend
from threea.backends.base import no_rows
from threea.backends.hashing import row_hashes
from threea.budget import Adjacency, Budget
from threea.errors import SettingError
from threea.table import codec
from threea.table.schema import Chunk, Schema

_SCORE_STEP = 2.0**-10

Teacher = Callable[[Chunk], Callable[[Chunk], NDArray[np.int64]]]
"""Learns from some rows, and returns a function that votes on a class for each row of another chunk."""


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

    Made by `open_table`. `schema`, `layout`, `budget` and `unit` are public facts.
    """

    __slots__ = (
        "_accept_unproven",
        "_backend",
        "_cache",
        "_key",
        "_noise",
        "_restore",
        "_schema",
        "_spending",
        "_unit",
    )

    def __init__(
        self,
        *,
        backend: Backend,
        schema: Schema,
        spending: Spending,
        noise: Noise,
        unit: Unit,
        accept_unproven: bool,
        key: bytes,
        restore: Callable[[pa.Table], Any],
    ) -> None:
        self._backend, self._spending, self._noise, self._key = backend, spending, noise, key
        self._accept_unproven, self._restore = accept_unproven, restore
        self._schema, self._unit = schema, unit
        self._cache = Cache()

    @property
    def schema(self) -> Schema:
        """The public description of the table."""
        return self._schema

    @property
    def layout(self) -> pa.Schema:
        """Names, order and types of its columns."""
        return self._backend.layout

    @property
    def budget(self) -> Budget:
        """What all answers together may cost."""
        return self._spending.budget

    @property
    def unit(self) -> Unit:
        """Whom the privacy protects."""
        return self._unit

    def __repr__(self) -> str:
        return f"PrivateTable({len(self.layout)} columns, {self.budget}, {self.unit})"

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled: rows leave by the door only."""
        raise TypeError("a PrivateTable cannot be copied or pickled; open the table again where you need it")

    def measure(self, query: Query | Values, charge: Charge) -> Any:
        """Answer a query with noise.

        Guarantees:
            - A row adds at most the query's bound, whatever it holds; a unit at most `max_rows` times that.
            - The charge is in the ledger before the noise is drawn, and stays there whatever happens then.

        Cost:
            The charge's event: `Gaussian` (L2 bound), `Pure` (Laplace noise, L1 bound) or, for `Values`,
            `PartitionSelection`.

        Args:
            query: What to sum; or `Values`.
            charge: Which line of which plan pays.

        Returns:
            An `Answer`; for `Values`, noisy counts by column and value.

        Raises:
            BudgetRefused: The budget or the ledger's cap does not cover the plan.
            RowFunctionError: The query's function failed. The charge stays.
        """
        if isinstance(query, Values):
            rows, wanted = self._rows("discovering categories"), charge.expect(PartitionSelection)
            self._spending.pay(charge)
            return self._values(query, rows, wanted)
        event = charge.expect(Gaussian, Pure)
        check(query, l1=isinstance(event, Pure))
        self._spending.pay(charge)
        return self._noisy_sum(query, event, self._backend, self._apart(nonnegative=query.nonnegative))

    def stddev(self, query: Query, charge: Charge) -> float:
        """Return the standard deviation that the noise on an answer would have. A public fact; it costs nothing."""
        event = charge.expect(Gaussian, Pure)
        check(query, l1=isinstance(event, Pure))
        return self._scale(query, event, self._apart(nonnegative=query.nonnegative))[1]

    def select(self, scores: QualityScores, charge: Charge, among: Sequence[int] | None = None) -> int:
        """Choose the candidate with the largest score, or one near it.

        Guarantees:
            - The choice is epsilon-DP, epsilon being the charge's: one unit moves each score by at most `max_rows`
              (twice that under replace).

        Cost:
            A `Pure` event.

        Args:
            scores: The candidates and how to score them.
            charge: Which line of which plan pays.
            among: Positions of the candidates that may be chosen; all by default.

        Returns:
            The position of the chosen candidate.
        """
        event = charge.expect(Pure)
        eligible = list(range(len(scores.marginals)) if among is None else among)
        if not eligible or not all(0 <= position < len(scores.marginals) for position in eligible):
            raise SettingError(f"a choice needs candidates; positions must be from 0 to {len(scores.marginals) - 1}")
        self._spending.pay(charge)
        moved = self.unit.max_rows * (2 if self.budget.adjacency is Adjacency.REPLACE else 1) / _SCORE_STEP
        found = self._cache.scores(scores, lambda: self._scores(scores))[eligible]
        return eligible[self._noise.choose(found, scale=_rounded_up(2 * moved / event.epsilon))]

    def vote(self, teacher: Teacher, inputs: Chunk, classes: int, parts: int, charge: Charge) -> Answer:
        """Split the rows into disjoint parts, train a teacher on each, and count their votes on public inputs.

        Guarantees:
            - A unit is in one part only, so it moves at most one vote per input (two under replace).

        Cost:
            A `Gaussian` event over all inputs together.

        Args:
            teacher: Learns from a part's rows; returns a function that gives a class for each input.
            inputs: Public rows to vote on, encoded.
            classes: Votes are whole numbers from 0 up to, not including, this.
            parts: How many teachers.
            charge: Which line of which plan pays.

        Returns:
            An `Answer` of shape (inputs, classes).

        Reference:
            Papernot et al. 2017, Semi-supervised knowledge transfer (PATE).
        """
        event = charge.expect(Gaussian)
        self._rows("voting")
        self._spending.pay(charge)
        rows = len(next(iter(inputs.values())))
        votes = self._votes(teacher, inputs, rows, classes, parts)
        # One teacher's ballot changes at most from one class to another, on every input.
        moved = math.sqrt(2 * rows) * (2 if self.budget.adjacency is Adjacency.REPLACE else 1)
        step = step_of(1.0)
        scale = _rounded_up(event.noise_multiplier * moved / step)
        noisy = self._noise.gaussian((votes * int(1 / step)).ravel(), scale)
        return Answer((noisy * np.float64(step)).reshape(rows, classes), scale * step)

    def sampled(self, rate: float) -> SampledTable:
        """Return a view whose every answer is over a fresh Poisson sample of the units.

        Args:
            rate: Probability with which a unit is in a sample.
        """
        if not 0 < rate <= 1:
            raise SettingError(f"rate ({rate}) must be > 0 and <= 1")
        return SampledTable(self, rate)

    def expose(self, reason: str) -> Exposed:
        """Hand out the rows. Whatever is made of them has no proven guarantee.

        Cost:
            A `NonPrivate` event: epsilon is infinite from here on.

        Args:
            reason: Why, for the certificate and the ledger.

        Raises:
            SettingError: The user did not accept an unproven release.
        """
        if not self._accept_unproven:
            raise SettingError(f"{reason} reads the rows without a proof; pass --accept-unproven to allow it")
        backend = self._rows("exposing")
        self._spending.expose(reason)
        table = backend.table().combine_chunks()
        batch = table.to_batches()[0] if table.num_rows else no_rows(self.layout)
        return Exposed(codec.encode(batch, self.schema), batch.num_rows, self._noise.generator())

    # Below: what the five do inside.

    @property
    def _unproven(self) -> tuple[str, ...]:
        """Why a release made from this table could not be called proven."""
        noise = () if self._noise.secure else ("the noise was replaced by one for tests, which protects nobody",)
        read = (f"{reason} reads the rows without a proof" for reason in self._spending.exposed)
        return (*read, *noise)

    def _apart(self, *, nonnegative: bool) -> float:
        """By how many of a unit's bounds two neighbouring tables' sums can differ, in L2."""
        if self.budget.adjacency is Adjacency.ADD_REMOVE:
            return 1.0
        return math.sqrt(2) if nonnegative else 2.0

    def _noisy_sum(self, query: Query, event: Gaussian | Pure | Sampled, backend: Backend, apart: float) -> Answer:
        laplace = isinstance(event, Pure)
        step = step_of(query.l1 if laplace else query.l2)
        scale, stddev = self._scale(query, event, apart)
        sums = self._exact(query, backend, step, l1=laplace)
        noisy = self._noise.laplace(sums, scale) if laplace else self._noise.gaussian(sums, scale)
        value = noisy * np.float64(step)
        parts = query.parts(value, stddev) if isinstance(query, Stack) else ()
        return Answer(value.reshape(query.shape), stddev, parts)

    def _scale(self, query: Query, event: Gaussian | Pure | Sampled, apart: float) -> tuple[float, float]:
        """Return the noise's scale in grid steps, and its standard deviation in the query's own units."""
        if isinstance(event, Pure):
            step, twice = step_of(query.l1), 1 if self.budget.adjacency is Adjacency.ADD_REMOVE else 2
            scale = _rounded_up(query.l1 * self.unit.max_rows * twice / step / event.epsilon)
            return scale, math.sqrt(2) * scale * step
        step = step_of(query.l2)
        scale = _rounded_up(event.noise_multiplier * query.l2 * self.unit.max_rows * apart / step)
        return scale, scale * step

    def _scores(self, scores: QualityScores) -> NDArray[np.int64]:
        """Return the candidates' scores in steps. Private: whoever calls this chooses at random."""
        stack = Stack(scores.marginals)
        counts = stack.parts(self._exact(stack, self._backend, 1.0, l1=True).astype(np.float64), 0.0)
        distances = [
            np.abs(np.round(answer.value.ravel() / _SCORE_STEP) - np.round(np.ravel(expected) / _SCORE_STEP)).sum()
            for answer, expected in zip(counts, scores.expected, strict=True)
        ]
        penalties = np.round(np.array(scores.penalties or [0.0] * len(distances)) / _SCORE_STEP)
        return np.array(distances).astype(np.int64) - penalties.astype(np.int64)

    def _exact(self, query: Query, backend: Backend, step: float, *, l1: bool) -> NDArray[np.int64]:
        """Sum over the rows. Private: whoever calls this adds noise."""
        guard, nothing = Guard(type(query).__name__), np.zeros(query.size, np.int64)
        cache = self._cache if backend is self._backend and isinstance(backend, RowBackend) else Cache(0)
        known = cache.recall(query.keys or ())
        if known is not None:
            parts = (guard.over(partial(integer_sum, query, rows, step=step, l1=l1), nothing) for rows in known)
            return guard.end(lambda: sum(parts, nothing))
        fill = cache.fill(query.keys or ())

        def row_sum(batch: pa.RecordBatch) -> NDArray[np.int64]:
            def act() -> NDArray[np.int64]:
                rows = Rows(codec.encode(batch, self.schema), batch.num_rows)
                total = integer_sum(query, rows, step=step, l1=l1)
                if fill.fits:
                    fill.add(rows)
                return total

            return guard.over(act, nothing)

        total = guard.end(partial(backend.sum, row_sum, query.columns))
        cache.learn(fill)
        return total

    def _values(self, query: Values, backend: RowBackend, event: PartitionSelection) -> dict[str, dict[str, float]]:
        """Count values, drop those of one unit's size unseen, add noise, and show what exceeds the threshold."""
        from scipy.special import ndtri

        bound = self.unit.max_rows
        spread = math.sqrt(len(query.columns)) * bound * self._apart(nonnegative=True)
        step = step_of(spread)
        scale = _rounded_up(event.noise_multiplier * spread / step)
        touched = bound * len(query.columns)
        # Proof: docs/proofs/partition-selection.md. Two grid steps cover the discrete tail.
        threshold = 2 * bound + (-float(ndtri(event.delta / 3 / touched)) * scale + 2) * step
        shown: dict[str, dict[str, float]] = {}
        for column in query.columns:
            counts = Guard("Values").end(partial(backend.count_values, column))
            known = sorted(value for value, count in counts.items() if count > bound)
            exact = np.array([counts[value] for value in known], np.int64) * int(1 / step)
            noisy = self._noise.gaussian(exact, scale) * step if known else np.zeros(0)
            shown[column] = {v: float(c) for v, c in zip(known, noisy, strict=True) if c > threshold}
        return shown

    def _votes(self, teacher: Teacher, inputs: Chunk, rows: int, classes: int, parts: int) -> NDArray[np.int64]:
        guard, backend = Guard("teacher"), self._rows("voting")

        def act() -> NDArray[np.int64]:
            table = backend.table()
            batch = table.combine_chunks().to_batches()[0] if table.num_rows else no_rows(self.layout)
            named = [self.unit.column] if self.unit.column else batch.schema.names
            part = row_hashes(batch.select(named), self._key) % np.uint64(parts)
            votes = np.zeros((rows, classes), np.int64)
            for number in range(parts):
                chunk = codec.encode(batch.filter(pa.array(part == number)), self.schema)
                ballot = np.clip(np.asarray(teacher(chunk)(inputs)).astype(np.int64), 0, classes - 1)
                votes[np.arange(rows), ballot.reshape(rows)] += 1
            return votes

        return guard.end(partial(guard.over, act, np.zeros((rows, classes), np.int64)))

    def _rows(self, purpose: str) -> RowBackend:
        if not isinstance(self._backend, RowBackend):
            raise SettingError(f"{purpose} needs rows, and this engine only sums; use another, or give a full schema")
        return self._backend

    def _described(self, schema: Schema) -> PrivateTable:
        """Return the same table with a schema found through the door."""
        return PrivateTable(
            backend=self._backend,
            schema=schema,
            spending=self._spending,
            noise=self._noise,
            unit=self.unit,
            accept_unproven=self._accept_unproven,
            key=self._key,
            restore=self._restore,
        )


def _rounded_up(scale: float) -> float:
    """Return a scale that the roundings of its computation did not make smaller."""
    return scale * (1 + 2.0**-50)
