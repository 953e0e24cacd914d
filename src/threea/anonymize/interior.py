"""Behind the door: a table's rows, and exact sums over them. Whoever calls these adds noise, or audits made-up tables.

`open_interior` makes one, `PrivateTable` is its only door for recipes. No stage and no recipe may import this module.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from threea.anonymize.cache import Cache, Fill
from threea.anonymize.chunk_sum import CachingSum, ChunkSum
from threea.anonymize.clipping import Norm, grid_step
from threea.anonymize.guard import engine, guarded
from threea.anonymize.noise import Noise
from threea.anonymize.part_sums import Parted, PartSum, groups_of
from threea.anonymize.query import Query, Rows, Stack
from threea.anonymize.selection import SCORE_STEP, QualityScores
from threea.anonymize.spending import Spending, Unit
from threea.backends import Backend, Engine, RowBackend
from threea.backends.base import no_rows
from threea.backends.frames import Frame
from threea.errors import SettingError
from threea.table import codec
from threea.table.dialect import Dialect
from threea.table.schema import Chunk, Schema
from threea.threads import in_order

Integers = NDArray[np.int64]

Teacher = Callable[[NDArray[np.float64], int], Integers]
"""Learns from the sums over a group of a part of the rows, and votes on a class for each of that group's inputs."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Interior:
    """A private table from inside.

    Args:
        backend: The engine that holds the rows.
        schema: The public description of the table.
        spending: Who takes payment.
        noise: What answers get.
        unit: Whom the privacy protects.
        key: Decides which of a person's rows count, and which teacher sees a row.
        accept_unproven: Whether rows may be handed out.
        restore: Turns a synthetic table into the kind of table that came in.
        dialect: How its CSV file is written; None if it came in another form.
        cache: What was worked out about the rows before.
    """

    backend: Backend
    schema: Schema
    spending: Spending
    noise: Noise
    unit: Unit
    key: bytes
    accept_unproven: bool
    restore: Frame
    dialect: Dialect | None = None
    cache: Cache = field(default_factory=Cache)

    def described(self, schema: Schema) -> Interior:
        """Return the same table under another description."""
        return dataclasses.replace(self, schema=schema, cache=Cache())

    def exact(self, query: Query, norm: Norm, backend: Backend | None = None) -> Integers:
        """Sum over the rows, or over those that another engine holds, in steps of the query's own grid."""
        return self.summed(ChunkSum(query, self.schema, grid_step(query, norm), norm), backend or self.backend)

    def summed(self, chunk_sum: ChunkSum, backend: Backend) -> Integers:
        """Run a pass over the rows, from the cache where it knows them."""
        query = chunk_sum.query
        own = backend if backend is self.backend and isinstance(backend, RowBackend) else None
        cache = Cache(0) if own is None else self.cache
        known = cache.recall(query.keys or ())
        if known is not None:
            nothing = np.zeros(query.size + 1, np.int64)
            return chunk_sum.checked(sum(in_order(partial(_over, chunk_sum), known), nothing))
        fill = cache.fill(query.keys or ())
        # An engine elsewhere is sent the pure function alone.
        act = partial(_filled, chunk_sum, own, fill) if own else partial(backend.sum, chunk_sum, chunk_sum.columns)
        exact = chunk_sum.checked(engine(type(query).__name__, act))
        cache.learn(fill)
        return exact

    def columns(self, names: Sequence[str]) -> Rows | None:
        """Return all rows' values in some columns, encoded, from the cache; None if they do not fit in it."""
        backend = self.rows("sampling")

        def read(missing: Sequence[str]) -> Iterator[Rows]:
            yield Rows(codec.encode_learned(no_rows(backend.layout), self.schema), 0)
            for batch in backend.batches(self.schema.sources(missing) or backend.layout.names[:1]):
                yield Rows(codec.encode_learned(batch, self.schema), batch.num_rows)

        return self.cache.columns(names, read)

    def scores(self, scores: QualityScores) -> Integers:
        """Return the candidates' quality scores, in steps."""
        return self.cache.scores(scores, lambda: self._scores(scores))

    def _scores(self, scores: QualityScores) -> Integers:
        stack = Stack(scores.marginals)
        counts = self.summed(ChunkSum(stack, self.schema, 1.0, Norm.L1), self.backend).astype(np.float64)
        distances = [
            np.abs(np.round(part.value.ravel() / SCORE_STEP) - np.round(np.ravel(expected) / SCORE_STEP)).sum()
            for part, expected in zip(stack.parts(counts, 0.0), scores.expected, strict=True)
        ]
        penalties = np.round(np.array(scores.penalties or [0.0] * len(distances)) / SCORE_STEP)
        weights = np.array(scores.weights or [1] * len(distances), np.int64)
        return weights * (np.array(distances).astype(np.int64) - penalties.astype(np.int64))

    def votes(self, query: Parted, teacher: Teacher, inputs: int, classes: int, parts: int) -> Integers:
        """Teach teachers the sums over disjoint parts of the rows, group by group, and count their votes on inputs."""
        unit = self.unit.column
        chunk_sum = ChunkSum(query, self.schema, grid_step(query, Norm.L2), Norm.L2)
        part_sum = PartSum(chunk_sum, parts, self.key, (unit,) if unit else tuple(self.backend.layout.names))
        total = engine("voting", partial(self.backend.sum, part_sum, part_sum.columns))
        groups, shape = groups_of(query)
        sums = chunk_sum.checked(total).reshape(parts, groups, *shape) * np.float64(chunk_sum.step)

        def cast() -> Integers:
            votes = np.zeros((groups, inputs, classes), np.int64)
            for part, group in np.ndindex(parts, groups):
                ballot = np.clip(np.asarray(teacher(sums[part, group], group)).astype(np.int64), 0, classes - 1)
                votes[group, np.arange(inputs), ballot.reshape(inputs)] += 1
            return votes

        return guarded("teacher", cast)

    def counting(self, purpose: str) -> Engine:
        """Return the engine, if it can do more than sum.

        Raises:
            SettingError: It only sums.
        """
        if not isinstance(self.backend, Engine):
            raise SettingError(f"{purpose} needs rows, and this engine only sums; use another, or give a full schema")
        return self.backend

    def rows(self, purpose: str) -> RowBackend:
        """Return the engine, if it can hand over rows.

        Raises:
            SettingError: It does not.
        """
        if not isinstance(self.backend, RowBackend):
            raise SettingError(f"{purpose} needs the rows themselves, and this engine only sums; use --engine files")
        return self.backend

    def encoded(self) -> tuple[Chunk, int]:
        """Return all rows, encoded, and how many there are."""
        backend = self.rows("exposing")
        chunk, ones = engine("exposing", lambda: self._encoded(backend, lambda batch: np.ones(batch.num_rows)))
        return chunk, len(ones)

    def _encoded(
        self, backend: RowBackend, beside: Callable[[pa.RecordBatch], NDArray[Any]]
    ) -> tuple[Chunk, NDArray[Any]]:
        """Return all rows, encoded batch by batch, and what else is worked out of each batch."""
        empty = no_rows(backend.layout)
        chunks, others = [codec.encode_learned(empty, self.schema)], [beside(empty)]
        for batch in backend.batches(backend.layout.names):
            chunks.append(codec.encode_learned(batch, self.schema))
            others.append(beside(batch))
        joined = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
        return joined, np.concatenate(others)

    def __repr__(self) -> str:
        return f"Interior({len(self.backend.layout)} columns)"

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled: rows leave by the door only."""
        raise TypeError("a private table cannot be copied or pickled; open the table again where you need it")


def _over(chunk_sum: ChunkSum, rows: Rows) -> Integers:
    return chunk_sum.over(lambda: rows)


def _filled(chunk_sum: ChunkSum, backend: RowBackend, fill: Fill) -> Integers:
    """Sum over an engine's rows, chunk by chunk in their order, and keep what was worked out about them."""
    total = np.zeros(chunk_sum.query.size + 1, np.int64)
    for part, rows in backend.mapped(CachingSum(chunk_sum, lambda: fill.fits), chunk_sum.columns):
        total += part
        if rows is not None and fill.fits:
            fill.add(rows)
    return total
