"""`dpmerf` and `laplacegan`: what they ask, what they refuse, and that they learn from noiseless answers."""

import numpy as np
import pyarrow as pa
import pytest

from threea.anonymize.open_table import open_table
from threea.budget import Budget
from threea.certificate import Guarantee
from threea.errors import SettingError
from threea.recipes import DPMerf, LaplaceGAN
from threea.session import prepare
from threea.table.schema import Schema
from threea.testing import SilentNoise

SCHEMA = Schema.of(
    {
        "x": {"kind": "real", "lower": -1, "upper": 1, "nullable": False},
        "y": {"kind": "categorical", "categories": ["a", "b"], "nullable": False},
    },
    target="y",
)
ROWS = 2000


def table():
    rng = np.random.default_rng(0)
    group = rng.random(ROWS) < 0.25
    x = np.clip(np.where(group, 0.6, -0.4) + rng.normal(0, 0.1, ROWS), -1, 1)
    return pa.table({"x": x, "y": np.where(group, "b", "a")})


def made(recipe, epsilon=10.0):
    opened = open_table(table(), schema=SCHEMA, budget=Budget(epsilon), noise=SilentNoise())
    return recipe.run(opened, rows=ROWS, seed=1)


def medians(release):
    x, y = release.table["x"].to_numpy(), np.array(release.table["y"].to_pylist())
    return [np.median(x[y == name]) for name in "ab"], np.mean(y == "b")


def test_dpmerf_meets_noiseless_embeddings():
    release = made(DPMerf(features=32, iterations=250, batch=64, width=32))
    (low, high), share = medians(release)
    assert abs(low + 0.4) < 0.1
    assert abs(high - 0.6) < 0.1
    assert abs(share - 0.25) < 0.01
    losses = release.summary.figures[0].losses
    assert losses[-1] < losses[0] / 10


@pytest.mark.parametrize(
    "recipe",
    [LaplaceGAN(form="input", iterations=400, width=32), LaplaceGAN(form="gradient", iterations=150, width=8)],
    ids=lambda recipe: recipe.form,
)
def test_laplacegan_tells_classes_apart_from_noiseless_answers(recipe):
    (low, high), share = medians(made(recipe, epsilon=1000.0))
    assert high - low > 0.4
    assert abs(share - 0.25) < 0.01


def test_forms_ask_differently_and_are_proven():
    opened = open_table(table(), schema=SCHEMA, budget=Budget(1.0))
    asked = {form: LaplaceGAN(form=form, iterations=5).plan(opened).lines for form in ("input", "gradient")}
    assert [line.name for line in asked["input"]] == ["rows per class", "noisy rows"]
    assert [(line.name, line.count) for line in asked["gradient"]][1] == ("gradients of the discriminator", 5)
    assert LaplaceGAN().guarantee is DPMerf().guarantee is Guarantee.PROVEN


def test_laplacegan_needs_no_delta():
    opened = open_table(table(), schema=SCHEMA, budget=Budget(1.0, 0.0))
    assert LaplaceGAN(iterations=2, width=4).plan(opened).epsilon == pytest.approx(1.0)


def test_many_columns_have_no_histograms():
    wide = Schema.of({f"p{i}": {"kind": "real", "lower": 0, "upper": 1} for i in range(130)})
    assert [step.name for step in DPMerf().approximate.steps(wide)] == [
        "rows per class",
        "mean embedding given the label",
    ]


def test_a_training_that_would_take_days_is_refused_before_anything_is_spent():
    with pytest.raises(SettingError, match="dpmerf would take about"):
        prepare(table(), schema=SCHEMA, epsilon=1.0, recipe=DPMerf(iterations=100_000, batch=65_536, width=4096))


@pytest.mark.parametrize(
    ("kind", "wrong", "said"),
    [
        (DPMerf, {"features": 0}, r"features \(0\) must be a whole number from 1 to 16384"),
        (DPMerf, {"iterations": 1.5}, r"iterations \(1.5\)"),
        (DPMerf, {"batch": 0}, r"batch \(0\)"),
        (DPMerf, {"width": 5000}, r"width \(5000\)"),
        (DPMerf, {"length_scale": 0.0}, r"length_scale \(0.0\) must be from 0.001 to 1000"),
        (LaplaceGAN, {"form": "output"}, r"form \(output\) must be input or gradient"),
        (LaplaceGAN, {"width": 0}, r"width \(0\)"),
        (LaplaceGAN, {"iterations": -1}, r"iterations \(-1\)"),
    ],
)
def test_wrong_settings_are_refused(kind, wrong, said):
    with pytest.raises(SettingError, match=said):
        kind(**wrong)
