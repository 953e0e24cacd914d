"""`pategan`: teachers, their votes, what a student makes of them, and how the generator answers."""

import numpy as np
import pyarrow as pa
import pytest

from threea.adapt.generator_model import GeneratorModel
from threea.adapt.pate import Generated, Teachers, student
from threea.adapt.pate_generator import VOTES
from threea.anonymize.events import Gaussian
from threea.anonymize.open_table import open_table
from threea.budget import Budget
from threea.errors import SettingError
from threea.recipes import PATEGAN
from threea.table.schema import Schema
from threea.testing import SeededNoise, SilentNoise

ROWS = 4000
PUBLIC = {
    "place": {"kind": "real", "lower": 0.0, "upper": 1.0, "nullable": False},
    "colour": {"kind": "categorical", "categories": ["red", "green", "blue"], "nullable": True},
    "label": {"kind": "categorical", "categories": ["no", "yes"], "nullable": False},
}
SCHEMA = Schema.of(PUBLIC, target="label")


@pytest.fixture(scope="module")
def table():
    """Rows whose place and colour tell the class; a quarter are of the second."""
    rng = np.random.default_rng(0)
    yes = np.arange(ROWS) % 4 == 0
    place = np.clip(rng.normal(np.where(yes, 0.7, 0.4), 0.15), 0, 1)
    colour = np.where(rng.random(ROWS) < np.where(yes, 0.8, 0.2), "red", "blue")
    return pa.table({"place": place, "colour": colour, "label": np.where(yes, "yes", "no")})


def released(table, noise, **settings):
    opened = open_table(table, schema=SCHEMA, budget=Budget(1.0), noise=noise)
    return PATEGAN(**{"teachers": 200, "inputs": 100, **settings}).run(opened, rows=4000, seed=1)


@pytest.mark.parametrize("noise", [SilentNoise(), SeededNoise(3)], ids=["silent", "seeded"])
def test_classes_differ_as_the_rows_do(table, noise):
    """With a fixed seed; started from columns that do not know the class."""
    release = released(table, noise)
    assert isinstance(release.model, GeneratorModel)
    made, real = release.table.to_pandas(), table.to_pandas()
    places, colours = (
        [
            [rows[rows.label == label].place.mean(), (rows[rows.label == label].colour == "red").mean()]
            for rows in (made, real)
        ]
        for label in ("no", "yes")
    )
    np.testing.assert_allclose(places[0], places[1], atol=0.15)
    np.testing.assert_allclose(colours[0], colours[1], atol=0.15)
    assert (made.label == "yes").mean() == pytest.approx(0.25, abs=0.02)
    assert (made.colour == "red").mean() == pytest.approx((real.colour == "red").mean(), abs=0.03)


def test_every_round_is_charged(table):
    opened = open_table(table, schema=SCHEMA, budget=Budget(1.0))
    one, three = (PATEGAN(rounds=rounds).plan(opened)[VOTES].line for rounds in (1, 3))
    assert (one.count, three.count) == (1, 3)
    assert isinstance(one.event, Gaussian)
    assert three.event.noise_multiplier == pytest.approx(one.event.noise_multiplier * 3**0.5, rel=1e-6)


def test_a_person_of_many_rows_has_a_say_in_as_many_classes():
    """More rows of a person, more noise: they may be of both classes, whose teachers vote apart."""
    schema = Schema.of({**PUBLIC, "person": {"kind": "id"}}, target="label")
    people = pa.table(
        {
            "person": np.arange(400) // 4,
            "place": np.linspace(0, 1, 400),
            "colour": ["red", "blue"] * 200,
            "label": ["no", "no", "yes", "yes"] * 100,
        }
    )
    noises = [
        PATEGAN(teachers=5, inputs=4, rounds=1)
        .run(
            open_table(people, schema=schema, budget=Budget(1.0), unit="person", max_rows_per_unit=rows),
            rows=10,
        )
        .summary.noise[VOTES]
        for rows in (1, 2, 4)
    ]
    assert noises[1] / noises[0] == pytest.approx(2**0.5)
    assert noises[2] / noises[1] == pytest.approx(1.0)


@pytest.mark.parametrize("setting", ["teachers", "rows_per_teacher", "rounds", "inputs"])
def test_settings_outside_their_bounds_are_refused(setting):
    for value in (0, 10**6, 1.5):
        with pytest.raises(SettingError, match=setting):
            PATEGAN(**{setting: value})


def generated(width=3, inputs=200):
    return Generated.of(np.random.default_rng(1).normal(size=(2000, width)), inputs)


def test_a_teacher_calls_real_what_is_like_its_rows():
    own = generated()
    votes = Teachers((own,))(np.array([4.0, 8.0, 0.0, 0.0]), 0)
    assert votes.sum() == 100
    assert own.inputs[votes == 1, 0].min() > -0.2
    assert own.inputs[votes == 0, 0].max() < 0.2
    assert not Teachers((own,))(np.zeros(4), 0).any()


def test_the_student_finds_the_log_odds():
    """Teachers of 5 rows each, whose class lies 0.3 off: then the log-odds have weight 0.3 on that number."""
    rng, own, teachers = np.random.default_rng(2), generated(), 1000
    votes = np.zeros((200, 2))
    for mean in rng.normal([0.3, 0.0, 0.0], 1 / np.sqrt(5), (teachers, 3)):
        ballot = Teachers((own,))(np.append(5.0, 5 * mean), 0)
        votes[np.arange(200), ballot] += 1
    weights = student(votes, 1e-6, own, rows=5.0 * teachers, teachers=teachers)
    np.testing.assert_allclose(weights, [0.3, 0.0, 0.0], atol=0.06)
    drowned = student(votes, 1e5, own, rows=5.0 * teachers, teachers=teachers)
    assert np.abs(drowned).max() < 0.2 * np.abs(weights).max()
