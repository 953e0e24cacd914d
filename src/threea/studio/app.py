"""The studio's pages, by address; and what becomes of an error in one of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from threea.errors import ThreeaError
from threea.studio import owner_pages, release_pages, rendering, table_pages
from threea.studio.state import Studio

Endpoint = Callable[[Request], Awaitable[Response]]

PAGES: dict[str, Endpoint] = {
    "/": table_pages.home,
    "/studio.css": rendering.style,
    "/progress.js": rendering.script,
    "/icon.svg": rendering.icon,
    "/table/{table}": table_pages.show_table,
    "/table/{table}/schema": table_pages.show_schema,
    "/table/{table}/schema.toml": table_pages.schema_file,
    "/table/{table}/budget": release_pages.show_budget,
    "/table/{table}/receipt": release_pages.show_receipt,
    "/job/{job}": release_pages.show_job,
    "/job/{job}/events": release_pages.job_events,
    "/release": release_pages.show_release,
    "/release/file": release_pages.release_file,
    "/evaluate": owner_pages.show_evaluation,
    "/evaluation": owner_pages.owner_report,
    "/ledger": owner_pages.ledger,
}
FORMS: dict[str, Endpoint] = {
    "/open": table_pages.open_table,
    "/table/{table}/read": table_pages.read_table,
    "/table/{table}/describe": table_pages.describe,
    "/table/{table}/schema": table_pages.confirm_schema,
    "/table/{table}/budget": release_pages.choose_budget,
    "/table/{table}/run": release_pages.run,
    "/job/{job}/stop": release_pages.stop_job,
    "/release/rows": release_pages.more_rows,
    "/evaluate": owner_pages.evaluate,
}


def make_app(studio: Studio) -> Starlette:
    """Return the app of a studio; it must stand behind a `Gate`."""
    routes = [Route(path, _explained(endpoint), methods=["GET"]) for path, endpoint in PAGES.items()]
    routes += [Route(path, _explained(endpoint), methods=["POST"]) for path, endpoint in FORMS.items()]
    app = Starlette(routes=[Mount(studio.keys.base, routes=routes)])
    app.state.studio = studio
    return app


def _explained(endpoint: Endpoint) -> Endpoint:
    """Turn whatever goes wrong into a page: an error that reached the server would be logged, with what it quotes."""

    @wraps(endpoint)
    async def answered(request: Request) -> Response:
        try:
            return await endpoint(request)
        except HTTPException as refusal:
            return rendering.page(request, "problem", refusal.status_code, problem=refusal.detail)
        except ClientDisconnect:
            return rendering.page(request, "problem", 400, problem="The file is too large, or did not arrive whole.")
        except ThreeaError as error:
            return rendering.page(request, "problem", 422, problem=error)
        except Exception as error:
            return rendering.page(request, "problem", 500, problem=error)

    return answered
