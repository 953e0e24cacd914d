"""Other libraries beside ours: the same rows, the same bins, one core; all figures of a line from the same run."""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import json
import os
import signal
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
from benchmarks.cells import Cell, CellFile, Key, Progress, shown, spread, summary
from benchmarks.datasets import Dataset
from benchmarks.environments import Environments, Unavailable
from benchmarks.measure import about, checked, facts, learner_settings, loaded, scored, versions
from threea.certificate import Guarantee
from threea.errors import InternalError, SettingError
from threea.evaluate.fidelity import marginals
from threea.framework import Recipe
from threea.recipes import RECIPES
from threea.table import codec
from threea.table.schema import Schema

DATASETS = ("adult32", "census", "pima", "phishing")
LEARNER = "lightgbm"
REAL = "real"
BINS = 32
"""Bins of a numeric column whose edges the schema leaves open, for every peer."""
DISTANCES = ("tv1", "tv2", "tv3")
"""Mean total variation distance of columns, pairs and triples to the training rows."""
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
    "mbi AIM (8 MB)": Peer(package="mbi", requirements=_MBI, script="mbi_mechanisms.py", mechanism="aim-small"),
    "dpmm MST": Peer(package="dpmm", requirements=_DPMM, script="dpmm_pipelines.py", mechanism="mst"),
    "dpmm AIM": Peer(package="dpmm", requirements=_DPMM, script="dpmm_pipelines.py", mechanism="aim"),
    "dpmm PrivBayes": Peer(package="dpmm", requirements=_DPMM, script="dpmm_pipelines.py", mechanism="privbayes"),
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
    bins: Sequence[int] = (BINS,),
    scripts: str | PathLike[str] | None = None,
    longest: float = LONGEST,
    cells: str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Measure peers and our recipes, each in a process of its own on one core.

    A peer that cannot be installed, fails or takes too long is a line that says so.

    Args:
        datasets: Names; only those with a public schema can be binned alike for all.
        recipes: Names of ours, also with settings, and of `PEERS`; all by default.
        epsilon: Of every release; delta is the dataset's.
        seeds: How many splits.
        data: The folder that holds the datasets.
        cache: Where the peers' environments are made and kept.
        bins: How many bins peers get for a numeric column, cut by the public schema as for our recipes; peers are
            measured with each of these numbers.
        scripts: The folder of the peers' scripts; the repository's by default.
        longest: Seconds after which a run is given up, and with it the method's other seeds on that dataset.
        cells: Where finished cells are kept, to go on from after a break.
        progress: Told of each cell.

    Returns:
        table, epsilon, seeds, learner, bins, marginal_bins, versions, recipes; lines, a list of dataset, title, metric,
        delta, method, ours (whether it is a recipe), bins (a peer's), result, a `cells.summary` with seconds
        (fit and sample) and peak_memory_mb, accuracy (mean and stdev), and tv1, tv2, tv3, the mean total variation
        distance to the training rows of columns, pairs and triples (mean and stdev; of the rows held out for
        ``real``); skipped, a list of what and reason.

    Raises:
        SettingError: A name or number is wrong, or the scripts are not there.
        InputError: No dataset can be read.
    """
    names = DATASETS if datasets is None else tuple(datasets)
    ours, others = _named(recipes)
    chosen = checked(names, ours, [epsilon], seeds)
    _check_bins(bins)
    folder = _scripts(scripts)
    environments, store = Environments(Path(cache)), CellFile(cells)
    methods: list[tuple[str, Recipe | None, Peer | None, int]] = [(REAL, None, None, BINS)]
    methods += [(name, recipe, None, BINS) for name, recipe in chosen.items()]
    methods += [(name, None, peer, count) for name, peer in others.items() for count in bins]
    lines: list[dict[str, Any]] = []
    skipped: list[dict[str, str]] = []
    for name, dataset in loaded(names, data):
        if isinstance(dataset, str) or dataset.schema is None:
            reason = dataset if isinstance(dataset, str) else "skipped: no public schema, so no bins that all share"
            skipped.append({"what": name, "reason": reason})
            continue
        for method, recipe, peer, count in methods:
            runner = _Runner(dataset, method, recipe, peer, count, epsilon, folder, longest)
            lines.append(_line(runner, _cells(runner, seeds, environments, store, progress)))
    return {
        "table": "peers",
        "epsilon": epsilon,
        "seeds": seeds,
        "learner": LEARNER,
        "bins": list(bins),
        "marginal_bins": marginals.BINS,
        "versions": versions(),
        "recipes": about(chosen),
        "lines": lines,
        "skipped": skipped,
    }


def _named(names: Sequence[str] | None) -> tuple[list[str], dict[str, Peer]]:
    """Divide names into our recipes and peers, which are known whatever their letters' case."""
    if names is None:
        return list(RECIPES), PEERS
    folded = {name.casefold(): name for name in PEERS}
    ours = [name for name in names if name.partition(":")[0] in RECIPES]
    others = {folded[name.casefold()]: PEERS[folded[name.casefold()]] for name in names if name.casefold() in folded}
    for name in names:
        if name not in ours and name.casefold() not in folded:
            close = difflib.get_close_matches(name.casefold(), [*RECIPES, *folded], n=1, cutoff=0.5)
            guess = f"did you mean {folded.get(close[0], close[0])}? " if close else ""
            known = ", ".join([*RECIPES, *PEERS])
            raise SettingError(f"recipe ({name}) is neither ours nor a peer's; {guess}known: {known}")
    return ours, others


def _check_bins(bins: Sequence[int]) -> None:
    if not bins or not all(isinstance(count, int) and 2 <= count <= 1024 for count in bins):
        raise SettingError(f"bins ({', '.join(map(str, bins))}) must be whole numbers from 2 to 1024, at least one")


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
    bins: int
    epsilon: float
    scripts: Path
    longest: float

    def key(self, seed: int) -> Key:
        settings: dict[str, Any] = {
            "table": "peers",
            "learner": learner_settings(LEARNER),
            "rows": self.dataset.table.num_rows,
            "marginals": [marginals.BINS, marginals.PAIRS, marginals.TRIPLES],
            "threea": threea.__version__,
        }
        if self.method != REAL:
            settings |= {"epsilon": self.epsilon, "delta": self.dataset.delta}
        if self.recipe is not None:
            settings["recipe"] = about({self.method: self.recipe})[self.method]["settings"]
        if self.peer is not None:
            files = (self.scripts / name for name in (self.peer.script, "exchange.py"))
            program = hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()
            settings |= {"requirements": list(self.peer.requirements), "script": program, "bins": self.bins}
        return Key(self.dataset.name, self.method, seed, settings)

    def work(self, seed: int, environments: Environments) -> Cell:
        train, test = self.dataset.split(seed)
        schema = self.schema(train)
        synthetic, made = train, Cell()
        if self.method != REAL:
            try:
                python = sys.executable
                if self.peer is not None:
                    python = environments.python(self.peer.package, self.peer.requirements)
                synthetic, made = self.run(train, schema, seed, python)
            except Unavailable as reason:
                return {"error": f"error: {reason}", "hopeless": True}
            except _TooLong as reason:
                return {"error": f"error: {reason}", "hopeless": True, "given_up": self.longest}
        figures = scored(self.dataset, real=train, train=synthetic, test=test, names=[LEARNER], seed=seed)[LEARNER]
        compared = test if self.method == REAL else synthetic
        # The seed is fixed, so that all seeds and methods are compared on the same pairs and triples.
        left, right = (marginals.Sorted.of(table, schema, seed=0) for table in (train, compared))
        return made | figures | {"score": figures[self.dataset.metric]} | marginals.mean_total_variation(left, right, 0)

    def schema(self, train: pa.Table) -> Schema:
        if self.dataset.schema is None:
            raise InternalError("peers need a public schema")
        return codec.fit(self.dataset.schema, train.schema)

    def run(self, train: pa.Table, schema: Schema, seed: int, python: str) -> tuple[pa.Table, Cell]:
        """Run the method's script on the training rows; return its rows, and what it took."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            job = {"epsilon": self.epsilon, "delta": self.dataset.delta, "seed": seed, "rows": train.num_rows}
            if self.peer is not None:
                job |= {"mechanism": self.peer.mechanism, "domain": write_codes(train, schema, folder, self.bins)}
            elif self.recipe is not None:
                unproven = self.recipe.guarantee is not Guarantee.PROVEN
                settings = dataclasses.asdict(self.recipe)
                job |= {"recipe": self.recipe.name, "settings": settings, "accept_unproven": unproven}
                pq.write_table(train, folder / "train.parquet")
                (folder / "schema.toml").write_text(schema.to_toml(), encoding="utf-8")
            (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
            script = self.scripts / (self.peer.script if self.peer else "threea_recipe.py")
            _run(python, script, folder, self.longest)
            report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
            rows = pq.read_table(folder / "synthetic.parquet")
            synthetic = read_codes(rows, schema, train.schema, seed, self.bins) if self.peer else rows
        promised = str(self.recipe.guarantee) if self.recipe else "the peer's own"
        taken = {"seconds": report["fit_seconds"] + report["sample_seconds"], "guarantee": promised}
        return synthetic, report | taken | {"rows": synthetic.num_rows}


def _cells(
    runner: _Runner, seeds: int, environments: Environments, store: CellFile, progress: Progress | None
) -> list[Cell]:
    cells = []
    for seed in range(seeds):
        # What was given up after as long a time would be given up again.
        cell = store.measured(
            runner.key(seed),
            lambda seed=seed: runner.work(seed, environments),  # type: ignore[misc]
            again=lambda cell: "error" in cell and cell.get("given_up", 0.0) < runner.longest,
        )
        cells.append(cell)
        if progress:
            progress(f"{runner.dataset.name}, {runner.method}, seed {seed}: {shown(cell, runner.dataset.metric)}")
        if cell.get("hopeless"):
            break
    return cells


def _line(runner: _Runner, cells: Sequence[Cell]) -> dict[str, Any]:
    about_data = {key: facts(runner.dataset)[key] for key in ("dataset", "title", "metric", "delta")}
    return {
        **about_data,
        "method": runner.method,
        "ours": runner.recipe is not None,
        "bins": runner.bins if runner.peer else None,
        "result": summary(cells),
        **{figure: spread(cells, figure) for figure in ("accuracy", *DISTANCES)},
    }


class _TooLong(Exception):
    """A run was given up."""


def _run(python: str, script: Path, folder: Path, longest: float) -> None:
    one_core = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    process = subprocess.Popen(
        [python, str(script), str(folder)],
        env=os.environ | one_core,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        complaint = process.communicate(timeout=longest)[1]
    except subprocess.TimeoutExpired:
        raise _TooLong(f"took more than {longest:g} s") from None
    finally:
        if process.poll() is None:
            # Its workers, too, and also when this run is broken off: they would go on, or hold the pipe open.
            os.killpg(process.pid, signal.SIGKILL) if hasattr(os, "killpg") else process.kill()
            process.communicate()
    if process.returncode:
        last = (complaint.strip().splitlines() or ["no message"])[-1]
        raise RuntimeError(f"exit code {process.returncode}: {last}")


def write_codes(train: pa.Table, schema: Schema, folder: Path, bins: int = BINS) -> dict[str, int]:
    """Write a table as whole numbers, each column's cells counted from 0; return how many cells each has.

    Columns are renamed, for some libraries take names for expressions. A value without a cell goes to the first.
    """
    chunk = codec.encode(train, schema)
    cells = [column.cells(bins) for column in schema.modelled]
    codes = {f"c{index}": np.maximum(cell.index(chunk[cell.column]), 0) for index, cell in enumerate(cells)}
    pq.write_table(pa.table(codes), folder / "codes.parquet")
    return {f"c{index}": cell.size for index, cell in enumerate(cells)}


def read_codes(codes: pa.Table, schema: Schema, layout: pa.Schema, seed: int, bins: int = BINS) -> pa.Table:
    """Turn codes back into rows, drawing a value from each cell."""
    rng = np.random.default_rng(seed)
    chunk = {
        column.name: column.cells(bins).draw(codes[f"c{index}"].to_numpy().astype(np.int64), rng)
        for index, column in enumerate(schema.modelled)
    }
    return pa.Table.from_batches([codec.decode(chunk, schema, layout)])
