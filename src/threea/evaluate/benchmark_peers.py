"""Other libraries beside ours: the same rows, the same bins, one core; score, time and memory from the same run."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import threea
from threea import codec
from threea.certificate import Guarantee
from threea.datasets import Dataset
from threea.errors import InternalError, SettingError
from threea.evaluate.benchmark_cells import Cell, CellFile, Key, Progress, shown, summary
from threea.evaluate.benchmark_environments import Environments, Unavailable
from threea.evaluate.benchmark_work import about, checked, facts, learner_settings, loaded, scored, versions
from threea.framework import Recipe
from threea.schema import Schema

DATASETS = ("adult32", "pima", "phishing")
LEARNER = "lightgbm"
BINS = 32
"""Bins of a numeric column, for every peer."""
LONGEST = 3600.0
"""Seconds after which a run is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Another library's mechanism.

    Args:
        package: Names its environment.
        requirements: What pip installs there.
        script: Runs it, in the folder of scripts.
        mechanism: Which of the script's mechanisms.
    """

    package: str
    requirements: tuple[str, ...]
    script: str
    mechanism: str


_MBI = ("mbi==2.0.0", "pandas", "pyarrow")
_SMARTNOISE = ("smartnoise-synth==1.0.8", "pandas", "pyarrow")
# Its NumPy is older than what later releases of pyarrow need.
_DPMM = ("dpmm==0.1.9", "pyarrow>=15,<18")
PEERS = {
    "mbi MST": Peer(package="mbi", requirements=_MBI, script="mbi_mechanisms.py", mechanism="mst"),
    "mbi AIM": Peer(package="mbi", requirements=_MBI, script="mbi_mechanisms.py", mechanism="aim"),
    "dpmm MST": Peer(package="dpmm", requirements=_DPMM, script="dpmm_mst.py", mechanism="mst"),
    "SmartNoise MST": Peer(package="smartnoise", requirements=_SMARTNOISE, script="smartnoise.py", mechanism="mst"),
    "SmartNoise AIM": Peer(package="smartnoise", requirements=_SMARTNOISE, script="smartnoise.py", mechanism="aim"),
}


def peers(
    datasets: Sequence[str] | None = None,
    recipes: Sequence[str] | None = None,
    epsilon: float = 1.0,
    seeds: int = 3,
    *,
    data: str | PathLike[str],
    cache: str | PathLike[str],
    methods: Sequence[str] | None = None,
    scripts: str | PathLike[str] | None = None,
    longest: float = LONGEST,
    cells: str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Measure peers and our recipes, each in a process of its own on one core.

    Args:
        datasets: Names; only those with a public schema can be binned alike for all.
        recipes: Names of ours; all by default.
        epsilon: Of every release; delta is the dataset's.
        seeds: How many splits.
        data: The folder that holds the datasets.
        cache: Where the peers' environments are made and kept.
        methods: Which of `PEERS`; all by default.
        scripts: The folder of the peers' scripts; the repository's by default.
        longest: Seconds after which a run is given up.
        cells: Where finished cells are kept, to go on from after a break.
        progress: Told of each cell.

    Returns:
        table, epsilon, seeds, learner, bins, versions, recipes; lines, a list of dataset, title, metric, method, ours
        (whether it is a recipe) and result, a `benchmark_cells.summary` with seconds (fit and sample) and
        peak_memory_mb; skipped, a list of dataset or method, and reason.

    Raises:
        SettingError: A name or number is wrong, or the scripts are not there.
        InputError: No dataset can be read.
    """
    names = DATASETS if datasets is None else tuple(datasets)
    chosen = checked(names, recipes, [epsilon], seeds)
    others = _methods(methods)
    folder = _scripts(scripts)
    environments, store = Environments(Path(cache)), CellFile(cells)
    lines: list[dict[str, Any]] = []
    skipped: list[dict[str, str]] = []
    for name, dataset in loaded(names, data):
        if isinstance(dataset, str) or dataset.schema is None:
            reason = dataset if isinstance(dataset, str) else "skipped: no public schema, so no bins that all share"
            skipped.append({"what": name, "reason": reason})
            continue
        for method in ("real", *chosen, *others):
            runner = _Runner(dataset, method, chosen.get(method), others.get(method), epsilon, folder, longest)
            try:
                cells_found = [_cell(runner, seed, environments, store, progress) for seed in range(seeds)]
            except Unavailable as reason:
                skipped.append({"what": method, "reason": f"skipped: {reason}"})
                others = {one: peer for one, peer in others.items() if one != method}
                continue
            about_data = {key: facts(dataset)[key] for key in ("dataset", "title", "metric", "delta")}
            lines.append({**about_data, "method": method, "ours": method in chosen, "result": summary(cells_found)})
    return {
        "table": "peers",
        "epsilon": epsilon,
        "seeds": seeds,
        "learner": LEARNER,
        "bins": BINS,
        "versions": versions(),
        "recipes": about(chosen),
        "lines": lines,
        "skipped": skipped,
    }


def _methods(methods: Sequence[str] | None) -> dict[str, Peer]:
    for name in methods or ():
        if name not in PEERS:
            raise SettingError(f"method ({name}) is unknown; known: {', '.join(PEERS)}")
    return {name: PEERS[name] for name in (PEERS if methods is None else methods)}


def _scripts(scripts: str | PathLike[str] | None) -> Path:
    folder = Path(scripts) if scripts else Path(threea.__file__).parents[2] / "benchmarks" / "peers"
    if not (folder / "exchange.py").is_file():
        raise SettingError(f"scripts ({folder}) of the peers are not there; run this from the project's repository")
    return folder


@dataclass(frozen=True, slots=True)
class _Runner:
    """One method on one dataset."""

    dataset: Dataset
    method: str
    recipe: Recipe | None
    peer: Peer | None
    epsilon: float
    scripts: Path
    longest: float

    def key(self, seed: int) -> Key:
        settings: dict[str, Any] = {
            "table": "peers",
            "learner": learner_settings(LEARNER),
            "rows": self.dataset.table.num_rows,
            "epsilon": self.epsilon,
            "delta": self.dataset.delta,
            "bins": BINS,
            "threea": threea.__version__,
        }
        if self.recipe is not None:
            settings["recipe"] = about({self.method: self.recipe})[self.method]["settings"]
        if self.peer is not None:
            program = hashlib.sha256((self.scripts / self.peer.script).read_bytes()).hexdigest()
            settings |= {"requirements": list(self.peer.requirements), "script": program}
        return Key(self.dataset.name, self.method, seed, settings)

    def work(self, seed: int, python: str) -> Cell:
        train, test = self.dataset.split(seed)
        synthetic, made = (train, {}) if self.method == "real" else self.run(train, seed, python)
        figures = scored(self.dataset, real=train, train=synthetic, test=test, names=[LEARNER], seed=seed)[LEARNER]
        return made | figures | {"score": figures[self.dataset.metric]}

    def run(self, train: pa.Table, seed: int, python: str) -> tuple[pa.Table, Cell]:
        """Run the method's script on the training rows; return its rows, and what it took."""
        schema = self.dataset.schema
        if schema is None:
            raise InternalError("peers need a public schema")
        schema = codec.fit(schema, train.schema)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            job = {"epsilon": self.epsilon, "delta": self.dataset.delta, "seed": seed, "rows": train.num_rows}
            if self.peer is not None:
                job |= {"mechanism": self.peer.mechanism, "domain": write_codes(train, schema, folder)}
            elif self.recipe is not None:
                unproven = self.recipe.guarantee is not Guarantee.PROVEN
                job |= {"recipe": self.method, "accept_unproven": unproven}
                pq.write_table(train, folder / "train.parquet")
                (folder / "schema.toml").write_text(schema.to_toml(), encoding="utf-8")
            (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
            script = self.scripts / (self.peer.script if self.peer else "threea_recipe.py")
            _run(python, script, folder, self.longest)
            report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
            rows = pq.read_table(folder / "synthetic.parquet")
            synthetic = read_codes(rows, schema, train.schema, seed) if self.peer else rows
        promised = str(self.recipe.guarantee) if self.recipe else "the peer's own"
        taken = {"seconds": report["fit_seconds"] + report["sample_seconds"], "guarantee": promised}
        return synthetic, report | taken | {"rows": synthetic.num_rows}


def _cell(runner: _Runner, seed: int, environments: Environments, store: CellFile, progress: Progress | None) -> Cell:
    key = runner.key(seed)
    python = sys.executable
    if runner.peer is not None and key not in store:
        python = environments.python(runner.peer.package, runner.peer.requirements)
    cell = store.measured(key, lambda: runner.work(seed, python))
    if progress:
        progress(f"{runner.dataset.name}, {runner.method}, seed {seed}: {shown(cell, runner.dataset.metric)}")
    return cell


def _run(python: str, script: Path, folder: Path, longest: float) -> None:
    one_core = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [python, str(script), str(folder)]
    try:
        done = subprocess.run(  # noqa: S603  (our own script, under an interpreter that we made or run in)
            command, env=os.environ | one_core, capture_output=True, text=True, errors="replace", timeout=longest
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"took more than {longest:g} s") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise RuntimeError(f"exit code {done.returncode}: {last}")


def write_codes(train: pa.Table, schema: Schema, folder: Path) -> dict[str, int]:
    """Write a table as whole numbers, each column's cells counted from 0; return how many cells each has.

    Columns are renamed, for some libraries take names for expressions. A value without a cell goes to the first.
    """
    chunk = codec.encode(train, schema)
    cells = [column.cells(BINS) for column in schema.modelled]
    codes = {f"c{place}": np.maximum(one.index(chunk[one.column]), 0) for place, one in enumerate(cells)}
    pq.write_table(pa.table(codes), folder / "codes.parquet")
    return {f"c{place}": one.size for place, one in enumerate(cells)}


def read_codes(codes: pa.Table, schema: Schema, layout: pa.Schema, seed: int) -> pa.Table:
    """Turn codes back into rows, drawing a value from each cell."""
    rng = np.random.default_rng(seed)
    chunk = {
        column.name: column.cells(BINS).draw(codes[f"c{place}"].to_numpy().astype(np.int64), rng)
        for place, column in enumerate(schema.modelled)
    }
    return pa.Table.from_batches([codec.decode(chunk, schema, layout)])
