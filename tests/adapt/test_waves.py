"""Random waves: a teacher learns what adding features up cannot say, and nothing where there is nothing."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from threea.adapt.taught import Taught, softmax
from threea.adapt.teacher import STEP, WAVES
from threea.adapt.waves import Newton, random_waves
from threea.anonymize.open_table import open_table
from threea.budget import Budget
from threea.errors import SettingError
from threea.model_file import load_release
from threea.recipes import LabelTree
from threea.table.schema import Schema
from threea.testing import SeededNoise, SilentNoise

ROWS = 12_000
BITS = {name: {"kind": "categorical", "categories": ["0", "1"], "nullable": False} for name in ("a", "b", "c", "label")}
SCHEMA = Schema.of({**BITS, "x": {"kind": "real", "lower": 0, "upper": 1}}, target="label")


def rows_of(interacting: bool) -> tuple[pa.Table, np.ndarray]:
    """Return rows whose label is the exclusive or of two bits, or of none, nine times in ten; and their bits."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, (3, ROWS))
    truth = bits[0] ^ bits[1] if interacting else rng.integers(0, 2, ROWS)
    label = np.where(rng.random(ROWS) < 0.9, truth, 1 - truth)
    columns = dict(zip("abc", (pa.array(line.astype(str)) for line in bits), strict=True))
    return pa.table({**columns, "label": label.astype(str), "x": rng.random(ROWS)}), bits


def taught(table: pa.Table, noise: Any, epsilon: float = 2.0, **settings: Any) -> tuple[Taught, list[str]]:
    """Return a taught tree, and the lines that were charged."""
    recipe = LabelTree(**settings)
    opened = open_table(table, schema=SCHEMA, budget=Budget(epsilon), noise=noise)
    plan = recipe.plan(opened)
    assert recipe.adapt is not None
    model = recipe.adapt.adapt(recipe.approximate.fit(opened, plan), opened, plan)
    assert isinstance(model, Taught)
    return model, [line.name for line in opened.spent(plan) for _ in range(line.count)]


def probabilities(model: Taught, bits: np.ndarray) -> np.ndarray:
    """Return how likely the teacher takes the second class to be, for numbers in the middle."""
    names = [feature.cells.column for feature in model.model.features]
    codes = [
        bits["abc".index(name)] if name != "x" else np.full(bits.shape[1], model.model.features[place].cells.size // 2)
        for place, name in enumerate(names)
    ]
    return np.asarray(softmax(model.logits(codes))[1])


@pytest.mark.parametrize("noise", [SilentNoise(), SeededNoise(3)], ids=["exact", "noisy"])
def test_it_learns_what_two_features_say_together(noise: Any) -> None:
    """Fixed seeds. Of pure chance a teacher that adds up is off by 0.4 on average; the bound is half of that."""
    table, bits = rows_of(interacting=True)
    truth = np.where(bits[0] ^ bits[1], 0.9, 0.1)
    model, _ = taught(table, noise, waves=0.5)
    assert np.abs(probabilities(model, bits) - truth).mean() < 0.2
    plain, _ = taught(table, noise)
    assert np.abs(probabilities(plain, bits) - truth).mean() > 0.35


def test_where_there_is_nothing_to_learn_hardly_anything_changes() -> None:
    """Fixed seed; the bound is some three times what is seen."""
    table, bits = rows_of(interacting=False)
    model, _ = taught(table, SeededNoise(5), waves=0.5)
    assert np.abs(probabilities(model, bits) - 0.5).mean() < 0.06


def test_the_share_of_waves_changes_the_events() -> None:
    table, _ = rows_of(interacting=True)
    assert taught(table, SilentNoise())[1].count(WAVES) == 0
    _, charged = taught(table, SilentNoise(), waves=0.5)
    assert charged.count(WAVES) == 2
    opened = open_table(table, schema=SCHEMA, budget=Budget(1.0), noise=SilentNoise())
    events = [LabelTree(waves=share).plan(opened)[STEP].event for share in (0.2, 0.5)]
    assert events[0].noise_multiplier < events[1].noise_multiplier


def test_a_saved_release_draws_the_same_rows(tmp_path: Path) -> None:
    table, _ = rows_of(interacting=True)
    opened = open_table(table, schema=SCHEMA, budget=Budget(2.0), noise=SeededNoise(3))
    release = LabelTree(waves=0.5).run(opened, rows=3_000, seed=1)
    release.save(tmp_path / "out")
    assert load_release(tmp_path / "out").sample(3_000, seed=1).equals(release.table)


@pytest.mark.parametrize("share", [-0.1, 0.9])
def test_a_share_out_of_range_is_refused(share: float) -> None:
    with pytest.raises(SettingError, match="waves"):
        LabelTree(waves=share)


def test_waves_are_together_one_long() -> None:
    model, _ = taught(rows_of(interacting=True)[0], SilentNoise(), waves=0.5)
    waves = random_waves(model.model, model.learned, 50, 2)
    coarse = [np.zeros(7, np.int64) for _ in model.learned]
    assert np.linalg.norm(waves.heights(coarse), axis=1) == pytest.approx(1.0, abs=1e-4)


def test_without_noise_a_step_is_a_newton_step_and_with_much_noise_none() -> None:
    rng = np.random.default_rng(0)
    heights = rng.normal(size=(4_000, 6)).astype(np.float32)
    newton = Newton.of(heights, np.vstack([np.zeros(4_000), rng.normal(size=4_000)]), 1.0)
    wanted = rng.normal(size=(1, 6))
    assert newton.solved(newton.times(wanted), 1e-6) == pytest.approx(wanted, rel=1e-3)
    hidden = newton.solved(newton.times(wanted) + rng.normal(0, 1e6, (1, 6)), 1e6)
    assert np.abs(hidden).max() < 0.05
