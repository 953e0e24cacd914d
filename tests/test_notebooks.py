"""The notebooks still work: their code runs, and what is kept of it is what such code says."""

import json
import re

import pytest

from test_docs import ROOT, load

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


tool = load("notebook")


def of(*cells):
    return {"cells": [{"cell_type": "code", "source": [cell], "outputs": []} for cell in cells]}


def code_of(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def shape(notebook):
    """Return of each cell which kinds of output it has; their numbers change with the noise."""
    return [[sorted(output.get("data", {"text": 0})) for output in cell["outputs"]] for cell in code_of(notebook)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_says_what_it_did(path):
    pytest.importorskip("lightgbm")
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert shape(tool.executed(kept)) == shape(kept)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_whole_small_and_without_the_machine_it_ran_on(path):
    text = path.read_text(encoding="utf-8")
    notebook = json.loads(text)
    assert notebook["nbformat"] == 4
    assert [cell["execution_count"] for cell in code_of(notebook)] == list(range(1, len(code_of(notebook)) + 1))
    assert len(text) < 50_000
    said = json.dumps([cell["outputs"] for cell in code_of(notebook)])
    assert not re.search(r"(?<![\w.<])/(?:tmp|home|work|root|usr|var|Users)/|Traceback", said)


def test_what_a_cell_prints_and_what_it_ends_with_are_kept():
    ran = tool.executed(of("value = 3\nprint('said', value)\nvalue + 1", "value"))
    first, second = ran["cells"]
    assert [output["output_type"] for output in first["outputs"]] == ["stream", "execute_result"]
    assert first["outputs"][0]["text"] == ["said 3\n"]
    assert second["outputs"][0]["data"]["text/plain"] == ["3"]
    assert (first["execution_count"], second["outputs"][0]["execution_count"]) == (1, 2)


def test_a_cell_that_fails_is_told():
    with pytest.raises(RuntimeError, match="ZeroDivisionError: division by zero"):
        tool.executed(of("1 / 0"))


def test_a_page_of_a_notebook_shows_what_was_said_as_text():
    notebook = tool.executed(of("print('<b> & co')"))
    title = {"cell_type": "markdown", "source": ["# Title\n", "\n", "Words."]}
    page = tool.to_markdown({"cells": [title, *notebook["cells"]]}, "a.ipynb")
    assert page.startswith("# Title\n\n*A notebook: [a.ipynb](a.ipynb).*\n\nWords.\n")
    assert '<pre class="output">&lt;b&gt; &amp; co</pre>' in page
