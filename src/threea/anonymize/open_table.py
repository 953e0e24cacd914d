"""Opening a private table: what is checked before the first look at the rows."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from threea.anonymize.door import PrivateTable
from threea.anonymize.interior import Interior
from threea.anonymize.noise import Noise, SecureNoise
from threea.anonymize.spending import Spending, Unit
from threea.anonymize.transcript import Transcript
from threea.backends import Backend, Engine, open_engine
from threea.backends.frames import Frame
from threea.backends.hashing import mixed, row_hashes
from threea.budget import Budget
from threea.errors import InputError, SchemaError, SettingError
from threea.ledger import Ledger, open_ledger
from threea.table import codec
from threea.table.column_names import not_a_column
from threea.table.dialect import Dialect
from threea.table.from_types import widest
from threea.table.layout import released
from threea.table.reading_section import reading_of, stated
from threea.table.schema import Kind, Origin, Schema
from threea.table.supported import check_unit
from threea.table.target_kind import with_target_kind
from threea.table.writing import rehearse
from threea.table.written import check_written_rules

_EVERY_ROW = Unit()


def open_table(
    data: Any,
    *,
    budget: Budget,
    schema: Schema | None = None,
    target: str | None = None,
    target_kind: str | None = None,
    dialect: Dialect | None = None,
    drop: Sequence[str] = (),
    ledger: Ledger | str | PathLike[str] | None = None,
    dataset: str = "unnamed",
    cap: float | None = None,
    new_ledger: bool = False,
    unit: str | None = None,
    max_rows_per_unit: int = 1,
    accept_unproven: bool = False,
    engine: str | None = None,
    cluster: Any = None,
    workers: int | None = None,
    noise: Noise | None = None,
    transcript: Transcript | None = None,
) -> PrivateTable:
    """Put a table behind the door.

    Args:
        data: A path to CSV, Parquet (or a folder) or Excel, a pandas, polars or Arrow table, a Dask or Spark DataFrame,
            or an engine that sums.
        budget: What all answers together may cost.
        schema: The table's public description, confirmed by its owner. Without one, names and declared types are
            taken as public and the rest is found through the door.
        target: The column that models will learn to predict; the schema's by default.
        target_kind: Without a schema, whether the target is a ``class`` or a ``number``; for whole numbers, noisy
            counts decide by default.
        dialect: How a CSV file is written; what it does not say is found in the header line.
        drop: Columns that are never read and not released, besides those that the schema says.
        ledger: Where spending is written down; in memory by default, for this table alone.
        dataset: The owner's name for the rows, in the ledger.
        cap: What all releases of this dataset together may cost, in epsilon.
        new_ledger: Make the ledger. With a cap, one that does not exist is otherwise taken for a mistyped path.
        unit: The column that names the person to protect; every row is one by default.
        max_rows_per_unit: How many rows of one person count.
        accept_unproven: Whether published methods without a proof may read the rows.
        engine: Who reads the rows: ``memory``, ``files``, ``dask`` or ``spark``; by default this process, or the
            cluster that a frame is on.
        cluster: Of Dask or Spark: an address, a client or a session; by default workers on this machine.
        workers: How many of those.
        noise: For tests only: a release with noise that is not secure is stamped `guarantee: none`.
        transcript: Keeps the answers beside the ledger, so that an interrupted release can go on.

    Raises:
        InputError: The data cannot be read or could not be written, or has no rows or no target values.
        SchemaError: The schema is not confirmed, or does not fit.
        LedgerError: The ledger cannot be used.
        BudgetRefused: Later, when a plan exceeds the budget or the cap.

    Example:
        >>> from threea import hospital
        >>> table = open_table(hospital.stays(100), schema=hospital.schema(), budget=Budget(1.0))
        >>> table
        PrivateTable(15 columns, Budget(epsilon=1.0, delta=1e-06, ...), Unit(column=None, max_rows=1))
    """
    options = dict(locals())
    options["unit"] = Unit(unit, options.pop("max_rows_per_unit"))
    return PrivateTable(open_interior(**options))


def open_interior(
    data: Any,
    *,
    budget: Budget,
    schema: Schema | None = None,
    target: str | None = None,
    target_kind: str | None = None,
    dialect: Dialect | None = None,
    drop: Sequence[str] = (),
    ledger: Ledger | str | PathLike[str] | None = None,
    dataset: str = "unnamed",
    cap: float | None = None,
    new_ledger: bool = False,
    unit: Unit = _EVERY_ROW,
    accept_unproven: bool = False,
    engine: str | None = None,
    cluster: Any = None,
    workers: int | None = None,
    noise: Noise | None = None,
    transcript: Transcript | None = None,
) -> Interior:
    """Open a table from inside, for the door and for audits of made-up tables; arguments as of `open_table`."""
    schema = None if schema is None else schema.without(drop)
    dropped = tuple(drop) if schema is None else schema.dropped
    read_as = reading_of(data, dialect, None if schema is None else schema.reading)
    if _only_sums(data):
        backend, restore = data, Frame()
    else:
        ids = ids_of(schema, unit.column)
        backend, restore = open_engine(data, read_as, engine, cluster, workers, ids=ids, drop=dropped)
    read_as = getattr(backend, "dialect", None)
    described = described_as(backend.layout, schema, target, unit.column, target_kind)
    # A release says how its rows are written, as their table's were.
    described = replace(described, reading=stated(read_as), dropped=dropped)
    if not described.valued:
        raise SchemaError("every column is of kind id, which is never read; there is nothing to learn from")
    rehearse(described, backend.layout, restore)
    check_written_rules(described, released(described, backend.layout))
    # Whatever the noise needs is loaded before anything is charged.
    drawn = SecureNoise() if noise is None else noise
    # Which of a person's rows count is no secret of the noise; tests that replace it want the same ones each time.
    key = bytes(32) if noise else secrets.token_bytes(32) if transcript is None else transcript.key
    if isinstance(backend, Engine):
        refuse_nothing_to_learn(backend, described.target)
    # A table that is refused leaves no new ledger behind.
    book = book_of(ledger, cap, new_ledger)
    # A ledger made for this table alone cannot meet its rows again.
    mark = _no_fingerprint if ledger is None else partial(_met, backend, transcript)
    book.register(dataset, mark, cap=cap, terms=f"{budget.adjacency}, {unit.described}")
    if unit.column is not None:
        if not isinstance(backend, Engine):
            raise SettingError(f"unit ({unit.column}) needs rows, and this engine only sums; use another")
        backend = backend.bounded(unit.column, unit.max_rows, key)
    return Interior(
        backend=backend,
        schema=described,
        spending=Spending(budget, book, dataset, transcript),
        noise=drawn,
        unit=unit,
        key=key,
        accept_unproven=accept_unproven,
        restore=restore,
        dialect=read_as,
    )


def ids_of(schema: Schema | None, unit: str | None) -> set[str]:
    """Return the columns whose values name something: they are compared as they came, whatever they look like."""
    named = {column.name for column in schema.columns if column.kind is Kind.ID} if schema is not None else set()
    return named | ({unit} if unit is not None else set())


def book_of(ledger: Ledger | str | PathLike[str] | None, cap: float | None, new: bool) -> Ledger:
    """Return the ledger that is given, or that a path leads to; one in memory for none."""
    if ledger is None or isinstance(ledger, Ledger):
        return Ledger() if ledger is None else ledger
    return open_ledger(ledger, cap=cap, new=new)


def _only_sums(data: Any) -> bool:
    return hasattr(data, "sum") and isinstance(getattr(data, "layout", None), pa.Schema)


def described_as(
    layout: pa.Schema, schema: Schema | None, target: str | None, unit: str | None, target_kind: str | None
) -> Schema:
    """Return the description of a table of this layout: the schema that is given, or its types alone.

    Raises:
        SchemaError: The schema is not confirmed, or does not fit.
        SettingError: The target or the unit is not a column, or not what the schema says.
    """
    for name, role in ((target, "target"), (unit, "unit")):
        if name is not None and name not in layout.names:
            raise SettingError(not_a_column(role, name, layout.names))
    if unit is not None:
        # What cannot be told apart cannot name a person.
        check_unit(layout, unit)
    if schema is None:
        return with_target_kind(widest(layout, target, unit), target_kind)
    if schema.origin is Origin.TYPES:
        raise SchemaError("schema's origin (types) describes no table; leave the schema out, and it is found anew")
    if schema.origin is Origin.DISCOVERED:
        # Another release has paid for it, not this one.
        schema = replace(schema, origin=Origin.RELEASED)
    if target_kind is not None:
        raise SettingError(f"target kind ({target_kind}) is the schema's to say; change the target's kind in it")
    if not schema.confirmed:
        raise SchemaError("the schema is not confirmed as public; set confirmed = true in it, or pass --confirm-schema")
    if target is not None and schema.target not in (None, target):
        raise SettingError(f"target ({target}) is not the schema's ({schema.target}); change one of them")
    fitted = codec.fit(schema, layout)
    if unit is not None and fitted[unit].kind is not Kind.ID:
        raise SchemaError(f"column {unit}: the unit must be of kind id, not {fitted[unit].kind}; correct the schema")
    return fitted if target is None else replace(fitted, target=target)


@dataclass(frozen=True, slots=True)
class _Labels:
    """How many rows a batch has, and how many of them have a value in a column."""

    column: str
    pure = True

    def __call__(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        return np.array([batch.num_rows, batch.num_rows - batch.column(self.column).null_count])


def refuse_nothing_to_learn(backend: Engine, target: str | None) -> None:
    """Refuse a table without rows or labels, or that cannot be read to its end, while nothing is spent.

    It tells the owner; nothing is released.
    """
    column = target or backend.layout.names[0]
    rows, valid = backend.sum(_Labels(column), backend.layout.names)
    if not rows:
        raise InputError("the table has no rows; there is nothing to learn from")
    if target is not None and not valid:
        raise InputError(f"target ({target}) is missing in every row; there is nothing to learn from")


@dataclass(frozen=True, slots=True, repr=False)
class _Marks:
    """Two sums of the rows' keyed hashes, modulo 2**64."""

    secret: bytes
    pure = True

    def __call__(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        hashes = row_hashes(batch, self.secret, canonical=True)
        return np.array([hashes.sum(), mixed(~hashes).sum()], np.uint64).view(np.int64)


def fingerprint(backend: Backend, secret: bytes) -> str:
    """Return a keyed fingerprint of the rows, whatever their order: a sum, like everything else."""
    sums = backend.sum(_Marks(secret), backend.layout.names)
    return hashlib.blake2b(sums.tobytes(), key=secret, digest_size=16).hexdigest()


def _met(backend: Backend, transcript: Transcript | None, secret: bytes) -> str:
    """Return the rows' fingerprint, once the transcript has seen that they are its own."""
    mark = fingerprint(backend, secret)
    if transcript is not None:
        transcript.rows_are(mark)
    return mark


def _no_fingerprint(secret: bytes) -> str:
    return ""
