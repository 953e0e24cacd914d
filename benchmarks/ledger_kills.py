"""What SIGKILL leaves of a ledger that is reached by several paths: all that was acknowledged, by each of them.

Processes spend through the file's own name, through a hard link in another folder (of a name with a line break), and
through a bind mount of the file alone, one or two at a time, each by a clock that runs backwards, until they are
killed: right before or after an act that can reach the disk, or at random.
Then the ledger is opened by another path, must be whole and hold every act that was acknowledged, and goes on.
"""

import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from threea.ledger import Ledger, file

KILLS, SEED, KILLS_OF_A_LEDGER = 10_000, 20261120, 25
ACTS = {"close", "flock", "fsync", "ftruncate", "open", "pwrite"}
MOST_ACTS = 120
NAMES = ("its own name", "a hard link", "a bind mount")


class Forgotten(AssertionError):
    """An act that was acknowledged is not in the ledger."""


def run(kills: int, seed: int, folder: Path, done: Path | None = None) -> dict[str, Any]:
    """Kill so many processes that spend; return what was seen.

    Args:
        kills: How many.
        seed: Of the chances; each ledger has its own.
        folder: Where the ledgers are made.
        done: A file for what was seen with each ledger, from which a run that broke off goes on.

    Raises:
        Forgotten: Something acknowledged was missing after a kill.
        LedgerError: A kill left a ledger that cannot be opened.
    """
    earlier = [json.loads(line) for line in done.read_text().splitlines()] if done and done.exists() else []
    seen, skipped = Counter[str](), ""
    for number, start in enumerate(range(0, kills, KILLS_OF_A_LEDGER)):
        if number < len(earlier):
            skipped, ledger_seen = earlier[number]
        else:
            with _ledger(Path(tempfile.mkdtemp(dir=folder))) as (paths, skipped):
                chance = random.Random(f"{seed} {number}")
                ledger_seen = _stricken(paths, min(kills - start, KILLS_OF_A_LEDGER), chance)
            if done:
                with done.open("a") as file_of_done:
                    file_of_done.write(json.dumps([skipped, ledger_seen]) + "\n")
        seen.update(ledger_seen)
    if done:
        done.unlink(missing_ok=True)
    return {"forgotten": 0, "bind_mounts_skipped": skipped, **dict(sorted(seen.items()))}


@contextmanager
def _ledger(home: Path) -> Iterator[tuple[dict[str, Path], str]]:
    """Make a ledger and paths that lead to it; also say why there is no bind mount, if there is none."""
    own, linked, bound = home / "ledger.db", home / "elsewhere" / "lin\nked.db", home / "bound.db"
    with Ledger(own, create=True) as ledger:
        ledger.register("d", lambda key: "rows")
    linked.parent.mkdir()
    os.link(own, linked)
    bound.touch()
    paths, why = {NAMES[0]: own, NAMES[1]: linked}, _mounted(own, bound)
    try:
        yield paths if why else {**paths, NAMES[2]: bound}, why
    finally:
        if not why:
            subprocess.run(["umount", bound], check=True)
        shutil.rmtree(home)


def _mounted(own: Path, bound: Path) -> str:
    """Mount the file alone under another name; return why that cannot be done here, if it cannot."""
    try:
        done = subprocess.run(["mount", "--bind", own, bound], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "there is no command mount"
    return "the system does not let this user mount" if done.returncode else ""


def _stricken(paths: dict[str, Path], kills: int, chance: random.Random) -> Counter[str]:
    seen, acts = Counter[str](), paths[NAMES[0]].with_name("acknowledged")
    acts.touch()
    while seen["kills"] < kills:
        spenders = chance.sample(list(paths), min(chance.choice([1, 1, 2]), kills - seen["kills"]))
        # A process kills itself at an act, or, for 0, is killed by the clock.
        planned = [chance.randrange(1, MOST_ACTS) if chance.random() < 0.6 else 0 for _ in spenders]
        processes = [_spender(paths[name], acts, act) for name, act in zip(spenders, planned, strict=True)]
        for process, act in zip(processes, planned, strict=True):
            if not act:
                _await(acts, chance.randrange(4))
                time.sleep(chance.uniform(0, 0.01))
                os.kill(process, signal.SIGKILL)
            if os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) != -signal.SIGKILL:
                raise AssertionError("a process ended before it was killed")
        after = chance.choice([name for name in paths if name != spenders[0]])
        seen["kills"] += len(spenders)
        seen["kills of two that raced"] += 2 * (len(spenders) == 2)
        for name in spenders:
            seen[f"killed while spending through {name}"] += 1
        seen[f"opened next through {after}"] += 1
        _check(paths[after], acts, seen["kills"])
        _check(paths[spenders[0]], acts, seen["kills"])
    seen["acts acknowledged"] = len(acts.read_text().splitlines())
    return seen


def _spender(path: Path, acts: Path, last: int) -> int:
    """Begin a process that spends for ever, and tells of each act once it is acknowledged; return its id."""
    process = os.fork()
    if process:
        return process
    try:
        told = os.open(acts, os.O_WRONLY | os.O_APPEND)
        # Each process has a clock of its own, which runs backwards.
        years = itertools.count(9999 - os.getpid() % 100, -1)
        file.now = lambda: f"{max(next(years), 1):04}-01-01T00:00:00.000+00:00"
        if last:
            sys.setprofile(_Killer(last))
        ledger = Ledger(path)
        while True:
            release = ledger.reserve("d", epsilon=1.0, delta=0.0, lines=[("step", {}, 3)])
            os.write(told, f"reserved {release}\n".encode())
            for _ in range(3):
                ledger.charge(release, "step")
                os.write(told, f"charged {release}\n".encode())
    finally:
        os._exit(1)


class _Killer:
    """Counts where acts begin and end, and kills the process at one of these moments."""

    def __init__(self, last: int) -> None:
        self._left = last

    def __call__(self, frame: FrameType, event: str, function: Any) -> None:
        if event in ("c_call", "c_return") and function.__name__ in ACTS:
            self._left -= 1
            if not self._left:
                os.kill(os.getpid(), signal.SIGKILL)


def _await(acts: Path, more: int) -> None:
    """Wait until so many more acts are acknowledged, however fast the disk is."""
    wanted = acts.read_bytes().count(b"\n") + more
    while acts.read_bytes().count(b"\n") < wanted:
        time.sleep(0.001)


def _check(path: Path, acts: Path, kills: int) -> None:
    """Check that all acknowledged acts are there, and beyond them at most one for each kill; then spend on."""
    told = Counter(acts.read_text().splitlines())
    with Ledger(path) as ledger:
        rows = ledger.releases()
        made = Counter({f"charged {row.id}": row.charged for row in rows} | {f"reserved {row.id}": 1 for row in rows})
        if told - made:
            raise Forgotten(f"{(told - made).total()} acts, by {path.name}")
        if (made - told).total() > kills or ledger.datasets()[0].spent != len(rows):
            raise AssertionError("more in the ledger than the kills explain")
        release = ledger.reserve("d", epsilon=1.0, delta=0.0, lines=[("step", {}, 3)])
    with acts.open("a") as told_of:
        told_of.write(f"reserved {release}\n")


if __name__ == "__main__":
    # Kills as often as the command line says: `python -m benchmarks.ledger_kills 500`. The whole of it is a part of the
    # benchmark ledger_faults.
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None  # a disk's syncs would be most of the time
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        print(run(int(sys.argv[1]) if sys.argv[1:] else KILLS, SEED, Path(folder)))
