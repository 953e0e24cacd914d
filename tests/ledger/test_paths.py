"""A ledger reached by two paths is one ledger: nothing is forgotten, overspent or read as it was before."""

import ast
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import threea
from threea.errors import BudgetRefused
from threea.ledger import Ledger

SOURCE = Path(threea.__file__).parents[1]


@pytest.fixture
def paths(tmp_path):
    """Make a ledger with a cap of 5, and a hard link to it in another folder."""
    own, linked = tmp_path / "ledger.db", tmp_path / "elsewhere" / "linked.db"
    with Ledger(own, create=True) as ledger:
        ledger.register("d", lambda key: "rows", cap=5.0)
    linked.parent.mkdir()
    os.link(own, linked)
    return own, linked


def reserve(ledger, epsilon=1.0):
    return ledger.reserve("d", epsilon=epsilon, delta=0.0, lines=[("step", {}, 3)])


def test_two_paths_show_and_cap_the_same_spending(paths):
    with Ledger(paths[0]) as one, Ledger(paths[1]) as other:
        for book in (one, other, one, other, one):
            book.charge(reserve(book), "step")
        for book in (one, other):
            with pytest.raises(BudgetRefused, match="spent 5 of 5"):
                reserve(book)
        assert one.releases() == other.releases()
        assert one.head == other.head
    assert sorted(os.listdir(paths[0].parent)) == ["elsewhere", "ledger.db"]
    assert os.listdir(paths[1].parent) == ["linked.db"]


def test_processes_killed_over_two_paths_forget_nothing(tmp_path):
    """`python -m benchmarks ledger_faults` kills 10,000 times. A ledger in SQLite forgot within 20 kills or so."""
    code = "import pathlib, sys; from benchmarks import ledger_kills as kills;"
    code += "print(kills.run(60, 7, pathlib.Path(sys.argv[1])))"
    # In a process of its own, for one with threads must not be forked.
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    seen = ast.literal_eval(done.stdout)
    assert (seen["kills"], seen["forgotten"]) == (60, 0)
    assert seen["acts acknowledged"] > 60, "the kills must fall amid work, not before it"
    assert seen["kills of two that raced"] > 0
    assert seen["killed while spending through a hard link"] > 0


RACER = """
import sys
from threea.errors import BudgetRefused
from threea.ledger import Ledger
print("ready", flush=True)
sys.stdin.readline()
passed = 0
with Ledger(sys.argv[1]) as ledger:
    for _ in range(10):
        try:
            ledger.charge(ledger.reserve("d", epsilon=0.25, delta=0.0, lines=[("a", {}, 1)]), "a")
            passed += 1
        except BudgetRefused:
            pass
print(passed)
"""


def test_processes_that_race_over_two_paths_never_overspend(paths):
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    racers = [
        subprocess.Popen([sys.executable, "-c", RACER, paths[number % 2]], env=environment, text=True, **pipes)
        for number in range(6)
    ]
    for racer in racers:
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    ends = [racer.communicate(timeout=120) for racer in racers]
    assert [errors for _, errors in ends] == [""] * 6
    assert sum(int(said) for said, _ in ends) == 20, "6 times 10 asked for 0.25 each, of a cap of 5"
    for path in paths:
        with Ledger(path, reading=True) as ledger:
            assert ledger.datasets()[0].spent == 5.0


@pytest.mark.parametrize("name", ["led\nger.db", "led\x1b[31mger.db", "ledger\u202e.db", b"led\xffger.db", " "])
def test_a_file_of_a_strange_name_is_a_ledger_like_others(tmp_path, name):
    path = os.path.join(os.fsencode(tmp_path) if isinstance(name, bytes) else tmp_path, name)
    path = os.fsdecode(path)
    with Ledger(path, create=True) as ledger:
        ledger.register("d", lambda key: "rows", cap=1.0)
        reserve(ledger)
        with pytest.raises(BudgetRefused) as refused:
            reserve(ledger)
    assert str(refused.value).isprintable()
    assert ledger.path.isprintable()
    with Ledger(path) as ledger:
        assert ledger.datasets()[0].spent == 1.0


UNPRIVILEGED = """
import os, sys
from threea.ledger import Ledger
if os.geteuid() == 0:
    os.setgid(65534); os.setuid(65534)
assert not os.access(os.environ["HOME"], os.W_OK) and not os.access(".", os.W_OK)
with Ledger(sys.argv[1]) as ledger:
    ledger.charge(ledger.reserve("d", epsilon=1.0, delta=0.0, lines=[("step", {}, 3)]), "step")
with Ledger(sys.argv[2], reading=True) as ledger:
    ledger.check()
    print(ledger.datasets()[0].spent, len(ledger.releases()))
"""


@pytest.mark.skipif(not hasattr(os, "setuid"), reason="no permissions of this kind on this system")
def test_a_home_without_write_access_is_no_hindrance_and_looking_needs_none_at_all():
    """As an unprivileged user, for permissions do not bind root: nothing but the ledger itself is written to."""
    folder = Path(tempfile.mkdtemp())
    try:
        for name in ("writable.db", "read-only.db"):
            with Ledger(folder / name, create=True) as ledger:
                ledger.register("d", lambda key: "rows")
                reserve(ledger)
        (folder / "writable.db").chmod(0o666)
        (folder / "read-only.db").chmod(0o444)
        folder.chmod(0o555)
        environment = {"PYTHONPATH": str(SOURCE), "HOME": str(folder), "TMPDIR": str(folder)}
        command = [sys.executable, "-c", UNPRIVILEGED, folder / "writable.db", folder / "read-only.db"]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
        assert (done.stdout, done.stderr) == ("1.0 1\n", "")
        with Ledger(folder / "writable.db", reading=True) as ledger:
            assert ledger.datasets()[0].spent == 2.0
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_a_ledger_is_one_file_whatever_happens_to_it(paths):
    before = sorted(os.listdir(paths[0].parent))
    with Ledger(paths[0]) as ledger:
        release = reserve(ledger)
        with ledger.transaction():
            assert sorted(os.listdir(paths[0].parent)) == before
        ledger.charge(release, "step")
        ledger.check()
    assert sorted(os.listdir(paths[0].parent)) == before
