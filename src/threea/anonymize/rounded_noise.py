"""Many noisy values at once: a continuous Gaussian or Laplace variable, rounded to whole numbers, exactly.

On whole sums, rounded noise is post-processing of continuous noise, so its privacy is that of the textbook. Each value
is the quantile of an infinite string of random bits. The first 64, from the operating system, and floating point decide
nearly all of them; where a value is too near to the middle between two whole numbers for that, it is decided in
arithmetic of as many digits, with as many further bits, as it takes.

Proof: docs/proofs/rounded-noise.md.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

FLOAT_ERROR = 2.0**-46
"""Bound on the error of a quantile z computed in floating point, as a share of 1 + z. Measured: below 2**-50."""
LARGEST_SCALE = 2.0**36
"""Beyond it, floating point would decide too few of the values."""
_BITS = 63
_FEW = 1 << 40
"""First bits below this leave a quantile too uncertain to begin from."""
_GUARD = 64
_BLOCK = 1 << 15
_INT64 = np.iinfo(np.int64)


@dataclass(frozen=True, slots=True)
class Law:
    """A symmetric continuous distribution, by its absolute value.

    Args:
        quantile: The absolute value that is exceeded with these probabilities, in floating point.
        exceeded: The probability with which the absolute value exceeds a number, in mpmath's arithmetic.
        guess: The absolute value that is exceeded with a probability, in mpmath's arithmetic; it is only a guess.
        slope: Bound on how far the quantile moves when the probability changes by a factor e.
    """

    quantile: Callable[[Floats], Floats]
    exceeded: Callable[[Any, Any], Any]
    guess: Callable[[Any, Any], Any]
    slope: float


def _normal_quantile(probability: Floats) -> Floats:
    from scipy.special import ndtri

    # On the side of the tail, where floating point is dense.
    quantile: Floats = np.negative(ndtri(probability / 2))
    return quantile


GAUSSIAN = Law(
    _normal_quantile,
    lambda mp, number: mp.erfc(number / mp.sqrt(2)),
    lambda mp, probability: mp.sqrt(2) * mp.erfinv(1 - probability),
    slope=1.26,
)
LAPLACE = Law(
    lambda probability: np.negative(np.log(probability)),
    lambda mp, number: mp.exp(-number),
    lambda mp, probability: -mp.log(probability),
    slope=1.0,
)
_LOCAL = threading.local()


def _arithmetic() -> Any:
    """Return this thread's mpmath: its precision is set as needed."""
    import mpmath

    if not hasattr(_LOCAL, "context"):
        _LOCAL.context = mpmath.MPContext()
    return _LOCAL.context


def noisy(sums: Integers, scale: float, law: Law) -> Integers:
    """Add to each sum a variable of this law and scale, rounded to the nearest whole number.

    Guarantees:
        - What is added to a sum is exactly ``round(scale * X)``, X of the law, if `FLOAT_ERROR` holds. So sums of L2
          sensitivity d are (d/scale)-GDP with Gaussian noise, those of L1 sensitivity d (d/scale)-DP with Laplace.
        - The bits are the operating system's; nothing can seed them. What would leave int64 is cut off at its ends.

    Args:
        sums: Whole numbers.
        scale: The standard deviation of Gaussian noise, or the scale of Laplace noise; at most `LARGEST_SCALE`.
        law: Which noise.
    """
    result = np.empty(sums.shape, np.int64)
    for start in range(0, len(sums), _BLOCK):
        block = slice(start, start + _BLOCK)
        bits = np.frombuffer(os.urandom(8 * len(sums[block])), np.uint64)
        result[block] = saturated(sums[block], rounded(bits, scale, law))
    return result


def rounded(bits: NDArray[np.uint64], scale: float, law: Law, float_error: float = FLOAT_ERROR) -> Integers:
    """Return the rounded variables whose random bits begin with these: a sign, then a probability."""
    with np.errstate(divide="ignore"):
        first = (bits >> np.uint64(1)).astype(np.float64)
        quantile = law.quantile((first + 0.5) * 2.0**-_BITS)
        size = scale * quantile
        # The bits to come, and the roundings of the first ones, move the probability by at most this factor.
        margin = scale * (law.slope * (1 / first + 2.0**-50) + float_error * (1 + quantile))
    below = np.floor(size)
    whole = np.where(size - below >= 0.5, below + 1, below).astype(np.int64)
    for position in np.flatnonzero(~(np.abs(size - below - 0.5) > margin)):
        whole[position] = exactly(int(bits[position]) >> 1, int(whole[position]), scale, law)
    return np.where(bits & np.uint64(1), -whole, whole)


def exactly(first: int, guess: int, scale: float, law: Law) -> int:
    """Return the rounded absolute value for a probability that begins with 63 bits, drawing more as they are needed.

    Args:
        first: The first bits; the probability lies from ``first`` to ``first + 1`` of ``2**-63``.
        guess: What floating point makes of them.
        scale: As of `noisy`.
        law: As of `noisy`.
    """
    mp, low, bits = _arithmetic(), first, _BITS
    if first < _FEW:
        while low.bit_length() < _BITS:
            low, bits = _more(low, bits)
        mp.prec = bits + _GUARD
        guess = int(mp.floor(scale * law.guess(mp, mp.ldexp(low, -bits)) + 0.5))
    while True:
        mp.prec = bits + _GUARD
        above, below = (_beyond(mp, low, bits, (guess + end) / mp.mpf(scale), law) for end in (-0.5, 0.5))
        if above is None or below is None:
            low, bits = _more(low, bits)
        elif above and not below:
            return guess
        else:
            guess += 1 if below else -1


def _more(low: int, bits: int) -> tuple[int, int]:
    return low << 64 | int.from_bytes(os.urandom(8), "little"), bits + 64


def _beyond(mp: Any, low: int, bits: int, number: Any, law: Law) -> bool | None:
    """Return whether the variable exceeds a number: its probability is below that of exceeding it. None if unknown."""
    if number < 0:
        return True
    limit, error = mp.ldexp(law.exceeded(mp, number), bits), mp.ldexp(1, -bits - _GUARD // 2)
    if low + 1 <= limit * (1 - error):
        return True
    return False if low >= limit * (1 + error) else None


def saturated(sums: Integers, noise: Integers) -> Integers:
    """Add, and cut off at the ends of int64."""
    with np.errstate(over="ignore"):
        total = sums + noise
    total[(noise > 0) & (total < sums)] = _INT64.max
    total[(noise < 0) & (total > sums)] = _INT64.min
    return total
