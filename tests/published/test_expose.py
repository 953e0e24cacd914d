"""Rows are exposed in one folder only."""

import ast
from pathlib import Path

import pytest

import threea

SOURCE = Path(threea.__file__).parent
ALLOWED = {
    "published": "methods as published",
    "anonymize": "where exposing is defined and charged",
    "ledger": "certificates of rows handed out are compared with the line that says so",
    "testing": "laws that see it charged and stamped",
    "evaluate": "the audit's table passes it on to the one it stands for",
    "audit": "likewise",
}


def exposes(text):
    """Return whether something named `expose` is used in a program, by attribute, name or string."""
    nodes = ast.walk(ast.parse(text))
    return any("expose" in (getattr(node, field, None) for field in ("attr", "id", "value")) for node in nodes)


def test_only_published_methods_expose_rows():
    paths = [path for path in SOURCE.rglob("*.py") if exposes(path.read_text(encoding="utf-8"))]
    folders = {path.relative_to(SOURCE).parts[0] for path in paths}
    assert "published" in folders
    assert folders <= set(ALLOWED)


@pytest.mark.parametrize("text", ["table.expose('x')", "look = table.expose", "getattr(table, 'expose')('x')"])
def test_a_use_is_seen_however_it_is_written(text):
    assert exposes(text)
