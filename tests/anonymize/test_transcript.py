"""A transcript keeps noisy answers, gives them back to the questions that got them, and tells the ledger nothing."""

import dataclasses
import json
import os

import numpy as np
import pytest

from threea import Budget, hospital
from threea.anonymize.answer_log import AnswerLog, digest_of
from threea.anonymize.events import Gaussian, PartitionSelection, Pure
from threea.anonymize.open_table import open_table
from threea.anonymize.plan import Plan, Step
from threea.anonymize.query import Answer, Count, Marginal, Stack
from threea.anonymize.selection import QualityScores, Values
from threea.anonymize.transcript import Transcript
from threea.anonymize.unfinished import home_of
from threea.errors import BudgetRefused, SettingError
from threea.ledger import Ledger
from threea.table.cells import Categories

REQUEST = {"dataset": "stays", "epsilon": "1.0"}
BUDGET = Budget(1.0)
LABEL = Categories(column="died", count=2, missing=False)
STEPS = (
    Step(name="count", weight=1.0),
    Step(name="both", weight=1.0, count=2),
    Step(name="choice", weight=1.0, kind=Pure),
)


def opened(tmp_path, transcript, **options):
    ledger = options.pop("ledger", tmp_path / "ledger.db")
    common = {"schema": hospital.schema(), "budget": BUDGET, "ledger": ledger, "dataset": "stays"}
    return open_table(hospital.stays(200), transcript=transcript, **{**common, **options})


def ask(table, plan):
    """Ask one question of each kind."""
    scores = QualityScores(marginals=(Marginal((LABEL,)),) * 2, expected=(np.zeros(2), np.full(2, 90.0)))
    return (
        table.measure(Count(), plan["count"]),
        table.measure(Stack((Count(), Marginal((LABEL,)))), plan["both"]),
        table.select(scores, plan["choice"]),
        table.measure(Marginal((LABEL,)), plan["both"]),
    )


def same(first, second):
    return json.dumps([_plain(a) for a in first]) == json.dumps([_plain(a) for a in second])


def _plain(answer):
    if not isinstance(answer, Answer):
        return answer
    return [answer.value.tolist(), answer.stddev, [_plain(part) for part in answer.parts]]


def test_answers_come_back_to_the_bit_and_nothing_is_charged_again(tmp_path):
    ledger, plan = tmp_path / "ledger.db", Plan.calibrate(BUDGET, STEPS)
    transcript = Transcript(ledger, REQUEST)
    table = opened(tmp_path, transcript)
    first = ask(table, plan)
    spent = table.spent(plan)
    transcript.close()
    with Ledger(ledger) as book:
        before = book.releases()
    found = Transcript.found(ledger, REQUEST)
    assert (found.seed, found.key, found.known) == (transcript.seed, transcript.key, 4)
    # An equal plan, made anew.
    again, resumed = Plan.calibrate(BUDGET, STEPS), opened(tmp_path, found)
    assert resumed.charged
    assert same(ask(resumed, again), first)
    assert resumed.spent(again) == spent
    with Ledger(ledger) as book:
        assert book.releases() == before
    with pytest.raises(BudgetRefused):
        resumed.measure(Count(), again["count"])


def test_an_answer_is_on_disk_before_anyone_has_it(tmp_path, monkeypatch):
    synced, real = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (real(file), synced.append(os.fstat(file).st_ino))[0])
    transcript = Transcript(tmp_path / "ledger.db", REQUEST)
    table, plan = opened(tmp_path, transcript), Plan.calibrate(BUDGET, STEPS)
    table.measure(Count(), plan["count"])
    (folder,) = home_of(tmp_path / "ledger.db").iterdir()
    log = folder / "answers"
    assert synced[-1] == log.stat().st_ino
    answers = log.read_bytes()
    assert len(answers) == log.stat().st_size > 0


@pytest.mark.parametrize("value", [0.0, -1e300, 0.1, 5e-324])
def test_the_size_of_an_answer_says_nothing_of_it(tmp_path, value):
    log = AnswerLog(tmp_path / "answers")
    log.append("line", 1, "digest", Answer(np.array([1.0, 2.0]), 3.0))
    size = (tmp_path / "answers").stat().st_size
    log.append("line", 1, "digest", Answer(np.array([value, -value]), 3.0))
    assert (tmp_path / "answers").stat().st_size == 2 * size
    log.append("line", 1, "digest", 3)
    third = (tmp_path / "answers").stat().st_size
    log.append("line", 1, "digest", 1 << 40)
    assert (tmp_path / "answers").stat().st_size - third == third - 2 * size
    assert [answer.answer(None) for answer in log.read()[2:]] == [3, 1 << 40]


def test_an_answer_of_another_size_that_cannot_be_written_is_never_asked_again(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, os.strerror(28))

    steps = (Step(name="values", weight=1.0, kind=PartitionSelection), Step(name="count", weight=1.0))
    table, ledger = hospital.stays(200).select(["age", "ward"]), tmp_path / "ledger.db"
    for asked, kept in ((Values(("ward",)), False), (Count(), True)):
        path = tmp_path / f"{kept}.db"
        opened_table = open_table(
            table, budget=BUDGET, ledger=path, dataset="stays", transcript=Transcript(path, REQUEST)
        )
        plan = Plan.calibrate(BUDGET, steps)
        with monkeypatch.context() as patch:
            patch.setattr(AnswerLog, "append", full)
            with pytest.raises(SettingError, match=r"answers cannot be kept in .*No space left"):
                opened_table.measure(asked, plan["count" if kept else "values"])
        assert home_of(path).exists() == kept
    assert not ledger.exists()


def test_values_come_back_as_they_were(tmp_path):
    log = AnswerLog(tmp_path / "answers")
    shown = {"ward": {"a": 12.25, "\N{GREEK SMALL LETTER ALPHA}": 1 / 3}, "empty": {}}
    log.append("values", 1, "digest", shown)
    log.close()
    assert [answer.answer(None) for answer in AnswerLog(tmp_path / "answers").read()] == [shown]


def test_another_question_is_refused(tmp_path):
    ledger, plan = tmp_path / "ledger.db", Plan.calibrate(BUDGET, STEPS)
    transcript = Transcript(ledger, REQUEST)
    opened(tmp_path, transcript).measure(Count(), plan["count"])
    transcript.close()
    found = Transcript.found(ledger, REQUEST)
    table, again = opened(tmp_path, found), Plan.calibrate(BUDGET, STEPS)
    with pytest.raises(SettingError, match="asks count otherwise than before"):
        table.measure(Marginal((LABEL,)), again["count"])
    with pytest.raises(SettingError, match="asks both otherwise than before"):
        table.measure(Count(), again["both"])


def test_another_plan_is_refused_and_nothing_is_reserved(tmp_path):
    ledger = tmp_path / "ledger.db"
    transcript = Transcript(ledger, REQUEST)
    opened(tmp_path, transcript).measure(Count(), Plan.calibrate(BUDGET, STEPS)["count"])
    transcript.close()
    table = opened(tmp_path, Transcript.found(ledger, REQUEST))
    other = Plan.calibrate(BUDGET, (dataclasses.replace(STEPS[0], weight=2.0), *STEPS[1:]))
    with pytest.raises(SettingError, match="was planned otherwise"):
        table.measure(Count(), other["count"])
    with Ledger(ledger) as book:
        assert len(book.releases()) == 1


def test_what_was_reserved_and_not_told_is_taken_over_once(tmp_path, monkeypatch):
    """A process may be killed between the ledger's commit and the transcript's note of it."""
    ledger, plan = tmp_path / "ledger.db", Plan.calibrate(BUDGET, STEPS)

    def reserved_only():
        transcript = Transcript(ledger, REQUEST)
        table = opened(tmp_path, transcript)
        with monkeypatch.context() as patch:
            patch.setattr(Transcript, "_write", _killed_at_release(Transcript._write))
            with pytest.raises(KeyboardInterrupt):
                table.measure(Count(), Plan.calibrate(BUDGET, STEPS)["count"])
        transcript.close()

    reserved_only()
    reserved_only()
    with Ledger(ledger) as book:
        both = {row.id for row in book.releases()}
    assert len(both) == 2
    first, second = Transcript.found(ledger, REQUEST), None
    opened(tmp_path, first).measure(Count(), plan["count"])
    first.close()
    (other,) = [folder for folder in home_of(ledger).iterdir() if not (folder / "release.json").exists()]
    second = Transcript(ledger, REQUEST)
    second._folder, second.resumed = other, True
    second._read()
    opened(tmp_path, second).measure(Count(), Plan.calibrate(BUDGET, STEPS)["count"])
    assert {first.release, second.release} == both
    with Ledger(ledger) as book:
        assert {row.id for row in book.releases()} == both


@pytest.mark.parametrize("cheaper", [Budget(0.1), Budget(1.0)])
def test_what_another_release_reserved_for_less_is_not_taken_over(tmp_path, monkeypatch, cheaper):
    """Its answers would be told from less noise than the ledger has entered."""
    ledger = tmp_path / "ledger.db"
    begun = Transcript(ledger, REQUEST)
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "reserve", _killed)
        with pytest.raises(KeyboardInterrupt):
            opened(tmp_path, begun).measure(Count(), Plan.calibrate(BUDGET, STEPS)["count"])
    begun.close()
    # Of the same questions, so many times; not a single one was asked.
    other = Plan.calibrate(cheaper, (dataclasses.replace(STEPS[0], weight=9.0), *STEPS[1:]))
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "charge", _killed)
        with pytest.raises(KeyboardInterrupt):
            opened(tmp_path, None, budget=cheaper).measure(Count(), other["count"])
    with Ledger(ledger) as book:
        (reserved,) = (row.id for row in book.releases())
    found = Transcript.found(ledger, REQUEST)
    opened(tmp_path, found).measure(Count(), Plan.calibrate(BUDGET, STEPS)["count"])
    assert found.release != reserved
    with Ledger(ledger) as book:
        assert [(row.epsilon, row.charged) for row in book.releases()] == [(cheaper.epsilon, 0), (1.0, 1)]


def test_by_another_path_of_the_ledger_no_reservation_is_taken_over(tmp_path, monkeypatch):
    """Two that share one would each ask anew what was charged last, for one charge."""
    ledger, link, plan = tmp_path / "ledger.db", tmp_path / "link.db", Plan.calibrate(BUDGET, STEPS)
    Ledger(ledger, create=True).close()
    os.link(ledger, link)
    for path, owner, name, killed in (
        (ledger, Ledger, "reserve", _killed),
        (link, Transcript, "_write", _killed_at_release(Transcript._write)),
    ):
        transcript = Transcript(path, REQUEST)
        table = opened(tmp_path, transcript, ledger=path)
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, killed)
            with pytest.raises(KeyboardInterrupt):
                table.measure(Count(), plan["count"])
        transcript.close()
    (reserved,) = (row.id for row in Ledger(ledger).releases())
    first, second = (Transcript.found(path, REQUEST) for path in (ledger, link))
    for path, transcript in ((ledger, first), (link, second)):
        opened(tmp_path, transcript, ledger=path).measure(Count(), Plan.calibrate(BUDGET, STEPS)["count"])
    assert second.release == reserved != first.release
    assert [row.charged for row in Ledger(ledger).releases()] == [1, 1]


def _killed(*arguments, **options):
    raise KeyboardInterrupt


def _killed_at_release(real):
    def write(self, name, told):
        if name == "release.json":
            raise KeyboardInterrupt
        real(self, name, told)

    return write


def test_a_living_process_keeps_its_own(tmp_path):
    ledger, plan = tmp_path / "ledger.db", Plan.calibrate(BUDGET, STEPS)
    transcript = Transcript(ledger, REQUEST)
    opened(tmp_path, transcript).measure(Count(), plan["count"])
    with pytest.raises(SettingError, match="is being made by another process"):
        Transcript.found(ledger, REQUEST)


def test_a_refused_budget_leaves_no_transcript(tmp_path):
    ledger, plan = tmp_path / "ledger.db", Plan.calibrate(BUDGET, STEPS)
    table = opened(tmp_path, Transcript(ledger, REQUEST), cap=0.5, new_ledger=True)
    with pytest.raises(BudgetRefused):
        table.measure(Count(), plan["count"])
    assert not home_of(ledger).exists()


def test_a_place_that_takes_no_answers_is_told_before_anything_is_charged(tmp_path):
    ledger, plan = tmp_path / "ledger.db", Plan.calibrate(BUDGET, STEPS)
    home_of(ledger).write_text("in the way")
    table = opened(tmp_path, Transcript(ledger, REQUEST))
    with pytest.raises(SettingError, match=r"answers cannot be kept in .*File exists"):
        table.measure(Count(), plan["count"])
    with Ledger(ledger) as book:
        assert not book.releases()


def test_a_digest_is_of_what_is_asked_and_of_no_address():
    class Teacher:
        def __call__(self, sums, group):
            return sums

    events = [digest_of(event) for event in (Gaussian(1.0), Gaussian(1.0000000000000002), Pure(1.0))]
    assert len(set(events)) == 3
    assert digest_of(Teacher()) == digest_of(Teacher())
    arrays = [np.zeros(2), np.zeros(3), np.zeros(2, np.float32), np.array([0.0, -0.0])]
    assert len({digest_of(array) for array in arrays}) == 4
    assert digest_of(((1,), 2)) != digest_of((1, (2,)))
