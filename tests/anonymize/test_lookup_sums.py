"""The base of all lookups: norms in exact integers, and a bound that nothing passes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threea.anonymize.clipping import Norm, step_of
from threea.anonymize.lookup_sums import TOO_LONG, lengths_of, shortened, squared, times

ANY = st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=6)


@given(ANY)
def test_squared_norms_are_exact_or_too_long(numbers):
    exact = sum(number * number for number in numbers)
    (found,) = squared(np.array([numbers], np.float64)).tolist()
    assert found == (exact if exact < 2**61 else TOO_LONG) or (exact >= 2**60 and found == TOO_LONG)


@given(st.integers(0, 2**62), st.integers(0, 10_000))
def test_products_never_overflow(norm, factor):
    (found,) = times(np.array([norm]), np.array([factor])).tolist()
    assert found == (norm * factor if norm * max(factor, 1) <= TOO_LONG else TOO_LONG)


@given(st.integers(0, 2**32), st.integers(1, 300), st.integers(1, 30))
def test_honest_rows_are_all_admitted(seed, width, bits):
    """What `shortened` shortens fits the length it was shortened to, in exact integers."""
    vectors = np.random.default_rng(seed).integers(-(2**20), 2**20, (5, width)).astype(np.float64)
    longest = 2**bits
    whole = shortened(vectors, lengths_of(vectors), 1.0, longest)
    for row in whole.astype(object):
        assert sum(int(number) ** 2 for number in row) <= longest**2


def test_a_norm_knows_its_bound():
    class Query:
        l1, l2 = 3.0, 2.0

    assert (Norm.L1.bound(Query()), Norm.L2.bound(Query())) == (3.0, 2.0)
    assert math.log2(step_of(2.0)) == pytest.approx(-29)
