"""What can go wrong on a cluster: nothing counts twice, nothing is lost, nothing is told, and what was spent stays."""

import logging
import os
import pickle
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import threea
from threea import hospital, progress, threads
from threea.anonymize.events import Gaussian
from threea.anonymize.open_table import _Labels, _Marks, open_table
from threea.anonymize.plan import Plan, Step
from threea.anonymize.query import Count, Features
from threea.backends import base, open_engine, tasks
from threea.backends.cluster import ClusterBackend, Workers
from threea.backends.coins import ROWS_KEY, Coins
from threea.backends.files import ParquetBackend
from threea.backends.parts import parts_of
from threea.backends.tasks import (
    FAILED,
    ONE_HASH,
    OTHER_ROWS,
    OTHER_VERSION,
    Kept,
    Outcome,
    Task,
    Total,
    UnitPairs,
    ranked_from,
)
from threea.budget import Budget
from threea.errors import InputError, MissingExtra, RowFunctionError, SettingError
from threea.ledger import Ledger
from threea.recipes import RECIPES
from threea.testing import SilentNoise

STAYS = hospital.stays(400)
LAYOUT = STAYS.schema.remove_metadata()
NAMES = tuple(LAYOUT.names)
POISON = 666_777_888.125
LABELS = _Labels("died")
KEY = b"k" * 32


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    parts = tmp_path / "parts"
    parts.mkdir()
    for number in range(4):
        pq.write_table(STAYS.slice(100 * number, 100), parts / f"{number}.parquet")
    return parts


def files(folder: Path) -> list[str]:
    return [str(path) for path in sorted(folder.glob("*.parquet"))]


class Here(Workers):
    """Workers in this process, whose answers go through a scheduler of the test's own making."""

    def __init__(self, folder: Path, schedule: Any = list) -> None:
        self._parts, self._schedule = parts_of(files(folder), 1), schedule

    @property
    def parts(self) -> int:
        return len(self._parts)

    def each(self, task: Task, kept: Any) -> Iterator[Outcome]:
        answers = [task(part, (kept or {}).get(part.number)) for part in self._parts]
        yield from self._schedule(pickle.loads(pickle.dumps(answers)))

    def beyond(self, unit: str, max_rows: int, key: bytes) -> Any:
        hashed = [Task(UnitPairs(unit, key), NAMES, LAYOUT)(part) for part in self._parts]
        places = ranked_from([outcome.result[0][0] for outcome in hashed], max_rows)
        return places, {outcome.part: (outcome.rows, outcome.result[1]) for outcome in hashed}

    def mapped(self, function: Any, numbers: Any) -> Iterator[bytes]:
        yield from map(function, numbers)

    def close(self) -> None:
        pass


def on(workers: Workers) -> ClusterBackend:
    return ClusterBackend(workers, LAYOUT)


SCHEDULES = {
    "as they come": list,
    "backwards": lambda answers: answers[::-1],
    "every one twice, as speculative tasks are": lambda answers: [*answers, *answers],
    "one again after the others, as a retried task is": lambda answers: [*answers, answers[0]],
}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_each_part_counts_once_whatever_the_scheduler_does(schedule: str, folder: Path) -> None:
    backend = on(Here(folder, SCHEDULES[schedule]))
    assert backend.sum(LABELS, ["died"]).tolist() == [400, 400]
    assert sum(backend.count_values("ward").values()) == 400
    bounded = backend.bounded("patient_id", 1, b"k" * 32)
    assert bounded.sum(LABELS, ["died"])[0] == len(set(STAYS["patient_id"].to_pylist()))


def test_a_part_without_an_answer_ends_the_pass(folder: Path) -> None:
    with pytest.raises(InputError, match=r"^the cluster did not answer for every part of the table; start again$"):
        on(Here(folder, lambda answers: answers[1:])).sum(LABELS, ["died"])


def test_who_listens_is_told_how_far_a_pass_is(folder: Path) -> None:
    told: list[tuple[int, int | None]] = []
    with progress.listening(parts=lambda done, of: told.append((done, of))):
        on(Here(folder)).sum(LABELS, ["died"])
        open_engine(folder)[0].sum(LABELS, ["died"])
    assert told == [*((part, 4) for part in (1, 2, 3, 4)), *((batch, None) for batch in (1, 2, 3, 4))]
    on(Here(folder)).sum(LABELS, ["died"])
    assert len(told) == 8, "nobody listens any more"


def test_a_function_of_rows_gives_the_same_on_any_number_of_threads(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chunk that is held up is overtaken by others; what they add up to is the same, to the bit."""
    seen: set[int] = set()

    def held_up(chunk: dict[str, Any]) -> Any:
        seen.add(threading.get_ident())
        time.sleep(0.02 if chunk["age"].sum() % 2 else 0.0)
        return np.sin(chunk["age"] + 0.1)

    asked = Features(function=held_up, columns=("age",), shape=(), l2=1.0)
    plan = Plan.calibrate(Budget(1.0), [Step(name="all", weight=1.0)])
    found = {}
    for processors in (1, 2, 5):
        monkeypatch.setattr(threads, "processors", lambda processors=processors: processors)
        table = open_table(folder, schema=hospital.schema(), budget=Budget(1.0), noise=SilentNoise())
        seen.clear()
        found[processors] = table.measure(asked, plan["all"]).value.tobytes()
        assert (threading.get_ident() in seen) == (processors == 1)
    assert len(set(found.values())) == 1


def test_more_rows_than_sums_can_hold_are_refused_before_they_are_added(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "MAX_ROWS", 399)
    with pytest.raises(InputError, match=r"^the table has more rows than the 399 whose sums stay exact; split it$"):
        on(Here(folder)).sum(LABELS, ["died"])


@pytest.mark.parametrize("engine", ["files", "dask", "spark"])
def test_files_of_more_rows_are_refused_by_their_footers(
    engine: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "MAX_ROWS", 399)
    monkeypatch.setattr(ParquetBackend, "batches", lambda self, columns: pytest.fail("a row was read"))
    with pytest.raises(InputError, match=r"^the table has more rows than the 399 whose sums stay exact; split it$"):
        open_engine(folder, engine=engine)


def test_a_worker_with_another_version_is_refused_part_by_part(folder: Path) -> None:
    (part, *_) = parts_of(files(folder), 1)
    assert Task(Total(LABELS), ("died",), LAYOUT, version="0.0")(part) == Outcome(part.number, problem=OTHER_VERSION)


@pytest.mark.parametrize(
    ("versions", "said"),
    [
        ({"a": threea.__version__, "b": "0.0"}, "has threea 0.0; install threea"),
        ({"a": metadata.PackageNotFoundError("threea")}, "has no threea; install threea"),
        ({}, "has no workers"),
    ],
)
def test_workers_are_asked_for_their_version_before_anything_else(versions: Any, said: str) -> None:
    from threea.backends.dask_engine import _usable

    pytest.importorskip("distributed", reason="needs the extra dask")
    with pytest.raises(InputError, match=said):
        _usable(SimpleNamespace(run=lambda function, *arguments, on_error: versions))


def rewritten(path: Path) -> None:
    pq.write_table(STAYS.slice(0, 50), path)


def touched(path: Path) -> None:
    os.utime(path)


def kept_its_size_and_time(path: Path) -> None:
    """Other row groups, as many bytes and the same time: the footer tells."""
    before, content = os.stat(path), bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(bytes(content))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("change", [rewritten, touched, kept_its_size_and_time, Path.unlink])
def test_a_part_that_changed_is_not_read(change: Any, folder: Path) -> None:
    backend = on(Here(folder))
    assert backend.sum(LABELS, ["died"])[0] == 400
    change(folder / "2.parquet")
    with pytest.raises(InputError, match=r"2\.parquet was changed while it was in use"):
        backend.sum(LABELS, ["died"])


@dataclass(frozen=True)
class Streamed:
    """A part of a DataFrame: nobody promises the order of its rows."""

    rows: pa.Table
    number: int = 0
    stable: bool = False

    def batches(self, columns: Any) -> Any:
        return self.rows.select(list(columns)).to_batches(max_chunksize=64)


TWICE = pa.concat_tables([STAYS, STAYS.slice(0, 60)]).combine_chunks()
"""With rows that are equal, of which some count and some do not."""


def kept_of(rows: pa.Table, unit: str, most: int) -> Kept:
    hashed = Task(UnitPairs(unit, KEY), NAMES, LAYOUT)(Streamed(rows))
    assert not hashed.problem
    pieces, checksum = hashed.result
    ranked = ranked_from(pieces, most)[0]
    return Kept.without(ranked, hashed.rows, checksum, stable=False)


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("order", [np.arange(460)[::-1], np.random.default_rng(1).permutation(460)])
def test_in_whatever_order_a_part_comes_the_same_rows_of_a_person_count(order: Any, most: int) -> None:
    """Masks by place made an end of any DataFrame that was shuffled, after its charge."""
    kept = kept_of(TWICE, "patient_id", most)
    task = Task(Total(_Marks(KEY)), NAMES, LAYOUT, ("patient_id", KEY))
    here = open_engine(TWICE)[0].bounded("patient_id", most, KEY)
    expected = here.sum(_Marks(KEY), NAMES).tolist()
    outcomes = [task(Streamed(TWICE.take(rows)), kept) for rows in (np.arange(460), order)]
    assert [outcome.result.tolist() for outcome in outcomes] == [expected, expected]
    assert {outcome.rows for outcome in outcomes} == {here.table().num_rows}


def test_in_whatever_order_a_part_comes_the_same_rows_are_in_a_sample() -> None:
    hashed = Task(UnitPairs(None, ROWS_KEY), NAMES, LAYOUT)(Streamed(TWICE))
    kept = Kept(hashed.rows, hashed.result[1], repeats=ranked_from(hashed.result[0], 1)[0])
    task = Task(Total(_Marks(KEY)), NAMES, LAYOUT, (None, ROWS_KEY), Coins(0.4, b"c" * 16, None))
    orders = (np.arange(460), np.arange(460)[::-1], np.random.default_rng(2).permutation(460))
    sums = {tuple(task(Streamed(TWICE.take(order)), kept).result.tolist()) for order in orders}
    assert len(sums) == 1
    here = open_engine(TWICE)[0].sample(0.4, b"c" * 16)
    assert sums == {tuple(here.sum(_Marks(KEY), NAMES).tolist())}
    assert kept.repeats is not None
    assert len(kept.repeats.places) == 60


@pytest.mark.parametrize(
    "other",
    [
        STAYS.slice(0, 399),
        pa.concat_tables([STAYS, STAYS.slice(0, 1)]),
        pa.concat_tables([STAYS.slice(0, 399), STAYS.slice(0, 1)]),
    ],
)
def test_a_part_with_other_rows_than_at_opening_is_refused(other: pa.Table) -> None:
    """A part that was cut otherwise holds rows of which nobody said whether they count."""
    kept = kept_of(STAYS, "patient_id", 1)
    task = Task(Total(LABELS), ("died",), LAYOUT, ("patient_id", KEY))
    assert task(Streamed(STAYS), kept).problem == ""
    assert task(Streamed(other), kept) == Outcome(0, problem=OTHER_ROWS)


def test_rows_of_two_persons_are_never_taken_for_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they are known by hashes of 64 bits, two rows could share one: then there is another key."""
    monkeypatch.setattr(tasks, "row_hashes", lambda batch, key: np.zeros(batch.num_rows, np.uint64))
    assert Task(UnitPairs("patient_id", KEY), NAMES, LAYOUT)(Streamed(STAYS)) == Outcome(0, problem=ONE_HASH)


def test_a_batch_of_other_types_than_the_table_is_refused() -> None:
    index = LAYOUT.get_field_index("age")
    part = Streamed(STAYS.set_column(index, "age", STAYS["age"].cast(pa.float64())))
    outcome = Task(Total(LABELS), ("died", "age"), LAYOUT)(part)
    assert outcome.problem == (
        f"column age is of type {LAYOUT.field('age').type} in the table and of type double in a part of it; "
        "give all parts the same types"
    )
    assert not Task(Total(LABELS), ("died",), LAYOUT)(part).problem, "what is not read is not looked at"


def test_words_that_arrow_holds_as_views_are_read_as_text(tmp_path: Path) -> None:
    words = pa.table({"a": pa.array(["x", "y", None], pa.string_view()), "b": [1, 2, 3]})
    pq.write_table(words, tmp_path / "words.parquet")
    layout = open_engine(tmp_path / "words.parquet")[0].layout
    (part,) = parts_of([str(tmp_path / "words.parquet")], 1)
    outcome = Task(Total(_Labels("a")), ("a",), layout)(part)
    assert (outcome.problem, outcome.result.tolist()) == ("", [3, 2])


class Changing(Here):
    """Workers of a DataFrame whose rows lie in other parts from its third pass on, or from its second."""

    stable = False

    def __init__(self, passes: int) -> None:
        self._left = passes

    @property
    def parts(self) -> int:
        return 2

    def _cut(self) -> list[Streamed]:
        self._left -= 1
        rows = STAYS if self._left >= 0 else STAYS.take(np.arange(400)[::-1])
        return [Streamed(rows.slice(200 * number, 200), number) for number in range(2)]

    def each(self, task: Task, kept: Any) -> Iterator[Outcome]:
        yield from (task(part, (kept or {}).get(part.number)) for part in self._cut())

    def beyond(self, unit: str | None, max_rows: int, key: bytes) -> Any:
        hashed = [Task(UnitPairs(unit, key), NAMES, LAYOUT)(part) for part in self._cut()]
        ranked = ranked_from([outcome.result[0][0] for outcome in hashed], max_rows)
        return ranked, {outcome.part: (outcome.rows, outcome.result[1]) for outcome in hashed}


def test_a_frame_whose_rows_change_parts_is_refused_before_the_first_charge() -> None:
    with pytest.raises(InputError, match=r"^the table has other rows than when it was opened;"):
        on(Changing(1)).bounded("patient_id", 1, KEY)
    with pytest.raises(InputError, match=r"^the table has other rows than when it was opened;"):
        on(Changing(1)).sample(0.5, b"c" * 16)
    view = on(Changing(2)).bounded("patient_id", 1, KEY)
    with pytest.raises(InputError, match=r"^the table has other rows than when it was opened;"):
        view.sum(LABELS, ["died"])


class Secret(BaseException):
    """What no `except Exception` catches."""


@pytest.mark.parametrize("raised", [SystemExit, KeyboardInterrupt, GeneratorExit, Secret, MemoryError])
def test_whatever_a_function_raises_on_a_worker_no_log_can_say_it(raised: type[BaseException]) -> None:
    def leaving(batch: pa.RecordBatch) -> Any:
        raise raised(f"cannot use {batch.column('cost').to_pylist()}")

    assert Task(Total(leaving), ("cost",), LAYOUT)(Streamed(STAYS)) == Outcome(0, problem=FAILED)


@dataclass(frozen=True)
class Raises:
    """A sum that no query makes: one that lets its error out."""

    def __call__(self, batch: pa.RecordBatch) -> Any:
        raise ValueError(f"cannot use {batch.column('cost').to_pylist()}")


@dataclass(frozen=True)
class Killing:
    """A sum whose first callers end their processes, in the middle of a part."""

    flags: str
    kills: int

    def __call__(self, batch: pa.RecordBatch) -> Any:
        for kill in range(self.kills):
            try:
                os.close(os.open(f"{self.flags}/{kill}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            os._exit(1)
        return LABELS(batch)


def test_on_worker_processes_a_lost_worker_is_replaced_and_a_poisoned_row_is_not_shown(
    folder: Path, tmp_path: Path, capfd: Any, caplog: Any
) -> None:
    """One test, so that one cluster of processes is started."""
    pytest.importorskip("distributed", reason="needs the extra dask")
    (flags := tmp_path / "flags").mkdir()
    row = STAYS.slice(0, 1)
    row = row.set_column(row.schema.get_field_index("cost"), "cost", pa.array([POISON]))
    pq.write_table(pa.concat_tables([STAYS.slice(300, 100), row]), folder / "3.parquet")
    ledger = Ledger()
    from threea.backends.dask_engine import connect

    client, close = connect(None, 2)
    try:
        backend, _ = open_engine(folder, engine="dask", cluster=client)
        assert isinstance(backend, ClusterBackend)
        assert listening() == {"127.0.0.1"}, "nobody on another machine can connect"
        kept = client.run(os.environ.get, "MALLOC_TRIM_THRESHOLD_")
        assert set(kept.values()) == {str(1 << 28)}, "memory is kept from batch to batch"
        assert backend.sum(Killing(str(flags), 2), ["died"]).tolist() == [401, 401]
        assert len(list(flags.iterdir())) == 2, "both kills happened"
        options = {"budget": Budget(1.0), "schema": hospital.schema(), "noise": SilentNoise(), "ledger": ledger}
        table = open_table(folder, engine="dask", cluster=client, accept_unproven=True, **options)
        charge = Plan.calibrate(Budget(1.0), [Step(name="all", weight=1.0, kind=Gaussian, count=2)])["all"]
        broken = Features(function=_from_here, columns=("cost",), shape=(), l2=1.0)
        with caplog.at_level(logging.DEBUG), pytest.raises(RowFunctionError, match="try it on made-up rows") as failure:
            table.measure(broken, charge)
        assert failure.value.__cause__ is failure.value.__context__ is None
        with caplog.at_level(logging.DEBUG), pytest.raises(InputError, match="a worker failed on a part"):
            backend.sum(Raises(), ["cost"])
        with pytest.raises(SettingError, match=r"^exposing needs the rows themselves, and this engine only sums; use"):
            RECIPES["dpmix-published"]().run(table)
        rewritten(folder / "1.parquet")
        with pytest.raises(InputError, match=r"1\.parquet was changed while it was in use"):
            table.measure(Count(), charge)
        assert sum(release.charged for release in ledger.releases()) == 2, "what was charged stays"
    finally:
        close()
    shown = capfd.readouterr()
    assert "666777888" not in shown.out + shown.err + caplog.text
    assert "6667" not in repr(backend)


def listening() -> set[str]:
    """Return the addresses on which this process and those that it started wait for connections."""
    psutil = pytest.importorskip("psutil")
    here = psutil.Process()
    found = (socket for each in (here, *here.children(recursive=True)) for socket in each.net_connections("inet"))
    # Java, which another test may have started here, writes the same addresses in IPv6.
    return {socket.laddr.ip.removeprefix("::ffff:") for socket in found if socket.status == psutil.CONN_LISTEN}


def _from_here(chunk: dict[str, Any]) -> Any:
    return np.array([float(f"poison {value}") for value in chunk["cost"]])


@pytest.mark.parametrize(("engine", "package"), [("dask", "distributed"), ("spark", "pyspark.sql")])
def test_a_missing_extra_is_named(engine: str, package: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"is not installed; pip install 'threea\[{engine}\]'"):
        open_engine(folder, engine=engine)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"engine": "cloud"}, r"^engine \(cloud\) must be one of memory, files, dask, spark$"),
        ({"engine": "files", "workers": 2}, r"^workers \(2\) needs an engine on a cluster; add --engine dask"),
        ({"cluster": "tcp://x:1"}, r"^cluster \(tcp://x:1\) needs an engine on a cluster; add --engine dask"),
        ({"engine": "dask", "workers": 0}, r"^workers \(0\) must be at least 1$"),
        ({"engine": "dask", "workers": 1, "cluster": "tcp://x:1"}, r"^workers \(1\) are the cluster's own to have"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: Any, said: str, folder: Path) -> None:
    with pytest.raises(SettingError, match=said):
        open_engine(folder, **options)


def test_a_frame_in_memory_is_not_sent_to_a_cluster() -> None:
    with pytest.raises(SettingError, match=r"^engine \(dask\) cannot read this Table; give it Parquet files"):
        open_engine(STAYS, engine="dask")


def test_a_csv_file_is_not_cut_into_parts(tmp_path: Path) -> None:
    (tmp_path / "stays.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="engine dask reads Parquet"):
        open_engine(tmp_path / "stays.csv", engine="dask")
    backend, _ = open_engine(tmp_path / "stays.csv", engine="memory")
    assert backend.dialect.separator == ","


def test_a_cluster_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="needs the extra dask")
    from threea.backends import dask_engine

    monkeypatch.setattr(dask_engine, "_ANSWER", 0.5)
    with pytest.raises(InputError, match=r"^cluster \(tcp://127\.0\.0\.1:1\) does not answer: \w+; check its address$"):
        dask_engine.connect("tcp://127.0.0.1:1", None)


def test_a_cluster_that_lost_its_workers_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from threea.backends import dask_engine

    monkeypatch.setattr(dask_engine, "_LOOK", 0.01)
    monkeypatch.setattr(dask_engine, "_PATIENCE", 0.03)
    cores, cancelled = iter([{}, {"a": 1}, {}, {}, {}, {}]), []
    client = SimpleNamespace(ncores=lambda: next(cores), cancel=lambda futures, force: cancelled.append(futures))
    dask_engine._watch(client, ["part"], threading.Event())
    assert cancelled == [["part"]]
    assert len(list(cores)) == 1, "workers that come back begin the wait anew"


def test_workers_whom_nobody_watches_over_any_more_are_started_again() -> None:
    from threea.backends import dask_engine

    def cluster(status: str, **nannies: str) -> Any:
        workers = {name: SimpleNamespace(status=SimpleNamespace(name=said)) for name, said in nannies.items()}
        return SimpleNamespace(status=SimpleNamespace(name=status), workers=workers, scale=asked.append)

    asked: list[int] = []
    local = cluster("running", a="running", b="failed", c="closed", d="starting")
    dask_engine._restore(local, 4)
    assert (set(local.workers), asked) == ({"a", "d"}, [4])
    dask_engine._restore(cluster("closing", a="closed"), 4)
    assert asked == [4], "a cluster that is being closed is left alone"
