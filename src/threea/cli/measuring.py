"""The commands that measure: evaluate a release, audit a recipe, make a benchmark's table (in a clone of threea).

Exit codes as everywhere, and one more: `audit` ends with 1 if it caught the recipe at leaking more than it claims.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from threea.cli import config, terminal
from threea.cli.options import (
    Config,
    DateFormat,
    Decimal,
    DryRun,
    Encoding,
    Json,
    Multiline,
    Separator,
    Sheet,
    recipe_names,
)
from threea.errors import SettingError

VIOLATED = 1
"""The exit code of an audit that caught a recipe."""


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for command in (evaluate, audit, benchmark):
        app.command()(command)


def evaluate(
    context: typer.Context,
    release: Annotated[Path, typer.Argument(metavar="DIR", help="A folder made by `threea release`.")],
    train: Annotated[Path, typer.Option(metavar="DATA", help="The private rows that the release was made from.")],
    holdout: Annotated[Path, typer.Option(metavar="DATA", help="Real rows of the same kind, kept out of the release.")],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A new or empty folder; DIR-evaluation by default.")
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="The column that names a person, if the release's certificate names none.")
    ] = None,
    separator: Separator = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    date_format: DateFormat = None,
    multiline: Multiline = False,
    sheet: Sheet = None,
    dry_run: DryRun = False,
    config_file: Config = None,
    as_json: Json = False,
) -> None:
    """Measure what a release is worth and what it gives away. It reads private rows: its report is for the owner."""
    from threea.evaluate.evaluation import check_place, save
    from threea.evaluate.evaluation import evaluate as measure
    from threea.evaluate.evidence import Evidence
    from threea.evaluate.owner_report import NOTICE, answers
    from threea.table.dialect import dialect_of

    dialect = dialect_of(separator, encoding, decimal, date_format, sheet, multiline=multiline)
    folder = check_place(release, out)
    terminal.say(config.told(context), skip_empty=True)
    told = {"notice": NOTICE, "dry_run": dry_run, "from_config": config.taken(context), "out": folder}
    with terminal.progress("Reading the tables"):
        evidence = Evidence.load(release, train, holdout, dialect, unit)
    if dry_run:
        terminal.say(f"{folder}: the tables fit the release. A rehearsal: nothing was measured, nothing written.")
        terminal.result(told)
        return
    with _status("Evaluating") as tell:
        scores = measure(evidence, progress=tell)
    files = save(scores, evidence, folder)
    for warning in scores["warnings"]:
        terminal.complain(f"warning: {warning}")
    found = answers(scores)
    for answer in found:
        terminal.say(f"{answer.question} {answer.verdict}. {answer.text}")
    terminal.say(f"{NOTICE}. Files:")
    for file in files:
        terminal.name(file)
    plain = [{"question": each.question, "verdict": each.verdict, "text": each.text} for each in found]
    terminal.result({**told, "answers": plain, "warnings": scores["warnings"], "files": files})


def audit(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="See `threea recipes`.", autocompletion=recipe_names)],
    epsilon: Annotated[str, typer.Option(metavar="NUMBER", help="The claim to test.")] = "1",
    delta: Annotated[str, typer.Option(metavar="NUMBER", help="The claim's delta.")] = "1e-6",
    trials: Annotated[int, typer.Option(help="Runs on each side of each pair of tables.")] = 1000,
    replay: Annotated[
        bool, typer.Option("--replay", help="Exactly: what every question could change by, against its price.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Where to write the result as JSON; an audit broken off goes on from there.")
    ] = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Try to catch a recipe at leaking more than it claims. Exit code 0: not caught, 1: caught."""
    from threea.audit import audit as attack
    from threea.audit.pairs import PAIRS
    from threea.json_files import to_json, write_whole

    claimed, apart = terminal.number("epsilon", epsilon), terminal.number("delta", delta)
    if dry_run:
        _rehearse_audit(recipe, claimed, apart, None if replay else trials, out)
        return
    if replay:
        _replay(recipe, claimed, apart, out)
        return
    record = None if out is None else _record(out)
    with terminal.progress(f"Auditing {recipe}", total=2 * trials * len(PAIRS)) as advance:
        result = attack(
            recipe,
            epsilon=claimed,
            delta=apart,
            trials=trials,
            workers=_cores(),
            record=record,
            progress=None if advance is None else lambda done, _: advance(done),
        )
    _show_audit(result)
    if out is not None and record is not None:
        write_whole(out, to_json(result))
        record.unlink(missing_ok=True)
        terminal.name(out)
    terminal.result(result)
    if result["violation"]:
        raise typer.Exit(VIOLATED)


def _rehearse_audit(name: str, epsilon: float, delta: float, trials: int | None, out: Path | None) -> None:
    """Say how much an audit would do; None trials for a replay."""
    from threea.audit import check_trials
    from threea.audit.pairs import PAIRS
    from threea.audit.replay import settings
    from threea.budget import Budget
    from threea.session import make_recipe

    make_recipe(name)
    Budget(epsilon, delta)
    if trials is not None:
        check_trials(trials)
    if out is not None:
        _record(out)
    pairs = len(list(settings())) if trials is None else len(PAIRS)
    runs = f"replays on {pairs} pairs of tables" if trials is None else f"{2 * trials * pairs:,} runs on {pairs} pairs"
    terminal.say(f"{name}: {runs}. A rehearsal: nothing was run, nothing written.")
    terminal.result({"dry_run": True, "recipe": name, "replay": trials is None, "pairs": pairs, "trials": trials})


def _replay(name: str, epsilon: float, delta: float, out: Path | None) -> None:
    """Replay a recipe on neighbouring tables, and show each question's price beside the worst change found."""
    import dataclasses

    from threea.audit.replay import replay, settings, verdict
    from threea.budget import Budget
    from threea.json_files import to_json, write_whole
    from threea.session import make_recipe

    recipe = make_recipe(name)
    if out is not None:
        _record(out)
    with terminal.progress(f"Replaying {name}", total=len(list(settings()))) as advance:
        questions = replay(
            recipe, budget=Budget(epsilon, delta), progress=None if advance is None else lambda done, _: advance(done)
        )
    rows = [
        [question.line, question.event, f"{question.worst:.6f}", f"{question.tightest:.4f}", question.where]
        for question in questions
    ]
    terminal.table(["question", "event", "worst change / price", "any row / price", "worst on"], rows)
    terminal.say(f"{verdict(questions)}.")
    listed = [dataclasses.asdict(question) | {"over": question.over} for question in questions]
    result = {"recipe": name, "epsilon": epsilon, "delta": delta, "questions": listed}
    if out is not None:
        write_whole(out, to_json(result))
        terminal.name(out)
    terminal.result(result)
    if any(question.over for question in questions):
        raise typer.Exit(VIOLATED)


def benchmark(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="table1, mcgen, peers, sweep, ablations or figures.")],
    data: Annotated[
        Path, typer.Option(metavar="DIR", envvar="THREEA_DATA", help="The folder that holds the datasets.")
    ] = Path("data"),
    datasets: Annotated[str | None, typer.Option(metavar="A,B", help="By default the table's own.")] = None,
    recipes: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="By default the table's. With settings: clustmix:alpha=0.5. Peers also takes 'mbi MST'.",
        ),
    ] = None,
    epsilon: Annotated[
        str | None,
        typer.Option(
            "--epsilon", "--epsilons", metavar="X,Y", help="Of every release; mcgen and sweep take several numbers."
        ),
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="How many splits; by default the table's.")] = None,
    ks: Annotated[
        str | None,
        typer.Option(metavar="X,Y", help="mcgen: shares of the rows in a cluster; 'none' for the recipes' own alone."),
    ] = None,
    k_epsilons: Annotated[
        str | None, typer.Option(metavar="X,Y", help="mcgen: at which of the epsilons k is varied; at all by default.")
    ] = None,
    scenarios: Annotated[str | None, typer.Option(metavar="1,2", help="mcgen: which of its two scenarios.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="A .json file, TABLE.json by default; a run broken off goes on from there. Of figures, a folder."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure recipes on public datasets: a table as JSON, Markdown and HTML; or draw the ClustMix paper's figures."""
    if table == "figures":
        others = {"datasets": datasets, "recipes": recipes, "epsilon": epsilon, "seeds": seeds, "ks": ks}
        _draw_figures(data, out, {**others, "k_epsilons": k_epsilons, "scenarios": scenarios})
        return
    command = _from_repository("benchmarks.command")
    with _status(f"Measuring {table}", keep=True) as tell:
        files = command.benchmark(
            table,
            data=data,
            out=Path(f"{table}.json") if out is None else out,
            datasets=_names(datasets),
            recipes=_names(recipes),
            epsilons=_numbers("epsilon", epsilon),
            seeds=seeds,
            ks=[] if ks == "none" else _numbers("ks", ks),
            k_epsilons=_numbers("k_epsilons", k_epsilons),
            scenarios=_numbers("scenarios", scenarios),
            progress=tell,
        )
    _show_files(files)


def _draw_figures(data: Path, out: Path | None, others: dict[str, object]) -> None:
    figures = _from_repository("benchmarks.figures")
    for name, value in others.items():
        if value is not None:
            raise SettingError(f"{name} ({value}) cannot be chosen for figures; leave it out")
    with _status("Drawing figures", keep=True) as tell:
        folder = figures.FOLDER if out is None else out
        files = figures.figures(folder, data=data, progress=tell, left_out=terminal.complain)
    _show_files(files)


def _show_files(files: Sequence[Path]) -> None:
    for file in files:
        terminal.name(file)
    terminal.result({"files": files})


def _from_repository(module: str) -> Any:
    """Import a module of the benchmarks, which are in the repository and not in the package.

    Looked for in the working folder, then in the folder that threea was installed from if it is a clone (an editable
    install); nowhere else, for another project's `benchmarks` must not run in their place.

    Raises:
        SettingError: There is no clone of the repository to be found.
    """
    import threea

    folders = (Path.cwd(), Path(threea.__file__).resolve().parents[2])
    clone = next((str(folder) for folder in folders if _is_clone(folder)), None)
    if clone is None:
        raise SettingError(
            "the benchmarks are not part of the package; clone the threea repository and run this in its folder"
        )
    # First, for a package that is installed may bring a `benchmarks` of its own.
    if sys.path[0] != clone:
        sys.path.insert(0, clone)
    return importlib.import_module(module)


def _is_clone(folder: Path) -> bool:
    """Whether a folder is the root of a clone of threea."""
    return all((folder / name).is_file() for name in ("src/threea/__init__.py", "benchmarks/command.py"))


def _names(text: str | None) -> list[str] | None:
    """Split names at commas, but for those between a recipe's settings: `clustmix-published:alpha=0.5`."""
    names: list[str] = []
    for part in (text or "").split(","):
        within = names and ":" in names[-1] and ":" not in part and ("=" in part or part.strip().isdigit())
        if within:
            names[-1] += f",{part.strip()}"
        elif part.strip():
            names.append(part.strip())
    return None if text is None else names


def _numbers(name: str, text: str | None) -> list[float] | None:
    """Read numbers between commas."""
    return None if text is None else [terminal.number(name, part.strip()) for part in text.split(",")]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _record(out: Path) -> Path:
    """Return where an audit's runs are kept until it is done, after checking that its result can be written."""
    parent = out.absolute().parent
    if out.exists():
        raise SettingError(f"out ({out}) exists already; remove it or choose another name")
    if not parent.is_dir():
        raise SettingError(f"out ({out}): folder {parent} does not exist; make it first")
    if not os.access(parent, os.W_OK):
        raise SettingError(f"out ({out}): folder {parent} is not writable; choose another")
    return out.with_name(f"{out.name}.runs.jsonl")


def _show_audit(result: dict[str, Any]) -> None:
    best: dict[str, dict[str, Any]] = {}
    for bound in result["bounds"]:
        best[bound["pair"]] = max(best.get(bound["pair"], bound), bound, key=lambda candidate: candidate["epsilon"])
    rows = [
        [
            pair,
            f"{bound['statistic']} ({bound['box']}-box)" if bound["epsilon"] else "none",
            f"{bound['epsilon']:.3f}",
            f"{result['epsilon']:g}",
            "violated" if bound["epsilon"] > result["epsilon"] else "",
        ]
        for pair, bound in best.items()
    ]
    terminal.table(["pair", "best statistic", "lower bound", "claimed", ""], rows)
    for failure in result["failures"]:
        terminal.say(
            f"{failure['runs']} runs {failure['side']} the target of {failure['pair']} ended in {failure['error']}"
        )
    terminal.say(f"{result['verdict']}.")
    terminal.say(
        f"{result['trials']} runs on each side can show an epsilon of at most {result['could_show']:.3g} directly."
    )


@contextmanager
def _status(what: str, *, keep: bool = False) -> Iterator[Callable[[str], None] | None]:
    """Show on a terminal what goes on, and keep each line if it is a result; be quiet elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True)
    with console.status(Text(what)) as status:

        def tell(step: str) -> None:
            if keep:
                console.print(Text(step))
            else:
                status.update(Text(f"{what}: {step}"))

        yield tell
