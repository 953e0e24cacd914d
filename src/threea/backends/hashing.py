"""Keyed 64-bit hashes of rows, vectorised. Good for telling tables apart and for choosing rows; not cryptographic.

A canonical hash does not depend on how a value is stored: 31, 31.0 and the text 31 are one value, and so are a date and
its ISO text, true and the text true, a category and its word, a missing value and a text that stands for one. So the
same rows are known again as CSV, Parquet or a frame. What a value is taken for is decided by that value alone. Other
hashes are of the values as they were read, so that no two rows of a table that differ are taken for one.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from threea.table.dialect import MISSING_TEXT
from threea.table.layout import is_text
from threea.table.patterns import PATTERNS, ZONE, matches
from threea.table.schema import Kind

Hashes = NDArray[np.uint64]
_MISSING = np.uint64(0x9E3779B97F4A7C15)
_REST = np.uint64(0xD1B54A32D192ED03)
_MICROSECONDS = {"day": 86_400_000_000, "s": 10**6, "ms": 10**3, "us": 1}
_PLAIN = 12
"""Numbers between these powers of ten are turned into text and back by arithmetic alone."""
_TENS = 10.0 ** np.arange(_PLAIN + 10)
_TRUTH = PATTERNS[Kind.BOOLEAN]
_LONG = r"^[+-]?\d{16,40}(\.0*)?$"
"""Whole numbers that a float may not hold."""
_NUMBER = r"^[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:inf(inity)?))$"
_MOMENT = f"({PATTERNS[Kind.DATE]})|({PATTERNS[Kind.DATETIME]})"


def row_hashes(rows: pa.RecordBatch | pa.Table, key: bytes, *, canonical: bool = False) -> Hashes:
    """Return a hash of each row that depends on the values and the columns' names, not on the row's place."""
    total = np.zeros(rows.num_rows, np.uint64)
    for name in rows.schema.names:
        seed = int.from_bytes(hashlib.blake2b(name.encode(), key=key[:64], digest_size=8).digest(), "little")
        total += mixed(column_hashes(rows.column(name), key, canonical=canonical) ^ np.uint64(seed))
    return mixed(total)


def column_hashes(values: pa.Array | pa.ChunkedArray, key: bytes, *, canonical: bool = False) -> Hashes:
    """Return a hash of each value, the same however it is stored if `canonical`."""
    if isinstance(values, pa.ChunkedArray):
        parts = (column_hashes(chunk, key, canonical=canonical) for chunk in values.chunks)
        return np.concatenate([np.zeros(0, np.uint64), *parts])
    if pa.types.is_dictionary(values.type):
        return _taken(column_hashes(values.dictionary, key, canonical=canonical), values.indices)
    if pa.types.is_null(values.type):
        return np.full(len(values), _MISSING)
    if is_text(values.type) or pa.types.is_decimal(values.type):
        text = values.cast(pa.string()).cast(pa.large_string()).dictionary_encode()
        hashes = _text_hashes(text.dictionary, key) if canonical else mixed(_polynomials(text.dictionary, key))
        return _taken(hashes, text.indices)
    return _number_hashes(values, canonical=canonical)


def _taken(hashes: Hashes, indices: pa.Array) -> Hashes:
    """Return the hash of each value from those of a dictionary."""
    taken: Hashes = np.append(hashes, _MISSING)[
        pc.fill_null(indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    ]
    return taken


def _number_hashes(values: pa.Array, *, canonical: bool = True) -> Hashes:
    """Hash numbers, truth values (as 0 and 1) and moments (as microseconds since 1970, and what is left of one)."""
    missing = ~values.is_valid().to_numpy(zero_copy_only=False)
    if pa.types.is_floating(values.type):
        bits = _float_bits(_floats(values, canonical=canonical))
        missing |= canonical & (bits == _NAN)
    elif pa.types.is_temporal(values.type):
        bits = _moment_bits(values)
    else:
        kind = pa.uint64() if pa.types.is_uint64(values.type) else pa.int64()
        bits = np.array(pc.fill_null(values.cast(kind), 0).to_numpy(zero_copy_only=False)).view(np.uint64)
    return np.where(missing, _MISSING, mixed(bits))


def _floats(values: pa.Array, *, canonical: bool) -> NDArray[np.float64]:
    """Return numbers in 64 bits; canonical ones of fewer bits as they are written, for 0.1 in 32 bits is another."""
    filled = pc.fill_null(values.cast(pa.float32()) if pa.types.is_float16(values.type) else values, 0)
    if not (canonical and pa.types.is_float32(filled.type)):
        return np.array(filled.to_numpy(zero_copy_only=False), np.float64)
    return _as_written(filled.to_numpy(zero_copy_only=False))


def _as_written(short: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return what is read in 64 bits from numbers written in 32: the fewest digits that give the same 32 bits."""
    exact = short.astype(np.float64)
    numbers = exact.copy()
    with np.errstate(all="ignore"):
        magnitude = np.log10(np.abs(exact))
        plain = np.flatnonzero(np.abs(magnitude) < _PLAIN)
        exponent = np.floor(magnitude[plain]).astype(np.int64)
        for digits in (9, 8, 7, 6):
            shift = digits - 1 - exponent
            scale = _TENS[np.abs(shift)]
            mantissa = np.rint(np.where(shift > 0, exact[plain] * scale, exact[plain] / scale))
            # Of two exact numbers, so rounded once, as reading the text is.
            read = np.where(shift > 0, mantissa / scale, mantissa * scale)
            same = read.astype(np.float32) == short[plain]
            plain, exponent = plain[same], exponent[same]
            numbers[plain] = read[same]
        odd = np.flatnonzero((np.abs(magnitude) >= _PLAIN) & np.isfinite(magnitude))
    numbers[odd] = pa.array(short[odd]).cast(pa.string()).cast(pa.float64()).to_numpy(zero_copy_only=False)
    return numbers


_NAN = np.array([np.nan]).view(np.uint64)[0]


def _float_bits(numbers: NDArray[np.float64]) -> Hashes:
    """Return 64 bits for each number, those of a whole number as it is stored in an integer; one pattern for NaN."""
    whole = np.abs(numbers) < 2.0**63
    whole &= np.trunc(np.where(whole, numbers, 0.5)) == numbers
    bits = np.where(whole, np.where(whole, numbers, 0.0).astype(np.int64).view(np.uint64), numbers.view(np.uint64))
    larger = (numbers >= 2.0**63) & (numbers < 2.0**64)
    bits[larger] = numbers[larger].astype(np.uint64)
    return np.where(np.isnan(numbers), _NAN, bits)


def _moment_bits(values: pa.Array) -> Hashes:
    days = pa.types.is_date32(values.type)
    ticks = pc.fill_null(values.cast(pa.int32() if days else pa.int64()), 0).to_numpy(zero_copy_only=False)
    unit = "day" if days else getattr(values.type, "unit", "ms")
    if unit == "ns":
        micros, rest = np.divmod(ticks, 1000)
        bits: Hashes = micros.view(np.uint64) ^ (rest.view(np.uint64) * _REST)
    else:
        bits = (ticks.astype(np.int64) * _MICROSECONDS[unit]).view(np.uint64)
    return bits


def _text_hashes(values: pa.Array, key: bytes) -> Hashes:
    """Hash texts, each as what it says: a number, a truth value, a moment, nothing, or itself."""
    hashes = mixed(_polynomials(values, key))
    first = _first_bytes(values)
    for bytes_, pattern, read in (
        (b"tTfF", _TRUTH, _truths),
        (b"+-.0123456789iI", _NUMBER, _numbers),
        (b"+-0123456789", _LONG, _wholes),
        (b"0123456789", _MOMENT, _moments),
    ):
        # A look at the first byte spares most texts the pattern.
        likely = np.flatnonzero(np.isin(first, np.frombuffer(bytes_, np.uint8)))
        candidates = values.take(pa.array(likely))
        found = matches(candidates, pattern)
        if found.any():
            hashes[likely[found]] = read(candidates.filter(pa.array(found)))
    missing = pc.is_in(values, value_set=pa.array(MISSING_TEXT, pa.large_string()))
    hashes[missing.to_numpy(zero_copy_only=False)] = _MISSING
    return hashes


def _first_bytes(values: pa.Array) -> NDArray[np.uint8]:
    """Return the first byte of each text, 0 where it is empty."""
    offsets = np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(values.buffers()[2] or b"", np.uint8)
    return np.where(np.diff(offsets) > 0, np.append(data, np.uint8(0))[offsets[:-1]], np.uint8(0))


def _truths(text: pa.Array) -> Hashes:
    return _number_hashes(pc.equal(pc.utf8_lower(text), "true"))


def _numbers(text: pa.Array) -> Hashes:
    # Arrow's parser takes no leading plus sign.
    return _number_hashes(pc.replace_substring_regex(text, r"^\+", "").cast(pa.float64()))


def _wholes(text: pa.Array) -> Hashes:
    """Hash whole numbers of many digits exactly, as long as they fit 64 bits."""
    numbers = [int(word.partition(".")[0]) for word in text.to_pylist()]
    fits = np.array([-(2**63) <= number < 2**64 for number in numbers])
    bits = np.array([number % 2**64 for number in numbers], np.uint64)
    return np.where(fits, mixed(bits), mixed(_float_bits(np.array(numbers, np.float64))))


def _moments(text: pa.Array) -> Hashes:
    """Hash dates and datetimes, with a zone or without."""
    rest = pc.struct_field(pc.extract_regex(text, r"\.\d{6}(?P<rest>\d{1,3})"), "rest")
    nanos = pc.fill_null(pc.utf8_rpad(rest, 3, "0"), "0").cast(pa.uint64()).to_numpy(zero_copy_only=False)
    text = pc.replace_substring_regex(text, r"(\.\d{6})\d+", r"\1")
    zoned, nothing = pc.match_substring_regex(text, f":.*{ZONE}$"), pa.scalar(None, text.type)
    naive = pc.if_else(zoned, nothing, text).cast(pa.timestamp("us"))
    known = pc.if_else(zoned, text, nothing).cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
    return mixed(_moment_bits(pc.coalesce(naive, known)) ^ (nanos * _REST))


def _polynomials(values: pa.Array, key: bytes) -> Hashes:
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
