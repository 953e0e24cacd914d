"""Every command of the documentation is run, page by page, in a folder like the one that the page speaks of.

What cannot be run here is parsed instead: its options exist, and take what they are given. `PARSED` says which and why.
"""

import contextlib
import os
import re
import shlex
import shutil
import tomllib
from pathlib import Path

import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
import typer.main

from test_docs import ROOT, check
from threea import cli, hospital
from threea.ledger import Ledger

PARSED = {
    "threea studio": "serves until it is ended; tests/studio drives it",
    "threea benchmark": "needs public datasets, and hours",
    "threea audit": "thousands of runs; tests/audit has its own",
    "threea evaluate": "a minute; tests/cli/test_measuring.py has its own",
    "threea release-tables": "two tables of their own; tests/linked has them",
    "--sheet": "needs a workbook; tests/backends/test_excel.py makes some",
    "--resume": "nothing was interrupted here; tests/test_resuming.py interrupts",
    "--engine dask": "workers take seconds to start; the tutorial's Python block starts them",
}
REHEARSED = {
    "--recipe aim": "rounds of fitting",
    "--recipe dpgan": "compiles a network",
    "--score": "LightGBM, and releases of releases",
}
"""Releases that take long: prepared and priced, with everything checked that can be, and not run."""

PAGES = [page for page in check.pages(ROOT) if any(block.info == "console" for block in check.blocks(page))]
GROUP = typer.main.get_command(cli.app)


def commands(block):
    """Yield the commands of a console block, without comments."""
    text = block.body.replace("\\\n", " ")
    for line in text.splitlines():
        if line.startswith("$ "):
            words = shlex.split(line[2:], comments=True)
            yield words[: words.index(">")] if ">" in words else words


@pytest.fixture(scope="session")
def desk(tmp_path_factory):
    """Return a folder with the files that pages speak of."""
    folder = tmp_path_factory.mktemp("desk")
    stays = hospital.stays(400)
    for name, rows in (("patients", stays), ("train", stays.slice(0, 300)), ("holdout", stays.slice(300))):
        pq.write_table(rows, folder / f"{name}.parquet")
    for name in ("patients", "data"):
        pc.write_csv(stays, folder / f"{name}.csv")
    for part in ("stays", "hospital"):
        (folder / part).mkdir()
    for name in ("stays/00.parquet", "stays.parquet"):
        pq.write_table(stays, folder / name)
    (folder / "books").mkdir()
    for name in ("books.db", "books/ledger.db"):
        Ledger(folder / name, create=True).close()
    (folder / "schema.toml").write_text(hospital.schema().to_toml(), encoding="utf-8")
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_a_page_run(page, desk, tmp_path, monkeypatch):
    work = tmp_path / "work"
    shutil.copytree(desk, work)
    monkeypatch.chdir(work)
    if page.name == "configuration.md":
        defaults = next(block for block in check.blocks(page) if block.info == "toml")
        Path("threea.toml").write_text(defaults.body, encoding="utf-8")
    shown = [block for block in check.blocks(page) if block.info == "console"]
    assert all(_run(words, monkeypatch) for block in shown for words in commands(block))


def _run(words, monkeypatch):
    command = " ".join(words)
    if words[0] in ("make", "pip"):
        return _exists(words)
    if words[0] == "$EDITOR":
        draft = Path(words[1])
        return draft.write_text(draft.read_text().replace("confirmed = false", "confirmed = true"))
    assert words[0] == "threea", f"{command}: say how it is to be tested"
    if words[-1] != "--help" and any(part in command for part in PARSED):
        return _parsed(words[1:])
    words += ["--dry-run"] if any(part in command for part in REHEARSED) else []
    _make_room(words)
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit) as end, open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        cli.main()
    assert end.value.code == 0, command
    return True


def _exists(words):
    """Check what installs and builds by name: a target of the Makefile, an extra of the package."""
    if words[0] == "make":
        return re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    extras = re.findall(r"\[([\w,]+)\]", " ".join(words))
    return all(extra in known for listed in extras for extra in listed.split(","))


def _parsed(words):
    parent = GROUP.make_context("threea", [words[0], "--help"])
    command = GROUP.get_command(parent, words[0])
    # Without its parent, a command would forget for good that -h is help, too.
    return command.make_context(words[0], words[1:], parent=parent).params


def _make_room(words):
    """Take away what an earlier command of the page left where this one writes: readers run one or the other."""
    if "--out" in words:
        out = Path(words[words.index("--out") + 1])
        shutil.rmtree(out, ignore_errors=True)
        if out.is_file():
            out.unlink()
    elif words[1] == "schema":
        Path("schema.toml").unlink()


SAID = re.compile(r"(?<!`)`(threea(?: [^`\n]+)?)`(?!`)")


@pytest.mark.parametrize("page", check.pages(ROOT), ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_the_text_exist_with_their_options(page):
    for said in SAID.findall(page.read_text(encoding="utf-8")):
        words = re.findall(r"(?<=\s)(--?[a-z][\w-]*|[a-z]+)", said)
        if words and not words[0].startswith("-"):
            command = GROUP.commands[words[0]]
            known = {name for parameter in command.params for name in parameter.opts} | {"--help"}
            assert {word for word in words if word.startswith("-")} <= known, said


def test_an_unknown_option_is_noticed():
    with pytest.raises(Exception, match="No such option"):
        _parsed(["audit", "independent", "--no-such-option"])
