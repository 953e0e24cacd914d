"""The search keeps the points that serve the private rows best, and says that it is not paid for."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from threea.anonymize.open_table import open_table
from threea.anonymize.plan import Plan
from threea.approximate.points import Points
from threea.budget import Budget
from threea.errors import MissingExtra, SettingError
from threea.published import clustmix_mixing, clustmix_search
from threea.published.clustmix_clusters import Clusters, SizeConstrained
from threea.published.clustmix_mixing import Mixing
from threea.published.clustmix_search import POINTS, Search, utility
from threea.table.schema import Schema
from threea.testing import SeededNoise

BUDGET = Budget(4.0, 1e-2)
STAGE, MIXING = SizeConstrained(sigma_max=0.1), Mixing(alpha=1.0)


def rows_of(classes: int) -> tuple[pa.Table, Schema]:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, 400)
    columns: dict[str, Any] = {
        "x": labels / classes + rng.normal(0, 0.1, 400),
        "word": np.array(list("abc"))[rng.integers(0, 3, 400)],
        "label": labels.astype(str),
    }
    kinds: dict[str, Any] = {
        "x": {"kind": "real", "lower": -1, "upper": 2},
        "word": {"kind": "categorical", "categories": list("abc")},
        "label": {"kind": "categorical", "categories": [str(place) for place in range(classes)]},
    }
    return pa.table(columns), Schema.of(kinds, target="label")


def opened_and_planned(classes: int = 2, seed: int = 0) -> tuple[Any, Plan]:
    table, schema = rows_of(classes)
    opened = open_table(table, schema=schema, budget=BUDGET, noise=SeededNoise(seed), accept_unproven=True)
    return opened, Plan.calibrate(BUDGET, STAGE.steps(schema))


def searched(trials: int, seed: int = 0) -> Points:
    opened, plan = opened_and_planned(seed=seed)
    return Search(approximate=STAGE, mixing=MIXING, trials=trials).adapt(STAGE.fit(opened, plan), opened, plan)


def no_inducing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustmix_mixing.Mixing, "_kernel_inducing_points", lambda self, clusters: clusters.centroids)


@pytest.mark.parametrize("classes", [2, 3])
def test_utility_is_high_for_points_like_the_rows_and_low_for_noise(classes: int) -> None:
    pytest.importorskip("lightgbm")
    opened, plan = opened_and_planned(classes)
    clusters = STAGE.fit(opened, plan)
    source = clusters.exposed
    like = Points(source.chunk)
    mixed_up = source.chunk | {"label": np.random.default_rng(1).permutation(source.labels)}
    assert utility(like, source) > 0.9
    assert utility(Points(mixed_up), source) < 0.75
    one = {name: values[source.labels == 1] for name, values in source.chunk.items()}
    assert utility(Points(one), source) == 0.0


def test_utility_of_two_classes_is_the_area_under_the_curve_of_the_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trained on labels turned round, the classifier ranks the wrong way."""
    opened, plan = opened_and_planned()
    source = STAGE.fit(opened, plan).exposed
    turned = source.chunk | {"label": 1 - source.labels}
    right, wrong = utility(Points(source.chunk), source), utility(Points(turned), source)
    assert right == pytest.approx(1 - wrong, abs=0.02)


def test_the_best_of_all_trials_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    no_inducing(monkeypatch)
    scores, tried = iter([0.3, 0.9, 0.5, 0.8]), []

    def score(points: Points, source: Any) -> float:
        tried.append(points)
        return next(scores)

    monkeypatch.setattr(clustmix_search, "utility", score)
    best = searched(4)
    assert len(tried) == 4
    assert best is tried[1]
    given = {"sigma_max": 0.1, "scaling": STAGE.scaling, "alpha": 1.0, "regularisation": MIXING.regularisation}
    assert tried[0].settings == given
    assert best.settings.keys() == given.keys()
    assert best.settings != given


def test_the_settings_given_are_tried_first_and_others_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    no_inducing(monkeypatch)
    monkeypatch.setattr(clustmix_search, "utility", lambda points, source: 0.0)
    mixed: list[Mixing] = []
    made: list[SizeConstrained] = []
    noises: set[float] = set()
    anonymized, cluster = Mixing.anonymized, SizeConstrained.cluster

    def mix(self: Mixing, clusters: Clusters) -> Points:
        mixed.append(self)
        return anonymized(self, clusters)

    def clustering(self: SizeConstrained, exposed: Any, sigma_l: float) -> Clusters:
        made.append(self)
        noises.add(sigma_l)
        return cluster(self, exposed, sigma_l)

    monkeypatch.setattr(Mixing, "anonymized", mix)
    monkeypatch.setattr(SizeConstrained, "cluster", clustering)
    searched(12)
    assert mixed[0] == MIXING
    assert made[0] == STAGE
    assert len(made) == len(mixed) == 12
    assert len({stage.sigma_max for stage in made}) > 5
    (sigma_l,) = noises
    fewest, most = (sigma_l * points / 400 for points in POINTS)
    bounds = min(fewest, STAGE.sigma_max), max(most, STAGE.sigma_max)
    assert all(bounds[0] <= stage.sigma_max <= bounds[1] for stage in made)
    assert {stage.scaling for stage in made} == {"minmax", "quantile"}
    assert all(0 <= each.alpha <= 1 for each in mixed)


def test_a_search_repeats_with_seeded_noise_and_reads_the_rows_once(monkeypatch: pytest.MonkeyPatch) -> None:
    no_inducing(monkeypatch)
    first, again = searched(3), searched(3)
    assert all(np.array_equal(again.chunk[name], values) for name, values in first.chunk.items())
    opened, plan = opened_and_planned()
    Search(approximate=STAGE, mixing=MIXING, trials=3).adapt(STAGE.fit(opened, plan), opened, plan)
    assert opened._interior.spending.exposed == ["ClustMix as published"]


def test_a_search_needs_classes_trials_and_clusters() -> None:
    table, _ = rows_of(2)
    kinds = {"x": {"kind": "real", "lower": -1, "upper": 2}, "word": {"kind": "categorical", "categories": list("abc")}}
    schema = Schema.of(kinds, target="x")
    opened = open_table(
        table.drop_columns("label"), schema=schema, budget=BUDGET, noise=SeededNoise(0), accept_unproven=True
    )
    plan = Plan.calibrate(BUDGET, STAGE.steps(schema))
    sought = Search(approximate=STAGE, mixing=MIXING, trials=2)
    with pytest.raises(SettingError, match="target with classes"):
        sought.adapt(STAGE.fit(opened, plan), opened, plan)
    with pytest.raises(SettingError, match="clusters"):
        sought.adapt(Points({"x": np.zeros(1)}), opened, plan)
    with pytest.raises(SettingError, match="trials"):
        Search(approximate=STAGE, mixing=MIXING, trials=0)
    assert sought.steps(schema) == ()


@pytest.mark.parametrize(("package", "extra"), [("optuna", "published"), ("lightgbm", "evaluate")])
def test_a_missing_package_is_named(package: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"{package} is not installed; pip install 'threea\[{extra}\]'"):
        searched(1)
