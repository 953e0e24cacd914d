"""The fuzzing benchmark can tell good ends from bad ones, and every input is the same each time."""

import json
from pathlib import Path

import pytest

from benchmarks import fuzz
from threea.ledger import Ledger

OUT = ["release", "data.csv", "--out", "out"]
FAMILIES = [number for number, family in enumerate(fuzz.FAMILIES) if family != "certificate"]


@pytest.mark.parametrize(
    ("code", "said", "outcome"),
    [
        (None, "", fuzz.LATE),
        (-6, "terminate called", fuzz.SIGNAL),
        (2, "Traceback (most recent call last):", fuzz.TRACEBACK),
        (2, "Exception ignored in: x", fuzz.TRACEBACK),
        (1, "internal error: KeyError at x.py:1", fuzz.INTERNAL),
        (1, "error: x", fuzz.CODE),
        (0, "", fuzz.PARTLY),
        (2, "error: x", fuzz.REFUSED),
        (3, "warning: y\nerror: x", fuzz.REFUSED),
        (2, "error: x\nand more", fuzz.LONG),
        (2, "", fuzz.LONG),
    ],
)
def test_every_end_has_its_name(code: int | None, said: str, outcome: str, tmp_path: Path) -> None:
    assert fuzz.judged(code, said, tmp_path, OUT) == outcome


def test_a_refusal_after_a_charge_is_none(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.db", create=True) as ledger:
        ledger.register("rows", lambda key: "mark")
        assert fuzz.judged(2, "error: x", tmp_path, OUT) == fuzz.REFUSED
        ledger.reserve("rows", epsilon=1.0, delta=0.0, lines=[("line", {"event": "Gaussian"}, 1)])
    assert fuzz.judged(2, "error: x", tmp_path, OUT) == fuzz.CHARGED


def test_a_release_is_whole_if_its_certificate_names_its_rows(tmp_path: Path) -> None:
    for name in fuzz.MADE[1:]:
        (tmp_path / name).write_text("")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    (tmp_path / "certificate.json").write_text(json.dumps({"synthetic_sha256": empty}))
    assert fuzz.whole(tmp_path)
    (tmp_path / "synthetic.csv").write_text("changed")
    assert not fuzz.whole(tmp_path)


@pytest.mark.parametrize("number", FAMILIES)
def test_an_input_is_the_same_each_time(number: int, tmp_path: Path) -> None:
    made = []
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        drawn = fuzz.prepared(number, folder, folder)
        made.append((drawn, {file.name: file.read_bytes() for file in folder.rglob("*") if file.is_file()}))
    assert made[0] == made[1]
