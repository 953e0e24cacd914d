"""From what users hold (a path, a pandas, polars or Arrow table) to a backend, and back to what they hold."""

from __future__ import annotations

import sys
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa

from threea.backends.base import RowBackend
from threea.backends.dialect import Dialect
from threea.backends.files import CsvBackend, ParquetBackend, without_views
from threea.backends.memory import MemoryBackend
from threea.errors import InputError, SettingError
from threea.table.column_names import repeated_names
from threea.table.dialect import said
from threea.table.schema import Schema

Restore = Callable[[pa.Table], Any]
"""Turns an Arrow table into the kind of table that came in."""


def open_backend(data: Any, schema: Schema | None = None, dialect: Dialect | None = None) -> tuple[RowBackend, Restore]:
    """Open a table.

    Args:
        data: A path to CSV or Parquet (a file or a folder), or a pandas, polars or Arrow table.
        schema: Its public description, if there is one: it says what the text in a CSV file means.
        dialect: How a CSV file is written; what it does not say is found in the header line.

    Raises:
        InputError: It is none of these, cannot be read, or repeats a column's name.
        SettingError: A dialect was given for something else than a CSV file.
    """
    backend, restore = _opened(data, schema, dialect)
    if said(dialect) and not isinstance(backend, CsvBackend):
        raise SettingError(f"{said(dialect)}: these describe CSV files, and the data is no CSV file; leave them out")
    # Notes that a file or frame carries about its columns may tell of its rows.
    backend.layout = pa.schema([field.remove_metadata() for field in backend.layout])
    names = backend.layout.names
    if len(set(names)) != len(names):
        raise InputError(f"columns {repeated_names(names)} appear more than once; rename them")
    if len(names) < 2:
        remedy = "; if commas do not separate its values, see --separator" if isinstance(backend, CsvBackend) else ""
        raise InputError(f"the table has {len(names)} column; at least 2 are needed, a feature and a target{remedy}")
    return backend, restore


def _opened(data: Any, schema: Schema | None, dialect: Dialect | None) -> tuple[RowBackend, Restore]:
    if isinstance(data, str | PathLike):
        return _open_path(_readable(data), schema, dialect), lambda table: table
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return MemoryBackend(without_views(_valid(data)), data.schema), lambda table: table
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
        raise InputError(f"{path} is empty; give a CSV or Parquet file with rows")
    return path


def _open_path(path: Path, schema: Schema | None, dialect: Dialect | None) -> RowBackend:
    if path.is_dir():
        return ParquetBackend(path)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] in ([".parquet"], [".pq"]):
        return ParquetBackend(path)
    if {".csv", ".tsv"} & set(suffixes[-2:]):
        kinds = None if schema is None else {column.name: column.kind for column in schema.columns}
        return CsvBackend(path, kinds, dialect)
    raise InputError(f"{path} must end in .csv, .csv.gz, .tsv, .parquet or .pq, or be a folder of Parquet files")


def _open_pandas(frame: Any) -> tuple[RowBackend, Restore]:
    pandas = sys.modules["pandas"]
    labels = list(frame.columns)
    names = [str(label) for label in labels]
    if len(set(names)) != len(names):
        return MemoryBackend(pa.table([pa.nulls(0)] * len(names), names=names)), lambda table: table
    arrays = [_pandas_array(frame[label], name) for name, label in zip(names, labels, strict=True)]
    fields = [
        _pandas_field(name, array, frame[label]) for name, array, label in zip(names, arrays, labels, strict=True)
    ]
    columns, dtypes = frame.columns, dict(zip(labels, frame.dtypes, strict=True))

    def restore(table: pa.Table) -> Any:
        out = table.to_pandas(date_as_object=True)
        out.columns = columns
        listed = {label for label in labels if isinstance(dtypes[label], pandas.CategoricalDtype)}
        changed = {
            label: dtypes[label] for label in labels if label not in listed and out[label].dtype != dtypes[label]
        }
        return out.astype(changed | {label: _categories(out[label].dtype, dtypes[label]) for label in listed})

    return MemoryBackend(pa.Table.from_arrays(arrays, names=names), pa.schema(fields)), restore


def _pandas_field(name: str, array: pa.Array, series: Any) -> pa.Field:
    # NumPy's integers and booleans cannot be missing.
    nullable = not (_is_numpy(series.dtype) and series.dtype.kind in "iub")
    kind = array.type
    if pa.types.is_dictionary(kind):
        # The width of the codes would tell how many categories there are.
        kind = pa.dictionary(pa.int32(), kind.value_type, kind.ordered)
    return pa.field(name, kind, nullable=nullable)


def _categories(found: Any, wanted: Any) -> Any:
    """Return the categories that are in the synthetic table, in the order the private one's type gives them."""
    known = [category for category in wanted.categories if category in found.categories]
    other = [category for category in found.categories if category not in wanted.categories]
    return type(wanted)([*known, *other], ordered=wanted.ordered)


def _is_numpy(dtype: Any) -> bool:
    return type(dtype).__module__.split(".")[0] == "numpy"


def _pandas_array(series: Any, name: str) -> pa.Array:
    problem = False
    try:
        array = pa.Array.from_pandas(series)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        problem = True
    if problem:
        # Arrow's message would quote a value.
        raise InputError(f"column {name} mixes types, or has one ({series.dtype}) that is not supported; convert it")
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _open_polars(frame: Any) -> tuple[RowBackend, Restore]:
    polars = sys.modules["polars"]
    schema = dict(frame.schema)

    def restore(table: pa.Table) -> Any:
        # An Enum has no room for "other", which becomes missing.
        return polars.from_arrow(table).cast(schema, strict=False)

    return MemoryBackend(pa.table({name: _polars_array(frame[name]) for name in frame.columns})), restore


def _polars_array(series: Any) -> pa.Array:
    problem = False
    try:
        array = series.to_arrow()
    except (pa.ArrowException, sys.modules["polars"].exceptions.PolarsError, TypeError, ValueError):
        problem = True
    if problem:
        raise InputError(f"column {series.name} has type {series.dtype}, which is not supported; drop or convert it")
    return array
