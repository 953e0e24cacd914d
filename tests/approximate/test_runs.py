"""Runs of bins: what stands out of noise stays, what noise alone explains is emptied."""

import numpy as np
import pytest

from threea.approximate.runs import emptied, runs
from threea.table.cells import Bins, Categories

HOURS = Bins(column="hours", edges=tuple(float(edge) for edge in range(101)), special=(), missing=False, whole=True)


def test_a_spike_is_a_run_of_its_own() -> None:
    """Noise of standard deviation 5 on 100 bins; a wrong run would need a difference of more than four of them."""
    truth = np.zeros((2, 100))
    truth[:, 40] = 400.0, 90.0
    counts = truth + np.random.default_rng(3).normal(0, 5.0, truth.shape)
    assert runs(counts, 5.0).tolist() == [0, 40, 41]
    kept = emptied(HOURS, counts, 5.0)
    assert np.flatnonzero(kept.sum(axis=0)).tolist() == [40]
    assert kept[:, 40] == pytest.approx(counts[:, 40]), "what stays is not changed"


def test_a_thin_tail_is_kept_though_none_of_its_bins_stands_out() -> None:
    """Eighty bins of 4 rows each in noise of 5: together 320 rows in noise of 45, seven standard deviations."""
    truth = np.concatenate([np.full(20, 300.0), np.full(80, 4.0)])[None]
    counts = truth + np.random.default_rng(4).normal(0, 5.0, truth.shape)
    assert emptied(HOURS, counts, 5.0)[0, 20:].sum() > 160


@pytest.mark.parametrize("stddev", [0.0, 1e9])
def test_without_noise_or_with_nothing_else_counts_stay(stddev: float) -> None:
    counts = np.arange(200.0).reshape(2, 100)
    assert (emptied(HOURS, counts, stddev) == counts).all()


def test_listed_values_and_special_ones_stay() -> None:
    words = Categories(column="w", count=3, missing=False)
    counts = np.array([[90.0, 1.0, -1.0]])
    assert emptied(words, counts, 5.0) is counts
    coded = Bins(column="n", edges=(0.0, 1.0, 2.0), special=(-99.0,), missing=True, whole=True)
    kept = emptied(coded, np.array([[500.0, 3.0, -2.0, 70.0]]), 5.0)
    assert kept.tolist() == [[500.0, 0.0, 0.0, 70.0]], "all in a code: the bins beside it are empty"


def test_a_tail_that_only_a_rare_class_has_is_kept() -> None:
    """115 rows in noise of 25 are 4.6 standard deviations; all five classes together are only one."""
    counts = np.zeros((5, 100))
    counts[0, :20], counts[1, 99], counts[2:, 99] = 3_000.0, 115.0, -20.0
    assert emptied(HOURS, counts, 25.0)[1, 99] == 115.0


def test_classes_that_do_not_exist_say_nothing() -> None:
    counts = np.zeros((5, 100))
    counts[0, :20], counts[1, 99] = 3_000.0, 100.0
    assert emptied(HOURS, counts, 25.0)[1, 99] == 0.0
    existing = np.array([True, True, False, False, False])
    assert emptied(HOURS, counts, 25.0, existing)[1, 99] == 100.0
