"""What a text looks like: a boolean, a whole number, a number, a date, a datetime, or nothing but text.

CSV files and Python objects declare no types. What one of their values looks like is decided by that value alone; what
a column holds is then decided by noisy counts of what its values look like.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from threea.table.schema import LOOKS, Kind

_LEAP = r"(\d\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)"
_DAY = (
    r"(\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8]))"
    rf"|{_LEAP}-02-29)"
)
_TIME = r"[T ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,9})?)?"
# A leading zero makes it a code, such as a postal one, which as a number would lose it.
_WHOLE = r"-?(0|[1-9]\d{0,17})"
_REAL = r"-?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d+)?|-?(?i:inf)"
ZONE = r"(Z|[+-]([01]\d|2[0-3]):?[0-5]\d)"

PATTERNS: dict[Kind, str] = {
    Kind.BOOLEAN: r"^(?i:true|false)$",
    Kind.INTEGER: f"^{_WHOLE}$",
    Kind.REAL: f"^({_REAL})$",
    Kind.DATE: f"^{_DAY}$",
    Kind.DATETIME: f"^{_DAY}{_TIME}{ZONE}?$",
}
"""From the narrowest on: a text is of the first kind whose pattern it matches. No date that is none matches."""

_WIDER = {Kind.INTEGER: Kind.REAL, Kind.DATE: Kind.DATETIME}
_STRAY = 0.1
"""A column is of a kind though up to this share of its values are not; these become missing."""
_FEW = 0.01
"""Whole numbers, or dates, though up to this share of the column's numbers, or moments, are finer."""


def looks(text: pa.Array) -> NDArray[np.int64]:
    """Return for each text the position in `LOOKS` of what it looks like, -1 where it is missing."""
    codes = np.full(len(text), LOOKS.index(Kind.CATEGORICAL), np.int64)
    for kind, pattern in reversed(PATTERNS.items()):
        codes[matches(text, pattern)] = LOOKS.index(kind)
    codes[~text.is_valid().to_numpy(zero_copy_only=False)] = -1
    return codes


def matches(text: pa.Array, pattern: str) -> NDArray[np.bool_]:
    """Tell which texts match a pattern; missing ones do not."""
    found: NDArray[np.bool_] = pc.fill_null(pc.match_substring_regex(text, pattern), False).to_numpy(
        zero_copy_only=False
    )
    return found


def settled(counts: Sequence[float] | NDArray[np.float64], stddev: float = 0.0) -> Kind:
    """Return the kind of a column from counts of what its values look like, in the order of `LOOKS`.

    The most frequent of booleans, numbers, moments and text, if more than noise shows it, and unless the others are
    more than a tenth of all by more than noise explains; otherwise text. Numbers are whole, and moments dates, unless
    a hundredth of them are finer, by more than noise explains.

    Example:
        >>> settled([0, 995, 0, 0, 0, 5]), settled([0, 600, 300, 0, 0, 9]), settled([0, 60, 0, 0, 0, 50])
        (<Kind.INTEGER: 'integer'>, <Kind.REAL: 'real'>, <Kind.CATEGORICAL: 'categorical'>)
    """
    mass = dict(zip(LOOKS, (float(count) for count in counts), strict=False))
    families = [(Kind.BOOLEAN,), *_WIDER.items()]
    best = max(families, key=lambda family: sum(mass[kind] for kind in family))
    inside = sum(mass[kind] for kind in best)
    outside = sum(mass.values()) - inside
    doubt = 3 * stddev * len(LOOKS) ** 0.5
    if inside <= max(doubt, 0.0) or outside > _STRAY / (1 - _STRAY) * inside + doubt:
        return Kind.CATEGORICAL
    narrow = best[0]
    finer = mass[best[1]] if len(best) > 1 else 0.0
    return _WIDER[narrow] if finer > _FEW * inside + 4 * stddev else narrow
