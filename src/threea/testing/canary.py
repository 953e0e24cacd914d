"""A value of one row, put where it can be told from all others, must not come out."""

from __future__ import annotations

import gc
import struct
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

from threea.anonymize.door import PrivateTable
from threea.anonymize.query import Rows
from threea.framework import Recipe
from threea.model_file import packed
from threea.testing.releases import hold, run
from threea.testing.tables import PLAIN, ROWS


def keeps_no_row(recipe: Recipe) -> None:
    """A value of one person, as it stands, is in nothing that a release holds: neither rows, nor model, nor schema."""
    word, number = "canary-7391", 739.1234567891011
    words, numbers = pa.array(["common"] * (ROWS - 1) + [word]), pa.array([500.0] * (ROWS - 1) + [number])
    case = PLAIN.with_column("word", words, kind="categorical", categories=["common"], open_ended=True)
    case = case.with_column("number", numbers, kind="real", lower=0, upper=1000)
    for known in (True, False):
        release = run(recipe, case, known=known, rows=2000)
        hold(number not in release.table["number"].to_pylist(), "a synthetic row holds a private number")
        written = (
            str(release.table.to_pydict()),
            release.schema_text(),
            repr(release.model),
            str(release.certificate()),
        )
        hold(not any(word in text for text in written), "a release holds a private text")
        file = packed(release) or b""
        raw = (word.encode(), struct.pack("<d", number), struct.pack("<f", number), repr(number).encode())
        hold(not any(value in file for value in raw), "the model file holds a private value")
        for held in within(release.model):
            hold(
                not isinstance(held, PrivateTable | Rows | pa.Table | pa.RecordBatch | pa.Array | pa.ChunkedArray),
                f"the model holds a {type(held).__name__}",
            )
            hold(not _holds(held, word, number), f"the model holds a private value, in a {type(held).__name__}")


def within(root: Any) -> Iterator[Any]:
    """Yield an object and all that it holds, however deep, but for modules, classes and what functions see of these."""
    waiting, seen = [root], {}
    while waiting:
        held = waiting.pop()
        if id(held) in seen or isinstance(held, type | ModuleType):
            continue
        # Kept, for the number of an object that is gone may be another's.
        seen[id(held)] = held
        yield held
        if isinstance(held, FunctionType):
            waiting += [held.__closure__, held.__defaults__, held.__kwdefaults__, held.__dict__]
        else:
            waiting += gc.get_referents(held)
            waiting += [held.base] if isinstance(held, np.ndarray) else []
            waiting += held.ravel().tolist() if isinstance(held, np.ndarray) and held.dtype.hasobject else []


def _holds(held: Any, word: str, number: float) -> bool:
    if isinstance(held, np.ndarray) and held.dtype.kind == "f":
        return bool(np.any(held == number))
    if isinstance(held, np.ndarray) and held.dtype.kind in "US":
        return bool(np.any(np.char.find(held.astype(str), word) >= 0))
    if isinstance(held, bytes):
        return word.encode() in held
    return word in held if isinstance(held, str) else isinstance(held, float) and held == number
