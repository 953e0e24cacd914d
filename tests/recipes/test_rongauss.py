"""RON-Gauss, proven: rows on a sphere, projected, and a Gaussian per class, with every look at the rows in the plan."""

import numpy as np
import pyarrow as pa
import pytest

from threea.anonymize.events import Gaussian, Pure
from threea.anonymize.open_table import open_table
from threea.approximate import projected_gaussians
from threea.approximate.class_histograms import HISTOGRAMS
from threea.approximate.label_counts import CLASSES
from threea.approximate.multilevel import MOMENTS
from threea.approximate.projected_gaussians import directions
from threea.budget import Budget
from threea.certificate import Guarantee
from threea.errors import SettingError
from threea.recipes import RECIPES, RonGauss
from threea.table.schema import Schema
from threea.testing import CASES, TABLE_LAWS, SeededNoise

COLUMNS = 12
SCHEMA = Schema.of(
    {f"n{n}": {"kind": "real", "lower": -4, "upper": 4, "nullable": False} for n in range(COLUMNS)}
    | {"y": {"kind": "categorical", "categories": ["no", "yes"], "nullable": False}},
    target="y",
)


def rows_of(rows, seed=0):
    """Neighbouring columns go together, and classes differ in the first."""
    rng = np.random.default_rng(seed)
    y = rng.random(rows) < 0.5
    hidden = np.repeat(rng.normal(0, 1, (rows, COLUMNS // 2)), 2, axis=1)
    values = 0.9 * hidden + 0.43 * rng.normal(0, 1, (rows, COLUMNS))
    values[:, 0] += np.where(y, 1.0, -1.0)
    columns = {f"n{n}": values[:, n].clip(-4, 4) for n in range(COLUMNS)}
    return pa.table({**columns, "y": np.where(y, "yes", "no")})


def released(recipe, table=None, noise=None, epsilon=4.0, schema=SCHEMA):
    table = rows_of(8_000) if table is None else table
    return recipe.run(open_table(table, schema=schema, budget=Budget(epsilon), noise=noise), seed=0)


def correlation(table, one, other):
    return float(np.corrcoef(table[one].to_numpy(), table[other].to_numpy())[0, 1])


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_columns_go_together_and_classes_differ(noise):
    """The noise is seeded: the outcome is the same each time."""
    table = released(RonGauss(noise=noise), noise=SeededNoise(1), epsilon=4.0 if noise == "gaussian" else 40.0).table
    assert correlation(table, "n2", "n3") == pytest.approx(0.8, abs=0.15)
    assert abs(correlation(table, "n2", "n5")) < 0.1
    label = table["y"].to_numpy(zero_copy_only=False) == "yes"
    values = table["n0"].to_numpy()
    assert values[label].mean() - values[~label].mean() > 1.0


def test_fewer_dimensions_tell_less():
    few, all_of_them = (
        released(RonGauss(dimensions=p), noise=SeededNoise(1), epsilon=100.0).table for p in (2, COLUMNS)
    )
    assert abs(correlation(few, "n2", "n3")) < correlation(all_of_them, "n2", "n3") - 0.2


def test_directions_are_orthonormal_public_and_seeded():
    one, again, other = directions(20, 5, 1), directions(20, 5, 1), directions(20, 5, 2)
    assert one.dtype == np.int64
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
    np.testing.assert_allclose(one.T @ one / 2.0**28, np.eye(5), atol=1e-3)
    assert directions(3, 5, 0).shape == (3, 3)


def test_the_seed_is_of_the_directions():
    one, again, other = (released(RonGauss(dimensions=3, seed=seed), noise=SeededNoise(1)).table for seed in (1, 1, 2))
    assert one.equals(again)
    assert not one.equals(other)


def test_every_look_at_the_rows_is_in_the_plan():
    for noise, kind in (("gaussian", Gaussian), ("laplace", Pure)):
        steps = RonGauss(noise=noise).approximate.steps(SCHEMA)
        assert [step.name for step in steps] == [CLASSES, HISTOGRAMS, MOMENTS]
        assert {step.kind for step in steps} == {kind}
    assert all(
        f"[.{round(100 * share):02d}".rstrip("0") in RonGauss.__doc__ for share in projected_gaussians.SHARES.values()
    )
    release = released(RonGauss(), rows_of(200))
    assert release.guarantee is Guarantee.PROVEN
    assert set(release.summary.noise) == {CLASSES, HISTOGRAMS, MOMENTS}


@pytest.mark.parametrize("case", ["plain", "no target", "constant columns", "one feature"])
def test_laplace_noise_and_few_dimensions_are_lawful_too(case):
    for law in TABLE_LAWS:
        assert law(RonGauss(noise="laplace", dimensions=2), CASES[case]) in (None, True)


@pytest.mark.parametrize(
    "wrong", [{"dimensions": 0}, {"dimensions": 513}, {"seed": -1}, {"seed": 1 << 63}, {"noise": "none"}]
)
def test_settings_out_of_range_are_refused(wrong):
    (name,) = wrong
    with pytest.raises(SettingError, match=name):
        RonGauss(**wrong)


def test_too_many_products_are_refused_before_anything_is_spent():
    numbers = {f"n{n}": {"kind": "real", "lower": 0, "upper": 1} for n in range(300)}
    label = {"kind": "categorical", "categories": [str(code) for code in range(50)]}
    schema = Schema.of(numbers | {"y": label}, target="y")
    with pytest.raises(SettingError, match="fewer dimensions"):
        RonGauss(dimensions=300).approximate.steps(schema)
    assert RonGauss(dimensions=100).approximate.steps(schema)


def test_it_is_listed():
    assert RECIPES["rongauss"] is RonGauss
    assert RonGauss().guarantee is Guarantee.PROVEN
