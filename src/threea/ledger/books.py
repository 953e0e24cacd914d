"""What the ledger's entries add up to: datasets, releases, charges. A function of the entries alone."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from threea.ledger.chain import Chain, line_of


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
class LineRow:
    """One line of a release's plan: how often it may be charged, and how often it was."""

    event: dict[str, Any]
    count: int
    made: int = 0


@dataclass(frozen=True, slots=True)
class ChargeRow:
    """Looks at the rows charged at once; epsilon and delta are all the dataset had reserved at that moment."""

    entry: int
    """Its place in the ledger's chain."""
    line: str
    number: int
    """How often the line was charged, this time included."""
    times: int
    """How many looks it pays for."""
    created: str
    epsilon: float
    delta: float
    event: dict[str, Any]


@dataclass(slots=True)
class Account:
    """What is known of a dataset, and the epsilon and delta of each of its releases."""

    created: str
    terms: str
    cap: float | None = None
    costs: list[tuple[float, float]] = field(default_factory=list)

    @property
    def spent(self) -> float:
        """All reserved epsilons, added exactly."""
        return math.fsum(epsilon for epsilon, _ in self.costs)

    @property
    def delta(self) -> float:
        """All reserved deltas, added exactly."""
        return math.fsum(delta for _, delta in self.costs)


class UnknownEntry(ValueError):
    """An entry of a kind that a later threea writes."""


class Books:
    """Everything the entries say, kept up entry by entry.

    Attributes:
        key: The ledger's secret, under which rows are fingerprinted.
        chain: The hashes of the entries.
        owners: The dataset of each fingerprint.

    Args:
        start: The byte of the file at which the first entry begins.
    """

    def __init__(self, start: int = 0) -> None:
        self.key, self.chain = b"", Chain(start)
        self.datasets: dict[str, Account] = {}
        self.owners: dict[str, str] = {}
        self.releases: dict[str, ReleaseRow] = {}
        self.lines: dict[tuple[str, str], LineRow] = {}
        self.charges: dict[str, list[ChargeRow]] = {}

    def enter(self, content: str, sha256: str) -> None:
        """Add the next entry, given as its verified text and hash.

        Raises:
            UnknownEntry: It is of a kind that this version does not know.
            ValueError, TypeError, KeyError: It was not written by `Ledger`.
        """
        entry = json.loads(content)
        kind = entry.pop("kind")
        entry.pop("nonce", None)
        acts: dict[str, Callable[..., None]] = {
            "ledger": self._made,
            "dataset": self._registered,
            "release": self._reserved,
            "charge": self._charged,
        }
        if kind not in acts:
            raise UnknownEntry
        # In this order: an entry that was cut short in between by an interrupt is entered again, not left out.
        acts[kind](**entry)
        self.chain.append(sha256, len(line_of(self.chain.head.entries + 1, content, sha256)))

    def _made(self, *, key: str, created: str) -> None:
        self.key = bytes.fromhex(key)

    def _registered(self, *, name: str, fingerprint: str, terms: str, cap: float | None, created: str) -> None:
        _require(cap is None or 0 < cap < math.inf)
        account = self.datasets.setdefault(name, Account(created, terms))
        account.cap = account.cap if cap is None else cap
        self.owners[fingerprint] = name

    def _reserved(
        self,
        *,
        id: str,
        dataset: str,
        recipe: str,
        epsilon: float,
        delta: float,
        lines: list[tuple[str, dict[str, Any], int]],
        created: str,
    ) -> None:
        _require(epsilon > 0 and 0 <= delta <= 1)
        planned = sum(count for _, _, count in lines)
        self.releases[id] = ReleaseRow(id, dataset, recipe, created, epsilon, delta, 0, planned)
        self.lines |= {(id, name): LineRow(event, count) for name, event, count in lines}
        self.charges[id] = []
        self.datasets[dataset].costs.append((epsilon, delta))

    def _charged(self, *, release: str, line: str, times: int, epsilon: float, delta: float, created: str) -> None:
        plan, paid = self.releases[release], self.lines[release, line]
        _require(1 <= times <= paid.count - paid.made)
        self.releases[release] = replace(plan, charged=plan.charged + times)
        self.lines[release, line] = paid = replace(paid, made=paid.made + times)
        charge = ChargeRow(self.chain.head.entries + 1, line, paid.made, times, created, epsilon, delta, paid.event)
        self.charges[release].append(charge)


def _require(holds: bool) -> None:
    """Refuse an entry that no ledger would have written."""
    if not holds:
        raise ValueError("an entry that no ledger would have written")
