"""Keep the documentation true: code blocks run, links lead somewhere, proofs name the tests that check them.

Run by `make check`. Writes one line per problem and exits with 1 if there is any. Needs no network.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

_FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^`\n]*)\n(?P<body>.*?)^(?P=indent)```[ ]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]\n]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
_SOURCE = re.compile(r"<(?:img|a)\b[^>]*\b(?:src|href)=\"([^\"]+)\"")
_HEADING = re.compile(r"^#+\s+(.+?)\s*$", re.MULTILINE)
_TEST = re.compile(r"(tests/[\w/]+\.py)::(\w+)")
_FIGURE = re.compile(r"<!-- ([\w-]+): ([^>]+?) -->\s*([+−]?\d(?:[\d.,]*\d)?(?: of \d+)?)")
_INCLUDE = re.compile(r"<!-- include (?P<file>\S+)(?P<part> until (?P<end>[^>\n]+?))? -->.*?<!-- end -->", re.DOTALL)
_MEND = "run python docs/check.py --mend"
_HELP = re.compile(r"^\$ (threea(?: [\w-]+)* --help)$", re.MULTILINE)


@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a Markdown file."""

    path: Path
    line: int
    """The line of its first line of text."""
    info: str
    body: str


def pages(root: Path) -> list[Path]:
    """Return the Markdown files that readers see."""
    top = [page for page in sorted(root.glob("*.md")) if page.name != "CHANGELOG.md"]
    return [*top, *sorted((root / "docs").rglob("*.md"))]


def blocks(path: Path) -> Iterator[Block]:
    """Yield a file's fenced blocks."""
    text = path.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start("body")) + 1
        yield Block(path, line, found["info"].strip(), found["body"])


def failing_blocks(root: Path) -> list[str]:
    """Run each file's Python blocks in one namespace and an empty folder; tell of those that fail."""
    problems = []
    for path in pages(root):
        runnable = [block for block in blocks(path) if block.info == "python"]
        if runnable:
            problems += _run(path, runnable, root)
    return problems


def _run(path: Path, runnable: list[Block], root: Path) -> list[str]:
    # Padded with empty lines, so that a traceback's line numbers are those of the Markdown file.
    lines: list[str] = []
    for block in runnable:
        lines += [""] * (block.line - 1 - len(lines)) + block.body.splitlines()
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "blocks.py"
        script.write_text("\n".join(lines) + "\n", encoding="utf-8")
        work = Path(folder) / "work"
        work.mkdir()
        done = _python([str(script)], work)
    if done.returncode == 0:
        return []
    frames = re.findall(r'blocks\.py", line (\d+)', done.stderr)
    where = frames[0] if frames else runnable[0].line
    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
    return [f"{path.relative_to(root)}:{where}: code block fails: {last}"]


def _python(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    # A fixed width and no colours, so that what is printed is the same everywhere.
    environment = os.environ | {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "MPLBACKEND": "svg"}
    return subprocess.run(  # noqa: S603 - runs this repository's own documentation
        [sys.executable, "-W", "ignore", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def stale_help(root: Path, *, mend: bool = False) -> list[str]:
    """Compare the console blocks that show `threea ... --help` with what the command says; or mend them."""
    problems = []
    for path in pages(root):
        text = path.read_text(encoding="utf-8")
        for block in blocks(path):
            found = _HELP.match(block.body) if block.info == "console" else None
            if found:
                call = f"import sys; sys.argv = {found[1].split()!r}; from threea.cli import main; main()"
                said = _plain(_python(["-c", call], root).stdout)
                if said != _plain(block.body[found.end() :]):
                    problems.append(f"{path.relative_to(root)}:{block.line}: is not what `{found[1]}` says; {_MEND}")
                    text = text.replace(block.body, "\n".join([found[0], *said, ""]))
        if mend:
            path.write_text(text, encoding="utf-8")
    return problems


def _plain(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


def broken_links(root: Path) -> list[str]:
    """Find relative links and images that lead nowhere."""
    problems = []
    for path in pages(root):
        text = path.read_text(encoding="utf-8")
        prose = _FENCE.sub(lambda found: "\n" * found[0].count("\n"), text)
        for pattern in (_LINK, _SOURCE):
            for found in pattern.finditer(prose):
                if not _leads_somewhere(path, found[1]):
                    line = prose.count("\n", 0, found.start()) + 1
                    problems.append(f"{path.relative_to(root)}:{line}: link leads nowhere: {found[1]}")
    return problems


def _leads_somewhere(path: Path, link: str) -> bool:
    if re.match(r"[a-z][a-z0-9+.-]*:", link):
        return True
    name, _, anchor = link.partition("#")
    target = (path.parent / name) if name else path
    if not target.exists():
        return False
    if not anchor or target.suffix != ".md":
        return True
    return anchor in {_anchor(heading) for heading in _HEADING.findall(target.read_text(encoding="utf-8"))}


def _anchor(heading: str) -> str:
    """Return the name under which a heading can be linked to."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def untested_proofs(root: Path) -> list[str]:
    """Find proof pages that name no test, and tests named anywhere in the documentation that do not exist."""
    problems = []
    for path in pages(root):
        text = path.read_text(encoding="utf-8")
        named = list(_TEST.finditer(text))
        if path.parent == root / "docs" / "proofs" and path.name != "README.md" and not named:
            problems.append(f"{path.relative_to(root)}:1: names no test that checks it")
        for found in named:
            if not _is_defined(root / found[1], found[2]):
                line = text.count("\n", 0, found.start()) + 1
                problems.append(f"{path.relative_to(root)}:{line}: no such test: {found[0]}")
    return problems


def _is_defined(path: Path, name: str) -> bool:
    return (
        path.is_file() and re.search(rf"^\s*def {name}\(", path.read_text(encoding="utf-8"), re.MULTILINE) is not None
    )


def wrong_figures(root: Path, *, mend: bool = False) -> list[str]:
    """Find figures that are not what a benchmark measured, or mend them: `<!-- adult: independent.mean_auc -->0.907`.

    Of a list, a part of the path is a position, or says which entry is meant: `lines.dataset is adult and bins is 32`.
    """
    problems = []
    for path in pages(root):

        def right(found: re.Match[str], path: Path = path) -> str:
            measured = _shown(_measured(root, found[1], found[2]), like=found[3])
            if measured != found[3]:
                problems.append(f"{path.relative_to(root)}: {found[3]} should be {measured} ({found[1]}: {found[2]})")
            return found[0].removesuffix(found[3]) + measured

        text = path.read_text(encoding="utf-8")
        for line, words in enumerate(text.splitlines(), start=1):
            if _FIGURE.match(words.lstrip()):
                problems.append(
                    f"{path.relative_to(root)}:{line}: begins with a comment, which ends the paragraph above"
                )
        renewed = _FIGURE.sub(right, text)
        if mend and renewed != text:
            path.write_text(renewed, encoding="utf-8")
    return problems


def _shown(value: Any, like: str) -> str:
    """Write a measured value as one is written: with as many decimals, with its sign if that has one."""
    if isinstance(value, str):
        return value
    decimals = len(like.partition(".")[2])
    sign = "+" if like[0] in "+−" else "-"
    return f"{value:{sign}.{decimals}f}".replace("-", "−")


def _measured(root: Path, name: str, keys: str) -> Any:
    found = json.loads((root / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))
    # Tables of `threea benchmark` have their results at the top.
    found = found.get("results", found)
    for key in keys.split("."):
        if isinstance(found, list) and not key.isdigit():
            wanted = [condition.split(" is ") for condition in key.split(" and ")]
            (found,) = [entry for entry in found if all(str(entry[field]) == value for field, value in wanted)]
        else:
            found = found[int(key) if isinstance(found, list) else key]
    return found


def stale_includes(root: Path, *, mend: bool = False) -> list[str]:
    """Find parts that should be another file's text, or the text until one of its headings, and are not; or mend it."""
    problems = []
    for path in pages(root):
        text = path.read_text(encoding="utf-8")

        def fresh(found: re.Match[str]) -> str:
            included = (root / found["file"]).read_text(encoding="utf-8")
            if found["part"]:
                included = included.partition(f"\n## {found['end']}")[0]
            return f"<!-- include {found['file']}{found['part'] or ''} -->\n\n{included.strip()}\n\n<!-- end -->"

        renewed = _INCLUDE.sub(fresh, text)
        if renewed != text and mend:
            path.write_text(renewed, encoding="utf-8")
        elif renewed != text:
            problems.append(f"{path.relative_to(root)}: not what it includes; {_MEND}")
    return problems


def house(root: Path) -> list[str]:
    """Compare the plan of the house in docs/how-it-works.md with the tree."""
    page = root / "docs" / "how-it-works.md"
    (plan,) = [block for block in blocks(page) if block.info == "house"]
    listed = [line.split()[0] for line in plan.body.splitlines() if line.strip()]
    inside = (path for path in (root / "src" / "threea").iterdir() if not path.name.startswith(("_", ".", "py.typed")))
    tree = {f"{path.name}/" if path.is_dir() else path.name for path in inside}
    gone = [f"docs/how-it-works.md: lists {name}, which is not there" for name in listed if name not in tree]
    return gone + [f"docs/how-it-works.md: does not list {name}" for name in sorted(tree - set(listed))]


def unproven(root: Path) -> list[str]:
    """Find queries, events and doors without a word in docs/proofs."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted((root / "docs" / "proofs").glob("*.md")))
    said = set(re.findall(r"`(?:\w+\.)*(\w+)", text))
    return [f"docs/proofs: says nothing of `{name}`" for name in sorted(_to_prove() - said)]


def _to_prove() -> set[str]:
    from threea.anonymize import (
        clipping,
        cluster_sums,
        door,
        events,
        gradient,
        lookup_sums,
        query,
        sampled,
        selection,
        vectors,
    )

    queries = {
        name
        for module in (cluster_sums, gradient, lookup_sums, query, selection, vectors)
        for name, kind in inspect.getmembers(module, inspect.isclass)
        if kind.__module__ == module.__name__
        and not issubclass(kind, enum.Enum)
        and not name.startswith("_")
        and (not inspect.isabstract(kind) or kind is lookup_sums.LookupSum)
        and kind not in (query.Query, query.Answer)
    }
    queries |= {kind.__name__ for kind in clipping.QUERIES}
    kinds = {kind.__name__ for kind in typing.get_args(events.Event)}
    doors = {
        name
        for table in (door.PrivateTable, sampled.SampledTable)
        for name, _ in inspect.getmembers(table, inspect.isfunction)
        if not name.startswith("_")
    }
    return queries | kinds | doors


def main() -> int:
    """Check everything; return the exit code. With `--mend`, first renew what comes from results and from the code."""
    if "--mend" in sys.argv[1:]:
        for check in (stale_includes, wrong_figures, stale_help):
            check(ROOT, mend=True)
    problems = [
        problem
        for check in (
            broken_links,
            untested_proofs,
            unproven,
            house,
            wrong_figures,
            stale_includes,
            stale_help,
            failing_blocks,
        )
        for problem in check(ROOT)
    ]
    sys.stdout.writelines(f"{problem}\n" for problem in problems)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
