"""A private table seen through random samples of its rows: each answer costs less, and says less.

Proof: docs/proofs/sampling.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from threea.anonymize.query import Answer, Query
from threea.backends import Backend
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
        self._interior.spending.pay(charge)
        return noisy_sum(self._interior, query, event, self._sample())

    def _sample(self) -> Backend:
        backend, noise = self._interior.backend, self._interior.noise
        if isinstance(backend, UnitBackend):
            return backend.sampled(noise.bernoulli(self.rate, backend.units))
        return _PoissonRows(backend, noise, self.rate)


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
