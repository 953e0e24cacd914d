"""The readers' law over all readers: how many tables and bytes were tried, how many broke it, how many were refused.

One more row in what the user holds is one more row at the door, and nothing else; or reading refuses, without a value
in its words. `python -m benchmarks.readers COUNT` tries fewer; `python -m benchmarks.readers --show READER NUMBER`
shows one of them.
"""

import multiprocessing
import shutil
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.reader_entries import READERS, Reader
from benchmarks.reader_tables import Held, NotHeld
from benchmarks.record import record
from tests.laws.reader_law import READ, REFUSED, AtTheDoor, at_the_door, check_one_more_row, check_refusal
from threea.backends import unchanged
from threea.errors import UserError
from threea.table.supported import check_unit

TABLES, SEED, BATCH = 110_000, 20261120, 200
NOT_HELD, BROKEN = "not made by the user's library", "broken"


def at_door(reader: Reader, table: Any) -> AtTheDoor:
    """Read a table; the kind of table that a release would be handed back as is part of the layout."""
    backend, restore = reader.read(table)
    if reader.unit is not None:
        check_unit(backend.layout, reader.unit)
    seen = at_the_door(backend, reader.unit)
    return AtTheDoor(seen.layout.with_metadata({"restore": repr(restore)}), seen.rows)


def judged(reader: Reader, held: Held) -> str:
    """Check the law for what a user holds; return whether it was read or refused.

    Raises:
        AssertionError: The law is broken.
    """
    # A refusal may say "true", and so may a cell; numbers, dates and secrets are only a cell's.
    cells = [text for text in map(_text, held.cells) if any(character.isdigit() for character in text)]
    try:
        without = at_door(reader, held.without)
    except UserError as refusal:
        check_refusal(refusal, cells)
        return REFUSED
    if reader.more:
        return check_one_more_row(without, lambda: at_door(reader, held.with_row), cells)
    try:
        assert at_door(reader, held.with_row) == without, "a row of another person has changed"
    except UserError as refusal:
        check_refusal(refusal, cells)
        return REFUSED
    return READ


def _text(cell: Any) -> str:
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "replace")
    return str.__str__(cell) if isinstance(cell, str) else str(cell)


def tried(name: str, number: int, folder: Path) -> tuple[str, int]:
    """Return how one table of a reader ended, and how many bytes of values it held; the same for the same number."""
    reader = READERS[name]
    try:
        held = reader.hold(Random(f"{SEED} {name} {number}"), folder)
    except NotHeld:
        return NOT_HELD, 0
    size = sum(len(_text(cell).encode("utf-8", "replace")) for cell in held.cells)
    try:
        return judged(reader, held), size
    except AssertionError as broken:
        print(f"{name} {number}: {broken}", flush=True)
        return BROKEN, size


def batch(task: tuple[str, int, int]) -> tuple[str, Counter[str], int]:
    """Try consecutive tables of a reader; return how they ended, and the bytes in them."""
    name, start, end = task
    # Files are written here and never changed: no need to wait until their times would tell.
    unchanged._TICK_NS = 0
    folder = Path(tempfile.mkdtemp())
    try:
        ends = [tried(name, number, folder) for number in range(start, end)]
    finally:
        shutil.rmtree(folder)
    return name, Counter(outcome for outcome, _ in ends), sum(size for _, size in ends)


def counts(tables: int) -> dict[str, int]:
    """Return how many tables each reader is given."""
    shares = sum(reader.share for reader in READERS.values())
    return {name: -(-tables * reader.share // shares) for name, reader in READERS.items()}


def measured(tables: int, processes: int = 2) -> dict[str, Any]:
    """Try so many tables over all readers, at least."""
    tasks = [(name, start, min(start + BATCH, n)) for name, n in counts(tables).items() for start in range(0, n, BATCH)]
    ends: dict[str, Counter[str]] = {name: Counter() for name in READERS}
    sizes: Counter[str] = Counter()
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        for name, outcomes, size in pool.map(batch, tasks):
            ends[name] += outcomes
            sizes[name] += size
    readers = {
        name: {
            "tables": found[READ] + found[REFUSED] + found[BROKEN],
            "bytes": sizes[name],
            "read": found[READ],
            "refused": found[REFUSED],
            "violations": found[BROKEN],
        }
        for name, found in ends.items()
    }
    return {"readers": readers, "all": {key: sum(row[key] for row in readers.values()) for key in readers["Arrow"]}}


def main() -> None:
    """Try all tables and write the result down."""
    arguments = sys.argv[1:] if "readers" in Path(sys.argv[0]).name else []
    if arguments[:1] == ["--show"]:
        held = READERS[arguments[1]].hold(Random(f"{SEED} {arguments[1]} {arguments[2]}"), Path(tempfile.mkdtemp()))
        print(held.without, held.with_row, judged(READERS[arguments[1]], held), sep="\n\n")
        return
    tables = int(arguments[0]) if arguments else TABLES
    results = measured(tables)
    if arguments:
        print(results)
        return
    record("readers", {"tables": tables, "seed": SEED}, results)


if __name__ == "__main__":
    main()
