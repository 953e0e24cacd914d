"""ClustMix, proven: clusters, inducing points and mixtures, with every look at the rows in the plan."""

import builtins

import numpy as np
import pyarrow as pa
import pytest

from threea.anonymize.open_table import open_table
from threea.approximate.class_histograms import HISTOGRAMS
from threea.approximate.label_counts import CLASSES
from threea.approximate.mixture import CLUSTERS, MIXTURES
from threea.budget import Budget
from threea.certificate import Guarantee
from threea.errors import MissingExtra, SettingError
from threea.recipes import RECIPES, ClustMix, Independent
from threea.table.schema import Schema
from threea.testing import SeededNoise, SilentNoise

COLUMNS = 6
SCHEMA = Schema.of(
    {f"n{n}": {"kind": "real", "lower": -6.0, "upper": 6.0, "nullable": False} for n in range(COLUMNS)}
    | {"y": {"kind": "boolean", "nullable": False}},
    target="y",
)


def rows_of(rows, seed):
    """Return points of two kinds in each class, and their classes: no column tells the class alone."""
    rng = np.random.default_rng(seed)
    label, kind = rng.integers(0, 2, rows), rng.integers(0, 2, rows)
    signs = np.where(label[:, None] == 0, 1, (-1) ** np.arange(COLUMNS)) * (2 * kind - 1)[:, None]
    return 1.5 * signs + rng.standard_normal((rows, COLUMNS)), label


def arrow(points, label):
    return pa.table({f"n{n}": points[:, n] for n in range(COLUMNS)} | {"y": label.astype(bool)})


def released(recipe, *, noise, epsilon=1.0, rows=12_000):
    table = open_table(arrow(*rows_of(rows, 0)), schema=SCHEMA, budget=Budget(epsilon), noise=noise)
    return recipe.run(table, rows="same", seed=0)


def nearest_accuracy(release):
    """Return how often the nearest of some synthetic rows has the class of a fresh real one."""
    synthetic = release.table.slice(0, 2_000)
    points = np.column_stack([synthetic.column(f"n{n}").to_numpy() for n in range(COLUMNS)])
    label = synthetic.column("y").to_numpy(zero_copy_only=False)
    fresh, truth = rows_of(1_000, 1)
    distances = (points**2).sum(axis=1) - 2 * fresh @ points.T
    return (label[distances.argmin(axis=1)] == truth).mean()


def test_mixtures_teach_what_columns_apart_cannot():
    # The noise is seeded: the outcome is the same each time.
    assert nearest_accuracy(released(Independent(), noise=SeededNoise(1))) < 0.6
    assert nearest_accuracy(released(ClustMix(), noise=SeededNoise(1))) > 0.8


def test_every_look_at_the_rows_is_in_the_plan():
    table = open_table(arrow(*rows_of(50, 0)), schema=SCHEMA, budget=Budget(1.0))
    recipe = ClustMix(iterations=5)
    lines = {line.name: line for line in recipe.plan(table).lines}
    assert list(lines) == [CLASSES, HISTOGRAMS, CLUSTERS, MIXTURES]
    assert lines[CLUSTERS].count == 5
    shares = np.array([line.share for line in lines.values()])
    np.testing.assert_allclose(shares / shares.sum(), np.array([0.02, 0.15, 0.2, 0.65]) / 1.02, atol=0.01)
    release = recipe.run(table)
    assert release.guarantee is Guarantee.PROVEN
    assert set(release.summary.noise) == set(lines)


def test_the_mixtures_are_measured_around_the_adapted_centroids():
    pytest.importorskip("jax")
    pytest.importorskip("optax")
    kept, moved = (
        released(ClustMix(alpha=alpha, iterations=1), noise=SilentNoise(), epsilon=100.0, rows=1_000)
        for alpha in (1.0, 0.0)
    )
    assert sorted(kept.model.sizes) != sorted(moved.model.sizes)
    assert moved.model.sizes.sum() == pytest.approx(1_000)
    again = released(ClustMix(alpha=0.0, iterations=1), noise=SilentNoise(), epsilon=100.0, rows=1_000)
    assert again.table.equals(moved.table)


def test_keeping_the_centroids_needs_no_extra(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **options):
        if name.split(".")[0] in ("jax", "optax"):
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setattr("importlib.import_module", lambda name, package=None: without(name))
    assert released(ClustMix(alpha=1.0), noise=SilentNoise(), rows=200).rows == 200
    with pytest.raises(MissingExtra):
        released(ClustMix(alpha=0.5), noise=SilentNoise(), rows=200)


def test_it_is_listed():
    assert RECIPES["clustmix"] is ClustMix
    assert ClustMix().guarantee is Guarantee.PROVEN
    assert not ClustMix().fixed


@pytest.mark.parametrize(
    "wrong",
    [
        {"alpha": -0.1},
        {"alpha": 1.1},
        {"alpha": float("nan")},
        {"regularisation": 0.0},
        {"regularisation": float("inf")},
        {"sigma_max": 0.0},
        {"iterations": 0},
    ],
)
def test_settings_out_of_range_are_refused(wrong):
    (name,) = wrong
    with pytest.raises(SettingError, match=name):
        ClustMix(**wrong)


def test_what_cannot_run_is_refused_before_anything_is_spent(monkeypatch):
    """Discovery would come first, and cost: the plan says no before that."""
    rows = arrow(*rows_of(50, 0))
    monkeypatch.setattr("importlib.util.find_spec", lambda module: None)
    with pytest.raises(MissingExtra, match="nets"):
        ClustMix(alpha=0.5).plan(open_table(rows, target="y", budget=Budget(1.0)))
    assert ClustMix().plan(open_table(rows, target="y", budget=Budget(1.0))).lines
