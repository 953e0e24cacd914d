"""The tangent kernel: it is what a very wide network's gradients say, and can be differentiated anywhere."""

import itertools
import math
import sys
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threea.adapt.ntk import TangentKernel
from threea.errors import MissingExtra, SettingError

COLUMNS = 4
POINTS = np.random.default_rng(0).normal(size=(6, COLUMNS))
KERNELS = [
    TangentKernel(),
    TangentKernel(depth=3),
    TangentKernel(depth=2, weight_variance=1.3, bias_variance=0.5),
    TangentKernel(depth=2, bias_variance=0.0),
]


def one_hidden_layer(x: np.ndarray, y: np.ndarray) -> float:
    """Return the closed form for weights of variance 2 and no biases."""
    lengths = float(np.linalg.norm(x) * np.linalg.norm(y))
    angle = math.acos(float(x @ y) / lengths)
    return 2 * lengths / (math.pi * len(x)) * (math.sin(angle) + 2 * (math.pi - angle) * math.cos(angle))


def finite_network(kernel: TangentKernel, points: np.ndarray, width: int, seed: int) -> np.ndarray:
    """Return the inner products of the gradients, by all parameters, of a random network's single output."""
    rng = np.random.default_rng(seed)
    weight, bias = kernel.weight_variance, kernel.bias_variance
    sizes = [points.shape[1], *[width] * kernel.depth, 1]
    passed, signs, layers = [points.T.astype(np.float32)], [], []
    for below, above in itertools.pairwise(sizes):
        layers.append(math.sqrt(weight / below) * rng.standard_normal((above, below), np.float32))
        before = layers[-1] @ passed[-1] + math.sqrt(bias) * rng.standard_normal((above, 1), np.float32)
        signs.append(before > 0)
        passed.append(np.maximum(before, 0))
    slope, total = np.ones((1, len(points)), np.float32), np.zeros((len(points), len(points)))
    for place in reversed(range(len(layers))):
        # The gradient by a layer's weights is an outer product, so inner products of gradients are products of two.
        below = passed[place]
        total += (weight / len(below) * (below.T @ below) + bias) * (slope.T @ slope)
        slope = (layers[place].T @ slope) * (signs[place - 1] if place else 1)
    return total


def slopes(kernel: TangentKernel, points: np.ndarray, others: np.ndarray | None = None) -> np.ndarray:
    """Return the gradient of the sum of the kernel, with the other points moving along if none are given."""

    def total(moving: Any) -> Any:
        return kernel.traced(moving, moving if others is None else others).sum()

    with jax.enable_x64(True):
        return np.asarray(jax.jit(jax.grad(total))(points))


def test_one_hidden_layer_is_the_closed_form() -> None:
    found = TangentKernel(bias_variance=0.0)(POINTS, POINTS[1:])
    for row, column in ((0, 0), (3, 1), (5, 2)):
        assert found[row, column] == pytest.approx(one_hidden_layer(POINTS[row], POINTS[1 + column]), rel=1e-12)
    assert found[2, 1] == pytest.approx(4 * POINTS[2] @ POINTS[2] / COLUMNS, rel=1e-12)


def test_opposite_points_share_nothing_without_biases() -> None:
    found = TangentKernel(bias_variance=0.0)(POINTS, -POINTS)
    np.testing.assert_allclose(np.diag(found), 0, atol=1e-12)


@pytest.mark.parametrize(
    ("kernel", "width", "networks"), [(KERNELS[0], 4096, 8), (KERNELS[1], 512, 64), (KERNELS[2], 4096, 2)], ids=str
)
def test_wide_networks_have_nearly_this_kernel(kernel: TangentKernel, width: int, networks: int) -> None:
    # A layer of ReLUs changes a squared length by a random factor with variance 5 / width. Four standard deviations of
    # the mean over networks are allowed, relative to the diagonal: 0.05, 0.09 and 0.14.
    deviation = math.sqrt(5 * kernel.depth / width / networks)
    exact = kernel(POINTS, POINTS)
    found = np.mean([finite_network(kernel, POINTS, width, seed) for seed in range(networks)], axis=0)
    size = np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
    assert (np.abs(found - exact) / size).max() < 4 * deviation


def test_a_wider_network_is_nearer() -> None:
    kernel, exact = KERNELS[0], KERNELS[0](POINTS, POINTS)
    errors = [
        np.mean([np.abs(finite_network(kernel, POINTS, width, seed) - exact).mean() for seed in range(8)])
        for width in (64, 4096)
    ]
    # By theory the ratio is sqrt(64) = 8.
    assert errors[0] > 4 * errors[1]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_symmetric_and_positive_semidefinite(kernel: TangentKernel) -> None:
    points = np.vstack([POINTS, POINTS[:2], 2 * POINTS[:1], -POINTS[:1], np.zeros((1, COLUMNS)), POINTS[:1] + 1e-7])
    found = kernel(points, points)
    np.testing.assert_allclose(found, found.T, rtol=0, atol=1e-12)
    values = np.linalg.eigvalsh(found)
    # What is taken as parallel is off by 1e-7 of the diagonal at most.
    assert values.min() > -1e-7 * values.max()
    assert values.max() > 0


@given(stretch=st.floats(1e-3, 1e3), other=st.floats(1e-3, 1e3))
@settings(max_examples=25, deadline=None)
def test_without_biases_stretching_a_point_stretches_its_kernel(stretch: float, other: float) -> None:
    kernel = KERNELS[3]
    found = kernel(stretch * POINTS, other * POINTS)
    np.testing.assert_allclose(found, stretch * other * kernel(POINTS, POINTS), rtol=1e-6)


@pytest.mark.parametrize("stretch", [0.01, 30.0])
def test_stretching_points_and_biases_alike_stretches_the_kernel_twice(stretch: float) -> None:
    stretched = TangentKernel(depth=2, bias_variance=0.5 * stretch**2)(stretch * POINTS, stretch * POINTS)
    exact = TangentKernel(depth=2, bias_variance=0.5)(POINTS, POINTS)
    np.testing.assert_allclose(stretched, stretch**2 * exact, rtol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS[2:], ids=str)
def test_gradient_is_that_of_finite_differences(kernel: TangentKernel) -> None:
    found, width = slopes(kernel, POINTS, POINTS[::-1] + 0.3), 1e-6
    for place in ((0, 0), (2, 1), (5, 3)):
        nudge = np.zeros_like(POINTS)
        nudge[place] = width
        up, down = (kernel(POINTS + sign * nudge, POINTS[::-1] + 0.3).sum() for sign in (1, -1))
        assert found[place] == pytest.approx((up - down) / (2 * width), rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("kernel", KERNELS[2:], ids=str)
def test_gradient_is_finite_where_points_coincide_oppose_or_vanish(kernel: TangentKernel) -> None:
    points = np.vstack([POINTS[:2], POINTS[:1], -POINTS[:1], 3 * POINTS[:1], np.zeros((2, COLUMNS)), POINTS[:1] + 1e-9])
    for others in (None, points):
        assert np.isfinite(slopes(kernel, points, others)).all()


def test_gradient_of_a_points_own_kernel_is_exact() -> None:
    point = POINTS[:1]
    np.testing.assert_allclose(slopes(TangentKernel(bias_variance=0.0), point), 8 * point / COLUMNS, rtol=1e-9)


@pytest.mark.parametrize("kernel", [KERNELS[0], KERNELS[2]], ids=str)
def test_at_the_kink_the_gradient_is_in_the_middle(kernel: TangentKernel) -> None:
    point, along, width = POINTS[:1], POINTS[1:2], 1e-5
    found = (slopes(kernel, point, point) * along).sum()
    at, up, down = (kernel(point + move * along, point)[0, 0] for move in (0, width, -width))
    left, right = (at - down) / width, (up - at) / width
    assert left - right > 0.1
    assert found == pytest.approx((left + right) / 2, abs=1e-3 * (left - right))


def test_double_precision_here_and_nowhere_else() -> None:
    assert KERNELS[0](POINTS.astype(np.float32), POINTS).dtype == np.float64
    assert jax.numpy.ones(1).dtype == np.float32


@pytest.mark.parametrize(
    "wrong", [{"depth": 0}, {"weight_variance": 0.0}, {"weight_variance": math.inf}, {"bias_variance": -1.0}]
)
def test_what_is_no_network_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=next(iter(wrong))):
        TangentKernel(**wrong)


def test_missing_jax_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(MissingExtra, match=r"jax is not installed; pip install 'threea\[nets\]'"):
        KERNELS[0](POINTS, POINTS)
