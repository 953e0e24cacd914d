"""A text file as UTF-8, for a reader that reads ahead in threads of its own.

Arrow's CSV reader does not wait for those threads when it fails. One that comes back to Python while the interpreter
ends hangs the process, or aborts it. So what Python lends to such a reader is called back before anything else happens.
"""

from __future__ import annotations

import codecs
import time
import weakref
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

Lent = TypeVar("Lent")
_PATIENCE = 30.0
"""Seconds within which a reader lets go; it needs as long as the blocks that it has take to parse."""


class TextFile:
    """A file that readers are given as UTF-8, and that knows when they are done with it.

    Args:
        path: The file, possibly compressed (.gz).
        encoding: What its text is written in.
    """

    def __init__(self, path: Path, encoding: str) -> None:
        self.path, self.encoding, self.ended = path, encoding, False
        self._lent: list[weakref.ref[Any]] = []

    def lend(self) -> Path | _Stream:
        """Return what a reader opens: the file itself if it is UTF-8, for then no thread comes back to Python."""
        if codecs.lookup(self.encoding).name == "utf-8":
            return self.path
        return self.remembered(_Stream(self))

    def remembered(self, lent: Lent) -> Lent:
        """Keep an eye on something that was lent."""
        self._lent = [other for other in self._lent if other() is not None] + [weakref.ref(lent)]
        return lent

    def recall(self) -> None:
        """End what is being read, and wait until no reader holds any of it."""
        self.ended = True
        deadline = time.monotonic() + _PATIENCE
        while any(lent() is not None for lent in self._lent) and time.monotonic() < deadline:
            time.sleep(0.001)


class _Stream:
    """The file as a reader sees it: blocks of UTF-8, until its owner ends it."""

    closed = False

    def __init__(self, owner: TextFile) -> None:
        self._owner, self._file = owner, pa.input_stream(str(owner.path))
        self._decoder = codecs.getincrementaldecoder(owner.encoding)()

    def read(self, size: int) -> pa.Buffer:
        """Return the next block, of about that many bytes; an empty one at the end."""
        text, raw = "", b"more"
        while raw and not text and not self._owner.ended:
            raw = self._file.read(size)
            text = self._decoder.decode(raw, final=not raw)
        return self._owner.remembered(pa.py_buffer(text.encode()))

    def close(self) -> None:
        """Close the file."""
        self.closed = True
        self._file.close()
