"""The neural tangent kernel of an infinitely wide, fully connected ReLU network.

A network with such a kernel, trained by gradient descent, is kernel regression: what a set of points teaches it can be
said in closed form.

Reference: Jacot, Gabriel and Hongler (2018); Cho and Saul (2009) for the arc-cosine kernels; Arora et al. (2019) for
the recursion.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from threea.anonymize.network_gradient import load as load
from threea.errors import SettingError

Floats = NDArray[np.float64]

NETS = {"jax": "nets", "optax": "nets"}
"""What recipes need that train with JAX, and the extra that it comes with; drawing rows needs none of it."""

_PARALLEL = 1e-13
"""Squared sine of the largest angle that counts as none: rounding alone makes one of 1e-15 between equal points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TangentKernel:
    """A fully connected ReLU network without end in width, as a kernel.

    The network is in NTK parametrisation: a layer takes `h` of width `n` to `sqrt(weight_variance / n) W h +
    sqrt(bias_variance) b`, all entries of `W` and `b` are drawn from a standard normal and all of them are trained.
    With `d` columns, `w` and `b` the variances, and `c` the cosine `S(x, y) / sqrt(S(x, x) S(y, y))`::

        S_0 = w x.y / d + b                                     T_0 = S_0
        S_k = w sqrt(S(x, x) S(y, y)) arc_1(c) / 2 + b          T_k = S_k + w arc_0(c) / 2 * T_(k-1)
        arc_0(c) = (pi - angle) / pi      arc_1(c) = (sin(angle) + (pi - angle) c) / pi      angle = arccos(c)

    where `S` on the right is that of `k - 1`. The kernel is `T_depth`. The defaults are those of KIP's reference code.

    Guarantees:
        * Symmetric and positive semi-definite.
        * Without biases, stretching a point by a positive factor stretches its kernel by the same.
        * Derivatives are finite everywhere. Where two points coincide the kernel has a kink; there the derivative of
          `arc_0`, which would be infinite, is taken as 0: the middle of the slopes on both sides.

    Args:
        depth: Number of hidden layers.
        weight_variance: Of all weights, times the width of the layer below; 2 keeps the size of what passes through.
        bias_variance: Of all biases.
    """

    depth: int = 1
    weight_variance: float = 2.0
    bias_variance: float = 0.01

    def __post_init__(self) -> None:
        """Refuse what is no network.

        Raises:
            SettingError: A value is outside its bounds.
        """
        if self.depth < 1:
            raise SettingError(f"depth ({self.depth}) must be at least 1; a network without hidden layers is linear")
        if not (self.weight_variance > 0 and math.isfinite(self.weight_variance)):
            raise SettingError(f"weight_variance ({self.weight_variance:g}) must be > 0; the usual is 2")
        if not (self.bias_variance >= 0 and math.isfinite(self.bias_variance)):
            raise SettingError(f"bias_variance ({self.bias_variance:g}) must be >= 0; 0 means no biases")

    def __call__(self, left: Floats, right: Floats) -> Floats:
        """Return the kernel of all pairs of rows, shape (rows of left, rows of right), in double precision.

        Raises:
            MissingExtra: JAX is not installed.
        """
        with load("jax").enable_x64(True):
            return np.array(_compiled(self)(np.asarray(left, np.float64), np.asarray(right, np.float64)))

    def traced(self, left: Any, right: Any) -> Any:
        """Return the same as an expression of JAX, in the precision of its arguments, to differentiate or compile."""
        jnp = load("jax.numpy")
        weight, bias, columns = self.weight_variance, self.bias_variance, left.shape[1]
        covariance = weight * (left @ right.T) / columns + bias
        of_left = weight * (left**2).sum(axis=1) / columns + bias
        of_right = weight * (right**2).sum(axis=1) / columns + bias
        tangent = covariance
        for _ in range(self.depth):
            product = of_left[:, None] * of_right[None, :]
            # A point at 0 in a network without biases has no direction; a right angle gives the 0 that is due.
            size = jnp.sqrt(jnp.where(product > 0, product, 1.0))
            cosine = jnp.where(product > 0, covariance / size, 0.0)
            arc_0, arc_1 = _arcs(cosine)
            covariance = weight * jnp.where(product > 0, size, 0.0) * arc_1 / 2 + bias
            tangent = covariance + weight * arc_0 / 2 * tangent
            of_left, of_right = (weight * square / 2 + bias for square in (of_left, of_right))
        return tangent


@functools.cache
def _compiled(kernel: TangentKernel) -> Callable[..., Any]:
    compiled: Callable[..., Any] = load("jax").jit(kernel.traced)
    return compiled


def _arcs(cosine: Any) -> tuple[Any, Any]:
    """Return the arc-cosine kernels of degree 0 and 1, of points of length 1."""
    jnp = load("jax.numpy")
    squared_sine = (1 - cosine) * (1 + cosine)
    apart = squared_sine > _PARALLEL
    # The branch not taken is differentiated too, so it needs an argument at which that is possible.
    sine = jnp.where(apart, jnp.sqrt(jnp.where(apart, squared_sine, 1.0)), 0.0)
    angle = jnp.where(apart, jnp.arccos(jnp.where(apart, cosine, 0.0)), jnp.where(cosine > 0, 0.0, math.pi))
    return (math.pi - angle) / math.pi, (sine + (math.pi - angle) * cosine) / math.pi
