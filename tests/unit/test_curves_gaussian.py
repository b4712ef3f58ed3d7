"""The continuous Gaussian curve: golden figures, and certificates from an independent formula."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.errors import UnsupportedEvent
from dprelease.privacy.theorems import gaussian
from tests.reference_comparisons import classic_sigma, composed_mu_squared, gaussian_sigma
from tests.tiers import few

MU = st.fractions(min_value=Fraction(1, 10**6), max_value=40)
DELTA = st.integers(1, 60).map(lambda power: Fraction(1, 10**power))


def by_quadrature(mu: float, epsilon: float) -> float:
    """Hockey-stick divergence of N(mu, 1) from N(0, 1), integrated: no error function."""
    context = mpmath.MPContext()
    context.dps = 30
    m, e = context.mpf(mu), context.mpf(epsilon)
    start = e / m + m / 2

    def gap(x: mpmath.mpf) -> mpmath.mpf:
        return (context.exp(-((x - m) ** 2) / 2) - context.exp(e - x * x / 2)) / context.sqrt(2 * context.pi)

    return float(context.quad(gap, [start, start + 1, start + 3, start + 8, start + 20]))


# ids: gauss-delta-0.2367-1.0, gauss-delta-3-8.0, gauss-delta-1-1.0
@pytest.mark.parametrize(
    ("mu", "epsilon", "expected"),
    [
        ("0.2367043806634353", "1.0", 9.999999999999642e-07),
        ("3.0", "8.0", 0.07560389484898687),
        ("1.0", "1.0", 0.12693673750664394),
    ],
)
def test_golden_delta(mu: str, epsilon: str, expected: float) -> None:
    found = float(gaussian.delta(Fraction(mu) ** 2, Fraction(epsilon)))
    assert found == pytest.approx(expected, rel=1e-12)
    assert found == pytest.approx(by_quadrature(float(mu), float(epsilon)), rel=1e-12)


# ids: gauss-eps-0.5-1e-05, gauss-eps-2-1e-06, gauss-eps-50.21-1e-09
@pytest.mark.parametrize(
    ("sigma", "delta", "expected"),
    [
        ("0.5", "1e-5", 9.997256146434315),
        ("2.0", "1e-6", 2.254084650219736),
        ("50.209818263", "1e-9", 0.10000000000002836),
    ],
)
def test_golden_epsilon(sigma: str, delta: str, expected: float) -> None:
    assert float(gaussian.epsilon(1 / Fraction(sigma) ** 2, Fraction(delta))) == pytest.approx(expected, rel=1e-12)


# ids: gauss-sigma-0.1-1e-09, gauss-sigma-10.0-1e-05, gauss-sigma-0.5-1e-10
@pytest.mark.parametrize(
    ("epsilon", "delta", "expected"),
    [
        ("0.1", "1e-9", 50.209818263015066),
        ("10.0", "1e-5", 0.4998886197090323),
        ("0.5", "1e-10", 11.436239995091947),
    ],
)
def test_golden_sigma(epsilon: str, delta: str, expected: float) -> None:
    assert float(gaussian_sigma(Fraction(1), Fraction(epsilon), Fraction(delta))) == pytest.approx(expected, rel=1e-12)


def test_composition_is_exact() -> None:
    """Golden gauss-collapse: mu of four unequal draws."""
    found = composed_mu_squared([Fraction(n) for n in (10, 20, 5, 40)], [Fraction(n) for n in (1, 2, 1, 3)])
    assert found == Fraction(1, 100) + Fraction(1, 100) + Fraction(1, 25) + Fraction(9, 1600)
    assert math.sqrt(found) == pytest.approx(0.25617376914899, rel=1e-12)


@settings(max_examples=few(60), deadline=None)
@given(mu=MU, delta=DELTA)
def test_epsilon_is_certified_and_within_a_part_in_a_million_million(mu: Fraction, delta: Fraction) -> None:
    found = gaussian.epsilon(mu * mu, delta)
    assert gaussian.delta(mu * mu, found) <= delta
    assert found == 0 or gaussian.delta(mu * mu, found * (1 - Fraction(1, 10**12))) > delta


@settings(max_examples=few(40), deadline=None)
@given(epsilon=st.fractions(min_value=0, max_value=30), delta=DELTA)
def test_sigma_is_the_smallest(epsilon: Fraction, delta: Fraction) -> None:
    delta = max(delta, Fraction(1, 10**30))  # smaller ones at epsilon 0 want a mu below the documented 1e-30
    found = gaussian_sigma(Fraction(3), epsilon, delta)
    assert gaussian.delta((3 / found) ** 2, epsilon) <= delta
    assert gaussian.delta((3 / (found * (1 - Fraction(1, 10**12)))) ** 2, epsilon) > delta


@settings(max_examples=few(60), deadline=None)
@given(mu=MU, epsilon=st.fractions(min_value=0, max_value=20))
def test_the_quick_logarithm_is_good_enough_for_a_guess(mu: Fraction, epsilon: Fraction) -> None:
    exact = gaussian.delta(mu * mu, epsilon)
    if exact > Fraction(1, 10**900):
        value, _ = gaussian.log_delta_quick(float(mu), float(epsilon))
        assert value == pytest.approx(math.log(exact.numerator) - math.log(exact.denominator), rel=1e-5, abs=1e-6)


def test_delta_falls_in_epsilon_also_below_zero() -> None:
    """At a negative epsilon the curve is 1 - exp(epsilon) (1 - delta(-epsilon)), by exchanging the hypotheses."""
    values = [gaussian.delta(Fraction(4), Fraction(k, 4)) for k in range(-20, 40)]
    assert all(a > b for a, b in pairwise(values))
    mirrored = 1 - math.exp(-1) * (1 - float(gaussian.delta(Fraction(4), Fraction(1))))
    assert float(gaussian.delta(Fraction(4), Fraction(-1))) == pytest.approx(mirrored, rel=1e-12)


def test_extremes_stay_finite() -> None:
    assert gaussian.delta(Fraction(0), Fraction(0)) == 0
    assert gaussian.delta(Fraction(1, 10**12), Fraction(10**6)) == Fraction(1, 10**1000)
    assert gaussian.delta(Fraction(10**12), Fraction(1)) == 1
    assert gaussian.epsilon(Fraction(0), Fraction(0)) == 0
    assert gaussian.epsilon(Fraction(1), Fraction(1, 2)) == 0


def test_the_classic_formula_is_refused_outside_its_proof() -> None:
    """Golden classic-gaussian-invalid."""
    expected = math.sqrt(2 * math.log(1.25e5)) / 0.5
    assert float(classic_sigma(Fraction(1, 2), Fraction(1, 10**5), Fraction(1))) == pytest.approx(expected)
    assert gaussian_sigma(Fraction(1), Fraction(1, 2), Fraction(1, 10**5)) < Fraction(expected)
    for epsilon in ("1", "2", "0"):
        with pytest.raises(UnsupportedEvent, match="analytic"):
            classic_sigma(Fraction(epsilon), Fraction(1, 10**5), Fraction(1))


def test_delta_zero_is_refused() -> None:
    for call in (gaussian.epsilon, lambda _, delta: gaussian_sigma(Fraction(1), Fraction(1), delta)):
        with pytest.raises(UnsupportedEvent, match="delta 0"):
            call(Fraction(1), Fraction(0))
    with pytest.raises(UnsupportedEvent, match="delta 0"):
        classic_sigma(Fraction(1, 2), Fraction(0), Fraction(1))
