"""Choosing a recipe privately: one plan for all that is tried, and the best score kept."""

import dataclasses
import json

import pytest

import threea
from threea import hospital
from threea.audit.replay import Setting, replay
from threea.budget import Adjacency, Budget
from threea.certificate import Guarantee
from threea.describe.calendar_effects import CALENDAR
from threea.errors import BudgetRefused, SettingError
from threea.ledger import Ledger
from threea.model_file import load_release
from threea.pricing import priced_together
from threea.recipes import RECIPES, Independent, LabelTree
from threea.scoring import learner, optimism
from threea.session import prepare
from threea.tuning import CANDIDATES, candidates, tuned

SCHEMA = hospital.schema()


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    monkeypatch.setitem(learner.SETTINGS, "num_iterations", 5)
    monkeypatch.setattr(optimism, "REPEATS", 0)
    monkeypatch.setattr("threea.scoring.FRESH_ROWS", 2_000)


def test_all_that_is_tried_is_one_plan_charged_and_certified(tmp_path):
    ledger = Ledger()
    release = threea.synthesize(
        hospital.stays(3_000), schema=SCHEMA, epsilon=2.0, tune=2, rows=500, seed=1, ledger=ledger, dataset="d"
    )
    (entry,) = ledger.releases()
    assert entry.charged == entry.planned == sum(line.count for line in release.plan.lines)
    assert {line.name.split(": ")[0] for line in release.spent} == {"labeltree", "independent"}
    assert [line.share for line in release.plan.lines if line.name.endswith(": score")] == pytest.approx([0.05, 0.05])
    shares = [sum(each.share for each in release.plan.lines if each.name.startswith(name)) for name in ("lab", "ind")]
    assert shares == pytest.approx([0.5, 0.5])
    assert release.guarantee is Guarantee.PROVEN
    assert 0.98 * 2 <= release.accounted_epsilon <= 2
    assert [each.recipe for each in release.tried] == ["labeltree", "independent"]
    best = max(release.tried, key=lambda each: each.value)
    assert release.recipe == best.recipe
    assert release.score.figures[0].value == best.value
    release.save(tmp_path / "out")
    stated = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert [each["recipe"] for each in stated["tried"]] == ["labeltree", "independent"]
    assert "Tried on equal parts of the budget" in (tmp_path / "out" / "report.html").read_text()
    assert load_release(tmp_path / "out").tried == release.tried


def test_the_schema_is_found_once_for_all():
    release = threea.synthesize(hospital.stays(3_000), target="died", epsilon=5.0, tune=2, rows=300, seed=1)
    names = [line.name for line in release.spent]
    assert len(names) == len(set(names))
    discovered = [name for name in names if name.startswith("discover")]
    assert discovered == ["discover categories", "discover ranges", "discover values"]
    assert release.accounted_epsilon <= 5


class Coarse(Independent):
    name = "coarse"


def test_no_question_of_any_recipe_changes_by_more_than_its_price():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Tuned(Independent):
        def run(self, table, *arguments, **options):
            recipes = (Independent(), Coarse(bins=4))
            plan = priced_together(recipes, table, 0.2)
            return tuned(recipes, table, plan, rows=200, seed=1, balance=False)

    setting = Setting(adjacency=Adjacency.REPLACE, by_person=True)
    questions = replay(Tuned(), budget=Budget(8.0), among=[setting])
    assert len(questions) == 6
    assert not any(question.over for question in questions)


def test_the_cost_shown_is_of_all_that_is_tried():
    table = hospital.stays(500)
    alone = [prepare(table, schema=SCHEMA, epsilon=2.0, recipe=recipe, score=0.05).cost for recipe in CANDIDATES[:2]]
    both = prepare(table, schema=SCHEMA, epsilon=2.0, tune=2).cost
    assert both == alone[0] + alone[1]
    assert both.seconds > max(each.seconds for each in alone)


def test_a_part_of_a_plan_charges_the_whole():
    prepared = prepare(hospital.stays(500), schema=SCHEMA, epsilon=1.0, tune=3)
    part = prepared.plan.part("independent: ")
    assert [line.name for line in part.lines] == ["histograms given the label", CALENDAR, "score"]
    assert part["score"].plan is prepared.plan
    assert part["score"].name == "independent: score"
    with pytest.raises(KeyError):
        part["rows per class"]
    assert "Tries labeltree, independent, mst" in str(prepared)


def test_a_cap_refuses_all_of_it():
    ledger = Ledger()
    prepared = prepare(
        hospital.stays(500), schema=SCHEMA, epsilon=1.0, tune=2, ledger=ledger, dataset="d", cap=0.9, new_ledger=False
    )
    with pytest.raises(BudgetRefused):
        prepared.run()
    assert not ledger.releases()


@pytest.mark.parametrize("count", [1, 5, 2.0])
def test_how_many_are_tried_has_bounds(count):
    with pytest.raises(SettingError, match=r"tune \(.*\) must be a whole number of recipes to try, from 2 to 4"):
        candidates(LabelTree(), count, RECIPES, SCHEMA)


def test_the_recipe_asked_for_is_tried_first_and_none_twice():
    names = [recipe.name for recipe in candidates(RECIPES["mst"](), 4, RECIPES, SCHEMA)]
    assert names == ["mst", "labeltree", "independent", "privbayes"]
    assert set(CANDIDATES) <= set(RECIPES)
