"""The ledger's chain: every entry carries a hash over the hash before it and its own content.

A prefix of the chain is all that an entry's hash depends on, so a hash in a certificate stands for all that was
written until then.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
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
    """The hashes of a ledger's entries, oldest first, and where each entry's line ends. It only grows.

    Args:
        start: The byte of the file at which the first entry's line begins.
    """

    def __init__(self, start: int = 0) -> None:
        self._entries = [(_BEFORE_THE_FIRST, start)]

    @property
    def head(self) -> LedgerHead:
        """The number of entries and the last hash."""
        return LedgerHead(len(self._entries) - 1, self._entries[-1][0])

    @property
    def start(self) -> int:
        """The byte at which the first line begins."""
        return self._entries[0][1]

    @property
    def end(self) -> int:
        """The byte at which the next line will begin."""
        return self._entries[-1][1]

    @property
    def last_line(self) -> int:
        """The byte at which the last line begins; that of the first if there is none."""
        return self._entries[-2:][0][1]

    def holds(self, head: LedgerHead) -> bool:
        """Whether the chain went through this head."""
        return 0 <= head.entries < len(self._entries) and self._entries[head.entries][0] == head.sha256

    def verified(self, lines: Iterable[bytes], after: int) -> Iterator[tuple[str, str]]:
        """Give content and hash of the entries that follow one of the chain's, as long as each is as it was written.

        Args:
            lines: The lines, in order, as read from the file.
            after: The number of the entry that they follow.

        Raises:
            ValueError: An entry is missing, altered, or in another place.
        """
        before = self._entries[after][0]
        for number, written in enumerate(lines, start=after + 1):
            _, _, content = written.decode("ascii").removesuffix("\n").split(" ", 2)
            before = entry_hash(before, content)
            if written != line_of(number, content, before):
                raise ValueError(f"entry {number} is not as it was written")
            yield content, before

    def append(self, sha256: str, size: int) -> None:
        """Go on to an entry's hash, and to the end of its line of so many bytes."""
        self._entries.append((sha256, self.end + size))


def line_of(number: int, content: str, sha256: str) -> bytes:
    """Return an entry as it is written: number, hash, content."""
    return f"{number} {sha256} {content}\n".encode("ascii")


def canonical(entry: dict[str, Any]) -> str:
    """Return an entry as the one text that is hashed and stored."""
    return json.dumps(entry, sort_keys=True, separators=(",", ":"))


def entry_hash(before: str, content: str) -> str:
    """Return the hash of an entry that follows the hash before it."""
    return hashlib.sha256(bytes.fromhex(before) + content.encode()).hexdigest()


def _is_hash(text: str) -> bool:
    return len(text) == 64 and set(text) <= set("0123456789abcdef")
