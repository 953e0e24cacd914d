"""The ledger's chain: every entry carries a hash over the hash before it and its own content.

A prefix of the chain is all that an entry's hash depends on, so a hash in a certificate stands for all that was
written until then.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

_BEFORE_THE_FIRST = "0" * 64


@dataclass(frozen=True, slots=True)
class LedgerHead:
    """Where a ledger stands: how many entries it has, and the hash of the last, which covers them all.

    Example:
        >>> print(LedgerHead(3, "9f" * 32))
        3 entries, sha256 9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f
    """

    entries: int
    sha256: str

    def __str__(self) -> str:
        return f"{self.entries} {'entry' if self.entries == 1 else 'entries'}, sha256 {self.sha256}"

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON data, for a certificate."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: object) -> LedgerHead:
        """Read what `to_json` wrote.

        Raises:
            ValueError: The data is something else.
        """
        match data:
            case {"entries": int(entries), "sha256": str(sha256)} if entries > 0 and _is_hash(sha256):
                return cls(entries, sha256)
        raise ValueError("not the head of a ledger")


class Chain:
    """The hashes of a ledger's entries, oldest first. It only grows."""

    def __init__(self) -> None:
        self._hashes = [_BEFORE_THE_FIRST]

    @property
    def head(self) -> LedgerHead:
        """The number of entries and the last hash."""
        return LedgerHead(len(self._hashes) - 1, self._hashes[-1])

    def holds(self, head: LedgerHead) -> bool:
        """Whether the chain went through this head."""
        return 0 <= head.entries < len(self._hashes) and self._hashes[head.entries] == head.sha256

    def verified(self, rows: Iterable[tuple[object, object, object]]) -> list[tuple[str, str]]:
        """Return content and hash of the entries that follow, if each is as it was written.

        Args:
            rows: Number, content and hash, in order, as read from the file.

        Raises:
            ValueError: An entry is missing, altered, or in another place.
        """
        before, entries = self.head.sha256, []
        for number, row in enumerate(rows, start=self.head.entries + 1):
            content = row[1]
            before = entry_hash(before, content) if isinstance(content, str) else ""
            if row != (number, content, before):
                raise ValueError(f"entry {number} is not as it was written")
            entries.append((str(content), before))
        return entries

    def append(self, sha256: str) -> None:
        """Go on to an entry's hash."""
        self._hashes.append(sha256)


def canonical(entry: dict[str, Any]) -> str:
    """Return an entry as the one text that is hashed and stored."""
    return json.dumps(entry, sort_keys=True, separators=(",", ":"))


def entry_hash(before: str, content: str) -> str:
    """Return the hash of an entry that follows the hash before it."""
    return hashlib.sha256(bytes.fromhex(before) + content.encode()).hexdigest()


def _is_hash(text: str) -> bool:
    return len(text) == 64 and set(text) <= set("0123456789abcdef")
