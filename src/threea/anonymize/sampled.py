"""A private table seen through random samples of its rows: each answer costs less, and says less.

Proof: docs/proofs/sampling.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from threea.anonymize.clipping import Norm, check
from threea.anonymize.events import Sampled
from threea.anonymize.interior import Interior
from threea.anonymize.noise import Noise
from threea.anonymize.noisy_sum import noisy_sum
from threea.anonymize.plan import Charge
from threea.anonymize.query import Answer, Query, Rows
from threea.backends import Backend, Engine, RowBackend
from threea.backends.units import UnitBackend
from threea.errors import SettingError


@dataclass(frozen=True, slots=True)
class SampledTable:
    """A private table seen through fresh Poisson samples, made by `PrivateTable.sampled`."""

    _interior: Interior
    rate: float
    _note: Callable[[Query], None]

    def measure(self, query: Query, charge: Charge) -> Answer:
        """Answer a query over a fresh sample; divide by the rate for an estimate of the whole.

        Cost:
            A `Sampled` event of this rate.

        Args:
            query: What to sum.
            charge: Which line of which plan pays.
        """
        event = charge.expect(Sampled)
        if event.rate != self.rate:
            raise SettingError(f"the charge pays for rate {event.rate}, not for {self.rate}")
        check(query, Norm.L2)
        self._note(query)
        # A table that cannot be sampled twice alike is refused before it is paid for.
        ask = partial(noisy_sum, self._interior, query, event, self._sample())
        return self._interior.spending.answered(charge, (query, self.rate), ask)

    def _sample(self) -> Backend:
        backend, noise = self._interior.backend, self._interior.noise
        if isinstance(backend, RowBackend):
            return _PoissonSample(self._interior, backend, self.rate)
        if isinstance(backend, Engine):
            # Workers flip keyed coins: one that does its work again, or does it twice, has the same sample.
            key = _sampling_key(noise)
            return backend if key is None else backend.sample(self.rate, key)
        return _PoissonRows(backend, noise, self.rate)


def _sampling_key(noise: Noise) -> bytes | None:
    """Draw the key of a sample's coins; None if everybody is in the sample."""
    bits = noise.bernoulli(0.5, 128)
    # Silent noise takes everybody; of fair coins, all fall so once in 2**128 times.
    return None if bits.all() else np.packbits(bits).tobytes()


class _PoissonSample:
    """A fresh sample of rows that an engine hands over: all are encoded once, and an answer reads its sample alone."""

    def __init__(self, interior: Interior, backend: RowBackend, rate: float) -> None:
        self._interior, self._backend, self._rate, self.layout = interior, backend, rate, backend.layout

    def sum(self, function: Any, columns: Sequence[str]) -> NDArray[np.int64]:
        rows, noise, backend = self._interior.columns(columns), self._interior.noise, self._backend
        if rows is None:
            return self._scanned().sum(function, columns)
        if isinstance(backend, UnitBackend):
            chosen = noise.bernoulli(self._rate, backend.units)[backend.unit_of]
        else:
            chosen = noise.bernoulli(self._rate, rows.count)
        positions = np.flatnonzero(chosen)
        sample = Rows({name: values[positions] for name, values in rows.values.items()}, len(positions))
        total: NDArray[np.int64] = function.over(lambda: sample)
        return total

    def _scanned(self) -> Backend:
        """Return an engine that reads all rows again, for a table that does not fit in the cache."""
        noise = self._interior.noise
        if isinstance(self._backend, UnitBackend):
            return self._backend.sampled(noise.bernoulli(self._rate, self._backend.units))
        return _PoissonRows(self._backend, noise, self._rate)


class _PoissonRows:
    """A backend that flips a coin for every row."""

    def __init__(self, backend: Backend, noise: Noise, rate: float) -> None:
        self._backend, self._noise, self._rate, self.layout = backend, noise, rate, backend.layout

    def sum(self, function: Any, columns: Sequence[str]) -> NDArray[np.int64]:
        def kept(batch: pa.RecordBatch) -> NDArray[np.int64]:
            chosen = self._noise.bernoulli(self._rate, batch.num_rows)
            total: NDArray[np.int64] = function(batch.filter(pa.array(chosen)))
            return total

        return self._backend.sum(kept, columns or self.layout.names[:1])
