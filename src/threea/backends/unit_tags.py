"""A unit's name as 128 bits that tell nothing of it to who has not the key, and tell it from any other."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_MISSING = bytes(16)


def unit_tags(values: pa.Array, key: bytes) -> NDArray[np.uint64]:
    """Return two words for each value: keyed BLAKE2b of its text, zeros for none. Shape (rows, 2).

    Two units share a tag with a probability of about the square of their number over 2**129.
    """
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    encoded = values.dictionary_encode(null_encoding="encode")
    names = encoded.dictionary.cast(pa.string()).to_pylist()
    tags = [_MISSING if name is None else _tag(name, key) for name in names]
    words = np.frombuffer(b"".join(tags), np.uint64).reshape(-1, 2)
    return words[np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)]


def _tag(name: str, key: bytes) -> bytes:
    return hashlib.blake2b(name.encode(), key=key[:64], digest_size=16).digest()
