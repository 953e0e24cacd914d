"""The laws for recipes can be broken, and say which was."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from threea.anonymize.accountant import Line
from threea.anonymize.door import PrivateTable
from threea.anonymize.events import Gaussian
from threea.anonymize.plan import Plan, Step
from threea.anonymize.query import Count, Features, Marginal
from threea.approximate.histograms import HistogramModel, LabelHistograms
from threea.errors import SettingError
from threea.framework import Approximation, Recipe
from threea.recipes import Independent
from threea.table.schema import Chunk, Schema
from threea.testing import CASES, TABLE_LAWS, check_recipe
from threea.testing.canary import within

ONE_TABLE = {"no target": CASES["no target"]}


class Lawful(LabelHistograms):
    """The library's own smallest stage, for others to spoil."""


class SpendsTwice(Lawful):
    def fit(self, table: PrivateTable, plan: Plan) -> HistogramModel:
        super().fit(table, plan)
        return super().fit(table, plan)


class SpendsOnceMore(Lawful):
    """Plans two questions and asks one."""

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        return (*super().steps(schema), Step(name="never asked", weight=1.0))


class KeepsRows(Lawful):
    """Remembers what it saw within the door, and hands it on in its model."""

    def fit(self, table: PrivateTable, plan: Plan) -> Any:
        seen: list[Chunk] = []

        def peek(chunk: Chunk) -> np.ndarray:
            seen.append(chunk)
            return np.zeros(len(next(iter(chunk.values()))))

        names = tuple(column.name for column in table.schema.modelled)
        table.measure(Features(function=peek, columns=names, shape=(), l2=1.0), plan["peek"])
        return Remembering(super().fit(table, plan), lambda: seen)

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        return (*super().steps(schema), Step(name="peek", weight=1.0))


class KeepsTheTable(Lawful):
    def fit(self, table: PrivateTable, plan: Plan) -> Any:
        return Remembering(super().fit(table, plan), table)


class Wrapped:
    """A model that is another in all but what a test changes."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)


class Remembering(Wrapped):
    def __init__(self, model: Any, more: Any) -> None:
        super().__init__(model)
        self.more = more


class DividesByTheRows(Lawful):
    """Takes it that there are rows."""

    def fit(self, table: PrivateTable, plan: Plan) -> Any:
        model = super().fit(table, plan)
        if not model.classes.sum():
            raise ZeroDivisionError("division by zero")
        return model


class TakesACountForPositive(Lawful):
    """Takes it that noise leaves something of some count."""

    def fit(self, table: PrivateTable, plan: Plan) -> Any:
        model = super().fit(table, plan)
        if max(each.max() for each in model.tables) < 0:
            raise ValueError("no count is positive")
        return model


class LooksAtNeighbours(Lawful):
    """Asks for a sum over rows that are not treated one by one, and lets it change what is drawn."""

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        return (*super().steps(schema), Step(name="ranks", weight=1.0))

    def fit(self, table: PrivateTable, plan: Plan) -> HistogramModel:
        def first(chunk: Chunk) -> np.ndarray:
            return (np.arange(len(next(iter(chunk.values())))) == 0).astype(float)

        names = tuple(column.name for column in table.schema.modelled)
        chunks = table.measure(Features(function=first, columns=names, shape=(), l2=1.0), plan["ranks"])
        model = super().fit(table, plan)
        return replace(model, classes=model.classes + 10 * np.arange(len(model.classes)) * float(chunks.value))


class FollowsTheOrder(Lawful):
    """Weighs rows by how many came before them: the function remembers."""

    def steps(self, schema: Schema) -> tuple[Step, ...]:
        return (*super().steps(schema), Step(name="early", weight=1.0))

    def fit(self, table: PrivateTable, plan: Plan) -> HistogramModel:
        place, column = itertools.count(), table.schema.modelled[0].name

        def early(chunk: Chunk) -> np.ndarray:
            odd = np.nan_to_num(chunk[column]).astype(int) % 2
            return np.array([value if next(place) < 100 else 0 for value in odd], float)

        asked = table.measure(Features(function=early, columns=(column,), shape=(), l2=1.0), plan["early"])
        model = super().fit(table, plan)
        return replace(
            model, tables=tuple(each + float(asked.value) * (np.arange(each.shape[1]) == 0) for each in model.tables)
        )


class UsesTheGlobalGenerator(Lawful):
    def fit(self, table: PrivateTable, plan: Plan) -> HistogramModel:
        np.random.random()
        return super().fit(table, plan)


class Unseeded(Wrapped):
    def sample(self, rows: int, rng: np.random.Generator, given: Any = None) -> Chunk:
        return self.model.sample(rows, np.random.default_rng(), given)


class Unrepeatable(Lawful):
    def fit(self, table: PrivateTable, plan: Plan) -> Any:
        return Unseeded(super().fit(table, plan))


class OutOfBounds(Wrapped):
    def sample(self, rows: int, rng: np.random.Generator, given: Any = None) -> Chunk:
        chunk = self.model.sample(rows, rng, given)
        return chunk | {"age": chunk["age"] + 200} if "age" in chunk else chunk


class LeavesTheBounds(Lawful):
    def fit(self, table: PrivateTable, plan: Plan) -> Any:
        return OutOfBounds(super().fit(table, plan))


class Forgetting(Wrapped):
    def sample(self, rows: int, rng: np.random.Generator, given: Any = None) -> Chunk:
        chunk = self.model.sample(rows, rng, given)
        return chunk | {"label": np.where(np.arange(rows) == 0, -1, chunk["label"])}


class LosesLabels(Lawful):
    """Where nobody said that the target is never missing, it sometimes is."""

    def fit(self, table: PrivateTable, plan: Plan) -> Any:
        model = super().fit(table, plan)
        return Forgetting(model) if table.schema.target and table.schema["label"].open_ended else model


class RefusesLate(Lawful):
    def fit(self, table: PrivateTable, plan: Plan) -> HistogramModel:
        model = super().fit(table, plan)
        if table.schema.target is None:
            raise SettingError("a target is needed")
        return model


class RefusesAll(Lawful):
    def steps(self, schema: Schema) -> tuple[Step, ...]:
        raise SettingError("not today")


class Exposes(Lawful):
    def fit(self, table: PrivateTable, plan: Plan) -> HistogramModel:
        table.expose("a better fit")
        return super().fit(table, plan)


@dataclass(frozen=True, kw_only=True)
class Spoiled(Recipe):
    """A recipe with any stage."""

    name: ClassVar[str] = "spoiled"
    summary: ClassVar[str] = "a stage that breaks a law"
    stage: ClassVar[Approximation] = Lawful()

    @property
    def approximate(self) -> Approximation:
        return self.stage


def recipe_of(stage: type[Approximation]) -> Recipe:
    return type("Spoiled", (Spoiled,), {"stage": stage()})()


def repriced(plan: Plan, factor: float) -> Plan:
    """Return a plan whose Gaussian lines have so many times the noise."""

    def line(old: Line) -> Line:
        return replace(old, event=Gaussian(old.event.noise_multiplier * factor)) if type(old.event) is Gaussian else old

    return replace(plan, lines=tuple(map(line, plan.lines)))


@dataclass(frozen=True, kw_only=True)
class SpendsHalf(Spoiled):
    def plan(self, table: PrivateTable) -> Plan:
        return repriced(super().plan(table), 2.0)


@dataclass(frozen=True, kw_only=True)
class SpendsDouble(Spoiled):
    def plan(self, table: PrivateTable) -> Plan:
        return repriced(super().plan(table), 0.5)


@dataclass(frozen=True, kw_only=True)
class Assumes(Spoiled):
    @property
    def assumptions(self) -> tuple[str, ...]:
        return ("nobody looks",)


@dataclass(frozen=True, kw_only=True)
class CannotBeWritten(Spoiled):
    setting: frozenset[int] = frozenset({1})


@pytest.mark.parametrize("recipe", [Spoiled(), Independent(bins=4)])
def test_a_lawful_recipe_passes(recipe: Recipe) -> None:
    assert check_recipe(recipe, ONE_TABLE) is None


@pytest.mark.parametrize(
    ("stage", "law", "says"),
    [
        (SpendsTwice, "survives", "BudgetRefused: line histograms given the label .* as often as planned"),
        (SpendsOnceMore, "spends_its_plan", "2 questions were charged, 3 planned"),
        (KeepsRows, "keeps_no_row", "the model holds a private value, in a ndarray"),
        (KeepsTheTable, "keeps_no_row", "the model holds a PrivateTable"),
        (DividesByTheRows, "survives_emptiness", "ZeroDivisionError: division by zero"),
        (TakesACountForPositive, "survives_unlikely_noise", "ValueError: no count is positive"),
        (LooksAtNeighbours, "needs_only_sums", "rows are not treated alone"),
        (FollowsTheOrder, "needs_only_sums", "rows in another order give another release"),
        (UsesTheGlobalGenerator, "leaves_the_global_generator_alone", "NumPy's global generator was used"),
        (Unrepeatable, "needs_only_sums", "another release"),
        (LosesLabels, "gives_the_target_no_class_of_noise", "the target is {None}, which no private row is"),
        (LeavesTheBounds, "survives", r"column age holds \[\d+\], which the schema does not allow"),
        (RefusesLate, "survives", "refuses only after it has spent something: a target is needed"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_stage_that_breaks_a_law_is_told_which(stage: type[Approximation], law: str, says: str) -> None:
    with pytest.raises(AssertionError, match=rf"^spoiled breaks the law `{law}`.*: .*{says}"):
        check_recipe(recipe_of(stage), ONE_TABLE)


@pytest.mark.parametrize(
    ("recipe", "law", "says"),
    [
        (SpendsHalf(), "spends_its_plan", "the plan is not calibrated"),
        (SpendsDouble(), "survives", "BudgetRefused: the table's budget does not cover this plan"),
        (Assumes(), "says_what_it_is", "a proof assumes nothing"),
        (CannotBeWritten(), "says_what_it_is", "TypeError: .*JSON"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Recipe) else None,
)
def test_a_recipe_that_breaks_a_law_is_told_which(recipe: Recipe, law: str, says: str) -> None:
    with pytest.raises(AssertionError, match=rf"^spoiled breaks the law `{law}`.*: .*{says}"):
        check_recipe(recipe, {})


def test_a_failure_keeps_its_cause() -> None:
    with pytest.raises(AssertionError) as broken:
        check_recipe(recipe_of(DividesByTheRows), {})
    assert isinstance(broken.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("stage", [RefusesAll, Exposes])
def test_a_recipe_that_refuses_the_plain_table_is_none(stage: type[Approximation]) -> None:
    with pytest.raises(AssertionError, match=r"^spoiled refuses the plain table$"):
        check_recipe(recipe_of(stage), {})


def test_a_table_refused_in_time_is_passed_over() -> None:
    class NeedsATarget(Lawful):
        def steps(self, schema: Schema) -> tuple[Step, ...]:
            if schema.target is None:
                raise SettingError("a target is needed")
            return super().steps(schema)

    recipe = recipe_of(NeedsATarget)
    assert TABLE_LAWS[0](recipe, CASES["no target"]) is False
    assert TABLE_LAWS[0](recipe, CASES["plain"]) is True


def test_what_an_object_holds_is_found_however_deep() -> None:
    needle = object()

    def closure() -> object:
        return needle

    def generator() -> Iterator[object]:
        yield needle

    running = generator()
    next(running)

    @dataclass(slots=True)
    class Slotted:
        value: object

    held_by = [
        [needle],
        {"key": (needle,)},
        Slotted(needle),
        closure,
        functools.partial(print, needle),
        Wrapped(Wrapped(needle)).__getattr__,
        np.array([needle], object),
        np.array([None, needle], object)[:1],
        running,
    ]
    for holder in held_by:
        assert any(held is needle for held in within(holder)), holder
    assert not any(held is needle for held in within([Slotted(1), Marginal(()), Count()]))
