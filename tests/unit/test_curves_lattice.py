"""Integer noise on one cell against sums over its mass function in 60 digits; continuous Laplace against a quadrature."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from dprelease.errors import UnsupportedEvent
from dprelease.privacy.rounding import CONTEXT, real
from dprelease.privacy.theorems import lattice
from dprelease.privacy.theorems.single import continuous_laplace_delta, continuous_laplace_epsilon

EPSILONS = [Fraction(0), Fraction(1, 7), Fraction(1), Fraction(9, 2)]


def brute(kind: str, scale: Fraction, shift: int, epsilon: Fraction) -> Any:
    """sum over k of max(P(k) - exp(epsilon) P(k + shift), 0), with no tail test and no closed form."""
    wide, power = real(scale), real(epsilon)
    reach = (int(30 * scale) + 40 if kind == "gaussian" else int(150 * scale) + 1) + 4 * shift
    weight = {
        k: CONTEXT.exp(-(CONTEXT.mpf(k) ** 2) / (2 * wide**2) if kind == "gaussian" else -abs(CONTEXT.mpf(k)) / wide)
        for k in range(-reach, reach + shift + 1)
    }
    total = sum(weight.values())
    factor = CONTEXT.exp(power)
    return sum(max(weight[k] - factor * weight[k + shift], CONTEXT.mpf(0)) for k in range(-reach, reach + 1)) / total


@pytest.mark.parametrize("scale", ["1/10", "1/2", "1", "7/5", "4", "23/2"])
@pytest.mark.parametrize("shift", [1, 2, 7])
def test_discrete_gaussian_is_its_lattice_sum(scale: str, shift: int) -> None:
    for epsilon in EPSILONS:
        true = brute("gaussian", Fraction(scale), shift, epsilon)
        found = real(lattice.gaussian_delta(Fraction(scale), shift, epsilon))
        assert true * (1 - CONTEXT.mpf(10) ** -45) <= found
        if true > CONTEXT.mpf(10) ** -60:
            assert found <= true * (1 + CONTEXT.mpf(10) ** -11)


@pytest.mark.parametrize("scale", ["1/10", "1/2", "2", "15/4"])
@pytest.mark.parametrize("shift", [1, 2, 7])
def test_discrete_laplace_is_its_lattice_sum(scale: str, shift: int) -> None:
    for epsilon in EPSILONS:
        true = brute("laplace", Fraction(scale), shift, epsilon)
        found = real(lattice.laplace_delta(Fraction(scale), shift, epsilon))
        assert abs(found - true) <= true * CONTEXT.mpf(10) ** -27 + CONTEXT.mpf(10) ** -58


# ids: dgauss-delta-4.0-1-1.0, dgauss-delta-1.0-1-3.0, dgauss-delta-10.0-2-1.0
@pytest.mark.parametrize(
    ("scale", "shift", "epsilon", "expected"),
    [(4, 1, 1, 3.0554546492668225e-06), (1, 1, 3, 0.0018491357106529603), (10, 2, 1, 1.7144680076977732e-08)],
)
def test_golden_discrete_gaussian(scale: int, shift: int, epsilon: int, expected: float) -> None:
    found = lattice.gaussian_delta(Fraction(scale), shift, Fraction(epsilon))
    assert float(found) == pytest.approx(expected, rel=2e-12)


def test_golden_discrete_laplace() -> None:
    """Golden dlap-delta: a = 1 / scale = 0.5."""
    assert float(lattice.laplace_delta(Fraction(2), 3, Fraction(1))) == pytest.approx(0.24491866240370913, rel=1e-13)


@pytest.mark.parametrize("scale", ["1/20", "1", "16", "131/7", "1000"])
@pytest.mark.parametrize("delta", ["1e-2", "1e-6", "1e-20"])
def test_epsilon_is_certified_and_tight(scale: str, delta: str) -> None:
    wide, goal = Fraction(scale), Fraction(delta)
    for find, curve in (
        (lattice.gaussian_epsilon, lattice.gaussian_delta),
        (lattice.laplace_epsilon, lattice.laplace_delta),
    ):
        for shift in (1, 3):
            found = find(wide, shift, goal)
            assert curve(wide, shift, found) <= goal
            assert found == 0 or curve(wide, shift, found * (1 - Fraction(1, 10**9))) > goal


@pytest.mark.parametrize("scale", ["7/5", "64", "133/7"])
def test_whether_delta_is_small_enough_is_told_as_delta_itself_tells_it(scale: str) -> None:
    for epsilon in (Fraction(1, 50), Fraction(1, 7), Fraction(1, 3)):
        delta = lattice.gaussian_delta(Fraction(scale), 2, epsilon)
        assert delta > Fraction(1, 10**200)
        near = Fraction(1, 10**29)
        for asked in (delta, delta * (1 + near), delta * (1 - near), delta * (1 - 1000 * near), delta / 2, 2 * delta):
            assert lattice.gaussian_within(Fraction(scale), 2, epsilon, asked) is (delta <= asked)


def test_a_larger_shift_never_costs_less() -> None:
    for scale in (Fraction(1, 2), Fraction(3), Fraction(40)):
        for epsilon in EPSILONS:
            for curve in (lattice.gaussian_delta, lattice.laplace_delta):
                values = [curve(scale, shift, epsilon) for shift in range(12)]
                assert all(a <= b * (1 + Fraction(1, 10**11)) for a, b in pairwise(values))
                assert curve(scale, -5, epsilon) == curve(scale, 5, epsilon)


def test_a_large_scale_agrees_with_plain_summation() -> None:
    scale, shift, epsilon = 2000, 3, 0.005
    k = np.arange(-30_000, 30_001, dtype=np.float64)
    weight = np.exp(-k * k / (2 * scale * scale))
    loss = (2 * k * shift + shift * shift) / (2 * scale * scale)
    plain = float((weight * np.maximum(0, -np.expm1(epsilon - loss))).sum() / weight.sum())
    found = float(lattice.gaussian_delta(Fraction(scale), shift, Fraction(epsilon)))
    assert found == pytest.approx(plain, rel=1e-10)
    assert found >= plain * (1 - 1e-12)


def test_a_shift_far_larger_than_the_scale_is_almost_certain() -> None:
    assert 1 - Fraction(1, 10**11) < lattice.gaussian_delta(Fraction(2), 10_000, Fraction(0)) <= 1


def test_a_scale_too_large_to_sum_and_delta_zero_are_refused() -> None:
    with pytest.raises(ValueError, match="not summed"):
        lattice.gaussian_delta(Fraction(10**6), 1, Fraction(1))
    with pytest.raises(UnsupportedEvent, match="delta 0"):
        lattice.gaussian_epsilon(Fraction(5), 1, Fraction(0))
    assert lattice.laplace_epsilon(Fraction(5), 2, Fraction(0)) == Fraction(2, 5)


@pytest.mark.parametrize("scale", ["1/2", "3", "100"])
def test_continuous_laplace_is_its_integral(scale: str) -> None:
    wide = Fraction(scale)
    b, s = float(wide), 2.0
    middles = (np.arange(600_000) + 0.5) / 600_000 * (60 * b + 4 * s) - 30 * b - 2 * s
    width = (60 * b + 4 * s) / 600_000
    for factor in ("0", "1/3", "9/10"):
        epsilon = Fraction(factor) * 2 / wide
        gap = np.exp(-np.abs(middles) / b) - np.exp(float(epsilon) - np.abs(middles + s) / b)
        area = float(np.maximum(gap, 0).sum()) * width / (2 * b)
        assert float(continuous_laplace_delta(wide, Fraction(2), epsilon)) == pytest.approx(area, rel=1e-5, abs=1e-9)
    assert continuous_laplace_delta(wide, Fraction(2), 2 / wide) == 0


def test_continuous_laplace_and_back() -> None:
    for delta in (Fraction(1, 3), Fraction(1, 10**9)):
        found = continuous_laplace_epsilon(Fraction(2), Fraction(3), delta)
        assert continuous_laplace_delta(Fraction(2), Fraction(3), found + Fraction(1, 10**25)) <= delta
        assert continuous_laplace_delta(Fraction(2), Fraction(3), found - Fraction(1, 10**25)) > delta
    assert continuous_laplace_epsilon(Fraction(2), Fraction(3), Fraction(0)) == Fraction(3, 2)
    assert continuous_laplace_epsilon(Fraction(2), Fraction(3), Fraction(9, 10)) == 0
