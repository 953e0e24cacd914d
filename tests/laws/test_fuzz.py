"""One law over odd schemas, tables and options: files, or a refusal with nothing charged; never anything else."""

import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.fuzz_inputs import SCHEMA, mutated_text
from benchmarks.fuzz_tables import Drawn, drawn
from threea.anonymize.ledger import Ledger
from threea.errors import BudgetRefused, SchemaError, UserError
from threea.session import prepare
from threea.table.schema import Schema
from threea.table.writing import FORMATS

patient = settings(
    deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
MOST_ROWS = 100_000
"""No case drawn here has more than 200 rows."""


def ends_well(case: Drawn, form: str, *, described: bool) -> bool:
    """Make a release and write it; return whether there are files. There are, or nothing was charged."""
    with Ledger() as ledger, tempfile.TemporaryDirectory() as folder:
        try:
            schema = Schema.of(case.columns, target=case.target).confirm() if described else None
            prepared = prepare(case.table, schema=schema, target=case.target, ledger=ledger, **case.options)
            assert str(prepared)
        except (UserError, BudgetRefused) as refusal:
            assert "\n" not in str(refusal)
            assert ledger.releases() == []
            return False
        release = prepared.run()
        assert len(ledger.releases()) == 1
        assert release.rows <= MOST_ROWS
        files = {file.name for file in release.save(Path(folder) / "out", form)}
        assert files >= {f"synthetic.{form}", "certificate.json", "report.html", "schema.toml"}
        return bool(len(release.frame) == release.rows)


@settings(patient, max_examples=60)
@given(chance=st.randoms(use_true_random=False), described=st.sampled_from([True, True, False]), form=st.sampled_from(FORMATS))
def test_every_case_ends_in_files_or_in_a_refusal_with_nothing_charged(chance: Random, described: bool, form: str) -> None:
    ends_well(drawn(chance), form, described=described)


@settings(patient, max_examples=400)
@given(chance=st.randoms(use_true_random=False), times=st.integers(1, 4))
def test_a_mutated_schema_is_a_schema_or_is_refused(chance: Random, times: int) -> None:
    text = SCHEMA
    for _ in range(times):
        text = mutated_text(text, chance)
    try:
        schema = Schema.from_toml(text)
    except SchemaError as refusal:
        assert "\n" not in str(refusal)
        return
    assert Schema.from_toml(schema.to_toml()) == schema
