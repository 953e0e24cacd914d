"""What columns tell together and a teacher that adds them up cannot: three ways to learn it, under noise and without.

Each starts from the teacher of a release and corrects its logits: by cells of pairs of columns, or by trees whose tests
are drawn at random and whose leaves are counted. What is asked is simulated on public rows, with Gaussian noise as a
share of the budget would pay for *beside* that of the release: no way is offered that much, so that none is undersold.
Pairs are chosen by the private rows, without noise, for the same reason. Splits are others than those that tables
report. Run it as `python -m benchmarks interactions`.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from benchmarks import datasets as library
from benchmarks.adult import DATA
from benchmarks.limits import cells_of, figures_of
from benchmarks.measure import scored
from benchmarks.record import mean_and_stdev, record
from threea.adapt.taught import Taught
from threea.budget import mu_from
from threea.session import synthesize

DATASETS = ("adult", "phishing")
SPLITS, EPSILON, SHARE = (100, 101, 102, 103, 104), 1.0, 0.2
PAIRS, TREES, DEPTH, CLIP, OFF, STEP = 20, 30, 4, 0.5, 0.5, 0.3
"""Pairs corrected; trees, their depth; bound on a residual; how far a correction may be off; a tree's weight."""
Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Codes = list[Whole]


def main() -> None:
    """Measure every way; figures are means and standard deviations over the splits."""
    results: dict[str, Any] = {}
    for name in DATASETS:
        lines = [measured(library.load(name, DATA.parent), split) for split in SPLITS]
        results[name] = {
            way: {figure: mean_and_stdev([line[way][figure] for line in lines]) for figure in ("auc", "log_loss")}
            for way in lines[0]
        }
    settings = {"splits": SPLITS, "epsilon": EPSILON, "share": SHARE, "pairs": PAIRS, "trees": TREES, "depth": DEPTH}
    record("interactions", settings | {"clip": CLIP, "off": OFF, "step": STEP}, results)


def measured(dataset: library.Dataset, split: int) -> dict[str, dict[str, float]]:
    """Return AUC and log loss of every way."""
    train, test = dataset.split(split)
    described = {"target": dataset.target, "schema": dataset.schema}
    release = synthesize(train, epsilon=EPSILON, delta=dataset.delta, recipe="labeltree", rows=1, **described)
    model = release.model
    assert isinstance(model, Taught)
    (seen, label), (new, actual) = (_merged(model, *cells_of(release, table)) for table in (train, test))
    logits, tested = (np.diff(model.logits(cells_of(release, table)[0]), axis=0)[0] for table in (train, test))
    real = scored(dataset, real=train, train=train, test=test, names=["lightgbm"], seed=split)["lightgbm"]
    by_way = {"LightGBM, real rows": {figure: real[figure] for figure in ("auc", "log_loss")}}

    def told(way: str, scores: Floats) -> None:
        guessed = np.column_stack([1 - expit(scores), expit(scores)])
        by_way[way] = figures_of(actual, guessed, np.arange(2))

    told("teacher", tested)
    sizes = [int(max(codes.max(), later.max())) + 1 for codes, later in zip(seen, new, strict=True)]
    pairs = list(itertools.combinations(range(len(sizes)), 2))
    whole = LogisticRegression(C=0.03, max_iter=200).fit(_indicators(seen, sizes, pairs), label)
    told("all pairs, no privacy", whole.decision_function(_indicators(new, sizes, pairs)))
    rng = np.random.default_rng(split)
    stddev = 1 / (mu_from(EPSILON, dataset.delta) * math.sqrt(SHARE))
    for words, noise in (("", stddev), (", no noise", 0.0)):
        told(f"teacher and pairs{words}", tested + _by_pairs(seen, new, sizes, pairs, logits, label, noise, rng))
        told(f"teacher and trees{words}", tested + _by_trees(seen, new, sizes, logits, label, noise, rng))
    return by_way


def _merged(model: Taught, codes: Codes, label: Whole) -> tuple[Codes, Whole]:
    """Return rows as merged cells of the features that the teacher looks at, and which have the second class."""
    features = model.model.features
    return [features[index].merged.merge(codes[index]) for index in model.learned], label == model.classes[1]


def _indicators(codes: Codes, sizes: Sequence[int], pairs: Sequence[tuple[int, int]]) -> sparse.csr_matrix:
    """Return indicators of all cells and of all pairs' cells."""
    columns = [*codes, *(codes[i] * sizes[j] + codes[j] for i, j in pairs)]
    widths = [*sizes, *(sizes[i] * sizes[j] for i, j in pairs)]
    starts = np.cumsum([0, *widths])
    places = np.column_stack([column + start for column, start in zip(columns, starts, strict=False)])
    rows, count = places.shape
    return sparse.csr_matrix(
        (np.ones(places.size), places.ravel(), np.arange(0, places.size + 1, count)), (rows, starts[-1])
    )


def _correction(
    cells: Whole, size: int, logits: Floats, label: Whole, noise: float, rng: np.random.Generator
) -> Floats:
    """Return by how much each cell's logit is off: what is likely, by residuals summed with noise."""
    p = expit(logits)
    residual = np.bincount(cells, np.clip(label - p, -CLIP, CLIP), size) + noise * rng.standard_normal(size)
    hessian = np.bincount(cells, p * (1 - p), size)
    return np.asarray(residual * OFF**2 * hessian / (OFF**2 * hessian**2 + noise**2 + hessian + 1e-9))


def _by_pairs(
    seen: Codes,
    new: Codes,
    sizes: Sequence[int],
    pairs: Sequence[tuple[int, int]],
    logits: Floats,
    label: Whole,
    stddev: float,
    rng: np.random.Generator,
) -> Floats:
    """Return what the pairs that are most off add to the logits of new rows; each is asked once, in turn."""
    p = expit(logits)

    def off(pair: tuple[int, int]) -> float:
        cells = seen[pair[0]] * sizes[pair[1]] + seen[pair[1]]
        return float((np.bincount(cells, label - p) ** 2 / (np.bincount(cells, p * (1 - p)) + 1.0)).sum())

    chosen = sorted(pairs, key=off)[-PAIRS:]
    added, own = np.zeros(len(new[0])), logits.copy()
    for i, j in chosen:
        cells, later = (codes[i] * sizes[j] + codes[j] for codes in (seen, new))
        noise = stddev * CLIP * math.sqrt(PAIRS)
        moved = _correction(cells, sizes[i] * sizes[j], own, label, noise, rng)
        added, own = added + moved[later], own + moved[cells]
    return added


def _by_trees(
    seen: Codes,
    new: Codes,
    sizes: Sequence[int],
    logits: Floats,
    label: Whole,
    stddev: float,
    rng: np.random.Generator,
) -> Floats:
    """Return what boosted trees with random tests add: each cuts some features' cells in two, and counts its leaves."""
    added, own = np.zeros(len(new[0])), logits.copy()
    for _ in range(TREES):
        leaves, later = np.zeros(len(seen[0]), np.int64), np.zeros(len(new[0]), np.int64)
        for feature in rng.choice(len(sizes), min(DEPTH, len(sizes)), replace=False):
            side = rng.permutation(sizes[feature]) < max(sizes[feature] // 2, 1)
            leaves, later = 2 * leaves + side[seen[feature]], 2 * later + side[new[feature]]
        noise = stddev * CLIP * math.sqrt(TREES)
        moved = STEP * _correction(leaves, 1 << DEPTH, own, label, noise, rng)
        added, own = added + moved[later], own + moved[leaves]
    return added
