"""The readers' law for everything in memory and for Parquet: one more row in is one more row at the door, or a refusal.

The tables are those of `benchmarks.reader_entries`, here drawn with hypothesis.
"""

from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from benchmarks.reader_entries import READERS
from benchmarks.reader_tables import NotHeld
from benchmarks.readers import judged
from threea.backends import unchanged


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """These files are written once: nobody needs to wait until their times would tell a change."""
    monkeypatch.setattr(unchanged, "_TICK_NS", 0)


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(rng=st.randoms(use_true_random=False))
def test_one_more_row_in_is_one_more_row_at_the_door(
    name: str, rng: Random, tmp_path_factory: pytest.TempPathFactory
) -> None:
    try:
        held = READERS[name].hold(rng, tmp_path_factory.getbasetemp())
    except NotHeld:
        assume(False)
    judged(READERS[name], held)


@pytest.mark.parametrize("name", READERS)
def test_most_tables_are_read(name: str, tmp_path: Path) -> None:
    """A reader that refused everything would keep the law, too: of fixed tables, it reads at least a quarter."""
    ends = []
    for number in range(60):
        try:
            ends.append(judged(READERS[name], READERS[name].hold(Random(number), tmp_path)))
        except NotHeld:
            continue
    assert ends.count("read") * 4 >= len(ends) > 10
