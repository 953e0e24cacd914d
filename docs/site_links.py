"""Where links of the repository lead on the site."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOP = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
"""Pages at the top of the repository that the site has too."""
RESULTS = "benchmarks/results"

_FENCE = re.compile(r"^( *)```.*?^\1```[ ]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")


def with_links(markdown: str, page: str) -> str:
    """Return a page's text with its links put right, and its blocks of code as they are."""
    parts, end = [], 0
    for fence in _FENCE.finditer(markdown):
        parts += [_prose(markdown[end : fence.start()], page), fence[0]]
        end = fence.end()
    return "".join([*parts, _prose(markdown[end:], page)])


def _prose(text: str, page: str) -> str:
    return _LINK.sub(lambda found: found[1] + site_link(found[2], page) + found[3], text)


def site_link(link: str, page: str) -> str:
    """Return where a link of the repository leads on the site, from a page of it.

    Pages of `docs/` are at the top of the site; everything else keeps its place in the repository.
    """
    in_repository = page if page in TOP or page.startswith(f"{RESULTS}/") else f"docs/{page}"
    target = posixpath.normpath(posixpath.join(posixpath.dirname(in_repository), link))
    if not (ROOT / target).exists():
        return link
    if target == RESULTS:
        target = f"{RESULTS}/index.md"
    elif target.endswith(".ipynb") and not page.startswith("notebooks/"):
        target = target.removesuffix(".ipynb") + ".md"
    elif target in ("README.md", "docs/proofs", "docs/decisions"):
        target = {"README.md": "docs/index.md"}.get(target, f"{target}/README.md")
    return posixpath.relpath(target.removeprefix("docs/"), posixpath.dirname(page) or ".")
