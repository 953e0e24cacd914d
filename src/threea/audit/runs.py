"""Running a recipe thousands of times on crafted tables: over all cores, and from where it stopped."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import secrets
import signal
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from os import PathLike
from pathlib import Path

import numpy as np

import threea
from threea.anonymize.cache import Cache
from threea.anonymize.interior import Interior
from threea.anonymize.open_table import open_interior
from threea.anonymize.spending import Spending
from threea.audit.answers import AuditedTable, Sides, Tape
from threea.audit.pairs import SCHEMA, Pair
from threea.audit.statistics import Run, counts
from threea.backends import open_backend
from threea.budget import Budget
from threea.drawing import SAME
from threea.errors import BudgetRefused, SettingError, UserError
from threea.framework import Recipe
from threea.ledger import Ledger

Progress = Callable[[int, int], None]
"""Called with the number of runs done, and of runs in all."""

_BATCH = 25
_MOST_DRAWN = 1_000
"""Rows drawn in a run, at most: drawing tells nothing of the private rows that answers did not."""
_START = b'{"audit": "'


@cache
def source() -> str:
    """Return a hash of the library's source that makes releases: runs of one version may still come from two."""
    home = Path(threea.__file__).parent
    apart = {home / "audit", home / "evaluate", home / "report"}
    files = sorted(path for path in home.rglob("*.py") if not apart & set(path.parents))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Batch:
    """Some runs of a recipe on one side of a pair."""

    recipe: Recipe
    budget: Budget
    pair: Pair
    side: int
    numbers: tuple[int, ...]

    @property
    def key(self) -> str:
        """What the runs depend on, but for chance: runs with the same key may stand side by side."""
        kind = type(self.recipe)
        # The source, too: runs of a recipe before and after it was mended are not of one kind.
        parts = (threea.__version__, source(), kind.__module__, kind.__qualname__, self.recipe, self.budget, self.pair)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def run(self) -> list[Run]:
        """Make the runs: real noise, each with a spending of its own."""
        tables = self.pair.tables(self.budget.adjacency)
        left, right = (open_backend(table)[0] for table in tables)
        sides = Sides((left, right))
        opened = open_interior(tables[self.side], budget=self.budget, schema=SCHEMA, accept_unproven=True)
        with Ledger() as ledger:
            return [self._run(number, opened, sides, ledger) for number in self.numbers]

    def _run(self, number: int, opened: Interior, sides: Sides, ledger: Ledger) -> Run:
        name = f"run {number}"
        ledger.register(name, lambda key: name)
        tape = Tape()
        spending = Spending(self.budget, ledger, name)
        own = replace(opened, spending=spending, key=secrets.token_bytes(32), cache=Cache())
        table = AuditedTable(own, sides, tape)
        failed, synthetic = "", None
        try:
            release = self.recipe.run(table, rows=None if self.recipe.fixed else SAME, seed=self._seed(number))
            few = release if self.recipe.fixed else replace(release, rows=min(release.rows, _MOST_DRAWN))
            synthetic = few.table
        except (UserError, BudgetRefused):
            raise
        except Exception as error:
            # A recipe that fails on one table and not on the other has told them apart.
            failed = type(error).__name__
        return Run(
            pair=self.pair.name,
            side=self.side,
            number=number,
            gaussian=tape.gaussian,
            failed=failed,
            white=(tape.ratio, float(tape.numbers)),
            black=counts(synthetic, self.pair) if synthetic is not None else (),
        )

    def _seed(self, number: int) -> int:
        """Return a seed for sampling, another for every run."""
        entropy = [zlib.crc32(self.pair.name.encode()), self.side, number]
        return int(np.random.SeedSequence(entropy).generate_state(1)[0])


def collect(
    recipe: Recipe,
    budget: Budget,
    pairs: Sequence[Pair],
    trials: int,
    *,
    workers: int = 1,
    record: str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> dict[str, tuple[list[Run], list[Run]]]:
    """Run a recipe so many times on each side of each pair.

    Guarantees:
        - With a record, nothing done is done again: what was written before is read, a torn last line left out.

    Args:
        recipe: What to run.
        budget: What each run may spend.
        pairs: What to run it on.
        trials: How many runs on each side.
        workers: How many processes share the work. With more than one, a script must start from a guarded main.
        record: A file of JSON lines, one per run; made if it is not there, else added to.
        progress: Told how many runs are done.

    Returns:
        For each pair the runs without and with its target, in order.

    Raises:
        SettingError: The record is another kind of file, or cannot be written.
    """
    wanted = [Batch(recipe, budget, pair, side, tuple(range(trials))) for pair in pairs for side in (0, 1)]
    known = {(batch.key, batch.side): _Done(batch) for batch in wanted}
    with _opened(record, known.values()) as write:
        batches = [part for done in known.values() for part in done.missing()]
        finished = sum(len(done.runs) for done in known.values())
        for batch, runs in _results(batches, workers):
            write(batch.key, runs)
            known[batch.key, batch.side].add(runs)
            finished += len(runs)
            if progress:
                progress(finished, 2 * trials * len(pairs))
    sides = {(batch.pair.name, batch.side): known[batch.key, batch.side].sorted() for batch in wanted}
    return {pair.name: (sides[pair.name, 0], sides[pair.name, 1]) for pair in pairs}


class _Done:
    """The runs made so far on one side of a pair."""

    def __init__(self, wanted: Batch) -> None:
        self.wanted = wanted
        self.runs: dict[int, Run] = {}

    def add(self, runs: Iterable[Run]) -> None:
        for run in runs:
            if run.number < len(self.wanted.numbers):
                self.runs.setdefault(run.number, run)

    def missing(self) -> Iterator[Batch]:
        numbers = [number for number in self.wanted.numbers if number not in self.runs]
        for start in range(0, len(numbers), _BATCH):
            part = tuple(numbers[start : start + _BATCH])
            yield Batch(self.wanted.recipe, self.wanted.budget, self.wanted.pair, self.wanted.side, part)

    def sorted(self) -> list[Run]:
        return [self.runs[number] for number in sorted(self.runs)]


def _results(batches: Sequence[Batch], workers: int) -> Iterator[tuple[Batch, list[Run]]]:
    if workers == 1 or len(batches) < 2:
        for batch in batches:
            yield batch, batch.run()
        return
    # Spawned, not forked: engines and noise keep threads and state that a fork would copy half.
    pool = ProcessPoolExecutor(min(workers, len(batches)), mp_context=multiprocessing.get_context("spawn"))
    try:
        with _deaf_to_interrupts():
            futures: dict[Future[list[Run]], Batch] = {pool.submit(batch.run): batch for batch in batches}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except KeyboardInterrupt:
        for worker in multiprocessing.active_children():
            worker.terminate()
        raise
    except BrokenProcessPool:
        raise SettingError(f"a worker of {workers} died, for want of memory perhaps; try fewer workers") from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Have processes that start meanwhile ignore interrupts, also while they load: who started them ends them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    usual = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    # A thread of some library may still take the signal, and Python would raise in the middle of starting a process.
    held: list[int] = []
    main = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGINT, lambda number, _: held.append(number)) if main else None
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, usual)
        if main:
            signal.signal(signal.SIGINT, handler)
    if held:
        raise KeyboardInterrupt


@contextmanager
def _opened(
    record: str | PathLike[str] | None, known: Iterable[_Done]
) -> Iterator[Callable[[str, Sequence[Run]], None]]:
    """Read what a record holds, and yield a function that adds to it."""
    if record is None:
        yield lambda key, runs: None
        return
    path = Path(record)
    try:
        end = _read(path, {(done.wanted.key, done.wanted.side): done for done in known}) if path.exists() else 0
        with path.open("ab") as file:
            file.truncate(end)

            def write(key: str, runs: Sequence[Run]) -> None:
                lines = "".join(json.dumps({"audit": key, **run.to_json()}) + "\n" for run in runs)
                file.write(lines.encode())
                file.flush()

            yield write
    except OSError as error:
        raise SettingError(f"record ({path}) cannot be used: {error.strerror}; choose another place") from None


def _read(path: Path, known: dict[tuple[str, int], _Done]) -> int:
    """Hand the runs in a record to whom they belong; return where its last whole line ends."""
    end = 0
    for line in path.read_bytes().splitlines(keepends=True):
        # Nothing but our own torn line may be cut off a file.
        if not line.endswith(b"\n") and (line.startswith(_START) or _START.startswith(line)):
            break
        try:
            data = json.loads(line)
            key, run = data.pop("audit"), Run.from_json(data)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise SettingError(f"record ({path}) holds something else than an audit's runs; choose another") from None
        if (key, run.side) in known:
            known[key, run.side].add([run])
        end += len(line)
    return end
