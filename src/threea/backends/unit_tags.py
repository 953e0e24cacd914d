"""A unit's name as 128 bits that tell nothing of it to who has not the key, and tell it from any other."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from threea.table.codec import values_of

_MISSING = bytes(16)
_ZEROS = r"(\.\d*[1-9])0+$|\.0+$"
"""At the end of a fraction: how many there are follows from the type."""


def unit_tags(values: pa.Array, key: bytes) -> NDArray[np.uint64]:
    """Return two words for each value: keyed BLAKE2b of its text, zeros for none. Shape (rows, 2).

    The same value has the same tag however it is stored: in a dictionary or not, in more bits, or of finer units.

    Two units share a tag with a probability of about the square of their number over 2**129.
    """
    values = values_of(values)
    encoded = values.dictionary_encode(null_encoding="encode")
    texts = encoded.dictionary.cast(pa.string())
    if pa.types.is_temporal(values.type) or pa.types.is_decimal(values.type):
        texts = pc.replace_substring_regex(texts, _ZEROS, r"\1")
    names = texts.to_pylist()
    tags = [_MISSING if name is None else _tag(name, key) for name in names]
    words = np.frombuffer(b"".join(tags), np.uint64).reshape(-1, 2)
    return words[np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)]


def _tag(name: str, key: bytes) -> bytes:
    return hashlib.blake2b(name.encode(), key=key[:64], digest_size=16).digest()
