"""Conditions: what can be asked of a column, in Python and as text, and which values fit."""

import datetime
import math

import numpy as np
import pytest

from threea.errors import SettingError
from threea.table.cells import Bins, Categories
from threea.table.conditions import Among, Between, draw_fitting, fits, fitting, given, given_texts, nothing_fits
from threea.table.schema import Schema

SCHEMA = Schema.of(
    {
        "person": {"kind": "id"},
        "ward": {"kind": "categorical", "categories": ["surgery", "medicine"], "open_ended": True},
        "age": {"kind": "integer", "lower": 0, "upper": 110, "special": [999]},
        "weight": {"kind": "real", "lower": 1.0, "upper": 200.0},
        "seen": {"kind": "date", "lower": "2020-01-01", "upper": "2020-12-31"},
        "died": {"kind": "boolean", "nullable": False},
    },
    target="died",
)
MARCH = 18_322.0


@pytest.mark.parametrize(
    ("wanted", "condition"),
    [
        ({"died": True}, Among((1,))),
        ({"died": "False"}, Among((0,))),
        ({"ward": "medicine"}, Among((1,))),
        ({"ward": ["surgery", "other"]}, Among((0, 2))),
        ({"ward": None}, Among((-1,))),
        ({"age": (65, None)}, Between(65.0, math.inf)),
        ({"age": (None, 17)}, Between(-math.inf, 17.0)),
        ({"age": 999}, Between(999.0, 999.0)),
        ({"weight": (50, 60.5)}, Between(50.0, 60.5)),
        ({"seen": (datetime.date(2020, 3, 1), None)}, Between(MARCH, math.inf)),
        ({"seen": "2020-03-01"}, Between(MARCH, MARCH)),
    ],
)
def test_python_values(wanted, condition):
    assert given(SCHEMA, wanted) == {next(iter(wanted)): condition}


@pytest.mark.parametrize(
    ("texts", "condition"),
    [
        (["ward=surgery"], {"ward": Among((0,))}),
        (["ward=surgery", "ward=other"], {"ward": Among((0, 2))}),
        ([" died = true "], {"died": Among((1,))}),
        (["age>=65"], {"age": Between(65.0, math.inf)}),
        (["age>65", "age<80"], {"age": Between(66.0, 79.0)}),
        (["age=40"], {"age": Between(40.0, 40.0)}),
        (["weight<=80"], {"weight": Between(-math.inf, 80.0)}),
        (["weight>80"], {"weight": Between(math.nextafter(80.0, 81.0), math.inf)}),
        (["seen>=2020-03-01", "died=false"], {"seen": Between(MARCH, math.inf), "died": Among((0,))}),
        ([], None),
    ],
)
def test_texts(texts, condition):
    assert given_texts(SCHEMA, texts) == condition


def test_nothing_asked_is_no_condition():
    assert given(SCHEMA, None) is None
    assert given(SCHEMA, {}) is None


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"wards": "surgery"}, "condition on column (wards): unknown; did you mean ward? known: ward, age, weight"),
        ({"person": "p"}, "condition on column (person): unknown; "),
        ({"ward": "surgry"}, "condition on ward: value (surgry): unknown; did you mean surgery? known: surgery, med"),
        ({"died": None}, "condition on died: value (None): unknown; "),
        ({"age": "old"}, "condition on age: (old) must be a number"),
        ({"age": math.nan}, "condition on age: (nan) must be a number"),
        ({"age": True}, "condition on age: (True) must be a number"),
        ({"age": [1, 2, 3]}, "condition on age: it is integer; give one value or (lower, upper)"),
        ({"age": (120, 130)}, "condition on age: nothing fits; it is from 0 to 110"),
        ({"age": (50, 40)}, "condition on age: nothing fits; it is from 0 to 110"),
        ({"seen": "March"}, "condition on seen: (March) must be an ISO date"),
        ({"seen": (None, "2019-01-01")}, "condition on seen: nothing fits; it is from 2020-01-01 to 2020-12-31"),
    ],
)
def test_what_cannot_be_asked_is_told_in_one_line(wanted, said):
    with pytest.raises(SettingError) as error:
        given(SCHEMA, wanted)
    assert str(error.value).startswith(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("age", "condition (age) must be like column=value, column>=value or column<value"),
        ("ward>surgery", "condition (ward>surgery): ward is categorical, which has no order; use ="),
        ("=3", "condition on column (): unknown"),
    ],
)
def test_texts_that_say_nothing_are_told_in_one_line(text, said):
    with pytest.raises(SettingError) as error:
        given_texts(SCHEMA, [text])
    assert str(error.value).startswith(said)


def test_a_long_list_of_names_is_cut():
    wide = Schema.of({f"c{i}": {"kind": "boolean"} for i in range(300)})
    with pytest.raises(SettingError, match=r"known: c0, c1, c2, c3, c4, c5, c6, c7 and 292 more$"):
        given(wide, {"zzz": 1})


@pytest.mark.parametrize(
    ("cells", "condition"),
    [
        (Bins(column="a", edges=(0.0, 10.0, 20.0, 30.0), missing=True), Between(5.0, 25.0)),
        (Bins(column="a", edges=(1.0, 10.0, 100.0), missing=False, log=True), Between(3.0, 30.0)),
        (Bins(column="a", edges=(0.0, 10.0, 20.0), special=(3.0, 99.0), missing=True, whole=True), Between(2.5, 12.0)),
        (Bins(column="a", edges=(0.0, 10.0, 20.0), special=(99.0,), missing=False), Between(50.0)),
        (Categories(column="a", count=3, missing=True), Among((1, -1))),
        (Categories(column="a", count=3, missing=False), None),
    ],
)
def test_the_share_of_a_cell_that_fits_is_how_often_a_draw_from_it_does(cells, condition):
    """A fixed seed; of fresh ones a share of 40,000 draws is off by 0.0125, five deviations, less than once in 1e5."""
    rng, count = np.random.default_rng(0), 40_000
    shares = fitting(cells, condition)
    for cell in range(cells.size):
        values = cells.draw(np.full(count, cell), rng)
        often = fits({"a": values}, {"a": condition}).mean() if condition else 1.0
        assert often == pytest.approx(shares[cell], abs=0.0125)
        if shares[cell] > 0:
            drawn = draw_fitting(cells, np.full(500, cell), rng, condition)
            assert (cells.index(drawn) == cell).all(), "a value must stay in its cell"
            if condition:
                assert fits({"a": drawn}, {"a": condition}).all()


def test_an_open_end_of_multiples_fits_to_its_end():
    cells = Bins(column="price", edges=(-0.05, 0.45, 0.95), missing=True, step=0.1)
    assert fitting(cells, Between(0.5)).tolist() == [0.0, 1.0, 0.0]
    assert fitting(cells, Between()).tolist() == [1.0, 1.0, 0.0]


def test_a_row_fits_if_all_its_columns_do():
    chunk = {"age": np.array([70.0, 30.0, np.nan, 70.0]), "ward": np.array([0, 0, 0, 1])}
    conditions = {"age": Between(65.0), "ward": Among((0,))}
    assert fits(chunk, conditions).tolist() == [True, False, False, False]
    assert str(nothing_fits(conditions)).startswith("no row that the model draws fits the conditions on age, ward;")
