"""Mean embeddings, and rows in slots: what silent answers say, and what is refused."""

import math

import numpy as np
import pytest

from threea import hospital
from threea.anonymize.clipping import step_of
from threea.anonymize.cluster_sums import Scores
from threea.anonymize.events import Gaussian, Pure
from threea.anonymize.mean_embedding import MeanEmbedding, frequencies_of
from threea.anonymize.open_table import open_table
from threea.anonymize.plan import Plan, Step
from threea.anonymize.query import Norm
from threea.anonymize.slot_sums import SlotSums, between
from threea.budget import Budget
from threea.errors import SettingError
from threea.table import codec
from threea.table.row_vectors import RowVectors
from threea.testing import SilentNoise

SCHEMA, STAYS = hospital.schema(), hospital.stays(60)
AGE, DIED = SCHEMA["age"].cells(200), SCHEMA["died"].cells(2)
SCORES = Scores((AGE,), (np.arange(AGE.size)[:, None] * 2 - 120,))
INPUTS = RowVectors.of((SCHEMA["age"], SCHEMA["ward"])).columns


def asked(query, kind=Gaussian):
    table = open_table(STAYS, schema=SCHEMA, budget=Budget(1.0), noise=SilentNoise())
    return table.measure(query, Plan.calibrate(table.budget, [Step(name="x", weight=1.0, kind=kind)])["x"])


def test_a_silent_answer_is_the_sum_of_cosines_and_sines():
    radians = np.array([[0.7, -2.0]])
    query = MeanEmbedding(scores=SCORES, frequencies=frequencies_of(radians), by=DIED)
    sums, _ = query.read(asked(query))
    chunk = codec.encode(STAYS.combine_chunks().to_batches()[0], SCHEMA)
    scores = SCORES.tables[0][AGE.index(chunk["age"]), 0] / 256
    for group in range(2):
        phases = scores[chunk["died"] == group, None] * radians[0]
        expected = np.concatenate([np.cos(phases).sum(axis=0), np.sin(phases).sum(axis=0)])
        # Of 4,096 angles, at 60 rows.
        assert np.abs(sums[group] - expected).max() < 60 * 2e-3


def test_slots_hold_each_row_once():
    query = SlotSums(inputs=INPUTS, counts=(7, 3), radius=50.0, by=DIED)
    chunk = codec.encode(STAYS.combine_chunks().to_batches()[0], SCHEMA)
    vectors = between(RowVectors(INPUTS).encode(chunk), INPUTS)
    for kind, norm in ((Gaussian, Norm.L2), (Pure, Norm.L1)):
        slots, stddev = query.read(asked(query, kind), step_of(1.0), norm)
        assert stddev > 0
        assert np.allclose(slots[:7].sum(axis=0), vectors[chunk["died"] == 0].sum(axis=0), atol=1e-3)
        assert np.allclose(slots[7:].sum(axis=0), vectors[chunk["died"] == 1].sum(axis=0), atol=1e-3)
    assert (slots.sum(axis=1) > 0).sum() > 7


def test_long_rows_are_shortened_to_the_radius():
    query = SlotSums(inputs=INPUTS, counts=(60, 60), radius=0.5, by=DIED)
    slots, _ = query.read(asked(query, Pure), step_of(1.0), Norm.L1)
    assert slots.sum() == pytest.approx(60 * 0.5, rel=1e-3)


@pytest.mark.parametrize(
    ("kind", "wrong", "said"),
    [
        (MeanEmbedding, {"frequencies": np.zeros((2, 3), int)}, "for each score"),
        (MeanEmbedding, {"frequencies": np.full((1, 3), 1 << 21)}, "whole numbers"),
        (MeanEmbedding, {"frequencies": np.zeros((1, 3))}, "whole numbers"),
        (SlotSums, {"counts": (1,)}, "each class needs slots"),
        (SlotSums, {"counts": (0, 1)}, "each class needs slots"),
        (SlotSums, {"counts": (1 << 20, 1)}, "slots times numbers"),
        (SlotSums, {"radius": math.inf}, "radius"),
    ],
)
def test_parts_that_do_not_fit_are_refused(kind, wrong, said):
    good = {
        MeanEmbedding: {"scores": SCORES, "frequencies": np.zeros((1, 3), int), "by": DIED},
        SlotSums: {"inputs": INPUTS, "counts": (2, 2), "radius": 1.0, "by": DIED},
    }
    with pytest.raises(SettingError, match=said):
        kind(**(good[kind] | wrong))
