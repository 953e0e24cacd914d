"""What SIGKILL leaves of a release: no charge forgotten, a folder that is whole or not there, and a resumption.

The real command runs in a process forked from one that has loaded everything. Some kills fall right before or after
an act of the process that can reach the disk, the others at random moments of a run. Then the same command goes on with
`--resume`, half of the time killed again: what it writes must be what an uninterrupted run writes, whose noise is made
to repeat itself, and the ledger must hold one charge for every question, as if nothing had happened.
"""

import contextlib
import io
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow.parquet as pq

from benchmarks.record import record
from threea import cli, hospital, place, publish
from threea.anonymize import open_table
from threea.anonymize.unfinished import home_of
from threea.ledger import Ledger
from threea.parts import check_parts
from threea.testing.noise import RepeatedNoise

KILLS, ROWS, SEED, RECIPE = 1000, 200, 20261116, "privbayes"
ACTS = {
    "close", "flock", "fsync", "ftruncate", "link", "mkdir", "open", "pwrite", "rename", "rmdir", "unlink", "write",
}  # fmt: skip
FILES = {"certificate.json", "model.threea", "report.html", "schema.toml", "synthetic.parquet"}
PHASES = ("opening", "place claimed", "reserved", "charged", "writing", "moving", "published")


def prepare(folder: Path) -> None:
    """Write a small table and its schema, and load all that a release needs."""
    pq.write_table(hospital.stays(ROWS), folder / "table.parquet")
    (folder / "schema.toml").write_text(hospital.schema().to_toml())
    Ledger(folder / "first.db", create=True).close()
    with contextlib.redirect_stdout(io.StringIO()):
        assert _release(folder, folder / "load.db", folder / "load") == 0
    assert _run(folder, folder / "first.db", folder / "first")[0] == 0


def _release(folder: Path, ledger: Path, out: Path, *more: str) -> int:
    """Run the command in this process; return its exit code."""
    described = ["--schema", folder / "schema.toml", "--recipe", RECIPE, "--epsilon", 1, "--rows", 20_000, "--seed", 1]
    where = ["--ledger", ledger, "--dataset", "stays", "--out", out, *more]
    sys.argv = [str(word) for word in ("threea", "release", folder / "table.parquet", *described, *where)]
    try:
        cli.main()
    except SystemExit as end:
        return int(end.code or 0)
    raise AssertionError("the command must end in an exit code")


def _run(
    folder: Path, ledger: Path, out: Path, *more: str, act: int | None = None, delay: float | None = None
) -> tuple[int, list[str], int]:
    """Release the table in a forked process; kill it at an act (0: count them) or after a delay.

    Returns:
        How it ended (minus the signal, if by one), what it had acknowledged, and at which act it ended.
    """
    reading, telling = os.pipe()
    process = os.fork()
    if not process:
        os.close(reading)
        _child(folder, ledger, out, more, telling, act)
    os.close(telling)
    if delay is not None:
        time.sleep(delay)
        os.kill(process, signal.SIGKILL)
    with os.fdopen(reading) as pipe:
        told = pipe.read().split("\n")[:-1]
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return code, told, int(told.pop().split()[1]) if told and told[-1].startswith("acts ") else 0


def _child(folder: Path, ledger: Path, out: Path, more: tuple[str, ...], telling: int, act: int | None) -> None:
    code = 1
    try:
        open_table.SecureNoise = RepeatedNoise  # type: ignore[misc,assignment]
        _tell_of(telling)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        counter = _Counter(act or 0)
        if act is not None:
            sys.setprofile(counter)
        code = _release(folder, ledger, out, *more)
        sys.setprofile(None)
        os.write(telling, f"acts {counter.acts}\n".encode())
    finally:
        os._exit(code)


class _Counter:
    """Counts where acts begin and end, and kills the process at one of these moments."""

    def __init__(self, last: int) -> None:
        self.acts, self._last = 0, last

    def __call__(self, frame: FrameType, event: str, function: Any) -> None:
        if event in ("c_call", "c_return") and function.__name__ in ACTS:
            self.acts += 1
            if self.acts == self._last:
                os.kill(os.getpid(), signal.SIGKILL)


def _tell_of(telling: int) -> None:
    """Have this process write down what it has done, once it is done: what is told is acknowledged."""

    def told(owner: Any, name: str, word: str, *, before: bool = False) -> None:
        real = getattr(owner, name)

        def act(*arguments: Any, **options: Any) -> Any:
            if before:
                os.write(telling, f"{word}\n".encode())
            done = real(*arguments, **options)
            if not before:
                os.write(telling, f"{word}\n".encode())
            return done

        setattr(owner, name, act)

    told(publish, "claim", "place claimed")
    told(Ledger, "reserve", "reserved")
    told(Ledger, "charge", "charged")
    told(place.Place, "file", "writing", before=True)
    told(place.Place, "publish", "moving", before=True)
    told(place.Place, "publish", "published")


def whole(out: Path) -> bool:
    """Whether a folder has a certificate; fails if the rest is not all there, as the certificate says."""
    if not (out / "certificate.json").exists():
        return False
    assert {path.name for path in out.iterdir()} - {path.name for path in staging(out)} == FILES
    certificate = json.loads((out / "certificate.json").read_text())
    assert check_parts(out, certificate) == len(FILES) - 1
    assert (out / "report.html").read_text().rstrip().endswith("</html>")
    return True


def staging(folder: Path) -> list[Path]:
    """Return the staging folders in a folder."""
    return list(folder.glob(f"{place.STAGING}*"))


def contents(out: Path) -> dict[str, Any]:
    """Return what is in a release, without what says when it was made and where its ledger stood."""
    certificate = json.loads((out / "certificate.json").read_text())
    for name in ("created", "ledger_head", "model_sha256", "report_sha256"):
        certificate.pop(name)
    files = {name: (out / name).read_bytes() for name in ("synthetic.parquet", "schema.toml")}
    return {**files, "certificate": certificate}


def strike(
    folder: Path, *, exists: bool, again: float | None, act: int | None = None, delay: float | None = None
) -> Counter[str] | None:
    """Kill one release and resume it; return what was seen, None if the first had ended before.

    Args:
        folder: Where the table is.
        exists: Whether the release goes into an empty folder that is there.
        again: After how many seconds the resumption is killed, too; None lets it end.
        act: At which act the release is killed.
        delay: Or after how many seconds.

    Raises:
        AssertionError: Something acknowledged was forgotten, something half-made was left, or resuming failed.
    """
    with tempfile.TemporaryDirectory(dir=folder) as home:
        return _struck(folder, Path(home), exists, again, act, delay)


def _struck(
    folder: Path, home: Path, exists: bool, again: float | None, act: int | None, delay: float | None
) -> Counter[str] | None:
    ledger, out = home / "ledger.db", home / "out"
    if exists:
        out.mkdir()
    Ledger(ledger, create=True).close()
    code, told, _ = _run(folder, ledger, out, act=act, delay=delay)
    if code != -signal.SIGKILL:
        assert code == 0
        return None
    spent, charged = _spent(ledger)
    assert spent >= told.count("reserved")
    assert charged >= told.count("charged")
    written = whole(out)
    assert written or "published" not in told
    assert exists or written or not out.exists()
    left = bool(staging(home) or staging(out))
    seen = Counter(
        {
            f"last acknowledged: {told[-1] if told else PHASES[0]}": 1,
            "kills": 1,
            "by acts" if delay is None else "by the clock": 1,
            "written": int(written),
            "charged, nothing written": int(spent > 0 and not written),
            "staging folders left by the kill": int(left),
        }
    )
    if not written and again is not None:
        code, _, _ = _run(folder, ledger, out, "--resume", delay=again)
        assert code in (0, 2, -signal.SIGKILL)
        assert _spent(ledger)[0] >= spent
        seen["resumptions killed"] += code == -signal.SIGKILL
    if not whole(out):
        code, _, _ = _run(folder, ledger, out, "--resume")
        seen["resumed"] += code == 0
        if code:
            # Nothing had been reserved, so there was nothing to resume.
            assert (code, _spent(ledger)[0]) == (2, 0.0)
            code, _, _ = _run(folder, ledger, out)
            assert code == 0, "the next release failed"
    assert whole(out)
    assert contents(out) == contents(folder / "first"), "a resumed release is another one"
    assert _spent(ledger) == _spent(folder / "first.db"), "a charge was lost, or made twice"
    # The next release there removes what a kill in its last moments left, and finds nothing that waits.
    code, _, _ = _run(folder, ledger, home / "next", "--resume")
    assert code == 2
    assert not home_of(ledger).exists()
    if again is None:
        code, _, _ = _run(folder, ledger, home / "next")
        assert code == 0, "the next release failed"
        assert whole(home / "next")
        assert not staging(home)
    return seen


def _spent(ledger: Path) -> tuple[float, int]:
    with Ledger(ledger) as book:
        rows = book.releases()
    return sum(row.epsilon for row in rows), sum(row.charged for row in rows)


def run(kills: int, seed: int, folder: Path) -> tuple[Counter[str], int]:
    """Kill so many releases, five of eight by acts; return what was seen, and how many moments by acts there are."""
    prepare(folder)
    rng, seen = random.Random(seed), Counter[str]()
    measured = {exists: _measured(folder, exists) for exists in (False, True)}
    moments = [(exists, act) for exists, (_, acts) in measured.items() for act in range(1, acts + 1)]
    for exists, act in rng.sample(moments, min(kills * 5 // 8, len(moments))):
        again = rng.uniform(0, measured[exists][0]) if rng.random() < 0.5 else None
        seen += strike(folder, exists=exists, again=again, act=act) or Counter()
    while seen["kills"] < kills:
        exists, delay = rng.random() < 0.5, rng.uniform(0, measured[False][0])
        again = rng.uniform(0, measured[exists][0]) if rng.random() < 0.5 else None
        seen += strike(folder, exists=exists, again=again, delay=delay) or Counter()
    return seen, len(moments)


def _measured(folder: Path, exists: bool) -> tuple[float, int]:
    """Return how long a release takes, and how many moments by acts it has."""
    found = []
    for act in (None, 0):
        with tempfile.TemporaryDirectory(dir=folder) as home:
            ledger, out = Path(home, "ledger.db"), Path(home, "out")
            if exists:
                out.mkdir()
            Ledger(ledger, create=True).close()
            start = time.perf_counter()
            code, _, acts = _run(folder, ledger, out, act=act)
            found.append((time.perf_counter() - start, acts))
            assert code == 0
    return found[0][0], found[1][1]


def main(kills: int = KILLS) -> None:
    """Kill so many times. One that breaks a promise ends the run with an error and no result."""
    start = time.perf_counter()
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None  # a disk's syncs would be most of the time
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        seen, moments = run(kills, SEED, Path(folder))
    settings = {"kills": kills, "seed": SEED, "rows": ROWS, "recipe": RECIPE, "moments_by_acts": moments}
    order = [f"last acknowledged: {phase}" for phase in PHASES]
    results = {
        "charges_forgotten": 0,
        "folders_half_written": 0,
        "resumed_releases_that_are_another": 0,
        "charges_made_twice": 0,
        "next_release_failed": 0,
        "staging_folders_left_where_the_next_release_goes": 0,
        **{key: seen.pop(key, 0) for key in order},
        **dict(sorted(seen.items())),
        "seconds": round(time.perf_counter() - start),
    }
    record("kills", settings, results)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]))
