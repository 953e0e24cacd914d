"""The door: nothing comes out but paid answers, and what comes out is right."""

import copy
import gc
import io
import logging
import math
import pickle
import pprint
import re
import traceback
from dataclasses import dataclass, replace
from functools import cache
from statistics import NormalDist
from types import FunctionType, ModuleType
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from scipy.stats import norm

from threea.anonymize.accountant import Line
from threea.anonymize.clipping import step_of
from threea.anonymize.door import PrivateTable
from threea.anonymize.events import Gaussian, NonPrivate, PartitionSelection, Pure, Sampled
from threea.anonymize.noise import SecureNoise
from threea.anonymize.open_table import open_table
from threea.anonymize.plan import Plan, Step
from threea.anonymize.query import Count, Features, Grouped, Marginal, Stack
from threea.anonymize.sampled import SampledTable
from threea.anonymize.selection import SCORE_STEP, QualityScores, Values
from threea.backends import Backend, MemoryBackend, RowBackend
from threea.backends.files import CsvBackend, ParquetBackend
from threea.backends.units import UnitBackend
from threea.budget import Adjacency, Budget
from threea.certificate import Guarantee
from threea.errors import BudgetRefused, InputError, InternalError, RowFunctionError, SettingError
from threea.ledger import Ledger
from threea.recipes import Independent
from threea.table import codec
from threea.table.schema import Schema
from threea.testing import SeededNoise, SilentNoise

ROWS = 1379
"""Odd enough not to turn up by chance in anything printed."""
CANARY, CANARY_NUMBER = "canary-8d1f", 73519.0625
SCHEMA = Schema.of(
    {
        "person": {"kind": "id"},
        "cost": {"kind": "real", "lower": 0, "upper": 1e5},
        "ward": {"kind": "categorical", "categories": ["a", "b", "c"]},
        "died": {"kind": "boolean"},
    },
    target="died",
)
BUDGET = Budget(1.0, 1e-6)


def rows(count=ROWS):
    """Make a table whose every row carries the canaries somewhere."""
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "person": [f"{CANARY}-{number // 2}" for number in range(count)],
            "cost": np.where(rng.random(count) < 0.5, CANARY_NUMBER, rng.uniform(-1e4, 2e5, count)),
            "ward": pa.array(rng.choice(["a", "b", "c", CANARY], count)),
            "died": pa.array(rng.random(count) < 0.3, mask=rng.random(count) < 0.1),
        }
    )


def opened(data=None, **settings):
    return open_table(
        rows() if data is None else data, **{"schema": SCHEMA, "budget": BUDGET, "noise": SilentNoise(), **settings}
    )


@cache
def lines(kinds, budget, settings):
    steps = [Step(name=kind.__name__, weight=1.0, kind=kind, **dict(settings)) for kind in kinds]
    return Plan.calibrate(budget, steps).lines


def plan(*kinds, budget=BUDGET, **settings):
    """Make a new plan with one step of each kind, named after it."""
    return Plan(budget, lines(kinds or (Gaussian,), budget, tuple(settings.items())))


def bare(event, budget=BUDGET, count=1):
    """Return a plan of one event, whatever it costs."""
    return Plan(budget, (Line("step", event, count),))


def sample():
    """Return a plan of one sample at rate 1/2, quickly priced."""
    return bare(Sampled(0.5, 10.0))


# The way in.


def test_the_surface_of_a_private_table_is_frozen():
    public = {name for name in dir(PrivateTable) if not name.startswith("_")}
    asks = {"measure", "prepay", "stddev", "select", "vote", "sampled", "expose"}
    facts = {"schema", "layout", "budget", "unit", "restore", "accepts_unproven", "elsewhere"}
    accounts = {
        "spent",
        "doubts",
        "foreign",
        "secure",
        "arithmetic",
        "described",
        "ledger_head",
        "check_ledger",
        "charged",
        "dialect",
    }
    assert public == asks | facts | accounts


def test_the_surface_of_a_sampled_table_is_frozen():
    assert {name for name in dir(SampledTable) if not name.startswith("_")} == {"measure", "rate"}


@pytest.mark.parametrize(
    "act",
    [len, iter, list, lambda table: table[0], lambda table: "a" in table, vars, np.asarray, pa.table, bool],
    ids=["len", "iter", "list", "index", "in", "vars", "numpy", "arrow", "bool"],
)
def test_no_protocol_of_python_reaches_the_rows(act):
    table = opened()
    for view in (table, table.sampled(0.5)):
        try:
            found = act(view)
        except TypeError:
            continue
        # Truth and an array of one object are Python's defaults; they know nothing of rows.
        assert found is True or (isinstance(found, np.ndarray) and found.shape == () and found.item() is view)


@pytest.mark.parametrize("fact", ["schema", "layout", "budget", "unit"])
def test_public_facts_cannot_be_changed(fact):
    """The noise is scaled by them: whoever could write a smaller unit or budget would get less of it."""
    table = opened()
    with pytest.raises(AttributeError):
        setattr(table, fact, getattr(table, fact))


def test_public_facts_are_those_asked_for():
    table = opened(unit="person", max_rows_per_unit=2, budget=Budget(2.0, 1e-7, "replace"))
    assert table.schema == SCHEMA
    assert table.layout.names == ["person", "cost", "ward", "died"]
    assert (table.budget, table.unit.column, table.unit.max_rows) == (Budget(2.0, 1e-7, "replace"), "person", 2)


# Nothing shows.


def texts_of(thing):
    """Yield all that printing, logging, copying and pickling a thing make of it."""
    yield repr(thing)
    yield str(thing)
    yield f"{thing}"
    yield pprint.pformat(thing)
    stream = io.StringIO()
    logger = logging.Logger("test")
    logger.addHandler(logging.StreamHandler(stream))
    logger.warning("%s %r", thing, thing)
    yield stream.getvalue()
    for act in (copy.copy, copy.deepcopy, vars):
        try:
            yield pprint.pformat(act(thing))
        except TypeError as error:
            yield str(error)
    try:
        yield pickle.dumps(thing).decode("latin-1")
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        yield str(error)


@pytest.fixture
def folder(tmp_path):
    pyarrow.parquet.write_table(rows(), tmp_path / "rows.parquet")
    pyarrow.csv.write_csv(rows(), tmp_path / "rows.csv")
    return tmp_path


THINGS = {
    "table": lambda folder: opened(),
    "table of persons": lambda folder: opened(unit="person", max_rows_per_unit=2),
    "sampled table": lambda folder: opened().sampled(0.5),
    "what a table remembers": lambda folder: asked_once()._interior.cache,
    "remembered rows": lambda folder: asked_once()._interior.cache.recall(MARGINAL.keys)[0],
    "memory": lambda folder: MemoryBackend(rows()),
    "parquet": lambda folder: ParquetBackend(folder / "rows.parquet"),
    "csv": lambda folder: CsvBackend(folder / "rows.csv"),
    "units": lambda folder: UnitBackend(MemoryBackend(rows()), "person", 1, b"key"),
    "filtered": lambda folder: UnitBackend(MemoryBackend(rows()), "person", 1, b"key").sampled(np.ones(ROWS, np.bool_)),
    "spending": lambda folder: opened()._interior.spending,
    "release": lambda folder: Independent().run(opened(noise=None), rows=10),
}


def asked_once():
    table = opened()
    table.measure(MARGINAL, plan()["Gaussian"])
    return table


COUNT = re.compile(rf"(?<![\d.]){ROWS}(?:\.0*)?(?![\d.])")
"""The number of rows standing for itself: within the digits of a noisy answer it means nothing."""


@pytest.mark.parametrize("text", ["{} rows", "rows={}", "[{}., 2.]", "({}.0)", "a{}b"])
def test_the_number_of_rows_would_be_seen(text):
    assert COUNT.search(text.format(ROWS))
    assert not COUNT.search(text.format(f"3.{ROWS}"))


@pytest.mark.parametrize("name", THINGS)
def test_nothing_shows_a_row_or_how_many_there_are(name, folder):
    for text in texts_of(THINGS[name](folder)):
        assert CANARY not in text
        assert str(CANARY_NUMBER) not in text
        assert not COUNT.search(text)
        assert np.float64(CANARY_NUMBER).tobytes().decode("latin-1") not in text


def test_a_private_table_cannot_be_copied_or_pickled():
    for act in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            act(opened())


def reachable(thing):
    """Yield all objects that a thing leads to; a function leads to what it closes over, not to its module."""
    seen, waiting = set(), [thing]
    while waiting:
        item = waiting.pop()
        if id(item) in seen or isinstance(item, type | ModuleType):
            continue
        seen.add(id(item))
        yield item
        if isinstance(item, FunctionType):
            waiting += [cell.cell_contents for cell in item.__closure__ or ()]
        else:
            waiting += gc.get_referents(item)


@pytest.mark.parametrize("make", [rows, lambda: rows().to_pandas()], ids=["arrow", "pandas"])
def test_a_release_leads_to_no_rows(make):
    release = Independent().run(opened(make(), noise=None), rows=10)
    found = list(reachable(release))
    assert any(item is release.model for item in found)
    for item in found:
        assert not isinstance(item, PrivateTable | RowBackend | pa.Table | pa.RecordBatch)
        assert not (isinstance(item, pa.Array | pa.ChunkedArray | np.ndarray) and ROWS in np.shape(item))
        assert not (isinstance(item, str) and CANARY in item)


# Failures tell nothing.


def chain(error):
    """Yield an error and all that it hangs on."""
    waiting, seen = [error], set()
    while waiting:
        error = waiting.pop()
        if error is not None and id(error) not in seen:
            seen.add(id(error))
            yield error
            waiting += [error.__cause__, error.__context__]


def check_tells_nothing(error):
    for one in chain(error):
        shown = "".join(traceback.format_exception(one)) + repr(one.args) + repr(getattr(one, "__notes__", ""))
        assert CANARY not in shown
        assert str(CANARY_NUMBER) not in shown
        for frame, _ in traceback.walk_tb(one.__traceback__):
            # The test's own frames know the rows; the function of a row has none in the chain.
            assert frame.f_code.co_name not in ("failing", "teacher")
            if frame.f_code.co_filename != __file__:
                held = repr(frame.f_locals)
                assert CANARY not in held
                assert str(CANARY_NUMBER) not in held


@pytest.mark.parametrize(
    "kind", [ValueError, KeyError, AssertionError, InputError, InternalError, RowFunctionError, SystemExit]
)
def test_a_failing_row_function_tells_nothing(kind):
    def failing(chunk):
        value = chunk["cost"][chunk["cost"] == CANARY_NUMBER][0]
        raise kind(f"cannot take {value} of {CANARY}")

    query = Features(function=failing, columns=("cost",), shape=(1,), l2=1.0)
    with pytest.raises(RowFunctionError) as caught:
        opened().measure(query, plan()["Gaussian"])
    check_tells_nothing(caught.value)


def test_a_function_that_fails_while_handling_a_failure_tells_nothing():
    def failing(chunk):
        try:
            raise ValueError(f"first {CANARY}")
        except ValueError as error:
            raise RuntimeError(f"then {CANARY_NUMBER}") from error

    query = Features(function=failing, columns=("cost",), shape=(1,), l2=1.0)
    with pytest.raises(RowFunctionError) as caught:
        opened().sampled(0.5).measure(query, sample()["step"])
    check_tells_nothing(caught.value)


@pytest.mark.parametrize("kind", [ValueError, InputError])
def test_a_failing_teacher_tells_nothing(kind):
    def teacher(sums, group):
        raise kind(f"cannot learn from {sums} and {CANARY}")

    with pytest.raises(RowFunctionError) as caught:
        opened().vote(Count(), teacher, inputs=2, classes=2, parts=3, charge=plan()["Gaussian"])
    check_tells_nothing(caught.value)


def test_a_function_of_the_wrong_shape_tells_nothing():
    query = Features(function=lambda chunk: np.zeros((3, 7)), columns=("cost",), shape=(2,), l2=1.0)
    with pytest.raises(RowFunctionError) as caught:
        opened().measure(query, plan()["Gaussian"])
    check_tells_nothing(caught.value)
    assert str(ROWS) not in "".join(traceback.format_exception(caught.value))


# Payment.


@dataclass
class LookingNoise(SilentNoise):
    """Looks at the ledger whenever noise is to be drawn."""

    ledger: Ledger

    def __post_init__(self):
        self.charged = []

    def gaussian(self, sums, scale):
        self.charged += [release.charged for release in self.ledger.releases()]
        return sums

    laplace = gaussian

    def choose(self, scores, scale):
        self.gaussian(scores, scale)
        return 0

    exponential = choose

    def bernoulli(self, rate, size):
        self.gaussian(None, rate)
        return np.ones(size, np.bool_)


MARGINAL = Marginal((SCHEMA["ward"].cells(8),))
ASK = {
    Gaussian: lambda table, charge: table.measure(Count(), charge),
    Pure: lambda table, charge: table.measure(Count(), charge),
    PartitionSelection: lambda table, charge: table.measure(Values(("ward",)), charge),
    Sampled: lambda table, charge: table.sampled(0.5).measure(Count(), charge),
    "select": lambda table, charge: table.select(QualityScores((MARGINAL,), ((0.0,) * MARGINAL.size,)), charge),
    "vote": lambda table, charge: table.vote(
        Count(), lambda sums, group: np.zeros(1), inputs=1, classes=2, parts=2, charge=charge
    ),
}
PAYS = {"select": Pure, "vote": Gaussian}


@pytest.mark.parametrize("act", ASK, ids=lambda act: getattr(act, "__name__", act))
def test_the_charge_is_written_before_any_noise_is_drawn(act):
    with Ledger() as ledger:
        noise, kind = LookingNoise(ledger), PAYS.get(act, act)
        ASK[act](opened(ledger=ledger, noise=noise), sample()["step"] if kind is Sampled else plan(kind)[kind.__name__])
        assert noise.charged
        assert set(noise.charged) == {1}


def test_the_whole_plan_is_reserved_before_the_first_answer():
    with Ledger() as ledger:
        priced = plan(Gaussian, Pure)
        opened(ledger=ledger, dataset="stays").measure(Count(), priced["Pure"])
        (release,) = ledger.releases("stays")
        assert (release.epsilon, release.delta, release.charged, release.planned) == (1.0, 1e-6, 1, 2)
        (charge,) = ledger.charges(release.id)
        assert charge.event == {"event": "Pure", "epsilon": priced["Pure"].event.epsilon}


class BrokenNoise(SilentNoise):
    def gaussian(self, sums, scale):
        raise RuntimeError("no entropy")


def test_the_charge_stays_whatever_fails():
    def failing(chunk):
        raise ValueError

    query = Features(function=failing, columns=("cost",), shape=(1,), l2=1.0)
    for noise, asked, error in ((SilentNoise(), query, RowFunctionError), (BrokenNoise(), Count(), RuntimeError)):
        with Ledger() as ledger:
            table, priced = opened(ledger=ledger, noise=noise), plan()
            with pytest.raises(error):
                table.measure(asked, priced["Gaussian"])
            assert [release.charged for release in ledger.releases()] == [1]
            with pytest.raises(BudgetRefused, match="asked as often as planned"):
                table.measure(Count(), priced["Gaussian"])


def test_a_line_is_answered_as_often_as_it_was_reserved():
    table, priced = opened(), plan(count=3)
    for _ in range(3):
        table.measure(Count(), priced["Gaussian"])
    with pytest.raises(BudgetRefused, match="asked as often as planned"):
        table.measure(Count(), priced["Gaussian"])


def test_a_plan_beyond_the_budget_is_refused_with_the_figures():
    table = opened()
    table.measure(Count(), plan(budget=Budget(0.75, 5e-7))["Gaussian"])
    with pytest.raises(BudgetRefused) as caught:
        table.measure(Count(), plan(budget=Budget(0.5, 5e-7))["Gaussian"])
    assert (caught.value.requested, caught.value.spent, caught.value.left) == (0.5, 0.75, 0.25)
    table.measure(Count(), plan(budget=Budget(0.25, 5e-7))["Gaussian"])


def test_a_plan_beyond_the_delta_is_refused():
    table = opened()
    table.measure(Count(), plan(budget=Budget(0.1, 8e-7))["Gaussian"])
    with pytest.raises(BudgetRefused):
        table.measure(Count(), plan(budget=Budget(0.1, 8e-7))["Gaussian"])


def test_a_plan_that_costs_more_than_it_says_is_refused():
    with pytest.raises(BudgetRefused) as caught:
        opened().measure(Count(), bare(Gaussian(0.5))["step"])
    assert caught.value.requested == pytest.approx(bare(Gaussian(0.5)).epsilon)


def test_plans_that_cost_more_than_they_say_are_counted_at_their_cost():
    """Each fits the budget alone and calls itself tiny; together they exceed it."""
    tiny = Budget(0.01, 1e-7)
    table = opened()
    costly = bare(Gaussian(1 / Budget(0.8, 1e-7).mu), tiny)
    table.measure(Count(), costly["step"])
    with pytest.raises(BudgetRefused) as caught:
        table.measure(Count(), bare(Gaussian(1 / Budget(0.7, 1e-7).mu), tiny)["step"])
    assert caught.value.spent == pytest.approx(0.8)


def test_an_equal_plan_made_anew_is_paid_anew():
    table = opened()
    table.measure(Count(), plan()["Gaussian"])
    with pytest.raises(BudgetRefused):
        table.measure(Count(), plan()["Gaussian"])


def test_a_plan_beyond_the_ledgers_cap_is_refused_before_any_answer():
    with Ledger() as ledger:
        noise = LookingNoise(ledger)
        with pytest.raises(BudgetRefused) as caught:
            opened(ledger=ledger, cap=0.5, noise=noise).measure(Count(), plan()["Gaussian"])
        assert (caught.value.requested, caught.value.spent, caught.value.left) == (1.0, 0.0, 0.5)
        assert noise.charged == []
        assert ledger.releases() == []


def test_two_tables_on_one_ledger_share_its_cap():
    with Ledger() as ledger:
        opened(ledger=ledger, cap=1.5).measure(Count(), plan()["Gaussian"])
        with pytest.raises(BudgetRefused) as caught:
            opened(ledger=ledger).measure(Count(), plan()["Gaussian"])
        assert (caught.value.spent, caught.value.left) == (1.0, 0.5)


def test_a_plan_for_another_adjacency_is_refused():
    with pytest.raises(SettingError, match="adjacency"):
        opened().measure(Count(), plan(budget=replace(BUDGET, adjacency=Adjacency.REPLACE))["Gaussian"])


@pytest.mark.parametrize(
    ("act", "kind"),
    [
        (Gaussian, PartitionSelection),
        (Gaussian, Sampled),
        (PartitionSelection, Gaussian),
        (PartitionSelection, Pure),
        (Sampled, Gaussian),
        ("select", PartitionSelection),
        ("vote", Pure),
    ],
    ids=str,
)
def test_an_event_of_another_kind_pays_for_nothing(act, kind):
    charge = sample()["step"] if kind is Sampled else plan(kind)[kind.__name__]
    with pytest.raises(SettingError, match=f"pays for a {kind.__name__} event"):
        ASK[act](opened(noise=BrokenNoise()), charge)


def test_a_sample_of_another_rate_is_not_paid_for():
    with pytest.raises(SettingError, match=r"rate 0\.5, not for 0\.6"):
        opened().sampled(0.6).measure(Count(), sample()["step"])
    for rate in (0.0, 1.5, math.nan):
        with pytest.raises(SettingError, match="rate"):
            opened().sampled(rate)


def test_laplace_noise_needs_a_finite_bound():
    query = Features(function=lambda chunk: chunk["cost"], columns=("cost",), shape=(1,), l2=1.0)
    with Ledger() as ledger:
        with pytest.raises(SettingError, match="finite L1 bound"):
            opened(ledger=ledger).measure(query, plan(Pure)["Pure"])
        # Public facts alone decide, so it costs nothing.
        assert ledger.releases() == []


# Answers are right.


def answered(query, kind=Gaussian, **settings):
    return opened(**settings).measure(query, plan(kind)[kind.__name__])


COSTS = np.clip(rows()["cost"].to_numpy(), 0, 1e5)
WARDS = np.array(rows()["ward"].to_pylist())
CODES = np.array([{"a": 0, "b": 1, "c": 2}.get(ward, 3) for ward in WARDS])
DIED = np.array([2 if died is None else int(died) for died in rows()["died"].to_pylist()])


@pytest.mark.parametrize("kind", [Gaussian, Pure])
def test_counts_are_right(kind):
    assert answered(Count(), kind).value == ROWS
    by_ward = [np.sum(code == CODES) for code in range(4)]
    assert answered(MARGINAL, kind).value.tolist() == by_ward
    joint = answered(Marginal((SCHEMA["died"].cells(8), SCHEMA["cost"].cells(8))), kind).value
    bins = np.minimum(COSTS // (1e5 / 8), 7).astype(int)
    expected = [[np.sum((d == DIED) & (bins == b)) for b in range(8)] + [0] for d in range(3)]
    assert joint.tolist() == expected


@pytest.mark.parametrize("kind", [Gaussian, Pure])
def test_features_are_clipped_and_summed(kind):
    vectors = np.column_stack([COSTS / 1e5, -np.ones(ROWS)])
    norms = np.abs(vectors).sum(axis=1) if kind is Pure else np.sqrt((vectors**2).sum(axis=1))
    clipped = vectors * np.minimum(1, 1.1 / norms)[:, None]

    def function(chunk):
        return np.column_stack([chunk["cost"] / 1e5, -np.ones(len(chunk["cost"]))])

    query = Features(function=function, columns=("cost",), shape=(2,), l2=1.1, l1=1.1)
    assert answered(query, kind).value == pytest.approx(clipped.sum(axis=0), abs=ROWS * 2.0**-28)


def _scaled(chunk):
    return chunk["cost"][:, None] / 5e4 - 1


SIGNED = Features(function=_scaled, columns=("cost",), shape=(1,), l2=1.0, l1=1.0)


def test_groups_and_stacks_are_right():
    scaled = COSTS / 5e4 - 1
    grouped = Grouped(SCHEMA["ward"].cells(8), SIGNED)
    expected = [scaled[code == CODES].sum() for code in range(4)]
    answer = answered(Stack((Count(), grouped, MARGINAL)))
    assert [part.value.shape for part in answer.parts] == [(), (4, 1), (4,)]
    assert answer.parts[0].value == ROWS
    assert answer.parts[1].value.ravel() == pytest.approx(expected, abs=ROWS * 2.0**-28)
    assert answer.parts[2].value.tolist() == [np.sum(code == CODES) for code in range(4)]
    assert answer.value.tolist() == [value for part in answer.parts for value in part.value.ravel()]


def test_a_person_counts_with_max_rows():
    """Persons have two rows each, the last one has one."""
    persons = ROWS // 2 + 1
    assert answered(Count(), unit="person", max_rows_per_unit=1).value == persons
    assert answered(Count(), unit="person", max_rows_per_unit=2).value == ROWS


def test_a_silent_sample_holds_every_row():
    for settings in ({}, {"unit": "person", "max_rows_per_unit": 2}):
        table = opened(**settings).sampled(0.5)
        assert table.measure(Count(), sample()["step"]).value == ROWS


@pytest.mark.parametrize("unit", [None, "person"])
def test_a_sample_draws_units_at_its_rate(unit):
    """With this seed; another would raise a false alarm once in 1e6."""

    class Coins(SilentNoise):
        bernoulli = SeededNoise(1).bernoulli

    table = opened(noise=Coins(), unit=unit, max_rows_per_unit=2 if unit else 1).sampled(0.3)
    found = float(table.measure(Count(), bare(Sampled(0.3, 10.0))["step"]).value)
    assert abs(found - 0.3 * ROWS) < 4.9 * math.sqrt((2 if unit else 1) * ROWS * 0.3 * 0.7)


def test_the_stated_noise_is_the_noise_added():
    """False-alarm rate 1e-6, with the secure noise."""
    table, priced = opened(noise=SecureNoise()), plan(count=300)
    answers = [table.measure(Count(), priced["Gaussian"]) for _ in range(300)]
    z = (np.array([answer.value for answer in answers]) - ROWS) / answers[0].stddev
    assert 1 - 0.22 < np.sum(z**2) / 300 < 1 + 0.46
    assert abs(z.mean()) * math.sqrt(300) < 4.9


class Lift(SilentNoise):
    """Lifts every count by the same number of grid steps."""

    lift, scale = 0, None

    def gaussian(self, sums, scale):
        self.scale = scale
        return sums + self.lift


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("columns", [("a",), ("a", "b", "c")], ids=len)
def test_a_value_that_one_unit_makes_known_passes_the_threshold_as_seldom_as_stated(adjacency, columns):
    """Two rows are the most that a unit's arrival makes of a value dropped unseen before.

    The least noise that shows them is found by bisection. Over all values of the unit, noise of the event's size
    reaches it with a third of delta at most, which leaves a third for either direction of replacement.
    """
    event, noise = PartitionSelection(2.0, 1e-3), Lift()
    columns_of_text = {name: {"kind": "categorical", "open_ended": True} for name in columns}
    table = open_table(
        pa.table({name: ["v", "v"] for name in columns} | {"x": [True, True]}),
        schema=Schema.of(columns_of_text | {"x": {"kind": "boolean"}}),
        budget=Budget(500.0, 0.5, adjacency),
        noise=noise,
    )
    charge = bare(event, table.budget, count=60)["step"]

    def shown(lift):
        noise.lift = lift
        return bool(table.measure(Values(columns), charge)["a"])

    low, high = 0, 2**40
    assert shown(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if shown(middle) else (middle, high)
    reached = norm.sf(low / noise.scale) * len(columns)
    assert 0.99 * event.delta / 3 < reached <= event.delta / 3


def test_select_takes_the_largest_gap():
    ward, died = MARGINAL, Marginal((SCHEMA["died"].cells(8),))
    exact = [tuple(float(np.sum(codes == c)) for c in range(size)) for codes, size in ((CODES, 4), (DIED, 3))]
    off = tuple(count + 5 for count in exact[1])
    table, priced = opened(), plan(Pure, count=3)
    assert table.select(QualityScores((ward, died), (exact[0], off)), priced["Pure"]) == 1
    assert table.select(QualityScores((died, ward), (off, exact[0])), priced["Pure"]) == 0
    far = tuple(-count for count in exact[0])
    assert table.select(QualityScores((died, ward, died), (off, far, exact[1])), priced["Pure"]) == 1


def exact_gaps(*off, penalties=(), weights=()):
    """Return candidates that are off by so many rows in each of their four cells."""
    counts = np.array([np.sum(code == CODES) for code in range(4)], np.float64)
    return QualityScores((MARGINAL,) * len(off), tuple(counts + each for each in off), penalties, weights)


class Scales(SilentNoise):
    """Keeps how much noise it was asked for."""

    def __init__(self):
        self.scales = []

    def gaussian(self, sums, scale):
        self.scales.append(scale * step_of(1.0))
        return sums

    def exponential(self, scores, scale):
        self.scales.append(scale * SCORE_STEP)
        return super().exponential(scores, scale)


def test_weights_scale_scores_and_noise():
    """The score is the weighted distance less the weighted penalty; noise follows the heaviest that may be chosen."""
    gaps = exact_gaps(4, 9, 5, weights=(3, 1, 2))
    assert opened().select(gaps, plan(Pure)["Pure"]) == 0
    assert opened().select(exact_gaps(4, 9, 5, penalties=(3, 0, 0), weights=(3, 1, 2)), plan(Pure)["Pure"]) == 2
    scales = []
    for among in (None, (1, 2), (1,)):
        noise = Scales()
        opened(noise=noise).select(gaps, plan(Gaussian)["Gaussian"], among=among)
        scales.append(noise.scales[0])
    assert np.allclose(np.array(scales) / scales[2], [3, 2, 1])
    for weights in ((1, 2), (0, 1, 1), (1, 1, 513), (1.0, 1, 1)):
        with pytest.raises(SettingError, match="weight"):
            exact_gaps(4, 9, 5, weights=weights)


def test_several_units_of_a_charge_buy_one_better_answer():
    """Four units halve the noise of a sum; a choice then is as sharp as its mu says; the ledger counts units."""
    ledger = Ledger()
    lines = Plan.calibrate(BUDGET, (Step(name="sums", weight=1, count=6), Step(name="choices", weight=1, count=6)))
    noise = Scales()
    table = opened(ledger=ledger, noise=noise)
    table.measure(Count(), lines["sums"])
    table.measure(Count(), lines["sums"].times(4))
    assert noise.scales[0] == pytest.approx(2 * noise.scales[1])
    table.select(exact_gaps(1, 9), lines["choices"])
    table.select(exact_gaps(1, 9), lines["choices"].times(4))
    mu = [2 * NormalDist().inv_cdf(1 / (1 + math.exp(-1 / scale))) for scale in noise.scales[2:]]
    assert mu[1] == pytest.approx(2 * mu[0]) == pytest.approx(2 / lines["choices"].event.noise_multiplier)
    with pytest.raises(BudgetRefused, match="as often as planned"):
        table.measure(Count(), lines["sums"].times(2))
    (release,) = ledger.releases()
    assert [(charge.line, charge.times) for charge in ledger.charges(release.id)] == [
        ("sums", 1), ("sums", 4), ("choices", 1), ("choices", 4),
    ]  # fmt: skip
    assert {line.name: line.count for line in table.spent(lines)} == {"sums": 5, "choices": 5}


def test_units_are_whole_and_of_gaussian_lines():
    with pytest.raises(SettingError, match="units \\(0\\)"):
        plan(Gaussian)["Gaussian"].times(0)
    with pytest.raises(SettingError, match="only Gaussian charges"):
        plan(Pure)["Pure"].times(2)


def test_select_chooses_only_among_the_candidates_allowed():
    table, priced = opened(), plan(Pure, count=5)
    gaps = exact_gaps(1, 9, 5, 7)
    found = [table.select(gaps, priced["Pure"], among=among) for among in (None, (0, 2, 3), (2,), [3, 0], (0, 0))]
    assert found == [1, 3, 2, 3, 0]


def test_the_secure_choice_is_among_the_candidates_allowed():
    """At this scale all candidates are about as likely, so that one of two alone would be chosen with 2**-39."""
    table, priced = opened(noise=SecureNoise()), bare(Pure(1e-3), count=40)
    found = {table.select(exact_gaps(1, 9, 5, 7), priced["step"], among=(0, 2)) for _ in range(40)}
    assert found == {0, 2}


@pytest.mark.parametrize("among", [(), [], (4,), (-1,), (0, 4), (0, 1, -4)], ids=str)
def test_a_choice_among_none_or_unknown_candidates_is_refused_before_it_is_charged(among):
    with Ledger() as ledger:
        with pytest.raises(SettingError, match="positions must be from 0 to 3"):
            opened(ledger=ledger).select(exact_gaps(1, 9, 5, 7), plan(Pure)["Pure"], among=among)
        assert ledger.releases() == []


def test_handicaps_shift_choices():
    """Scores are 4, 36, 20 and 28 rows before anything is taken off them."""
    table, priced = opened(), plan(Pure, count=4)
    cases = [((), 1), ((0.0, 7.9, 0.0, 0.0), 1), ((0.0, 8.1, 0.0, 0.0), 3), ((-40.0, 0.0, 0.0, 0.0), 0)]
    for penalties, expected in cases:
        assert table.select(exact_gaps(1, 9, 5, 7, penalties=penalties), priced["Pure"]) == expected


@pytest.mark.parametrize(
    "penalties", [(1.0,), (1.0,) * 3, (math.nan, 0.0), (math.inf, 0.0), (0.0, -(2.0**42))], ids=str
)
def test_handicaps_that_do_not_fit_are_refused(penalties):
    with pytest.raises(SettingError, match=r"penalty|penalties"):
        exact_gaps(1, 2, penalties=penalties)


def test_gaps_need_as_many_expectations_as_cells():
    with pytest.raises(SettingError, match="as many expected counts"):
        QualityScores((MARGINAL,), ((1.0,),))


@pytest.mark.parametrize(("unit", "only_sums"), [(None, False), ("person", False), (None, True)])
def test_votes_come_from_disjoint_parts(unit, only_sums):
    data = rows().set_column(1, "cost", pa.array(np.arange(ROWS, dtype=np.float64)))
    which_row = Features(
        function=lambda chunk: np.equal.outer(chunk["cost"], np.arange(ROWS)) * 1.0,
        columns=("cost",),
        shape=(ROWS,),
        l2=1.0,
        nonnegative=True,
    )
    lessons = []

    def teacher(sums, group):
        lessons.append(np.flatnonzero(sums))
        return np.array([-100, 0, 100]) + len(lessons)

    table = opened(OnlySums(data) if only_sums else data, unit=unit, max_rows_per_unit=2 if unit else 1)
    answer = table.vote(which_row, teacher, inputs=3, classes=3, parts=5, charge=plan()["Gaussian"])
    assert len(lessons) == 5
    assert sorted(np.concatenate(lessons)) == list(range(ROWS))
    assert min(len(fill) for fill in lessons) > ROWS / 5 / 2
    if unit:
        persons = [set((fill // 2).tolist()) for fill in lessons]
        assert sum(len(part) for part in persons) == len(set.union(*persons))
    # Votes beyond the classes go to the nearest; teacher n votes for n on the second input.
    assert answer.value.tolist() == [[[5, 0, 0], [0, 1, 4], [0, 0, 5]]]
    assert any("teacher" in name for name in table.foreign)


def test_each_group_has_teachers_of_its_own():
    ward = SCHEMA["ward"].cells(1)
    table = opened()
    answer = table.vote(
        Grouped(ward, Count()),
        lambda sums, group: np.array([sums > 0, group]),
        inputs=2,
        classes=ward.size,
        parts=3,
        charge=plan()["Gaussian"],
    )
    counts = answered(Marginal((ward,))).value
    assert answer.value.shape == (ward.size, 2, ward.size)
    assert ((answer.value[:, 0, 1] > 0) == (counts > 0)).all()
    assert (answer.value[np.arange(ward.size), 1, np.arange(ward.size)] == 3).all()


@pytest.mark.parametrize(
    ("query", "settings", "message"),
    [
        (Stack((Count(),)), {}, "sum over rows"),
        (Count(), {"inputs": 0}, "at least 1"),
        (Count(), {"parts": 0}, "at least 1"),
    ],
)
def test_a_vote_that_cannot_be_is_refused_unpaid(query, settings, message):
    with Ledger() as ledger:
        asked = {"inputs": 1, "classes": 2, "parts": 2, "charge": plan()["Gaussian"], **settings}
        with pytest.raises(SettingError, match=message):
            opened(ledger=ledger).vote(query, lambda sums, group: np.zeros(1), **asked)
        assert not ledger.releases()


# Every setting that matters matters.


def noise_of(query, *, epsilon=1.0, delta=1e-6, adjacency="add-remove", **settings):
    budget = Budget(epsilon, delta, Adjacency(adjacency))
    return opened(budget=budget, **settings).measure(query, plan(budget=budget)["Gaussian"]).stddev


def test_noise_follows_every_privacy_setting():
    base = noise_of(Count())
    assert base == pytest.approx(1 / BUDGET.mu)
    assert noise_of(Count(), epsilon=0.5) == pytest.approx(1 / Budget(0.5, 1e-6).mu)
    assert noise_of(Count(), delta=1e-9) == pytest.approx(1 / Budget(1.0, 1e-9).mu)
    assert noise_of(Count(), adjacency="replace") == pytest.approx(base * math.sqrt(2))
    assert noise_of(SIGNED, adjacency="replace") == pytest.approx(noise_of(SIGNED) * 2)
    assert noise_of(Count(), unit="person", max_rows_per_unit=1) == pytest.approx(base)
    assert noise_of(Count(), unit="person", max_rows_per_unit=7) == pytest.approx(base * 7)


@pytest.mark.parametrize("kind", [Gaussian, Pure])
@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("settings", [{}, {"unit": "person", "max_rows_per_unit": 7}], ids=["rows", "persons"])
@pytest.mark.parametrize(
    "query",
    [Count(), MARGINAL, SIGNED, Stack((Count(), SIGNED)), Grouped(MARGINAL.cells[0], SIGNED)],
    ids=["count", "marginal", "features", "stack", "grouped"],
)
def test_the_noise_foretold_is_the_noise_added(kind, adjacency, settings, query):
    budget = replace(BUDGET, adjacency=adjacency)
    with Ledger() as ledger:
        table, priced = opened(budget=budget, ledger=ledger, **settings), plan(kind, budget=budget)[kind.__name__]
        foretold = table.stddev(query, priced)
        assert ledger.releases() == [], "asking how much noise there would be is free"
        answer = table.measure(query, priced)
    assert foretold == answer.stddev
    assert all(part.stddev == foretold for part in answer.parts)
    event = priced.event
    twice = {Adjacency.ADD_REMOVE: 1, Adjacency.REPLACE: 2 if kind is Pure or not query.nonnegative else math.sqrt(2)}
    one = math.sqrt(2) * query.l1 / event.epsilon if kind is Pure else query.l2 * event.noise_multiplier
    assert foretold == pytest.approx(one * table.unit.max_rows * twice[adjacency])


def test_noise_is_foretold_without_touching_a_row():
    class Unread(MemoryBackend):
        __slots__ = ("closed",)

        def batches(self, columns):
            assert not getattr(self, "closed", False)
            return super().batches(columns)

    backend = Unread(rows())
    table = opened(backend)
    backend.closed = True
    assert table.stddev(MARGINAL, plan()["Gaussian"]) == pytest.approx(1 / BUDGET.mu)


@pytest.mark.parametrize("kind", [PartitionSelection, Sampled])
def test_noise_is_foretold_for_sums_over_all_rows_only(kind):
    charge = sample()["step"] if kind is Sampled else plan(kind)[kind.__name__]
    with pytest.raises(SettingError, match=f"pays for a {kind.__name__} event"):
        opened().stddev(Count(), charge)


@pytest.mark.parametrize("kind", [Gaussian, Pure, PartitionSelection])
@pytest.mark.parametrize("other", [Budget(0.5, 1e-6), Budget(1.0, 1e-8)], ids=["epsilon", "delta"])
def test_events_follow_the_budget(kind, other):
    assert plan(kind)[kind.__name__].event != plan(kind, budget=other)[kind.__name__].event


def test_adjacency_changes_what_a_sample_costs():
    replace_one = replace(BUDGET, adjacency=Adjacency.REPLACE)
    assert bare(Sampled(0.5, 10.0), replace_one).epsilon > 1.2 * bare(Sampled(0.5, 10.0)).epsilon


@pytest.mark.parametrize(
    ("query", "kind", "factor"), [(Count(), Pure, 2), (Count(), Gaussian, math.sqrt(2)), (SIGNED, Gaussian, 2)]
)
def test_replacing_needs_more_noise(query, kind, factor):
    stddevs = []
    for adjacency in Adjacency:
        budget = replace(BUDGET, adjacency=adjacency)
        stddevs.append(opened(budget=budget).measure(query, plan(kind, budget=budget)[kind.__name__]).stddev)
    assert stddevs[1] == pytest.approx(stddevs[0] * factor)


# Without a proof.


def test_exposing_is_refused_unless_accepted():
    with Ledger() as ledger:
        with pytest.raises(SettingError, match="--accept-unproven"):
            opened(ledger=ledger).expose("a published method")
        assert ledger.releases() == []


def test_exposing_hands_out_the_rows_and_costs_everything():
    with Ledger() as ledger:
        table = opened(ledger=ledger, accept_unproven=True)
        found = table.expose("a published method")
        expected = codec.encode(rows(), table.schema)
        assert found.count == ROWS
        assert found.rows.keys() == expected.keys()
        assert all(np.array_equal(found.rows[name], expected[name], equal_nan=True) for name in expected)
        assert "0." not in repr(found), "rows do not show by accident"
        (release,) = ledger.releases()
        assert release.epsilon == math.inf
        (charge,) = ledger.charges(release.id)
        assert charge.event == {"event": "NonPrivate", "reason": "a published method"}
        assert ledger.datasets()[0].spent == math.inf


@pytest.mark.parametrize("unit", [None, "person"])
def test_exposed_rows_have_the_types_of_the_layout(unit, folder):
    """A CSV file is read as text; whoever is handed its rows gets numbers all the same."""
    table = opened(folder / "rows.csv", accept_unproven=True, unit=unit, max_rows_per_unit=2 if unit else 1)
    found = table.expose("a published method")
    assert found.count == ROWS
    assert all(np.issubdtype(values.dtype, np.number) for values in found.rows.values())


def test_exposing_is_refused_under_a_cap():
    with Ledger() as ledger, pytest.raises(BudgetRefused):
        opened(ledger=ledger, accept_unproven=True, cap=10.0).expose("a published method")


def test_exposing_stamps_the_release():
    table = opened(accept_unproven=True, noise=SecureNoise())
    table.expose("a published method")
    release = Independent().run(table, rows=10)
    certificate = release.certificate()
    assert (release.guarantee, certificate.guarantee) == (Guarantee.NONE, Guarantee.NONE)
    assert certificate.accounted_epsilon == math.inf
    assert "a published method reads the rows without a proof" in certificate.assumptions


@dataclass(frozen=True, kw_only=True)
class Published(Independent):
    """A recipe that claims what it cannot prove."""

    name: ClassVar[str] = "published"
    guarantee = Guarantee.CLAIMED


@pytest.mark.parametrize("recipe", [Independent(), Published()], ids=lambda recipe: recipe.name)
@pytest.mark.parametrize("noise", [SilentNoise(), SeededNoise(0)], ids=["silent", "seeded"])
def test_noise_for_tests_gives_no_guarantee(noise, recipe):
    release = recipe.run(opened(noise=noise, accept_unproven=True), rows=10)
    assert release.guarantee is Guarantee.NONE
    assert any("noise" in assumption for assumption in release.certificate().assumptions)


def test_secure_noise_gives_a_proven_guarantee():
    release = Independent().run(opened(noise=None), rows=10)
    certificate = release.certificate()
    assert release.guarantee is Guarantee.PROVEN
    assert certificate.accounted_epsilon <= certificate.epsilon == 1.0


def test_non_private_events_cannot_be_planned():
    with pytest.raises(SettingError):
        plan(NonPrivate)


# Engines that only sum.


class OnlySums:
    """An engine with no verb but `sum`."""

    def __init__(self, table):
        self._inner = MemoryBackend(table)
        self.layout = self._inner.layout

    def sum(self, function, columns):
        return self._inner.sum(function, columns)


def test_an_engine_that_only_sums_answers_what_needs_sums_only():
    engine: Backend = OnlySums(rows())
    assert opened(engine).measure(MARGINAL, plan()["Gaussian"]).value.tolist() == answered(MARGINAL).value.tolist()
    assert opened(engine).sampled(0.5).measure(Count(), sample()["step"]).value == ROWS


def test_what_needs_rows_is_refused_by_an_engine_that_only_sums():
    with pytest.raises(SettingError, match="only sums"):
        ASK[PartitionSelection](opened(OnlySums(rows())), plan(PartitionSelection)["PartitionSelection"])
    with pytest.raises(SettingError, match="only sums"):
        opened(OnlySums(rows()), unit="person", max_rows_per_unit=2)
