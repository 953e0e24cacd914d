"""PrivBayes: its settings, both kinds of noise replayed, and what it makes of odd tables."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from threea.anonymize.open_table import open_table
from threea.audit.replay import Setting, replay
from threea.budget import Adjacency, Budget
from threea.certificate import Guarantee
from threea.errors import SettingError
from threea.recipes import PrivBayes
from threea.session import make_recipe
from threea.table.schema import Schema
from threea.testing import SeededNoise


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"noise": "uniform"}, r"noise \(uniform\) must be gaussian or laplace"),
        ({"theta": 0.0}, r"theta \(0.0\) must be a number above 0"),
        ({"theta": -4.0}, "theta"),
        ({"theta": math.nan}, "theta"),
        ({"theta": math.inf}, "theta"),
        ({"beta": 0.0}, r"beta \(0.0\) must be from 0.01 to 0.9"),
        ({"beta": 1.0}, "beta"),
        ({"degree": -1}, r"degree \(-1\) must be from 0 to 5"),
        ({"degree": 6}, "degree"),
    ],
    ids=str,
)
def test_settings_out_of_bounds_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingError, match=said) as caught:
        PrivBayes(**settings)
    assert len(str(caught.value).splitlines()) == 1


def test_settings_are_read_from_a_command_line() -> None:
    recipe = make_recipe("privbayes", {"noise": "laplace", "theta": "6", "beta": "0.3", "degree": "2"})
    assert recipe == PrivBayes(noise="laplace", theta=6.0, beta=0.3, degree=2)


def test_laplace_noise_changes_no_question_by_more_than_its_price() -> None:
    """With a large budget pairs are chosen; without one, everything is a count, dates by the calendar too."""
    among = [Setting(rich=True), Setting(adjacency=Adjacency.REPLACE)]
    questions = replay(PrivBayes(noise="laplace", degree=1), among=among)
    assert {question.event for question in questions} == {"Pure"}
    assert len(questions) == 4
    for question in questions:
        assert not question.over, question
        assert question.tightest >= 0.99, question


def wide(columns: int, rows: int) -> tuple[pa.Table, Schema]:
    """Return neighbouring columns that tell of one another, all of them a little of the label."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, rows)
    value = rng.normal(0, 1, rows)
    data: dict[str, Any] = {}
    for place in range(columns):
        value = 0.9 * value + rng.normal(0.05 * (2 * label - 1), 0.4, rows)
        data[f"c{place}"] = value.clip(-4, 4)
    public: dict[str, Any] = {name: {"kind": "real", "lower": -4, "upper": 4, "nullable": False} for name in data}
    public["y"] = {"kind": "boolean", "nullable": False}
    return pa.table(data | {"y": label.astype(bool)}), Schema.of(public, target="y")


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_neighbours_in_a_table_of_twelve_columns_stay_alike(noise: Any) -> None:
    """Fixed seeds: of 11 private correlations near 0.9, those drawn are at least 0.3 on average; alone they are 0."""
    table, schema = wide(12, 2_000)
    opened = open_table(table, schema=schema, budget=Budget(20.0), noise=SeededNoise(1))
    drawn = PrivBayes(noise=noise, degree=2).run(opened).model.sample(2_000, np.random.default_rng(0))
    together = [np.corrcoef(drawn[f"c{place}"], drawn[f"c{place + 1}"])[0, 1] for place in range(11)]
    assert np.mean(together) > 0.3


def test_one_column_constants_and_a_single_class() -> None:
    rows = 500
    public: dict[str, Any] = {
        "person": {"kind": "id"},
        "y": {"kind": "categorical", "categories": ["yes"], "nullable": False},
        "same": {"kind": "integer", "lower": 3, "upper": 3, "nullable": False},
        "x": {"kind": "integer", "lower": 0, "upper": 9},
    }
    data = pa.table(
        {"person": ["p"] * rows, "y": ["yes"] * rows, "same": [3] * rows, "x": [row % 10 for row in range(rows)]}
    )
    for names in (["y"], ["same"], ["x"], ["y", "same"], ["y", "same", "x"]):
        for target in {None, names[0]}:
            kept = ["person", *names]
            schema = Schema.of({name: public[name] for name in kept}, target=target)
            release = PrivBayes().run(open_table(data.select(kept), schema=schema, budget=Budget(50.0)), rows=200)
            assert release.guarantee is Guarantee.PROVEN
            columns = release.table.to_pydict()
            assert set(columns.get("y", ["yes"])) == {"yes"}
            assert set(columns.get("same", [3])) == {3}
            assert set(columns.get("x", range(10))) - {None} == set(range(10))


def test_the_summary_has_every_column_and_the_noise_of_every_question() -> None:
    table, schema = wide(4, 2_000)
    opened = open_table(table, schema=schema, budget=Budget(4.0), noise=SeededNoise(1))
    release = PrivBayes().run(opened)
    summary = release.summary
    assert set(summary.histograms) == {"c0", "c1", "c2", "c3", "y"}
    assert set(summary.noise) == {"one-way tables", "tables of AP pairs"}
    assert summary.private_rows is not None
    assert abs(summary.private_rows - 2_000) < 5 * summary.private_rows_stddev
