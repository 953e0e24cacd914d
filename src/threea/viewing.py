"""A report on the screen: in the notebook that asks for it, or in the browser."""

from __future__ import annotations

import html
import sys
import tempfile
import webbrowser
from os import PathLike
from pathlib import Path
from typing import Any

from threea.errors import SettingError
from threea.publish import report_of
from threea.release import Release

REPORTS = ("report.html", "owner-report.html")
"""A release's, which may be passed on, and an evaluation's, which may not."""


def show(report: Release | str | PathLike[str]) -> None:
    """Show a report: of a release, or one that was written.

    Guarantees:
        - A report for the owner alone is not shown in a notebook, which would keep it and pass it on.

    Args:
        report: A release, a folder with a report in it, or a report's file.

    Raises:
        SettingError: There is no report, or it is the owner's and would stay in a notebook.
    """
    notebook = _notebook()
    if isinstance(report, Release):
        page = report_of(report)
        file = None if notebook else Path(tempfile.mkdtemp(prefix="threea-report-")) / REPORTS[0]
    else:
        file = _found(Path(report))
        if notebook and file.name != REPORTS[0]:
            raise SettingError(f"{file} is for its owner alone, and a notebook keeps what it shows; open the file")
        page = file.read_text(encoding="utf-8")
    if notebook:
        notebook.display(notebook.HTML(_framed(page)))
        return
    assert file is not None
    if isinstance(report, Release):
        file.write_text(page, encoding="utf-8")
    webbrowser.open(file.resolve().as_uri())


def _found(path: Path) -> Path:
    names = [path / name for name in REPORTS] if path.is_dir() else [path] if path.suffix == ".html" else []
    file = next((file for file in names if file.is_file()), None)
    if file is None:
        raise SettingError(f"report ({path}) is neither a report nor a folder with one; give a release's folder")
    return file


def _framed(page: str) -> str:
    """Return the page in a frame of its own, where it can neither run anything nor change the notebook."""
    return (
        f'<iframe sandbox title="Report of a release" srcdoc="{html.escape(page, quote=True)}"'
        ' style="width:100%;height:40rem;border:0"></iframe>'
    )


def _notebook() -> Any:
    """Return what displays in the notebook that this runs in; None elsewhere."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if not hasattr(shell, "kernel"):
        return None
    from IPython import display

    return display
