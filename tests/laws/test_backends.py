"""The law of every backend: the same rows have the same sums, to the bit, wherever they lie, however they are cut."""

import dataclasses
import importlib
import inspect
import math
import pkgutil
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from nasty import QUERIES as NASTY_QUERIES
from nasty import ROWS, critic
from nasty import SCHEMA as NASTY_SCHEMA
from nasty import arrow as nasty_table

from threea import anonymize, hospital
from threea.anonymize.clipping import BITS, SHRINK, Norm, clipped_sum, grid_step, step_of
from threea.anonymize.cluster_moments import ClusterMoments
from threea.anonymize.cluster_sums import Scores
from threea.anonymize.gradient import Gradient
from threea.anonymize.mean_embedding import MeanEmbedding
from threea.anonymize.network_gradient import NetworkGradient, aligned
from threea.anonymize.open_table import fingerprint, open_table
from threea.anonymize.plan import Plan, Step
from threea.anonymize.query import Count, Features, Grouped, Marginal, Query, Rows, Stack
from threea.anonymize.score_gradient import ScoreGradient
from threea.anonymize.score_histogram import ScoreHistogram, Trees
from threea.anonymize.slot_sums import SlotSums
from threea.anonymize.vectors import Frame, Lengths, Moment, Vectors
from threea.anonymize.wave_gradient import WaveGradient, WaveLogits
from threea.backends import base, open_backend
from threea.backends.memory import MemoryBackend
from threea.backends.units import UnitBackend
from threea.budget import Budget
from threea.errors import InputError
from threea.table import codec
from threea.table.cells import Merged
from threea.table.row_vectors import RowVectors
from threea.testing import SilentNoise

KEY, OTHER_KEY = b"k" * 32, b"o" * 32
SCHEMA = hospital.schema()
FLOAT32 = "creatinine"


def made() -> pa.Table:
    """Return hospital stays, all reals in float64: text holds those exactly."""
    stays = hospital.stays(2_000)
    place = stays.schema.get_field_index(FLOAT32)
    return stays.set_column(place, FLOAT32, stays.column(FLOAT32).cast(pa.float64()))


TABLE = made()


def recut(table: pa.Table, cuts: list[int]) -> pa.Table:
    """Return the same rows in other chunks; equal cuts make empty ones."""
    ends = [0, *sorted(cuts), table.num_rows]
    return pa.concat_tables([table.slice(a, b - a) for a, b in pairwise(ends)])


def shuffled(table: pa.Table, seed: int) -> pa.Table:
    return table.take(np.random.default_rng(seed).permutation(table.num_rows))


class OnlySums:
    """An engine that can sum and nothing else, over oddly cut rows in an odd order."""

    def __init__(self, table: pa.Table) -> None:
        self.layout = table.schema.remove_metadata()
        self._parts = recut(shuffled(table, 5), [1, 2, table.num_rows // 3])

    def sum(self, function: Callable[[pa.RecordBatch], Any], columns: Any) -> Any:
        read = self._parts.select(list(columns) or self.layout.names[:1])
        return np.sum([function(batch) for batch in read.to_batches()], axis=0)


def parquet_file(table: pa.Table, folder: Path) -> Path:
    pq.write_table(table, folder / "stays.parquet", row_group_size=123)
    return folder / "stays.parquet"


def parquet_folder(table: pa.Table, folder: Path) -> Path:
    (folder / "parts").mkdir()
    for number, (start, rows) in enumerate([(1200, 800), (0, 1), (1, 1199), (0, 0)]):
        pq.write_table(table.slice(start, rows), folder / "parts" / f"{number}.parquet")
    return folder / "parts"


def csv_file(table: pa.Table, folder: Path) -> Path:
    pyarrow.csv.write_csv(table, folder / "stays.csv")
    return folder / "stays.csv"


OPENED: dict[str, Callable[[pa.Table, Path], Any]] = {
    "memory": lambda table, _: open_backend(table)[0],
    "memory in other chunks": lambda table, _: MemoryBackend(recut(table, [1, 1, 64, 65, 700, 1999])),
    "memory shuffled": lambda table, _: MemoryBackend(shuffled(table, 1)),
    "pandas": lambda table, _: open_backend(table.to_pandas())[0],
    "polars": lambda table, _: open_backend(pl.from_arrow(table))[0],
    "parquet file": lambda table, folder: open_backend(parquet_file(table, folder))[0],
    "parquet folder": lambda table, folder: open_backend(parquet_folder(table, folder))[0],
    "csv": lambda table, folder: open_backend(csv_file(table, folder))[0],
    "units of many rows": lambda table, _: UnitBackend(MemoryBackend(table), "patient_id", table.num_rows, KEY),
    "an engine that only sums": lambda table, _: OnlySums(table),
}
BACKENDS = pytest.mark.parametrize("name", OPENED)


def _embedded(chunk: dict[str, Any]) -> Any:
    """Return wide vectors, some longer than the bound, some with holes."""
    numbers = np.column_stack([chunk["age"] / 110, chunk["lactate"], np.log1p(chunk["cost"])])
    return np.hstack([numbers * factor for factor in (0.01, -0.3, 1.0, 7.0)])


def _by_column(chunk: dict[str, Any]) -> Any:
    """Return the same vectors, stored column by column: norms must not depend on how numbers lie in memory."""
    return np.asfortranarray(np.nan_to_num(_embedded(chunk), nan=0.1))


def features(function: Any, *, nonnegative: bool = False) -> Features:
    return Features(
        function=function,
        columns=("age", "lactate", "cost"),
        shape=(12,),
        l2=1.7,
        l1=2.9,
        nonnegative=nonnegative,
    )


WARD, DIED = SCHEMA["ward"].cells(8), SCHEMA["died"].cells(8)
AGES = Features(function=itemgetter("age"), columns=("age",), shape=(1,), l2=60.0, l1=60.0)
"""A function of a row that a worker can import, too."""
CELLS = tuple(column.cells(8) for column in SCHEMA.features)
FRAME = Frame(
    cells=CELLS,
    scores=tuple(tuple(place * 900 // cells.size - 450 for place in range(cells.size)) for cells in CELLS),
    grid=(len(CELLS),),
    kept=tuple(range(0, len(CELLS), 2)),
)


def gradient(label: Any, classes: tuple[int, ...]) -> Gradient:
    cells = (*CELLS, Merged(cells=CELLS[0], groups=tuple(place % 2 for place in range(CELLS[0].size))))
    weights = np.random.default_rng(6).normal(size=(len(classes), sum(each.size for each in cells)))
    return Gradient(label, classes, cells, weights, (1.0, *(0.7,) * (len(classes) - 1)), 0.4)


def wave_gradient(label: Any, classes: tuple[int, ...]) -> WaveGradient:
    return WaveGradient(label, classes, wave_logits(len(classes)), (1.0, *(0.7,) * (len(classes) - 1)), 0.4)


def wave_logits(outputs: int) -> WaveLogits:
    rng, space = np.random.default_rng(8), clusters(None).summed
    weights = rng.normal(size=(outputs, sum(cells.size for cells in CELLS)))
    frequencies = rng.integers(-4096, 4096, (space.width, 5))
    return WaveLogits(space, weights, frequencies, rng.normal(size=(outputs, 10)))


def score_gradient(label: Any) -> ScoreGradient:
    rng = np.random.default_rng(6)
    scores, width = rng.normal(size=(label.size, 2)), sum(cells.size for cells in CELLS)
    return ScoreGradient(label, scores, rng.normal(size=label.size), CELLS, rng.normal(size=(2, width)), 0.8)


def clusters(by: Any) -> ClusterMoments:
    tables = tuple(np.arange(cells.size)[:, None] * 900 // cells.size - 450 for cells in CELLS)
    scores = Scores(CELLS, tables)
    centroids = np.random.default_rng(6).integers(-450, 450, (4, scores.width))
    classes = (0, 0, 1, 1) if by else (0, 0, 0, 0)
    parts = {"space": scores, "centroids": centroids, "classes": classes, "summed": scores, "by": by}
    return ClusterMoments(radius=1.5, weights=(1.0, 1.5), **parts)


def moments(by: Any) -> ClusterMoments:
    return dataclasses.replace(clusters(by), weights=(1.0, 1.0, 0.5))


def embedding(by: Any) -> MeanEmbedding:
    scores = clusters(by).summed
    frequencies = np.random.default_rng(7).integers(-4096, 4096, (scores.width, 3))
    return MeanEmbedding(scores=scores, frequencies=frequencies, by=by)


def slots(by: Any) -> SlotSums:
    inputs = RowVectors.of(SCHEMA.features).columns
    return SlotSums(inputs=inputs, counts=(3, 2) if by else (4,), radius=2.5, by=by)


def score_histogram(outputs: int, cuts: tuple[int, ...] = ()) -> ScoreHistogram:
    rng = np.random.default_rng(6)
    reachable = rng.integers(0, 1 << 31, (12, sum(cells.size for cells in CELLS)))
    return ScoreHistogram(DIED, Trees(CELLS, reachable, rng.integers(-900, 900, (12, 31)), outputs), cuts)


LEAVES: dict[str, list[Query]] = {
    "Count": [Count()],
    "Marginal": [
        Marginal((DIED, WARD)),
        *(Marginal((DIED, column.cells(16))) for column in SCHEMA.features),
    ],
    "Features": [features(_embedded), features(_embedded, nonnegative=True), features(_by_column)],
    "Grouped": [
        Grouped(WARD, Count()),
        Grouped(WARD, Marginal((DIED,))),
        Grouped(SCHEMA["lactate"].cells(4), AGES),
        Grouped(WARD, features(_embedded)),
        Grouped(WARD, features(_by_column)),
    ],
    "ClusterMoments": [clusters(None), moments(None), clusters(DIED), moments(DIED)],
    "MeanEmbedding": [embedding(None), embedding(DIED)],
    "SlotSums": [slots(None), slots(DIED)],
    "Gradient": [gradient(DIED, (0, 1)), gradient(WARD, (0, 1, 2))],
    "WaveGradient": [wave_gradient(DIED, (0, 1)), wave_gradient(WARD, (0, 1, 2))],
    "ScoreGradient": [score_gradient(WARD), score_gradient(SCHEMA["lactate"].cells(4))],
    "ScoreHistogram": [
        score_histogram(1, (-2000, 0, 500)),
        score_histogram(3),
        ScoreHistogram(DIED, wave_logits(1), (-500, 0, 700)),
    ],
    "Lengths": [Lengths(frame=FRAME, edges=(0.5, 1.0, 2.0, 4.0))],
    "Vectors": [Vectors(frame=FRAME, radius=2.0, moment=moment, by=by) for moment in Moment for by in (None, DIED)],
}
EVERY = [query for kind in LEAVES.values() for query in kind]
NETWORK_INPUTS = RowVectors.of(SCHEMA.features).columns
NETWORK = tuple(
    (np.random.default_rng(0).normal(0, 0.3, shape).astype(np.float32), np.zeros(shape[1], np.float32))
    for shape in ((aligned(sum(part.size for part in NETWORK_INPUTS) + DIED.size), 2), (2, 1))
)
ASKED: dict[str, list[Query]] = {
    **LEAVES,
    # On a grid of its own, so in no stack.
    "NetworkGradient": [
        NetworkGradient(function=critic, layers=NETWORK, inputs=NETWORK_INPUTS, label=DIED, l2=0.7, l1=2.0)
    ],
    "Stack": [Stack(tuple(query for query in EVERY if math.isfinite(query.l1))), Stack(tuple(EVERY))],
}


def norms(query: Query) -> list[bool]:
    """Return whether to bound a query in L1: not, and also if it has such a bound."""
    return [False, True] if math.isfinite(query.l1) else [False]


def test_every_kind_of_query_is_asked() -> None:
    modules = [
        importlib.import_module(f"{anonymize.__name__}.{found.name}")
        for found in pkgutil.iter_modules(anonymize.__path__)
    ]
    concrete = {
        name
        for module in modules
        for name, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, Query) and dataclasses.is_dataclass(kind)
    }
    assert concrete == set(ASKED)


def integers(backend: Any, query: Query, *, l1: bool) -> Any:
    """Return a backend's exact sum in grid steps."""
    step = grid_step(query, Norm.L1 if l1 else Norm.L2)

    def row_sum(batch: pa.RecordBatch) -> Any:
        return clipped_sum(
            query, Rows(codec.encode(batch, SCHEMA), batch.num_rows), step=step, norm=Norm.L1 if l1 else Norm.L2
        )

    return backend.sum(row_sum, query.columns)


def one_by_one(table: pa.Table) -> MemoryBackend:
    return MemoryBackend(recut(table, list(range(1, table.num_rows))))


@BACKENDS
@pytest.mark.parametrize("l1", [False, True], ids=["l2", "l1"])
def test_sums_are_equal_to_the_bit(name: str, l1: bool, tmp_path: Path) -> None:
    backend, plain = OPENED[name](TABLE, tmp_path), MemoryBackend(TABLE)
    query = next(stack for stack in reversed(ASKED["Stack"]) if l1 in norms(stack))
    found, expected = integers(backend, query, l1=l1), integers(plain, query, l1=l1)
    assert found.dtype == np.int64
    assert np.count_nonzero(expected) > len(expected) // 2
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", ASKED)
def test_sums_of_single_rows_add_up_to_the_sum_of_all(kind: str) -> None:
    rows = TABLE.slice(0, 60)
    for query in ASKED[kind]:
        for l1 in norms(query):
            np.testing.assert_array_equal(
                integers(one_by_one(rows), query, l1=l1), integers(MemoryBackend(rows), query, l1=l1), str(query)
            )


@BACKENDS
def test_the_door_gives_equal_answers(name: str, tmp_path: Path) -> None:
    def answers(data: Any) -> list[Any]:
        plan = Plan.calibrate(Budget(1.0), [Step(name=kind, weight=1.0) for kind in ASKED])
        table = open_table(data, schema=SCHEMA, budget=Budget(1.0), noise=SilentNoise())
        return [table.measure(asked[-1], plan[kind]).value for kind, asked in ASKED.items()]

    for found, expected in zip(answers(OPENED[name](TABLE, tmp_path)), answers(TABLE), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_counts_are_those_of_the_rows() -> None:
    """The backends do not merely agree with one another: they are right."""
    counts = integers(MemoryBackend(TABLE), Marginal((DIED, WARD)), l1=False) * step_of(1.0)
    died, ward = TABLE.column("died").to_pylist(), TABLE.column("ward").to_pylist()
    expected = [
        sum(d is death and w == name for d, w in zip(died, ward, strict=True))
        for death in (False, True)
        for name in hospital.WARDS
    ]
    np.testing.assert_array_equal(counts, expected)


@pytest.mark.parametrize("kind", NASTY_QUERIES, ids=lambda kind: kind.__name__)
@settings(
    max_examples=25,
    deadline=None,
    # Rows of this size shrink for minutes and end up no clearer.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_any_rows_cut_anywhere_have_the_same_sum(kind: type, data: st.DataObject) -> None:
    table = nasty_table(data.draw(st.lists(ROWS, min_size=1, max_size=8)))
    query = data.draw(NASTY_QUERIES[kind])
    cuts = data.draw(st.lists(st.integers(0, table.num_rows), max_size=4))
    order = data.draw(st.permutations(range(table.num_rows)))
    step = grid_step(query, Norm.L2)

    def row_sum(batch: pa.RecordBatch) -> Any:
        return clipped_sum(query, Rows(codec.encode(batch, NASTY_SCHEMA), batch.num_rows), step=step, norm=Norm.L2)

    parts = MemoryBackend(recut(table.take(order), cuts))
    np.testing.assert_array_equal(parts.sum(row_sum, query.columns), MemoryBackend(table).sum(row_sum, query.columns))


def test_a_grouping_column_may_be_summed_too() -> None:
    lactate = SCHEMA["lactate"]
    own = Features(function=itemgetter("lactate"), columns=("lactate",), shape=(1,), l2=20.0)
    grouped = Grouped(lactate.cells(4), own)
    assert sorted(grouped.columns) == ["lactate"]
    sums = integers(MemoryBackend(TABLE), grouped, l1=False).reshape(grouped.shape)
    np.testing.assert_array_equal(sums.sum(axis=0), integers(MemoryBackend(TABLE), own, l1=False))


def test_a_row_adds_the_same_wherever_its_numbers_lie_in_memory() -> None:
    """A function may return its vectors column by column, but a row alone always lies in one piece.

    Rounded norms differ where numbers are added in another order, which shows only if a clipped number is next to a
    grid point. Bounds are chosen here so that one is.
    """
    vectors = np.random.default_rng(0).random((40, 50))
    vectors[:, 0] = 1.0
    for row in range(39):
        on_grid = (2**27 + row) * step_of(1.0)
        nearest = on_grid * math.sqrt(math.fsum(vectors[row] ** 2)) / SHRINK
        for bound in nearest * (1 + np.arange(-4, 5) * 2.0**-52):
            query = Features(
                function=lambda chunk: np.asfortranarray(vectors[chunk["row"]]), columns=(), shape=(50,), l2=bound
            )
            rows, step = np.array([row, row + 1]), step_of(bound)
            together = clipped_sum(query, Rows({"row": rows}, 2), step=step, norm=Norm.L2)
            apart = sum(clipped_sum(query, Rows({"row": one}, 1), step=step, norm=Norm.L2) for one in rows[:, None])
            np.testing.assert_array_equal(together, apart)


@BACKENDS
def test_infinities_are_clipped_everywhere(name: str, tmp_path: Path) -> None:
    """A file of text writes them as inf, which is no less a number there."""
    spread = [math.inf, -math.inf, math.inf, 50.0, None]
    table = TABLE.set_column(
        TABLE.schema.get_field_index("cost"), "cost", pa.array((spread * TABLE.num_rows)[: TABLE.num_rows])
    )
    cost = Marginal((SCHEMA["cost"].cells(4),))
    found = integers(OPENED[name](table, tmp_path), cost, l1=False) * step_of(1.0)
    # The column cannot be missing, as its schema says, so a missing value counts in the middle.
    each = TABLE.num_rows // len(spread)
    np.testing.assert_array_equal(found, [0, 2 * each, 0, each, 2 * each])


def test_the_sum_over_no_rows_is_zero() -> None:
    for asked in ASKED.values():
        for query in asked:
            found = integers(MemoryBackend(TABLE.slice(0, 0)), query, l1=False)
            np.testing.assert_array_equal(found, np.zeros(query.size, np.int64))


@BACKENDS
def test_only_the_columns_asked_for_are_read(name: str, tmp_path: Path) -> None:
    backend = OPENED[name](TABLE, tmp_path)
    seen: set[tuple[str, ...]] = set()

    def row_sum(batch: pa.RecordBatch) -> Any:
        seen.add(tuple(sorted(batch.schema.names)))
        return np.array([batch.num_rows])

    assert backend.sum(row_sum, ["ward", "age"]) == [TABLE.num_rows]
    assert seen == {("age", "ward")}


def test_parquet_does_not_touch_other_columns(tmp_path: Path) -> None:
    """Columns nobody asked for are not even read from disk: here they hold garbage."""
    path = parquet_file(TABLE, tmp_path)
    content = bytearray(path.read_bytes())
    groups = pq.ParquetFile(path).metadata
    for group in (groups.row_group(number) for number in range(groups.num_row_groups)):
        for column in (group.column(number) for number in range(group.num_columns)):
            if column.path_in_schema != "age":
                start = column.dictionary_page_offset or column.data_page_offset
                content[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(content)
    spoilt = open_backend(path)[0]
    age = Marginal((SCHEMA["age"].cells(16),))
    np.testing.assert_array_equal(integers(spoilt, age, l1=False), integers(MemoryBackend(TABLE), age, l1=False))
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        integers(spoilt, Marginal((WARD,)), l1=False)


@pytest.mark.parametrize("name", [name for name in OPENED if name != "an engine that only sums"])
def test_more_rows_than_sums_can_hold_are_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = OPENED[name](TABLE, tmp_path)
    monkeypatch.setattr(base, "MAX_ROWS", TABLE.num_rows)
    assert integers(backend, Count(), l1=False) == [TABLE.num_rows << 30]
    monkeypatch.setattr(base, "MAX_ROWS", TABLE.num_rows - 1)
    with pytest.raises(InputError, match=r"^the table has more rows than the 1,999 whose sums stay exact; split it$"):
        integers(backend, Count(), l1=False)


def test_the_limit_of_rows_keeps_sums_within_int64() -> None:
    assert base.MAX_ROWS * 2**BITS < 2**63


SAME_ROWS = [name for name in OPENED if name not in ("csv", "pandas", "polars")]


@pytest.mark.parametrize("name", SAME_ROWS)
def test_the_fingerprint_is_of_the_rows_not_of_their_order_or_partition(name: str, tmp_path: Path) -> None:
    assert fingerprint(OPENED[name](TABLE, tmp_path), KEY) == fingerprint(MemoryBackend(TABLE), KEY)


def test_the_fingerprint_of_a_csv_file_does_not_depend_on_the_order_of_its_lines(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    ordered, mixed = (
        open_backend(csv_file(table, folder))[0]
        for table, folder in ((TABLE, tmp_path), (shuffled(TABLE, 2), tmp_path / "other"))
    )
    assert fingerprint(ordered, KEY) == fingerprint(mixed, KEY)


def test_the_fingerprint_depends_on_the_key() -> None:
    backend = MemoryBackend(TABLE)
    assert fingerprint(backend, KEY) != fingerprint(backend, OTHER_KEY)
    assert fingerprint(backend, KEY) == fingerprint(backend, KEY)


SMALL = TABLE.slice(0, 30)
FEW = settings(max_examples=40, deadline=None)


@FEW
@given(st.sampled_from(SMALL.schema.names), st.integers(0, 29), st.integers(0, 29))
def test_the_fingerprint_changes_with_any_value(column: str, row: int, other: int) -> None:
    values = SMALL.column(column).to_pylist()
    changed = [values[other] if place == row else value for place, value in enumerate(values)]
    missing = [None if place == row else value for place, value in enumerate(values)]
    place = SMALL.schema.get_field_index(column)
    for new in (changed, missing):
        table = SMALL.set_column(place, SMALL.schema.field(column), pa.array(new, SMALL.schema.field(column).type))
        same = fingerprint(MemoryBackend(table), KEY) == fingerprint(MemoryBackend(SMALL), KEY)
        assert same == (new == values)


@FEW
@given(st.sets(st.integers(0, 29), min_size=1, max_size=3), st.booleans())
def test_the_fingerprint_changes_with_a_row_more_or_less(rows: set[int], more: bool) -> None:
    chosen = [place for place in range(30) if place not in rows] if not more else [*range(30), *rows]
    assert fingerprint(MemoryBackend(SMALL.take(chosen)), KEY) != fingerprint(MemoryBackend(SMALL), KEY)


def test_the_fingerprint_changes_when_two_rows_swap_a_value() -> None:
    """The columns' values stay the same, the rows do not."""
    ages = SMALL.column("age").to_pylist()
    first, second = 0, next(place for place, age in enumerate(ages) if age != ages[0])
    ages[first], ages[second] = ages[second], ages[first]
    place = SMALL.schema.get_field_index("age")
    swapped = SMALL.set_column(place, SMALL.schema.field("age"), pa.array(ages, pa.int16()))
    assert fingerprint(MemoryBackend(swapped), KEY) != fingerprint(MemoryBackend(SMALL), KEY)


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), pa.timestamp("ns"), pa.decimal128(30, 3)], ids=str)
def test_the_fingerprint_sees_the_last_digit_of_large_numbers(kind: pa.DataType) -> None:
    large = pa.array([2**60, 2**60, 2**60 + 1], pa.int64())
    values = large.cast(kind) if not pa.types.is_decimal(kind) else large.cast(pa.decimal128(22, 0)).cast(kind)
    tables = [pa.table({"number": values.take(rows), "label": ["a", "b"]}) for rows in ([0, 1], [0, 2])]
    first, second = (fingerprint(MemoryBackend(table), KEY) for table in tables)
    assert first != second


def test_values_are_counted_alike_everywhere(tmp_path: Path) -> None:
    expected = {
        column: {
            value: count for value, count in Counter(TABLE.column(column).to_pylist()).items() if value is not None
        }
        for column in ("ward", "insurance")
    }
    for number, (name, opened) in enumerate(OPENED.items()):
        if name != "an engine that only sums":
            (tmp_path / str(number)).mkdir()
            backend = opened(TABLE, tmp_path / str(number))
            assert {column: dict(backend.count_values(column)) for column in expected} == expected, name
