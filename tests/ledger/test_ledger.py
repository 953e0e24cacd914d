"""The ledger: caps hold under races, nothing is refunded by a crash, a bad file is refused in one line."""

import math
import multiprocessing
import os
import pickle
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threea.errors import BudgetRefused, InternalError, LedgerError, SettingError
from threea.ledger import Ledger, log
from threea.ledger import file as module

SOURCE = Path(module.__file__).parents[2]
EVENT = {"event": "Gaussian", "noise_multiplier": 4.0}
PLAN = [("count", EVENT, 1), ("step", EVENT, 3)]


def rows_of(name):
    return lambda key: f"{key.hex()}/{name}"


def reserve(ledger, epsilon=1.0, dataset="d"):
    return ledger.reserve(dataset, epsilon=epsilon, delta=1e-6, lines=PLAN, recipe="labeltree")


def spent(ledger, dataset="d"):
    return next(row.spent for row in ledger.datasets() if row.name == dataset)


def filled(path):
    """Leave a closed ledger with three releases, all in the main file."""
    with Ledger(path, create=True) as ledger:
        ledger.register("d", rows_of("d"), cap=10.0)
        for _ in range(3):
            ledger.charge(reserve(ledger), "count")
    return path


def refusal(path):
    """Return the message of a refused opening, having checked that it is one line and hides what the system said."""
    with pytest.raises(LedgerError) as caught:
        Ledger(path, create=True).close()
    shown = "".join(traceback.format_exception_only(caught.value))
    assert shown.count("\n") == 1
    assert "During handling" not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert ";" in str(caught.value), "a remedy follows the semicolon"
    return str(caught.value)


def run(script, *args, check=True):
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-c", script, *map(str, args)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=check)


@pytest.fixture
def ledger():
    with Ledger() as opened:
        opened.register("d", rows_of("d"))
        yield opened


# --- what is written ---------------------------------------------------------------------------------------


def test_a_release_and_its_charges_are_listed_as_made(tmp_path):
    before = datetime.now(UTC)
    with Ledger(tmp_path / "l.db", create=True) as ledger:
        ledger.register("d", rows_of("d"), cap=5.0)
        first, second = reserve(ledger, 1.0), reserve(ledger, 2.0)
        ledger.charge(first, "step")
        ledger.charge(second, "count")
        ledger.charge(first, "step")
        (dataset,) = ledger.datasets()
        releases, charges = ledger.releases("d"), ledger.charges(first)
        assert ledger.releases() == releases
        assert ledger.releases("other") == []
    assert (dataset.name, dataset.cap, dataset.spent, dataset.releases) == ("d", 5.0, 3.0, 2)
    assert dataset.delta == pytest.approx(2e-6)
    assert [(r.id, r.recipe, r.epsilon, r.delta, r.charged, r.planned) for r in releases] == [
        (first, "labeltree", 1.0, 1e-6, 2, 4),
        (second, "labeltree", 2.0, 1e-6, 1, 4),
    ]
    assert [(c.entry, c.line, c.number, c.times, c.event, c.epsilon) for c in charges] == [
        (5, "step", 1, 1, EVENT, 3.0),
        (7, "step", 2, 1, EVENT, 3.0),
    ]
    for stamp in (dataset.created, releases[0].created, charges[0].created):
        assert abs((datetime.fromisoformat(stamp) - before).total_seconds()) < 60


def test_a_charge_is_in_the_file_when_the_call_returns(tmp_path, monkeypatch):
    """The line is synced before the number of entries is raised, and that is synced before the call returns."""
    acts, pwrite, fsync = [], os.pwrite, os.fsync
    with Ledger(tmp_path / "l.db", create=True) as ledger:
        ledger.register("d", rows_of("d"))
        release = reserve(ledger)
        monkeypatch.setattr(os, "pwrite", lambda *given: (acts.append(bool(given[2])), pwrite(*given))[1])
        monkeypatch.setattr(os, "fsync", lambda descriptor: (acts.append("synced"), fsync(descriptor))[1])
        for made in range(1, 4):
            acts.clear()
            ledger.charge(release, "step")
            assert acts == [True, "synced", False, "synced"]
            stored = (tmp_path / "l.db").read_bytes()
            assert stored.startswith(log.header(made + 3))
            assert stored[log.PAGE :].count(b"\n") == made + 3
            assert os.listdir(tmp_path) == ["l.db"], "no file beside it that a charge could be lost with"


def test_a_line_is_charged_as_often_as_reserved_and_no_more(ledger):
    release = reserve(ledger)
    for _ in range(3):
        ledger.charge(release, "step")
    with pytest.raises(InternalError, match="3 of 3 times, asked for 1 more"):
        ledger.charge(release, "step")
    with pytest.raises(InternalError, match="no line 'other'"):
        ledger.charge(release, "other")
    with pytest.raises(InternalError, match="no line 'step'"):
        ledger.charge("feedfeedfeedfeed", "step")
    assert [row.line for row in ledger.charges(release)] == ["step"] * 3


@pytest.mark.parametrize("lines", [[("a", EVENT, 1), ("a", EVENT, 1)], [("a", EVENT, 0)]])
def test_a_malformed_plan_is_a_bug_and_reserves_nothing(ledger, lines):
    with pytest.raises(InternalError):
        ledger.reserve("d", epsilon=1.0, delta=0.0, lines=lines)
    assert ledger.releases() == []


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 0.0), (-1.0, 0.0), (math.nan, 0.0), (1, -0.1), (1, 1.1), (1, math.nan)]
)
def test_a_negative_or_missing_price_is_refused(ledger, epsilon, delta):
    with pytest.raises(SettingError, match="epsilon"):
        ledger.reserve("d", epsilon=epsilon, delta=delta, lines=PLAN)
    assert ledger.releases() == []


def test_many_looks_are_charged_at_once_as_one_entry(tmp_path):
    with Ledger(tmp_path / "l.db", create=True) as ledger:
        ledger.register("d", rows_of("d"))
        release = ledger.reserve("d", epsilon=1.0, delta=0.0, lines=[("step", EVENT, 5000)])
        before = ledger.head.entries
        ledger.charge(release, "step", times=4998)
        ledger.charge(release, "step")
        assert ledger.head.entries == before + 2
        with pytest.raises(InternalError, match="4999 of 5000 times, asked for 2 more"):
            ledger.charge(release, "step", times=2)
        for times in (0, -1):
            with pytest.raises(InternalError, match="at least once"):
                ledger.charge(release, "step", times=times)
    with Ledger(tmp_path / "l.db") as ledger:
        assert [(row.number, row.times) for row in ledger.charges(release)] == [(4998, 4998), (4999, 1)]
        assert [(row.charged, row.planned) for row in ledger.releases()] == [(4999, 5000)]
        ledger.charge(release, "step")


# --- names, fingerprints, caps -----------------------------------------------------------------------------


def test_the_same_rows_under_another_name_are_noticed(tmp_path):
    filled(tmp_path / "l.db")
    with Ledger(tmp_path / "l.db") as ledger:
        with pytest.raises(LedgerError, match=r"under the name 'd'; use that name with --dataset$"):
            ledger.register("e", rows_of("d"))
        assert [row.name for row in ledger.datasets()] == ["d"]


def test_a_table_that_grew_keeps_its_name_and_every_fingerprint(ledger):
    ledger.register("d", rows_of("grown"))
    for rows in ("d", "grown"):
        ledger.register("d", rows_of(rows))
        with pytest.raises(LedgerError, match="'d'"):
            ledger.register("e", rows_of(rows))


def test_the_fingerprint_key_is_random_secret_and_kept(tmp_path):
    seen = []
    for name in ("a.db", "a.db", "b.db"):
        with Ledger(tmp_path / name, create=True) as ledger:
            ledger.register("d", lambda key: seen.append(key) or "rows")
            assert seen[-1].hex() not in repr(ledger)
    assert [len(key) for key in seen] == [32, 32, 32]
    assert seen[0] == seen[1] != seen[2]
    assert (tmp_path / "a.db").stat().st_mode & 0o077 == 0


def test_a_failing_fingerprint_enters_nothing(ledger):
    def fail(key):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ledger.register("e", fail)
    assert [row.name for row in ledger.datasets()] == ["d"]


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "a\x00", "\x1b[31m", "\ud800", "x" * 201])
def test_a_name_that_does_not_fit_a_line_is_refused(ledger, name):
    with pytest.raises(SettingError) as caught:
        ledger.register(name, rows_of("x"))
    assert str(caught.value).isprintable()
    assert len(ledger.datasets()) == 1


def test_a_long_or_foreign_name_is_fine(ledger):
    for name in ("x" * 200, "Klinik Süd, Patienten 2024", "'; DROP TABLE releases; --"):
        ledger.register(name, rows_of(name), cap=1.0)
        reserve(ledger, dataset=name)
        assert spent(ledger, name) == 1.0


def test_an_unregistered_dataset_is_a_bug(ledger):
    with pytest.raises(InternalError, match="registered"):
        reserve(ledger, dataset="e")


@pytest.mark.parametrize("cap", [0.0, -1.0, math.inf, math.nan])
def test_a_cap_must_be_finite_and_positive(ledger, cap):
    with pytest.raises(SettingError, match="cap"):
        ledger.register("d", rows_of("d"), cap=cap)
    assert ledger.datasets()[0].cap is None


def test_a_cap_can_be_set_and_lowered_never_raised(ledger):
    caps = []
    for cap in (None, 5.0, None, 5.0, 3.0):
        ledger.register("d", rows_of("d"), cap=cap)
        caps.append(ledger.datasets()[0].cap)
    assert caps == [None, 5.0, 5.0, 5.0, 3.0]
    with pytest.raises(LedgerError, match="at 3, asked for 4; a cap can only be lowered"):
        ledger.register("d", rows_of("more"), cap=4.0)
    assert ledger.datasets()[0].cap == 3.0
    ledger.register("e", rows_of("more"))  # the refusal above did not keep the fingerprint either


def test_a_refusal_says_requested_spent_left_and_reserves_nothing(ledger):
    ledger.register("d", rows_of("d"), cap=2.0)
    reserve(ledger, 1.5)
    with pytest.raises(BudgetRefused, match=r"requested epsilon 1, spent 1\.5 of 2, left 0\.5; ask for") as caught:
        reserve(ledger, 1.0)
    assert (caught.value.requested, caught.value.spent, caught.value.left) == (1.0, 1.5, 0.5)
    assert len(ledger.releases()) == 1
    reserve(ledger, 0.5)
    with pytest.raises(BudgetRefused, match="no release from it can follow"):
        reserve(ledger, 0.1)


def test_rounding_refuses_nothing_that_fits_and_not_a_hair_more_is_passed(ledger):
    assert 0.1 + 0.2 > 0.3
    ledger.register("d", rows_of("d"), cap=0.3)
    reserve(ledger, 0.1)
    reserve(ledger, 0.2)
    with pytest.raises(BudgetRefused):
        reserve(ledger, 1e-8)


def test_caps_are_per_dataset(ledger):
    ledger.register("d", rows_of("d"), cap=1.0)
    ledger.register("e", rows_of("e"), cap=1.0)
    reserve(ledger, dataset="d")
    reserve(ledger, dataset="e")
    assert (spent(ledger, "d"), spent(ledger, "e")) == (1.0, 1.0)


def test_rows_handed_out_need_a_dataset_without_a_cap_and_end_it(ledger):
    ledger.register("capped", rows_of("e"), cap=5.0)
    with pytest.raises(BudgetRefused):
        reserve(ledger, math.inf, dataset="capped")
    ledger.charge(reserve(ledger, math.inf), "count")
    reserve(ledger, 1.0)
    assert spent(ledger) == math.inf
    assert ledger.charges(ledger.releases("d")[0].id)[0].epsilon == math.inf
    ledger.register("d", rows_of("d"), cap=100.0)
    with pytest.raises(BudgetRefused, match="left 0"):
        reserve(ledger, 0.1)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("reserve"), st.floats(1e-6, 3.0)),
            st.tuples(st.just("cap"), st.floats(1e-3, 6.0)),
        ),
        max_size=25,
    )
)
def test_reservations_never_pass_the_cap_whatever_is_asked(requests):
    cap, total = 5.0, 0.0
    with Ledger() as ledger:
        ledger.register("d", rows_of("d"), cap=cap)
        for act, value in requests:
            if act == "cap":
                if value > cap:
                    with pytest.raises(LedgerError):
                        ledger.register("d", rows_of("d"), cap=value)
                else:
                    ledger.register("d", rows_of("d"), cap=value)
                    cap = value
            else:
                try:
                    reserve(ledger, value)
                except BudgetRefused:
                    assert total + value > cap
                else:
                    total += value
                    assert total <= cap * (1 + 2e-9)
            assert spent(ledger) == pytest.approx(total)


# --- processes, threads, crashes ---------------------------------------------------------------------------

RACER = """
import sys
from threea.ledger import Ledger
from threea.errors import BudgetRefused
print("ready", flush=True)
sys.stdin.readline()
with Ledger(sys.argv[1], create=True) as ledger:
    print("new" if ledger.new else "known", end=" ")
    ledger.register("d", lambda key: "rows", cap=5.0)
    try:
        release = ledger.reserve("d", epsilon=1.0, delta=0.0, lines=[("a", {}, 1)])
        ledger.charge(release, "a")
        print("passed")
    except BudgetRefused:
        print("refused")
"""


def test_twenty_racing_processes_never_overspend(tmp_path):
    """All twenty make, register and reserve at once, on a file that did not exist."""
    command = [sys.executable, "-c", RACER, str(tmp_path / "l.db")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    racers = [subprocess.Popen(command, env=environment, text=True, **pipes) for _ in range(20)]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    ends = [racer.communicate(timeout=120) for racer in racers]
    assert [errors for _, errors in ends] == [""] * 20
    assert sorted(said.split()[1] for said, _ in ends) == ["passed"] * 5 + ["refused"] * 15
    assert sorted(said.split()[0] for said, _ in ends) == ["known"] * 19 + ["new"], "one of them made it"
    with Ledger(tmp_path / "l.db") as ledger:
        assert spent(ledger) == 5.0
        assert [row.charged for row in ledger.releases()] == [1] * 5


def test_threads_may_share_a_ledger(tmp_path):
    ends = []

    def ask():
        for _ in range(5):
            try:
                reserve(ledger)
                ends.append("passed")
            except BudgetRefused:
                ends.append("refused")

    with Ledger(tmp_path / "l.db", create=True) as ledger:
        ledger.register("d", rows_of("d"), cap=10.0)
        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert spent(ledger) == 10.0
    assert sorted(ends) == ["passed"] * 10 + ["refused"] * 30


FORK = """
import os, sys
from threea.ledger import Ledger
from threea.errors import LedgerError
def reserve(ledger): return ledger.reserve("d", epsilon=1.0, delta=0.0, lines=[])
memory, ledger = Ledger(), Ledger(sys.argv[1], create=True)
for one in (memory, ledger):
    one.register("d", lambda key: "rows")
reserve(ledger)
ready, closed = os.pipe(), os.pipe()
if os.fork() == 0:
    try:
        reserve(memory)
    except LedgerError as error:
        assert "belongs to the process" in str(error)
        reserve(ledger)
    os.write(ready[1], b".")
    os.read(closed[0], 1)
    reserve(ledger)
    os._exit(0)
os.read(ready[0], 1)
ledger.close()
os.write(closed[1], b".")
assert os.wait()[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_loses_nothing_when_its_parent_closes(tmp_path):
    """An inherited connection holds no locks, so none may be open when a process forks."""
    run(FORK, tmp_path / "l.db")
    with Ledger(tmp_path / "l.db") as ledger:
        assert spent(ledger) == 3.0


def _spend(path, log):
    acknowledged = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    ledger = Ledger(path, create=True)
    ledger.register("d", lambda key: "rows")
    while True:
        release = ledger.reserve("d", epsilon=1.0, delta=0.0, lines=[("step", EVENT, 4)])
        os.write(acknowledged, f"reserved {release}\n".encode())
        for _ in range(4):
            ledger.charge(release, "step")
            os.write(acknowledged, f"charged {release}\n".encode())


def _check_after_kill(path, log, spent_before, kills):
    """Check that all acknowledged acts are there, and beyond them at most the one each kill cut short."""
    with Ledger(path, create=True) as ledger:
        rows = ledger.releases()
        total = sum(row.spent for row in ledger.datasets())
    acts = log.read_text().splitlines() if log.exists() else []
    made = [f"reserved {row.id}" for row in rows] + [f"charged {row.id}" for row in rows for _ in range(row.charged)]
    assert Counter(acts) <= Counter(made)
    assert len(made) <= len(acts) + kills
    assert total == len(rows) >= spent_before
    return total, len(acts)


def _await(log, acts):
    """Wait until so many more acts were acknowledged, however fast the disk is."""
    wanted = acts + (len(log.read_text().splitlines()) if log.exists() else 0)
    while acts and (not log.exists() or len(log.read_text().splitlines()) < wanted):
        time.sleep(0.001)


def _storm(folder, report):
    """Kill sixty spenders at random points; a fresh ledger every tenth, so that some die while making it."""
    chance, acknowledged, total = random.Random(20240607), 0, 0
    try:
        for kill in range(60):
            path, log = folder / f"{kill // 10}.db", folder / f"{kill // 10}.log"
            total = total if kill % 10 else 0
            child = os.fork()
            if child == 0:
                _spend(path, log)
            _await(log, chance.randrange(8) if kill % 10 else 0)
            time.sleep(chance.uniform(0.0, 0.02))
            os.kill(child, signal.SIGKILL)
            assert os.waitpid(child, 0)[1] == signal.SIGKILL
            total, acts = _check_after_kill(path, log, total, kill % 10 + 1)
            acknowledged += acts if kill % 10 == 9 else 0
        report.write_text(f"60 {acknowledged}")
    except BaseException:
        report.write_text(traceback.format_exc())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_killed_process_never_loses_or_refunds_what_was_acknowledged(tmp_path):
    # A fresh process forks the spenders, for a test runner has threads that a fork would cut.
    process = multiprocessing.get_context("spawn").Process(target=_storm, args=(tmp_path, tmp_path / "report"))
    process.start()
    process.join(100)
    assert process.exitcode == 0
    report = (tmp_path / "report").read_text()
    assert report.startswith("60 "), report
    assert int(report.split()[1]) > 100, "the kills must fall amid work, not before it"


# --- files -------------------------------------------------------------------------------------------------


def test_a_ledger_reopens_with_everything_in_it(tmp_path):
    filled(tmp_path / "l.db")
    with Ledger(str(tmp_path / "l.db")) as ledger:
        assert spent(ledger) == 3.0
        assert ledger.datasets()[0].cap == 10.0
    assert os.listdir(tmp_path) == ["l.db"]


def test_a_ledger_of_a_newer_threea_is_refused_and_left_alone(tmp_path):
    newer = pytest.raises(LedgerError, match="newer")
    with Ledger(filled(tmp_path / "l.db")) as ledger, newer, ledger.transaction():
        ledger.write({"kind": "delta cap", "dataset": "d"})
    content = (tmp_path / "l.db").read_bytes()
    assert "was written to by a newer threea; upgrade" in refusal(tmp_path / "l.db")
    assert (tmp_path / "l.db").read_bytes() == content


def test_a_ledger_of_another_version_is_refused(tmp_path):
    stored = filled(tmp_path / "l.db").read_bytes()
    (tmp_path / "l.db").write_bytes(stored.replace(b"ledger 2", b"ledger 3", 1))
    assert "is damaged, or was made by another version of threea; " in refusal(tmp_path / "l.db")


@pytest.mark.parametrize("size", [5, 100, 4096, 100_000])
def test_random_bytes_are_not_a_ledger(tmp_path, size):
    content = random.Random(size).randbytes(size)
    (tmp_path / "l.db").write_bytes(content)
    message = refusal(tmp_path / "l.db")
    assert message.startswith(f"ledger {tmp_path / 'l.db'} is not a threea ledger; ")
    assert (tmp_path / "l.db").read_bytes() == content


def test_another_programs_database_is_refused_and_left_alone(tmp_path):
    connection = sqlite3.connect(tmp_path / "l.db")
    connection.execute("CREATE TABLE releases (x)")
    connection.close()
    content = (tmp_path / "l.db").read_bytes()
    assert "is not a threea ledger" in refusal(tmp_path / "l.db")
    assert (tmp_path / "l.db").read_bytes() == content


def test_a_folder_a_device_or_a_missing_folder_is_refused(tmp_path):
    assert "is a folder; give the path of a file" in refusal(tmp_path)
    assert "is a folder" in refusal("")
    assert "its folder does not exist; make" in refusal(tmp_path / "missing" / "l.db")
    filled(tmp_path / "l.db")
    assert "its folder does not exist; make" in refusal(tmp_path / "l.db" / "l.db")
    assert "not a regular file" in refusal("/dev/null")
    assert "cannot be made" in refusal("a\0b")
    assert "cannot be made" in refusal(tmp_path / ("x" * 300))
    assert "'a\\nb" in refusal("a\nb/l.db")
    assert os.listdir(tmp_path) == ["l.db"]


UNPRIVILEGED = """
import os, sys
from threea.ledger import Ledger
from threea.errors import LedgerError
if os.geteuid() == 0:
    os.setgid(65534); os.setuid(65534)
for path in sys.argv[1:]:
    try:
        Ledger(path, create=True)
        print("opened")
    except LedgerError as error:
        print(error)
"""


@pytest.mark.skipif(not hasattr(os, "setuid"), reason="no permissions of this kind on this system")
def test_a_read_only_ledger_is_refused_at_opening_and_a_read_only_folder_is_not():
    """As an unprivileged user, for permissions do not bind root."""
    folder = Path(tempfile.mkdtemp())
    try:
        filled(folder / "read-only.db").chmod(0o444)
        filled(folder / "boxed-in.db").chmod(0o666)
        folder.chmod(0o555)
        paths = [folder / name for name in ("read-only.db", "boxed-in.db", "new.db")]
        first, second, third = run(UNPRIVILEGED, *paths).stdout.splitlines()
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)
    assert first == f"ledger {paths[0]} {module._READ_ONLY}"
    assert second == "opened", "nothing but the file is written to"
    assert third == f"ledger {paths[2]} cannot be made (Permission denied); give another path"


def test_a_file_the_system_says_is_read_only_is_refused(tmp_path, monkeypatch):
    filled(tmp_path / "l.db")
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    assert "cannot be written; make the file writable" in refusal(tmp_path / "l.db")


def test_a_ledger_locked_for_too_long_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(log, "BUSY_SECONDS", 0.2)
    with log.locked(filled(tmp_path / "l.db"), writing=True):
        assert "was locked by another process" in refusal(tmp_path / "l.db")


# --- the object --------------------------------------------------------------------------------------------


def test_pickling_reopens_the_file_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with Ledger("l.db", create=True) as ledger:
        ledger.register("d", rows_of("d"))
        reserve(ledger)
        assert (ledger.path, repr(ledger)) == ("l.db", "Ledger(l.db)")
        monkeypatch.chdir(tmp_path / "elsewhere")
        with pickle.loads(pickle.dumps(ledger)) as copy:
            reserve(copy)
        assert spent(ledger) == 2.0


def test_a_ledger_in_memory_cannot_be_pickled(ledger):
    with pytest.raises(TypeError, match="in memory belongs to one process"):
        pickle.dumps(ledger)
    assert repr(ledger) == "Ledger(in memory)"


def test_a_closed_ledger_cannot_be_used(tmp_path):
    ledger = Ledger(tmp_path / "l.db", create=True)
    ledger.close()
    ledger.close()
    with pytest.raises(InternalError, match="closed"):
        ledger.datasets()


def test_the_ledger_itself_needs_only_the_standard_library():
    script = "import sys; old = {*sys.modules}; import threea.ledger; print(*{*sys.modules} - old)"
    tops = {name.split(".")[0] for name in run(script).stdout.split()}
    assert "sqlite3" not in tops
    assert tops - set(sys.stdlib_module_names) == {"threea"}


def test_an_id_is_reserved_once():
    ledger = Ledger()
    ledger.register("d", lambda key: "rows")
    plan = {"epsilon": 1.0, "delta": 0.0, "lines": [("step", {}, 1)], "release": "a" * 16}
    assert ledger.reserve("d", **plan) == "a" * 16
    with pytest.raises(InternalError, match="is reserved already"):
        ledger.reserve("d", **plan)
    assert [(row.id, row.epsilon) for row in ledger.releases()] == [("a" * 16, 1.0)]
