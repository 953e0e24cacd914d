"""Rounded noise: exactly the law it says, by floating point where that is sure and by more digits where it is not.

Every statistical test here has a false-alarm rate of at most 1e-6 for each figure it checks.
"""

import math
from unittest import mock

import mpmath
import numpy as np
import pytest
from scipy import stats

from threea.anonymize import noise as noise_module
from threea.anonymize import rounded_noise
from threea.anonymize.noise import SecureNoise, discrete_gaussian, discrete_laplace
from threea.anonymize.rounded_noise import FLOAT_ERROR, GAUSSIAN, LAPLACE, LARGEST_SCALE, exactly, noisy, rounded

FALSE_ALARM = 1e-6
DRAWS = 200_000
LAWS = {"gaussian": (GAUSSIAN, stats.norm), "laplace": (LAPLACE, stats.laplace)}
BOTH = pytest.mark.parametrize("name", LAWS)


def zeros(size=DRAWS):
    return np.zeros(size, np.int64)


def bits(size, seed=0):
    return np.random.default_rng(seed).integers(0, 1 << 64, size, np.uint64)


def fits(observed, expected):
    """Return the p-value of counts, those of which few are expected put together."""
    order = np.argsort(-expected)
    common = order[expected[order] >= 10]
    rest = np.setdiff1d(order, common)
    observed = np.append(observed[common], observed[rest].sum())
    expected = np.append(expected[common], expected[rest].sum())
    if expected[-1] < 10:
        observed, expected = (np.append(part[:-2], part[-2:].sum()) for part in (observed, expected))
    return stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), len(expected) - 1)


@BOTH
def test_floating_point_is_as_near_as_is_claimed(name):
    """Quantiles against 60 digits, over a dense grid of probabilities and far into the tail: 16 times nearer."""
    law = LAWS[name][0]
    rng = np.random.default_rng(0)
    probabilities = np.concatenate(
        [
            np.exp(-rng.uniform(0, 44, 2_000)),
            rng.uniform(0, 1, 2_000),
            1 - 2.0 ** -rng.uniform(1, 52, 300),
            2 * math.exp(-2) * rng.uniform(0.999, 1.001, 300),
            2 * math.exp(-32) * rng.uniform(0.9, 1.1, 300),
        ]
    )
    with mpmath.workprec(200):
        for probability, quantile in zip(probabilities.tolist(), law.quantile(probabilities).tolist(), strict=True):
            point = mpmath.mpf(quantile)
            density = mpmath.exp(-point) if law is LAPLACE else mpmath.exp(-(point**2) / 2) * mpmath.sqrt(2 / mpmath.pi)
            # One Newton step, whose own error is the square of this one.
            error = abs(law.exceeded(mpmath, point) - probability) / density
            assert error <= FLOAT_ERROR / 16 * (1 + point)


@BOTH
@pytest.mark.parametrize("scale", [0.3, 7.0, 2.0**22, 2.0**33])
def test_more_digits_say_the_same_as_floating_point(name, scale):
    law, first = LAWS[name][0], bits(150)
    with mock.patch.object(rounded_noise, "exactly", wraps=exactly) as slow:
        fast = rounded(first, scale, law)
        few = slow.call_count
        np.testing.assert_array_equal(rounded(first, scale, law, float_error=1e9), fast)
        assert slow.call_count == few + len(first)
    assert few < 5


@BOTH
def test_a_value_near_the_middle_is_decided_exactly(name):
    """Bits whose quantile lies next to k + 1/2: half of what they may go on to be rounds down, half up."""
    law, scale, middle = LAWS[name][0], 2.0**20, 300_000.5
    with mpmath.workprec(300):
        limit = law.exceeded(mpmath, mpmath.mpf(middle) / scale) * 2**63
        on_the_limit, rest = divmod(int(mpmath.floor(limit * 2**64)), 2**64)
    # The bits before it and after it leave no doubt, though floating point cannot tell them apart.
    assert exactly(on_the_limit - 1, 300_000, scale, law) == 300_001
    assert exactly(on_the_limit + 1, 300_000, scale, law) == 300_000
    for further in (0, rest - 1, rest + 1, 2**64 - 1):
        with mock.patch("os.urandom", return_value=further.to_bytes(8, "little")):
            # A smaller probability is a larger value.
            assert exactly(on_the_limit, 300_000, scale, law) == 300_000 + (further < rest)


@BOTH
def test_the_far_tail_is_drawn_bit_by_bit(name):
    """Of the 64 first bits all 0 but the sign, further ones decide: their quantiles are exact and lie further out."""
    law, scale = LAWS[name][0], 2.0**30
    first = np.array([0, 1, 2, 3, 1 << 10], np.uint64)
    values = np.abs(rounded(first, scale, law)) / scale
    with mpmath.workprec(300):
        least, most = (float(law.guess(mpmath, mpmath.mpf(2) ** -n)) for n in (63, 63 + 64))
    assert (values[:2] > least).all()
    assert (values[:2] < most).all()
    assert values[2:4].max() <= least
    assert values[4] < values[2:4].min()


@BOTH
@pytest.mark.parametrize("scale", [0.6, 3.0, 40.0])
def test_values_have_the_probabilities_of_a_rounded_variable(name, scale):
    law, variable = LAWS[name]
    draws = noisy(zeros(), scale, law)
    support = np.arange(-int(60 * scale) - 2, int(60 * scale) + 3)
    expected = (variable.cdf((support + 0.5) / scale) - variable.cdf((support - 0.5) / scale)) * DRAWS
    assert fits(np.bincount(draws - support[0], minlength=len(support)), expected) > FALSE_ALARM


@BOTH
def test_a_fine_grid_has_the_shape_and_the_tails_of_the_law(name):
    law, variable = LAWS[name]
    draws = noisy(zeros(), 2.0**30, law)
    assert stats.kstest(draws / 2.0**30, variable.cdf).pvalue > FALSE_ALARM
    # On the finest scale every residue is as likely as another.
    assert stats.chisquare(np.bincount(draws % 64, minlength=64)).pvalue > FALSE_ALARM
    for probability in (1e-2, 1e-3, 1e-4):
        beyond = int((np.abs(draws) > variable.isf(probability / 2) * 2.0**30).sum())
        assert stats.binomtest(beyond, DRAWS, probability).pvalue > FALSE_ALARM


@pytest.mark.parametrize(("name", "opendp"), [("gaussian", discrete_gaussian), ("laplace", discrete_laplace)])
def test_opendp_draws_alike(name, opendp):
    """The two samplers' values on a grid where they differ by less than 20,000 draws can show."""
    few, scale = zeros(10_000), 300.0
    ours, theirs = noisy(few, scale, LAWS[name][0]), opendp(few, scale)
    assert stats.ks_2samp(ours, theirs).pvalue > FALSE_ALARM
    assert stats.levene(ours, theirs).pvalue > FALSE_ALARM


@BOTH
def test_sums_keep_their_places_and_end_where_int64_does(name):
    law, ends = LAWS[name][0], np.iinfo(np.int64)
    sums = np.array([-(1 << 40), 0, 1 << 40] * 200, np.int64)
    assert (np.abs(noisy(sums, 2.0**20, law) - sums) < 2.0**26).all()
    edge = noisy(np.array([ends.min, ends.max] * 200, np.int64), LARGEST_SCALE, law)
    assert (edge[::2] < 0).all()
    assert (edge[1::2] > 0).all()
    assert {ends.min, ends.max} <= set(edge.tolist())


@BOTH
def test_many_numbers_get_rounded_noise_of_the_same_scale_and_few_do_not(name):
    """Of scales beyond the largest, OpenDP draws any number."""
    noise, many = SecureNoise(), noise_module.MANY
    act = getattr(noise, name)
    with mock.patch.object(noise_module, "noisy", side_effect=lambda sums, scale, law: sums) as drawn:
        for size, scale in ((many, 3.7), (many - 1, 3.7), (many, 2 * LARGEST_SCALE)):
            act(zeros(size), scale)
    (call,) = drawn.call_args_list
    assert call.args[1:] == (3.7, LAWS[name][0])


def test_nothing_seeds_it_and_every_value_has_bits_of_its_own():
    def draws():
        np.random.seed(0)
        return noisy(zeros(100_000), 2.0**30, GAUSSIAN)

    first, second = draws(), draws()
    # 1e5 values of some 2**32 likely ones: a few agree by chance, not a hundred.
    assert (first == second).sum() < 100
    assert len(np.unique(first)) > 99_000
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < 6 / math.sqrt(len(first))
