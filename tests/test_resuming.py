"""An interrupted release is not lost: the same again with `--resume` goes on with the same answers, for no charge."""

import dataclasses
import json
import os
import signal
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from threea import cli, hospital, publish
from threea.anonymize import open_table
from threea.anonymize.unfinished import home_of
from threea.errors import SettingError
from threea.ledger import Ledger
from threea.release import Release
from threea.session import prepare
from threea.testing.noise import RepeatedNoise

FATE = "the same again with --resume"


class Cut(BaseException):
    """What ends a release in the middle, as a kill would: nobody catches it."""


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(hospital.stays(400), "stays.parquet")
    (tmp_path / "described.toml").write_text(hospital.schema().to_toml())
    return tmp_path / "stays.parquet"


@pytest.fixture
def repeated(monkeypatch):
    """Have every release of the test drawn with noise that repeats itself."""
    monkeypatch.setattr(open_table, "SecureNoise", RepeatedNoise)


@pytest.fixture
def run(table, capsys, monkeypatch):
    """Run the command; return exit code, standard output and standard error."""

    def release(*arguments, recipe="labeltree", data=table, schema="described.toml", ledger="ledger.db"):
        capsys.readouterr()
        rows = [] if recipe == "dpmix" else ["--rows", 500]
        options = ["--schema", schema, "--recipe", recipe, "--epsilon", 1, "--seed", 7, *rows]
        where = ["--ledger", ledger, "--dataset", "stays", "--format", "parquet"]
        words = ["threea", "release", data, *options, *where, *arguments]
        monkeypatch.setattr(sys, "argv", [str(word) for word in words])
        with pytest.raises(SystemExit) as end:
            cli.main()
        out, err = capsys.readouterr()
        return end.value.code, out, err

    return release


def cut(monkeypatch, owner, name, number, *, after=False, error=Cut):
    """Have the process end at the n-th call of something, right before or after it."""
    real, calls = getattr(owner, name), []

    def act(*arguments, **options):
        calls.append(name)
        if not after and len(calls) == number:
            raise error
        done = real(*arguments, **options)
        if after and len(calls) == number:
            raise error
        return done

    monkeypatch.setattr(owner, name, act)


def ended(monkeypatch, act, owner, name, number, *, after=False):
    """Do something that is ended in the middle."""
    with monkeypatch.context() as patch:
        cut(patch, owner, name, number, after=after)
        with pytest.raises(Cut) as caught:
            act()
    return caught.value


def entries(ledger):
    """Return how many entries the charges of a ledger's one release take."""
    with Ledger(ledger) as book:
        (row,) = book.releases()
        return len(book.charges(row.id))


def books(ledger="ledger.db"):
    """Return what the ledger holds: releases, epsilon, charges."""
    with Ledger(ledger) as book:
        rows = book.releases()
        return len(rows), sum(row.epsilon for row in rows), sum(row.charged for row in rows)


def contents(folder):
    """Return a folder's files, without what says when it was made and where the ledger stood."""
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    certificate = json.loads(files.pop("certificate.json"))
    for name in ("created", "ledger_head", "model_sha256", "report_sha256"):
        certificate.pop(name)
    model = files.pop("model.threea")
    files.pop("report.html")
    return {**files, "certificate": certificate, "model": len(model) > 0}


MOMENTS = ("reserved", "second charge", "last charge", "made", "writing", "publishing")
OTHERS = ("independent", "gaussians", "privbayes", "clustmix", "dpmix", "mcgen", "mst")


@pytest.mark.usefixtures("repeated")
@pytest.mark.parametrize(
    ("recipe", "where"),
    [("labeltree", where) for where in MOMENTS]
    + [(recipe, where) for recipe in OTHERS for where in ("last charge", "writing")],
)
def test_an_interrupted_release_goes_on_with_the_same_answers(run, tmp_path, monkeypatch, recipe, where):
    assert run("--out", "whole", "--ledger", "other.db", recipe=recipe)[0] == 0
    _, _, asked = books("other.db")
    last = entries("other.db")
    owner, name, number, after = {
        "reserved": (Ledger, "reserve", 1, True),
        "second charge": (Ledger, "charge", 2, True),
        "last charge": (Ledger, "charge", last, last % 2 == 0),
        "made": (Release, "made", 1, False),
        "writing": (publish, "_fill", 1, True),
        "publishing": (publish.Place, "publish", 1, False),
    }[where]
    ended(monkeypatch, lambda: run("--out", "release", recipe=recipe), owner, name, number, after=after)
    assert not (tmp_path / "release").exists()
    releases, epsilon, charged = books()
    assert (releases, epsilon) == (1, 1.0)
    code, _, err = run("--out", "release", "--resume", recipe=recipe)
    assert (code, err) == (0, "")
    assert books() == (1, 1.0, asked)
    assert charged <= asked
    assert contents(tmp_path / "release") == contents(tmp_path / "whole")
    assert not home_of("ledger.db").exists()


@pytest.mark.usefixtures("repeated")
def test_it_can_be_interrupted_again_and_again(run, tmp_path, monkeypatch):
    assert run("--out", "whole", "--ledger", "other.db")[0] == 0
    times, more = 0, []
    while True:
        with monkeypatch.context() as patch:
            cut(patch, Ledger, "charge", 2, after=True)
            try:
                assert run("--out", "release", *more)[0] == 0
                break
            except Cut:
                times, more = times + 1, ["--resume"]
    assert times > 3
    assert books() == books("other.db")
    assert contents(tmp_path / "release") == contents(tmp_path / "whole")


def test_what_was_answered_is_not_asked_of_the_rows_again(run, tmp_path, monkeypatch):
    drawn = []

    class Counted(RepeatedNoise):
        def gaussian(self, sums, scale):
            drawn.append(len(sums))
            return super().gaussian(sums, scale)

    monkeypatch.setattr(open_table, "SecureNoise", Counted)
    assert run("--out", "whole", "--ledger", "other.db")[0] == 0
    whole, answered = list(drawn), len(drawn)
    drawn.clear()
    ended(monkeypatch, lambda: run("--out", "release"), Ledger, "charge", 4, after=True)
    before = list(drawn)
    drawn.clear()
    assert run("--out", "release", "--resume")[0] == 0
    assert before + drawn == whole
    assert 0 < len(before) < answered


def test_with_real_noise_the_answers_that_were_kept_are_those_of_the_release(run, tmp_path, monkeypatch):
    ended(monkeypatch, lambda: run("--out", "release"), Ledger, "charge", 3)
    (folder,) = home_of("ledger.db").iterdir()
    kept = (folder / "answers").read_bytes()
    ended(monkeypatch, lambda: run("--out", "release", "--resume"), Release, "made", 1)
    assert (folder / "answers").read_bytes().startswith(kept)
    assert run("--out", "release", "--resume")[0] == 0
    certificate = json.loads((tmp_path / "release" / "certificate.json").read_text())
    assert certificate["guarantee"] == "proven"
    _, _, charged = books()
    assert charged == sum(event["count"] for event in certificate["events"])


def test_when_all_is_answered_the_files_are_written_without_the_rows(run, table, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr(publish, "RowWriter", full)
        code, _, err = run("--out", "release")
    assert code == 2
    assert "No space left on device" in err
    assert FATE in err
    table.unlink()
    code, out, err = run("--out", "elsewhere", "--resume")
    assert (code, err) == (0, "")
    assert "no row is read again" in out
    assert sorted(path.name for path in (tmp_path / "elsewhere").iterdir()) == [
        "certificate.json", "model.threea", "report.html", "schema.toml", "synthetic.parquet",
    ]  # fmt: skip
    assert books()[:2] == (1, 1.0)
    assert not home_of("ledger.db").exists()


def test_a_release_that_was_written_is_not_waiting(run, tmp_path, monkeypatch):
    ended(monkeypatch, lambda: run("--out", "release"), publish.Place, "close", 1)
    assert (tmp_path / "release" / "certificate.json").exists()
    code, _, err = run("--out", "again", "--resume")
    assert code == 2
    assert "no unfinished release" in err
    assert not home_of("ledger.db").exists()


def interrupted(run, monkeypatch, *arguments, **options):
    ended(monkeypatch, lambda: run("--out", "release", *arguments, **options), Ledger, "charge", 3, after=True)


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (("--epsilon", 2), "another epsilon; it was epsilon 1.0"),
        (("--recipe", "independent"), "another recipe; it was recipe LabelTree("),
        (("--rows", 5), "another rows; it was rows 500"),
        (("--seed", 8), "another seed; it was seed 7"),
        (("--unit", "patient_id"), "another unit; it was unit None"),
        (("--drop", "ward"), "another drop; it was drop ()"),
        (("--dataset", "others"), "no unfinished release of dataset 'others' waits beside ledger.db"),
    ],
)
def test_other_options_are_refused(run, monkeypatch, more, named):
    interrupted(run, monkeypatch)
    before = books()
    code, out, err = run("--out", "release", "--resume", *more)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert named in err
    assert books() == before


def test_a_column_to_drop_is_not_written_because_all_was_answered_before(run, tmp_path, monkeypatch):
    ended(monkeypatch, lambda: run("--out", "release"), publish, "_fill", 1)
    code, _, err = run("--out", "release", "--resume", "--drop", "ward")
    assert (code, err.count("\n")) == (2, 1)
    assert "another drop; it was drop ()" in err
    assert not (tmp_path / "release").exists()
    assert run("--out", "release", "--resume")[0] == 0


def test_python_goes_on_with_what_the_command_began(run, table, monkeypatch):
    ended(monkeypatch, lambda: run("--out", "release", "--drop", "ward"), Ledger, "charge", 3, after=True)
    asked = {"epsilon": 1.0, "recipe": "labeltree", "ledger": "ledger.db", "dataset": "stays", "rows": 500, "seed": 7}
    release = prepare(table, schema="described.toml", drop=("ward",), score=0, resume=True, **asked).run()
    assert "ward" not in release.layout.names
    assert books()[:2] == (1, 1.0)


def test_another_schema_is_refused(run, monkeypatch, tmp_path):
    interrupted(run, monkeypatch)
    schema = hospital.schema()
    column = dataclasses.replace(schema["age"], upper=90.0)
    columns = tuple(column if old.name == "age" else old for old in schema.columns)
    (tmp_path / "wider.toml").write_text(dataclasses.replace(schema, columns=columns).to_toml())
    code, _, err = run("--out", "release", "--resume", schema="wider.toml")
    assert code == 2
    assert "was begun with another schema" in err


def test_other_rows_are_refused(run, monkeypatch, tmp_path):
    interrupted(run, monkeypatch)
    before = books()
    pq.write_table(pa.concat_tables([hospital.stays(400), hospital.stays(1)]), "more.parquet")
    code, _, err = run("--out", "release", "--resume", data="more.parquet")
    assert code == 2
    assert "was asked of other rows" in err
    assert books() == before


def test_there_must_be_something_to_resume(run):
    code, _, err = run("--out", "release", "--resume")
    assert (code, err.count("\n")) == (2, 1)
    assert "no unfinished release of dataset 'stays' waits" in err
    assert not os.path.lexists("ledger.db")


def test_a_new_release_tells_of_one_that_waits(run, monkeypatch):
    interrupted(run, monkeypatch)
    code, out, _ = run("--out", "another")
    assert code == 0
    assert "An unfinished release of this dataset waits since 20" in out
    assert books()[:2] == (2, 2.0)
    # It still waits, and is told of by a rehearsal as well.
    assert "An unfinished release" in run("--out", "third", "--dry-run")[1]
    assert run("--out", "release", "--resume")[0] == 0
    assert "An unfinished release" not in run("--out", "third", "--dry-run")[1]


def test_the_receipt_says_before_what_an_interrupt_costs(run, table):
    assert "Interrupted, the whole plan stays charged" in run("--out", "r", "--dry-run")[1]
    assert "--resume goes on" in run("--out", "r", "--dry-run")[1]
    schema = hospital.schema()
    without = str(prepare(table, schema=schema, epsilon=1.0, recipe="independent"))
    assert "Without a ledger, a release that is interrupted cannot be resumed." in without


def test_a_training_paid_for_at_once_cannot_be_resumed_and_says_so(run, table, monkeypatch):
    pytest.importorskip("jax")
    prepared = prepare(table, schema=hospital.schema(), epsilon=1.0, recipe="dpgan", ledger="ledger.db")
    assert "it cannot be resumed: dpgan so set trains on too many answers to keep" in str(prepared)
    ended(monkeypatch, lambda: prepared.run(), Ledger, "charge", 2, after=True)
    assert not home_of("ledger.db").exists()


def test_python_resumes_as_the_command_does(table, monkeypatch):
    options = {"schema": hospital.schema(), "epsilon": 1.0, "recipe": "labeltree", "ledger": "ledger.db"}
    error = ended(monkeypatch, lambda: prepare(table, **options).run(), Ledger, "charge", 3, after=True)
    assert FATE in error.__notes__[0]
    release = prepare(table, resume=True, **options).run()
    assert release.guarantee == "proven"
    assert books()[:2] == (1, 1.0)
    assert not home_of("ledger.db").exists()
    with pytest.raises(SettingError, match="needs the ledger"):
        prepare(table, resume=True, **{**options, "ledger": None})


def test_an_unfinished_release_is_its_owners_alone(run, monkeypatch):
    interrupted(run, monkeypatch)
    home = home_of("ledger.db")
    for path in (home, *home.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0


@pytest.mark.usefixtures("repeated")
def test_a_cut_answer_is_asked_again_and_a_lost_one_is_refused(run, tmp_path, monkeypatch):
    assert run("--out", "whole", "--ledger", "other.db")[0] == 0
    interrupted(run, monkeypatch)
    (folder,) = home_of("ledger.db").iterdir()
    kept = (folder / "answers").read_bytes()
    # Power was lost while it was written: nobody had it.
    with (folder / "answers").open("ab") as file:
        file.write(kept[:40])
    ended(monkeypatch, lambda: run("--out", "release", "--resume"), Ledger, "charge", 1, after=True)
    assert (folder / "answers").read_bytes().startswith(kept)
    # An answer that somebody had is gone: asked again, it would be answered twice.
    with (folder / "answers").open("r+b") as file:
        file.truncate(len(kept) // 3)
    before = books()
    code, _, err = run("--out", "release", "--resume")
    assert code == 2
    assert "does not go with its ledger" in err
    assert books() == before


def test_a_copy_that_is_put_back_is_refused(run, monkeypatch, tmp_path):
    interrupted(run, monkeypatch)
    (folder,) = home_of("ledger.db").iterdir()
    kept = (folder / "answers").read_bytes()
    (folder / "answers.copy").write_bytes(kept)
    os.rename(folder / "answers.copy", folder / "answers")
    code, _, err = run("--out", "release", "--resume")
    assert (code, "is a copy" in err) == (2, True)


def test_an_older_ledger_is_refused(run, monkeypatch, tmp_path):
    assert run("--out", "first")[0] == 0
    older = (tmp_path / "ledger.db").read_bytes()
    interrupted(run, monkeypatch)
    (tmp_path / "ledger.db").write_bytes(older)
    code, _, err = run("--out", "release2", "--resume")
    assert code == 2
    assert "does not go with its ledger" in err


def test_a_full_disk_beside_the_ledger_stops_it_and_asks_nothing_twice(run, monkeypatch, tmp_path):
    from threea.anonymize.answer_log import AnswerLog

    with monkeypatch.context() as patch:
        cut(patch, AnswerLog, "append", 2, error=OSError(28, os.strerror(28)))
        code, _, err = run("--out", "release")
    assert (code, "answers cannot be kept in" in err, FATE in err) == (2, True, True)
    assert run("--out", "release", "--resume")[0] == 0
    assert books()[:2] == (1, 1.0)


def test_an_interrupt_says_that_it_can_be_resumed(run, monkeypatch):
    def stop(*_, **__):
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(Release, "made", stop)
            code, _, err = run("--out", "release")
    finally:
        signal.signal(signal.SIGINT, before)
    assert (code, FATE in err, err.count("\n")) == (130, True, 1)


def test_a_schema_that_is_being_found_is_found_once(table, monkeypatch):
    """Which values a column holds is an answer whose size is not public; it comes back as it was."""
    options = {"target": "died", "epsilon": 3.0, "recipe": "independent", "ledger": "ledger.db", "rows": 50}
    ended(monkeypatch, prepare(table, **options).run, Ledger, "charge", 3, after=True)
    ended(monkeypatch, prepare(table, resume=True, **options).run, Ledger, "charge", 2, after=True)
    release = prepare(table, resume=True, **options).run()
    assert release.guarantee == "proven"
    with Ledger("ledger.db") as book:
        (row,) = book.releases()
    assert (row.epsilon, row.charged) == (3.0, row.planned)
