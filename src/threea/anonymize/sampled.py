"""A private table seen through random samples of its rows: each answer costs less, and says less.

Proof: docs/proofs/sampling.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from threea.anonymize.clipping import check
from threea.anonymize.events import Sampled
from threea.anonymize.noise import Noise
from threea.anonymize.plan import Charge
from threea.anonymize.query import Answer, Query
from threea.backends import Backend
from threea.backends.units import UnitBackend
from threea.errors import SettingError

if TYPE_CHECKING:
    from threea.anonymize.door import PrivateTable


@dataclass(frozen=True, slots=True)
class SampledTable:
    """A private table seen through fresh Poisson samples, made by `PrivateTable.sampled`."""

    _table: PrivateTable
    rate: float

    def measure(self, query: Query, charge: Charge) -> Answer:
        """Answer a query over a fresh sample; divide by the rate for an estimate of the whole.

        Cost:
            A `Sampled` event of this rate.

        Args:
            query: What to sum.
            charge: Which line of which plan pays.
        """
        table = self._table
        event = charge.expect(Sampled)
        if event.rate != self.rate:
            raise SettingError(f"the charge pays for rate {event.rate}, not for {self.rate}")
        check(query, l1=False)
        table._spending.pay(charge)
        # Under replace the accountant knows the pair; the noise is in units of one unit's bound.
        return table._noisy_sum(query, event, self._sample(), apart=1.0)

    def _sample(self) -> Backend:
        table = self._table
        if isinstance(table._backend, UnitBackend):
            return table._backend.sampled(table._noise.bernoulli(self.rate, table._backend.units))
        return _PoissonRows(table._backend, table._noise, self.rate)


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
