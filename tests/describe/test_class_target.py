"""Whether whole numbers are a class: noisy counts say, for what the question costs."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from threea.anonymize.door import PrivateTable
from threea.anonymize.events import Gaussian
from threea.anonymize.open_table import open_table
from threea.anonymize.plan import Plan
from threea.budget import Budget
from threea.describe.class_target import TARGET, VALUES, class_column, grid, steps
from threea.errors import SettingError
from threea.recipes import RECIPES
from threea.table.schema import Column, Kind, Schema
from threea.testing import SeededNoise, SilentNoise


def opened(values: Any, noise: Any = None, **options: Any) -> PrivateTable:
    rows = pa.table({"y": values, "x": np.zeros(len(values))})
    return open_table(rows, target="y", budget=Budget(1.0), noise=noise or SilentNoise(), **options)


def found(values: Any, noise: Any = None) -> Column | None:
    table = opened(values, noise)
    return class_column(table, Plan.calibrate(Budget(1.0), [*steps(table.schema), *_others()]))


def _others() -> list[Any]:
    from threea.anonymize.plan import Step

    # The rest of a release, so that the question has no more than its share.
    return [Step(name="others", weight=0.98)]


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        ([0, 1] * 500, ("0", "1")),
        ([1, 2, 3] * 400, ("1", "2", "3")),
        ([-1, 1] * 500, ("-1", "1")),
        ([0] * 1000, ("0", "1")),
        ([5] * 1000, None),
        ([*range(21)] * 300, None),
        ([*range(20)] * 300, tuple(str(value) for value in range(20))),
        ([0, 1, 21] * 300, None),
        ([0, 1, -2] * 300, None),
        ([0, 1, 10**9] * 300, None),
    ],
)
def test_silent_counts(values: list[int], classes: tuple[str, ...] | None) -> None:
    column = found(pa.array(values, pa.int64()))
    assert (None if column is None else column.categories) == classes
    assert column is None or (column.kind, column.open_ended) == (Kind.CATEGORICAL, False)


@pytest.mark.parametrize("seed", range(20))
def test_noisy_counts(seed: int) -> None:
    """Under noise a false class shows in fewer than 1 of 40 tables; of these 20, with their seeds, in none."""
    rng = np.random.default_rng(seed)
    rare = pa.array((rng.random(20_000) < 0.05).astype(int))
    column = found(rare, SeededNoise(seed))
    assert column is not None
    assert column.categories == ("0", "1")
    amounts = pa.array(rng.integers(0, 10_000, 20_000))
    assert found(amounts, SeededNoise(seed)) is None
    seven = found(pa.array(rng.integers(1, 8, 20_000)), SeededNoise(seed))
    assert seven is not None
    assert seven.categories == tuple("1234567")


def test_the_question_is_charged_once_and_only_where_it_is_asked() -> None:
    table = opened(pa.array([0, 1] * 50))
    plan = Plan.calibrate(Budget(1.0), steps(table.schema))
    assert [line.name for line in plan.lines] == [TARGET]
    assert all(isinstance(line.event, Gaussian) for line in plan.lines)
    for values in (["a", "b"], [True, False], [0.5, 1.5]):
        assert steps(opened(pa.array(values * 50)).schema) == ()
    schema = Schema.of({"y": {"kind": "integer", "lower": 0, "upper": 1}, "x": {"kind": "boolean"}}, target="y")
    assert steps(schema) == ()


def test_the_values_asked_for_are_the_same_for_every_table() -> None:
    asked = [grid(opened(pa.array(values)).schema["y"]).edges for values in ([0, 1] * 50, [500, 10**9] * 50)]
    assert asked[0] == asked[1] == tuple(float(value) for value in (-2, *VALUES, 21, 22))


def test_the_kind_can_be_said() -> None:
    number = opened(pa.array([0, 1] * 50), target_kind="number")
    assert steps(number.schema) == ()
    assert class_column(number, Plan.calibrate(Budget(1.0), _others())) is None
    assert number.schema["y"].kind is Kind.INTEGER
    codes = opened(pa.array([100, 200] * 50), target_kind="class")
    assert (codes.schema["y"].kind, codes.schema["y"].open_ended, steps(codes.schema)) == (Kind.CATEGORICAL, True, ())
    assert opened(pa.array([True, False] * 50), target_kind="class").schema["y"].kind is Kind.BOOLEAN


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([0, 1], {"target_kind": "klass"}, "target kind (klass) must be class or number"),
        (["a", "b"], {"target_kind": "number"}, "target (y) holds no numbers; leave the target kind out"),
        (
            [0, 1],
            {
                "target_kind": "class",
                "schema": Schema.of({"y": {"kind": "boolean"}, "x": {"kind": "boolean"}}, target="y"),
            },
            "target kind (class) is the schema's to say; change the target's kind in it",
        ),
    ],
)
def test_kinds_that_are_refused(values: list[Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as caught:
        opened(pa.array(values * 50), **options)
    assert str(caught.value) == message


@pytest.mark.parametrize("recipe", ["labeltree", "independent", "gaussians", "clustmix", "mcgen", "privbayes"])
@pytest.mark.parametrize(("most", "kind"), [(1, Kind.CATEGORICAL), (200, Kind.INTEGER)])
def test_a_release_is_made_whatever_the_target_is_found_to_be(recipe: str, most: int, kind: Kind) -> None:
    """The plan is made before: it has a line for all that either kind of target asks."""
    rng = np.random.default_rng(3)
    feature = rng.normal(size=3000)
    target = np.where(feature + rng.normal(size=3000) > 0.5, rng.integers(1, most + 1, 3000), 0)
    table = pa.table({"x": feature, "word": np.where(feature > 0, "a", "b"), "y": target})
    private = open_table(table, target="y", budget=Budget(3.0), noise=SeededNoise(2))
    release = RECIPES[recipe]().run(private, rows=100)
    assert release.schema["y"].kind is kind
    assert release.table.num_rows == 100
