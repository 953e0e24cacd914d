"""Cells of a benchmark: each is measured once, written down at once, and found again by the next run."""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from threea.audit.runs import source
from threea.errors import SettingError
from threea.json_files import finite

Cell = dict[str, Any]
Progress = Callable[[str], None]
"""Told one line for each cell that is done."""


@dataclass(frozen=True, slots=True)
class Key:
    """What a cell's value depends on.

    Args:
        dataset: The dataset's name.
        recipe: What made the synthetic rows, or ``real``.
        seed: Of the split, of sampling and of the learner.
        settings: Everything else.
    """

    dataset: str
    recipe: str
    seed: int
    settings: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """A hash of the settings."""
        text = json.dumps(self.settings, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __str__(self) -> str:
        """Return the key as text."""
        return f"{self.dataset}/{self.recipe}/{self.seed}/{self.digest}"


class CellFile:
    """Finished cells in a file of JSON lines, one appended as soon as it is done.

    A line that was torn by a crash is passed over, and so is anything else that is no cell; of several lines for one
    cell the last counts. Cells that failed are measured again by the next run: what was missing may be there then.

    Args:
        path: Where the lines are; None to remember nothing.
    """

    def __init__(self, path: str | PathLike[str] | None) -> None:
        self._path = None if path is None else Path(path)
        self._cells: dict[str, Cell] = {}
        if self._path and self._path.exists():
            for line in self._path.read_text(encoding="utf-8", errors="replace").splitlines():
                self._recall(line)

    def _recall(self, line: str) -> None:
        try:
            entry = json.loads(line)
        except ValueError:
            return
        if isinstance(entry, dict) and isinstance(entry.get("cell"), dict):
            self._cells[str(entry.get("key"))] = entry["cell"]

    def __contains__(self, key: Key) -> bool:
        """Say whether a cell is done."""
        return "error" not in self._cells.get(str(key), {"error": "not there"})

    def measured(
        self, key: Key, measure: Callable[[], Cell], again: Callable[[Cell], bool] = lambda cell: "error" in cell
    ) -> Cell:
        """Return a cell: the one written down, or else the one that is now measured and written down.

        A failure is a cell, too: ``{"error": "error: ..."}``.

        Args:
            key: What it depends on.
            measure: Measures it.
            again: Whether a cell that is written down is to be measured again; by default if it failed.

        Raises:
            SettingError: The file cannot be written.
        """
        known = self._cells.get(str(key))
        if known is not None and not again(known):
            return known
        try:
            cell = measure()
        except Exception as error:  # one recipe's failure must not end a run of hours
            cell = {"error": _described(error)}
        cell = dict(finite(cell)) | {"source": source()}
        self._append({"key": str(key), "cell": cell, "settings": dict(key.settings)})
        self._cells[str(key)] = cell
        return cell

    def _append(self, entry: dict[str, Any]) -> None:
        if self._path is None:
            return
        line = json.dumps(entry, default=str, allow_nan=False) + "\n"
        try:
            with self._path.open("ab+") as file:
                if file.tell():
                    file.seek(-1, 2)
                    # A torn line must not swallow the next one.
                    line = line if file.read(1) == b"\n" else "\n" + line
                file.write(line.encode())
        except OSError as error:
            raise SettingError(f"cells ({self._path}) cannot be written: {error.strerror}; choose another") from None


def _described(error: Exception) -> str:
    words = " ".join(str(error).split()) or "no message"
    return f"error: {type(error).__name__}: {words[:300]}"


def spread(cells: Sequence[Cell], figure: str) -> dict[str, Any]:
    """Return the mean and the standard deviation of a figure over the cells that have it; None where undefined."""
    known = [cell[figure] for cell in cells if cell.get(figure) is not None]
    return {
        "mean": statistics.fmean(known) if known else None,
        "stdev": statistics.stdev(known) if len(known) > 1 else None,
    }


def shown(cell: Cell, *figures: str) -> str:
    """Return a cell in a few words, for progress."""
    values = ", ".join(f"{name} {cell[name]:.4f}" for name in figures if cell.get(name) is not None)
    return str(cell.get("error") or values or "no score")


def summary(cells: Sequence[Cell], figure: str = "score") -> dict[str, Any]:
    """Sum up the cells of all seeds.

    Returns:
        mean, stdev (None for one seed), by_seed (None where it failed), seeds (how many succeeded), seconds (mean),
        sources (hashes of the source that they were measured with), log_loss (mean, where every cell has one),
        peak_memory_mb (the largest), and the first cell's facts: rows, guarantee, accounted_epsilon, version,
        classifier; error, the first failure's, if any failed.
    """
    scores = [cell.get(figure) for cell in cells]
    known = [score for score in scores if score is not None]
    done = [cell for cell in cells if "error" not in cell]
    seconds = [cell["seconds"] for cell in done if "seconds" in cell]
    figures: dict[str, Any] = {
        **spread(cells, figure),
        "by_seed": scores,
        "seeds": len(known),
        "seconds": statistics.fmean(seconds) if seconds else None,
    }
    facts = ("rows", "guarantee", "accounted_epsilon", "version", "classifier")
    figures |= {name: done[0][name] for name in facts if done and name in done[0]}
    peaks = [cell["peak_memory_mb"] for cell in done if "peak_memory_mb" in cell]
    figures |= {"peak_memory_mb": max(peaks)} if peaks else {}
    losses = [cell.get("log_loss") for cell in done]
    figures |= {"log_loss": statistics.fmean(losses)} if losses and None not in losses else {}
    figures["sources"] = sorted({cell["source"] for cell in cells if "source" in cell})
    failed = [cell["error"] for cell in cells if "error" in cell]
    return figures | ({"error": failed[0]} if failed else {})
