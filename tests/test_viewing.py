"""A report is shown in the browser, or in the notebook that asks for it; the owner's never stays in a notebook."""

import sys
import types
import urllib.parse
import webbrowser
from pathlib import Path

import pytest

import threea
from threea import hospital
from threea.errors import SettingError


@pytest.fixture(scope="module")
def release():
    schema = hospital.schema()
    return threea.synthesize(hospital.stays(200), schema=schema, epsilon=1.0, rows=50, recipe="independent")


@pytest.fixture
def opened(monkeypatch):
    """The files that the browser was asked to open."""
    found = []
    monkeypatch.setattr(webbrowser, "open", found.append)
    return found


@pytest.fixture
def notebook(monkeypatch):
    """What a notebook was asked to display."""
    shown = []
    display = types.ModuleType("IPython.display")
    display.HTML, display.display = lambda text: text, shown.append
    kernel = types.ModuleType("IPython")
    kernel.display, kernel.get_ipython = display, lambda: types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return shown


def pages(opened):
    return [Path(urllib.parse.unquote(urllib.parse.urlparse(address).path)).read_text() for address in opened]


def test_a_release_and_a_folder_open_in_the_browser(release, opened, tmp_path):
    release.save(tmp_path / "out")
    threea.show(release)
    threea.show(tmp_path / "out")
    threea.show(str(tmp_path / "out" / "report.html"))
    first, second, third = pages(opened)
    assert "What is promised" in first
    assert second == third == (tmp_path / "out" / "report.html").read_text()


def test_a_notebook_shows_it_in_a_frame_that_can_do_nothing(release, opened, notebook):
    threea.show(release)
    assert opened == []
    (shown,) = notebook
    assert shown.startswith("<iframe sandbox title=")
    assert "What is promised" in shown
    assert "<html" not in shown


def test_the_owners_report_opens_in_the_browser_and_stays_out_of_notebooks(opened, tmp_path, request):
    (tmp_path / "owner-report.html").write_text("private")
    threea.show(tmp_path)
    assert pages(opened) == ["private"]
    shown = request.getfixturevalue("notebook")
    with pytest.raises(SettingError, match="is for its owner alone, and a notebook keeps what it shows"):
        threea.show(tmp_path)
    assert shown == []


@pytest.mark.parametrize("name", ["", "gone.html", "note.txt"])
def test_what_is_no_report_is_refused(tmp_path, name):
    (tmp_path / "note.txt").write_text("x")
    with pytest.raises(SettingError, match="is neither a report nor a folder with one"):
        threea.show(tmp_path / name)
