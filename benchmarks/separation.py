"""How far apart two classes of wide rows are: as noisy moments say, as counted, and other ways to set them right.

LightGBM trained on releases of isolet's vowels, under both adjacencies; each way is tried on the same model, before it
was adapted. Splits are others than those that tables report. Run it as `python -m benchmarks separation`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks import datasets as library
from benchmarks.adult import DATA
from benchmarks.measure import learner_settings, scored
from benchmarks.record import mean_and_stdev, record
from threea.adapt.separation import Separation
from threea.approximate.gaussians import GaussianModel
from threea.budget import Adjacency
from threea.session import synthesize

DATASET, SPLITS, EPSILON, ROWS, LEARNER = "isolet", (100, 101, 102), 1.0, 12_000, "lightgbm"


def widened(model: GaussianModel, times: float) -> GaussianModel:
    """Return the model with both classes wider along the line between their means, which stay where they are."""
    line = model.centres[1] - model.centres[0]
    apart = float(line @ model.direction)
    # Along the discriminant a class has variance 1, and this line is so long.
    along = line * np.sqrt(max(times**-2 - 1, 0.0)) / apart
    factors = np.concatenate([model.factors, np.tile(along[None, :, None], (len(model.factors), 1, 1))], axis=2)
    return replace(model, factors=factors).moved_apart(1.0)


WAYS: Mapping[str, Callable[[GaussianModel, float], GaussianModel]] = {
    "as moments say": lambda model, _: model,
    "as counted": lambda model, times: model.moved_apart(times),
    "half as far": lambda model, _: model.moved_apart(0.5),
    "wider, as counted": widened,
}
"""What is made of a model, given how far apart its classes are counted to be, as a multiple of what it says."""


def main() -> None:
    """Measure every way; AUC and log loss, their means and standard deviations over the splits."""
    dataset = library.load(DATASET, DATA.parent)
    results: dict[str, Any] = {}
    for adjacency in Adjacency:
        lines: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
        for split in SPLITS:
            train, test = dataset.split(split)
            seen: list[GaussianModel] = []
            adapt = Separation.adapt

            def kept(own: Separation, model: Any, *arguments: Any, adapt: Any = adapt, seen: Any = seen) -> Any:
                seen.append(model)
                return adapt(own, model, *arguments)

            with patch.object(Separation, "adapt", kept):
                options = {"epsilon": EPSILON, "delta": dataset.delta, "adjacency": adjacency, "rows": ROWS}
                release = synthesize(train, target=dataset.target, schema=dataset.schema, seed=split, **options)
            (before,), after = seen, release.model
            assert isinstance(after, GaussianModel)
            first, last = (model.centres[1] - model.centres[0] for model in (before, after))
            times = float(last @ first / (first @ first))
            for way, change in WAYS.items():
                table = replace(release, model=change(before, times)).table
                figures = scored(dataset, real=train, train=table, test=test, names=[LEARNER], seed=split)[LEARNER]
                lines[way].append({name: figures[name] for name in ("auc", "log_loss")} | {"times": times})
        results[str(adjacency)] = {
            way: {
                figure: mean_and_stdev([line[figure] for line in by_split]) for figure in ("auc", "log_loss", "times")
            }
            for way, by_split in lines.items()
        }
    settings = {"dataset": DATASET, "splits": SPLITS, "epsilon": EPSILON, "rows": ROWS}
    record("separation", settings | {"learner": learner_settings(LEARNER)}, results)
