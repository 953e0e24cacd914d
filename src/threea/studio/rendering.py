"""Pages from templates: every name and value from outside is escaped; styles are the report's and a few of our own."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from threea.errors import SettingError
from threea.report import words
from threea.studio.gate import LARGEST_FORM
from threea.studio.state import OpenTable, Studio

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = [
    "icon",
    "page",
    "read_form",
    "redirect",
    "run_in_threadpool",
    "script",
    "studio_of",
    "style",
    "table_of",
    "text_of",
]

_MOST_FIELDS = 200_000
_HERE = Path(__file__).parent


def studio_of(request: Request) -> Studio:
    """Return the studio that a request came to."""
    studio = request.app.state.studio
    assert isinstance(studio, Studio)
    return studio


def table_of(request: Request) -> OpenTable:
    """Return the table that a request is about.

    Raises:
        HTTPException: It is not open.
    """
    table = studio_of(request).tables.get(request.path_params["table"])
    if table is None:
        raise HTTPException(404, "This table is not open any more. Open it again.")
    return table


async def read_form(request: Request) -> FormData:
    """Read a form, and check that it was made for this session.

    Raises:
        HTTPException: It was not.
    """
    form = await request.form(max_fields=_MOST_FIELDS, max_files=1, max_part_size=LARGEST_FORM)
    if form.get("csrf") != studio_of(request).keys.form:
        raise HTTPException(403, "This form was not made by the studio. Go back, reload the page and try again.")
    return form


def page(request: Request, name: str, status: int = 200, **context: Any) -> Response:
    """Return a page."""
    studio = studio_of(request)
    problem = context.pop("problem", None)
    if isinstance(problem, Exception):
        problem, status = studio.told(problem), 422 if status == 200 else status
    known = {"studio": studio, "url": studio.url, "csrf": studio.keys.form, "problem": problem}
    return HTMLResponse(_environment().get_template(f"{name}.html.j2").render(**known, **context), status)


def redirect(request: Request, path: str) -> Response:
    """Send the browser to another page, after a form."""
    return RedirectResponse(studio_of(request).url(path), 303)


async def style(request: Request) -> Response:
    """Serve the style."""
    return Response(_environment().get_template("studio.css.j2").render(), media_type="text/css")


async def script(request: Request) -> Response:
    """Serve the one script: live progress."""
    return Response((_HERE / "progress.js").read_text(encoding="utf-8"), media_type="text/javascript")


async def icon(request: Request) -> Response:
    """Serve the picture of the tab."""
    return Response((_HERE / "icon.svg").read_text(encoding="utf-8"), media_type="image/svg+xml")


@cache
def _environment() -> Environment:
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=ChoiceLoader([PackageLoader("threea", "studio/pages"), PackageLoader("threea", "report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(shown=words.shown, number=words.number, percent=words.percent)
    return environment


def text_of(form: FormData, name: str) -> str:
    """Return a field's text.

    Raises:
        SettingError: It is a file.
    """
    value = form.get(name, "")
    if not isinstance(value, str):
        raise SettingError(f"{name} must be text")
    return value.strip()
