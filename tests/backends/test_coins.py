"""Keyed coins: as good as chance, one for each unit, equal rows too."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from threea.backends.coins import Coins, numbers_among_equals, siphash
from threea.backends.memory import MemoryBackend

# From the reference implementation: messages 00, 01, 02, ... under the key 00 01 ... 0f.
VECTORS = {8: 0x93F5F5799A932462, 16: 0x3F2ACC7F57C29BDB}


@pytest.mark.parametrize("length", [8, 16])
def test_it_is_siphash(length):
    message = np.frombuffer(bytes(range(length)), np.uint64)[None]
    assert siphash(message, bytes(range(16)))[0] == VECTORS[length]


def test_coins_fall_at_their_rate_and_by_themselves():
    """Of 100,000 coins at 0.3 under fixed keys; six standard deviations, a false alarm once in 10^8 keys."""
    words = np.column_stack([np.arange(100_000), np.zeros(100_000)]).astype(np.uint64)
    first, second = (Coins(0.3, bytes([number] * 16), None).fall(words) for number in (1, 2))
    for share, rate in ((first.mean(), 0.3), ((first & second).mean(), 0.09), ((first[1:] & first[:-1]).mean(), 0.09)):
        assert abs(share - rate) < 6 * np.sqrt(rate * (1 - rate) / 100_000)
    assert Coins(1.0, bytes(16), None).fall(words).all()


def test_equal_rows_have_coins_of_their_own():
    """Sizes of samples of 400 equal rows are binomial: within six standard deviations of 200, and not all the same."""
    backend = MemoryBackend(pa.table({"a": [1] * 400, "b": ["x"] * 400}))
    sizes = [backend.sample(0.5, bytes([number] * 16)).table().num_rows for number in range(40)]
    assert all(140 < size < 260 for size in sizes)
    assert len(set(sizes)) > 5
    # The variance of a binomial is 100; that of 40 draws is outside these bounds once in 10^6 times.
    assert 25 < np.var(sizes, ddof=1) < 250


def test_a_person_has_one_coin():
    people = pa.table({"person": ["ann"] * 3 + ["bob"] * 2 + [None] * 4, "value": range(9)})
    backend = MemoryBackend(people).bounded("person", 9, b"k")
    seen = set()
    for number in range(60):
        sample = Counter(backend.sample(0.5, bytes([number] * 16)).table().column("person").to_pylist())
        assert set(sample.items()) <= {("ann", 3), ("bob", 2), (None, 4)}
        seen.add(frozenset(sample))
    # Each of the eight subsets has probability 1/8: one is never drawn with probability 8 * (7/8)^60 < 0.003.
    assert len(seen) >= 7


def test_rows_of_one_hash_are_numbered():
    hashes = np.array([3, 1, 3, 3, 1, 2], np.uint64)
    assert numbers_among_equals(hashes).tolist() == [0, 0, 1, 2, 1, 0]
