"""Certified losses held against the exact privacy loss of the integer noise, summed over its lattice.

These are the tests that fail if a bound is wrong by a factor of two in either direction: delta at a claimed
epsilon is the hockey-stick divergence of two shifted lattices, computed here from the mass function alone.
"""

from __future__ import annotations

from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.event import DiscreteGaussian, DiscreteLaplace, Repeated, Sensitivity
from dprelease.privacy.rounding import CONTEXT, real


def mass(kind: str, scale: float, reach: int) -> npt.NDArray[np.float64]:
    k = np.arange(-reach, reach + 1, dtype=np.float64)
    weight = np.exp(-np.abs(k) / scale) if kind == "laplace" else np.exp(-k * k / (2 * scale * scale))
    return np.asarray(weight / weight.sum())


def exact_delta(kind: str, scale: float, shift: int, epsilon: float) -> float:
    """sum over k of max(P(k) - e^epsilon P(k - shift), 0)."""
    p = mass(kind, scale, int(60 * scale) + 10 * shift)
    q = np.roll(p, shift)
    return float(np.maximum(p - np.exp(epsilon) * q, 0)[shift:-shift].sum())


@pytest.mark.parametrize("scale", [2, 10, 37])
@pytest.mark.parametrize("shift", [1, 3])
def test_one_laplace_draw_costs_exactly_shift_over_scale(scale: int, shift: int) -> None:
    claimed = ACCOUNTANTS["basic"].epsilon(
        DiscreteLaplace(scale=Fraction(scale), sensitivity=Sensitivity.of_one_cell(shift)), Fraction(0)
    )
    assert exact_delta("laplace", scale, shift, float(claimed) + 1e-12) < 1e-12
    assert exact_delta("laplace", scale, shift, float(claimed) * 0.98) > 1e-4


@pytest.mark.parametrize("scale", [1, 3, 20])
@pytest.mark.parametrize("shift", [1, 2])
@pytest.mark.parametrize("name", ["zcdp", "rdp"])
def test_one_gaussian_draw_is_within_its_claim_and_not_far_from_it(name: str, scale: int, shift: int) -> None:
    delta = Fraction(1, 10**5)
    event = DiscreteGaussian(scale=Fraction(scale), sensitivity=Sensitivity.of_one_cell(shift))
    claimed = float(ACCOUNTANTS[name].epsilon(event, delta))
    assert exact_delta("gaussian", scale, shift, claimed) <= float(delta)
    assert exact_delta("gaussian", scale, shift, claimed * 0.75) > float(delta)


def composed_delta(epsilon: Fraction, draws: int, claimed: Fraction) -> Any:
    """Exact delta of equal discrete Laplace draws with shift 1: each is randomized response, so it is a binomial sum.

    Kairouz, Oh and Viswanath 2015, Theorem 3.3; in 60 digits, for the bounds can be tight to the last bit of a float.
    """
    top, limit = CONTEXT.exp(real(epsilon)), CONTEXT.exp(real(claimed))
    terms = (comb(draws, k) * max(top ** (draws - k) - limit * top**k, 0) for k in range(draws + 1))
    return sum(terms) / (1 + top) ** draws


@pytest.mark.parametrize("draws", [2, 8, 60])
@pytest.mark.parametrize("name", sorted(ACCOUNTANTS))
def test_several_laplace_draws_stay_within_every_claim(name: str, draws: int) -> None:
    epsilon, delta = Fraction(1, 2), Fraction(1, 10**4)
    event = Repeated(event=DiscreteLaplace(scale=Fraction(2), sensitivity=Sensitivity.of_one_cell(1)), count=draws)
    claimed = ACCOUNTANTS[name].epsilon(event, delta)
    assert composed_delta(epsilon, draws, claimed) <= real(delta)
    if name == "rdp":  # the tightest of them: a fifth less would be false
        assert composed_delta(epsilon, draws, claimed * Fraction(4, 5)) > real(delta)
