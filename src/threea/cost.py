"""What a release will take in processor time and memory, predicted from public facts before anything is spent.

A recipe's work is a sum of terms, each a product of numbers that the schema gives: features, classes, cells. How many
seconds and bytes a unit of each term takes was measured on tables of many shapes (benchmarks/times.py). Rows are never
counted: a file's size stands for them, in what is shown to the owner and in nothing else.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from threea.errors import SettingError
from threea.table.schema import Column, Origin, Schema

MOST_SECONDS = 2 * 3600.0
"""A release that would take longer is refused; chosen."""
_TO_BE_FOUND = 20
"""How many categories a column is taken to have that are yet to be found; chosen."""
_BINS = {"independent": 32, "gaussians": 16}
_FINE_BINS, _PAIR_CELLS, _ALL_PAIR_CELLS = 256, 32, 1 << 24
_NUMERIC_CLASSES = 12
_DIRECTIONS, _MOST_PRODUCTS = 256, 1 << 20
"""As the recipes, `label_tree`, `multilevel` and `label_counts` have them by default."""

SECONDS: Mapping[str, Mapping[str, float]] = {
    "independent": {"start": 1.47, "features": 0.0, "cells": 1.8e-05, "data": 6.86e-08},
    "labeltree": {
        "start": 3.42,
        "cells": 1.87e-05,
        "drawing": 0.0,
        "pairs": 1.79e-05,
        "choices": 8.24e-06,
        "data": 7.42e-09,
    },
    "gaussians": {"start": 1.71, "cells": 1.89e-05, "products": 5.98e-07, "data": 1.49e-07},
    "clustmix": {"start": 3.48, "features": 0.0177, "cells": 1.8e-05, "data": 3.37e-07},
    "mcgen": {"start": 1.75, "features": 0.0108, "cells": 2.89e-05, "products": 0.0, "data": 6.92e-08},
    "noifs": {"start": 1.74, "features": 0.00728, "cells": 2.5e-05, "products": 0.0, "data": 1.12e-07},
    "rongauss": {"start": 1.9, "features": 0.0124, "cells": 2.13e-05, "products": 0.0, "data": 7.37e-08},
}
"""Of processor time, for a unit of each term: benchmarks/results/times.json."""
BYTES: Mapping[str, Mapping[str, float]] = {
    "independent": {"start": 2.2e08, "features": 4.26e05, "cells": 78.7},
    "labeltree": {"start": 2.88e08, "cells": 0.0, "drawing": 16, "pairs": 161, "choices": 43.4},
    "gaussians": {"start": 2.22e08, "cells": 0.0, "products": 3.61e03},
    "clustmix": {"start": 2.64e08, "features": 1.33e06, "cells": 0.0},
    "mcgen": {"start": 230000000.0, "features": 779000.0, "cells": 172.0, "products": 0.0},
    "noifs": {"start": 242000000.0, "features": 570000.0, "cells": 145.0, "products": 496.0},
    "rongauss": {"start": 236000000.0, "features": 873000.0, "cells": 147.0, "products": 327.0},
}
"""At the peak, for a unit of each term: benchmarks/results/times.json."""


@dataclass(frozen=True, slots=True)
class Cost:
    """About what a release takes at most.

    Args:
        seconds: Of processor time, without reading the rows.
        reading: Seconds to read the rows, by the size of their file.
        bytes: Of memory at the peak.
        found: Whether nothing is left to be found that would change it.
    """

    seconds: float
    reading: float
    bytes: float
    found: bool = True

    @property
    def described(self) -> str:
        """In words, for the receipt.

        Example:
            >>> Cost(seconds=200.0, reading=10.0, bytes=3e9).described
            'about 4 minutes of processor time and 3 GB of memory at most'
        """
        memory = f" and {self.bytes / 1e9:.0f} GB of memory" if self.bytes >= 1e9 else ""
        more = "; more if many categories are found" if not self.found else ""
        return f"{_duration(self.seconds + self.reading)} of processor time{memory} at most{more}"

    def refuse_unreasonable(self, recipe: str, memory: float | None = None) -> None:
        """Refuse a release that would take too long, or more memory than there is. The rows have no say in it.

        Raises:
            SettingError: It would.
        """
        memory = _memory() if memory is None else memory
        most = f"{_duration(MOST_SECONDS)} and {memory / 1e9:.0f} GB"
        if self.seconds > MOST_SECONDS or self.bytes > memory:
            takes = f"about {self.seconds / 3600:.2g} hours and {self.bytes / 1e9:.2g} GB of memory"
            other = " or take --recipe independent" if recipe != "independent" else ""
            remedy = f"list fewer categories and set open_ended = true,{other or ' or fewer columns'}"
            raise SettingError(f"{recipe} would take {takes}, which is more than {most}; {remedy}")


def cost_of(recipe: str, schema: Schema, data: Any = None) -> Cost | None:
    """Return what a recipe takes on tables of a schema; nothing if it was never measured."""
    if recipe not in SECONDS:
        return None
    units = terms(recipe, schema)
    seconds = sum(SECONDS[recipe][name] * count for name, count in units.items())
    memory = sum(BYTES[recipe][name] * count for name, count in units.items())
    reading = SECONDS[recipe]["data"] * passes(recipe, schema) * size_of(data)
    return Cost(seconds, reading, memory, found=schema.origin is not Origin.TYPES)


def terms(recipe: str, schema: Schema) -> dict[str, float]:
    """Return how much there is of each term of a recipe's work."""
    bins = _BINS.get(recipe, _FINE_BINS)
    classes, features = _classes(schema, bins), len(schema.features)
    cells = sum(_cells(column, bins) for column in schema.features)
    if recipe == "labeltree":
        return _tree_terms(classes, features, cells)
    if recipe == "gaussians":
        numbers = sum(column.kind.numeric for column in schema.features)
        products = min(numbers, 160)
        return {"start": 1, "cells": classes * cells, "products": classes * products**2}
    units: dict[str, float] = {"start": 1, "features": features, "cells": classes * cells}
    if recipe in ("mcgen", "noifs", "rongauss"):
        # Products of pairs of columns: of all rows once, and of every class, as far as there is room for them.
        width = min(features, _DIRECTIONS) if recipe == "rongauss" else features
        units["products"] = width**2 / 2 + min(classes * width**2 / 2, _MOST_PRODUCTS)
    return units


def _tree_terms(classes: int, features: int, cells: float) -> dict[str, float]:
    """Return what a tree and its teacher do: both work with the merged cells of pairs of features, class by class."""
    pairs = max(features * (features - 1) / 2, 1)
    merged = min(_PAIR_CELLS, math.sqrt(_ALL_PAIR_CELLS / (classes * pairs)), cells / max(features, 1))
    return {
        "start": 1,
        "cells": classes * cells,
        "drawing": classes * merged * cells,
        "pairs": classes * features * merged**2,
        "choices": features**3,
    }


def passes(recipe: str, schema: Schema) -> int:
    """Return how often, in effect, a recipe goes through a table's bytes: a tree looks at every pair of columns."""
    return max(len(schema.features), 1) if recipe == "labeltree" else 1


def _classes(schema: Schema, bins: int) -> int:
    if schema.target is None:
        return 1
    target = schema[schema.target]
    if target.kind.numeric:
        return min(_NUMERIC_CLASSES, bins) if bins == _FINE_BINS else bins
    return _cells(target, bins)


def _cells(column: Column, bins: int) -> int:
    if column.kind.numeric:
        return min(len(column.edges) or bins, _FINE_BINS) + len(column.special)
    return len(column.categories) + column.open_ended if column.categories else _TO_BE_FOUND


def size_of(data: Any) -> int:
    """Return how many bytes a file, a folder or an Arrow table has; 0 if that is not known."""
    if not isinstance(data, str | PathLike):
        size = getattr(data, "nbytes", 0)
        return size if isinstance(size, int) else 0
    path = Path(data)
    files = path.rglob("*") if path.is_dir() else (path,)
    return sum(file.stat().st_size for file in files if file.is_file())


def _duration(seconds: float) -> str:
    if seconds < 5:
        return "a few seconds"
    if seconds < 90:
        return f"about {10 * math.ceil(seconds / 10)} seconds"
    if seconds < 5400:
        return f"about {math.ceil(seconds / 60)} minutes"
    return f"about {seconds / 3600:.2g} hours"


def _memory() -> float:
    """Return how much memory the machine has."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return math.inf
