"""What the site is made of beside the pages of this folder, and how its pages are put right; loaded by mkdocs.yml.

Links in the repository lead to files: to results of benchmarks, to pages at its top, to notebooks. On the site they must
lead somewhere too, so these files are taken along, and links to them put right. Nothing here is typed by hand twice.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
TOP = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
RESULTS = "benchmarks/results"

_FENCE = re.compile(r"^( *)```.*?^\1```[ ]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")
_INCLUDED = re.compile(r"(<!-- include \S+(?: until [^>\n]+?)? -->)(.*?)(<!-- end -->)", re.DOTALL)
_HEADING = re.compile(r"^(#+ )", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Take along pages at the top of the repository, results of benchmarks, and notebooks as pages."""
    for name in TOP:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    results = [path for path in sorted((ROOT / RESULTS).iterdir()) if path.suffix in (".json", ".svg", ".md", ".html")]
    for path in results:
        # Pages of results are linked to from others, and are not in the menu.
        level = InclusionLevel.NOT_IN_NAV
        files.append(File.generated(config, f"{RESULTS}/{path.name}", abs_src_path=str(path), inclusion=level))
    listing = _listing([path.name for path in results if path.suffix == ".json"])
    files.append(File.generated(config, f"{RESULTS}/index.md", content=listing))
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        page = to_markdown(json.loads(path.read_text(encoding="utf-8")), path.name)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=page))
    return files


def _listing(names: list[str]) -> str:
    lines = [f"- [{name}]({name})" for name in names]
    intro = "What was measured, with settings, seeds, versions and spread. [Benchmarks](../../benchmarks.md) says what came out."
    return "\n".join(["# Results as they were measured", "", intro, "", *lines, ""])


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put links right that lead out of this folder, and headings of included pages below those around them."""
    markdown = _INCLUDED.sub(lambda found: found[1] + _HEADING.sub(r"##\1", found[2]) + found[3], markdown)
    parts, end = [], 0
    for fence in _FENCE.finditer(markdown):
        parts += [_with_links(markdown[end : fence.start()], page.file.src_uri), fence[0]]
        end = fence.end()
    return "".join([*parts, _with_links(markdown[end:], page.file.src_uri)])


def _with_links(prose: str, page: str) -> str:
    return _LINK.sub(lambda found: found[1] + on_the_site(found[2], page) + found[3], prose)


def on_the_site(link: str, page: str) -> str:
    """Return where a link of the repository leads on the site, from a page of it.

    Pages of `docs/` are at the top of the site; everything else keeps its place in the repository.
    """
    in_repository = page if page in TOP or page.startswith(f"{RESULTS}/") else f"docs/{page}"
    target = posixpath.normpath(posixpath.join(posixpath.dirname(in_repository), link))
    if not (ROOT / target).exists():
        return link
    if target == RESULTS:
        target = f"{RESULTS}/index.md"
    elif target.endswith(".ipynb"):
        target = target.removesuffix(".ipynb") + ".md"
    return posixpath.relpath(target.removeprefix("docs/"), posixpath.dirname(page) or ".")


def to_markdown(notebook: dict[str, Any], name: str) -> str:
    """Return a notebook as a page: its text, its code, and what the code said."""
    parts = [_cell(cell) for cell in notebook["cells"]]
    title, _, rest = parts[0].partition("\n")
    return "\n\n".join([title, f"*A notebook: [{name}]({name}){{ download }}.*", rest.strip(), *parts[1:]]) + "\n"


def _cell(cell: dict[str, Any]) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    return "\n\n".join([f"```python\n{source}\n```", *(_output(output) for output in cell["outputs"])])


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {"text/plain": output.get("text", [])})
    if "text/html" in data:
        return '<div class="output">\n' + "".join(data["text/html"]).strip() + "\n</div>"
    return "```text\n" + "".join(data["text/plain"]).rstrip() + "\n```"


def on_env(env: Any, config: MkDocsConfig, files: Files) -> Any:
    """Fail where a page would load something from the network: the theme's own files are all there is."""
    if config.theme.get("font") is not False or any(":" in str(path) for path in config.extra_css):
        raise RuntimeError("the site must load nothing from elsewhere; keep theme.font false, and styles in docs/")
    return env
