"""From a confirmed schema to a release: budget, receipt, run, result, more rows."""

from __future__ import annotations

import asyncio
import glob
import json
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse

from threea.certificate import Guarantee
from threea.errors import BudgetRefused, SettingError, ThreeaError
from threea.ledger import Ledger
from threea.report import words
from threea.studio import pictures, reading
from threea.studio.choices import NEW_LEDGER, Choices, number, whole
from threea.studio.gate import SEALED
from threea.studio.jobs import Job
from threea.studio.rendering import page, read_form, redirect, run_in_threadpool, studio_of, table_of, text_of
from threea.studio.state import OpenTable, Question, Receipt, Studio
from threea.studio.told import in_fields

FILES = ("synthetic.parquet", "synthetic.csv", "certificate.json", "report.html", "schema.toml", "model.threea")
"""What a release may hold, and is handed out."""
MOST_DRAWN, _MOST_SHOWN = 10_000_000, 100_000
_PAUSE = 0.2


async def show_budget(request: Request) -> Response:
    """Ask for the budget and where the release goes."""
    studio, table = studio_of(request), table_of(request)
    if not table.described:
        return redirect(request, f"table/{table.id}")
    if table.choices is not None:
        return await _budget_page(request, table, table.choices)
    return await _budget_page(request, table, await run_in_threadpool(_first_choices, studio, table))


def _first_choices(studio: Studio, table: OpenTable) -> Choices:
    ledgers, dataset = accounts(studio), studio.dataset_name(table)
    # The one that knows the dataset, if any does.
    ledgers.sort(key=lambda ledger: not any(row.name == dataset for row, _ in ledger["datasets"]))
    return Choices(
        form="csv" if table.has_dialect else "parquet",
        out=studio.free_name(table),
        dataset=dataset,
        ledger=f"file:{ledgers[0]['name']}" if ledgers else NEW_LEDGER,
        max_rows_per_unit="3" if table.kind == "demo" else "1",
    )


async def _budget_page(
    request: Request, table: OpenTable, choices: Choices, problem: Exception | None = None
) -> Response:
    studio = studio_of(request)
    ledgers = await run_in_threadpool(accounts, studio)
    epsilon, delta = _drawn(choices)
    return page(
        request,
        "budget",
        status=409 if isinstance(problem, BudgetRefused) else 200,
        problem=problem,
        table=table,
        choices=choices,
        ledgers=ledgers,
        recipes=await run_in_threadpool(proven_recipes),
        odds=pictures.odds(epsilon, delta),
        compared=[pictures.odds(other, delta) for other in pictures.COMPARED],
        curves=[pictures.curve(other, delta) for other in pictures.COMPARED if other != epsilon],
        chosen=pictures.curve(epsilon, delta),
    )


def _drawn(choices: Choices) -> tuple[float, float]:
    """Return the epsilon and delta to draw; the usual ones where the form's are none."""
    try:
        epsilon, delta = number("epsilon", choices.epsilon), number("delta", choices.delta)
    except SettingError:
        return 1.0, 1e-6
    return (epsilon, delta) if epsilon > 0 and 0 <= delta < 1 else (1.0, 1e-6)


@cache
def proven_recipes() -> dict[str, str]:
    """Return the recipes that have a proof, and what each does; others are the command line's to allow."""
    from threea.recipes import RECIPES

    return {name: recipe.summary for name, recipe in RECIPES.items() if recipe().guarantee is Guarantee.PROVEN}


def accounts(studio: Studio) -> list[dict[str, Any]]:
    """Return every ledger of the folder: its datasets, their releases, what is spent and what is left."""
    found = []
    for name in studio.folder.ledgers():
        try:
            with Ledger(studio.folder.inside(name), reading=True) as book:
                datasets = [(row, book.releases(row.name)) for row in book.datasets()]
                found.append({"name": name, "datasets": datasets, "head": str(book.head), "problem": ""})
        except ThreeaError as error:
            found.append({"name": name, "datasets": [], "head": "", "problem": studio.told(error)})
    return found


async def choose_budget(request: Request) -> Response:
    """Draw the picture anew, or make the receipt; nothing is spent."""
    studio, table, form = studio_of(request), table_of(request), await read_form(request)
    choices = Choices.of(form)
    table = studio.keep(replace(table, choices=choices, receipt=None, noise=()))
    if text_of(form, "act") == "draw" or not table.described:
        await run_in_threadpool(_draw_noise, studio, table, choices)
        return redirect(request, f"table/{table.id}/budget#meaning")
    try:
        receipt = await run_in_threadpool(_receipt, studio, table, choices)
    except ThreeaError as error:
        return await _budget_page(request, table, choices, error)
    studio.keep(replace(table, receipt=receipt))
    return redirect(request, f"table/{table.id}/receipt")


def _draw_noise(studio: Studio, table: OpenTable, choices: Choices) -> None:
    """Keep the noise that each answer would have; what is wrong with the choices is the receipt's to say."""
    with suppress(ThreeaError):
        studio.keep(replace(table, noise=_receipt(studio, table, choices).questions))


def _receipt(studio: Studio, table: OpenTable, choices: Choices) -> Receipt:
    """Price the order as the command line does with --dry-run."""
    order = choices.order(
        studio.folder,
        data=str(table.path),
        schema=table.confirmed,
        target=table.target,
        unit=table.unit,
        dialect=table.dialect if table.has_dialect else None,
    )
    if choices.recipe not in proven_recipes():
        raise SettingError(f"recipe ({choices.recipe}) is none that the studio offers; choose another")
    text, lines = reading.rehearsed(order)
    questions = tuple(Question(*line) for line in lines)
    return Receipt(order=order, text=text, questions=questions, rest=_rest(order["options"]))


def _rest(options: Mapping[str, Any]) -> str:
    """Say what the ledger will have left of the dataset's cap, by what stands in it now."""
    if options["ledger"] is None:
        return "No ledger will remember it."
    rows = []
    if not options["new_ledger"]:
        with Ledger(options["ledger"], reading=True) as book:
            rows = [row for row in book.datasets() if row.name == options["dataset"]]
    spent = rows[0].spent if rows else 0.0
    caps = [cap for cap in (options["cap"], rows[0].cap if rows else None) if cap is not None]
    if not caps:
        return f"The ledger then has {words.number(spent + options['epsilon'])} spent on it, without a cap."
    left = max(min(caps) - spent - options["epsilon"], 0.0)
    return f"The ledger then has {words.number(left)} left of {words.number(min(caps))}."


async def show_receipt(request: Request) -> Response:
    """Show the receipt: the last page before anything is spent."""
    table = table_of(request)
    if table.receipt is None:
        return redirect(request, f"table/{table.id}/budget")
    return _receipt_page(request, table, table.receipt)


def _receipt_page(
    request: Request, table: OpenTable, receipt: Receipt, problem: Exception | None = None, status: int = 200
) -> Response:
    options = receipt.order["options"]
    odds = pictures.odds(options["epsilon"], options["delta"])
    return page(request, "receipt", status, problem=problem, table=table, receipt=receipt, options=options, odds=odds)


async def run(request: Request) -> Response:
    """Start the release that was on the receipt, and no other."""
    studio, table, form = studio_of(request), table_of(request), await read_form(request)
    receipt = table.receipt
    if receipt is None:
        return redirect(request, f"table/{table.id}/budget")
    if text_of(form, "receipt") != receipt.digest:
        changed = SettingError("the choices were changed in another tab; this is the receipt now")
        return _receipt_page(request, table, receipt, changed, 409)
    options, out = receipt.order["options"], Path(receipt.order["out"])
    job = Job(
        task="release",
        title=f"dataset {options['dataset']}",
        subject=f"{options['ledger'] or receipt.order['data']}\0{options['dataset']}",
        back=f"table/{table.id}/budget",
        result=f"release?folder={quote(studio.folder.named(out))}",
    )
    try:
        studio.jobs.start(job, dict(receipt.order))
    except SettingError as error:
        return _receipt_page(request, table, receipt, error, 409)
    studio.keep(replace(table, receipt=None, choices=None))
    return redirect(request, f"job/{job.id}")


def _job_of(request: Request) -> Job:
    jobs, name = studio_of(request).jobs, request.path_params["job"]
    if name not in jobs:
        raise HTTPException(404, "There is no such job.")
    return jobs[name]


async def show_job(request: Request) -> Response:
    """Show how far a job is, or how it ended."""
    job = _job_of(request)
    return page(request, "job", job=job, message=in_fields(job.message))


async def job_events(request: Request) -> Response:
    """Tell a page how far a job is, whenever that changes."""
    job = _job_of(request)

    async def told() -> AsyncIterator[str]:
        before = None
        while True:
            now = json.dumps({**asdict(job.progress), "stopping": job.stopping, "ended": bool(job.outcome)})
            if now != before:
                yield f"data: {now}\n\n"
            if job.outcome:
                return
            before = now
            await asyncio.sleep(_PAUSE)

    return StreamingResponse(told(), media_type="text/event-stream")


async def stop_job(request: Request) -> Response:
    """Ask a job to end."""
    job = _job_of(request)
    await read_form(request)
    job.stop()
    return redirect(request, f"job/{job.id}")


def release_folder(studio: Studio, text: str) -> Path:
    """Return the folder of a release.

    Raises:
        SettingError: It is none, or not in the studio's folder.
    """
    path = studio.folder.inside(text)
    if not (path / "certificate.json").is_file():
        raise SettingError(f"folder ({text}) holds no release; choose another")
    return path


async def show_release(request: Request) -> Response:
    """Show what a release promises, its files, and a form for more rows."""
    return await _release_page(request, request.query_params.get("folder", ""))


async def _release_page(request: Request, name: str, problem: Exception | None = None) -> Response:
    studio = studio_of(request)
    folder = release_folder(studio, name)
    text = await run_in_threadpool((folder / "certificate.json").read_bytes)
    try:
        certificate = json.loads(text)
    except (ValueError, RecursionError):
        certificate = None
    if not isinstance(certificate, dict):
        raise SettingError(f"folder ({name}) has a certificate that is damaged; make the release again")
    files = [(file, (folder / file).stat().st_size) for file in FILES if (folder / file).is_file()]
    facts = {key: certificate.get(key, "not stated") for key in ("guarantee", "epsilon", "delta", "rows", "recipe")}
    return page(
        request,
        "release",
        problem=problem,
        folder=studio.folder.named(folder),
        files=files,
        facts=facts,
        certificate=text.decode("utf-8", "replace")[:_MOST_SHOWN],
        has_model=(folder / "model.threea").is_file(),
        evaluations=[studio.folder.named(found) for found in evaluations(studio, folder)],
    )


def evaluations(studio: Studio, folder: Path) -> list[Path]:
    """Return the folders beside a release that hold evaluations of it."""
    beside = sorted(folder.parent.glob(f"{glob.escape(folder.name)}-evaluation*"))
    return [path for path in beside if path.is_relative_to(studio.folder.root) and path.is_dir()]


async def release_file(request: Request) -> Response:
    """Hand out a file of a release; a report is shown, sealed off."""
    folder, name = release_folder(studio_of(request), request.query_params.get("folder", "")), request.query_params
    return handed_out(studio_of(request), folder, name.get("name", ""), FILES)


def handed_out(studio: Studio, folder: Path, name: str, known: tuple[str, ...]) -> Response:
    """Return one of the known files of a folder.

    Raises:
        SettingError: It is none of them, not there, or leads elsewhere.
    """
    path = studio.folder.inside(str(folder / name))
    if name not in known or not path.is_file():
        raise SettingError(f"file ({name}) is not in this folder; go back")
    if name.endswith(".html"):
        return FileResponse(path, media_type="text/html", headers={"content-security-policy": SEALED})
    return FileResponse(path, media_type="application/octet-stream", filename=name)


async def more_rows(request: Request) -> Response:
    """Draw more rows of a release, or rows of a kind, and hand them out. It costs nothing."""
    studio, form = studio_of(request), await read_form(request)
    name = text_of(form, "folder")
    try:
        path = await run_in_threadpool(_drawn_rows, studio, form, release_folder(studio, name))
    except ThreeaError as error:
        return await _release_page(request, name, error)
    return FileResponse(
        path,
        media_type="application/octet-stream",
        filename=path.name,
        background=BackgroundTask(path.unlink, missing_ok=True),
    )


def _drawn_rows(studio: Studio, form: Any, folder: Path) -> Path:
    from threea.pricing import check_numbers
    from threea.publish import check_format

    rows, kind = whole("rows", text_of(form, "rows")), text_of(form, "form")
    check_numbers(rows, None)
    if rows > MOST_DRAWN:
        raise SettingError(f"rows ({rows}) must be at most {MOST_DRAWN:,} here; for more, use threea sample")
    check_format(kind)
    lines = [line.strip() for line in text_of(form, "conditions").splitlines() if line.strip()]
    path = Path(tempfile.mkdtemp(dir=studio.uploads)) / f"{folder.name}-more.{kind}"
    reading.draw_rows(folder, path, kind, rows, lines)
    return path
