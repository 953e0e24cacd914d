"""Of releases that never saw the training rows few are accused, whoever has how many rows; and copies are caught.

The simulated people are those of `benchmarks/false_alarms.py`: most of what a row says is the person's.
"""

from dataclasses import replace

import pytest

from benchmarks import false_alarms
from benchmarks.false_alarms import Case, evidence, measured
from threea.evaluate import divided
from threea.evaluate.attacks import attacks, decision
from threea.evaluate.divided import told_apart

RELEASES = 40


@pytest.mark.xdist_group("false alarms")
def test_few_independent_releases_are_accused():
    """Of 40 releases, 7 or more are accused with probability 0.4% if 5% are, 3 or more told apart with 0.8% if 1%."""
    kinds = list(false_alarms.ROWS_A_PERSON)
    runs = [measured(Case(120, kinds[seed % 4], 0.5, "fresh"), seed) for seed in range(RELEASES)]
    assert (decision.SHARE, divided.SHARE) == (0.05, 0.01)
    assert all(run["attacked"] for run in runs)
    assert sum(bool(run["signs"]) for run in runs) <= 6
    assert sum(run["told_apart"] for run in runs) <= 2


@pytest.mark.xdist_group("false alarms")
@pytest.mark.parametrize("made", list(false_alarms.COPIES))
@pytest.mark.parametrize("rows", ["rows", "few", "many"])
def test_a_release_that_copies_rows_is_caught(rows, made):
    run = measured(Case(500, rows, 0.2, made), 0)
    assert "exact copies" in run["signs"]
    assert not run["told_apart"]
    if made == "whole":
        assert len(run["signs"]) == 10


@pytest.mark.xdist_group("false alarms")
def test_persons_that_nobody_names_make_false_alarms():
    """So naming them is what helps: without, a person's other rows pass for the release's memory of a row."""
    named = evidence(Case(120, "many", 0.5, "fresh"), 0)
    rows = {"train": named.train, "holdout": named.holdout, "synthetic": named.synthetic}
    bare = {role: table.drop_columns("person") for role, table in rows.items()}
    nameless = replace(named, schema=false_alarms.schema("rows"), unit=None, **bare)
    assert told_apart(named)["random"]
    assert not told_apart(nameless)["random"]
    assert attacks(named)["signs"] == []
    assert attacks(nameless)["signs"] != []


def test_few_persons_are_not_told_apart():
    few = evidence(Case(30, "many", 0.5, "fresh"), 0)
    assert told_apart(few) == {"auc": {"value": None, "interval": None}, "random": True}
    assert "holdout persons needed" in attacks(few)["caveat"]
