"""Work on a file that somebody may have made to do harm, in a process of its own, with limits.

A reader written in another language may abort on such a file, or ask for all the memory that there is. Then that
process ends, and this one goes on. What comes back is JSON, line by line: never a pickle, and never what the system
says of the failure, which may quote the file.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from threea import errors
from threea.errors import InputError, InternalError, ThreeaError, bug

_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from threea.limited import main; main()"
"""The child finds the modules that its parent has, and none in the working folder."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a process may take.

    Args:
        memory: Bytes beyond what it has before it begins.
        seconds: Of processor time.
    """

    memory: int
    seconds: int

    def impose(self) -> None:
        """Put them on this process, as far as the system can; if memory runs out, this process is to end first."""
        used = 0
        with suppress(OSError):
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            Path("/proc/self/oom_score_adj").write_text("1000")
        wanted = {
            resource.RLIMIT_AS: self.memory + used,
            resource.RLIMIT_CPU: self.seconds,
            resource.RLIMIT_CORE: 0,
        }
        for kind, most in wanted.items():
            hard = resource.getrlimit(kind)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            with suppress(OSError, ValueError):
                resource.setrlimit(kind, (most, most))

    def __str__(self) -> str:
        """Say them in words."""
        return f"{self.memory / 1e9:.1f} GB of memory and {self.seconds} seconds of processor time"


def available_memory(system: Path = Path("/")) -> float:
    """Return how many bytes this process may still take: what the machine has left, and its control groups allow.

    Args:
        system: Where the system tells it, `proc` and `sys`.
    """
    left = [_total_memory()]
    with suppress(OSError, StopIteration, ValueError):
        lines = (system / "proc/meminfo").read_text().splitlines()
        left.append(1024 * int(next(line.split()[1] for line in lines if line.startswith("MemAvailable:"))))
    with suppress(OSError, ValueError):
        # Of both versions of control groups: "0::/path" and "5:memory:/path".
        for line in (system / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in ("", "memory"):
                top = system / "sys/fs/cgroup" / controllers
                group = top / path.lstrip("/")
                left += [_left(folder) for folder in (group, *group.parents) if folder.is_relative_to(top)]
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    return max(min(*left, math.inf if soft == resource.RLIM_INFINITY else soft), 0.0)


def _total_memory() -> float:
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return math.inf


def _left(group: Path) -> float:
    """Return what a control group may still take; infinite without a limit. Its cache of files can be given back."""
    for most, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        with suppress(OSError, ValueError):
            limit = int((group / most).read_text())
            cached = 0
            with suppress(OSError, ValueError):
                lines = (line.split() for line in (group / "memory.stat").read_text().splitlines())
                cached = int(dict(lines).get("inactive_file", 0))
            return limit - int((group / used).read_text()) + cached
    return math.inf


def limited(limits: Limits, function: Callable[..., Iterable[Any]], *arguments: Any, refusal: str) -> Iterator[Any]:
    """Yield what a function yields, which runs in a process with limits.

    Guarantees:
        - Whatever becomes of that process, this one is not harmed, and says so in one line without a word of the file.

    Args:
        limits: What the process may take.
        function: One of a module of threea's; it is found by its name.
        arguments: JSON data, as all that it yields.
        refusal: What to say if the process ends before it is done: what could not be done, and the remedy.

    Raises:
        InputError: The process ended before it was done.
        ThreeaError: What the function raised.
    """
    order = {
        "module": function.__module__,
        "name": function.__name__,
        "arguments": arguments,
        "limits": [limits.memory, limits.seconds],
    }
    process = subprocess.Popen(  # noqa: S603 - our own module; what is asked goes through standard input
        [sys.executable, "-P", "-c", _START, json.dumps(sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # A matrix for each of many processors would count as memory.
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        encoding="utf-8",
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with suppress(OSError), process.stdin as asked:
            json.dump(order, asked)
        yield from _heard(process.stdout, refusal)
    finally:
        process.kill()
        process.stdout.close()
        process.wait()


def _heard(lines: Iterable[str], refusal: str) -> Iterator[Any]:
    """Yield what a process says, and raise what it raised, or that it ended too soon."""
    for line in lines:
        try:
            said = json.loads(line)
        except ValueError:
            # Half a line, of a process that was killed.
            break
        if said is None:
            return
        if isinstance(said, list):
            yield said[0]
            continue
        kind = getattr(errors, said["error"])
        error: ThreeaError = kind.__new__(kind)
        error.args = (said["message"],)
        raise error
    raise InputError(refusal)


def main() -> None:
    """Do what is asked on standard input, and say what comes of it on standard output."""
    order = json.load(sys.stdin)
    function = getattr(importlib.import_module(order["module"]), order["name"])
    Limits(*order["limits"]).impose()
    try:
        for item in function(*order["arguments"]):
            sys.stdout.write(json.dumps([item]) + "\n")
        sys.stdout.write("null\n")
    except MemoryError:
        # As if the system had ended it.
        os._exit(1)
    except ThreeaError as error:
        _tell(type(error), str(error))
    except Exception as error:
        _tell(InternalError, f"{bug(error)}; please report it")
    sys.stdout.flush()


def _tell(kind: type[ThreeaError], message: str) -> None:
    sys.stdout.write(json.dumps({"error": kind.__name__, "message": message}) + "\n")
