"""The readers' law on Spark: a row more in a DataFrame is a row more at the door, in whatever order its rows come."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine_laws import KEY, TABLE, expected, kept, samples
from reader_law import check_refusal
from test_engines import LIGHT_JAVA, LIGHT_SPARK

from threea import hospital
from threea.anonymize.open_table import _Marks, open_table
from threea.backends import open_engine
from threea.budget import Budget
from threea.errors import InputError
from threea.ledger import Ledger

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support:FutureWarning")


@pytest.fixture(scope="module")
def spark() -> Any:
    pytest.importorskip("pyspark", reason="needs the extra spark")
    from threea.backends.spark_engine import session

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", LIGHT_JAVA)
        spark = session(None, 1)
        for name, value in LIGHT_SPARK.items():
            spark.conf.set(name, value)
        yield spark
        spark.stop()


def marks(backend: Any) -> tuple[int, ...]:
    """Return a sum over rows that tells which rows they are, whatever their order."""
    return tuple(int(mark) for mark in backend.sum(_Marks(KEY), backend.layout.names).view(np.uint64))


SPARK_ROWS = pa.table(
    {
        "id": pa.array([10**16 + 1, 10**16 + 2, None, 4], pa.int64()),
        "price": pa.array([decimal.Decimal(cents).scaleb(-2) for cents in (110, 200, 0, -1)], pa.decimal128(9, 2)),
        "seen": pa.array([0, 1, None, 2**40], pa.timestamp("us", "Europe/Paris")),
        "local": pa.array([0, 1, None, 2**40], pa.timestamp("us")),
        "day": pa.array([0, 1, None, 20_000], pa.date32()),
        "word": ["a", "01", None, "1.0"],
        "share": pa.array([0.5, -0.0, None, 1e300], pa.float32()),
        "truth": [True, False, None, True],
    }
)
SPARK_ODD = (
    {"id": None, "price": None, "seen": None, "local": None, "day": None, "word": None, "share": None, "truth": None},
    {"id": 2**63 - 1, "word": "zzzz", "share": float("inf"), "day": datetime.date(9999, 12, 31)},
    {"id": -(2**63), "word": "", "share": float("nan"), "price": decimal.Decimal("9999999.99")},
)


def test_a_row_more_in_a_spark_frame_is_a_row_more(spark: Any) -> None:
    """Spark's types are the frame's, not a partition's: sums of the rows' hashes differ by that row's."""
    without, _ = open_engine(spark.createDataFrame(SPARK_ROWS).repartition(2))
    for cells in SPARK_ODD:
        row = pa.Table.from_pylist([cells], SPARK_ROWS.schema)
        more, _ = open_engine(spark.createDataFrame(pa.concat_tables([SPARK_ROWS, row])).repartition(2))
        alone, _ = open_engine(spark.createDataFrame(row))
        assert more.layout.equals(without.layout, check_metadata=True)
        sums = zip(marks(without), marks(alone), marks(more), strict=True)
        assert all((a + b - c) % 2**64 == 0 for a, b, c in sums)


def test_a_spark_frame_whose_rows_come_in_another_order_each_time_is_read(spark: Any) -> None:
    """As any that was shuffled does, on two executors: until now after its first charge it was refused."""

    def shuffled(batches: Any) -> Any:
        import numpy
        import pyarrow

        rows = pyarrow.Table.from_batches(batches)
        yield from rows.take(numpy.random.default_rng().permutation(rows.num_rows)).to_batches()

    frame = spark.createDataFrame(TABLE)
    frame = frame.repartition(3).mapInArrow(shuffled, frame.schema)
    for law in (kept, samples):
        assert law(frame) == expected(law), law


def test_a_spark_frame_whose_rows_change_parts_is_refused_before_the_first_charge(spark: Any) -> None:
    from pyspark.sql import functions

    frame = spark.createDataFrame(TABLE)
    # No two passes agree on it.
    frame = frame.where(functions.udf(lambda _: __import__("random").random() < 0.5, "boolean")("age"))
    ledger = Ledger()
    with pytest.raises(InputError, match=r"^the table has other rows than when it was opened;"):
        open_table(frame, schema=hospital.schema(), budget=Budget(1.0), unit="patient_id", ledger=ledger)
    assert not list(ledger.releases())


def test_a_column_is_dropped_whatever_the_names_of_others_mean_to_spark(spark: Any) -> None:
    frame = spark.sql("SELECT 1 AS `a.b`, 2 AS `c``d`, 3 AS e, 4 AS f")
    assert open_engine(frame, drop=["e"])[0].layout.names == ["a.b", "c`d", "f"]


def test_spark_types_that_no_schema_describes_are_refused_all_at_once(spark: Any) -> None:
    frame = spark.sql("SELECT 1 AS a, array(1) AS b, named_struct('x', 1) AS c, map(1, 2) AS d, x'00' AS e, 'u' AS f")
    said = r"^columns b \(array<int>\), c \(struct<x:int>\), d \(map<int,int>\), e \(binary\) have types that are not"
    with pytest.raises(InputError, match=said):
        open_engine(frame)
    assert open_engine(frame, drop=["b", "c", "d", "e"])[0].layout.names == ["a", "f"]


@pytest.mark.parametrize("other", [pa.float64(), pa.string(), pa.int32()])
def test_files_that_differ_in_type_change_no_other_row_of_a_spark_frame(spark: Any, tmp_path: Path, other: Any) -> None:
    """Spark reads all with one schema: what is exact is read, and anything else ends the pass."""
    without_any = tmp_path / "0.parquet"
    pq.write_table(pa.table({"id": pa.array([10**16 + 1, 2]), "x": [0.5, 1]}), without_any)
    more = tmp_path / "1.parquet"
    pq.write_table(pa.table({"id": pa.array(["7777"]).cast(other), "x": [0.5]}), more)
    backend, _ = open_engine(spark.read.schema("id long, x double").parquet(str(without_any), str(more)))
    before = marks(open_engine(spark.read.parquet(str(without_any)))[0])
    row = marks(open_engine(pa.table({"id": pa.array([7777]), "x": [0.5]}))[0])
    if other == pa.int32():
        assert all((a + b - c) % 2**64 == 0 for a, b, c in zip(before, row, marks(backend), strict=True))
        return
    with pytest.raises(InputError, match=r"^Spark could not finish its work") as refusal:
        marks(backend)
    check_refusal(refusal.value, [7777, 10**16 + 1])


def test_a_word_in_a_csv_file_that_spark_reads_is_missing_in_its_row_alone(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "0.csv").write_text("id,x\n1,0.5\n2,3\n")
    reader = spark.read.schema("id long, x double").option("header", True)
    without, _ = open_engine(reader.csv(str(tmp_path)))
    before = marks(without)
    (tmp_path / "1.csv").write_text("id,x\nzzzz,1\n")
    alone, _ = open_engine(reader.csv(str(tmp_path / "1.csv")))
    more, _ = open_engine(reader.csv(str(tmp_path)))
    assert all((a + b - c) % 2**64 == 0 for a, b, c in zip(before, marks(alone), marks(more), strict=True))
