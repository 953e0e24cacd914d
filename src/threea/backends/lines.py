"""A text file as blocks of whole lines in UTF-8, so that every line is parsed by itself.

A parser that is given a file takes a quote that is not closed for the beginning of a long value, and other people's
lines for the rest of it. So a block ends where a line ends, and a line in which a quote stays open is refused before
any parser sees it. With `multiline` a block ends where a row ends, as the parser understands rows.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from threea.errors import InputError

BLOCK = 1 << 23
"""About how many bytes are read, and parsed, at once. A line twice as long is refused."""

_BEGINNING = re.compile(rb"\A(?:\xef\xbb\xbf|[\r\n])+")
"""Marks and empty lines before the header line."""


@dataclass(frozen=True)
class Lines:
    """The lines of a file, as its header line shows that they are written.

    Args:
        path: The file, possibly compressed (.gz).
        encoding: What its text is written in.
        separator: What stands between values.
        ending: What ends a line, as its last byte: a line feed, or a carriage return in files that have no other.
        multiline: Whether a value in quotes may hold line breaks.
    """

    path: Path
    encoding: str
    separator: str
    ending: str = "\n"
    multiline: bool = False

    def blocks(self, *, checked: bool) -> Iterator[bytes]:
        """Yield whole lines, the header line first; the mark and the empty lines before it are left out.

        Args:
            checked: Whether a pass over the same file has seen that every line's quotes close.

        Raises:
            InputError: A line's quotes do not close, or a line is too long.
        """
        rest, begun = b"", False
        for chunk in self._decoded():
            rest += chunk
            if not begun:
                rest = _BEGINNING.sub(b"", rest)
                begun = bool(rest)
            end = self._end(rest)
            if not end and len(rest) > BLOCK:
                raise self._refused("a value spans too much of it; is it a CSV file?")
            if end:
                yield self._whole(rest[:end], checked=checked)
                rest = rest[end:]
        if rest and self.multiline and self._end(rest + b"\n") <= len(rest):
            raise self._refused("a value begins with a quote that is not closed; mend the file")
        if rest:
            yield self._whole(rest, checked=checked)

    def _decoded(self) -> Iterator[bytes]:
        plain = codecs.lookup(self.encoding).name == "utf-8"
        decoder = None if plain else codecs.getincrementaldecoder(self.encoding)()
        with pa.input_stream(str(self.path)) as file:
            while raw := file.read(BLOCK):
                yield raw if decoder is None else decoder.decode(raw).encode()
        if decoder is not None:
            yield decoder.decode(b"", final=True).encode()

    def _end(self, text: bytes) -> int:
        """Return where the last whole line ends, or row if they may hold line breaks; 0 if there is none."""
        if self.multiline and b'"' in text:
            whole = self._rows.match(text)
            return whole.end() if whole else 0
        return text.rfind(self.ending.encode()) + 1

    def _whole(self, block: bytes, *, checked: bool) -> bytes:
        """Return a block after a check that its lines can be parsed by themselves."""
        if checked or self.multiline:
            return block
        if self._strays(block):
            raise self._refused(f"a line holds a line break of another kind than the header line's; {_REMEDY}")
        if b'"' in block and not self._closed(block):
            raise self._refused(f"a line has a quote that is not closed in it; {_REMEDY}")
        return block

    def _strays(self, block: bytes) -> bool:
        """Tell whether there is a line break of another kind than the header line's."""
        if self.ending == "\r":
            return b"\n" in block
        return b"\r" in block and block.count(b"\r") != block.count(b"\r\n")

    def _closed(self, block: bytes) -> bool:
        """Tell whether in every line every value that begins with a quote ends with one, as the parser reads them."""
        if self._plainly_closed(block):
            return True
        lines = pc.split_pattern(pa.array([block], pa.binary()), pattern=self.ending.encode()).flatten()
        return bool(pc.all(pc.match_substring_regex(lines, f"^{_row(self.separator, '')}$")).as_py())

    def _plainly_closed(self, block: bytes) -> bool:
        """Tell, fast, whether every line's quotes are even in number and open at the beginning of a value, or doubled.

        Then every second quote closes, and none is left open at a line's end. Other lines may be closed all the same.
        """
        data = np.frombuffer(block, np.uint8)
        quotes, ends = np.flatnonzero(data == ord('"')), np.flatnonzero(data == ord(self.ending))
        before = data[quotes[::2] - 1]
        opens = (before == ord(self.separator)) | (before == ord(self.ending)) | (before == ord('"'))
        even = not (np.searchsorted(quotes, ends) % 2).any() and len(quotes) % 2 == 0
        return bool(even and opens.all())

    @cached_property
    def _rows(self) -> re.Pattern[bytes]:
        row = _row(self.separator, r"\r\n").replace("*", "*+").encode()
        return re.compile(rb"(?:" + row + rb"(?:\r\n?|\n))*+")

    def _refused(self, problem: str) -> InputError:
        return InputError(f"{self.path} cannot be read as CSV: {problem}")


_REMEDY = "mend the file, or say multiline = true in the schema's [reading] if its values hold line breaks"


def is_closed(line: str, separator: str) -> bool:
    """Tell whether every value in a line that begins with a quote ends with one.

    Example:
        >>> is_closed('a,"b,c",5" pipe', ","), is_closed('a,"b', ",")
        (True, False)
    """
    return re.fullmatch(_row(separator, ""), line) is not None


def _row(separator: str, breaks: str) -> str:
    """Return the pattern of a row: a quote means something at the beginning of a value, and until it is closed."""
    between = rf"\x{ord(separator):02x}"
    rest = f"[^{between}{breaks}]*"
    first = f'[^"{between}{breaks}]'
    value = f'(?:"(?:[^"]|"")*"(?:{first}{rest})?|{first}{rest})?'
    return f"{value}(?:{between}{value})*"
