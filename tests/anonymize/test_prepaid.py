"""A run that is paid for at once: one entry before its first answer, and no answer more than was paid for."""

import signal
import subprocess
import sys

import pytest

from threea import hospital
from threea.anonymize.accountant import Line
from threea.anonymize.events import Gaussian, Sampled
from threea.anonymize.open_table import open_table
from threea.anonymize.plan import Plan
from threea.anonymize.query import Count
from threea.budget import Budget
from threea.errors import BudgetRefused, SettingError
from threea.ledger import open_ledger
from threea.testing import SilentNoise

BUDGET, STEPS = Budget(1.0, 1e-6), 5


def opened(ledger=None):
    return open_table(
        hospital.stays(50), schema=hospital.schema(), budget=BUDGET, ledger=ledger, new_ledger=True, noise=SilentNoise()
    )


def plan():
    return Plan(BUDGET, (Line("steps", Sampled(0.1, 40.0), STEPS), Line("count", Gaussian(40.0), 3)))


def charged(path):
    """Return the ledger's entries: line, looks and event."""
    ledger = open_ledger(path)
    (release,) = ledger.releases()
    return [(entry.line, entry.times, entry.event["event"]) for entry in ledger.charges(release.id)]


def test_all_steps_are_one_entry_and_the_answers_touch_no_disk(tmp_path):
    path = tmp_path / "ledger.db"
    table, priced = opened(path), plan()
    table.prepay(priced["steps"], STEPS)
    written = path.read_bytes()
    sample = table.sampled(0.1)
    assert [float(sample.measure(Count(), priced["steps"]).value) for _ in range(STEPS)] == [50.0] * STEPS
    assert path.read_bytes() == written
    assert charged(path) == [("steps", STEPS, "Sampled")]
    assert [(line.name, line.count) for line in table.spent(priced)] == [("steps", STEPS)]


def test_no_answer_more_than_was_paid_for():
    table, priced = opened(), plan()
    table.prepay(priced["steps"], 2)
    sample = table.sampled(0.1)
    # Two are paid, three are left to be paid one by one, and the sixth is refused.
    for _ in range(STEPS):
        sample.measure(Count(), priced["steps"])
    with pytest.raises(BudgetRefused, match="as often as planned"):
        sample.measure(Count(), priced["steps"])
    assert [(line.name, line.count) for line in table.spent(priced)] == [("steps", STEPS)]


def test_more_than_planned_cannot_be_prepaid_and_stays_uncharged():
    table, priced = opened(), plan()
    with pytest.raises(BudgetRefused, match="as often as planned"):
        table.prepay(priced["steps"], STEPS + 1)
    assert table.spent(priced) == ()
    for count in (0, -1, 1.5):
        with pytest.raises(SettingError, match=r"count \("):
            table.prepay(priced["steps"], count)


def test_what_is_prepaid_pays_for_its_own_line_and_plan():
    table, priced, other = opened(), plan(), plan()
    table.prepay(priced["count"], 2)
    table.measure(Count(), priced["count"].times(2))
    assert [(line.name, line.count) for line in table.spent(priced)] == [("count", 2)]
    table.measure(Count(), priced["count"])
    assert [(line.name, line.count) for line in table.spent(priced)] == [("count", 3)]
    with pytest.raises(BudgetRefused, match="does not cover"):
        table.sampled(0.1).measure(Count(), other["steps"])


RUN = """
import sys
sys.path.insert(0, sys.argv[2])
from test_prepaid import opened, plan, Count
table, priced = opened(sys.argv[1]), plan()
table.prepay(priced["steps"], 5)
sample = table.sampled(0.1)
for _ in range(3):
    print(float(sample.measure(Count(), priced["steps"]).value), flush=True)
sys.stdin.read()
"""


def test_a_killed_run_has_seen_nothing_that_is_not_charged(tmp_path, request):
    """It is killed after three answers of five: all five stay charged, and no more can be had of the plan."""
    path = tmp_path / "ledger.db"
    command = [sys.executable, "-c", RUN, str(path), str(request.path.parent)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        seen = [run.stdout.readline() for _ in range(3)]
        run.send_signal(signal.SIGKILL)
        run.wait()
    assert [float(line) for line in seen] == [50.0] * 3
    assert charged(path) == [("steps", STEPS, "Sampled")]
