"""Exact replay: what every question could change by, recomputed on neighbouring tables, against what it was priced at.

A recipe is run once on a made-up table and its noisy answers are kept. Then it is run again on each neighbour, and
every draw of noise returns the answer of the first run: so the recipe asks the same questions, and beneath each lies
another exact sum. The difference of the two sums is what one unit can do to this question, to the last bit; the noise
that was charged for says what it may do. No chance is involved, so a fault is caught the first time.

For made-up tables only: it looks at exact sums.
"""

from __future__ import annotations

import math
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from threea.anonymize.chunk_sum import ChunkSum
from threea.anonymize.clipping import Norm
from threea.anonymize.door import PrivateTable
from threea.anonymize.events import Event, Gaussian, PartitionSelection, Pure, Sampled
from threea.anonymize.noise import Integers
from threea.anonymize.open_table import open_interior
from threea.anonymize.plan import Charge
from threea.anonymize.query import Rows, Stack
from threea.anonymize.spending import Unit
from threea.audit.neighbours import PERSON, RULED, SCHEMA, corners, neighbours, table
from threea.audit.recorder import Draw, Recorder, WatchedSpending
from threea.budget import Adjacency, Budget
from threea.certificate import Guarantee
from threea.errors import SettingError
from threea.framework import Recipe
from threea.ledger import Ledger

SLACK = 1e-9
"""Roundings of the ratio itself."""
_MAX_ROWS = 2
_CANDIDATES = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Under what a recipe is replayed.

    Args:
        adjacency: Which tables are neighbours.
        by_person: Whether the unit is a person of at most two rows.
        known: Whether the schema is known, or is found from the same budget.
        engine: How the rows are held: ``memory``, ``parquet`` or ``csv``.
        rich: Whether the budget is a hundred times larger, so that a recipe asks what it asks of large tables.
        rules: Whether the schema has rules, by which columns are learned otherwise or not at all.
    """

    adjacency: Adjacency = Adjacency.ADD_REMOVE
    by_person: bool = False
    known: bool = True
    engine: str = "memory"
    rich: bool = False
    rules: bool = False

    def __str__(self) -> str:
        unit = "persons" if self.by_person else "rows"
        more = ", a large budget" * self.rich + ", rules" * self.rules
        return f"{self.adjacency}, {unit}, {'schema' if self.known else 'discovery'}, {self.engine}{more}"


@dataclass(slots=True)
class Question:
    """What is known of one line of a plan: its price is 1, and so much of it one unit was seen to use.

    Args:
        line: The plan's line.
        event: What it charges.
        worst: The largest change found, as a share of what was paid for.
        where: On which neighbour.
        tightest: The largest change of any row found, neighbours of the table or not.
    """

    line: str
    event: str
    worst: float = 0.0
    where: str = ""
    tightest: float = 0.0

    def see(self, ratio: float, where: str) -> None:
        """Take in one more change."""
        if ratio > self.worst:
            self.worst, self.where = ratio, where
        self.tightest = max(self.tightest, ratio)

    @property
    def over(self) -> bool:
        """Whether one unit can change more than was paid for."""
        return self.worst > 1 + SLACK


def settings(thorough: bool = True) -> Iterator[Setting]:
    """Yield what to replay a recipe under: all of it, or the few that differ most."""
    if not thorough:
        yield Setting()
        yield Setting(rich=True)
        yield Setting(adjacency=Adjacency.REPLACE, by_person=True, known=False, engine="csv")
        return
    for adjacency in Adjacency:
        for by_person in (False, True):
            yield from (Setting(adjacency=adjacency, by_person=by_person, known=known) for known in (True, False))
    yield Setting(engine="parquet", by_person=True)
    yield from (Setting(adjacency=adjacency, rich=True) for adjacency in Adjacency)
    yield Setting(engine="csv", known=False, adjacency=Adjacency.REPLACE)
    yield from (Setting(adjacency=adjacency, rules=True) for adjacency in Adjacency)


def replay(
    recipe: Recipe,
    *,
    budget: Budget | None = None,
    among: Sequence[Setting] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Question]:
    """Replay a proven recipe on neighbouring tables.

    Guarantees:
        - What it reports of a question was computed exactly; nothing about it is left to chance.

    Args:
        recipe: What to replay.
        budget: Epsilon and delta of each run; 1 and 1e-6 by default.
        among: Under what; thoroughly by default.
        progress: Told how many settings are done, and of how many.

    Returns:
        Every line that was charged, with the worst change found.
    """
    if recipe.guarantee is not Guarantee.PROVEN:
        raise SettingError(f"{recipe.name} is not proven: it reads the rows, and no question of it has a price")
    found: dict[str, Question] = {}
    asked = budget or Budget(1.0)
    # Without a delta, no schema can be found.
    chosen = [setting for setting in (settings() if among is None else among) if setting.known or asked.delta]
    for done, setting in enumerate(chosen):
        stated = replace(asked, adjacency=setting.adjacency, epsilon=asked.epsilon * (100 if setting.rich else 1))
        with tempfile.TemporaryDirectory() as folder:
            _replay(recipe, stated, setting, Path(folder), found)
        if progress:
            progress(done + 1, len(chosen))
    return list(found.values())


def verdict(questions: Sequence[Question]) -> str:
    """Say in a line what came out."""
    over = [question.line for question in questions if question.over]
    if over:
        return f"Caught: one unit can change more than was paid for ({', '.join(over)})"
    return f"Not caught: of {len(questions)} questions, none changes by more than its price on any neighbour tried"


def _replay(recipe: Recipe, budget: Budget, setting: Setting, folder: Path, found: dict[str, Question]) -> None:
    base = table()
    first, unheard = _run(recipe, budget, setting, base, folder / "base")
    for draw in first:
        found.setdefault(draw.line, Question(draw.line, type(draw.event).__name__))
    for line in unheard:
        found.setdefault(line, Question(line, "")).see(math.inf, f"answered without noise of its own ({setting})")
    for number, neighbour in enumerate(neighbours(base, setting.adjacency, by_person=setting.by_person)):
        draws, _ = _run(recipe, budget, setting, neighbour.rows, folder / str(number), first)
        where = f"{neighbour.name} ({setting})"
        for line, ratio in changes(first, draws, setting).items():
            found.setdefault(line, Question(line, "")).see(ratio, where)
    if setting.known and not setting.by_person and not setting.rules and setting.engine == "memory":
        for line, ratio in tightness(recipe, budget, base, first).items():
            found[line].tightest = max(found[line].tightest, ratio)


def _run(
    recipe: Recipe, budget: Budget, setting: Setting, rows: pa.Table, path: Path, first: Sequence[Draw] = ()
) -> tuple[list[Draw], list[str]]:
    """Run a recipe once; return its draws of noise, and the lines that were asked without one."""
    unit = Unit(PERSON, _MAX_ROWS) if setting.by_person else Unit()
    described = RULED if setting.rules else SCHEMA
    options: dict[str, Any] = {"schema": described} if setting.known else {"target": SCHEMA.target}
    spending = _spending(budget)
    recorder = Recorder(spending, first)
    interior = open_interior(_held(rows, setting.engine, path), budget=budget, unit=unit, noise=recorder, **options)
    recipe.run(PrivateTable(replace(interior, spending=spending)))
    heard = {draw.charge for draw in recorder.draws}
    # Values that nobody listed get noise only where some are known.
    unheard = [
        charge.name
        for number, charge in enumerate(spending.presented)
        if number not in heard and not isinstance(charge.event, PartitionSelection)
    ]
    return recorder.draws, unheard


def _spending(budget: Budget) -> WatchedSpending:
    ledger = Ledger()
    ledger.register("rows", lambda key: "rows")
    return WatchedSpending(budget, ledger, "rows")


def _held(rows: pa.Table, engine: str, path: Path) -> Any:
    if engine == "memory":
        return rows
    target = path.with_suffix(f".{engine}")
    if engine == "csv":
        import pyarrow.csv

        pyarrow.csv.write_csv(rows, target)
    else:
        import pyarrow.parquet

        pyarrow.parquet.write_table(rows, target)
    return target


def changes(first: Sequence[Draw], second: Sequence[Draw], setting: Setting) -> Mapping[str, float]:
    """Return for each line by how much of its price the exact numbers beneath its noise differ, at worst.

    A question that is asked on one table and not on the other, or is of another size or scale there, differs without
    bound: what was asked must follow from answers alone.
    """
    worst: dict[str, float] = defaultdict(float)
    parts: dict[tuple[int, str, Event], list[tuple[Draw, Draw]]] = defaultdict(list)
    for one, other in zip(first, second, strict=False):
        if (one.charge, one.line, one.event, one.kind, one.scale) != (
            other.charge, other.line, other.event, other.kind, other.scale,
        ) or (one.kind != "counts" and one.exact.shape != other.exact.shape):  # fmt: skip
            worst[one.line] = math.inf
            return worst
        parts[one.charge, one.line, one.event].append((one, other))
    for draw in (*first[len(second) :], *second[len(first) :]):
        worst[draw.line] = math.inf
    for (_, line, event), pairs in parts.items():
        worst[line] = max(worst[line], _ratio(event, pairs, setting))
    return worst


def _ratio(event: Event, pairs: Sequence[tuple[Draw, Draw]], setting: Setting) -> float:
    """Return by how much of one charge all that was drawn for it differs."""
    if isinstance(event, Pure):
        return math.fsum(_pure(event, one, other) for one, other in pairs)
    assert isinstance(event, Gaussian | Sampled | PartitionSelection)
    # Under replace a sample's accountant knows the pair; one unit's bound may be left and another's reached.
    apart = 2.0 if isinstance(event, Sampled) and setting.adjacency is Adjacency.REPLACE else 1.0
    squares, hidden = 0.0, 0.0
    for one, other in pairs:
        if one.kind == "counts":
            differences, unseen = _aligned(one, other, len(pairs), setting)
            hidden = max(hidden, unseen)
        elif one.kind == "exponential":
            squares += (_chosen(one, other) * event.noise_multiplier) ** 2
            continue
        else:
            differences = (one.exact - other.exact).astype(np.float64)
        squares += float((differences**2).sum()) * (event.noise_multiplier / one.scale / apart) ** 2
    return max(math.sqrt(squares), hidden)


def _pure(event: Pure, one: Draw, other: Draw) -> float:
    differences = np.abs((one.exact - other.exact).astype(np.float64))
    if one.kind == "choose":
        return float(differences.max(initial=0.0)) * 2 / (one.scale * event.epsilon)
    return float(differences.sum()) / (one.scale * event.epsilon)


def _chosen(one: Draw, other: Draw) -> float:
    """Return the mu of telling two choices by the exponential mechanism apart, at worst."""
    losses = 2 * float(np.abs(one.exact - other.exact).max(initial=0)) / one.scale
    return 2 * NormalDist().inv_cdf(1 / (1 + math.exp(-losses / 2)))


def _aligned(one: Draw, other: Draw, columns: int, setting: Setting) -> tuple[NDArray[np.float64], float]:
    """Compare counts of the values that both tables know; of the others, say how near they come to twice the bound.

    A value that only one table knows is held by so few on the other that it was dropped there unseen. So it may have
    at most a unit's rows more than those on this one, which the threshold is made for
    (docs/proofs/partition-selection.md).
    """
    left, right = dict(zip(one.values, one.exact, strict=True)), dict(zip(other.values, other.exact, strict=True))
    both = sorted(left.keys() & right.keys())
    alone = [int(left.get(value, 0) + right.get(value, 0)) for value in left.keys() ^ right.keys()]
    bound = _MAX_ROWS if setting.by_person else 1
    replaced = setting.adjacency is Adjacency.REPLACE
    assert isinstance(one.event, PartitionSelection)
    spread = math.sqrt(columns) * bound * (math.sqrt(2) if replaced else 1.0)
    step = one.event.noise_multiplier * spread / one.scale
    differences = np.array([float(left[value]) - float(right[value]) for value in both])
    return differences, max(alone, default=0) * step / (2 * bound)


class _Sums:
    """An engine that only sums, and keeps the functions it was sent."""

    def __init__(self, rows: pa.Table, spending: WatchedSpending) -> None:
        self._rows, self._spending, self.layout = rows, spending, rows.schema
        self.sent: list[tuple[Charge, ChunkSum]] = []

    def sum(self, function: Any, columns: Sequence[str]) -> Integers:
        """Add up one batch."""
        if isinstance(function, ChunkSum) and self._spending.presented:
            self.sent.append((self._spending.presented[-1], function))
        total: Integers = function(self._rows.combine_chunks().to_batches()[0])
        return total


def tightness(recipe: Recipe, budget: Budget, base: pa.Table, first: Sequence[Draw]) -> Mapping[str, float]:
    """Return for each line how much of its price some row, or pair of rows, uses: prices must not be too high."""
    spending = _spending(budget)
    engine = _Sums(base, spending)
    interior = open_interior(engine, budget=budget, schema=SCHEMA, noise=Recorder(spending, first))
    recipe.run(PrivateTable(replace(interior, spending=spending)))
    tight: dict[str, float] = defaultdict(float)
    alone: dict[int, list[Rows]] = {}
    seen = set[tuple[str, int]]()
    for charge, function in engine.sent:
        if function.step == 1.0 and isinstance(function.query, Stack):
            continue  # quality scores: the neighbours themselves reach their price
        if (charge.name, id(function.query)) not in seen:
            seen.add((charge.name, id(function.query)))
            if id(function.schema) not in alone:
                alone[id(function.schema)] = list(map(function.encoded, corners(_CANDIDATES).to_batches(1)))
            candidates = alone[id(function.schema)]
            tight[charge.name] = max(tight[charge.name], _reached(function, charge.event, candidates, budget))
    return tight


def _reached(function: ChunkSum, event: Event, candidates: Sequence[Rows], budget: Budget) -> float:
    sums = (function.over(lambda row=row: row) for row in candidates)  # type: ignore[misc]
    rows = np.array([function.checked(total) for total in sums]).astype(np.float64)
    order = 1 if function.norm is Norm.L1 else 2
    bound = function.norm.bound(function.query) / function.step
    if budget.adjacency is Adjacency.ADD_REMOVE or isinstance(event, Sampled):
        return float(np.linalg.norm(rows, order, axis=1).max()) / bound
    longest = rows[np.argsort(-np.linalg.norm(rows, order, axis=1))[:40]]
    apart = 2.0 if order == 1 or not function.query.nonnegative else math.sqrt(2)
    return max(float(np.linalg.norm(longest - row, order, axis=1).max()) for row in longest) / (apart * bound)
