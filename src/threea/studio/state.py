"""What one run of the studio knows: the folder, the tables that were opened, the jobs. In memory alone."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from threea.report import words
from threea.studio.choices import Choices, digest
from threea.studio.folder import Folder
from threea.studio.gate import Keys
from threea.studio.jobs import Jobs
from threea.studio.told import told
from threea.table.dialect import EXCEL, TEXT, Dialect
from threea.table.schema import Schema


@dataclass(frozen=True, slots=True)
class Question:
    """A line of a plan: what is asked, its share of the budget, and its noise, all from public facts."""

    name: str
    share: str
    count: int
    noise: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What was shown to the owner before spending, and the order that it belongs to."""

    order: Mapping[str, Any]
    text: str
    questions: tuple[Question, ...]
    rest: str
    """What the ledger will have left, in words."""

    @property
    def digest(self) -> str:
        """What tells it from another receipt."""
        return digest(self.order)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTable:
    """A table on its way to a release: how it is read, what is said of it, what was chosen."""

    id: str = field(default_factory=lambda: secrets.token_urlsafe(9))
    path: Path
    name: str
    """As the owner knows it."""
    kind: str
    """folder, upload or demo."""
    dialect: Dialect | None = None
    """As the owner said; what is not said is found in the header line."""
    target: str | None = None
    unit: str | None = None
    proposed: Schema | None = None
    """Not confirmed; marked where it was read from the rows."""
    notes: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where each column's description is public, in the owner's words."""
    confirmed: Schema | None = None
    discovers: bool = False
    """Whether bounds and categories are to be found through the private table, from the budget."""
    choices: Choices | None = None
    noise: tuple[Question, ...] = ()
    """What would be asked at the budget that was last drawn, and the noise of it."""
    receipt: Receipt | None = None

    @property
    def is_csv(self) -> bool:
        """Whether it is text."""
        return bool({*TEXT} & {suffix.lower() for suffix in self.path.suffixes[-2:]})

    @property
    def is_excel(self) -> bool:
        """Whether it is a sheet of cells."""
        return self.path.suffix.lower() in EXCEL

    @property
    def has_dialect(self) -> bool:
        """Whether it can be written in several ways."""
        return self.is_csv or self.is_excel

    @property
    def described(self) -> bool:
        """Whether it is said how its schema is known, so that a budget can be chosen."""
        return self.discovers or self.confirmed is not None

    def reread(self, dialect: Dialect | None) -> OpenTable:
        """Return the table read otherwise: nothing that was said of its columns holds."""
        return OpenTable(id=self.id, path=self.path, name=self.name, kind=self.kind, dialect=dialect)


class Studio:
    """One run of the studio."""

    def __init__(self, *, folder: Folder, uploads: Path, keys: Keys) -> None:
        self.folder, self.uploads, self.keys, self.jobs = folder, uploads, keys, Jobs()
        self.tables: dict[str, OpenTable] = {}

    def keep(self, table: OpenTable) -> OpenTable:
        """Remember a table as it is now."""
        self.tables[table.id] = table
        return table

    def url(self, path: str = "") -> str:
        """Return the address of a page."""
        return f"{self.keys.base}/{path}"

    def told(self, error: Exception) -> str:
        """Return one line about an error, with paths as the owner knows them."""
        line = told(error)
        for place in (self.uploads, self.folder.root):
            line = line.replace(f"{place}/", "")
        return line

    def dataset_name(self, table: OpenTable) -> str:
        """Return what a table's rows are called in a ledger unless its owner says otherwise."""
        name = words.shown(table.name.rsplit("/", 1)[-1].split(".")[0], 200)
        return "simulated hospital stays" if table.kind == "demo" else name

    def free_name(self, table: OpenTable) -> str:
        """Return the name of a folder that is not there yet."""
        stem = "demo" if table.kind == "demo" else self.dataset_name(table)
        names = [f"{stem}-release", *(f"{stem}-release-{number}" for number in range(2, 1000))]
        return next((name for name in names if not (self.folder.root / name).exists()), names[0])
