"""The benchmark of false alarms meets every kind of release, counts what was accused, and goes on where it was."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks import false_alarms
from benchmarks.false_alarms import COPIES, MADE, PERSONS, ROWS_A_PERSON, Case


def run(rows: str, *signs: str, told_apart: bool = False) -> dict[str, Any]:
    made = {"persons": 500, "rows": rows, "holdout": 0.5, "made": "fresh", "seed": 0, "attacked": True}
    return made | {"signs": list(signs), "told_apart": told_apart, "processor_seconds": 1.0}


def test_a_short_run_meets_every_kind() -> None:
    cases = list(false_alarms.independent_cases(72))
    assert len(set(cases)) == 72
    for number in (12, 40):
        some = cases[:number]
        assert {case.rows for case in some} == set(ROWS_A_PERSON)
        assert {case.persons for case in some} == set(PERSONS)
        assert {case.made for case in some} == set(MADE)
    assert {case.made for case in false_alarms.copies()} == set(COPIES)


@pytest.mark.parametrize("rows", ROWS_A_PERSON)
@pytest.mark.parametrize("made", [*MADE, *COPIES])
def test_no_person_is_on_two_sides(rows: str, made: str) -> None:
    drawn = false_alarms.evidence(Case(40, rows, 0.5, made), 0)
    train, holdout = (set(units.tolist()) for units in drawn.units)
    assert not train & holdout
    assert len(train) == len(holdout) == 20
    keys = {str(row) for row in drawn.train.drop_columns([] if rows == "rows" else ["person"]).to_pylist()}
    released = [str({k: v for k, v in row.items() if k != "person"}) for row in drawn.synthetic.to_pylist()]
    copied = sum(row in keys for row in released) / drawn.train.num_rows
    assert copied == pytest.approx(COPIES.get(made, 0.0), abs=0.03)


def test_releases_are_counted_by_attack_and_by_kind() -> None:
    found = false_alarms.summary([run("few", "linkability", "exact copies"), run("few"), run("many", told_apart=True)])
    assert (found["accused"]["count"], found["accused"]["of"]) == (1, 3)
    assert found["accused"]["interval"][0] < 1 / 3 < found["accused"]["interval"][1]
    assert found["told_apart"]["count"] == 1
    assert found["by_attack"]["linkability"]["count"] == 1
    assert {name: entry["count"] for name, entry in found["by_kind"]["rows"].items()} == {"few": 1, "many": 0}


def test_a_run_broken_off_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Any] = []
    tried: Counter[Case] = Counter()

    def measured(case: Case, seed: int) -> dict[str, Any]:
        if sum(tried.values()) == 5:
            tried.clear()
            raise KeyboardInterrupt
        tried[case] += 1
        return run(case.rows, *(["exact copies"] if case.made in COPIES and case.rows != "few" else []))

    monkeypatch.setattr(false_alarms, "RECORD", tmp_path / "runs.jsonl")
    monkeypatch.setattr(false_alarms, "record", lambda *result: written.append(json.loads(json.dumps(result))))
    monkeypatch.setattr(false_alarms, "measured", measured)
    monkeypatch.setattr(false_alarms, "source", lambda: {"commit": "c", "clean": True})
    with pytest.raises(KeyboardInterrupt):
        false_alarms.main(16)
    false_alarms.RECORD.write_text(false_alarms.RECORD.read_text()[:-9])
    tried.clear()
    monkeypatch.setattr(false_alarms, "measured", lambda case, seed: (tried.update([case]), run(case.rows))[1])
    false_alarms.main(16)
    assert sum(tried.values()) == 16 + 4 - 4
    ((name, settings, results),) = written
    assert (name, settings["releases"]) == ("false_alarms", 16)
    assert settings["stated"] == {"accused": 0.05, "told_apart": 0.01}
    assert results["independent"]["accused"]["of"] == 16
    assert len(results["copies"]["missed"]) == 4
    assert not false_alarms.RECORD.exists()
