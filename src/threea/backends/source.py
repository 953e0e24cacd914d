"""From what users hold (a path, a pandas, polars or Arrow table) to a backend, and back to what they hold."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa

from threea.backends import frames, objects
from threea.backends.base import Engine, RowBackend
from threea.backends.cluster import ClusterBackend
from threea.backends.dialect import Dialect
from threea.backends.excel import open_excel
from threea.backends.files import CsvBackend, ParquetBackend
from threea.backends.frames import Frame
from threea.backends.memory import MemoryBackend
from threea.errors import InputError, SettingError
from threea.table.column_names import not_a_column, repeated_names, shown
from threea.table.dialect import EXCEL, TEXT, said
from threea.table.layout import declared, undeclared
from threea.table.supported import convert_or_drop, refuse_unsupported

ENGINES = ("memory", "files", "dask", "spark")
DISTRIBUTED = {"dask": "dask", "pyspark": "spark"}
"""Engines elsewhere, by the package that a frame of theirs comes from."""


def open_backend(
    data: Any, dialect: Dialect | None = None, ids: Collection[str] = (), drop: Collection[str] = ()
) -> tuple[RowBackend, Frame]:
    """Open a table in this process.

    Args:
        data: A path to CSV, Parquet (a file or a folder) or Excel, or a pandas, polars or Arrow table.
        dialect: How a CSV file is written, or which sheet to read; what it does not say is found in the header line.
        ids: Columns of text files and sheets whose values name something, handed over as the text that came.
        drop: Columns that are not read.

    Returns:
        The rows, and what a release needs to know to be handed back as such a table.

    Raises:
        InputError: It is none of these, cannot be read, or repeats a column's name.
        SettingError: A dialect was given for something else than a CSV file, or there is no such column to drop.
    """
    backend, frame = _opened(_without(data, drop), dialect, ids, drop)
    _check_columns(backend, dialect)
    return backend, frame


def open_engine(
    data: Any,
    dialect: Dialect | None = None,
    engine: str | None = None,
    cluster: Any = None,
    workers: int | None = None,
    ids: Collection[str] = (),
    drop: Collection[str] = (),
) -> tuple[Engine, Frame]:
    """Open a table on an engine.

    Args:
        data: As of `open_backend`, or a Dask or Spark DataFrame.
        dialect: As of `open_backend`.
        engine: Who reads the rows, one of `ENGINES`; by default this process, or the cluster that a frame is on.
        cluster: Where that engine runs, if it is elsewhere: an address, or a client or session of it.
        workers: How many workers to start here, if none run elsewhere.
        ids: As of `open_backend`.
        drop: As of `open_backend`.

    Raises:
        InputError: As of `open_backend`, or the cluster does not answer or cannot run threea.
        MissingExtra: The engine is not installed.
        SettingError: As of `open_backend`, or the engine cannot read such a table.
    """
    backend, frame = _on_engine(_without(data, drop), dialect, engine, cluster, workers, ids, drop)
    _check_columns(backend, dialect)
    return backend, frame


def _check_columns(backend: Engine, dialect: Dialect | None) -> None:
    text = getattr(backend, "dialect", None) is not None
    if said(dialect) and not text:
        raise SettingError(
            f"{said(dialect)}: these describe CSV or Excel files, and the data is neither; leave them out"
        )
    names = backend.layout.names
    if len(set(names)) != len(names):
        raise InputError(f"columns {repeated_names(names)} appear more than once; rename them")
    if len(names) < 2:
        remedy = "; if commas do not separate its values, see --separator" if text else ""
        raise InputError(f"the table has {len(names)} column; at least 2 are needed, a feature and a target{remedy}")


def _on_engine(
    data: Any,
    dialect: Dialect | None,
    engine: str | None,
    cluster: Any,
    workers: int | None,
    ids: Collection[str],
    drop: Collection[str],
) -> tuple[Engine, Frame]:
    """Open a table on the engine that is asked for, or that it is on already."""
    path = isinstance(data, str | PathLike)
    home = DISTRIBUTED.get(type(data).__module__.split(".")[0]) if type(data).__name__ == "DataFrame" else None
    chosen = engine or home or ("files" if path else "memory")
    if chosen not in ENGINES:
        raise SettingError(f"engine ({chosen}) must be one of {', '.join(ENGINES)}")
    if workers is not None and workers < 1:
        raise SettingError(f"workers ({workers}) must be at least 1")
    for name, value in (("cluster", cluster), ("workers", workers)):
        if value is not None and chosen not in DISTRIBUTED.values():
            raise SettingError(f"{name} ({value}) needs an engine on a cluster; add --engine dask or --engine spark")
    fits = chosen == home if home else path or chosen == "memory"
    if not fits:
        kind = type(data).__name__
        raise SettingError(f"engine ({chosen}) cannot read this {kind}; give it Parquet files, or leave engine out")
    if chosen == "dask":
        return _on_dask(data, cluster, workers, drop)
    if chosen == "spark":
        return _on_spark(data, cluster, workers, drop)
    opened, frame = _opened(data, dialect, ids, drop)
    if path and chosen == "memory":
        return _read_whole(opened), frame
    return opened, frame


def _read_whole(backend: RowBackend) -> RowBackend:
    """Return the same rows in memory, described as their file describes them."""
    return MemoryBackend(backend.table(), backend.layout, getattr(backend, "dialect", None))


def _parquet(data: str | PathLike[str], engine: str, drop: Collection[str]) -> ParquetBackend:
    opened = _open_path(_readable(data), None, drop=drop)
    if not isinstance(opened, ParquetBackend):
        raise InputError(f"{data}: engine {engine} reads Parquet, which many can read at once; convert the file")
    return opened


def _on_dask(data: Any, cluster: Any, workers: int | None, drop: Collection[str]) -> tuple[Engine, Frame]:
    from threea.backends import dask_engine
    from threea.backends.partitions import Declared

    if isinstance(data, str | PathLike):
        opened = _parquet(data, "dask", drop)
        client, close = dask_engine.connect(cluster, workers)
        parts = opened.parts(len(client.scheduler_info(n_workers=-1)["workers"]))
        hands = dask_engine.DaskWorkers(client, parts, opened.layout, close=close)
        return ClusterBackend(hands, opened.layout, opened.unchanged), Frame()
    described, frame = _open_pandas(data._meta)  # noqa: SLF001  # Dask's own name for it, and stable
    client, close = dask_engine.connect(cluster, workers)
    read = Declared(data._meta, described.layout, _pandas_array)  # noqa: SLF001
    hands = dask_engine.DaskWorkers(client, data.to_delayed(), described.layout, read, close)
    return ClusterBackend(hands, described.layout), frame


def _on_spark(data: Any, cluster: Any, workers: int | None, drop: Collection[str]) -> tuple[Engine, Frame]:
    from threea.backends import spark_engine

    if isinstance(data, str | PathLike):
        opened = _parquet(data, "spark", drop)
        spark = spark_engine.session(cluster, workers)
        parts = opened.parts(spark.sparkContext.defaultParallelism)
        hands = spark_engine.SparkWorkers(spark, opened.layout, parts)
        return ClusterBackend(hands, opened.layout, opened.unchanged), Frame()
    layout = declared(spark_engine.layout_of(data))
    hands = spark_engine.SparkWorkers(data.sparkSession, layout, frame=data)
    return ClusterBackend(hands, layout), Frame()


def _opened(
    data: Any, dialect: Dialect | None, ids: Collection[str], drop: Collection[str]
) -> tuple[RowBackend, Frame]:
    if isinstance(data, str | PathLike):
        return _open_path(_readable(data), dialect, ids, drop), Frame()
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return MemoryBackend(_valid(data), data.schema), Frame()
    module = type(data).__module__.split(".")[0]
    if module == "pandas" and type(data).__name__ == "DataFrame":
        return _open_pandas(data)
    if module == "polars" and type(data).__name__ == "DataFrame":
        return _open_polars(data)
    raise InputError(f"data ({type(data).__name__}) must be a path or a pandas, polars or Arrow table")


def _valid(table: pa.Table) -> pa.Table:
    problem = False
    try:
        table.validate(full=True)
    except pa.ArrowInvalid:
        problem = True
    if problem:
        # Arrow's message would quote a value.
        raise InputError("the Arrow table is not valid, or holds text that is not UTF-8; mend it")
    return table


def _readable(data: str | PathLike[str]) -> Path:
    """Return a path that leads to something, or say in one line why it does not."""
    path = Path(data)
    try:
        str(path).encode()
        empty = path.stat().st_size == 0 and not path.is_dir()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; check the path") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}; check the path and its permissions") from None
    except ValueError:
        raise InputError(f"{str(path)!a}: the path is not UTF-8, or holds a null; rename the file") from None
    if empty:
        raise InputError(f"{path} is empty; give a CSV, Parquet or Excel file with rows")
    return path


def _without(data: Any, drop: Collection[str]) -> Any:
    """Return a frame without some columns; of a file, they are left out where it is opened."""
    if not drop or not (isinstance(data, pa.Table | pa.RecordBatch) or hasattr(data, "columns")):
        return data
    labels = data.schema.names if isinstance(data, pa.Table | pa.RecordBatch) else list(data.columns)
    _refuse_unknown(drop, [str(label) for label in labels])
    kept = [number for number, label in enumerate(labels) if str(label) not in drop]
    if isinstance(data, pa.Table | pa.RecordBatch):
        # By number, for two may have one name: that is refused later, in a line.
        return data.select(kept)
    columns = [labels[number] for number in kept]
    if hasattr(data, "sparkSession"):
        # Of a bare name Spark takes what stands before a point for the column.
        columns = [f"`{name.replace('`', '``')}`" for name in columns]
    return data.select(columns) if hasattr(data, "select") else data[columns]


def _refuse_unknown(drop: Collection[str], names: Collection[str]) -> None:
    for name in drop:
        if name not in names:
            raise SettingError(not_a_column("drop", name, list(names)))


def _open_path(
    path: Path, dialect: Dialect | None, ids: Collection[str] = (), drop: Collection[str] = ()
) -> RowBackend:
    backend = _backend_of(path, dialect, ids)
    if drop:
        _refuse_unknown(drop, backend.layout.names)
        # Whoever reads rows asks for columns of the layout.
        backend.layout = pa.schema([field for field in backend.layout if field.name not in drop])
    return backend


def _backend_of(path: Path, dialect: Dialect | None, ids: Collection[str]) -> RowBackend:
    if path.is_dir():
        return ParquetBackend(path)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] in ([".parquet"], [".pq"]):
        return ParquetBackend(path)
    if suffixes[-1:] and suffixes[-1] in EXCEL:
        return open_excel(path, dialect, ids)
    if set(TEXT) & set(suffixes[-2:]):
        if dialect is not None and dialect.sheet is not None:
            raise SettingError(f"sheet ({dialect.sheet}) is of an Excel file, and the data is a CSV file; leave it out")
        return CsvBackend(path, dialect, ids)
    raise InputError(f"{path} must end in .csv, .csv.gz, .tsv, .parquet, .pq or .xlsx, or be a folder of Parquet files")


def _open_pandas(frame: Any) -> tuple[RowBackend, Frame]:
    labels = list(frame.columns)
    names = [str(label) for label in labels]
    if len(set(names)) != len(names):
        return MemoryBackend(pa.table([pa.nulls(0)] * len(names), names=names)), Frame()
    series = dict(zip(names, (frame[label] for label in labels), strict=True))
    fields = _fields({name: _pandas_type(name, column) for name, column in series.items()}, series)
    arrays = _arrays({name: _pandas_array(column, fields.field(name)) for name, column in series.items()})
    kept = Frame("pandas", tuple(labels), {name: _dtype_name(column.dtype) for name, column in series.items()})
    return MemoryBackend(pa.Table.from_arrays(arrays, names=names), fields), kept


def _fields(fields: Mapping[str, pa.Field | None], series: Mapping[str, Any]) -> pa.Schema:
    """Return a frame's columns as Arrow has them; refuse all that it has not, before any value is looked at."""
    # A dtype's own text may hold values, such as what a sparse column leaves out.
    kinds = {name: series[name].dtype for name, field in fields.items() if field is None}
    unknown = {name: str(kind) if _is_numpy(kind) else type(kind).__name__ for name, kind in kinds.items()}
    known = pa.schema([field for field in fields.values() if field is not None])
    if unknown:
        refuse_unsupported(known, unknown)
    return known


def _arrays(arrays: Mapping[str, Any]) -> list[Any]:
    """Return columns that could be converted; refuse those that could not, all at once."""
    names = [name for name, array in arrays.items() if array is None]
    if names:
        what = "column {} holds" if len(names) == 1 else "columns {} hold"
        raise InputError(
            f"{what.format(shown(names))} objects that are no text, numbers, truth values or dates, or text that is "
            f"not UTF-8; {convert_or_drop(names)}"
        )
    return list(arrays.values())


def _pandas_type(name: str, series: Any) -> pa.Field | None:
    """Return the field of a column by its dtype alone; None if Arrow has no such type."""
    dtype = series.dtype
    if _dtype_name(dtype) == frames.OBJECT:
        return undeclared(name)
    if _dtype_name(dtype) == frames.CATEGORY:
        # Whatever the categories are, for one more may make others of all.
        return pa.field(name, pa.dictionary(pa.int32(), pa.string()))
    try:
        kind = pa.Array.from_pandas(series.iloc[:0]).type
    except (pa.ArrowException, TypeError, ValueError):
        return None
    # NumPy's integers and booleans cannot be missing.
    return pa.field(name, kind, nullable=not (_is_numpy(dtype) and dtype.kind in "iub"))


def _dtype_name(dtype: Any) -> str:
    """Name a dtype by what it declares, without a category."""
    name = type(dtype).__name__
    known = {"CategoricalDtype": frames.CATEGORY, "ArrowDtype": frames.ARROW_DTYPE}
    return known.get(name, str(dtype))


def _is_numpy(dtype: Any) -> bool:
    return type(dtype).__module__.split(".")[0] == "numpy"


def _pandas_array(series: Any, field: pa.Field) -> Any:
    """Return a column's values in the type of its field; None if some cannot be."""
    name = _dtype_name(series.dtype)
    if name == frames.OBJECT:
        return objects.as_text(series)
    if name == frames.CATEGORY:
        words = objects.categories_as_text(series.cat.categories)
        codes = series.cat.codes.to_numpy().astype("int32")
        return None if words is None else pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), words)
    try:
        return pa.Array.from_pandas(series).cast(field.type)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None


def _open_polars(frame: Any) -> tuple[RowBackend, Frame]:
    series = {name: frame[name] for name in frame.columns}
    _fields({name: _polars_type(column) for name, column in series.items()}, series)
    arrays = _arrays({name: _polars_array(column) for name, column in series.items()})
    enums = {name: frames.ENUM for name, dtype in frame.schema.items() if type(dtype).__name__ == "Enum"}
    return MemoryBackend(pa.table(dict(zip(series, arrays, strict=True)))), Frame("polars", dtypes=enums)


def _polars_type(series: Any) -> pa.Field | None:
    # What polars hands over of objects are their places in memory.
    array = None if type(series.dtype).__name__ == "Object" else _polars_array(series.clear())
    return None if array is None else pa.field(series.name, array.type)


def _polars_array(series: Any) -> Any:
    try:
        return series.to_arrow()
    except (pa.ArrowException, sys.modules["polars"].exceptions.PolarsError, TypeError, ValueError):
        return None
