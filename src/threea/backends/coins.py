"""Who is in a Poisson sample: a coin for each unit, by a keyed hash that is as good as chance to who has not the key.

A unit's coin is SipHash-2-4 of what tells it from every other unit, under a key that is drawn anew for each sample. It
is the same on every engine, however the rows are cut, and for a task that is run again. A person is told from others by
their tag (`unit_tags`), so that all their rows share a coin. A row is told by its hash and its number among rows of the
same hash: equal rows have coins of their own.

Proof: docs/proofs/sampling.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from threea.backends.hashing import row_hashes
from threea.backends.unit_tags import unit_tags

Words = NDArray[np.uint64]
ROWS_KEY = b"rows"
"""Of the hashes that tell rows apart. It is no secret: coins are the sample's key's to hide."""
_START = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)


@dataclass(frozen=True, slots=True, repr=False)
class Coins:
    """The coins of one sample.

    Args:
        rate: Probability with which a unit is in it; rounded down to a multiple of 2**-64.
        key: 16 bytes, drawn for this sample.
        unit: The column that names a person, and the key of its tags; None if every row is a unit.
    """

    rate: float
    key: bytes
    unit: tuple[str, bytes] | None

    def chosen(self, batch: pa.RecordBatch, numbers: Words) -> NDArray[np.bool_]:
        """Return which rows are in the sample.

        Args:
            batch: With the unit's column, or with all columns where every row is a unit.
            numbers: For each row, how many before it in the table have the same hash.
        """
        if self.unit is not None:
            return self.fall(unit_tags(batch.column(self.unit[0]), self.unit[1]))
        return self.fall(np.column_stack([row_hashes(batch, ROWS_KEY), numbers]))

    def fall(self, words: Words) -> NDArray[np.bool_]:
        """Flip a coin for each row of words."""
        if self.rate >= 1:
            return np.ones(len(words), np.bool_)
        return np.asarray(siphash(words, self.key) < np.uint64(math.floor(math.ldexp(self.rate, 64))))


def siphash(words: Words, key: bytes) -> Words:
    """Return SipHash-2-4 of each row of 64-bit words.

    Example:
        >>> message = np.frombuffer(bytes(range(16)), np.uint64)[None]
        >>> hex(siphash(message, bytes(range(16)))[0])
        '0x3f2acc7f57c29bdb'

    Reference:
        Aumasson and Bernstein 2012, SipHash: a fast short-input PRF.
    """
    halves = np.frombuffer(key, "<u8", count=2)
    state = [np.full(len(words), start, np.uint64) ^ halves[number % 2] for number, start in enumerate(_START)]
    length = np.full(len(words), (8 * words.shape[1] % 256) << 56, np.uint64)
    for block in (*words.T, length):
        state[3] ^= block
        _rounds(state, 2)
        state[0] ^= block
    state[2] ^= np.uint64(0xFF)
    _rounds(state, 4)
    hashed: Words = state[0] ^ state[1] ^ state[2] ^ state[3]
    return hashed


def _rounds(v: list[Words], count: int) -> None:
    with np.errstate(over="ignore"):
        for _ in range(count):
            v[0] += v[1]
            v[2] += v[3]
            v[1], v[3] = _rotated(v[1], 13) ^ v[0], _rotated(v[3], 16) ^ v[2]
            v[0] = _rotated(v[0], 32)
            v[2] += v[1]
            v[0] += v[3]
            v[1], v[3] = _rotated(v[1], 17) ^ v[2], _rotated(v[3], 21) ^ v[0]
            v[2] = _rotated(v[2], 32)


def _rotated(words: Words, bits: int) -> Words:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))


def numbers_among_equals(hashes: Words) -> Words:
    """Return for each hash how many before it are the same.

    Example:
        >>> numbers_among_equals(np.array([7, 5, 7, 7], np.uint64))
        array([0, 0, 1, 2], dtype=uint64)
    """
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    first = np.searchsorted(ordered, ordered, side="left")
    numbers = np.empty(len(hashes), np.uint64)
    numbers[order] = np.arange(len(hashes), dtype=np.uint64) - first.astype(np.uint64)
    return numbers
