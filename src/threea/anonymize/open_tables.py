"""Opening a parent table and a child table together: two private tables, one unit, one budget.

Proof: docs/proofs/linked-tables.md.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import Any

import pyarrow as pa

from threea.anonymize.door import PrivateTable
from threea.anonymize.interior import Interior
from threea.anonymize.noise import Noise, SecureNoise
from threea.anonymize.open_table import book_of, described_as, fingerprint, ids_of, refuse_nothing_to_learn
from threea.anonymize.spending import Spending, Unit
from threea.backends import RowBackend, open_engine
from threea.backends.frames import Frame
from threea.backends.linked import linked
from threea.budget import Budget
from threea.errors import InputError, SchemaError, SettingError
from threea.ledger import Ledger
from threea.table.column_names import not_a_column
from threea.table.dialect import Dialect
from threea.table.layout import is_text, plain, released
from threea.table.linked_columns import COUNT, PARENT
from threea.table.reading_section import reading_of, stated
from threea.table.schema import Column, Kind, Schema
from threea.table.writing import rehearse
from threea.table.written import check_written_rules

MOST_CHILDREN = 100
"""Children of a parent are counted up to so many, at most."""
CHILDREN_READ = 1
"""How many children of a parent are read unless said otherwise. Of K, noise is K times as large, and there are at most
K times as many rows. Chosen on simulated tables: benchmarks/results/two_tables.json."""
ENGINES = ("memory", "files")


@dataclass(frozen=True, slots=True)
class LinkedTables:
    """A parent table and a child table behind one door.

    Guarantees:
        - A unit is all rows of both tables that share a key. It has at most one row in `parents`, and at most
          `children_read` in `children`, whatever the tables hold.
        - Both share a budget, and what is charged for either is charged to one dataset.

    Args:
        parents: A row per parent; its last column, `COUNT`, says how many children it has, up to `children_at_most`.
        children: The children that are read; after their own, their parent's columns, whose names begin with `PARENT`.
        key: The column that names a parent, in both.
        children_at_most: Up to how many children of a parent are counted.
    """

    parents: PrivateTable
    children: PrivateTable
    key: str
    children_at_most: int

    @property
    def children_read(self) -> int:
        """How many children of a parent are read, at most."""
        return self.children.unit.max_rows

    @property
    def given(self) -> tuple[str, ...]:
        """The parent's columns, as they are called beside a child."""
        return tuple(column.name for column in self.children.schema.valued if column.name.startswith(PARENT))


@dataclass(frozen=True, slots=True, repr=False)
class _Opened:
    backend: RowBackend
    frame: Frame
    schema: Schema


def protects(key: str, children_at_most: int, children_read: int) -> str:
    """Return the unit of two tables in words, for the certificate and the ledger.

    Example:
        >>> protects("patient_id", 20, 2)
        'all rows of one patient_id in both tables (1 parent, at most 2 children read, children counted up to 20)'
    """
    read = f"1 parent, at most {children_read} {'child' if children_read == 1 else 'children'} read"
    return f"all rows of one {key} in both tables ({read}, children counted up to {children_at_most})"


def open_tables(
    parents: Any,
    children: Any,
    *,
    key: str,
    children_at_most: int,
    budget: Budget,
    schema: Schema,
    child_schema: Schema,
    children_read: int = CHILDREN_READ,
    dialect: Dialect | None = None,
    ledger: Ledger | str | PathLike[str] | None = None,
    dataset: str = "unnamed",
    cap: float | None = None,
    new_ledger: bool = False,
    engine: str | None = None,
    noise: Noise | None = None,
) -> LinkedTables:
    """Put a parent table and a child table behind one door.

    Args:
        parents: A path to CSV or Parquet, or a pandas, polars or Arrow table: a row for each parent.
        children: The same, with a row for each child. The parents' columns must fit in memory.
        key: The column of both that names a parent: text or whole numbers, of kind id.
        children_at_most: Up to how many children of a parent are counted.
        budget: What all answers about both together may cost.
        schema: The public description of the parent table.
        child_schema: That of the child table.
        children_read: How many children of a parent are read at most, chosen by a keyed hash. Noise on all that is
            asked of children grows with it.
        dialect: How CSV files are written.
        ledger: Where spending is written down; in memory by default.
        dataset: The owner's name for both tables, in the ledger.
        cap: What all releases of this dataset together may cost, in epsilon.
        new_ledger: Make the ledger.
        engine: ``memory`` or ``files``.
        noise: For tests only.

    Raises:
        InputError: The data cannot be read or could not be written, or there is no parent, or no child of one.
        SchemaError: A schema is not confirmed, or does not fit.
        SettingError: The key cannot be used, or a number or the engine is out of bounds.
        LedgerError: The ledger cannot be used.
    """
    if not isinstance(children_at_most, int) or not 1 <= children_at_most <= MOST_CHILDREN:
        raise SettingError(f"children_at_most ({children_at_most}) must be a whole number from 1 to {MOST_CHILDREN}")
    if not isinstance(children_read, int) or children_read < 1:
        raise SettingError(f"children_read ({children_read}) must be a whole number, at least 1")
    read = min(children_read, children_at_most)
    if engine is not None and engine not in ENGINES:
        raise SettingError(f"engine ({engine}) of two tables must be {' or '.join(ENGINES)}")
    above = _opened("parent", parents, schema, key, dialect, engine)
    below = _opened("child", children, child_schema, key, dialect, engine)
    _refuse_names(above, below, key)
    # As of one table: loaded before anything is charged, and fixed where tests replace the noise.
    drawn = SecureNoise() if noise is None else noise
    secret = secrets.token_bytes(32) if noise is None else bytes(32)
    views = _views(above, below, key, (children_at_most, read), secret)
    # Tables that are refused leave no new ledger behind.
    book = book_of(ledger, cap, new_ledger)
    mark = _no_fingerprint if ledger is None else partial(_fingerprint, above, below)
    book.register(dataset, mark, cap=cap, terms=f"{budget.adjacency}, {protects(key, children_at_most, read)}")
    spending = Spending(budget, book, dataset)
    counted = _counted(above.schema, children_at_most)

    def table(opened: _Opened, view: RowBackend, schema: Schema, unit: Unit) -> PrivateTable:
        return PrivateTable(
            Interior(
                backend=view,
                schema=schema,
                spending=spending,
                noise=drawn,
                unit=unit,
                key=secret,
                accept_unproven=False,
                restore=opened.frame,
                dialect=getattr(opened.backend, "dialect", None),
            )
        )

    return LinkedTables(
        table(above, views[0], counted, Unit(key, 1)),
        table(below, views[1], _beside(below.schema, counted), Unit(key, read)),
        key,
        children_at_most,
    )


def _opened(role: str, data: Any, schema: Schema, key: str, dialect: Dialect | None, engine: str | None) -> _Opened:
    """Open one of the two tables, and check all of it that does not need the other."""
    read_as = reading_of(data, dialect, schema.reading)
    backend, frame = open_engine(data, read_as, engine, ids=ids_of(schema, key), drop=schema.dropped)
    if not isinstance(backend, RowBackend):
        raise SettingError(f"the {role} table is on a cluster; two tables are read here, from files or memory")
    if key not in backend.layout.names:
        raise SettingError(not_a_column(f"key of the {role} table", key, backend.layout.names))
    kind = plain(backend.layout.field(key).type)
    if not (is_text(kind) or pa.types.is_integer(kind)):
        raise SettingError(f"key ({key}) of the {role} table has type {kind}; it must be text or whole numbers")
    described = described_as(backend.layout, schema, None, key, None)
    described = replace(described, reading=stated(getattr(backend, "dialect", None)))
    if not described.valued and role == "child":
        raise SchemaError(
            f"every column of the {role} table is of kind id, which is never read; nothing can be learned"
        )
    rehearse(described, backend.layout, frame)
    check_written_rules(described, released(described, backend.layout))
    return _Opened(backend, frame, described)


def _views(
    parents: _Opened, children: _Opened, key: str, bounds: tuple[int, int], secret: bytes
) -> tuple[RowBackend, RowBackend]:
    """Link the tables; refuse what there is nothing to learn from, while nothing is spent. It tells the owner alone."""
    for opened in (parents, children):
        refuse_nothing_to_learn(opened.backend, opened.schema.target)
    carried = [column.name for column in parents.schema.valued]
    most, read = bounds
    views = linked(parents.backend, children.backend, key=key, most=most, read=read, carried=carried, secret=secret)
    if not any(batch.num_rows for batch in views[1].batches([key])):
        raise InputError(f"no row of the child table has a {key} that the parent table has; are these the right files?")
    return views


def _refuse_names(parents: _Opened, children: _Opened, key: str) -> None:
    """Refuse keys of two types, and columns whose names are needed for what is put beside them."""
    if len({is_text(plain(opened.backend.layout.field(key).type)) for opened in (parents, children)}) > 1:
        raise SettingError(f"key ({key}) is text in one table and whole numbers in the other; make them alike")
    for column in parents.schema.columns:
        if column.name == COUNT:
            raise SchemaError(f"column {COUNT} of the parent table has a name that is needed for another; rename it")
    for column in children.schema.columns:
        if column.name.startswith(PARENT):
            raise SchemaError(f"column {column.name} of the child table must not begin with {PARENT}; rename it")


def _counted(schema: Schema, most: int) -> Schema:
    """Return the parents' schema with the number of children, every number a cell of its own.

    It is the target if there is none: recipes relate it to the other columns first.
    """
    edges = tuple(float(edge) for edge in range(most + 2))
    count = Column(name=COUNT, kind=Kind.INTEGER, lower=0.0, upper=float(most), nullable=False, edges=edges)
    return replace(schema, columns=(*schema.columns, count), target=schema.target or COUNT)


def _beside(schema: Schema, parents: Schema) -> Schema:
    """Return the children's schema with the parent's columns beside theirs, as they are: the rules are the child's."""
    given = (replace(column, name=f"{PARENT}{column.name}", as_read="") for column in parents.valued)
    return replace(schema, columns=(*schema.columns, *given))


def _fingerprint(parents: _Opened, children: _Opened, secret: bytes) -> str:
    """Return a keyed fingerprint of both tables' rows."""
    marks = [fingerprint(opened.backend, secret) for opened in (parents, children)]
    return hashlib.blake2b("".join(marks).encode(), key=secret, digest_size=16).hexdigest()


def _no_fingerprint(secret: bytes) -> str:
    return ""
