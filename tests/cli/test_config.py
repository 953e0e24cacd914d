"""Defaults from threea.toml: said in the receipt, below what is typed, and never a weaker promise."""

import json
import os
import sys

import pyarrow.parquet as pq
import pytest

from threea import cli, hospital
from threea.cli import config
from threea.ledger import Ledger


@pytest.fixture
def threea(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["threea", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return (end.value.code, *capsys.readouterr())

    return run


@pytest.fixture
def folder(tmp_path):
    pq.write_table(hospital.stays(300), tmp_path / "stays.parquet")
    (tmp_path / "schema.toml").write_text(hospital.schema().to_toml())
    return tmp_path


RELEASE = ("release", "stays.parquet", "--recipe", "independent", "--out", "r", "--dry-run")


def test_what_the_file_says_is_used_and_told_before_anything_is_spent(threea, folder):
    (folder / "threea.toml").write_text('epsilon = 0.5\nunit = "patient_id"\nschema = "schema.toml"\nrows = "same"\n')
    code, out, _ = threea(*RELEASE)
    assert code == 0
    assert out.startswith("From threea.toml: epsilon 0.5, unit patient_id, schema schema.toml, rows same.\n")
    assert "epsilon 0.5, delta 1e-06" in out
    assert "Each patient_id is protected" in out
    told = json.loads(threea(*RELEASE, "--json")[1])
    assert told["from_config"] == {"epsilon": 0.5, "unit": "patient_id", "schema": "schema.toml", "rows": "same"}


def test_what_is_typed_wins_and_that_is_told_too(threea, folder):
    (folder / "threea.toml").write_text('epsilon = 0.5\ndelta = 1e-7\nschema = "schema.toml"\n')
    _, out, _ = threea(*RELEASE, "--epsilon", 2)
    first, second = out.splitlines()[:2]
    assert first == "From threea.toml: delta 1e-07, schema schema.toml. Typed in place of threea.toml: --epsilon."
    assert "epsilon 2, delta 1e-07" in second


def test_it_is_looked_for_in_the_working_folder_alone(threea, folder, monkeypatch):
    (folder / "threea.toml").write_text("epsilon = 0.5\n")
    (folder / "below").mkdir()
    monkeypatch.chdir(folder / "below")
    code, _, err = threea("release", "../stays.parquet", "--target", "died", "--out", "r")
    assert code == 2
    assert "--epsilon" in err


def test_another_file_can_be_named_and_its_paths_begin_where_it_lies(threea, folder):
    (folder / "threea.toml").write_text("epsilon = 0.5\n")
    (folder / "team").mkdir()
    (folder / "team" / "policy.toml").write_text('epsilon = 0.25\nschema = "schema.toml"\n')
    (folder / "schema.toml").rename(folder / "team" / "schema.toml")
    code, out, _ = threea(*RELEASE, "--config", "team/policy.toml")
    assert code == 0
    assert out.startswith("From team/policy.toml: epsilon 0.25, schema team/schema.toml.\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("epsilno = 1", ["threea.toml: key (epsilno) is unknown", "did you mean epsilon?"]),
        ("[release]\nepsilon = 1", ["key (release) is unknown"]),
        ('epsilon = "1"', ["epsilon (1) must be a number"]),
        ("epsilon = true", ["epsilon (True) must be a number"]),
        ("ledger = 3", ["ledger (3) must be text in quotes"]),
        ("rows = 2.5", ["rows (2.5) must be a number or text"]),
        ("rows = 'many'", ["rows (many) must be a whole number"]),
        ("epsilon = 0", ["epsilon (0.0) must be a number > 0"]),
        ("epsilon = ", ["config (threea.toml) is not TOML"]),
        ("\xff", ["config (threea.toml) is not TOML"]),
        ("accept_unproven = true", ["allows methods without a proof", "typed each time", "--accept-unproven"]),
        ("confirm_schema = true", ["confirms that a schema is public", "--confirm-schema"]),
        ("new_ledger = true", ["begins a ledger that knows of no spending", "--new-ledger"]),
        ("cluster = 'tcp://x:1'", ["sends rows to other machines"]),
        ("epsilon = 50", ["epsilon 50 is above 10", "say it on the command line"]),
        ("delta = 0.01", ["delta 0.01 is above 0.001"]),
        ("recipe = 'adsgan'\nepsilon = 1", ["--accept-unproven"]),
    ],
)
def test_what_it_may_not_hold_is_refused_in_one_line(threea, folder, text, words):
    (folder / "threea.toml").write_bytes(text.encode("latin-1"))
    arguments = [part for part in RELEASE if part not in ("--recipe", "independent", "--dry-run")]
    code, out, err = threea(*arguments, "--schema", "schema.toml", *(() if "epsilon" in text else ("--epsilon", "1")))
    assert (code, out, err.count("\n")) == (2, "", 1), err
    for word in words:
        assert word in err
    assert not (folder / "r").exists()


def test_no_key_may_be_typed_each_time_and_all_are_options():
    import inspect

    from threea.cli.release import release

    known = set(inspect.signature(release).parameters)
    assert set(config.KEYS) <= known
    # What is not a value, and so could not be undone by typing another, has no place in the file.
    flags = {"confirm_schema", "balance", "new_ledger", "accept_unproven", "spreadsheet_safe", "dry_run", "as_json"}
    assert not flags & set(config.KEYS)


def test_a_ledger_of_the_file_that_is_gone_is_not_made_anew(threea, folder):
    (folder / "threea.toml").write_text('epsilon = 1\nschema = "schema.toml"\nledger = "books.db"\ncap = 3\n')
    release = tuple(part for part in RELEASE if part != "--dry-run")
    code, _, err = threea(*release)
    assert code == 2
    assert "ledger (books.db) of threea.toml does not exist; find it, or begin it with --new-ledger" in err
    assert threea(*release, "--new-ledger")[0] == 0
    with Ledger(folder / "books.db") as book:
        assert [row.spent for row in book.datasets()] == [1.0]
    code, out, _ = threea("ledger")
    assert code == 0
    assert out.startswith("From threea.toml: ledger books.db.\n")
    assert "cap 3, left 2" in out
    # The cap of the file is the ledger's: it cannot be raised by typing another.
    code, _, err = threea(*release[:-1], "again", "--cap", 9)
    assert code == 2
    assert "a cap can only be lowered" in err


def test_a_file_of_another_user_must_be_named(threea, folder, monkeypatch):
    (folder / "threea.toml").write_text('epsilon = 1\nschema = "schema.toml"\n')
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    code, _, err = threea(*RELEASE)
    assert code == 2
    assert "belongs to another user; if you trust it, say --config threea.toml" in err
    assert threea(*RELEASE, "--config", "threea.toml")[0] == 0


def test_help_is_shown_whatever_the_file_holds(threea, folder):
    (folder / "threea.toml").write_text("nonsense")
    assert threea("release", "--help")[0] == 0


def test_python_takes_nothing_from_it(folder, monkeypatch):
    import threea

    (folder / "threea.toml").write_text('epsilon = 9\nunit = "patient_id"\nledger = "books.db"\n')
    monkeypatch.chdir(folder)
    schema = hospital.schema()
    prepared = threea.prepare("stays.parquet", schema=schema, epsilon=1.0, recipe="independent")
    assert (prepared.plan.budget.epsilon, prepared.ledger, prepared.table.unit.column) == (1.0, None, None)


def test_drafts_and_parts_take_their_columns_from_it(threea, folder):
    (folder / "threea.toml").write_text('target = "died"\nunit = "patient_id"\n')
    code, out, _ = threea("schema", "stays.parquet", "--out", "draft.toml")
    assert code == 0
    assert out.startswith("From threea.toml: target died, unit patient_id.\n")
    code, out, _ = threea("split", "stays.parquet", "--out", "parts", "--dry-run")
    assert code == 0
    assert out.startswith("From threea.toml: unit patient_id.\n")
