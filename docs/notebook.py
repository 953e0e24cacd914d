"""Run a notebook in a process of its own, and keep what its cells say: `python docs/notebook.py NOTEBOOK ...`.

A notebook is JSON: cells of text and of code, and what the code said. Running one takes no more than Python, so neither
Jupyter nor a kernel is needed to make these pages or to test them; readers open the files in whatever they use.
"""

from __future__ import annotations

import ast
import contextlib
import html
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_STYLE = re.compile(r"<style scoped>.*?</style>\s*", re.DOTALL)
_LONG = 2000
Notebook = dict[str, Any]


def executed(notebook: Notebook) -> Notebook:
    """Return a notebook with what its code says now, run in an empty folder.

    Raises:
        RuntimeError: A cell fails. The message is its last line.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "notebook.json"
        source.write_text(json.dumps(notebook), encoding="utf-8")
        work = Path(folder) / "work"
        work.mkdir()
        done = subprocess.run(  # noqa: S603 - runs this repository's own notebooks
            [sys.executable, "-W", "ignore", str(Path(__file__).resolve()), "--cells", str(source)],
            cwd=work,
            env=os.environ | {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "MPLBACKEND": "agg"},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])
        outputs = json.loads(source.read_text(encoding="utf-8"))
    cells, said = [], iter(outputs)
    for cell in notebook["cells"]:
        code = cell["cell_type"] == "code"
        cells.append(cell | {"outputs": next(said)} if code else cell)
    for count, cell in enumerate((cell for cell in cells if cell["cell_type"] == "code"), start=1):
        cell["execution_count"] = count
        for output in cell["outputs"]:
            if output["output_type"] == "execute_result":
                output["execution_count"] = count
    return notebook | {"cells": cells}


def _run_cells(path: Path) -> None:
    """Run the code of a notebook's cells, one after another; leave in its place what each said."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    path.write_text(json.dumps([_said(source, names) for source in code]), encoding="utf-8")


def _said(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, "cell", "exec"), names)  # noqa: S102 - that is what a notebook is for
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None  # noqa: S307
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": _lines(printed.getvalue())})
    if value is not None:
        text = repr(value)
        data = {"text/plain": _lines(text if len(text) < _LONG else f"<{type(value).__name__}>")}
        if hasattr(value, "_repr_html_"):
            # What a frame says of its style would hold for the whole page.
            styled = value._repr_html_()
            data["text/html"] = _lines(_STYLE.sub("", styled))
        outputs.append({"output_type": "execute_result", "data": data, "metadata": {}})
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def to_markdown(notebook: Notebook, name: str) -> str:
    """Return a notebook as a page: its text, its code, and what the code said."""
    parts = [_cell(cell) for cell in notebook["cells"]]
    title, _, rest = parts[0].partition("\n")
    return "\n\n".join([title, f"*A notebook: [{name}]({name}).*", rest.strip(), *parts[1:]]) + "\n"


def _cell(cell: dict[str, Any]) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    return "\n\n".join([f"```python\n{source}\n```", *(_output(output) for output in cell["outputs"])])


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {"text/plain": output.get("text", [])})
    if "text/html" in data:
        return '<div class="output">\n' + "".join(data["text/html"]).strip() + "\n</div>"
    return f'<pre class="output">{html.escape("".join(data["text/plain"]).rstrip())}</pre>'


def main(arguments: list[str]) -> None:
    """Run the notebooks that are named, and write them back with what they say."""
    if arguments[0] == "--cells":
        _run_cells(Path(arguments[1]))
        return
    for name in arguments:
        path = Path(name)
        renewed = executed(json.loads(path.read_text(encoding="utf-8")))
        path.write_text(json.dumps(renewed, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
