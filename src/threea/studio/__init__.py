"""The studio: a local web app over `session.prepare`, `run` and `save`, for the owner of a table.

It has nothing of its own in privacy: what may be asked, what it costs and what leaves is decided by the modules that
the command line uses. Pages are made on the server and work without a script, but for live progress.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from threea.errors import MissingExtra

EXTRA = "studio"
_NEEDED = {"starlette": "starlette", "uvicorn": "uvicorn", "python_multipart": "python-multipart"}


def check_installed() -> None:
    """Refuse to start without what the studio stands on.

    Raises:
        MissingExtra: Something of the extra `studio` is not installed.
    """
    for module, package in _NEEDED.items():
        if importlib.util.find_spec(module) is None:
            raise MissingExtra(package, EXTRA)


def serve(folder: Path, *, browser: bool = True) -> None:
    """Serve the studio for one folder until it is interrupted.

    Args:
        folder: Where tables are found and releases are put; nothing outside of it can be reached.
        browser: Open a page in the owner's browser.

    Raises:
        MissingExtra: Something of the extra `studio` is not installed.
        SettingError: It is no folder.
    """
    check_installed()
    from threea.studio.server import serve_folder

    serve_folder(folder, browser=browser)
