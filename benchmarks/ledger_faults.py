"""What becomes of a ledger when its file is damaged: noticed or harmless, never less spent in silence.

A fault strikes the bytes of a ledger at rest, or between two operations of a process that has it open. Then the
process goes on, and another opens the file. Each step ends in a LedgerError, or in books that hold at least what was
acknowledged before, with every release past a cap refused.
"""

import contextlib
import os
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import ledger_kills
from benchmarks.record import record
from threea.errors import BudgetRefused, LedgerError
from threea.ledger import Ledger, log
from threea.ledger.certified import check_certificate
from threea.ledger.chain import LedgerHead, canonical, entry_hash, line_of

FAULTS, SEED, PAGE = 10_000, 20261116, 4096
EVENT = {"event": "Gaussian", "noise_multiplier": 4.0}


@dataclass(frozen=True)
class Shape:
    """A ledger's bytes, an older copy's, and what was acknowledged."""

    main: bytes
    older: bytes
    spent: dict[str, float]
    caps: dict[str, float]
    head: LedgerHead


def shapes(folder: Path) -> dict[str, Shape]:
    """Make ledgers of several shapes."""
    return {
        "two releases": _shape(folder / "small.db", datasets=1, releases=2, lines=2),
        "three datasets, long plans": _shape(folder / "plans.db", datasets=3, releases=4, lines=60),
        "many releases": _shape(folder / "long.db", datasets=2, releases=50, lines=2),
        "crashed within a line": _shape(folder / "torn.db", datasets=2, releases=6, lines=3, left=0.6),
        "crashed after a line": _shape(folder / "whole.db", datasets=2, releases=6, lines=3, left=1),
    }


def _shape(path: Path, *, datasets: int, releases: int, lines: int, left: float = 0) -> Shape:
    plan, older = [(f"line {number}", EVENT, 1) for number in range(lines)], b""
    with Ledger(path, create=True) as ledger:
        for number in range(datasets):
            name = f"dataset {number}"
            ledger.register(name, lambda key, name=name: name, cap=releases + 0.5)
        for number in range(releases):
            for dataset in range(datasets):
                release = ledger.reserve(f"dataset {dataset}", epsilon=1.0, delta=1e-6, lines=plan)
                for line, _, _ in plan[:2]:
                    ledger.charge(release, line)
            if number == releases // 2 - 1:
                older = path.read_bytes()
        spent = {row.name: row.spent for row in ledger.datasets()}
        caps = {row.name: row.cap or 0.0 for row in ledger.datasets()}
        return Shape(path.read_bytes() + _cut_short(ledger, left), older, spent, caps, ledger.head)


def _cut_short(ledger: Ledger, share: float) -> bytes:
    """Return how much a crash leaves of a long entry's line, whose number was not counted yet."""
    plan = {"id": "c" * 16, "dataset": "dataset 0", "recipe": "", "epsilon": 0.25, "delta": 0.0}
    lines = [[f"line {number}", EVENT, 1] for number in range(200)]
    content = canonical({"kind": "release", **plan, "lines": lines, "created": ""})
    line = line_of(ledger.head.entries + 1, content, entry_hash(ledger.head.sha256, content))
    return line[: round(share * len(line))]


# --- faults: each changes the bytes of one file ------------------------------------------------------------


def _flip(content: bytearray, chance: random.Random) -> None:
    """Flip a bit of a byte in use."""
    place = chance.randrange(len(content))
    while content[place] in b"\0 ":
        place = chance.randrange(len(content))
    content[place] ^= 1 << chance.randrange(8)


def _overwrite(content: bytearray, chance: random.Random) -> None:
    start, length = chance.randrange(len(content)), chance.choice([1, 2, 4, 16, 512])
    content[start : start + length] = chance.randbytes(len(content[start : start + length]))


def _cut(content: bytearray, chance: random.Random) -> None:
    pages = [page * PAGE for page in range(len(content) // PAGE)]
    del content[chance.choice([*pages, chance.randrange(len(content)), len(content) - chance.randrange(1, 100)]) :]


def _zero_page(content: bytearray, chance: random.Random) -> None:
    start = chance.randrange(0, len(content), PAGE)
    content[start : start + PAGE] = bytes(len(content[start : start + PAGE]))


def _swap_pages(content: bytearray, chance: random.Random) -> None:
    pages = len(content) // PAGE
    if pages < 2:
        return _zero_page(content, chance)
    one, two = (page * PAGE for page in chance.sample(range(pages), 2))
    content[one : one + PAGE], content[two : two + PAGE] = content[two : two + PAGE], content[one : one + PAGE]
    return None


def _older_page(content: bytearray, chance: random.Random, older: bytes) -> None:
    """Put back one page of an older copy."""
    pages = [
        start for start in range(0, len(older), PAGE) if older[start : start + PAGE] != content[start : start + PAGE]
    ]
    start = chance.choice(pages)
    content[start : start + PAGE] = older[start : start + PAGE].ljust(PAGE, b"\0")[: len(content) - start]


FLIP = "bit flipped"
BYTES: dict[str, Callable[[bytearray, random.Random], None]] = {
    FLIP: _flip,
    "bytes overwritten": _overwrite,
    "cut": _cut,
    "page zeroed": _zero_page,
    "pages swapped": _swap_pages,
}
OLD_PAGE, OLD_COPY, REMOVED = (
    "a page of an older copy",
    "older copy put over it",
    "removed or replaced by an older copy",
)
KINDS = [FLIP] * 8 + list(BYTES)[1:] * 2 + [OLD_PAGE, OLD_COPY]


def strike(path: Path, shape: Shape, kind: str, chance: random.Random) -> None:
    """Let a fault of this kind happen to the file."""
    if kind == OLD_COPY:
        path.write_bytes(shape.older)
    elif kind == REMOVED:
        path.unlink()
        if chance.random() < 0.5:
            path.write_bytes(shape.older)
    else:
        content = bytearray(path.read_bytes())
        if kind == OLD_PAGE:
            _older_page(content, chance, shape.older)
        else:
            BYTES[kind](content, chance)
        # In place: the file stays the same to whoever has it open.
        with path.open("r+b") as file:
            file.write(content)
            file.truncate()


# --- what follows a fault ----------------------------------------------------------------------------------


class Forgotten(AssertionError):
    """A fault that went unnoticed and let the ledger forget."""


def trial(path: Path, shape: Shape, kind: str, chance: random.Random, *, live: bool) -> str:
    """Strike once; return "noticed" or "harmless".

    Raises:
        Forgotten: Less was spent than before, or a release passed its cap, and nothing said so.
    """
    path.unlink(missing_ok=True)
    path.write_bytes(shape.main)
    try:
        least = dict(shape.spent)
        if live:
            with Ledger(path) as ledger:
                path.write_bytes(
                    shape.main
                )  # as if another process had crashed since then, if it ends in part of a line
                strike(path, shape, kind, chance)
                dataset = chance.choice(list(least))
                ledger.charge(ledger.reserve(dataset, epsilon=0.25, delta=0.0, lines=[("late", EVENT, 1)]), "late")
                least[dataset] += 0.25
                _check(ledger, shape, least)
                if chance.random() < 0.5:
                    ledger.check()
        else:
            strike(path, shape, kind, chance)
        for _ in range(2):
            with Ledger(path) as ledger:
                if kind == OLD_COPY and not ledger.holds(shape.head):
                    return "noticed by a certificate"
                _check(ledger, shape, least)
    except LedgerError:
        return "noticed"
    return "harmless"


def _check(ledger: Ledger, shape: Shape, least: dict[str, float]) -> None:
    rows = {row.name: row for row in ledger.datasets()}
    for name, spent in least.items():
        if name not in rows or rows[name].spent < spent or rows[name].cap != shape.caps[name]:
            raise Forgotten(f"{name}: {rows.get(name)}, spent {spent}, cap {shape.caps[name]}")
        with contextlib.suppress(BudgetRefused):
            ledger.reserve(name, epsilon=shape.caps[name] - spent + 0.01, delta=0.0, lines=[("past", EVENT, 1)])
            raise Forgotten(f"{name}: a release passed its cap")


def run(faults: int, seed: int, folder: Path) -> dict[str, dict[str, int]]:
    """Strike as often as asked, in turn at rest and live; count what followed by kind of fault."""
    chance, made = random.Random(seed), shapes(folder)
    names, counts = list(made), {}
    for number in range(faults):
        live = number % 2 == 1
        kind = chance.choice(KINDS + [REMOVED] * live)
        end = trial(folder / "struck.db", made[names[number // 2 % len(names)]], kind, chance, live=live)
        counts.setdefault(f"{kind}, {'live' if live else 'at rest'}", Counter())[end] += 1
    return {kind: dict(sorted(ends.items())) for kind, ends in sorted(counts.items())}


def large(path: Path, releases: int) -> LedgerHead:
    """Write a ledger as so many releases would leave it: for each, its table met again, its plan, three charges."""
    with Ledger(path, create=True) as ledger:
        first = next(log.lines(os.open(path, os.O_RDONLY), log.PAGE))
    made, before = {"created": "2026-11-20T00:00:00.000+00:00", "nonce": "0" * 32}, ledger.head.sha256
    written = [first]
    for number in range(releases):
        release, spent = f"{number:016x}", {"epsilon": number + 1.0, "delta": 1e-9 * (number + 1)}
        plan = {"id": release, "dataset": "d", "recipe": "labeltree", "epsilon": 1.0, "delta": 1e-9}
        table = {"name": "d", "fingerprint": "0" * 32, "terms": "add-remove, row", "cap": None}
        charge = {"kind": "charge", "release": release, "line": "line", "times": 1, **spent}
        entries = [{"kind": "dataset", **table}, {"kind": "release", **plan, "lines": [["line", EVENT, 3]]}]
        for entry in [*entries, charge, charge, charge]:
            content = canonical({**entry, **made})
            before = entry_hash(before, content)
            written.append(line_of(len(written) + 1, content, before))
    path.write_bytes(log.first_page(len(written)) + b"".join(written))
    return LedgerHead(len(written), before)


def opening(folder: Path, releases: int) -> dict[str, float]:
    """Time what reads and verifies all of a large ledger, or looks a release up in it, or adds to it."""
    path = folder / f"{releases}.db"
    head = large(path, releases)
    certificate = {"epsilon": 1.0, "delta": 1e-9, "adjacency": "add-remove", "unit": "row"}
    certificate |= {"events": [{"name": "line", **EVENT, "count": 3}], "ledger_head": head.to_json()}
    acts = {
        "cpu_seconds": lambda: Ledger(path).close(),
        "look_up_cpu_seconds": lambda: check_certificate(ledger, certificate),
        "reserve_cpu_seconds": lambda: ledger.reserve("d", epsilon=1.0, delta=0.0, lines=[("line", EVENT, 1)]),
    }
    with Ledger(path) as ledger:
        assert ledger.holds(head)
        seconds = {name: statistics.median(_seconds(act) for _ in range(3)) for name, act in acts.items()}
    told = {name: round(taken, 3) for name, taken in seconds.items()}
    return {"releases": releases, "entries": head.entries, "bytes": path.stat().st_size, **told}


def _seconds(act: Callable[[], object]) -> float:
    start = time.process_time()
    act()
    return time.process_time() - start


def main() -> None:
    """Strike and kill 10,000 times. What lets a ledger forget ends the run with an error and no result."""
    start = time.perf_counter()
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None  # a disk's syncs would be most of the time
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        counts = run(FAULTS, SEED, Path(folder))
        (Path(folder) / "again").mkdir()
        made = shapes(Path(folder) / "again")
        done = Path(tempfile.gettempdir(), "threea-ledger-kills.jsonl")
        killed = ledger_kills.run(ledger_kills.KILLS, ledger_kills.SEED, Path(folder), done)
        opened, opened_large = (opening(Path(folder), releases) for releases in (2_000, 100_000))
    sizes = {name: {"entries": shape.head.entries, "bytes": len(shape.main)} for name, shape in made.items()}
    ends = sum((Counter(kind) for kind in counts.values()), Counter())
    settings = {"faults": FAULTS, "seed": SEED, "ledgers": sizes}
    results = {
        "forgotten": 0,
        **ends,
        "by_kind": counts,
        "second_paths": killed,
        "opening": opened,
        "opening_large": opened_large,
        "seconds": round(time.perf_counter() - start),
    }
    record("ledger-faults", settings, results)
