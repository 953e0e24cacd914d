"""The folder of a ledger's unfinished releases: one folder each, whose files are whole or not there.

It decides nothing of what is charged: that is the ledger's to say.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from threea.anonymize.answer_log import AnswerLog

REQUEST, RELEASE, ANSWERS, MODEL, OUT = "request.json", "release.json", "answers", "model.threea", "out.json"


@dataclass(frozen=True, slots=True)
class Waiting:
    """An unfinished release that waits to be resumed.

    Args:
        folder: Where its transcript is.
        request: What was asked for, option by option.
        begun: When.
        answered: Whether all is answered, and only the files are missing.
    """

    folder: Path
    request: Mapping[str, str]
    begun: str
    answered: bool


def home_of(ledger: str | os.PathLike[str]) -> Path:
    """Return the folder of a ledger's unfinished releases."""
    return Path(os.path.realpath(ledger) + ".unfinished")


def waiting(ledger: str | os.PathLike[str], dataset: str, *, reserved: bool = True) -> list[Waiting]:
    """Return the unfinished releases of a dataset, those nearest to their end first; none that is written.

    Args:
        ledger: The ledger's file.
        dataset: The owner's name for the rows.
        reserved: Whether to leave out those that may not be charged yet.
    """
    home = home_of(ledger)
    rows = []
    for folder in sorted(home.iterdir()) if home.is_dir() else []:
        told = loaded(folder / REQUEST)
        if told and told["request"]["dataset"] == dataset and not _settled(folder):
            done = (folder / MODEL).exists(), (folder / RELEASE).exists()
            if done[1] or not reserved:
                rows.append((done, Waiting(folder, told["request"], told["begun"], done[0])))
    return [row for _, row in sorted(rows, key=lambda pair: pair[0], reverse=True)]


def _settled(folder: Path) -> bool:
    """Whether a release's files are where they were to appear: a process was killed before it said so."""
    out = loaded(folder / OUT)
    where = Path(out.get("out", ""))
    with suppress(OSError):
        # The certificate is the last file to appear.
        whole = bool(out) and (where / "certificate.json").exists()
        if whole and sha256((where / MODEL).read_bytes()).hexdigest() == out["model"]:
            removed(folder)
            return True
    return False


def busy(folder: Path) -> bool:
    """Whether a living process is making the release of this transcript."""
    try:
        AnswerLog(folder / ANSWERS).close()
    except OSError:
        return True
    return False


def write_synced(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read, whole or not at all; it is on disk when this returns."""
    draft = path.with_name(f".{path.name}.new")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.rename(draft, path)
    sync(path.parent)


def sync(folder: Path) -> None:
    """Have a folder's entries on disk, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def loaded(file: Path) -> dict[str, Any]:
    """Return what a file of the folder tells; nothing if it is not there."""
    try:
        return dict(json.loads(file.read_bytes()))
    except (OSError, ValueError):
        return {}


def removed(folder: Path) -> None:
    """Remove a transcript, its request first: what is left of it is none."""
    with suppress(OSError):
        (folder / REQUEST).unlink()
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.parent.rmdir()


def sweep(home: Path) -> None:
    """Remove what kills left of transcripts, whoever is alone there: those that were not begun, or are gone already."""
    for folder in home.iterdir():
        if not (folder / REQUEST).exists() and not busy(folder):
            shutil.rmtree(folder, ignore_errors=True)
