"""What an attacker computes from one run, and from the synthetic rows of many."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from threea.audit.pairs import SCHEMA, Pair
from threea.table import codec
from threea.table.schema import Column

Vector = NDArray[np.float64]

WHITE_BOX = {
    "answers": "log-likelihood ratio of all noisy answers between the two tables, the best test there is",
    "questions": "how many numbers were asked for, which must not depend on the rows",
}
_COUNTED = {
    "near": "synthetic rows in the target's cell in every column",
    "cell": "synthetic rows in the target's cell in the column where it stands out",
    "class": "synthetic rows of the target's class",
    "same": "synthetic rows with the target's very value in the column where it stands out",
}
BLACK_BOX = {**_COUNTED, "trained": "linear discriminant on counts of synthetic rows, fitted to the first half of runs"}
STATISTICS = WHITE_BOX | BLACK_BOX
"""Every statistic by name, and what it is."""

_BINS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one run showed.

    Args:
        pair: Which crafted pair it ran on.
        side: 0 for the table without the target, 1 for the table with it.
        number: Which of the runs on that side.
        gaussian: Whether everything it paid for was Gaussian noise on sums.
        failed: What kind of error ended it; empty if none did.
        white: Values of the `WHITE_BOX` statistics.
        black: Counts of synthetic rows; first those of the `BLACK_BOX` statistics but the trained one.
    """

    pair: str
    side: int
    number: int
    gaussian: bool
    failed: str = ""
    white: tuple[float, ...] = ()
    black: tuple[float, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the run as plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Run:
        """Read a run back."""
        return cls(**{**data, "white": tuple(data["white"]), "black": tuple(data["black"])})


def counts(synthetic: pa.Table, pair: Pair) -> tuple[float, ...]:
    """Count synthetic rows near the target, and in every coarse cell of every column."""
    cells = {column.name: _cells(synthetic[column.name], column) for column in SCHEMA.columns}
    shared = {name: cell_of[0] == own for (name, cell_of), own in zip(cells.items(), _own_cells(pair), strict=True)}
    value = getattr(pair.target, pair.focus)
    same = sum(cell_of == value for cell_of in synthetic[pair.focus].to_pylist())
    assert SCHEMA.target is not None
    fixed = {
        "near": np.logical_and.reduce(list(shared.values())).sum(),
        "cell": shared[pair.focus].sum(),
        "class": shared[SCHEMA.target].sum(),
        "same": same,
    }
    everywhere = np.concatenate([np.bincount(index, minlength=size) for index, size in cells.values()])
    return (*(float(fixed[name]) for name in _COUNTED), float(synthetic.num_rows), *map(float, everywhere))


@functools.cache
def _own_cells(pair: Pair) -> tuple[int, ...]:
    target = pair.table_of((pair.target,))
    return tuple(int(_cells(target[column.name], column)[0][0]) for column in SCHEMA.columns)


def _cells(values: pa.ChunkedArray, column: Column) -> tuple[NDArray[np.int64], int]:
    """Return each value's coarse cell, with cells of their own for what the schema does not know, and their number."""
    if column.kind.listed:
        words = values.to_pylist()
        known = {word: code for code, word in enumerate(column.categories)}
        other, missing = len(known), len(known) + 1
        index = [missing if word is None else known.get(word, other) for word in words]
        return np.array(index, np.int64), missing + 1
    assert column.lower is not None
    assert column.upper is not None
    wide = Column(name=column.name, kind=column.kind, lower=-1e301, upper=1e301)
    numbers = codec.encode_column(values, wide)
    outside = (numbers < column.lower) | (numbers > column.upper)
    share = np.nan_to_num((np.clip(numbers, column.lower, column.upper) - column.lower) / (column.upper - column.lower))
    cells = np.minimum(share * _BINS, _BINS - 1).astype(np.int64)
    cells[outside] = _BINS
    cells[np.isnan(numbers)] = _BINS + 1
    return cells, _BINS + 2


def scores(name: str, left: Sequence[Run], right: Sequence[Run]) -> tuple[Vector, Vector]:
    """Return a statistic's values over the runs on both sides; a run that failed stands out as infinite."""
    if name == "trained":
        return _trained(left, right)
    if name in WHITE_BOX:
        index = list(WHITE_BOX).index(name)
        sides = [[run.white[index] if not run.failed else np.inf for run in runs] for runs in (left, right)]
    else:
        index = list(_COUNTED).index(name)
        sides = [[run.black[index] if not run.failed else np.inf for run in runs] for runs in (left, right)]
    return np.array(sides[0]), np.array(sides[1])


def _trained(left: Sequence[Run], right: Sequence[Run]) -> tuple[Vector, Vector]:
    """Fit a linear discriminant to the first half of the runs on each side, and score all of them.

    Reference:
        Fisher (1936), The Use of Multiple Measurements in Taxonomic Problems.
    """
    known = [[run for run in runs[: len(runs) // 2] if not run.failed] for runs in (left, right)]
    if not all(known):
        return scores("near", left, right)
    seen = [np.array([run.black for run in runs]) for runs in known]
    spread = np.concatenate([side - side.mean(axis=0) for side in seen])
    scale = spread.std(axis=0) + 1e-9
    covariance = (spread / scale).T @ (spread / scale) / len(spread)
    # The shrinkage keeps directions that few runs say little about from ruling the score.
    shrunk = covariance + (0.05 + len(scale) / len(spread)) * np.eye(len(scale))
    weights = np.linalg.solve(shrunk, (seen[1].mean(axis=0) - seen[0].mean(axis=0)) / scale) / scale
    sides = [
        np.array([np.array(run.black) @ weights if not run.failed else np.inf for run in r]) for r in (left, right)
    ]
    return sides[0], sides[1]
