"""Serving the studio: on the loopback address and a free port, with nothing of a request in any log."""

from __future__ import annotations

import html
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NoReturn

import uvicorn

from threea.studio.app import make_app
from threea.studio.folder import Folder
from threea.studio.gate import HOST, Gate, Keys
from threea.studio.state import Studio

_PREFIX = "threea-studio-"
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def serve_folder(folder: Path, *, browser: bool) -> None:
    """Serve until interrupted; uploads and jobs end with it."""
    root = Folder.at(folder)
    for number in _ENDING:
        # However it is ended, uploads are removed.
        signal.signal(number, _interrupt)
    with suppress(KeyboardInterrupt), private_folder() as uploads, listening() as listener:
        studio = Studio(folder=root, uploads=uploads, keys=Keys())
        port = listener.getsockname()[1]
        server = make_server(studio, port)
        for number in _ENDING:
            # An exception in the midst of making an event loop would be told of: the server ends at its next step.
            signal.signal(number, partial(_end, server))
        link = f"http://{HOST}:{port}{studio.keys.base}/?token={studio.keys.token}"
        try:
            sys.stdout.write(f"threea studio for {str(root.root)!a}. Open this link; it works once:\n  {link}\n")
            sys.stdout.write("It answers to this machine alone. Ctrl-C ends it.\n")
            sys.stdout.flush()
            if browser:
                webbrowser.open(entry_page(link, uploads).as_uri())
            server.run(sockets=[listener])
        finally:
            studio.jobs.stop()


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _end(server: uvicorn.Server, number: int, frame: FrameType | None) -> None:
    server.should_exit = True


def make_server(studio: Studio, port: int) -> uvicorn.Server:
    """Return a server for a studio on a port."""
    # No log at all: lines of it hold paths, and those of an error whatever the error quotes.
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL + 1)
    gate = Gate(make_app(studio), keys=studio.keys, port=port)
    return uvicorn.Server(
        uvicorn.Config(
            gate,
            access_log=False,
            log_config=None,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            ws="none",
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
    )


@contextmanager
def listening() -> Iterator[socket.socket]:
    """Listen on the loopback address, on a port that is free."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind((HOST, 0))
        # From now on a browser that is faster than the server waits.
        listener.listen()
        yield listener


@contextmanager
def private_folder() -> Iterator[Path]:
    """Make a folder that its owner alone may read, and remove it with all that is in it at the end."""
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def entry_page(link: str, folder: Path) -> Path:
    """Write a page that leads to the link: on a browser's command line others on this machine could read it."""
    page = folder / "enter.html"
    with os.fdopen(os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        address = html.escape(link, quote=True)
        file.write(
            f'<!DOCTYPE html><meta http-equiv="refresh" content="0; url={address}"><a href="{address}">Enter</a>'
        )
    return page
