"""Keyed 64-bit hashes of rows, vectorised. Good for telling tables apart and for choosing rows; not cryptographic."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
_MISSING = np.uint64(0x9E3779B97F4A7C15)


def row_hashes(batch: pa.RecordBatch, key: bytes) -> Hashes:
    """Return a hash of each row that depends on the values and the columns' names, not on the row's place."""
    total = np.zeros(batch.num_rows, np.uint64)
    for name in batch.schema.names:
        seed = int.from_bytes(hashlib.blake2b(name.encode(), key=key[:64], digest_size=8).digest(), "little")
        total += mixed(column_hashes(batch.column(name), key) ^ np.uint64(seed))
    return mixed(total)


def column_hashes(values: pa.Array, key: bytes) -> Hashes:
    """Return a hash of each value."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.string())
    if pa.types.is_null(values.type):
        return np.full(len(values), _MISSING)
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type) or pa.types.is_string_view(values.type):
        hashes = _text_hashes(values.cast(pa.large_string()), key)
    else:
        hashes = _number_hashes(values)
    return np.where(values.is_valid().to_numpy(zero_copy_only=False), mixed(hashes), _MISSING)


def _text_hashes(values: pa.Array, key: bytes) -> Hashes:
    """Hash every text at once: differences of one running polynomial over all bytes, modulo 2**64."""
    if not len(values):
        return np.zeros(0, np.uint64)
    offsets = np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]
    base = int.from_bytes(hashlib.blake2b(b"base", key=key[:64], digest_size=8).digest(), "little") | 1
    table = np.random.default_rng(base).integers(0, 2**64, 256, dtype=np.uint64)
    data = values.buffers()[2]
    text = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]] if data is not None else np.zeros(0, np.uint8)
    running = np.zeros(len(text) + 1, np.uint64)
    np.cumsum(table[text] * _powers(base, len(text)), out=running[1:])
    inverse = _powers(pow(base, -1, 2**64), len(text) + 1)
    start, end = offsets[:-1] - offsets[0], offsets[1:] - offsets[0]
    hashes: Hashes = (running[end] - running[start]) * inverse[start] + (end - start).astype(np.uint64)
    return hashes


def _number_hashes(values: pa.Array) -> Hashes:
    """Return the 64 bits of every number, 0 where it is missing."""
    if pa.types.is_temporal(values.type):
        values = values.cast(pa.int32() if pa.types.is_date32(values.type) else pa.int64())
    if not pa.types.is_floating(values.type):
        kind = pa.uint64() if pa.types.is_unsigned_integer(values.type) else pa.int64()
        whole = pc.fill_null(values.cast(kind, safe=False), 0).to_numpy(zero_copy_only=False)
        return np.array(whole, dtype=kind.to_pandas_dtype()).view(np.uint64)
    reals = np.array(pc.fill_null(values.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False))
    # A whole number has the same hash however it is stored.
    as_whole = np.abs(reals) < 2.0**53
    as_whole &= np.trunc(np.where(as_whole, reals, 0.5)) == reals
    return np.where(as_whole, np.where(as_whole, reals, 0.0).astype(np.int64).view(np.uint64), reals.view(np.uint64))


def _powers(base: int, count: int) -> Hashes:
    """Return the first powers of a number, from its zeroth, modulo 2**64."""
    # Whole numbers throughout: NumPy joins int64 and uint64 to float64, which would round them.
    factors = np.full(count, base, np.uint64)
    factors[:1] = 1
    return np.cumprod(factors)


def mixed(values: Hashes) -> Hashes:
    """Scramble 64 bits (the finalizer of splitmix64)."""
    with np.errstate(over="ignore"):
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
