"""The law of engines: a release is the same to the bit in memory, from files, on Dask and on Spark, however cut."""

import functools
import json
from typing import Any

import pyarrow.parquet as pq
import pytest
from engine_laws import (
    PARTITIONS,
    SCHEMA,
    TABLE,
    expected,
    kept,
    recut_in_memory,
    release,
    samples,
    sums,
    values,
    written,
)

from threea import publish
from threea.anonymize.open_table import open_table
from threea.budget import Budget
from threea.drawing import CHUNK_ROWS
from threea.recipes import Independent, LabelTree
from threea.testing import SilentNoise

SIMPLE = (sums, kept, samples, values)
found = functools.partial(release, Independent())
chosen = functools.partial(release, LabelTree())


@pytest.fixture(scope="module")
def dask() -> Any:
    distributed = pytest.importorskip("distributed", reason="needs the extra dask")
    options = {"processes": False, "n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with distributed.Client(**options, set_as_default=False) as client:
        yield {"engine": "dask", "cluster": client}


@pytest.mark.parametrize("parts", PARTITIONS)
@pytest.mark.parametrize("law", SIMPLE)
def test_files_are_as_memory(law: Any, parts: int, tmp_path: Any) -> None:
    assert law(written(TABLE, tmp_path, parts), engine="files") == expected(law)
    assert law(recut_in_memory(TABLE, parts)) == expected(law)


@pytest.mark.parametrize("parts", PARTITIONS)
@pytest.mark.parametrize("law", SIMPLE)
def test_dask_is_as_memory(law: Any, parts: int, dask: Any, tmp_path: Any) -> None:
    assert law(written(TABLE, tmp_path, parts), **dask) == expected(law)


@pytest.mark.parametrize("parts", [1, 7])
def test_a_release_on_dask_is_the_one_from_memory(parts: int, dask: Any, tmp_path: Any) -> None:
    assert found(written(TABLE, tmp_path, parts), **dask).equals(expected(found))


def test_a_private_choice_on_dask_is_the_one_from_memory(dask: Any, tmp_path: Any) -> None:
    assert chosen(written(TABLE, tmp_path, 5), **dask).equals(expected(chosen))


def test_a_dask_dataframe_is_as_its_pandas_frame(dask: Any) -> None:
    frames = pytest.importorskip("dask.dataframe", reason="needs dask.dataframe")
    text = TABLE.drop_columns(["ventilated"]).to_pandas()
    several = frames.from_pandas(text, npartitions=4, sort=False)
    for law in (kept, values):
        assert law(several, cluster=dask["cluster"]) == law(text)


# Compiling code takes Java longer than running it does on so few rows.
LIGHT_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
LIGHT_SPARK = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support:FutureWarning")
def test_spark_is_as_memory(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One test, so that one session is started."""
    pytest.importorskip("pyspark", reason="needs the extra spark")
    from threea.backends.spark_engine import session

    monkeypatch.setenv("JAVA_TOOL_OPTIONS", LIGHT_JAVA)
    spark = session(None, 1)
    for name, value in LIGHT_SPARK.items():
        spark.conf.set(name, value)
    cluster = {"engine": "spark", "cluster": spark}
    try:
        for parts, laws in ((1, (sums,)), (4, SIMPLE)):
            folder = written(TABLE, tmp_path, parts)
            for law in laws:
                assert law(folder, **cluster) == expected(law), (law, parts)
        assert found(folder, **cluster).equals(expected(found))
        frame = spark.createDataFrame(TABLE).repartition(3)
        for law in (kept, samples):
            assert law(frame) == expected(law), law
    finally:
        spark.stop()


def test_a_large_table_is_a_folder_of_files_the_same_wherever_they_are_drawn(
    dask: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, rows in (("PARTS_ABOVE", 2_000), ("PART_ROWS", 2 * CHUNK_ROWS)):
        monkeypatch.setattr(publish, name, rows)
    options = {"schema": SCHEMA, "budget": Budget(1.0), "noise": SilentNoise()}
    table = open_table(written(TABLE, tmp_path, 3), **options, **dask)
    made = Independent().run(table, rows=2 * CHUNK_ROWS + 500, seed=3)
    here, there = tmp_path / "here", tmp_path / "there"
    publish.write(made, publish.claim(here))
    assert table.elsewhere is not None
    publish.write(made, publish.claim(there), elsewhere=table.elsewhere)
    names = [path.name for path in sorted((here / "synthetic.parquet").iterdir())]
    assert names == ["part-00000.parquet", "part-00001.parquet"]
    for name in names:
        both = [(folder / "synthetic.parquet" / name).read_bytes() for folder in (here, there)]
        assert both[0] == both[1]
    assert pq.read_table(there / "synthetic.parquet").equals(made.table)
    certificate = json.loads((there / "certificate.json").read_text())
    assert certificate["synthetic_sha256"] == publish.digest_of(here / "synthetic.parquet")
    assert open_table(TABLE, **options).elsewhere is None
