"""A public dataset as a value, and reading one from a folder."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.datasets.published import Published
from threea.errors import InputError
from threea.table.schema import Schema

Metric = Literal["auc", "accuracy"]
Loader = Callable[[Path], "Dataset"]

STAYS = ("under 3 days", "3 to 6 days", "7 to 13 days", "14 days or more")
"""Lengths of stay as classes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A table to measure on, and how it is measured.

    Args:
        name: Its short name.
        title: Its full name.
        table: The rows: features and target, nothing else.
        target: The column to predict.
        schema: What the dataset's documentation makes public; None if it gives no bounds or categories, so that they
            have to be found from the budget.
        metric: ``auc`` (one against one if there are many classes) or ``accuracy``.
        published: The ClustMix paper's row of figures, if it has one.
        stands_in_for: The dataset of the paper that it stands in for, where that one is not public.
        held_out: The share of the rows that test.
        official_test: How many of the last rows are the published test set; 0 if the split is drawn.
        fixed_delta: The delta that the paper uses; None for one in the number of training rows.
    """

    name: str
    title: str
    table: pa.Table
    target: str
    schema: Schema | None
    metric: Metric = "auc"
    published: Published | None = None
    stands_in_for: str | None = None
    held_out: float = 0.25
    official_test: int = 0
    fixed_delta: float | None = None

    @property
    def test_rows(self) -> int:
        """How many rows test."""
        return self.official_test or math.ceil(self.held_out * self.table.num_rows)

    @property
    def training_rows(self) -> int:
        """How many rows train."""
        return int(self.table.num_rows) - self.test_rows

    @property
    def delta(self) -> float:
        """The paper's delta: one in the number of training rows, unless it is fixed."""
        return self.fixed_delta or 1 / self.training_rows

    @property
    def features(self) -> int:
        """How many columns there are besides the target."""
        return int(self.table.num_columns) - 1

    @property
    def schema_origin(self) -> str:
        """Where bounds and categories come from: ``public`` or ``discovered``."""
        return "discovered" if self.schema is None else "public"

    def split(self, seed: int, held_out: float | None = None) -> tuple[pa.Table, pa.Table]:
        """Return training and test rows.

        Args:
            seed: Seeds the permutation that draws the test rows; an official split is the same for every seed.
            held_out: Another share of the rows to test on; the split is then drawn in any case.
        """
        order: NDArray[Any]
        if held_out is None and self.official_test:
            order, tested = np.arange(self.table.num_rows), self.official_test
        else:
            order = np.random.default_rng(seed).permutation(self.table.num_rows)
            tested = self.test_rows if held_out is None else math.ceil(held_out * self.table.num_rows)
        cut = len(order) - tested
        return self.table.take(np.sort(order[:cut])), self.table.take(np.sort(order[cut:]))


def existing(folder: str | PathLike[str], file: str) -> Path:
    """Return the path of a dataset's file.

    Raises:
        InputError: It is not there.
    """
    path = Path(folder) / file
    if not path.is_file():
        raise InputError(f"{path} is missing; README.md of the data folder says where {file} comes from")
    return path


def read(folder: str | PathLike[str], file: str, drop: Sequence[str] = (), keep: Sequence[str] = ()) -> pa.Table:
    """Read a Parquet file without some of its columns; long strings and notes of other libraries become plain.

    Args:
        folder: Where it is.
        file: Its name.
        drop: Columns to leave out.
        keep: Columns that must be there.

    Raises:
        InputError: The file is missing, cannot be read, or lacks a column that was named.
    """
    path = existing(folder, file)
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} cannot be read as Parquet ({type(error).__name__}); fetch it again") from None
    missing = sorted({*drop, *keep} - set(table.column_names))
    if missing:
        raise InputError(f"{path} lacks columns ({', '.join(missing)}); README.md of the data folder describes them")
    table = table.drop_columns(list(drop))
    plain = [pa.field(f.name, pa.string() if pa.types.is_large_string(f.type) else f.type) for f in table.schema]
    return table.cast(pa.schema(plain))


def as_text(table: pa.Table, *names: str) -> pa.Table:
    """Return the table with some columns, which are codes and not amounts, as text."""
    for name in names:
        table = table.set_column(table.column_names.index(name), name, table[name].cast(pa.string()))
    return table


def stay_class(days: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Return lengths of stay in days as `STAYS`: under 3, under 7, under 14, and longer.

    Example:
        >>> stay_class(pa.array([2.9, 3.0, 13.9, 14.0])).to_pylist()
        ['under 3 days', '3 to 6 days', '7 to 13 days', '14 days or more']
    """
    longer = STAYS[-1]
    for limit, name in reversed(list(zip((3, 7, 14), STAYS, strict=False))):
        longer = pc.if_else(pc.less(days, limit), name, longer)
    return longer


@cache
def public_schema(name: str) -> Schema:
    """Return the schema that a dataset's documentation makes public, as shipped with the package."""
    text = resources.files("benchmarks.datasets").joinpath("schemas", f"{name}.toml").read_text(encoding="utf-8")
    return Schema.from_toml(text)


def uniform_schema(names: Sequence[str], column: Mapping[str, Any], target: str, classes: Sequence[str]) -> Schema:
    """Return the schema of a table whose features are all alike."""
    described = {name: dict(column) for name in names}
    described[target] = {"kind": "categorical", "categories": list(classes), "nullable": False}
    return Schema.of(described, target=target)
