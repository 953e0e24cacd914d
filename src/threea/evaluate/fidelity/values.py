"""Single values of a column: spikes, sentinels, grain, and days of the week. What bins hide.

A code such as 999 for "never" that is smeared over a range, or rates of which there are ten and that become ten
thousand, hardly move a histogram of wide bins. So cells are made from the real rows: a value that many rows hold has a
cell of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from threea.evaluate.fidelity import calendar
from threea.report.words import number, percent
from threea.table import codec
from threea.table.cells import Bins, Cells
from threea.table.schema import Chunk, Column, Kind, Schema

Floats = NDArray[np.float64]

BINS, PICTURE_BINS = 20, 24
SPIKE, MOST_SPIKES = 0.01, 30
"""A value that at least this share of the rows hold has a cell of its own; so many of them at most."""
BROKEN = 0.02
"""A spike whose share is off by more is told of, and so is a grain, or a set of values, that more rows do not keep."""
MISSED, BEYOND, TOLD = 0.05, 0.05, 2
"""A spike that most would miss, values beyond the real range that are told of, and how many spikes of a column are."""
FEW = 100
"""So many different values at most are a set of values, which synthetic ones are expected to keep to."""
_STEPS = sorted((10.0**k * m for k in range(-4, 9) for m in (1.0, 2.0, 2.5, 5.0)), reverse=True)
_SURE = 0.999


def as_they_are(table: pa.Table, schema: Schema) -> Chunk:
    """Encode a table without cutting numbers to the schema's bounds: what lies beyond them is to be seen."""
    columns = tuple(
        Column(name=c.name, kind=c.kind, lower=-1e300, upper=1e300) if c.kind.numeric else c for c in schema.valued
    )
    return {column.name: codec.encode_column(table[column.name], column) for column in columns}


def cells_of(real: Chunk, synthetic: Chunk, schema: Schema) -> list[Cells]:
    """Return cells to compare two tables in: of numbers, common single values, and ranges of equally many real rows."""
    return [
        _bins(column.name, real[column.name], synthetic[column.name]) if column.kind.numeric else column.cells(BINS)
        for column in schema.valued
    ]


def _bins(name: str, real: Floats, synthetic: Floats) -> Bins:
    spikes = tuple(value for value, *_ in common_values(real, synthetic))
    rest = real[~np.isnan(real) & ~np.isin(real, spikes)]
    inner = np.unique(np.quantile(rest, np.arange(1, BINS) / BINS)) if len(rest) else np.zeros(0)
    return Bins(column=name, edges=(-math.inf, *map(float, inner), math.inf), special=spikes, missing=True)


def common_values(real: Floats, synthetic: Floats) -> list[tuple[float, float, float]]:
    """Return the values that enough rows of either table hold, the commonest first, and their shares of both."""
    tallies = []
    for values in (real, synthetic):
        distinct, counts = np.unique(values[~np.isnan(values)], return_counts=True)
        tallies.append(dict(zip(distinct.tolist(), (counts / max(len(values), 1)).tolist(), strict=True)))
    left, right = tallies
    found = {value for tally in tallies for value, share in tally.items() if share >= SPIKE}
    ranked = sorted(found, key=lambda value: (-max(left.get(value, 0.0), right.get(value, 0.0)), value))
    return [(value, left.get(value, 0.0), right.get(value, 0.0)) for value in ranked[:MOST_SPIKES]]


def grain(values: Floats) -> float | None:
    """Return the largest usual step that nearly all values are multiples of; None if there is none, or few values.

    Example:
        >>> grain(np.array([10_000.0, 250_000.0, 40_000.0] * 40)), grain(np.array([0.25, 1.75, 3.5] * 40))
        (10000.0, 0.25)
    """
    known = values[~np.isnan(values)]
    if len(np.unique(known)) < 3:
        return None
    return next((step for step in _STEPS if kept(known, step) >= _SURE), None)


def kept(values: Floats, step: float) -> float:
    """Return the share of values that are multiples of a step, but for rounding."""
    known = values[~np.isnan(values)]
    ratio = known / step
    near = np.abs(ratio - np.round(ratio)) <= 1e-9 * np.abs(ratio)
    return float(near.mean()) if len(known) else 1.0


def described(column: Column, real: Floats, synthetic: Floats) -> dict[str, Any]:
    """Compare the single values of a numeric column.

    Returns:
        ``spikes`` (value, and its share of the ``real`` and of the ``synthetic`` rows), ``grain`` (the real ``step``,
        and the share of synthetic values that ``kept`` it), ``distinct`` (how many ``real`` values there are, if few,
        and the share of synthetic rows that ``kept`` to them), ``outside`` (share of synthetic values beyond the real
        range), ``calendar`` (of dates; see `calendar.compared`) and ``broken`` (sentences).
    """
    spikes = [dict(zip(("value", "real", "synthetic"), spike, strict=True)) for spike in common_values(real, synthetic)]
    known, drawn = real[~np.isnan(real)], synthetic[~np.isnan(synthetic)]
    different = np.unique(known)
    # Steps of dates are those of a calendar.
    step = None if column.kind.temporal else grain(real)
    result: dict[str, Any] = {
        "spikes": spikes,
        "grain": None if step is None else {"step": step, "kept": kept(synthetic, step)},
        "distinct": None
        if not 0 < len(different) <= FEW or not len(drawn)
        else {"real": len(different), "kept": float(np.isin(drawn, different).mean())},
        "outside": float(((drawn < known.min()) | (drawn > known.max())).mean()) if len(known) and len(drawn) else 0.0,
        "calendar": calendar.compared(column, real, synthetic) if column.kind.temporal else [],
    }
    return {**result, "broken": list(_broken(column, result))}


def _broken(column: Column, found: dict[str, Any]) -> list[str]:
    """Say what is not as people know it: a grain, a set of values, single values, a range."""
    said = []
    if found["grain"] and found["grain"]["kept"] < 1 - BROKEN:
        step = number(found["grain"]["step"])
        said.append(f"real values are multiples of {step}, {percent(1 - found['grain']['kept'])} of the released not")
    elif found["distinct"] and found["distinct"]["kept"] < 1 - BROKEN:
        lost = 1 - found["distinct"]["kept"]
        said.append(f"{percent(lost)} of the released values are none of the {found['distinct']['real']} real ones")
    # Where the grain is lost so is every single value: then only those are told of that most would miss.
    least = MISSED if said else BROKEN
    off = [spike for spike in found["spikes"] if abs(spike["real"] - spike["synthetic"]) > least]
    off.sort(key=lambda spike: -abs(spike["real"] - spike["synthetic"]))
    said += [
        f"{_shown(column, spike['value'])} is {percent(spike['real'])} of the real rows and"
        f" {percent(spike['synthetic'])} of the released ones"
        + (f" (and {len(off) - TOLD} more values)" if index == TOLD - 1 and len(off) > TOLD else "")
        for index, spike in enumerate(off[:TOLD])
    ]
    if found["outside"] > BEYOND:
        said.append(f"{percent(found['outside'])} of the released values lie beyond the real range")
    return [*said, *calendar.broken(found["calendar"])]


def _shown(column: Column, value: float) -> str:
    if column.kind.temporal:
        return "one date"
    return f"{value:.10g}"


def picture(column: Column, real: NDArray[Any], synthetic: NDArray[Any]) -> list[dict[str, Any]]:
    """Return bars for a picture of a column: a label, and the shares of real and of synthetic rows.

    Numbers are in ranges of equal width between the ends of nearly all; single values far out, and missing ones, have
    bars of their own. Of categories the commonest are shown.
    """
    if not column.kind.numeric:
        return _category_bars(column, real, synthetic)
    pooled = np.concatenate([real, synthetic])
    pooled = pooled[~np.isnan(pooled)]
    if not len(pooled):
        return [_bar("missing", real, synthetic, np.isnan(real), np.isnan(synthetic))]
    far = [value for value, *_ in common_values(real, synthetic)]
    low, high = _middle(pooled, far)
    edges = np.linspace(low, high, PICTURE_BINS + 1)
    if column.kind is Kind.INTEGER:
        # As many whole numbers in each range, or some would look twice as common.
        step = max(math.ceil((high - low + 1) / PICTURE_BINS), 1)
        edges = np.arange(math.floor(low), math.floor(high) + step + 1, step, dtype=np.float64)
    single = [value for value in far if not low <= value <= high]
    # Numbers of ranges, those beyond the ends in the last ones; -1 for what has a bar of its own.
    left, right = (
        np.where(np.isnan(values) | np.isin(values, single), -1, np.searchsorted(edges[1:-1], values, side="right"))
        for values in (real, synthetic)
    )
    bars = [
        _bar(f"{number(start)} to {number(end)}", real, synthetic, left == index, right == index)
        for index, (start, end) in enumerate(pairwise(edges.tolist()))
    ]
    bars += [_bar(f"{value:.10g}", real, synthetic, real == value, synthetic == value) for value in sorted(single)]
    if np.isnan(real).any() or np.isnan(synthetic).any():
        bars.append(_bar("missing", real, synthetic, np.isnan(real), np.isnan(synthetic)))
    return bars


def _middle(values: Floats, spikes: Sequence[float]) -> tuple[float, float]:
    """Return between which ends nearly all values lie, leaving out common ones that are far from the others."""
    rest = values[~np.isin(values, spikes)]
    base = rest if len(rest) > 0.02 * len(values) else values
    low, high = (float(end) for end in np.quantile(base, [0.005, 0.995]))
    room = max(high - low, 1e-12 * max(abs(low), 1.0))
    near = [spike for spike in spikes if low - room <= spike <= high + room]
    low, high = min([low, *near]), max([high, *near])
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _category_bars(column: Column, real: NDArray[Any], synthetic: NDArray[Any]) -> list[dict[str, Any]]:
    codes, counts = np.unique(np.concatenate([real, synthetic]), return_counts=True)
    shown = codes[np.argsort(-counts, kind="stable")][:PICTURE_BINS]
    names = (*column.categories, "other")
    bars = [
        _bar(
            "missing" if code < 0 else names[min(int(code), len(names) - 1)],
            real,
            synthetic,
            real == code,
            synthetic == code,
        )
        for code in sorted(shown.tolist(), key=lambda code: (code < 0, code))
    ]
    rest = [~np.isin(values, shown) for values in (real, synthetic)]
    return [*bars, _bar("all others", real, synthetic, *rest)] if len(codes) > len(shown) else bars


def _bar(
    label: str, real: NDArray[Any], synthetic: NDArray[Any], left: NDArray[np.bool_], right: NDArray[np.bool_]
) -> dict[str, Any]:
    return {
        "label": label,
        "real": round(float(left.sum() / max(len(real), 1)), 6),
        "synthetic": round(float(right.sum() / max(len(synthetic), 1)), 6),
    }
