"""The ledger: what each dataset has spent, kept so that no crash or race forgets it.

A release reserves its whole plan before its first answer, then logs one charge per look at the rows,
committed before that look's noise is drawn. The ledger only ever grows, so nothing spent comes back.
"""

from __future__ import annotations

import json
import math
import secrets
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from threea.anonymize.ledger_file import DAMAGED, LedgerFile, now
from threea.errors import BudgetRefused, InternalError, SettingError

_ROUNDING = 1e-9  # so that 0.1 and 0.2 fit a cap of 0.3


@dataclass(frozen=True, slots=True)
class DatasetRow:
    """One dataset: its cap (None: no cap), its releases, and the epsilon and delta they reserved."""

    name: str
    created: str
    cap: float | None
    releases: int
    spent: float
    delta: float


@dataclass(frozen=True, slots=True)
class ReleaseRow:
    """One reservation, and how many of its planned charges were made."""

    id: str
    dataset: str
    recipe: str
    created: str
    epsilon: float
    delta: float
    charged: int
    planned: int


@dataclass(frozen=True, slots=True)
class ChargeRow:
    """One look at the rows; epsilon and delta are all the dataset had reserved at that moment."""

    seq: int
    line: str
    number: int
    created: str
    epsilon: float
    delta: float
    event: dict[str, Any]


class Ledger(LedgerFile):
    """A record of what was spent on each dataset, in one SQLite file.

    Guarantees:
        - Never overspends: of processes that race, only those whose releases fit the cap together pass.
        - Never refunds: what was reserved or charged is on disk when the call returns, and stays there.
        - Notices at opening, before the rows are asked anything, a file that cannot be written or read whole.
        - Notices the same rows under a second name.

    Args:
        path: The file, made if it does not exist. None keeps the ledger in memory, for this process alone.

    Raises:
        LedgerError: The file cannot serve as a ledger; the message says why and what to do.

    Example:
        >>> with Ledger() as ledger:
        ...     ledger.register("patients", lambda key: "fingerprint of the rows", cap=2.0)
        ...     plan = [("count", {"event": "Pure", "epsilon": 1.0}, 1)]
        ...     release = ledger.reserve("patients", epsilon=1.0, delta=0.0, lines=plan)
        ...     ledger.charge(release, "count")
        ...     [(row.name, row.spent, row.cap) for row in ledger.datasets()]
        [('patients', 1.0, 2.0)]
    """

    def register(
        self, dataset: str, fingerprint: Callable[[bytes], str], *, cap: float | None = None, terms: str = ""
    ) -> None:
        """Enter a dataset under its owner's name, or meet it again.

        The same name with other rows is a table that grew; the same rows with another name, a second budget.

        Args:
            dataset: The owner's name for the data: 1 to 200 printable characters.
            fingerprint: Gives the fingerprint of the rows under the ledger's secret key.
            cap: Epsilon that all releases together may spend. It can be lowered later, never raised.
            terms: Adjacency and unit: epsilons add up only where these are the same, so the first ones stay.

        Raises:
            LedgerError: The rows are in this ledger under another name, or the cap would be raised.
            SettingError: The name or the cap is outside its bounds.
        """
        if not (dataset.strip() and len(dataset) <= 200 and dataset.isprintable()):
            raise SettingError(f"dataset name ({dataset[:200]!r}) must be 1 to 200 printable characters")
        if cap is not None and not 0 < cap < math.inf:
            raise SettingError(f"cap ({cap}) must be > 0 and finite; for no cap leave it out")
        mark = fingerprint(self._key)
        with self.transaction() as connection:
            owners = connection.execute("SELECT dataset FROM fingerprints WHERE fingerprint = ?", (mark,))
            for (owner,) in owners.fetchall():
                if owner != dataset:
                    raise self.error(f"holds these rows under the name {owner!r}; use --dataset {owner}")
            connection.execute("INSERT OR IGNORE INTO datasets VALUES (?, ?, ?, NULL)", (dataset, now(), terms))
            (agreed,) = connection.execute("SELECT terms FROM datasets WHERE name = ?", (dataset,)).fetchone()
            if terms != agreed:
                what = f"adds up {dataset!r} under {agreed!r}, which {terms!r} cannot be added to"
                raise self.error(f"{what}; keep to the first, or start another ledger")
            connection.execute("INSERT OR IGNORE INTO fingerprints VALUES (?, ?)", (mark, dataset))
            if cap is not None:
                old = _cap(connection, dataset)
                if old is not None and cap > old:
                    what = f"caps {dataset!r} at {old:g}, asked for {cap:g}; a cap can only be lowered"
                    raise self.error(f"{what}, so leave --cap out")
                connection.execute("UPDATE datasets SET cap = ? WHERE name = ?", (float(cap), dataset))

    def reserve(
        self,
        dataset: str,
        *,
        epsilon: float,
        delta: float,
        lines: Sequence[tuple[str, dict[str, Any], int]],
        recipe: str = "",
    ) -> str:
        """Reserve a release's whole plan, or refuse it whole.

        Releases add up by basic composition: epsilons and deltas are summed. That is a valid privacy filter
        even when later budgets are chosen after seeing earlier releases, which tighter composition theorems
        do not give for free.

        Args:
            dataset: A registered name.
            epsilon: Epsilon of the whole release; infinity for rows handed out, which no cap allows.
            delta: Delta of the whole release.
            lines: For each kind of look at the rows: name, event as JSON data, how often it may be charged.
            recipe: Who asked, for display.

        Returns:
            The release's id.

        Raises:
            BudgetRefused: The dataset's cap does not cover the release. Nothing is reserved.

        Reference:
            Rogers, Roth, Ullman, Vadhan (2016), Privacy Odometers and Filters: Pay-as-you-Go Composition.
        """
        if not epsilon > 0 or not 0 <= delta <= 1:
            raise SettingError(f"epsilon ({epsilon}) must be > 0 and delta ({delta}) from 0 to 1")
        if len({name for name, _, _ in lines}) < len(lines) or any(count < 1 for _, _, count in lines):
            raise InternalError("the lines of a plan need different names and counts of at least 1")
        release = secrets.token_hex(8)
        with self.transaction() as connection:
            cap, (spent, _) = _cap(connection, dataset), _spent(connection, dataset)
            if cap is not None and spent + epsilon > cap * (1 + _ROUNDING):
                what = f"dataset {dataset!r} in ledger {self.path}"
                remedy = "ask for no more than is left" if spent < cap else "no release from it can follow"
                raise BudgetRefused(what, requested=epsilon, spent=spent, cap=cap, remedy=remedy)
            row = (release, dataset, recipe, now(), float(epsilon), float(delta))
            connection.execute("INSERT INTO releases VALUES (?, ?, ?, ?, ?, ?)", row)
            rows = [(release, name, json.dumps(event), count) for name, event, count in lines]
            connection.executemany("INSERT INTO lines VALUES (?, ?, ?, ?)", rows)
        return release

    def charge(self, release: str, line: str) -> None:
        """Log one look at the rows, on disk when this returns; only then may its noise be drawn.

        Raises:
            InternalError: The line was not reserved, or was charged as often as reserved.
        """
        query = """SELECT dataset, event, count,
            (SELECT COALESCE(MAX(number), 0) FROM charges WHERE release = ?1 AND line = ?2)
            FROM lines JOIN releases ON id = release WHERE release = ?1 AND name = ?2"""
        with self.transaction() as connection:
            plan = connection.execute(query, (release, line)).fetchone()
            if plan is None:
                raise InternalError(f"release {release!r} reserved no line {line!r}")
            dataset, event, count, made = plan
            if made >= count:
                raise InternalError(f"line {line!r} of release {release!r} was charged all {count} times")
            row = (release, line, made + 1, event, *_spent(connection, dataset), now())
            connection.execute("INSERT INTO charges VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)", row)

    def datasets(self) -> list[DatasetRow]:
        """List the datasets, by name."""
        query = """SELECT name, created, cap, (SELECT COUNT(*) FROM releases WHERE dataset = name)
            FROM datasets ORDER BY name"""
        with self.transaction() as connection:
            rows = connection.execute(query).fetchall()
            values = [(*row, *_spent(connection, row[0])) for row in rows]
        return [DatasetRow(*row) for row in values]

    def releases(self, dataset: str | None = None) -> list[ReleaseRow]:
        """List the reservations, oldest first, of one dataset or of all."""
        query = """SELECT id, dataset, recipe, created, epsilon, delta,
            (SELECT COUNT(*) FROM charges WHERE release = id),
            (SELECT COALESCE(SUM(count), 0) FROM lines WHERE release = id)
            FROM releases WHERE ?1 IS NULL OR dataset = ?1 ORDER BY releases.rowid"""
        with self.transaction() as connection:
            rows = connection.execute(query, (dataset,)).fetchall()
        return [ReleaseRow(*row) for row in rows]

    def charges(self, release: str) -> list[ChargeRow]:
        """List a release's charges, oldest first."""
        query = """SELECT seq, line, number, created, epsilon, delta, event
            FROM charges WHERE release = ? ORDER BY seq"""
        with self.transaction() as connection:
            rows = connection.execute(query, (release,)).fetchall()
        try:
            values = [(*row[:-1], json.loads(row[-1])) for row in rows]
        except ValueError:
            raise self.error(DAMAGED) from None
        return [ChargeRow(*row) for row in values]


def _cap(connection: sqlite3.Connection, dataset: str) -> float | None:
    rows: list[tuple[float | None]] = connection.execute(
        "SELECT cap FROM datasets WHERE name = ?", (dataset,)
    ).fetchall()
    if not rows:
        raise InternalError(f"dataset {dataset!r} must be registered before it is used")
    return rows[0][0]


def _spent(connection: sqlite3.Connection, dataset: str) -> tuple[float, float]:
    # Summed here, for what SQLite's sum makes of infinities differs by version.
    rows = connection.execute("SELECT epsilon, delta FROM releases WHERE dataset = ?", (dataset,)).fetchall()
    return math.fsum(epsilon for epsilon, _ in rows), math.fsum(delta for _, delta in rows)
