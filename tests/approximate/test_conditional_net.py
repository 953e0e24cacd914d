"""A network that begins with given columns: they are never paid for, and what is drawn hangs on them as it should."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from threea.anonymize.open_table import open_table
from threea.anonymize.plan import Plan
from threea.approximate.bayes_net import BayesNet
from threea.approximate.conditional_net import PARENT_ROWS, ConditionalNet, ConditionalNetModel
from threea.budget import Budget
from threea.table.schema import Schema
from threea.testing import SilentNoise

ROWS = 4_000
SCHEMA = Schema.of(
    {
        "parent.sex": {"kind": "categorical", "categories": ["f", "m"], "nullable": False},
        "parent.age": {"kind": "integer", "lower": 0, "upper": 9, "nullable": False},
        "ward": {"kind": "categorical", "categories": ["a", "b"], "nullable": False},
        "nights": {"kind": "integer", "lower": 0, "upper": 9, "nullable": False},
    }
)
GIVEN = ("parent.sex", "parent.age")


def fitted(degree: int = 3, target: str | None = None) -> tuple[ConditionalNetModel, Plan]:
    """Fit rows whose ward is that of the parent's sex, and whose nights are the parent's age, without noise."""
    rng = np.random.default_rng(0)
    sex, age = rng.integers(0, 2, ROWS), rng.integers(0, 10, ROWS)
    rows = {
        "parent.sex": np.array(["f", "m"])[sex],
        "parent.age": age,
        "ward": np.array(["a", "b"])[sex],
        "nights": age,
    }
    schema = Schema(SCHEMA.columns, target=target)
    table = open_table(pa.table(rows), schema=schema, budget=Budget(1.0), noise=SilentNoise())
    net = ConditionalNet(net=BayesNet(noise="gaussian", theta=0.1, beta=0.1, degree=degree), given=GIVEN)
    plan = Plan.calibrate(table.budget, net.steps(table.schema))
    drawn = {
        "parent.sex": rng.integers(0, 2, PARENT_ROWS),
        "parent.age": rng.integers(0, 10, PARENT_ROWS).astype(np.float64),
    }
    return net.fit(table, plan, drawn), plan


@pytest.mark.parametrize("target", [None, "nights"])
def test_children_are_as_their_parents_say(target: str | None) -> None:
    model, _ = fitted(target=target)
    rng = np.random.default_rng(1)
    parents = {"parent.sex": rng.integers(0, 2, 5_000), "parent.age": rng.integers(0, 10, 5_000).astype(np.float64)}
    drawn = model.sample(parents, rng)
    assert set(drawn) == {"ward", "nights"}
    assert (drawn["ward"] == parents["parent.sex"]).mean() > 0.98
    assert (drawn["nights"] == parents["parent.age"]).mean() > 0.95
    assert model.summary.private_rows == ROWS


def test_given_columns_are_not_paid_for() -> None:
    model, plan = fitted()
    assert {line.name: line.count for line in plan.lines} == {
        "one-way tables": 2,
        "AP pairs": 2,
        "tables of AP pairs": 2,
    }
    assert set(model.summary.histograms) == {"ward", "nights"}


def test_the_target_is_drawn_first() -> None:
    model, _ = fitted(target="nights")
    assert [node.feature.cells.column for node in model.nodes] == ["nights", "ward"]


def test_without_parents_columns_are_drawn_by_themselves() -> None:
    model, plan = fitted(degree=0)
    assert [line.count for line in plan.lines] == [2]
    parents = {"parent.sex": np.zeros(2_000, np.int64), "parent.age": np.zeros(2_000)}
    assert 0.4 < (model.sample(parents, np.random.default_rng(0))["ward"] == 0).mean() < 0.6


def test_nobody_has_no_children() -> None:
    model, _ = fitted()
    nobody = {"parent.sex": np.zeros(0, np.int64), "parent.age": np.zeros(0)}
    assert {name: len(values) for name, values in model.sample(nobody, np.random.default_rng(0)).items()} == {
        "ward": 0,
        "nights": 0,
    }
