"""Virtual environments for other libraries, made once in a folder and kept there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

LONGEST = 1800.0
"""Seconds after which an installation is given up."""


class Unavailable(Exception):
    """A peer cannot be installed here; the message says why."""


class Environments:
    """Environments by package.

    Args:
        folder: Where they are kept; made when first needed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._failed: dict[str, str] = {}

    def python(self, package: str, requirements: Sequence[str]) -> str:
        """Return the interpreter of an environment that has the requirements.

        Raises:
            Unavailable: They cannot be installed; tried once in a run.
        """
        if package in self._failed:
            raise Unavailable(self._failed[package])
        home = self._folder.absolute() / package
        python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
        mark = home / "installed.json"
        wanted = json.dumps(sorted(requirements))
        if not (python.exists() and mark.is_file() and mark.read_text(encoding="utf-8") == wanted):
            try:
                self._make(home, python, requirements)
            except Unavailable as reason:
                self._failed[package] = str(reason)
                raise
            mark.write_text(wanted, encoding="utf-8")
        return str(python)

    def _make(self, home: Path, python: Path, requirements: Sequence[str]) -> None:
        # What a broken attempt left behind would only confuse pip.
        shutil.rmtree(home, ignore_errors=True)
        try:
            home.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Unavailable(f"cache ({self._folder}) cannot be made: {error.strerror}") from None
        _call([sys.executable, "-m", "venv", str(home)], "an environment cannot be made")
        _call([str(python), "-m", "pip", "install", "--quiet", *requirements], "it cannot be installed")


def _call(command: list[str], failure: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=LONGEST)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{failure} ({type(error).__name__})") from None
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.upper().startswith("ERROR")]
        raise Unavailable(f"{failure} ({(errors or done.stderr.strip().splitlines() or ['no message'])[-1][:200]})")
