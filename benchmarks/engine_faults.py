"""Workers killed in the middle of passes, on Dask and on Spark: wrong sums, lost charges and unanswered questions.

Three ways to lose a worker: it ends itself while it adds up a part, it is killed from outside at a random moment of a
pass, or at one of the shuffle that bounds persons. On Spark also tasks that run twice at once, by speculation.
"""

import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow.parquet as pq

from benchmarks.record import RESULTS, record
from threea import hospital
from threea.anonymize.events import Gaussian
from threea.anonymize.open_table import open_table
from threea.anonymize.plan import Plan, Step
from threea.anonymize.query import Features
from threea.backends import open_engine
from threea.backends.cluster import ClusterBackend
from threea.backends.dask_engine import connect
from threea.backends.spark_engine import prepare_java, session
from threea.backends.tasks import Task
from threea.budget import Budget
from threea.errors import ThreeaError
from threea.ledger import Ledger
from threea.testing import SilentNoise

PARTS, ROWS = 8, 4_000
QUESTIONS = {"dask": 20, "spark": 24}
SHARE, PAUSE = 0.12, 0.1
PORT = "17077"
SPECULATION = " ".join(
    f"--conf spark.speculation{setting}"
    for setting in ("=true", ".interval=100ms", ".quantile=0.5", ".multiplier=1.2", ".minTaskRuntime=100ms")
)
"""Spark runs tasks a second time when half of the others are done: on another host alone."""


def plain(chunk: Any) -> Any:
    """Return a feature of rows."""
    return chunk["age"] / 110


def ending(flags: str, share: float, chunk: Any) -> Any:
    """Return the same feature, or end this process in the middle of a part and leave a file that says so."""
    if int.from_bytes(os.urandom(4), "big") < share * 2**32:
        Path(flags, uuid.uuid4().hex).touch()
        os._exit(1)
    return plain(chunk)


def slow(chunk: Any) -> Any:
    """Return the same feature after a while, so that there is time to be killed in."""
    time.sleep(PAUSE)
    return plain(chunk)


def straggling(flags: str, chunk: Any) -> Any:
    """Return the same feature; the first caller takes long, so that Spark runs its task again beside it."""
    Path(flags, uuid.uuid4().hex).touch()
    with suppress(FileExistsError):
        os.close(os.open(f"{flags}/straggler", os.O_CREAT | os.O_EXCL))
        time.sleep(15)
    return plain(chunk)


def _feature(function: Callable[[Any], Any]) -> Features:
    return Features(function=function, columns=("age",), shape=(), l2=1.0, nonnegative=True)


@contextmanager
def _folder(parts: int = PARTS) -> Iterator[tuple[Any, str]]:
    """Write a table to as many files as it has parts."""
    stays = hospital.stays(ROWS)
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(parts):
            share = ROWS // parts
            pq.write_table(stays.slice(share * number, share), f"{scratch}/{number}.parquet")
        yield stays, scratch


class Killer:
    """Kills one of this process's workers at a random moment of what happens within."""

    def __init__(self, rng: np.random.Generator, most: float) -> None:
        self._delay, self._choice, self._over = float(rng.uniform(0, most)), rng.random(), threading.Event()
        self.kills = 0
        self._thread = threading.Thread(target=self._kill)

    def _kill(self) -> None:
        if self._over.wait(self._delay):
            return
        workers = [child.pid for child in psutil.Process().children() if "spawn_main" in " ".join(child.cmdline())]
        if workers and not self._over.is_set():
            os.kill(workers[int(self._choice * len(workers))], signal.SIGKILL)
            self.kills = 1

    def __enter__(self) -> "Killer":
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._over.set()
        self._thread.join()


class Counts:
    """What became of the questions asked while workers were killed."""

    def __init__(self, questions: int, expected: Any, ledger: Ledger) -> None:
        self.questions, self.expected, self._ledger = questions, expected, ledger
        self.kills = self.wrong = 0
        self.unanswered: list[str] = []

    def ask(self, table: Any, function: Any, charge: Any) -> None:
        """Ask once, and compare."""
        try:
            self.wrong += bool((table.measure(_feature(function), charge).value != self.expected).any())
        except ThreeaError as error:
            self.unanswered.append(str(error))

    @property
    def found(self) -> dict[str, Any]:
        """For the result."""
        charged = sum(release.charged for release in self._ledger.releases())
        return {
            "questions": self.questions,
            "workers_killed": self.kills,
            "wrong_sums": self.wrong,
            "unanswered": self.unanswered,
            "charges_lost": self.questions - charged,
        }


def _counted(questions: int, stays: Any, **unit: Any) -> tuple[Counts, Any, dict[str, Any]]:
    """Return a count, what pays for its questions, and what a table is opened with; the expected sum is from memory."""
    plan = Plan.calibrate(Budget(1.0), [Step(name="sum", weight=1.0, kind=Gaussian, count=questions)])
    options = {"schema": hospital.schema(), "budget": Budget(1.0), "noise": SilentNoise(), **unit}
    ledger, charge = Ledger(), plan["sum"]
    # Which of a person's rows count is new at every opening, so persons are counted: how many is not.
    expected = open_table(stays, **options).measure(_feature(plain), charge).value
    return Counts(questions, expected, ledger), charge, {**options, "ledger": ledger}


def in_a_part(engine: str, cluster: Any) -> dict[str, Any]:
    """Let workers end themselves while they add up a part, each call by a coin of its own."""
    with _folder() as (stays, folder):
        counts, charge, options = _counted(QUESTIONS[engine], stays)
        table = open_table(folder, engine=engine, cluster=cluster, **options)
        for _ in range(counts.questions):
            with tempfile.TemporaryDirectory() as flags:
                counts.ask(table, functools.partial(ending, flags, SHARE), charge)
                counts.kills += len(os.listdir(flags))
    return counts.found


def at_random(cluster: Any, seed: int) -> dict[str, Any]:
    """Kill a worker at a random moment of every pass."""
    rng = np.random.default_rng(seed)
    with _folder() as (stays, folder):
        counts, charge, options = _counted(QUESTIONS["dask"], stays)
        table = open_table(folder, engine="dask", cluster=cluster, **options)
        for _ in range(counts.questions):
            with Killer(rng, PAUSE * PARTS / 2) as killer:
                counts.ask(table, slow, charge)
            counts.kills += killer.kills
    return {"seed": seed, **counts.found}


def while_shuffling(cluster: Any, seed: int, openings: int = 10) -> dict[str, Any]:
    """Kill a worker at a random moment of the shuffle after which at most so many rows of a person count."""
    rng = np.random.default_rng(seed)
    key = b"k" * 32
    kills = wrong = 0
    unanswered = []
    with _folder() as (stays, folder):
        here, _ = open_engine(stays)
        expected = here.bounded("patient_id", 2, key).sum(_ages, ["age"])
        backend, _ = open_engine(folder, engine="dask", cluster=cluster)
        for _ in range(openings):
            try:
                with Killer(rng, 0.3) as killer:
                    bounded = backend.bounded("patient_id", 2, key)
                    found = bounded.sum(_ages, ["age"])
                wrong += bool((found != expected).any())
            except ThreeaError as error:
                unanswered.append(str(error))
            kills += killer.kills
    return {
        "seed": seed,
        "openings": openings,
        "workers_killed": kills,
        "wrong_sums": wrong,
        "unanswered": unanswered,
    }


def _ages(batch: Any) -> Any:
    return np.array([batch.num_rows, np.asarray(batch.column("age").drop_null()).sum()], np.int64)


class Twice:
    """Workers whose every answer comes twice, as those of repeated and speculative tasks may."""

    def __init__(self, workers: Any) -> None:
        self._workers, self.parts = workers, workers.parts

    def each(self, task: Task, kept: Any) -> Iterator[Any]:
        """Run every task twice, and hand on both answers."""
        for both in zip(self._workers.each(task, kept), self._workers.each(task, kept), strict=True):
            yield from both


def duplicates(engine: str, cluster: Any, passes: int = 10) -> dict[str, int]:
    """Sum with every task run twice and both answers handed on."""
    with _folder() as (stays, folder):
        expected = _ages(stays)
        backend, _ = open_engine(folder, engine=engine, cluster=cluster)
        doubled = ClusterBackend(Twice(backend._workers), backend.layout)
        wrong = sum(bool((doubled.sum(_ages, ["age"]) != expected).any()) for _ in range(passes))
    return {"passes": passes, "answers_repeated": PARTS * passes, "wrong_sums": wrong}


def speculation(spark: Any, questions: int = 3) -> dict[str, Any]:
    """Let one task of each pass be slow, so that Spark runs it a second time beside the first."""
    with _folder() as (stays, folder):
        counts, charge, options = _counted(questions, stays)
        table = open_table(folder, engine="spark", cluster=spark, **options)
        twice = 0
        for _ in range(questions):
            with tempfile.TemporaryDirectory() as flags:
                counts.ask(table, functools.partial(straggling, flags), charge)
                twice += len(os.listdir(flags)) - 1 - PARTS
    found = counts.found
    found.pop("workers_killed")
    return {**found, "tasks_run_twice": twice}


@contextmanager
def two_hosts() -> Iterator[Any]:
    """Start a Spark cluster of two hosts, and a session of it."""
    with two_workers() as master:
        spark = session(master, None)
        try:
            yield spark
        finally:
            spark.stop()


@contextmanager
def two_workers() -> Iterator[str]:
    """Start a Spark cluster whose two workers have addresses of their own: tasks run again on another host alone."""
    import pyspark

    launch, started = Path(pyspark.__file__).parent / "bin" / "spark-class", []
    prepare_java()
    os.environ |= {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "SPARK_NO_DAEMONIZE": "1"}
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"{SPECULATION} pyspark-shell"

    def start(kind: str, *arguments: str) -> None:
        command = [str(launch), f"org.apache.spark.deploy.{kind.lower()}.{kind}", *arguments]
        started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    with tempfile.TemporaryDirectory() as scratch:
        start("Master", "--host", "127.0.0.1", "--port", PORT, "--webui-port", "0")
        for host in ("127.0.0.1", "127.0.0.2"):
            places = ("--webui-port", "0", "--work-dir", scratch, "--cores", "1", "--memory", "1g")
            start("Worker", "--host", host, *places, f"spark://127.0.0.1:{PORT}")
        try:
            yield f"spark://127.0.0.1:{PORT}"
        finally:
            for process in reversed(started):
                process.terminate()
                process.wait()


def _kept(engine: str, found: dict[str, Any]) -> None:
    """Write one engine's counts, and keep the other's."""
    path = RESULTS / "engine-faults.json"
    results = json.loads(path.read_text())["results"] if path.exists() else {}
    settings = {"rows": ROWS, "parts": PARTS, "workers": 2, "share": SHARE, "pause": PAUSE}
    record("engine-faults", settings, {**results, engine: found})


def on_dask() -> None:
    """Count faults on Dask."""
    client, close = connect(None, 2)
    found: dict[str, Any] = {"in a part": in_a_part("dask", client)}
    found["at a random moment"] = [at_random(client, seed) for seed in (1, 2)]
    found["while shuffling"] = [while_shuffling(client, seed) for seed in (3, 4)]
    found["duplicated tasks"] = duplicates("dask", client)
    close()
    _kept("dask", found)


def on_spark() -> None:
    """Count faults on Spark."""
    # Of a local master, Spark gives up at a task's first failure unless told otherwise.
    spark = session("local[2,8]", None)
    found: dict[str, Any] = {"in a part": in_a_part("spark", spark), "duplicated tasks": duplicates("spark", spark)}
    spark.stop()
    _kept("spark", found)


def main() -> None:
    """Count faults on both engines, and tasks that run twice at once on Spark."""
    on_dask()
    on_spark()
    with two_hosts() as spark:
        _kept("speculation", speculation(spark))
