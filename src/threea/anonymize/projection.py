"""Rows put on the unit sphere and projected to fewer coordinates by a public basis of whole numbers.

Proof: docs/proofs/cluster-moments.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from threea.anonymize.cluster_sums import UNIT, Scores
from threea.anonymize.lookup_sums import Floats, Integers, lengths_of
from threea.anonymize.query import Rows
from threea.anonymize.vectors import BASIS_BITS
from threea.errors import SettingError
from threea.table.cells import AnyCells


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """Public coordinates of a row: its scores divided by their length, times a basis. A row of zeros stays there.

    Args:
        scores: What a row's cells are looked up as.
        basis: For each score a row of whole numbers that count 2**-14, from -2**14 to 2**14. It is copied.

    Raises:
        SettingError: The basis does not fit the scores, or is none.
    """

    scores: Scores
    basis: Integers

    def __post_init__(self) -> None:
        basis = np.array(self.basis)
        if basis.ndim != 2 or len(basis) != self.scores.width or not 1 <= basis.shape[1] <= len(basis):
            raise SettingError(f"basis {basis.shape} must have a row for each of {self.scores.width} scores")
        if basis.dtype.kind != "i" or np.abs(basis.astype(np.float64)).max() > 1 << BASIS_BITS:
            raise SettingError(f"a basis must be whole numbers from {-(1 << BASIS_BITS)} to {1 << BASIS_BITS}")
        basis = basis.astype(np.int64)
        basis.setflags(write=False)
        object.__setattr__(self, "basis", basis)

    @property
    def cells(self) -> tuple[AnyCells, ...]:
        """The columns' cells."""
        return self.scores.cells

    @property
    def width(self) -> int:
        """How many coordinates a row has."""
        return int(self.basis.shape[1])

    def blocks(self, rows: Rows) -> Iterator[tuple[slice, Floats]]:
        """Yield blocks of rows: which, and their coordinates, which count 2**-8 as scores do."""
        matrix = self.basis + 0.0
        for block, scores in self.scores.blocks(rows):
            # Exact, whole numbers: what follows is done to each by itself.
            coordinates = np.ascontiguousarray(scores @ matrix)
            scale = UNIT * 2.0**-BASIS_BITS / np.maximum(lengths_of(scores), 1.0)
            yield block, coordinates * scale[:, None]
