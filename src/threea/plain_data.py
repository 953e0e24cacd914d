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
    "threea.anonymize.query": ("Answer",),
    "threea.anonymize.spending": ("Unit",),
    "threea.backends.frames": ("Frame",),
    "threea.score": ("CalibrationPoint", "Expected", "Score", "Tried"),
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
    "threea.adapt.taught": ("Taught",),
    "threea.linked.release": ("ChildTable", "LinkedRelease"),
    "threea.model_summary": ("Histogram",),
}
CLASSES = {name: home for home, names in _HOMES.items() for name in names}
"""Module of every class that may be in a file."""
DEEPEST = 24
"""How far values may be nested."""
KINDS = "fiub"
"""NumPy's letters for the arrays that may be in a file: numbers and truth values."""


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
        held = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
        return {"class": _name(type(value)), "fields": {name: simplified(item, arrays) for name, item in held.items()}}
    raise NotPlain(f"a {type(value).__name__} cannot be written")


def restored(data: Any, arrays: Sequence[NDArray[Any]], depth: int = 0) -> Any:
    """Return the value that JSON data stands for.

    Raises:
        NotPlain: The data is no such value.
    """
    if depth > DEEPEST:
        raise NotPlain("nested too deeply")
    if data is None or isinstance(data, bool | int | float | str):
        return data
    if isinstance(data, list):
        return tuple(restored(item, arrays, depth + 1) for item in data)
    match data:
        case {"class": str(name), "fields": dict(fields)} if len(data) == 2:
            kind = _class(name)
            if not dataclasses.is_dataclass(kind):
                raise NotPlain(f"{name} has no fields")
            return kind(**{key: restored(item, arrays, depth + 1) for key, item in fields.items()})
        case {"enum": str(name), "value": str(value)} if len(data) == 2:
            kind = _class(name)
            if not issubclass(kind, enum.Enum):
                raise NotPlain(f"{name} is no enumeration")
            return kind(value)
        case {"map": list(pairs)} if len(data) == 1:
            return {restored(key, arrays, depth + 1): restored(item, arrays, depth + 1) for key, item in pairs}
        case {"array": int(index)} if len(data) == 1 and 0 <= index < len(arrays):
            return arrays[index]
        case {"number": str(text)} if len(data) == 1 and text in ("inf", "-inf", "nan"):
            return float(text)
        case {"layout": str(text)} if len(data) == 1:
            return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text, validate=True)))
    raise NotPlain("unknown data")


def _name(kind: type[Any]) -> str:
    if CLASSES.get(kind.__name__) != kind.__module__:
        raise NotPlain(f"a {kind.__name__} is not among the classes that are written")
    return kind.__name__


def _class(name: str) -> type[Any]:
    if name not in CLASSES:
        raise NotPlain(f"{name} is not among the classes that are read")
    kind: type[Any] = getattr(importlib.import_module(CLASSES[name]), name)
    return kind
