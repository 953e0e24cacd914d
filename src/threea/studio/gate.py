"""Who may speak to the studio: the browser that was given its one-time link, from the studio's own pages.

Every page of every other site, and of every other program on this machine, runs in the same browser and can send
requests here. So each request must name this host (no other name that was made to point here), come from one of our own
pages as the browser itself says, and carry a cookie that only the one-time link gives. All paths begin with a random
part, and the cookie is for that path alone: cookies know no ports, and a program on another port of this machine would
otherwise be sent it.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "threea_studio"
HOST = "127.0.0.1"
LARGEST_FORM, LARGEST_UPLOAD = 32 << 20, 1 << 30
"""How many bytes a form, and a table that is uploaded, may have."""

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'"
)
"""Own files only: no script and no style within a page, nothing from elsewhere, no frame around it."""
SEALED = "default-src 'none'; style-src 'unsafe-inline'; sandbox allow-popups; base-uri 'none'; frame-ancestors 'none'"
"""For reports, which hold their styles: no script, no form, and an origin of their own."""

HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_SAFE = ("GET", "HEAD")


@dataclass(slots=True)
class Keys:
    """The secrets of one run of the studio. The link's token opens once."""

    base: str = field(default_factory=lambda: "/" + secrets.token_urlsafe(12))
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    session: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    form: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    entered: bool = False

    def enter(self, token: str) -> bool:
        """Use up the link; return whether it was the right one, for the first time."""
        right = secrets.compare_digest(token.encode(), self.token.encode()) and not self.entered
        self.entered = self.entered or right
        return right


class Gate:
    """Let a request pass to the app, or refuse it without a word about the folder.

    Guarantees:
        - Another Host than 127.0.0.1 and our port is refused.
        - A request that the browser says another site or another port sent is refused.
        - Without the cookie nothing is answered; the link that gives it works once.
        - What changes anything must come from a page of this origin.
        - A body is read up to its limit, whatever length it announces.
        - Every answer carries `HEADERS`.
    """

    def __init__(self, app: ASGIApp, *, keys: Keys, port: int) -> None:
        self._app, self._keys = app, keys
        self._host, self._origin = f"{HOST}:{port}", f"http://{HOST}:{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await refusal(scope, receive, _with_headers(send))
            return
        body = _Body(receive, LARGEST_UPLOAD if scope["path"] == f"{self._keys.base}/open" else LARGEST_FORM)
        if body.announced_too_large(headers):
            await _too_large()(scope, receive, _with_headers(send))
            return
        await self._app(scope, body, _with_headers(send, body))

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """Return what to answer in the app's place; None if the request may pass."""
        if headers.getlist("host") != [self._host]:
            return PlainTextResponse("This is not the address that threea studio printed.", 421)
        home = f"{self._keys.base}/"
        if not scope["path"].startswith(home):
            return PlainTextResponse("Nothing is here. Open the link that threea studio printed.", 404)
        known = _holds(headers, self._keys.session)
        token = parse_qs(scope["query_string"].decode("latin-1")).get("token")
        if token and scope["path"] == home and scope["method"] == "GET":
            return RedirectResponse(home, 303) if known else self._entry(token[0], home)
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return PlainTextResponse("Pages of other sites may not ask here.", 403)
        if not known:
            return PlainTextResponse("Open the link that threea studio printed; it works once.", 403)
        if scope["method"] not in _SAFE and not self._from_own_page(headers):
            return PlainTextResponse("This form was not sent from a page of the studio.", 403)
        return None

    def _from_own_page(self, headers: Headers) -> bool:
        origin = headers.get("origin", "null")
        # Without a referrer, browsers send null as the origin of a form; who sent it they say elsewhere.
        return origin == self._origin or (origin == "null" and headers.get("sec-fetch-site") == "same-origin")

    def _entry(self, token: str, home: str) -> Response:
        if not self._keys.enter(token):
            text = (
                "This link is wrong, or was used already. If not by you, stop the studio. Start it again for a new one."
            )
            return PlainTextResponse(text, 403)
        # A page and not a redirect: browsers send a strict cookie only where the way began on our own page.
        page = (
            '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>threea studio</title>'
            f'<meta http-equiv="refresh" content="0; url={home}"><p><a href="{home}">Enter the studio</a></p>'
        )
        answer = HTMLResponse(page)
        answer.set_cookie(COOKIE, self._keys.session, path=home, httponly=True, samesite="strict")
        return answer


class _Body:
    """A request's body, of which no more is read than its limit."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive, self._limit, self._read = receive, limit, 0

    def announced_too_large(self, headers: Headers) -> bool:
        length = headers.get("content-length", "0")
        return not length.isdecimal() or int(length) > self._limit

    @property
    def too_large(self) -> bool:
        return self._read > self._limit

    async def __call__(self) -> Message:
        if self.too_large:
            return {"type": "http.disconnect"}
        message = await self._receive()
        self._read += len(message.get("body", b""))
        # The app takes a body that breaks off for a client that went away.
        return {"type": "http.disconnect"} if self.too_large else message


def _with_headers(send: Send, body: _Body | None = None) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            if body is not None and body.too_large:
                message["status"] = 413
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending


def _too_large() -> Response:
    return PlainTextResponse("That is too large. Put the file into the studio's folder, and open it there.", 413)


def _holds(headers: Headers, session: str) -> bool:
    """Whether a request carries the session's cookie; another of the same name, of a longer path, is no harm."""
    for line in headers.getlist("cookie"):
        for part in line.split(";"):
            try:
                found = SimpleCookie(part.strip()).get(COOKIE)
            except CookieError:
                continue
            if found is not None and secrets.compare_digest(found.value.encode(), session.encode()):
                return True
    return False
