"""What the site is made of beside the pages of this folder, and how its pages are put right; loaded by mkdocs.yml.

Links in the repository lead to files: to results of benchmarks, to pages at its top, to notebooks. On the site they
must lead somewhere too, so these files are taken along, and links to them put right.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).resolve().parent))
from notebook import to_markdown
from site_links import RESULTS, ROOT, TOP, with_links

_INCLUDED = re.compile(r"(<!-- include \S+(?: until [^>\n]+?)? -->)(.*?)(<!-- end -->)", re.DOTALL)
_HEADING = re.compile(r"^(#+ )", re.MULTILINE)
_TITLE = re.compile(r"^# .*$", re.MULTILINE)
_SPREAD = re.compile(r"(?<=\d) ± (?=\d)")
_LOADED = re.compile(
    r"<(?:script|img|link|iframe|source)\b[^>]*\b(?:src|href)=\"?(?:https?:)?//[^\s\">]+", re.IGNORECASE
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Take along pages at the top of the repository, results of benchmarks, and notebooks as pages."""
    for name in TOP:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    results = [path for path in sorted((ROOT / RESULTS).iterdir()) if path.suffix in (".json", ".svg", ".md")]
    for path in results:
        # They are linked to from other pages, and are not in the menu.
        level = InclusionLevel.NOT_IN_NAV
        files.append(File.generated(config, f"{RESULTS}/{path.name}", abs_src_path=str(path), inclusion=level))
    files.append(File.generated(config, f"{RESULTS}/index.md", content=_listing(results)))
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        page = to_markdown(json.loads(path.read_text(encoding="utf-8")), path.name)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=page))
    return files


def _listing(results: list[Path]) -> str:
    lines = [f"- [{path.name}]({path.name})" for path in results if path.suffix == ".json"]
    intro = "With settings, seeds, versions and spread. [Benchmarks](../../docs/benchmarks.md) says what came out."
    return "\n".join(["# Results as they were measured", "", intro, "", *lines, ""])


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put links right that lead out of this folder, and headings of included pages below those around them."""
    return with_links(_INCLUDED.sub(_lowered, markdown), page.file.src_uri)


def _lowered(included: re.Match[str]) -> str:
    """Return an included page without its title, which the page around it has said."""
    return included[1] + _HEADING.sub(r"##\1", _TITLE.sub("", included[2], count=1)) + included[3]


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Keep figures and their spread on one line; refuse a page that loads something from elsewhere.

    The site is read where there is no network, too.
    """
    found = _LOADED.search(output)
    if found:
        raise PluginError(f"{page.file.src_uri}: loads {found[0]}; keep what pages load in docs/")
    return _SPREAD.sub("\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}", output)
