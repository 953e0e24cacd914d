"""From what users hold (a path, a pandas, polars or Arrow table) to a backend, and back to what they hold."""

from __future__ import annotations

import sys
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa

from threea.backends.base import RowBackend
from threea.backends.files import CsvBackend, ParquetBackend
from threea.backends.memory import MemoryBackend
from threea.errors import InputError

Restore = Callable[[pa.Table], Any]
"""Turns an Arrow table into the kind of table that came in."""


def open_backend(data: Any) -> tuple[RowBackend, Restore]:
    """Open a table.

    Args:
        data: A path to CSV or Parquet (a file or a folder), or a pandas, polars or Arrow table.

    Raises:
        InputError: It is none of these, cannot be read, or repeats a column's name.
    """
    backend, restore = _opened(data)
    names = backend.layout.names
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InputError(f"columns ({', '.join(repeated)}) appear more than once; rename them")
    if len(names) < 2:
        raise InputError(f"the table has {len(names)} column; at least 2 are needed, a feature and a target")
    return backend, restore


def _opened(data: Any) -> tuple[RowBackend, Restore]:
    if isinstance(data, str | PathLike):
        return _open_path(Path(data)), lambda table: table
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return MemoryBackend(data), lambda table: table
    module = type(data).__module__.split(".")[0]
    if module == "pandas" and type(data).__name__ == "DataFrame":
        return _open_pandas(data)
    if module == "polars" and type(data).__name__ == "DataFrame":
        return _open_polars(data)
    raise InputError(f"data ({type(data).__name__}) must be a path or a pandas, polars or Arrow table")


def _open_path(path: Path) -> RowBackend:
    if not path.exists():
        raise InputError(f"{path}: no such file; check the path")
    if path.is_dir():
        return ParquetBackend(path)
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty; give a CSV or Parquet file with rows")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] in ([".parquet"], [".pq"]):
        return ParquetBackend(path)
    if ".csv" in suffixes[-2:]:
        return CsvBackend(path)
    raise InputError(f"{path} must end in .csv, .csv.gz, .parquet or .pq, or be a folder of Parquet files")


def _open_pandas(frame: Any) -> tuple[RowBackend, Restore]:
    pandas = sys.modules["pandas"]
    labels = list(frame.columns)
    names = [str(label) for label in labels]
    if len(set(names)) != len(names):
        return MemoryBackend(pa.table([pa.nulls(0)] * len(names), names=names)), lambda table: table
    arrays, fields = [], []
    for name, label in zip(names, labels, strict=True):
        arrays.append(_pandas_array(frame[label], name))
        # NumPy's integers and booleans cannot be missing.
        numpy_kind = getattr(frame[label].dtype, "kind", "O") if _is_numpy(frame[label].dtype) else "O"
        fields.append(pa.field(name, arrays[-1].type, nullable=numpy_kind not in "iub"))
    dtypes = dict(zip(labels, frame.dtypes, strict=True))

    def restore(table: pa.Table) -> Any:
        out = table.to_pandas(date_as_object=True)
        out.columns = frame_columns
        changed = {
            label: dtype
            for label, dtype in dtypes.items()
            if not isinstance(dtype, pandas.CategoricalDtype) and out[label].dtype != dtype
        }
        return out.astype(changed)

    frame_columns = frame.columns
    layout = pa.schema(fields)
    return MemoryBackend(pa.Table.from_arrays(arrays, schema=layout), layout), restore


def _is_numpy(dtype: Any) -> bool:
    return type(dtype).__module__.split(".")[0] == "numpy"


def _pandas_array(series: Any, name: str) -> pa.Array:
    problem = False
    try:
        array = pa.Array.from_pandas(series)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        problem = True
    if problem:
        # Arrow's message would quote a value.
        raise InputError(f"column {name} mixes types; convert it to one")
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _open_polars(frame: Any) -> tuple[RowBackend, Restore]:
    polars = sys.modules["polars"]
    schema = dict(frame.schema)

    def restore(table: pa.Table) -> Any:
        return polars.from_arrow(table).cast(schema)

    return MemoryBackend(frame.to_arrow()), restore
