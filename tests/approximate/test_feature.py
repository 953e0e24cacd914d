"""A feature given the label: denoised, merged, seen twice."""

import numpy as np
import pytest

from threea.approximate.feature import Feature
from threea.table.cells import Bins

CELLS = Bins(column="n", edges=(0.0, 1.0, 2.0, 3.0), special=(), missing=True, whole=False)
SIZES = np.array([600.0, 300.0])


def feature(counts, stddev, cells=CELLS):
    return Feature.of(cells, np.array(counts, np.float64), SIZES, stddev)


def test_missing_numbers_are_drawn_even_where_noise_hides_them():
    """A learner that never saw a missing number takes the first it meets for a 0."""
    hidden = feature([[200, 200, 200, -30], [100, 100, 100, -5]], 20.0)
    assert (hidden.given[:, -1] > 0.005).all()
    assert hidden.given.sum(axis=1) == pytest.approx([1.0, 1.0])
    silent = feature([[200, 200, 200, 0], [100, 100, 100, 0]], 0.0)
    assert (silent.given[:, -1] == 0).all(), "without noise nothing hides"
    drowned = feature([[230, 180, 200, 0], [100, 100, 110, 0]], 1e4)
    assert (drowned.given[:, -1] < 0.3).all()


def test_what_is_not_nullable_is_never_missing():
    cells = Bins(column="n", edges=(0.0, 1.0, 2.0, 3.0), special=(), missing=False, whole=False)
    assert feature([[200, 200, 200], [100, -40, 100]], 20.0, cells).given.shape == (2, 3)


def test_two_looks_are_put_together_by_their_precision():
    first = feature([[200, 200, 200, 0], [100, 100, 100, 0]], 30.0)
    both = first.seen_again(np.array([[260.0, 140, 200, 0], [100, 100, 100, 0]]), SIZES, 15.0)
    assert both.stddev == pytest.approx((30**-2 + 15**-2) ** -0.5)
    assert both.counts[0] == pytest.approx([248, 152, 200, 0])


def test_a_feature_tells_more_the_less_noise_it_has():
    counts = [[350, 200, 50, 0], [30, 100, 170, 0]]
    clear, blurred, equal = feature(counts, 5.0), feature(counts, 50.0), feature([[150] * 4, [75] * 4], 5.0)
    assert clear.informative(SIZES) > 10 > blurred.informative(SIZES) > equal.informative(SIZES)
