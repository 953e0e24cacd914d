"""A LightGBM trained on synthetic rows, as plain trees over cells that the private table can count with."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.score_histogram import Trees
from threea.errors import MissingExtra
from threea.table.cells import Bins, Categories, Cells
from threea.table.schema import Chunk, Column, Schema

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SETTINGS: dict[str, Any] = {"num_iterations": 200, "learning_rate": 0.1, "num_leaves": 31, "min_data_in_leaf": 20}
RARE: dict[str, Any] = {"below_share": 0.01, "settings": {"learning_rate": 0.02, "num_leaves": 8}}
"""Below this share of the rarer of two classes the usual settings fall apart even on real rows; then these."""
MOST_TREES = 600
"""Of many classes fewer rounds are made, each of which has a tree for every class."""
_BITS = 30
"""A leaf's value is rounded to so many bits of the largest."""


@dataclass(frozen=True, slots=True)
class Learned:
    """A trained model.

    Args:
        trees: What scores a row; a score is in steps of `unit`.
        unit: Of log-odds, or of the target.
        classes: The target's codes that it knows, in the order of its scores; of two, the positive one is the second.
            None of a number.
    """

    trees: Trees
    unit: float
    classes: tuple[int, ...]

    def scores(self, chunk: Chunk) -> Integers:
        """Score encoded rows, shape (outputs, rows)."""
        return self.trees.scores([cells.index(chunk[cells.column]) for cells in self.trees.cells])


def learned(chunk: Chunk, schema: Schema, weights: Mapping[int, float] | None = None) -> Learned | None:
    """Train on encoded rows; None if they have nothing to learn: one class, one number, no rows.

    Args:
        chunk: Encoded rows.
        schema: What they mean.
        weights: How much a row counts by its class, if classes were drawn in another ratio than the private one.

    Raises:
        MissingExtra: LightGBM is not installed.
    """
    target = chunk[schema.target or ""]
    numeric = schema[schema.target or ""].kind.numeric
    known = ~np.isnan(target) if numeric else target >= 0
    labels, features = target[known], features_of(chunk, schema)[known]
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        return None
    counted = np.array([(weights or {}).get(int(code), 1.0) for code in labels]) if weights else None
    if numeric:
        model = _trained(features, labels, None, {"objective": "regression"}, schema.features)
        return _as_trees(model, schema.features, 1, ())
    sizes = np.bincount(codes, counted, minlength=len(classes))
    if len(classes) == 2:
        # The later of two equally common classes: "yes" rather than "no", 1 rather than 0.
        positive = 1 if sizes[1] <= sizes[0] else 0
        rare = sizes.min() < RARE["below_share"] * sizes.sum()
        settings = {"objective": "binary", **(RARE["settings"] if rare else {})}
        model = _trained(features, (codes == positive).astype(float), counted, settings, schema.features)
        return _as_trees(model, schema.features, 1, (int(classes[1 - positive]), int(classes[positive])))
    rounds = max(min(SETTINGS["num_iterations"], MOST_TREES // len(classes)), 1)
    settings = {"objective": "multiclass", "num_class": len(classes), "num_iterations": rounds}
    model = _trained(features, codes.astype(float), counted, settings, schema.features)
    return _as_trees(model, schema.features, len(classes), tuple(int(code) for code in classes))


def features_of(chunk: Chunk, schema: Schema) -> Floats:
    """Return the features as LightGBM takes them: codes and numbers, NaN for missing."""
    columns = (
        np.where(chunk[c.name] < 0, np.nan, chunk[c.name]) if c.kind.listed else chunk[c.name] for c in schema.features
    )
    return np.column_stack([np.asarray(column, np.float64) for column in columns])


def lightgbm() -> Any:
    """Return LightGBM.

    Raises:
        MissingExtra: It is not installed, or a library that it needs is not.
    """
    try:
        return importlib.import_module("lightgbm")
    except (ImportError, OSError):
        raise MissingExtra("lightgbm", "evaluate") from None


def _trained(
    features: Floats, target: Floats, weights: Floats | None, settings: dict[str, Any], columns: tuple[Column, ...]
) -> Any:
    fixed = {"seed": 0, "deterministic": True, "force_row_wise": True, "num_threads": 1, "verbosity": -1}
    parameters = {**SETTINGS, **settings, **fixed}
    names = [f"f{index}" for index in range(len(columns))]  # it takes no commas, brackets or quotes in names
    listed = [name for name, column in zip(names, columns, strict=True) if column.kind.listed]
    rows = lightgbm().Dataset(
        features, target, weight=weights, feature_name=names, categorical_feature=listed, params=parameters
    )
    return lightgbm().train(parameters, rows)


def _as_trees(model: Any, columns: tuple[Column, ...], outputs: int, classes: tuple[int, ...]) -> Learned:
    """Turn a booster into plain trees: the same leaf for every row, and its value to `_BITS` bits."""
    roots = [each["tree_structure"] for each in model.dump_model()["tree_info"]]
    cells = _cells_of(roots, columns)
    offsets = np.cumsum([0, *(each.size for each in cells)])
    most = max((_count(root) for root in roots), default=1)
    kind = np.int32 if most <= 31 else np.int64
    reachable = np.full((len(roots), offsets[-1]), (1 << most) - 1, kind)
    values = np.zeros((len(roots), most))
    for tree, root in enumerate(roots):
        _walk(root, cells, offsets, reachable[tree], values[tree])
    largest = max(float(np.abs(values).max(initial=0.0)), 2.0**-500)
    unit = math.ldexp(1.0, math.ceil(math.log2(largest)) - _BITS)
    return Learned(Trees(cells, reachable, np.round(values / unit).astype(np.int64), outputs), unit, classes)


def _count(node: Mapping[str, Any]) -> int:
    return _count(node["left_child"]) + _count(node["right_child"]) if "split_index" in node else 1


def _splits(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if "split_index" not in node:
        return []
    return [node, *_splits(node["left_child"]), *_splits(node["right_child"])]


def _cells_of(roots: list[Mapping[str, Any]], columns: tuple[Column, ...]) -> tuple[Cells, ...]:
    """Return cells fine enough to answer every test: a column's codes, or ranges between the thresholds."""
    thresholds: dict[int, set[float]] = {}
    for split in (split for root in roots for split in _splits(root) if split["decision_type"] == "<="):
        # A value up to the threshold goes left; a range ends before its upper edge.
        thresholds.setdefault(split["split_feature"], set()).add(math.nextafter(split["threshold"], math.inf))
    found: list[Cells] = []
    for index, column in enumerate(columns):
        if column.kind.listed:
            found.append(Categories(column=column.name, count=len(column.categories) + column.open_ended, missing=True))
        else:
            edges = (-math.inf, *sorted(thresholds.get(index, set())), math.inf)
            found.append(Bins(column=column.name, edges=edges, missing=True))
    return tuple(found)


def _walk(
    node: Mapping[str, Any],
    cells: tuple[Cells, ...],
    offsets: Integers,
    reachable: NDArray[Any],
    values: Floats,
    first: int = 0,
) -> int:
    """Rule out, for each cell of each test below a node, the leaves on the other side; return how many there are.

    Leaves are numbered from the left, those below a node from `first` on.
    """
    if "split_index" not in node:
        values[first] = node["leaf_value"]
        return 1
    left = _walk(node["left_child"], cells, offsets, reachable, values, first)
    right = _walk(node["right_child"], cells, offsets, reachable, values, first + left)
    on_left, on_right = ((1 << left) - 1) << first, ((1 << right) - 1) << (first + left)
    feature = node["split_feature"]
    goes_left = _goes_left(node, cells[feature])
    reachable[offsets[feature] : offsets[feature + 1]] &= np.where(goes_left, ~on_right, ~on_left).astype(
        reachable.dtype
    )
    return left + right


def _goes_left(split: Mapping[str, Any], cells: Cells) -> NDArray[np.bool_]:
    """Return for each cell whether a test sends its values left; the last is for missing."""
    if isinstance(cells, Categories):
        named = {int(code) for code in str(split["threshold"]).split("||")}
        return np.array([*(code in named for code in range(cells.count)), False])
    threshold = math.nextafter(split["threshold"], math.inf)
    below = [upper <= threshold for upper in cells.edges[1:]]
    # Where the training rows had no missing value, a missing one counts as 0.
    missing = split["default_left"] if split["missing_type"] == "NaN" else split["threshold"] >= 0
    return np.array([*below, missing])
