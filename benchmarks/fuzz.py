"""What becomes of broken inputs to the command: files, or a refusal with nothing charged.

Each input is a run of the real command in a process of its own, forked from one that has imported the library, in a
folder of its own, with a ledger of its own. `python -m benchmarks.fuzz COUNT` runs fewer;
`python -m benchmarks.fuzz --show NUMBER` runs one of them, and shows all that it says.
"""

import gc
import hashlib
import importlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from benchmarks import fuzz_inputs, fuzz_tables
from benchmarks.record import record

INPUTS, SEED, BATCH, SECONDS = 10_000, 20261117, 250, 60
MOST_BYTES = 200_000_000
"""The largest file that an input may write: a disk is full sometime."""
FAMILIES = ("csv", "csv", "csv", "parquet", "parquet", "schema", "odd", "odd", "types", "certificate", "options")
MADE = ("synthetic.parquet", "synthetic.csv", "certificate.json", "report.html", "schema.toml", "model.threea")

WRITTEN, REFUSED, TOLD = "files, whole", "refused, nothing charged", "done, no release asked for"
GOOD = (WRITTEN, REFUSED, TOLD)
CHARGED, INTERNAL, TRACEBACK = "charged without files", "internal error", "traceback"
CODE, SIGNAL, LATE, PARTLY, LONG = "exit code", "signal", "timeout", "files, in part", "says more than it should"


@dataclass(frozen=True)
class End:
    """How one input ended."""

    number: int
    family: str
    outcome: str
    said: str
    arguments: list[str]
    notes: list[str]


# --- one input, in a process of its own ------------------------------------------------------------------------


def prepared(number: int, folder: Path, made: Path) -> fuzz_inputs.Input:
    """Write an input's files into a folder; the same for the same number."""
    chance = Random(f"{SEED} {number}")
    family = FAMILIES[number % len(FAMILIES)]
    if family == "certificate":
        return fuzz_inputs.certificate_input(chance, folder, made)
    makers = {
        "csv": fuzz_inputs.csv_input,
        "parquet": fuzz_inputs.parquet_input,
        "schema": fuzz_inputs.schema_input,
        "odd": fuzz_inputs.odd_input,
        "types": fuzz_inputs.type_input,
        "options": fuzz_inputs.option_input,
    }
    return makers[family](chance, folder)


def command(arguments: list[str]) -> None:
    """Run the command in this process, as its own `main` does."""
    from threea.cli import main

    sys.argv = ["threea", *arguments]
    main()


def child(number: int, folder: Path, made: Path) -> None:
    """Make the input, then become the command: what it says goes to files, its exit code to the parent."""
    (folder / "run").mkdir()
    made_input = prepared(number, folder / "run", made)
    (folder / "input.json").write_text(json.dumps(vars(made_input)))
    os.chdir(folder / "run")
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES, MOST_BYTES))
    for stream, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT), stream)
    command(made_input.arguments)


def waited(process: int) -> int | None:
    """Return how a process ended, or nothing if it took too long and was ended."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None


# --- judging -----------------------------------------------------------------------------------------------------


def judged(code: int | None, said: str, run: Path, arguments: list[str]) -> str:
    """Say how an input ended, from what it left behind."""
    lines = [line for line in said.splitlines() if not line.startswith("warning:")]
    if code is None:
        return LATE
    if code < 0:
        return SIGNAL
    if "Traceback" in said or "Exception ignored" in said:
        return TRACEBACK
    if "internal error" in said:
        return INTERNAL
    if code not in (0, 2, 3):
        return CODE
    folder = run / ["out", *(value for flag, value in pairwise(arguments) if flag == "--out")][-1]
    if code == 0:
        if lines:
            return LONG
        asked = arguments[:1] == ["release"] and "--dry-run" not in arguments
        return WRITTEN if whole(folder) else PARTLY if asked else TOLD
    if charged(run):
        return CHARGED
    return REFUSED if len(lines) == 1 and not whole(folder) else LONG


def whole(folder: Path) -> bool:
    """Tell whether a release is all there, and is the one that its certificate speaks of."""
    try:
        names = {file.name for file in folder.iterdir()}
        rows = next(folder / name for name in MADE[:2] if name in names)
        certificate = json.loads((folder / "certificate.json").read_text())
        return (
            names >= set(MADE[2:]) and certificate["synthetic_sha256"] == hashlib.sha256(rows.read_bytes()).hexdigest()
        )
    except (OSError, StopIteration, ValueError):
        return False


def charged(run: Path) -> bool:
    """Tell whether any ledger that the run made holds a release."""
    from threea.errors import LedgerError
    from threea.ledger import Ledger
    from threea.ledger.log import is_ledger

    for file in run.rglob("*"):
        if file.name == "books.db" or not file.is_file() or not is_ledger(file):
            continue
        try:
            with Ledger(file, reading=True) as ledger:
                if ledger.releases():
                    return True
        except LedgerError:
            return True
    return False


# --- batches -----------------------------------------------------------------------------------------------------


def batch(start: int, stop: int, folder: Path) -> None:
    """Run inputs one after another, each forked from this process; write how they ended as lines of JSON."""
    made = folder / "made" / "out"
    for number in range(start, stop):
        place = folder / f"input-{number}"
        place.mkdir()
        process = os.fork()
        if process == 0:
            child(number, place, made)
            return
        code = waited(process)
        drawn = json.loads((place / "input.json").read_text()) if (place / "input.json").exists() else None
        said = (place / "stderr").read_text(errors="replace") if (place / "stderr").exists() else "input not made"
        if drawn is None:
            drawn, outcome = {"family": "?", "arguments": [], "notes": []}, "input not made"
        else:
            outcome = judged(code, said, place / "run", drawn["arguments"])
        end = End(number=number, outcome=outcome, said="" if outcome in GOOD else said[-2000:], **drawn)
        with (folder / "ends.jsonl").open("a") as file:
            file.write(json.dumps(vars(end)) + "\n")
        shutil.rmtree(place)


IMPORTED = (
    "threea.cli", "threea.session", "threea.report", "threea.recipes.independent", "threea.recipes.labeltree",
    "threea.recipes.gaussians", "threea.recipes.clustmix", "threea.recipes.dpmix", "threea.describe.propose_schema",
    "dp_accounting", "dp_accounting.pld", "dp_accounting.rdp", "scipy.optimize", "scipy.special", "scipy.stats",
    "scipy.fft", "scipy.linalg", "pandas", "pyarrow.pandas_compat", "pyarrow.dataset", "jinja2", "typer",
    "rich.console",
)  # fmt: skip
"""What a release imports, sooner or later."""


def warm() -> None:
    """Import what a release imports, so that each forked process need not; nothing here starts a thread."""
    for name in IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def good_release(folder: Path) -> Path:
    """Make a release with a ledger beside it, whose certificate can be broken; return its folder."""
    folder.mkdir()
    (folder / "data.csv").write_bytes(fuzz_inputs.csv_bytes(fuzz_inputs.stays(Random(SEED))))
    (folder / "schema.toml").write_text(fuzz_tables.SCHEMA)
    good = ["release", "data.csv", "--schema", "schema.toml", "--epsilon", "1", "--ledger", "ledger.db", "--out", "out"]
    main = "from threea.cli import main; main()"
    subprocess.run([sys.executable, "-c", main, *good], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return folder / "out"


def run(inputs: int, folder: Path) -> list[dict[str, Any]]:
    """Run so many inputs, a batch on each core; return how each ended.

    One that took too long beside others is run again alone: a machine's other work must not count against it.
    """
    good_release(folder / "made")

    def started(start: int, most: int = BATCH) -> None:
        stop = min(start + most, inputs)
        code = f"from benchmarks import fuzz; fuzz.warm(); fuzz.batch({start}, {stop}, fuzz.Path({str(folder)!r}))"
        subprocess.run([sys.executable, "-c", code], check=True)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(started, range(0, inputs, BATCH)))
    for end in ended(folder):
        if end["outcome"] == LATE:
            started(end["number"], 1)
    return ended(folder)


def ended(folder: Path) -> list[dict[str, Any]]:
    """Return how each input ended, the last time that it was run."""
    ends = [json.loads(line) for line in (folder / "ends.jsonl").read_text().splitlines()]
    return list({end["number"]: end for end in ends}.values())


def counts(ends: list[dict[str, Any]]) -> dict[str, Any]:
    """Count outcomes, all in all and by family."""
    families: dict[str, Counter[str]] = {}
    for end in ends:
        families.setdefault(end["family"], Counter())[end["outcome"]] += 1
    total = Counter(end["outcome"] for end in ends)
    named = (*GOOD, CHARGED, INTERNAL, TRACEBACK, CODE, SIGNAL, LATE, PARTLY, LONG)
    by_family = {name: dict(families[name].most_common()) for name in sorted(families)}
    return {**{name: total[name] for name in named}, "by_family": by_family}


def show(number: int) -> None:
    """Run one input in this process; its folder stays."""
    folder = Path(tempfile.mkdtemp())
    (folder / "run").mkdir()
    drawn = prepared(number, folder / "run", good_release(folder / "made"))
    print(folder / "run", drawn)
    os.chdir(folder / "run")
    command(drawn.arguments)


def main(inputs: int = INPUTS) -> None:
    """Run the inputs, count how they ended, and show those that ended badly."""
    start = time.perf_counter()
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        ends = run(inputs, Path(folder))
    for end in ends:
        if end["outcome"] not in GOOD:
            print(json.dumps(end))
    write(ends, time.perf_counter() - start)


def write(ends: list[dict[str, Any]], seconds: float) -> None:
    """Write down how inputs ended."""
    settings = {"inputs": len(ends), "seed": SEED, "seconds_each": SECONDS, "largest_file": MOST_BYTES}
    record("fuzz", settings, {**counts(ends), "seconds": round(seconds)})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--show"]:
        show(int(sys.argv[2]))
    else:
        main(*(int(argument) for argument in sys.argv[1:2]))
