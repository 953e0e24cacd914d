"""Model files that somebody wrote to do harm: changed inside, their own hash made anew, so that they pass for whole.

A value, an array, a text or the structure is changed. Each file is read, and rows are drawn from it, in a process of
its own with limits. What may happen: rows, or one line that refuses. What may not: an error that asks to be reported,
more than 1 GB, more than 10 seconds, a killed process.

`python -m benchmarks hostile_models`; HOSTILE_MODELS=2000 in the environment makes fewer.
"""

import base64
import io
import json
import os
import random
import resource
import signal
import sys
import tempfile
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import record
from threea import model_file
from threea.errors import ThreeaError
from threea.plain_data import NotPlain

GOLDEN = Path(__file__).parents[1] / "tests/golden"
MUTATIONS, ROWS, SEED = 20_000, 2_000, 7
MEMORY, SECONDS = 1 << 30, 10
"""Beyond what the process had before; and of processor time."""
NUMBERS = (0, -1, 1, 2, 255, 4096, 1 << 31, 1 << 40, (1 << 63) - 1, 1 << 64, -(1 << 31), 0.5, -1e308, 1e308, 1e-320)
SPECIAL: tuple[Any, ...] = ({"number": "nan"}, {"number": "inf"}, {"number": "-inf"}, None, True, "", [], {}, "x" * 999)
TEXTS = ("", "\0", "é\ud800", "died", "age", "categorical", "real", "2024-01-31", "a" * 3000, "[", "%s", "1e999")
KINDS = ("<f8", "<i8", "<i4", "|b1", "<f4", "|u1", "<u8")

Path_ = tuple[Any, ...]


def models() -> list[Path]:
    """Return the model files that mutations start from: one of every kind of model."""
    return sorted(GOLDEN.rglob("*.threea"))


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return a model file that is changed in one to three places and checks itself."""
    files = model_file._stored(data)
    tree = json.loads(files["release.json"])
    arrays = list(model_file._stored(files["arrays.npz"]).values())
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if arrays and rng.random() < 0.35:
            place = rng.randrange(len(arrays))
            # One that was changed before may not be read any more.
            with suppress(NotPlain, ValueError):
                arrays[place] = _other_array(arrays, place, rng)
        else:
            _change(tree, rng)
    text = json.dumps(tree, separators=(",", ":")).encode()
    return model_file._sealed({"release.json": text, "arrays.npz": _archive(arrays)})


def _change(tree: Any, rng: random.Random) -> None:
    """Change a node of the JSON data."""
    nodes = [node for node in _nodes(tree) if node[0] is not None]
    # A few fields have most of the numbers: one half of all changes is elsewhere.
    deep = [node for node in nodes if not isinstance(node[1], int)] or nodes
    holder, key = rng.choice(nodes if rng.random() < 0.5 else deep)
    old = holder[key]
    match rng.randrange(6):
        case 0 | 1:
            holder[key] = _like(old, rng)
        case 2:
            holder[key] = rng.choice((*NUMBERS, *SPECIAL))
        case 3:
            other, name = rng.choice(nodes)
            holder[key] = json.loads(json.dumps(other[name]))
        case 4 if isinstance(old, list) and old:
            holder[key] = rng.choice((old[:-1], old + old, old[::-1], [*old, old[0]], old[:1], old * 50))
        case _:
            del holder[key]


def _like(old: Any, rng: random.Random) -> Any:
    """Return another value of the same type."""
    if isinstance(old, bool):
        return not old
    if isinstance(old, int | float):
        return rng.choice((*NUMBERS, old + 1, old - 1, -old, old * 2, old * 1000))
    if isinstance(old, str) and len(old) > 200:
        with suppress(ValueError):
            raw = bytearray(base64.b64decode(old, validate=True))
            raw[rng.randrange(len(raw))] = rng.randrange(256)
            return base64.b64encode(raw).decode()
    if isinstance(old, str):
        return rng.choice((*TEXTS, old + "x", old[:-1], old * 100))
    if isinstance(old, list):
        return [rng.choice(old) for _ in old]
    return rng.choice(SPECIAL)


def _nodes(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place in JSON data: what holds it, and its key there."""
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in pairs:
        yield tree, key
        yield from _nodes(value)


def _other_array(arrays: list[bytes], place: int, rng: random.Random) -> bytes:
    """Return an array's file with other values, another shape or type, or another array's."""
    array = model_file._array(arrays[place]).copy()
    match rng.randrange(7):
        case 0:
            return rng.choice(arrays)
        case 1 if array.size:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                values = np.array([0, -1, 1e308, np.nan, np.inf, 1 << 40, 4096]).astype(array.dtype)
            array.flat[rng.randrange(array.size)] = rng.choice(values.tolist())
        case 2 if array.size:
            array[...] = np.array(rng.choice((0, -1, 1, 4096, 1 << 20))).astype(array.dtype)
        case 3:
            array = rng.choice((array.ravel(), array[None], array[..., None], array.T, array[:0], array[:1]))
        case 4:
            array = np.concatenate([array, array]) if array.ndim else array
        case 5:
            return _with_header(array, rng.choice(KINDS), array.shape)
        case _:
            empty = rng.choice(((0, 1 << 40), (1 << 31, 0), (0, 30_000), (0,), (), (-1,), (0, 1 << 62)))
            return _with_header(array[:0] if 0 in empty and array.ndim else array, "", empty)
    return _with_header(array, "", array.shape)


def _with_header(array: Any, kind: str, shape: tuple[int, ...]) -> bytes:
    """Return an array's file whose header says this type and shape."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
    content = buffer.getvalue()
    start = 10 + int.from_bytes(content[8:10], "little")
    header = f"{{'descr': '{kind or array.dtype.str}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    padded = header.ljust(max(start - 11, len(header))) + b"\n"
    return content[:8] + len(padded).to_bytes(2, "little") + padded + content[start:]


def _archive(arrays: list[bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as zipped:
        for number, content in enumerate(arrays):
            zipped.writestr(zipfile.ZipInfo(f"{number}.npy"), content)
    return buffer.getvalue()


def read_and_drawn(path: Path) -> str:
    """Read a model and draw rows from it; return how that ended."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if path.read_bytes().find(b'"release":{"class":"LinkedRelease"') >= 0:
                model_file.load_tables(path).sample(ROWS, seed=1)
            else:
                model_file.load_release(path).sample(ROWS, seed=1)
        except ThreeaError as error:
            return "refused" if len(str(error).splitlines()) == 1 else "refused in several lines"
        except MemoryError:
            return "memory"
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            return f"{type(error).__name__} in {Path(where.filename).name}"
    return "drawn"


def ended(work: Callable[[], str]) -> str:
    """Do some work in a forked process with limits; return what it says, or how it was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # What waits without working is no better.
        signal.alarm(10 * SECONDS)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        with suppress(BaseException):
            os.write(writing, work().encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as said:
        text = said.read().decode()
    _, status = os.waitpid(child, 0)
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    return text or ("time" if number in (signal.SIGXCPU, signal.SIGALRM) else f"killed by signal {number}")


def outcomes(mutations: int, keep: Path | None = None) -> dict[str, Counter[str]]:
    """Return how often what happened, by the model that was changed; files that did harm are kept, if so wished."""
    # Whatever a child would have to import is imported once.
    for path in models():
        assert read_and_drawn(path) == "drawn", path
    by_model: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "hostile.threea"
        for number in range(mutations):
            path = models()[number % len(models())]
            file.write_bytes(mutated(path.read_bytes(), random.Random(f"{SEED} {number}")))
            outcome = ended(lambda: read_and_drawn(file))
            by_model.setdefault(path.relative_to(GOLDEN).as_posix(), Counter())[outcome] += 1
            if keep and outcome not in ("refused", "drawn"):
                (keep / f"{number}-{outcome.replace(' ', '-')}.threea").write_bytes(file.read_bytes())
    return by_model


def main() -> None:
    """Change every model many times, and write down how each ended."""
    mutations = int(os.environ.get("HOSTILE_MODELS", MUTATIONS))
    keep = Path(sys.argv[sys.argv.index("--keep") + 1]) if "--keep" in sys.argv else None
    by_model = outcomes(mutations, keep)
    total = sum(by_model.values(), Counter[str]())
    limits = {"memory": MEMORY, "seconds": SECONDS, "rows": ROWS, "seed": SEED}
    record("hostile-models", {"mutations": mutations, **limits}, {"all": dict(total), "by model": by_model})


if __name__ == "__main__":
    main()
