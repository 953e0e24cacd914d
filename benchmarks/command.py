"""Benchmarks on public datasets: the papers' tables made again, and other libraries beside ours.

A recipe becomes a column by being in `threea.recipes.RECIPES`. A run that breaks off goes on where it was: every
finished cell is kept beside the result.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from benchmarks.cells import Progress
from benchmarks.figures import NAME as FIGURES
from benchmarks.page import ablation_charts, mcgen_charts
from benchmarks.page.layouts import html, markdown
from benchmarks.tables.ablations import ablations
from benchmarks.tables.mcgen import mcgen
from benchmarks.tables.peers import PEERS, peers
from benchmarks.tables.sweep import sweep
from benchmarks.tables.table1 import table1
from threea.errors import SettingError
from threea.json_files import to_json, write_whole

TABLES = {
    "table1": "the ClustMix paper's Table 1: LightGBM trained on each recipe's rows, tested on real ones",
    "mcgen": "the MC-GEN paper's two scenarios: synthetic rows as a test set, and as a training set, with its figures",
    "peers": "other libraries beside ours: score, distances of marginals, time and memory on one core",
    "sweep": "score by epsilon, from 0.1 to 10, with a chart",
    "ablations": "ClustMix taken apart: by alpha, without clusters, in both modes, on data of several shapes",
}
"""Every table by name, and what it is about."""

ENVIRONMENTS = "peer-environments"
"""The folder for peers' environments, beside the result, unless another is given."""


def benchmark(
    table: str,
    *,
    data: str | PathLike[str],
    out: str | PathLike[str],
    datasets: Sequence[str] | None = None,
    recipes: Sequence[str] | None = None,
    epsilons: Sequence[float] | None = None,
    seeds: int | None = None,
    ks: Sequence[float] | None = None,
    k_epsilons: Sequence[float] | None = None,
    scenarios: Sequence[int] | None = None,
    cache: str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Make a table, and write it as JSON, Markdown and HTML.

    Args:
        table: One of `TABLES`.
        data: The folder that holds the datasets.
        out: The JSON file; the others, and the finished cells, get its name with another ending.
        datasets: Names; the table's own by default.
        recipes: Names, for ``peers`` also of other libraries' methods, for the others also with settings
            (``clustmix-published:search=30``); all by default, for ``sweep`` two, for ``mcgen`` and ``ablations`` their
            own.
        epsilons: Of the releases; 1 by default, for ``mcgen`` from 0.1 to 1, for ``sweep`` from 0.1 to 10. The others
            take one.
        seeds: How many splits; 5 by default, for ``peers`` and ``sweep`` 3.
        ks: For ``mcgen``: shares of the rows in a cluster; from 0.2 to 1 by default, and none if empty.
        k_epsilons: For ``mcgen``: at which epsilons k is varied; at all by default.
        scenarios: For ``mcgen``: 1, 2 or both, which is the default.
        cache: For ``peers``: where their environments are kept.
        progress: Told of each cell.

    Returns:
        The files made.

    Raises:
        SettingError: A name, a number or a place is wrong.
        InputError: No dataset can be read.
        MissingExtra: The learners are not installed.
    """
    if table == FIGURES:
        raise SettingError(f"table ({table}) is drawn, not measured; use `threea benchmark {FIGURES}`")
    if table not in TABLES:
        known = [*TABLES, FIGURES]
        close = difflib.get_close_matches(table, known, n=1, cutoff=0.5)
        guess = f"did you mean {close[0]}? " if close else ""
        raise SettingError(f"table ({table}) is unknown; {guess}known: {', '.join(known)}")
    foreign = [name for name in recipes or () if name in PEERS]
    if foreign and table != "peers":
        raise SettingError(f"recipe ({foreign[0]}) is another library's; the table peers measures it, {table} does not")
    file = _checked_file(out)
    common: dict[str, Any] = {
        "datasets": datasets,
        "recipes": recipes,
        "data": data,
        "cells": file.with_suffix(".cells.jsonl"),
        "progress": progress,
    }
    if seeds is not None:
        common["seeds"] = seeds
    if epsilons is not None:
        several = table in ("mcgen", "sweep")
        common |= {"epsilons": tuple(epsilons)} if several else {"epsilon": _only(epsilons, table)}
    for name, value in (("ks", ks), ("k_epsilons", k_epsilons), ("scenarios", scenarios)):
        if value is not None and table != "mcgen":
            raise SettingError(f"{name} ({_listed(value)}) cannot be chosen for {table}; leave it out")
        common |= {} if value is None else {name: tuple(value)}
    if table == "peers":
        common["cache"] = cache or file.parent / ENVIRONMENTS
    return write(_MAKERS[table](**common), file)


_MAKERS: dict[str, Callable[..., dict[str, Any]]] = {
    "table1": table1,
    "mcgen": mcgen,
    "peers": peers,
    "sweep": sweep,
    "ablations": ablations,
}


_DRAWN: dict[str, dict[str, Callable[[dict[str, Any]], str | None]]] = {
    "mcgen": {"-epsilon.svg": mcgen_charts.by_epsilon, "-k.svg": mcgen_charts.by_k},
    "ablations": {".svg": ablation_charts.charts},
}
"""Pictures of a table, by how their names end."""


def _only(epsilons: Sequence[float], table: str) -> float:
    if len(epsilons) != 1:
        raise SettingError(f"epsilons ({_listed(epsilons)}) must be one for {table}; mcgen and sweep take several")
    return epsilons[0]


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _checked_file(out: str | PathLike[str]) -> Path:
    """Return where the result goes, after checking that it can."""
    file = Path(out)
    if file.suffix != ".json":
        raise SettingError(f"out ({out}) must end in .json; Markdown and HTML are written beside it")
    if not file.absolute().parent.is_dir():
        raise SettingError(f"out ({out}): folder {file.absolute().parent} does not exist; make it first")
    if not os.access(file.absolute().parent, os.W_OK):
        raise SettingError(f"out ({out}): folder {file.absolute().parent} is not writable; choose another")
    return file


def write(result: dict[str, Any], out: Path) -> list[Path]:
    """Write a result as JSON, Markdown and HTML, and its pictures as SVG; each appears whole or not at all.

    Raises:
        SettingError: It cannot be written.
    """
    texts = {
        ".json": to_json(result),
        ".md": markdown(result),
        ".html": html(result),
    }
    for ending, draw in _DRAWN.get(result["table"], {}).items():
        drawn = draw(result)
        texts |= {ending: drawn} if drawn else {}
    files = []
    for ending, text in texts.items():
        file = out.with_name(out.stem + ending)
        write_whole(file, text)
        files.append(file)
    return files


__all__ = ["TABLES", "ablations", "benchmark", "html", "markdown", "mcgen", "peers", "sweep", "table1", "write"]
