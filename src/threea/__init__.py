"""Synthetic training sets from private tables, with a proven and counted privacy cost.

A query is a bounded function of one row. Its answer is the sum over all rows, plus noise, charged to the ledger.
Everything else is post-processing.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# What happens is logged for whoever listens, and says nothing of any row; nothing is shown to those who do not.
logging.getLogger(__name__).addHandler(logging.NullHandler())

if TYPE_CHECKING:
    from threea import hospital, recipes
    from threea.anonymize.open_table import open_table
    from threea.budget import Adjacency, Budget
    from threea.framework import Recipe
    from threea.linked import LinkedRelease, prepare_tables, synthesize_tables
    from threea.model_file import load_release, load_tables
    from threea.release import Release
    from threea.session import prepare, synthesize
    from threea.table.dialect import Dialect
    from threea.table.schema import Column, Kind, Schema
    from threea.viewing import show

__all__ = [
    "Adjacency",
    "Budget",
    "Column",
    "Dialect",
    "Kind",
    "LinkedRelease",
    "Recipe",
    "Release",
    "Schema",
    "hospital",
    "load_release",
    "load_tables",
    "open_table",
    "prepare",
    "prepare_tables",
    "recipes",
    "show",
    "synthesize",
    "synthesize_tables",
]

# Loaded when first used: `import threea` costs nothing, and each command loads only what it needs.
_HOMES = {
    "Adjacency": "threea.budget",
    "Budget": "threea.budget",
    "Column": "threea.table.schema",
    "Dialect": "threea.table.dialect",
    "Kind": "threea.table.schema",
    "LinkedRelease": "threea.linked",
    "Recipe": "threea.framework",
    "Release": "threea.release",
    "Schema": "threea.table.schema",
    "hospital": "threea.hospital",
    "load_release": "threea.model_file",
    "load_tables": "threea.model_file",
    "open_table": "threea.anonymize.open_table",
    "prepare": "threea.session",
    "prepare_tables": "threea.linked",
    "recipes": "threea.recipes",
    "show": "threea.viewing",
    "synthesize": "threea.session",
    "synthesize_tables": "threea.linked",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'threea' has no attribute {name!r}")
    home = importlib.import_module(_HOMES[name])
    return home if home.__name__ == f"threea.{name}" else getattr(home, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
