"""For the owner alone: the evaluation, which reads private rows, and the ledger."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from threea.errors import SettingError, ThreeaError
from threea.evaluate.evaluation import REPORT, SCORES, check_place
from threea.studio.choices import dialect_said
from threea.studio.jobs import Job
from threea.studio.release_pages import accounts, handed_out, release_folder
from threea.studio.rendering import page, read_form, redirect, run_in_threadpool, studio_of, text_of
from threea.studio.state import Studio


async def show_evaluation(request: Request) -> Response:
    """Ask for the real rows to compare a release with."""
    return await _evaluation_page(request, request.query_params.get("folder", ""))


async def _evaluation_page(request: Request, name: str, problem: Exception | None = None) -> Response:
    studio = studio_of(request)
    folder = studio.folder.named(release_folder(studio, name))
    uploads = {table.id: table.name for table in studio.tables.values() if table.kind != "folder"}
    tables = await run_in_threadpool(studio.folder.tables)
    return page(request, "evaluate", problem=problem, folder=folder, tables=tables, uploads=uploads)


async def evaluate(request: Request) -> Response:
    """Start an evaluation."""
    studio, form = studio_of(request), await read_form(request)
    name = text_of(form, "folder")
    try:
        order = await run_in_threadpool(_order, studio, form, release_folder(studio, name))
        folder = studio.folder.named(Path(order["out"]))
        job = Job(
            task="evaluate",
            title=f"Evaluation of {name}",
            subject=f"evaluate\0{order['out']}",
            back=f"evaluate?folder={quote(name)}",
            result=f"evaluation?folder={quote(folder)}",
        )
        studio.jobs.start(job, order)
    except ThreeaError as error:
        return await _evaluation_page(request, name, error)
    return redirect(request, f"job/{job.id}")


def _order(studio: Studio, form: Any, folder: Path) -> dict[str, Any]:
    said = dialect_said(form)
    return {
        "release": str(folder),
        "out": str(check_place(folder, studio.folder.inside(str(_free(folder))))),
        "train": str(_real(studio, text_of(form, "train"), "the rows of the release")),
        "holdout": str(_real(studio, text_of(form, "holdout"), "the rows held out")),
        "dialect": None if said is None else asdict(said),
    }


def _free(folder: Path) -> Path:
    """Return a folder beside the release that is not there yet."""
    names = [f"{folder.name}-evaluation", *(f"{folder.name}-evaluation-{number}" for number in range(2, 1000))]
    return next((folder.with_name(name) for name in names if not folder.with_name(name).exists()), folder)


def _real(studio: Studio, text: str, role: str) -> Path:
    """Return a table of the folder, or one that was uploaded, named by its id."""
    table = studio.tables.get(text.removeprefix("open:")) if text.startswith("open:") else None
    path = table.path if table is not None else studio.folder.inside(text)
    if not path.exists():
        raise SettingError(f"{role} ({text}) cannot be found in the studio's folder; check the path")
    return path


async def owner_report(request: Request) -> Response:
    """Show the owner's report, sealed off."""
    studio = studio_of(request)
    folder = studio.folder.inside(request.query_params.get("folder", ""))
    return handed_out(studio, folder, request.query_params.get("name", REPORT), (REPORT, SCORES))


async def ledger(request: Request) -> Response:
    """Show all ledgers of the folder."""
    found = await run_in_threadpool(accounts, studio_of(request))
    return page(request, "ledger", ledgers=found)
