"""The ledger: what each dataset has spent, kept so that no crash, race or damage forgets it.

A release reserves its whole plan before its first answer, then logs one charge per look at the rows,
committed before that look's noise is drawn. The ledger only ever grows, so nothing spent comes back.
"""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Callable, Sequence
from typing import Any

from threea.errors import BudgetRefused, InternalError, SettingError
from threea.ledger.books import Account, Books, ChargeRow, DatasetRow, ReleaseRow
from threea.ledger.file import LedgerFile

_ROUNDING = 1e-9  # so that 0.1 and 0.2 fit a cap of 0.3


class Ledger(LedgerFile):
    """A record of what was spent on each dataset, in one file.

    Guarantees:
        - Never overspends: of processes that race, only those whose releases fit the cap together pass.
        - Never refunds: what was reserved or charged is on disk when the call returns, and stays there.
        - Never forgets in silence: what it decides by was checked against the chain of hashes; a file that was
          damaged, cut, emptied, replaced or put back to an older state while in use is an error.
        - Notices at opening, before the rows are asked anything, a file that cannot be written.
        - Notices the same rows under a second name.

    Args:
        path: The file. None keeps the ledger in memory, for this process alone.
        create: Make the file if it does not exist. Without it a path that leads nowhere is an error.
        reading: Only look at it: neither a file that may be written nor room on the disk is needed.

    Attributes:
        new: Whether the file was made just now.

    Raises:
        LedgerError: The file cannot serve as a ledger; the message says why and what to do.

    Example:
        >>> with Ledger() as ledger:
        ...     ledger.register("patients", lambda key: "fingerprint of the rows", cap=2.0)
        ...     plan = [("count", {"event": "Pure", "epsilon": 1.0}, 1)]
        ...     release = ledger.reserve("patients", epsilon=1.0, delta=0.0, lines=plan)
        ...     ledger.charge(release, "count")
        ...     [(row.name, row.spent, row.cap) for row in ledger.datasets()], ledger.head.entries
        ([('patients', 1.0, 2.0)], 4)
    """

    def register(
        self, dataset: str, fingerprint: Callable[[bytes], str], *, cap: float | None = None, terms: str = ""
    ) -> None:
        """Enter a dataset under its owner's name, or meet it again.

        The same name with other rows is a table that grew; the same rows with another name, a second budget.
        It always writes one entry, so that the number of entries, which certificates show, says nothing about rows.

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
        mark = fingerprint(self._books.key)
        with self.transaction() as books:
            owner = books.owners.get(mark, dataset)
            if owner != dataset:
                raise self.error(f"holds these rows under the name {owner!r}; use that name with --dataset")
            account = books.datasets.get(dataset)
            if account is not None:
                self._refuse_other_terms(dataset, account, terms, cap)
            cap = None if cap is None else float(cap)
            self.write({"kind": "dataset", "name": dataset, "fingerprint": mark, "terms": terms, "cap": cap})

    def _refuse_other_terms(self, dataset: str, account: Account, terms: str, cap: float | None) -> None:
        if terms != account.terms:
            what = f"adds up {dataset!r} under {account.terms!r}, which {terms!r} cannot be added to"
            raise self.error(f"{what}; keep to the first")
        if cap is not None and account.cap is not None and cap > account.cap:
            what = f"caps {dataset!r} at {account.cap:g}, asked for {cap:g}; a cap can only be lowered"
            raise self.error(f"{what}, so leave --cap out")

    def reserve(
        self,
        dataset: str,
        *,
        epsilon: float,
        delta: float,
        lines: Sequence[tuple[str, dict[str, Any], int]],
        recipe: str = "",
        release: str | None = None,
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
            release: Its id, which no other has; one that is drawn by default.

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
        release, cost = release or secrets.token_hex(8), {"epsilon": float(epsilon), "delta": float(delta)}
        with self.transaction() as books:
            if release in books.releases:
                raise InternalError(f"release {release!r} is reserved already")
            account = _account(books, dataset)
            self._refuse(dataset, account, epsilon, account.cap)
            plan = {"id": release, "dataset": dataset, "recipe": recipe, "lines": list(lines)}
            self.write({"kind": "release", **plan, **cost})
        return release

    def refuse_over_cap(self, dataset: str, epsilon: float, cap: float | None = None) -> None:
        """Refuse what `reserve` would refuse if the dataset were registered with this cap; nothing is written.

        Raises:
            BudgetRefused: As of `reserve`.
        """
        with self.transaction(writing=False) as books:
            account = books.datasets.get(dataset, Account("", ""))
            caps = [lowered for lowered in (cap, account.cap) if lowered is not None]
            self._refuse(dataset, account, epsilon, min(caps, default=None))

    def _refuse(self, dataset: str, account: Account, epsilon: float, cap: float | None) -> None:
        spent = account.spent
        if cap is not None and spent + epsilon > cap * (1 + _ROUNDING):
            what = f"dataset {dataset!r} in ledger {self.path}"
            remedy = "ask for no more than is left" if spent < cap else "no release from it can follow"
            raise BudgetRefused(what, requested=epsilon, spent=spent, cap=cap, remedy=remedy)

    def charge(self, release: str, line: str, times: int = 1) -> None:
        """Log looks at the rows, on disk when this returns; only then may their noise be drawn.

        Args:
            release: The release's id.
            line: Which line of its plan.
            times: How many looks to pay for at once, as one entry.

        Raises:
            InternalError: The line was not reserved, or would be charged more often than reserved.
        """
        if times < 1:
            raise InternalError(f"a line is charged at least once, not {times} times")
        with self.transaction() as books:
            plan = books.lines.get((release, line))
            if plan is None:
                raise InternalError(f"release {release!r} reserved no line {line!r}")
            if plan.made + times > plan.count:
                was = f"line {line!r} of release {release!r} was charged {plan.made} of {plan.count} times"
                raise InternalError(f"{was}, asked for {times} more")
            account = _account(books, books.releases[release].dataset)
            running = {"epsilon": account.spent, "delta": account.delta}
            self.write({"kind": "charge", "release": release, "line": line, "times": times, **running})

    def datasets(self) -> list[DatasetRow]:
        """List the datasets, by name."""
        with self.transaction(writing=False) as books:
            return [
                DatasetRow(name, account.created, account.cap, len(account.costs), account.spent, account.delta)
                for name, account in sorted(books.datasets.items())
            ]

    def releases(self, dataset: str | None = None) -> list[ReleaseRow]:
        """List the reservations, oldest first, of one dataset or of all."""
        with self.transaction(writing=False) as books:
            return [row for row in books.releases.values() if dataset in (None, row.dataset)]

    def charges(self, release: str) -> list[ChargeRow]:
        """List a release's charges, oldest first."""
        with self.transaction(writing=False) as books:
            return list(books.charges.get(release, []))


def open_ledger(path: str | os.PathLike[str], *, cap: float | None = None, new: bool = False) -> Ledger:
    """Open the ledger of a release, or make it where that cannot hide a mistyped path.

    Whoever gives a cap means all releases of the dataset together. A new ledger would not know the earlier ones,
    so it is made only on demand; without a cap it is made, and `ledger.new` says so.

    Args:
        path: The file.
        cap: The cap that the release was given, if any.
        new: Make a new ledger (`--new-ledger`); one that exists is then refused.

    Raises:
        LedgerError: There is no such file and a cap is expected, or there is one and a new one was asked for.
    """
    ledger = Ledger(path, create=new or cap is None)
    if new and not ledger.new:
        ledger.close()
        raise ledger.error("exists already; leave --new-ledger out, or give another path")
    return ledger


def _account(books: Books, dataset: str) -> Account:
    if dataset not in books.datasets:
        raise InternalError(f"dataset {dataset!r} must be registered before it is used")
    return books.datasets[dataset]
