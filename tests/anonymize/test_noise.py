"""The secure noise: as large as it says, of the right shape, and not to be repeated.

Every statistical test here has a false-alarm rate of at most 1e-6 for each figure it checks.
"""

import math
import random

import mpmath
import numpy as np
import opendp.measurements as measurements
import opendp.measures as measures
import pytest
from scipy import stats

from threea.anonymize import noise as noise_module
from threea.anonymize.noise import SMOOTHING, SecureNoise, _vectors
from threea.testing import SeededNoise, SilentNoise

FALSE_ALARM = 1e-6
DRAWS = 40_000


@pytest.fixture(scope="module")
def noise():
    return SecureNoise()


@pytest.fixture
def opendp(noise, monkeypatch):
    """The secure noise where everything counts as few numbers, so that OpenDP draws it."""
    monkeypatch.setattr(noise_module, "MANY", math.inf)
    return noise


def zeros(size=DRAWS):
    return np.zeros(size, np.int64)


def within(statistic, distribution):
    """Whether a statistic lies where all but FALSE_ALARM of its distribution does, on both sides."""
    return distribution.ppf(FALSE_ALARM / 2) <= statistic <= distribution.isf(FALSE_ALARM / 2)


def chi_square(draws, pmf):
    """Return the p-value of whole draws under a probability mass function, rare values pooled."""
    spread = int(np.abs(draws).max()) + 5
    support = np.arange(-spread, spread + 1)
    expected = np.array([pmf(int(value)) for value in support]) * len(draws)
    observed = np.bincount(draws + spread, minlength=len(support))
    common = expected >= 10
    pooled = [observed[~common].sum()], [max(len(draws) - expected[common].sum(), 1e-9)]
    observed, expected = np.append(observed[common], pooled[0]), np.append(expected[common], pooled[1])
    if expected[-1] < 10:
        # Too few to count by themselves: let them stand with the last common value.
        observed, expected = (
            np.append(observed[:-2], observed[-2:].sum()),
            np.append(expected[:-2], expected[-2:].sum()),
        )
    return stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), len(expected) - 1)


def discrete_gaussian(variance):
    weights = {value: math.exp(-(value**2) / (2 * variance)) for value in range(-1000, 1001)}
    total = math.fsum(weights.values())
    return lambda value: weights.get(value, 0.0) / total


def discrete_laplace(scale):
    decay = math.exp(-1 / scale)
    return lambda value: (1 - decay) / (1 + decay) * decay ** abs(value)


@pytest.mark.parametrize("scale", [0.5, 4.0, 2.0**30])
def test_gaussian_has_the_variance_it_says(opendp, scale):
    draws = opendp.gaussian(zeros(), scale).astype(np.float64)
    variance = scale**2 + SMOOTHING**2
    assert within(np.sum(draws**2) / variance, stats.chi2(len(draws)))
    assert within(draws.mean() / math.sqrt(variance / len(draws)), stats.norm())


@pytest.mark.parametrize("scale", [0.5, 4.0])
def test_gaussian_has_the_shape_of_the_discrete_gaussian(opendp, scale):
    assert chi_square(opendp.gaussian(zeros(), scale), discrete_gaussian(scale**2 + SMOOTHING**2)) > FALSE_ALARM


def test_gaussian_on_a_fine_grid_has_the_shape_of_the_continuous_one(opendp):
    draws = opendp.gaussian(zeros(), 2.0**30) / 2.0**30
    assert stats.kstest(draws, "norm").pvalue > FALSE_ALARM


@pytest.mark.parametrize("scale", [0.7, 3.0])
def test_laplace_has_the_shape_of_the_discrete_laplace(opendp, scale):
    assert chi_square(opendp.laplace(zeros(), scale), discrete_laplace(scale)) > FALSE_ALARM


def test_laplace_on_a_fine_grid_has_the_shape_and_size_of_the_continuous_one(opendp):
    draws = opendp.laplace(zeros(), 2.0**30) / 2.0**30
    assert stats.kstest(draws, "laplace").pvalue > FALSE_ALARM
    # The sum of absolute values of exponential size is a gamma variable.
    assert within(np.abs(draws).sum(), stats.gamma(len(draws)))


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_noise_is_centred_on_each_sum(noise, mechanism):
    sums = np.array([-(2**40), 0, 2**40], np.int64)
    noisy = np.array([getattr(noise, mechanism)(sums, 100.0) for _ in range(400)])
    spread = math.sqrt(100.0**2 + SMOOTHING**2) if mechanism == "gaussian" else math.sqrt(2) * 100.0
    for column, expected in zip(noisy.T, sums, strict=True):
        assert within((column - expected).mean() / (spread / math.sqrt(len(column))), stats.norm())


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_every_number_gets_noise_of_its_own(noise, mechanism):
    first, second = getattr(noise, mechanism)(zeros(), 1000.0), getattr(noise, mechanism)(zeros(), 1000.0)
    correlations = [np.corrcoef(first, second)[0, 1], np.corrcoef(first[:-1], first[1:])[0, 1]]
    for correlation in correlations:
        assert within(correlation * math.sqrt(len(first)), stats.norm())


def test_choice_falls_by_e_for_each_scale_a_score_is_lower(noise):
    """Permute-and-flip over two scores d apart takes the lower with probability exp(-d / scale) / 2."""
    scores, scale, trials = np.array([0, 3], np.int64), 2.0, 2_000
    lower = sum(noise.choose(scores, scale) == 0 for _ in range(trials))
    assert within(lower, stats.binom(trials, math.exp(-3 / scale) / 2))


def test_the_exponential_mechanism_chooses_in_proportion(noise):
    """Of two scores d apart the lower is taken with probability 1 / (1 + exp(d / scale))."""
    scores, scale, trials = np.array([0, 3], np.int64), 2.0, 2_000
    lower = sum(noise.exponential(scores, scale) == 0 for _ in range(trials))
    assert within(lower, stats.binom(trials, 1 / (1 + math.exp(3 / scale))))


def test_choice_among_equals_is_even(noise):
    chosen = np.bincount([noise.choose(np.zeros(4, np.int64), 1.0) for _ in range(2_000)], minlength=4)
    assert stats.chisquare(chosen).pvalue > FALSE_ALARM


@pytest.mark.parametrize("rate", [1e-3, 0.25, 0.999])
def test_coins_fall_at_their_rate(noise, rate):
    flips = noise.bernoulli(rate, 1_000_000)
    assert flips.dtype == np.bool_
    assert within(flips.sum(), stats.binom(len(flips), rate))


def test_coins_are_certain_at_rate_one_and_none_are_flipped_for_no_rows(noise):
    assert noise.bernoulli(1.0, 1000).all()
    assert noise.bernoulli(0.5, 0).shape == (0,)


def test_opendp_claims_the_same_privacy_for_its_mechanisms():
    """OpenDP's own maps, rounded up by at most one part in 1e12: rho = (d/s)²/2, epsilon = d/b, epsilon = 2 d/b."""
    domain, l2 = _vectors("l2_distance")
    assert measurements.make_gaussian(domain, l2, scale=10.0).map(3.0) == pytest.approx(0.045, rel=1e-12)
    domain, l1 = _vectors("l1_distance")
    assert measurements.make_laplace(domain, l1, scale=10.0).map(3.0) == pytest.approx(0.3, rel=1e-12)
    domain, linf = _vectors("linf_distance")
    choice = measurements.make_noisy_max(domain, linf, measures.max_divergence(), scale=10.0)
    assert choice.map(3) == pytest.approx(0.6, rel=1e-12)


@pytest.mark.parametrize("sigma", ["0.25", "1", "7.5", "40"])
def test_rounding_a_continuous_gaussian_gives_the_discrete_one(sigma):
    """The step of the proof that makes the noise (d/scale)-GDP.

    A continuous Gaussian of standard deviation sigma is rounded at random to a whole number k with probability
    proportional to exp(-(x - k)² / (2 SMOOTHING²)). The outcome has, up to a factor exp(±1e-70), the mass of the
    discrete Gaussian of variance sigma² + SMOOTHING². The trapezoidal rule integrates such functions to far more
    digits than that.
    """
    with mpmath.workdps(110):
        sigma, smoothing = mpmath.mpf(sigma), mpmath.mpf(SMOOTHING)
        width = mpmath.sqrt(sigma**2 + smoothing**2)

        def gauss(x, deviation):
            return mpmath.exp(-(x**2) / (2 * deviation**2))

        def weights(x):
            """Return the sum over all whole numbers that a point may be rounded to."""
            near = int(mpmath.nint(x))
            return mpmath.fsum(gauss(x - k, smoothing) for k in range(near - 70, near + 71))

        # By Poisson summation the weights are constant up to a ripple of period 1.
        ripple = 2 * mpmath.exp(-2 * mpmath.pi**2 * smoothing**2)

        def weights_in_closed_form(x):
            return smoothing * mpmath.sqrt(2 * mpmath.pi) * (1 + ripple * mpmath.cos(2 * mpmath.pi * x))

        for x in (mpmath.mpf(0), mpmath.mpf("0.25"), mpmath.mpf("0.5")):
            assert abs(weights(x) / weights_in_closed_form(x) - 1) < mpmath.mpf(10) ** -100

        # The integrand is a Gaussian of this width; a quarter of it is a fine mesh, 24 of it reach far enough.
        narrow = sigma * smoothing / width
        mesh = narrow / 4

        def mass(k):
            middle = k * sigma**2 / width**2
            points = [middle + mesh * i for i in range(-96, 97)]
            terms = [gauss(x, sigma) * gauss(x - k, smoothing) / weights_in_closed_form(x) for x in points]
            return mpmath.fsum(terms) * mesh / (sigma * mpmath.sqrt(2 * mpmath.pi))

        total = mpmath.fsum(gauss(k, width) for k in range(-int(24 * width), int(24 * width) + 1))
        for k in (0, 1, int(width), int(3 * width)):
            expected = gauss(k, width) / total
            assert abs(mpmath.log(mass(k) / expected)) < mpmath.mpf(10) ** -70


def test_nothing_seeds_it(noise):
    def draws():
        random.seed(0)
        np.random.seed(0)
        sums = np.zeros(8, np.int64)
        choices = tuple(noise.choose(np.zeros(1000, np.int64), 1.0) for _ in range(4))
        choices += tuple(noise.exponential(np.zeros(1000, np.int64), 1.0) for _ in range(4))
        flips = tuple(noise.bernoulli(0.5, 64).tolist())
        return tuple(noise.gaussian(sums, 1e6)), tuple(noise.laplace(sums, 1e6)), choices, flips

    # Four independent draws agree by chance with probability far below FALSE_ALARM.
    assert all(first != second for first, second in zip(draws(), draws(), strict=True))


def test_only_the_secure_noise_says_so():
    assert SecureNoise.secure
    assert not SilentNoise.secure
    assert not SeededNoise.secure
