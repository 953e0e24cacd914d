"""Parts of a plan: lines under shorter names, paid from the whole."""

import pytest

from threea.anonymize.plan import Plan, Step
from threea.budget import Budget


def test_a_part_of_a_plan_charges_the_whole():
    steps = [Step(name=f"{owner}: {what}", weight=1.0) for owner in ("parents", "children") for what in ("a", "b")]
    plan = Plan.calibrate(Budget(1.0), [*steps, Step(name="children: c", weight=2.0)])
    part = plan.part("children: ")
    assert [line.name for line in part.lines] == ["a", "b", "c"]
    assert part["c"].plan is plan
    assert part["c"].name == "children: c"
    assert part["c"].event == plan["children: c"].event
    with pytest.raises(KeyError):
        part["parents: a"]
