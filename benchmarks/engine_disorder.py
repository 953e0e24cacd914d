"""Rows in another order each time, tasks that move to other workers, drivers that are killed and started again.

Shuffled Spark DataFrames on two executors; tasks of Dask stolen by workers that join in the middle of a pass; drivers
killed at a random moment of a pass, on a cluster that goes on, with a ledger that the next driver opens.
"""

import functools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engine_faults import (
    PARTS,
    _counted,
    _feature,
    _folder,
    plain,
    slow,
    straggling,
    two_hosts,
    two_workers,
)
from benchmarks.record import record
from threea import hospital
from threea.anonymize.events import Gaussian
from threea.anonymize.open_table import open_table
from threea.anonymize.plan import Plan, Step
from threea.backends.dask_engine import connect
from threea.backends.spark_engine import prepare_java, session
from threea.budget import Budget
from threea.errors import InputError
from threea.ledger import Ledger
from threea.testing import SilentNoise

EXECUTORS = "local-cluster[2,1,1024]"
QUESTIONS, REPETITIONS, KILLS, SPARK_KILLS = 3, 2, 5, 2
BOUND = {"unit": "patient_id", "max_rows_per_unit": 2}


def _shuffles() -> Mapping[str, Callable[[Any], Any]]:
    from pyspark.sql import functions as f

    return {
        "by person": lambda frame: frame.repartition(6, "patient_id"),
        "round robin": lambda frame: frame.repartition(6),
        "twice": lambda frame: frame.repartition(6, "patient_id").repartition(5),
        "sorted": lambda frame: frame.repartition(7).orderBy("age"),
        "at random": lambda frame: frame.orderBy(f.rand()),
        "grouped": lambda frame: frame.groupBy(*frame.columns).count().drop("count"),
        "joined": lambda frame: frame.join(frame.select("patient_id").distinct(), "patient_id"),
    }


def shuffled(spark: Any, repetitions: int) -> dict[str, Any]:
    """Open shuffled frames of persons, ask each some questions, and count how they end."""
    spark.conf.set("spark.sql.shuffle.partitions", "6")
    frame = spark.createDataFrame(hospital.stays(20_000))
    ends = {}
    for name, shuffle in _shuffles().items():
        end = {"opened": 0, "refused_unspent": 0, "questions": 0, "wrong_sums": 0, "unanswered": 0, "charges_lost": 0}
        for _ in range(repetitions):
            _ask_shuffled(shuffle(frame), end)
        ends[name] = end
    return ends


def _ask_shuffled(frame: Any, end: dict[str, int]) -> None:
    # Which rows count is decided by a key that these tables share; the reference is the same rows in memory.
    counts, charge, options = _counted(QUESTIONS, frame.toArrow(), **BOUND)
    try:
        table = open_table(frame, **options)
    except InputError:
        end["refused_unspent"] += 1
        end["charges_lost"] -= sum(release.charged for release in options["ledger"].releases())
        return
    end["opened"] += 1
    for _ in range(QUESTIONS):
        counts.ask(table, plain, charge)
    for key in ("questions", "wrong_sums", "charges_lost"):
        end[key] += counts.found[key]
    end["unanswered"] += len(counts.unanswered)


def speculated(spark: Any) -> dict[str, Any]:
    """Ask shuffled frames of persons while one task of each pass is slow, so that Spark runs it a second time."""
    frame = spark.createDataFrame(hospital.stays(4_000)).repartition(PARTS, "patient_id")
    counts, charge, options = _counted(QUESTIONS, frame.toArrow(), **BOUND)
    table = open_table(frame, **options)
    twice = 0
    for _ in range(QUESTIONS):
        with tempfile.TemporaryDirectory() as flags:
            counts.ask(table, functools.partial(straggling, flags), charge)
            # Every call but the straggler's own file; a part has one batch.
            twice += max(len(os.listdir(flags)) - 1 - PARTS, 0)
    found = counts.found
    found.pop("workers_killed")
    return {**found, "tasks_run_twice": twice}


def uneven(flags: str, chunk: Any) -> Any:
    """Return a feature of rows, slowly in the first process that is asked: the others take over its tasks."""
    with suppress(FileExistsError):
        descriptor = os.open(f"{flags}/slow", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        os.write(descriptor, str(os.getpid()).encode())
        os.close(descriptor)
    if Path(flags, "slow").read_text() == str(os.getpid()):
        time.sleep(1)
    return plain(chunk)


def stolen(questions: int = 10) -> dict[str, Any]:
    """Hand out all tasks of a pass at once, let one worker be slow, and count the tasks that others take from it."""
    import dask
    import distributed  # noqa: F401  # its settings must be there before any is changed

    # Otherwise the scheduler keeps tasks until a worker is free, and there is nothing to steal.
    settings = {"distributed.scheduler.worker-saturation": float("inf"), "distributed.scheduler.work-stealing": True}
    with dask.config.set(settings), _folder(40) as (stays, folder):
        client, close = connect(None, 3)
        counts, charge, options = _counted(questions, stays, **BOUND)
        try:
            table = open_table(folder, engine="dask", cluster=client, **options)
            for _ in range(questions):
                with tempfile.TemporaryDirectory() as flags:
                    counts.ask(table, functools.partial(uneven, flags), charge)
            taken = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.extensions["stealing"].count)
        finally:
            close()
    found = counts.found
    found.pop("workers_killed")
    return {**found, "tasks_stolen": taken}


def drive(engine: str, cluster: str, folder: str, ledger: str, answers: str) -> None:
    """Ask as a driver of its own, and write every answer down."""
    options = {"schema": hospital.schema(), "budget": Budget(1.0), "noise": SilentNoise(), "ledger": ledger}
    table = open_table(folder, engine=engine, cluster=cluster, dataset="stays", **options)
    plan = Plan.calibrate(Budget(1.0), [Step(name="sum", weight=1.0, kind=Gaussian, count=20)])
    for _ in range(20):
        value = table.measure(_feature(slow), plan["sum"]).value
        with Path(answers).open("a") as file:
            file.write(f"{float(value)!r}\n")


def restarted(engine: str, cluster: str, seed: int, kills: int = KILLS) -> dict[str, Any]:
    """Kill drivers at a random moment after their first answer; the next one opens the same ledger."""
    rng = np.random.default_rng(seed)
    with _folder() as (stays, folder), tempfile.TemporaryDirectory() as scratch:
        ledger, answers = Path(scratch, "ledger.db"), Path(scratch, "answers")
        charged, lost = 0, 0
        for _ in range(kills):
            before = len(_lines(answers))
            arguments = [engine, cluster, folder, str(ledger), str(answers)]
            code = f"from benchmarks.engine_disorder import drive; drive(*{arguments!r})"
            driver = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
            try:
                _wait(lambda before=before: len(_lines(answers)) > before + 1, driver)
                time.sleep(float(rng.uniform(0, 1)))
            finally:
                os.killpg(driver.pid, signal.SIGKILL)
                driver.wait()
            now = sum(release.charged for release in Ledger(ledger).releases())
            # An answer without its charge, or a charge of an earlier driver that is gone.
            lost += max(len(_lines(answers)) - now, 0) + max(charged - now, 0)
            charged = now
        expected = open_table(stays, schema=hospital.schema(), budget=Budget(1.0), noise=SilentNoise())
        plan = Plan.calibrate(Budget(1.0), [Step(name="sum", weight=1.0, kind=Gaussian, count=1)])
        value = float(expected.measure(_feature(plain), plan["sum"]).value)
        wrong = sum(float(line) != value for line in _lines(answers))
        got = len(_lines(answers))
    return {
        "seed": seed,
        "drivers_killed": kills,
        "answers": got,
        "wrong_sums": wrong,
        "charges": charged,
        "charges_lost": lost,
    }


def _lines(path: Path) -> list[str]:
    # The last one may be half a line when its driver is killed.
    return path.read_text().split("\n")[:-1] if path.exists() else []


def _wait(done: Callable[[], bool], driver: Any, most: float = 900.0) -> None:
    end = time.monotonic() + most
    while not done():
        if driver.poll() is not None or time.monotonic() > end:
            raise SystemExit(f"a driver ended by itself ({driver.poll()}), or gave no answer in {most} seconds")
        time.sleep(0.05)


@contextmanager
def _executors() -> Iterator[Any]:
    """Start a Spark session with two executors, so that blocks of a shuffle come in any order."""
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    prepare_java()
    spark = session(EXECUTORS, None)
    try:
        yield spark
    finally:
        spark.stop()


def main() -> None:
    """Count on both engines."""
    found: dict[str, Any] = {"stolen tasks": stolen()}
    client, close = connect(None, 2)
    found["driver killed, Dask"] = [restarted("dask", client.scheduler.address, seed) for seed in (1, 2)]
    close()
    with _executors() as spark:
        found["shuffled, Spark"] = shuffled(spark, REPETITIONS)
    with two_workers() as master:
        found["driver killed, Spark"] = [restarted("spark", master, 3, SPARK_KILLS)]
    with two_hosts() as spark:
        found["speculated, Spark"] = speculated(spark)
    record("engine-disorder", {"questions": QUESTIONS, "executors": 2}, found)
