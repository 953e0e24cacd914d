"""Frozen values as JSON and arrays, and back: no pickle, no code, a closed list of classes.

A value is made of None, numbers, text, tuples, mappings, NumPy arrays, Arrow schemas, and frozen dataclasses and
enumerations of those listed here. In JSON a list is a tuple; everything else that JSON has no word for is an object
with one key, which says what it is.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import importlib
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_HOMES = {
    "threea.release": ("Release",),
    "threea.certificate": ("Guarantee",),
    "threea.budget": ("Adjacency", "Budget"),
    "threea.anonymize.plan": ("Plan",),
    "threea.anonymize.accountant": ("Line",),
    "threea.anonymize.events": ("Gaussian", "NonPrivate", "PartitionSelection", "Pure", "Sampled"),
    "threea.ledger.chain": ("LedgerHead",),
    "threea.anonymize.cluster_sums": ("Scores",),
    "threea.anonymize.query": ("Answer",),
    "threea.anonymize.spending": ("Unit",),
    "threea.backends.frames": ("Frame",),
    "threea.score": ("CalibrationPoint", "Expected", "Score"),
    "threea.table.dialect": ("Dialect",),
    "threea.table.calendar": ("Calendar",),
    "threea.table.cells": ("Bins", "Categories", "Merged"),
    "threea.table.row_vectors": ("VectorColumn",),
    "threea.table.column": ("Column", "Kind"),
    "threea.table.rules": ("Combinations", "Dependence", "Missing", "Order", "Range", "Sum"),
    "threea.table.schema": ("Origin", "Schema"),
    "threea.approximate.bayes_net_model": ("BayesNetModel", "Node"),
    "threea.approximate.column_shape": ("ColumnShape",),
    "threea.approximate.conditional_net": ("ConditionalNetModel",),
    "threea.approximate.coordinates": ("Coordinates",),
    "threea.approximate.feature": ("Feature",),
    "threea.approximate.gaussian_clusters": ("FeatureSet", "GaussianClusters"),
    "threea.approximate.gaussians": ("GaussianModel",),
    "threea.approximate.graph_column": ("GraphColumn",),
    "threea.approximate.graphical": ("GraphicalModel",),
    "threea.approximate.histograms": ("HistogramModel",),
    "threea.approximate.junction_tree": ("JunctionTree",),
    "threea.approximate.label_counts": ("RowCounts",),
    "threea.approximate.mixture": ("MixtureModel",),
    "threea.approximate.points": ("Points",),
    "threea.approximate.tree_model": ("Edge", "TreeModel"),
    "threea.adapt.generator_model": ("GeneratorModel", "LabelShares"),
    "threea.adapt.taught": ("Taught", "Waves"),
    "threea.linked.release": ("ChildTable", "LinkedRelease"),
    "threea.model_summary": ("Histogram",),
}
CLASSES = {name: home for home, names in _HOMES.items() for name in names}
"""Module of every class that may be in a file."""
DEEPEST = 24
"""How far values may be nested."""
KINDS = "fiub"
"""NumPy's letters for the arrays that may be in a file: numbers and truth values."""
GONE = {"Release": ("tried",)}
"""By class, the fields that files of earlier versions hold and no longer mean anything; what is in them is not read."""
UNWRITTEN = {"written": False}
"""Metadata of a field that no file holds."""
_SIZED = ("threea.approximate.", "threea.adapt.", "threea.table.cells")
"""Where the classes are whose whole numbers are sizes or positions, but for those in `_SCORES`."""
_SCORES = ("ColumnShape", "scores")


class NotPlain(Exception):
    """A value that cannot be written, or data that is none."""


def simplified(value: Any, arrays: list[NDArray[Any]]) -> Any:
    """Return a value as JSON data; its arrays are appended to a list.

    Raises:
        NotPlain: It holds something that is not on the list.

    Example:
        >>> simplified({"a": (1, math.inf)}, [])
        {'map': [['a', [1, {'number': 'inf'}]]]}
    """
    if isinstance(value, enum.Enum):
        return {"enum": _name(type(value)), "value": value.value}
    if isinstance(value, np.generic):
        return simplified(value.item(), arrays)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"number": str(value)}
    if isinstance(value, tuple):
        return [simplified(item, arrays) for item in value]
    if isinstance(value, Mapping):
        return {"map": [[simplified(key, arrays), simplified(held, arrays)] for key, held in value.items()]}
    if isinstance(value, np.ndarray) and value.dtype.kind in KINDS:
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, pa.Schema):
        return {"layout": base64.b64encode(value.serialize().to_pybytes()).decode("ascii")}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        written = (field for field in dataclasses.fields(value) if field.init and field.metadata != UNWRITTEN)
        held = {field.name: getattr(value, field.name) for field in written}
        return {"class": _name(type(value)), "fields": {name: simplified(item, arrays) for name, item in held.items()}}
    raise NotPlain(f"a {type(value).__name__} cannot be written")


def restored(data: Any, arrays: Sequence[NDArray[Any]], most: int = sys.maxsize) -> Any:
    """Return the value that JSON data stands for.

    Args:
        data: As read from JSON.
        arrays: What it refers to.
        most: The largest whole number that a model's parts may hold, where numbers are sizes or positions: the size of
            the file. What describes more than the file holds was not written by threea, and would not fit into memory.

    Raises:
        NotPlain: The data is no such value.
    """
    return _Reader(arrays, most).value(data, 0, None)


@dataclasses.dataclass(frozen=True, slots=True)
class _Reader:
    arrays: Sequence[NDArray[Any]]
    most: int

    def value(self, data: Any, depth: int, limit: int | None) -> Any:
        """Return what data stands for; whole numbers in it, but in other classes, are at most the limit if any."""
        if depth > DEEPEST:
            raise NotPlain("nested too deeply")
        if limit is not None and isinstance(data, int) and not -1 <= data <= limit:
            raise NotPlain("a number beyond what the file can hold")
        if data is None or isinstance(data, bool | int | float | str):
            return data
        if isinstance(data, list):
            return tuple(self.value(item, depth + 1, limit) for item in data)
        match data:
            case {"class": str(name), "fields": dict(fields)} if len(data) == 2:
                return self._made(name, fields, depth + 1)
            case {"enum": str(name), "value": str(value)} if len(data) == 2:
                kind = _class(name)
                if not issubclass(kind, enum.Enum):
                    raise NotPlain(f"{name} is no enumeration")
                return kind(value)
            case {"map": list(pairs)} if len(data) == 1:
                return {self.value(k, depth + 1, limit): self.value(v, depth + 1, limit) for k, v in pairs}
            case {"array": int(index)} if len(data) == 1 and 0 <= index < len(self.arrays):
                return self.arrays[index]
            case {"number": str(text)} if len(data) == 1 and text in ("inf", "-inf", "nan"):
                return float(text)
            case {"layout": str(text)} if len(data) == 1:
                return self._layout(base64.b64decode(text, validate=True))
        raise NotPlain("unknown data")

    def _made(self, name: str, fields: Mapping[str, Any], depth: int) -> Any:
        kind = _class(name)
        if not dataclasses.is_dataclass(kind):
            raise NotPlain(f"{name} has no fields")
        sized = kind.__module__.startswith(_SIZED)
        limits = {key: self.most if sized and (name, key) != _SCORES else None for key in fields}
        read = [key for key in fields if key not in GONE.get(name, ())]
        return kind(**{key: self.value(fields[key], depth, limits[key]) for key in read})

    def _layout(self, data: bytes) -> pa.Schema:
        """Read columns and types, of which none has values of more bytes than the file."""
        layout = pa.ipc.read_schema(pa.py_buffer(data))
        for field in layout:
            kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
            wide = pa.types.is_fixed_size_binary(kind) and kind.byte_width > self.most
            if wide or pa.types.is_nested(kind) or pa.types.is_run_end_encoded(kind):
                raise NotPlain("a type that no column of a table has")
        return layout


def _name(kind: type[Any]) -> str:
    if CLASSES.get(kind.__name__) != kind.__module__:
        raise NotPlain(f"a {kind.__name__} is not among the classes that are written")
    return kind.__name__


def _class(name: str) -> type[Any]:
    if name not in CLASSES:
        raise NotPlain(f"{name} is not among the classes that are read")
    kind: type[Any] = getattr(importlib.import_module(CLASSES[name]), name)
    return kind
