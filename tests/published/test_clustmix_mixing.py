"""Mixing: noisy means of the rows around each centroid, with the paper's noise, as a finite set of rows."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from threea.adapt import kip
from threea.anonymize.open_table import open_table
from threea.anonymize.plan import Plan
from threea.approximate.points import Points
from threea.budget import Budget
from threea.certificate import Guarantee
from threea.errors import SettingError
from threea.framework import Recipe
from threea.published import clustmix_mixing
from threea.published.clustmix import ASSUMPTIONS
from threea.published.clustmix_clusters import Clusters, SizeConstrained
from threea.published.clustmix_mixing import Mixing
from threea.release import Release
from threea.table.schema import Schema
from threea.testing import SeededNoise

ROWS, COLUMNS = 2000, 40


def blobs() -> tuple[pa.Table, Schema]:
    """Return rows around 0.4 in the one class and 0.6 in the other; the ends are there, so that nothing is rescaled."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], ROWS // 2)
    values = np.clip(0.4 + 0.2 * labels[:, None] + rng.normal(0, 0.02, (ROWS, COLUMNS)), 0, 1)
    values[0], values[-1] = 0.0, 1.0
    columns: dict[str, Any] = {f"f{place}": values[:, place] for place in range(COLUMNS)}
    kinds: dict[str, Any] = {name: {"kind": "real", "lower": 0, "upper": 1} for name in columns}
    kinds["label"] = {"kind": "categorical", "categories": ["no", "yes"]}
    return pa.table(columns | {"label": np.array(["no", "yes"])[labels]}), Schema.of(kinds, target="label")


@dataclass(frozen=True, kw_only=True)
class Published(Recipe):
    """The stages, joined."""

    name: ClassVar[str] = "published"
    summary: ClassVar[str] = "for this test"
    stage: Any = field(default_factory=lambda: SizeConstrained(sigma_max=0.5))
    mixing: Any = field(default_factory=Mixing)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.CLAIMED

    @property
    def assumptions(self) -> tuple[str, ...]:
        return ASSUMPTIONS

    @property
    def fixed(self) -> bool:
        return True

    @property
    def approximate(self) -> Any:
        return self.stage

    @property
    def adapt(self) -> Any:
        return self.mixing


BUDGET = Budget(8.0, 1e-3)


def released(recipe: Recipe, seed: int = 0) -> Release:
    table, schema = blobs()
    return recipe.run(open_table(table, schema=schema, budget=BUDGET, noise=SeededNoise(seed), accept_unproven=True))


def clustered(seed: int = 0, **settings: Any) -> Clusters:
    table, schema = blobs()
    opened = open_table(table, schema=schema, budget=BUDGET, noise=SeededNoise(seed), accept_unproven=True)
    stage = SizeConstrained(sigma_max=0.1, **settings)
    return stage.fit(opened, Plan.calibrate(BUDGET, stage.steps(schema)))


def test_points_are_a_finite_set_each_released_once() -> None:
    release = released(Published())
    model = release.model
    assert isinstance(model, Points)
    assert (model.summary.histograms, model.summary.private_rows) == ({}, None)
    assert release.rows == model.size == release.table.num_rows > 10
    whole = model.summary.points
    assert whole is not None
    assert release.table["f0"].to_pylist() == whole["f0"].tolist()
    drawn = model.sample(50, np.random.default_rng(0))
    assert set(drawn["f0"]) <= set(whole["f0"])
    assert len(drawn["f0"]) == 50


def test_the_certificate_claims_and_says_what_is_taken_for_granted() -> None:
    certificate = released(Published()).certificate()
    assert certificate.accounted_epsilon == float("inf")
    assert set(ASSUMPTIONS) <= set(certificate.assumptions)
    assert "ClustMix as published reads the rows without a proof" in certificate.assumptions
    assert [event["event"] for event in certificate.events] == ["NonPrivate"]
    assert "float64" in certificate.arithmetic


@pytest.mark.parametrize(
    ("clusters", "settings"), [("constrained", {}), ("random", {"recompute": False})], ids=["constrained", "random"]
)
def test_noise_has_the_papers_spread(clusters: Any, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fixed seed; with another, a ratio of variances would be off by this much once in 1e6 times."""
    seen: dict[str, Any] = {}

    def means(values: Any, memberships: Any) -> Any:
        seen.update(sizes=np.bincount(memberships), clean=real(values, memberships))
        return seen["clean"]

    real = clustmix_mixing.means
    monkeypatch.setattr(clustmix_mixing, "means", means)
    release = released(
        Published(stage=SizeConstrained(sigma_max=0.05, scaling="minmax", clusters=clusters), mixing=Mixing(**settings))
    )
    assert isinstance(release.model, Points)
    points = np.column_stack([release.model.chunk[f"f{place}"] for place in range(COLUMNS)])
    sigma = np.sqrt(2 * COLUMNS) / (BUDGET.mu * seen["sizes"])
    assert sigma.max() <= 0.05
    assert (np.abs(seen["clean"] - 0.5) < 0.5 - 3.5 * sigma[:, None]).all(), "clipping at 0 and 1 would be seen"
    normal = (points - seen["clean"]) / sigma[:, None]
    assert normal.size > 200
    assert normal.std() == pytest.approx(1, abs=4.9 / np.sqrt(2 * normal.size))
    assert normal.mean() == pytest.approx(0, abs=4.9 / np.sqrt(normal.size))


def test_labels_are_their_clusters() -> None:
    release = released(Published(stage=SizeConstrained(sigma_max=0.05)))
    table = release.table
    middle = np.mean([table[f"f{place}"].to_numpy() for place in range(COLUMNS)], axis=0)
    assert ((middle > 0.5) == (table["label"].to_numpy(zero_copy_only=False) == "yes")).all()


def test_alpha_one_needs_no_inducing_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustmix_mixing, "induce", None)
    assert released(Published()).rows > 10


@pytest.mark.parametrize("slices", [1, 3])
def test_each_slice_is_induced_by_its_own_rows(slices: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def induce(support: Any, labels: Any, target: Any, target_labels: Any, **settings: Any) -> Any:
        calls.append((len(support), len(target), settings["alpha"], settings["regularisation"]))
        assert len(labels) == len(support)
        assert len(target_labels) == len(target)
        return kip.Induced(support + 0.01, np.zeros(0))

    monkeypatch.setattr(clustmix_mixing, "induce", induce)
    clusters = clustered(slices=slices)
    points = Mixing(alpha=0.25, regularisation=0.5).anonymized(clusters)
    assert len(calls) == len(np.unique(clusters.regions)) == slices
    assert sum(support for support, *_ in calls) == points.size
    assert sum(target for _, target, *_ in calls) == ROWS
    assert {(alpha, regularisation) for *_, alpha, regularisation in calls} == {(0.25, 0.5)}


def test_memberships_are_made_anew_around_adapted_centroids(monkeypatch: pytest.MonkeyPatch) -> None:
    clusters = clustered()
    seen: list[Any] = []
    real = clustmix_mixing.means

    def means(values: Any, memberships: Any) -> Any:
        seen.append(memberships)
        return real(values, memberships)

    def elsewhere(support: Any, labels: Any, *rest: Any, **settings: Any) -> Any:
        return kip.Induced(np.random.default_rng(1).permutation(support), np.zeros(0))

    monkeypatch.setattr(clustmix_mixing, "means", means)
    monkeypatch.setattr(clustmix_mixing, "induce", elsewhere)
    Mixing(alpha=0.5).anonymized(clusters)
    Mixing(alpha=0.5, recompute=False).anonymized(clusters)
    moved, kept = seen
    assert np.array_equal(kept, clusters.memberships)
    assert not np.array_equal(moved, clusters.memberships)
    assert np.bincount(moved).min() >= clusters.l_min
    assert (clusters.labels[moved] == clusters.exposed.labels).all()


def test_real_inducing_points_join() -> None:
    pytest.importorskip("jax")
    assert released(Published(stage=SizeConstrained(sigma_max=0.05), mixing=Mixing(alpha=0.5))).rows > 2


@pytest.mark.parametrize("wrong", [{"alpha": 1.5}, {"alpha": float("nan")}, {"regularisation": 0.0}])
def test_settings_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(SettingError, match=next(iter(wrong))):
        Mixing(**wrong)  # type: ignore[arg-type]


def test_only_clusters_can_be_mixed() -> None:
    table, schema = blobs()
    opened = open_table(table, schema=schema, budget=BUDGET, noise=SeededNoise(0))
    plan = Plan.calibrate(BUDGET, SizeConstrained().steps(schema))
    with pytest.raises(SettingError, match="clusters"):
        Mixing().adapt(Points({"f0": np.zeros(1)}), opened, plan)
