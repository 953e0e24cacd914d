"""The door takes a closed set of queries, and names whatever else had a part in a release."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest

from threea import hospital
from threea.anonymize.clipping import QUERIES
from threea.anonymize.events import Gaussian, Pure
from threea.anonymize.open_table import open_table
from threea.anonymize.plan import Plan, Step
from threea.anonymize.query import Count, Features, Grouped, Marginal, Stack
from threea.anonymize.selection import QualityScores, Values
from threea.budget import Budget
from threea.certificate import Guarantee
from threea.errors import SettingError
from threea.ledger import Ledger
from threea.recipes import Independent
from threea.table.cells import Categories

TINY = 2.0**-20
WARD = hospital.schema()["ward"].cells(1)


class SmallCount(Count):
    """An exact count, if its bound were believed."""

    l2 = TINY


class SmallMarginal(Marginal):
    l2 = l1 = TINY


class PeekingCells(Categories):
    """Cells that depend on all rows at once."""

    def index(self, values):
        return np.full(len(values), int(values.max()))


class SmallScores(QualityScores):
    pass


def peeking():
    return PeekingCells(column=WARD.column, count=WARD.count, missing=WARD.missing)


STRANGERS = {
    "count": SmallCount(),
    "marginal": SmallMarginal((WARD,)),
    "in a stack": Stack((Count(), SmallCount())),
    "in groups": Grouped(WARD, SmallCount()),
    "cells": Marginal((peeking(),)),
    "cells of groups": Grouped(peeking(), Count()),
    "no query at all": object(),
}


def opened(ledger):
    return open_table(hospital.stays(200), schema=hospital.schema(), budget=Budget(1.0), ledger=ledger)


def plan(kind=Gaussian):
    return Plan.calibrate(Budget(1.0), [Step(name="ask", weight=1.0, kind=kind)])


@pytest.mark.parametrize("name", STRANGERS)
@pytest.mark.parametrize("kind", [Gaussian, Pure])
def test_a_subclass_that_declares_less_than_it_keeps_is_refused_before_the_charge(name, kind):
    ledger = Ledger()
    with pytest.raises(SettingError, match="must be one of"):
        opened(ledger).measure(STRANGERS[name], plan(kind)["ask"])
    assert ledger.releases() == []


NOTHING = (np.zeros(WARD.size),)
STRANGE_SCORES = {
    "scores": SmallScores((Marginal((WARD,)),), NOTHING),
    "marginal": QualityScores((SmallMarginal((WARD,)),), NOTHING),
}


@pytest.mark.parametrize("scores", STRANGE_SCORES.values(), ids=STRANGE_SCORES)
def test_scores_are_of_the_closed_set_too(scores):
    ledger = Ledger()
    with pytest.raises(SettingError, match="must be"):
        opened(ledger).select(scores, plan(Pure)["ask"])
    assert ledger.releases() == []


def test_values_are_asked_for_by_their_own_class_alone():
    class MoreValues(Values):
        pass

    ledger = Ledger()
    with pytest.raises(SettingError, match="must be one of"):
        opened(ledger).measure(MoreValues(("ward",)), plan()["ask"])
    assert ledger.releases() == []


@pytest.mark.parametrize("kind", sorted(QUERIES, key=lambda kind: kind.__name__), ids=lambda kind: kind.__name__)
def test_a_bound_cannot_be_replaced_in_an_instance(kind):
    """Without a dictionary, and with slots for nothing but its fields, an instance has its class's bound."""
    assert not hasattr(object.__new__(kind), "__dict__")
    fields = set(kind.__dataclass_fields__)
    if "l2" not in fields:
        with pytest.raises((AttributeError, TypeError)):
            object.__setattr__(object.__new__(kind), "l2", TINY)


def a_stranger(chunk):
    return np.ones(len(chunk["age"]))


@dataclass(frozen=True, kw_only=True)
class Foreign(Independent):
    """A recipe of somebody else's, with a function of rows of its own."""

    name: ClassVar[str] = "foreign"

    def run(self, table, *arguments, **options):
        plan = self.plan(table)
        return super().run(table, *arguments, **{**options, "plan": plan})


def test_what_is_not_threeas_is_named_in_the_certificate():
    release = Foreign().run(opened(None), rows=10)
    certificate = release.certificate()
    assert certificate.guarantee is Guarantee.PROVEN
    (line,) = certificate.assumptions
    assert f"recipe {Foreign.__module__}.Foreign is not part of threea" in line
    assert Independent().run(opened(None), rows=10).certificate().assumptions == []


@pytest.mark.parametrize("function", [a_stranger, partial(a_stranger), lambda chunk: np.ones(len(chunk["age"]))])
@pytest.mark.parametrize(
    "wrap", [lambda query: query, lambda query: Stack((Count(), query)), lambda query: Grouped(WARD, query)]
)
def test_a_strange_function_of_rows_is_remembered(function, wrap):
    table = opened(None)
    assert table.foreign == ()
    table.measure(wrap(Features(function=function, columns=("age",), shape=(), l2=1.0)), plan()["ask"])
    (name,) = table.foreign
    assert name.startswith(f"{__name__}.")


def test_rows_are_never_taken_from_the_first_batch_alone():
    """However a table is cut in memory, every row is exposed and votes."""
    whole = hospital.stays(300)
    pieces = pa.concat_tables([whole.slice(start, 7) for start in range(0, 300, 7)])
    exposed = open_table(pieces, schema=hospital.schema(), budget=Budget(1.0), accept_unproven=True).expose("a test")
    assert exposed.count == 300
    assert all(len(values) == 300 for values in exposed.rows.values())
