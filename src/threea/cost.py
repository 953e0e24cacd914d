"""What a release will take in processor time and memory, predicted from public facts before anything is spent.

A recipe's work is a sum of terms, each a product of numbers that the schema gives: features, classes, cells. How many
seconds and bytes a unit of each term takes was measured on tables of many shapes (benchmarks/times.py). Rows are never
counted: a file's size stands for them, in what is shown to the owner and in nothing else.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa

from threea.anonymize.plan import Plan
from threea.drawing import CHUNK_ROWS, least_rows
from threea.errors import SettingError
from threea.limited import available_memory
from threea.recipes import RECIPES
from threea.table.dialect import EXCEL
from threea.table.schema import Column, Origin, Schema
from threea.threads import processors

Training = Callable[[int], float]
"""How many multiplications networks take to train, by how many numbers a row is."""
MOST_SECONDS = 2 * 3600.0
"""A release that would take longer is refused; chosen."""
_TO_BE_FOUND = 20
"""How many categories a column is taken to have that are yet to be found; chosen."""
_GRAPHS = ("mst", "aim")
_MODEL_SIZE, _MODEL_SECONDS, _MODEL_COPIES = 8.0, 10.0, 8
"""Of `aim`: its tables in MB by default, what a MB more takes at most, and how often they are held at once."""
_COMPILING, _MULTIPLICATION, _ROW_BYTE, _NETWORK_BYTES = 10.0, 4.5e-11, 1e-06, 5e08
"""Of networks: seconds before the first step, for a multiplication and for a byte of the table; and memory:
measured as benchmarks/network_times.py does."""
_SCORING, _SCORING_FEATURE = 4.0, 0.4
"""Seconds that a score takes, and for each feature: three releases of Adult and Phishing, 14 and 30 features, with and
without one, took 5 to 8 more."""
_FINE_BINS, _PAIR_CELLS, _ALL_PAIR_CELLS, _TAUGHT_ROWS, _TAUGHT_NUMBERS = 256, 32, 1 << 24, 20_000, 1 << 24
"""As `feature`, `label_tree` and `teacher` have them unset."""

_MEASURED: Mapping[str, Mapping[str, Mapping[str, float]]] = json.loads(
    Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
)
"""What a unit of each term takes, by recipe: written by benchmarks/times.py."""
SECONDS = {recipe: parts["seconds"] for recipe, parts in _MEASURED.items()}
"""Of processor time."""
BYTES = {recipe: parts["bytes"] for recipe, parts in _MEASURED.items()}
"""At the peak."""

ONE_PASS = frozenset({("labeltree", "tree edges"), ("mst", "choices of tables")})
"""Lines of plans whose many private choices share one pass: the scores do not change between them."""


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

    def with_score(self, features: int) -> Cost:
        """Return it with what training a model on the synthetic rows, and scoring the private ones, takes.

        Example:
            >>> Cost(seconds=1.0, reading=0.0, bytes=0.0).with_score(features=10).seconds
            9.0
        """
        return replace(self, seconds=self.seconds + _SCORING + _SCORING_FEATURE * features)

    def refuse_unreasonable(self, recipe: str, memory: float | None = None, instead: Cost | None = None) -> None:
        """Refuse a release that would take too long, or more memory than is left. The rows have no say in it.

        Args:
            recipe: Its recipe.
            memory: How much may be taken; by default what the machine, and its control groups, have left.
            instead: What `independent` would take.

        Raises:
            SettingError: It would.
        """
        memory = available_memory() if memory is None else memory
        if self.seconds <= MOST_SECONDS and self.bytes <= memory:
            return
        most = f"{_duration(MOST_SECONDS)} and {memory / 1e9:.1f} GB"
        takes = f"about {self.seconds / 3600:.2g} hours and {self.bytes / 1e9:.1f} GB of memory"
        fits = instead is not None and instead.seconds <= MOST_SECONDS and instead.bytes <= memory
        other = "take --recipe independent, which fits" if fits and recipe != "independent" else "fewer columns"
        remedy = f"list fewer categories and set open_ended = true, or {other}"
        raise SettingError(f"{recipe} would take {takes}, which is more than {most}; {remedy}")


def affordable(recipe: Any, schema: Schema, data: Any, *, score: bool = False) -> Cost | None:
    """Return what a release by a recipe, and a score if asked for, takes; nothing if it was never measured.

    Raises:
        SettingError: It would take too long, or more memory than is left.
    """
    larger, training = getattr(recipe, "max_model_size", 0.0), getattr(recipe, "training", None)
    cost = cost_of(recipe.name, schema, data, larger, training)
    if cost is not None:
        cost = cost.with_score(len(schema.features)) if score else cost
        cost.refuse_unreasonable(recipe.name, instead=cost_of("independent", schema, data))
    return cost


def cost_of(
    recipe: str, schema: Schema, data: Any = None, model_size: float = 0.0, training: Training | None = None
) -> Cost | None:
    """Return what a recipe takes on tables of a schema; nothing if it was never measured.

    Args:
        recipe: Its name.
        schema: The public description of the tables.
        data: A file, a folder or a table.
        model_size: Of the recipe's tables at most, in MB, where that is set.
        training: Multiplications that its networks take, given how many numbers a row is; None without networks.
    """
    found = schema.origin is not Origin.TYPES
    if training is not None:
        multiplied = training(sum(map(_numbers, schema.features)))
        return Cost(_COMPILING + _MULTIPLICATION * multiplied, _ROW_BYTE * size_of(data), _NETWORK_BYTES, found)
    if recipe not in SECONDS:
        return None
    units = terms(recipe, schema)
    seconds = sum(SECONDS[recipe][name] * count for name, count in units.items())
    memory = sum(BYTES[recipe][name] * count for name, count in units.items())
    reading = SECONDS[recipe]["data"] * passes(recipe, schema) * size_of(data)
    larger = max(model_size - _MODEL_SIZE, 0.0)
    seconds, memory = seconds + _MODEL_SECONDS * larger, memory + _MODEL_COPIES * larger * 2**20
    return Cost(seconds, reading, memory, found)


@dataclass(frozen=True, slots=True)
class Reading:
    """How much of a table's files a release reads at most, by their metadata.

    Args:
        passes: How often rows are read, to open the table and for each question; some engines keep what they know.
        bytes: Read from the files in all of them.
        seconds: About how long it takes on so many workers, everything included; None if that was never measured.
        workers: Who read side by side.
    """

    passes: int
    bytes: int
    seconds: float | None
    workers: int

    @property
    def described(self) -> str:
        """In words, for the receipt.

        Example:
            >>> Reading(passes=10, bytes=3_200_000_000, seconds=200.0, workers=2).described
            'It makes at most 10 passes over the rows: 3.2 GB read, about 4 minutes on 2 workers.'
        """
        size = f"{self.bytes / 1e9:.1f} GB" if self.bytes >= 1e9 else f"{max(self.bytes / 1e6, 0.1):.1f} MB"
        time = "" if self.seconds is None else f", {_duration(self.seconds)}"
        crew = "1 worker" if self.workers == 1 else f"{self.workers} workers"
        return f"It makes at most {self.passes:,} passes over the rows: {size} read{time} on {crew}."


def reading_of(
    plan: Plan, recipe: str, data: Any, cost: Cost | None, *, unit: str | None, ledger: bool, workers: int
) -> Reading | None:
    """Return what a release reads at most of its files; None if the table is in none.

    Args:
        plan: What it will ask.
        recipe: Its recipe's name.
        data: A file or a folder.
        cost: What the recipe takes.
        unit: The column that names a person, if one does.
        ledger: Whether a ledger knows the rows again.
        workers: Who read side by side.
    """
    # A sheet is read once, into memory.
    if not isinstance(data, str | PathLike) or Path(data).suffix.lower() in EXCEL:
        return None
    # Opening reads whole rows: to the end once, for a fingerprint once, and for hashes of units and of rows.
    opening = 1 + ledger + 2 * (unit is not None)
    asked = sum(1 if (recipe, line.name) in ONE_PASS else line.count for line in plan.lines)
    seconds = None if cost is None else cost.seconds + cost.reading / workers
    size = size_of(data)
    return Reading(opening + asked, opening * size + asked * (size - _bytes_of(data, unit)), seconds, workers)


def _bytes_of(data: str | PathLike[str], column: str | None) -> int:
    """Return how many bytes of some Parquet files are a column's, by their footers."""
    import pyarrow.parquet

    path = Path(data)
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    if column is None or any(file.suffix.lower() not in (".parquet", ".pq") for file in files):
        return 0
    footers = [pyarrow.parquet.read_metadata(file) for file in files]
    chunks = (
        footer.row_group(group).column(number)
        for footer in footers
        for group in range(footer.num_row_groups)
        for number in range(footer.num_columns)
    )
    return sum(chunk.total_compressed_size for chunk in chunks if chunk.path_in_schema == column)


def terms(recipe: str, schema: Schema, threads: int | None = None) -> dict[str, float]:
    """Return how much there is of each term of a recipe's work.

    Args:
        recipe: Its name.
        schema: The public description of the tables.
        threads: How many chunks of rows are drawn at once; as many as there are processors by default.
    """
    columns, side_by_side = len(schema.modelled), threads or processors()
    rows = least_rows(len(schema.columns))
    chunk = side_by_side * min(CHUNK_ROWS, rows)
    drawn: dict[str, float] = {"start": 1, "columns": columns, "values": rows * columns, "chunk": chunk * columns}
    if recipe == "privbayes":
        return drawn | _network_terms(schema)
    bins = getattr(RECIPES[recipe], "bins", _FINE_BINS)
    classes, features = _classes(schema, bins), len(schema.features)
    cells = sum(_cells(column, bins) for column in schema.features)
    if recipe in _GRAPHS:
        return drawn | _graph_terms(recipe, schema, bins)
    counted: dict[str, float] = drawn | {"cells": classes * cells}
    if recipe == "independent":
        return counted
    if recipe == "labeltree":
        return counted | {"labels": classes**2} | _tree_terms(classes, features, cells, chunk)
    if recipe == "gaussians":
        numbers = sum(column.kind.numeric for column in schema.features)
        # Second moments of a few coefficients in each class, or in all; the transform; and every column's score.
        products = min(classes, 16) * min(numbers, 160) ** 2
        return counted | {"products": products, "wide": numbers**2, "drawn": chunk * numbers}
    units = counted | {"labels": classes**2}
    if recipe in ("mcgen", "noifs", "rongauss"):
        # Products of pairs of columns: of all rows once, and of every class, as far as there is room for them.
        from threea.approximate.multilevel import MOST_NUMBERS

        width = min(features, getattr(RECIPES[recipe], "dimensions", features))
        units["products"] = width**2 / 2 + min(classes * width**2 / 2, MOST_NUMBERS)
    return units


def _graph_terms(recipe: str, schema: Schema, bins: int) -> dict[str, float]:
    """Return what a graphical model does: it looks at all pairs of merged cells, again and again if it is adaptive."""
    sizes = [_cells(column, bins) for column in schema.modelled]
    columns, pairs = len(sizes), max(math.comb(len(sizes), 2), 1)
    merged = [min(size, math.sqrt(_ALL_PAIR_CELLS / pairs)) for size in sizes]
    looked_at = (sum(merged) ** 2 - sum(size**2 for size in merged)) / 2
    found = {"cells": sum(sizes), "pairs": looked_at}
    if recipe == "mst":
        return {**found, "choices": columns**3}
    return {**found, "rounds": columns * looked_at, "sizes": columns**4}


def _tree_terms(classes: int, features: int, cells: float, chunk: int) -> dict[str, float]:
    """Return what a tree and its teacher do: both work with the merged cells of pairs of features, class by class.

    The teacher has a score of each class for every row, and a Hessian for each but of two; it learns from some rows.
    """
    pairs = max(features * (features - 1) / 2, 1)
    merged = min(_PAIR_CELLS, math.sqrt(_ALL_PAIR_CELLS / (classes * pairs)), cells / max(features, 1))
    width = min(_PAIR_CELLS * features, cells)
    logits = classes if classes > 2 else classes - 1
    learned_from = min(_TAUGHT_ROWS, _TAUGHT_NUMBERS / max(width, 1))
    return {
        "pairs": classes * pairs * merged**2,
        "choices": features**3,
        "labelled": chunk * logits,
        "hessians": logits * width**2,
        "learned": logits * learned_from * width**2,
        "scored": logits * learned_from,
    }


def _network_terms(schema: Schema) -> dict[str, float]:
    """Return what a network does: it counts columns, and compares AP pairs, whose tables are bounded."""
    from threea.approximate.bayes_net import BINS

    cells = sum(_cells(column, BINS) for column in schema.modelled)
    return {"cells": cells, "pairs": sum(_compared(len(schema.modelled)))}


def _compared(columns: int) -> list[int]:
    """Return how many AP pairs there are in each step, at most: the target is a parent, and up to two more are."""
    from threea.approximate.ap_pairs import MOST_CANDIDATES
    from threea.recipes import PrivBayes

    sets = (sum(math.comb(added - 1, more) for more in range(PrivBayes.degree)) for added in range(1, columns))
    return [min((columns - added) * count, MOST_CANDIDATES) for added, count in enumerate(sets, start=1)]


def passes(recipe: str, schema: Schema) -> int:
    """Return how often, in effect, a recipe reads a table's bytes: some look at pairs of columns, or in rounds."""
    columns = max(len(schema.features), 1)
    if recipe == "privbayes":
        return max(sum(_compared(columns + 1)) // columns, 1)
    return {"labeltree": columns, "mst": columns, "aim": columns**2}.get(recipe, 1)


def _classes(schema: Schema, bins: int) -> int:
    if schema.target is None:
        return 1
    target = schema[schema.target]
    if target.kind.numeric:
        from threea.approximate.label_counts import RANGES

        return min(RANGES, bins) if bins == _FINE_BINS else bins
    return _cells(target, bins)


def _cells(column: Column, bins: int) -> int:
    if column.kind.numeric:
        return min(len(column.edges) or bins, _FINE_BINS) + len(column.special)
    return len(column.categories) + column.open_ended if column.categories else _TO_BE_FOUND


def _numbers(column: Column) -> int:
    """Return how many numbers of a network's input a column is."""
    return 2 + len(column.special) if column.kind.numeric else _cells(column, 1) + column.nullable


def size_of(data: Any) -> int:
    """Return how many bytes a file, a folder or an Arrow table has; 0 if that is not known."""
    if not isinstance(data, str | PathLike):
        # Others may work it out by reading their rows, or not know it.
        return data.nbytes if isinstance(data, pa.Table | pa.RecordBatch) else 0
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
