"""Adapt, where the target is a number: a private regression gives the synthetic rows their labels."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import ndtri

from threea.adapt.taught import Taught, centred, softmax
from threea.anonymize.door import PrivateTable
from threea.anonymize.linear_gradient import LinearGradient
from threea.anonymize.plan import Charge
from threea.approximate.denoise import grouped
from threea.approximate.feature import Feature
from threea.approximate.label_counts import CLASSES
from threea.approximate.tree_model import Edge, TreeModel
from threea.table.cells import Bins, Merged
from dataclasses import replace
import os
Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

_ROWS = 20_000
_RANGES = int(os.environ.get('RANGES', 40))
_OFF = float(os.environ.get('OFF', 0.1))
_CLIP = float(os.environ.get('CLIP', 0.8))
_DAMP= float(os.environ.get('DAMP', 1))


def taught_numbers(model: TreeModel, table: PrivateTable, charge: Charge, steps: int, alpha: float) -> Taught:
    tree = with_ranges(model)
    label = tree.label
    assert label is not None
    scores = normal_scores(tree)
    classes = tuple(int(code) for code in np.flatnonzero(np.isfinite(scores)))
    cells = tuple(f.merged for f in tree.features)
    width = sum(c.size for c in cells)
    group, codes = tree.draw(min(_ROWS, (1 << 24) // width), np.random.default_rng(0))
    known = np.isin(group, classes)
    hot = np.hstack([np.eye(c.size, dtype=np.float32)[c.merge(code[known])] for c, code in zip(cells, codes)])
    target = scores[group[known]]
    rows = max(float(tree.sizes[list(classes)].sum()), 1.0)
    scale = rows / len(target)
    gram = np.asarray(hot.T @ hot, np.float64) * scale
    query = LinearGradient(label, scores, cells, np.zeros(width), 1.0)
    unit = table.stddev(query, charge)
    damping = max(_DAMP * max(unit, model.stddev), 5.0)
    start = weights = cho_solve(cho_factor(gram + damping * np.eye(width)), scale * hot.T.astype(float) @ target)
    left = target - hot @ weights
    spread = float(np.sqrt((left**2).mean()))
    if os.environ.get('VERB'): print('start spread', spread, 'unit', unit, 'rows', rows, 'width', width, 'ranges', len(classes))
    precision, optima = 0.0, np.zeros(width)
    for _ in range(steps):
        clip = float(np.clip(_CLIP * spread, 0.05, 3))
        inside = float((np.abs(left) < clip).mean())
        answer = table.measure(replace(query, weights=weights, clip=clip), charge)
        hessian = gram * inside
        stddev = answer.stddev
        # in units of the gradient of squares
        value, noise = answer.value[0] / inside, stddev / inside
        optima = optima + (gram @ (weights - start) - value) / noise**2
        precision += noise**-2
        eff = precision**-0.5
        usual = float(np.trace(gram)) / width
        damped = cho_factor(gram + ((eff / _OFF) ** 2 / usual + 1e-6) * np.eye(width))
        weights = start + cho_solve(damped, optima / precision)
        left = target - hot @ weights
        if os.environ.get('VERB'): print('clip', clip, 'inside', inside, 'noise', noise, 'sd on tree', left.std(), 'moved', np.abs(weights-start).mean())
    predicted = hot @ weights
    stretch, shift = calibrated(scores[list(classes)], predicted, float((target * predicted).mean()), tree.ratio[list(classes)])
    if os.environ.get('VERB'): print('stretch', stretch)
    full = stretch * np.outer(scores[list(classes)], weights)
    full[:, : cells[0].size] += shift[:, None]
    learned = tuple(range(len(cells)))
    read = centred(tree, learned)
    errors = stretch * np.outer(np.abs(scores[list(classes)]), eff * np.linalg.norm(cho_solve(damped, read.T), axis=0))
    noise_by = {**tree.noise, charge.name: unit}
    return Taught(tree, classes, learned, full, alpha, errors, noise_by)


def calibrated(scores, predicted, apart, share):
    def shifted(stretch):
        logits = stretch * np.outer(scores, predicted[:5000])
        shift = np.log(np.maximum(share, 1e-12))[:, None] - stretch * scores[:, None] ** 2 / 2
        for _ in range(30):
            p = softmax(logits + shift)
            shift = shift + np.log(np.maximum(share[:, None], 1e-12) / np.maximum(p.mean(axis=1, keepdims=True), 1e-300))
        p = softmax(logits + shift)
        return shift[:, 0], float(((p * scores[:, None]).sum(axis=0) * predicted[:5000]).mean())
    low, high = 0.1, 100.0
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if shifted(middle)[1] < apart else (low, middle)
    return low, shifted(low)[0]


def normal_scores(tree: TreeModel) -> Floats:
    label = tree.label
    bins = label.cells
    edges = np.asarray(bins.edges)
    values = np.concatenate([np.asarray(bins.special), (edges[1:] + edges[:-1]) / 2, [np.nan] * bins.missing])
    place = np.array([np.nanmean(values[np.asarray(label.groups) == g]) if not (bins.missing and label.groups[-1] == g) else np.nan for g in range(label.size)])
    share = np.where(np.isfinite(place), np.maximum(tree.sizes, 0.0), 0.0)
    share = share / share.sum()
    order = np.argsort(np.where(np.isfinite(place), place, np.inf), kind='stable')
    middle = np.empty(len(share))
    middle[order] = np.cumsum(share[order]) - share[order] / 2
    return np.where(np.isfinite(place), ndtri(np.clip(middle, 1e-4, 1 - 1e-4)), np.nan)


def with_ranges(model: TreeModel) -> TreeModel:
    """Split the classes into finer ranges of the label: the same distribution."""
    label = model.label
    bins = label.cells
    counts = np.maximum(model.sizes, 0.0) @ model.spread
    noise = model.noise.get(CLASSES, model.stddev)
    groups = grouped(bins, counts, min(_RANGES, bins.size))
    # ranges of both: fine within coarse
    pairs = {}
    fine = tuple(pairs.setdefault((c, f), len(pairs)) for c, f in zip(label.groups, groups))
    parent = np.array([c for c, _ in pairs])
    shares = np.zeros((len(pairs), bins.size))
    shares[np.asarray(fine), np.arange(bins.size)] = model.spread[np.asarray(label.groups), np.arange(bins.size)]
    inside = shares.sum(axis=1)
    spread = shares / np.maximum(inside, 1e-300)[:, None]
    for g in np.flatnonzero(inside <= 0):
        spread[g] = (np.asarray(fine) == g) / (np.asarray(fine) == g).sum()
    stddev = model.stddev * math.sqrt(len(model.sizes) / len(pairs))
    features = tuple(Feature(f.cells, f.counts[parent] * inside[:, None], f.given[parent], f.merged, stddev) for f in model.features)
    edges = tuple(Edge(e.parent, e.child, e.joint[parent], e.gap) for e in model.edges)
    return replace(model, label=Merged(cells=bins, groups=fine), spread=spread, sizes=model.sizes[parent] * inside, features=features, edges=edges, stddev=stddev)
