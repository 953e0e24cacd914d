"""Tables on a Dask cluster: row groups of Parquet files, or partitions of a Dask DataFrame, as tasks.

Needs `dask` and `distributed` alone; a Dask DataFrame brings what else it needs.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from typing import Any

import pyarrow as pa
from numpy.typing import NDArray

import threea
from threea.backends.base import BATCH_ROWS
from threea.backends.cluster import Beyond, Sizes, Workers, merged
from threea.backends.tasks import Kept, Outcome, Task, UnitPairs, ranked_from, run
from threea.errors import InputError, MissingExtra, SettingError

Reading = Callable[[Any, Sequence[str]], pa.Table]
_BUCKET_PARTS = 4
"""So many parts' worth of units go through one task of the shuffle."""
_LOOK, _PATIENCE = 2.0, 120.0
"""Seconds between looks at whether there are workers, and without any before a pass is given up."""
_ANSWER = 10.0
"""Seconds for a cluster to answer."""
_SETTINGS = {f"distributed.worker.memory.{limit}": False for limit in ("target", "spill", "pause", "terminate")} | {
    "distributed.worker.profile.enabled": False,
    "distributed.comm.timeouts.connect": "120s",
    "distributed.scheduler.allowed-failures": 10,
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 1 << 28,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 1 << 25,
}
"""Workers that we start write no part of a table to disk, and may take their time, and be lost, on a busy machine. They
keep memory between batches: handing back every piece at once, as is the default, takes time of its own."""


def connect(cluster: Any, workers: int | None) -> tuple[Any, Callable[[], None]]:
    """Return a client of a cluster, and what closes all that was started for it.

    Args:
        cluster: A scheduler's address, a `distributed` client or cluster, or None for processes on this machine.
        workers: How many processes, where they are started here; as many as processors by default.

    Raises:
        MissingExtra: Dask is not installed.
        InputError: There is no such cluster, or it cannot run threea.
    """
    try:
        import dask
        import distributed
    except ModuleNotFoundError:
        raise MissingExtra("dask", "dask") from None
    if workers is not None and cluster is not None:
        raise SettingError(f"workers ({workers}) are the cluster's own to have; leave one of the two out")
    if isinstance(cluster, distributed.Client):
        return _usable(cluster), lambda: None
    if cluster is None:
        with dask.config.set(_SETTINGS):
            return _started(workers or os.cpu_count() or 1)
    problem = ""
    try:
        client = distributed.Client(cluster, set_as_default=False, timeout=_ANSWER)
    except (OSError, TimeoutError, ValueError) as error:
        problem = type(error).__name__
    if problem:
        raise InputError(f"cluster ({cluster}) does not answer: {problem}; check its address")
    return _usable(client), client.close


def _started(workers: int) -> tuple[Any, Callable[[], None]]:
    """Start workers on this machine, which are started again when they are lost, and a client of them."""
    import dask
    import distributed
    from tornado.ioloop import PeriodicCallback

    # On the loopback interface alone.
    local = distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        worker_dashboard_address="127.0.0.1:0",
        memory_limit=0,
        silence_logs=logging.CRITICAL,
        config=dask.config.config,
    )
    client = distributed.Client(local, set_as_default=False)
    restoring = PeriodicCallback(partial(_restore, local, workers), 1_000 * _LOOK)
    local.loop.add_callback(restoring.start)

    def close() -> None:
        local.loop.add_callback(restoring.stop)
        client.close()
        local.close()

    return _usable(client), close


def _restore(local: Any, workers: int) -> None:
    """Start workers in the place of those that are gone for good.

    Who watches over a lost worker starts it again. But its cluster looks a while after each loss whether the worker is
    there, and ends who watches over it if not: one that was lost again meanwhile, or is slow to start, never came back.
    """
    if local.status.name != "running":
        return
    for name, nanny in list(local.workers.items()):
        if nanny.status.name in ("closed", "failed"):
            del local.workers[name]
    local.scale(workers)


def _usable(client: Any) -> Any:
    """Refuse workers without threea, or with another version of it, before anything is spent."""
    # Of the standard library, so that a worker without threea can answer, too.
    found = client.run(metadata.version, "threea", on_error="return")
    if not found:
        raise InputError("the Dask cluster has no workers; start some, and try again")
    for version in found.values():
        if version != threea.__version__:
            has = "no threea" if isinstance(version, BaseException) else f"threea {version}"
            raise InputError(f"a worker of the Dask cluster has {has}; install threea {threea.__version__} there")
    return client


@dataclass(frozen=True, slots=True, repr=False)
class FramePart:
    """A partition of a Dask DataFrame, on the worker that has it.

    Args:
        number: Which partition.
        frame: Its rows.
        read: Turns columns of them into Arrow rows.
    """

    number: int
    frame: Any
    read: Reading
    stable = False

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        yield from self.read(self.frame, columns).to_batches(max_chunksize=BATCH_ROWS)


class DaskWorkers(Workers):
    """Workers of a Dask cluster.

    Args:
        client: Of the cluster.
        parts: What they read: row groups, or delayed partitions of a Dask DataFrame.
        layout: Of the table.
        read: How a partition is turned into Arrow rows; None for row groups.
        close: Closes what was started.
    """

    def __init__(
        self,
        client: Any,
        parts: Sequence[Any],
        layout: pa.Schema,
        read: Reading | None = None,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self._client, self._parts, self._layout = client, tuple(parts), layout
        self._read, self._close = read, close
        self.stable = read is None

    @property
    def parts(self) -> int:
        """How many parts there are."""
        return len(self._parts)

    def each(self, task: Task, kept: Mapping[int, Kept] | None) -> Iterator[Outcome]:
        """Do a task on every part, and hand on each answer as it comes."""
        yield from self._answers(self._submitted(task, kept or {}))

    def beyond(self, unit: str | None, max_rows: int, key: bytes) -> tuple[Beyond, Sizes]:
        """Shuffle hashes of units and rows by bucket of units; each bucket finds its units that have too many rows."""
        buckets = math.ceil(self.parts / _BUCKET_PARTS) or 1
        hashed = self._submitted(Task(UnitPairs(unit, key, buckets), tuple(self._layout.names), self._layout), {})
        submit, token = self._client.submit, uuid.uuid4().hex
        sizes = [submit(_size, future, key=f"threea-size-{token}-{n}") for n, future in enumerate(hashed)]
        found = []
        for bucket in range(buckets):
            pieces = [
                submit(_piece, future, bucket, key=f"threea-piece-{token}-{bucket}-{n}")
                for n, future in enumerate(hashed)
            ]
            found.append(submit(_beyond, pieces, max_rows, key=f"threea-beyond-{token}-{bucket}"))
        counted: dict[int, tuple[int, int]] = {}
        for outcome in self._answers(sizes):
            if outcome.problem:
                raise InputError(outcome.problem)
            counted[outcome.part] = outcome.rows, outcome.result
        return merged(self._answers(found)), counted

    def mapped(self, function: Callable[[int], bytes], numbers: Sequence[int]) -> Iterator[bytes]:
        """Call a function on some numbers, a few of them ahead, and yield the results in their order."""
        token = uuid.uuid4().hex
        sent = self._client.submit(_itself, function, key=f"threea-function-{token}")
        ahead: deque[Any] = deque()
        most = 2 * max(len(self._client.ncores()), 1)
        for number in numbers:
            ahead.append(self._client.submit(_called, sent, number, key=f"threea-call-{token}-{number}"))
            if len(ahead) >= most:
                yield from self._answers([ahead.popleft()])
        while ahead:
            yield from self._answers([ahead.popleft()])

    def close(self) -> None:
        """Close what was started for this table."""
        self._close()

    def _submitted(self, task: Task, kept: Mapping[int, Kept]) -> list[Any]:
        token = uuid.uuid4().hex
        if self._read is None:
            # A task of its own that can be run again: what is only scattered is gone with the worker that held it.
            sent = self._client.submit(_itself, task, key=f"threea-task-{token}")
            return [
                self._client.submit(run, sent, part, kept.get(part.number), key=f"threea-{token}-{part.number}")
                for part in self._parts
            ]
        import dask

        sent, read = dask.delayed(_itself)(task), self._read
        graphs = [
            dask.delayed(_run_frame)(sent, number, frame, read, kept.get(number))
            for number, frame in enumerate(self._parts)
        ]
        futures: list[Any] = self._client.compute(graphs)
        return futures

    def _answers(self, futures: Sequence[Any]) -> Iterator[Any]:
        """Yield results as they come. What a scheduler says of a failure stays here: it may quote arguments."""
        import distributed

        problem, stop = "", threading.Event()
        watch = threading.Thread(target=_watch, args=(self._client, futures, stop), daemon=True)
        watch.start()
        try:
            for _, answer in distributed.as_completed(futures, loop=self._client.loop, with_results=True):
                if isinstance(answer, BaseException):
                    # What was cancelled comes as an answer, and is none.
                    problem = type(answer).__name__
                    break
                yield answer
        except Exception as error:
            problem = type(error).__name__
        finally:
            stop.set()
            for future in futures:
                future.release()
        if problem:
            raise InputError(f"the Dask cluster could not finish its work: {problem}; see to its workers")


def _watch(client: Any, futures: Sequence[Any], stop: threading.Event) -> None:
    """Give up on work that nobody is left to do: a scheduler without workers would wait for ever."""
    alone = 0.0
    while alone < _PATIENCE and not stop.wait(_LOOK):
        alone += _LOOK
        # A scheduler that does not answer has none, either; what it says of that is for nobody's terminal.
        with suppress(Exception):
            if client.ncores():
                alone = 0.0
    if alone >= _PATIENCE:
        with suppress(Exception):
            client.cancel(list(futures), force=True)


def _itself(sent: Any) -> Any:
    return sent


def _called(function: Callable[[int], bytes], number: int) -> bytes:
    return function(number)


def _run_frame(task: Task, number: int, frame: Any, read: Reading, kept: Kept | None) -> Outcome:
    return run(task, FramePart(number, frame, read), kept)


def _size(outcome: Outcome) -> Outcome:
    """Return how many rows a part has and their checksum, without the hashes."""
    return replace(outcome, result=None if outcome.problem else outcome.result[1])


def _piece(outcome: Outcome, bucket: int) -> NDArray[Any] | None:
    return None if outcome.problem else outcome.result[0][bucket]


def _beyond(pieces: Sequence[NDArray[Any] | None], max_rows: int) -> Beyond:
    return ranked_from([piece for piece in pieces if piece is not None], max_rows)
