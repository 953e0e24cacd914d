"""What became of the categories that few training rows have."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from threea.evaluate import intervals
from threea.evaluate.evidence import numbers
from threea.evaluate.fidelity import jackknife
from threea.table.schema import Schema

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

BELOW = 0.01
INTERVAL = {
    # Leaving rows out seldom makes a category vanish: a jackknife would be certain of what it cannot know.
    "coverage": f"Clopper-Pearson over the categories, level {jackknife.LEVEL:.0%}",
    "mass": f"{jackknife.INTERVAL['method']}, level {jackknife.LEVEL:.0%}",
}


def rare_categories(
    tables: Mapping[str, pa.Table], schema: Schema, seed: int, units: Mapping[str, Integers] = MappingProxyType({})
) -> dict[str, Any]:
    """Compare the rare categories of the training rows with those of other tables.

    Args:
        tables: The table ``train``, and others.
        schema: What they hold.
        seed: Makes it repeatable.
        units: Whose each row is, of tables where people have several.

    Returns:
        ``below`` (the share of training rows under which a category is rare), ``categories`` (how many there are),
        ``interval`` (how intervals were made) and per other table ``coverage`` (the share of these categories that
        appear in it at all) and ``mass`` (their share of its rows, divided by that in the training rows), or None if no
        category is rare.
    """
    listed = [column for column in schema.valued if column.kind.listed]
    coded = dict(zip(tables, numbers(list(tables.values()), listed), strict=True))
    sizes = [
        int(max(np.nan_to_num(values[:, index], nan=-1.0).max() for values in coded.values())) + 1
        for index in range(len(listed))
    ]
    groups = {name: jackknife.groups(table.num_rows, seed, units.get(name)) for name, table in tables.items()}
    counts = {name: _by_group(values, sizes, groups[name]) for name, values in coded.items()}
    total = counts["train"].sum(axis=0)
    rare = (total > 0) & (total < BELOW * tables["train"].num_rows)
    rows = {name: _left(np.bincount(group, minlength=jackknife.GROUPS)) for name, group in groups.items()}
    result: dict[str, Any] = {"below": BELOW, "categories": int(rare.sum()), "interval": INTERVAL}
    for name in tables:
        if name != "train":
            left = {table: _left(counts[table][:, rare]) for table in ("train", name)}
            share = {table: left[table].sum(axis=1) / np.maximum(rows[table], 1) for table in left}
            result[name] = _figures(left[name], share["train"], share[name]) if rare.any() else None
    return result


def _by_group(values: Floats, sizes: list[int], groups: Integers) -> Floats:
    """Count every category of every column, within each group of rows."""
    parts = [np.zeros((jackknife.GROUPS, 0))]
    for index, size in enumerate(sizes):
        known = ~np.isnan(values[:, index])
        cells = groups[known] * size + values[known, index].astype(np.int64)
        counted = np.bincount(cells, minlength=jackknife.GROUPS * size).astype(np.float64)
        parts.append(counted.reshape(jackknife.GROUPS, size))
    return np.concatenate(parts, axis=1)


def _left(counts: NDArray[Any]) -> Floats:
    """Return the counts of all rows, then without each group."""
    total = counts.sum(axis=0)
    return np.concatenate([total[None], total - counts]).astype(np.float64)


def _figures(left: Floats, train: Floats, other: Floats) -> dict[str, Any]:
    there, categories = int((left[0] > 0).sum()), left.shape[1]
    interval = intervals.clopper_pearson(there, categories, jackknife.LEVEL)
    return {
        "coverage": {"value": there / categories, "interval": list(interval)},
        "mass": jackknife.summary(other / np.where(train > 0, train, np.nan), highest=float("inf")),
    }
