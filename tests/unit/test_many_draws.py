"""Short cuts that plans of a thousand draws take: each gives the very digits of the long way round."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import accumulate

import mpmath
import numpy as np
import pytest

from dprelease.catalog.expressions.expression import _parsed, parse
from dprelease.plan.verify.mathematics.delta import _listed
from dprelease.plan.verify.mathematics.draws import Cell, Loss
from dprelease.plan.verify.mathematics.sphere import SphereGroup
from dprelease.privacy.accountants.base import atoms
from dprelease.privacy.accountants.reveals import peeled
from dprelease.privacy.accountants.zcdp import exact_sum
from dprelease.privacy.event import Composed, DiscreteGaussian, Repeated, Sensitivity
from dprelease.privacy.filters import _short, _short_sum
from dprelease.privacy.newton import forward_differences, horner, polynomial_series
from dprelease.privacy.rounding import CONTEXT, dyadic_sqrt_up, dyadic_up, real, sqrt_up
from dprelease.privacy.theorems.inverse import _log1p
from dprelease.privacy.theorems.lattice import _NEAR_CUT, _UNCLEAR, _gaussian_sum, gaussian_delta, gaussian_within


def rationals(seed: int) -> list[Fraction]:
    """A few or many, of scales as they are drawn, of whole numbers, or of both."""
    draw = random.Random(seed)
    below = [lambda: 2**40, lambda: draw.randrange(1, 2**40) ** 2, lambda: draw.randrange(1, 100)][seed % 3 :]
    number = draw.choice([0, 1, 5, 60, 300])
    return [Fraction(draw.randrange(1, 2**40), draw.choice(below)()) for _ in range(number)]


@pytest.mark.parametrize("seed", range(60))
def test_sums_of_rationals_are_those_of_one_by_one(seed: int) -> None:
    values = rationals(seed)

    whole = sum(values, Fraction(0))

    assert exact_sum(values) == whole
    assert _short_sum(values) == _short(whole) >= whole


def test_a_sum_that_ends_on_the_grain_is_not_rounded_past_it() -> None:
    """Nothing of the long denominators is left of it: what the parts are rounded by must not show."""
    primes = [n for n in range(10**5, 10**5 + 9000) if all(n % small for small in range(2, 331))]
    parts = [Fraction(1, prime**2) for prime in primes]

    values = [*parts, *(Fraction(1, 2**30) - part for part in parts)]

    assert _short_sum(values) == exact_sum(values) == Fraction(len(primes), 2**30)


@pytest.mark.parametrize("seed", range(200))
def test_scales_of_gaussian_draws_are_rounded_up_once(seed: int) -> None:
    draw = random.Random(seed)
    above, below = (draw.randrange(1, 2 ** draw.choice([3, 40, 120])) for _ in range(2))

    found = dyadic_sqrt_up(above, below)

    assert found == dyadic_up(sqrt_up(Fraction(above, below))) == dyadic_sqrt_up(above * 12, below * 12)
    assert found**2 * below >= above


@pytest.mark.parametrize("degree", [1, 12, 240])
def test_polynomials_are_added_up_with_all_their_digits(degree: int) -> None:
    values, rate = [(3 * i + 1) ** degree for i in range(degree + 1)], real(Fraction(1, 77))
    q, miss = CONTEXT.exp(-rate), -CONTEXT.expm1(-rate)
    differences = forward_differences(values)
    factors = [*accumulate([q / miss] * degree, lambda factor, ratio: factor * ratio, initial=1 / miss)]
    summed, nested = CONTEXT.mpf(0), CONTEXT.mpf(0)
    for difference, factor in zip(differences, factors, strict=True):
        summed += difference * factor
    for difference in reversed(differences):
        nested = nested * rate + difference

    assert polynomial_series(values, rate) == summed
    assert horner(differences, rate) == nested


@pytest.mark.parametrize("scale", [Fraction(2), Fraction(7, 2), Fraction(40), Fraction(1500)])
@pytest.mark.parametrize("shift", [1, 2, 9])
def test_whether_delta_is_small_enough_is_what_delta_says(scale: Fraction, shift: int) -> None:
    """At epsilon 0 and elsewhere, next to the delta itself and far from it."""
    for epsilon in (Fraction(0), Fraction(1, 10**9), Fraction(1, 3)):
        exact = gaussian_delta(scale, shift, epsilon)
        for factor in (
            Fraction(1, 10**6),
            1 - Fraction(1, 10**6),
            1 - Fraction(1, 10**20),
            Fraction(1),
            Fraction(3, 2),
        ):
            assert gaussian_within(scale, shift, epsilon, exact * factor) == (factor >= 1)


@pytest.mark.parametrize("scale", [Fraction(2), Fraction(777, 10), Fraction(20_000)])
@pytest.mark.parametrize("shift", [1, 3])
def test_what_is_cut_off_changes_no_delta(scale: Fraction, shift: int) -> None:
    """Of where it is told whether delta is small enough: less than a hundredth of what is called unclear."""
    for part in (Fraction(0), Fraction(1, 2), Fraction(5), Fraction(30)):
        epsilon = part * shift / scale

        whole, short = (_gaussian_sum(scale, shift, epsilon, cut)[0] for cut in (80, _NEAR_CUT))

        assert whole * (1 - 1e-12) <= short <= whole * (1 + _UNCLEAR / 100)


def test_ten_thousand_conditions_are_read_once_each() -> None:
    """Loading, planning and verifying go through them one after the other: what is forgotten is read again each time."""
    assert _parsed.cache_parameters()["maxsize"] >= 10_000
    assert parse("age > 7", {"age": "integer"}) is parse("age > 7", {"age": "integer"})


def test_the_draws_of_a_plan_are_counted_once_and_stay_as_they_are() -> None:
    one = DiscreteGaussian(scale=Fraction(5), sensitivity=Sensitivity.of_one_cell(1))
    event = Composed(events=(one, Repeated(event=one, count=2), one))

    peeled(atoms(event)).atoms[one] += 7

    assert atoms(event) == {one: 4}
    assert atoms(Composed(events=(event, one))) == {one: 5}


@pytest.mark.parametrize("value", ["1e-30", "-3e-18", "1e-15", "-1e-9", "0.0039", "-0.0039", "0.5", "-0.99", "0"])
def test_a_logarithm_near_one_has_all_its_digits(value: str) -> None:
    wide = mpmath.MPContext()
    wide.dps = 120
    exact = CONTEXT.mpf(value)
    right = wide.log1p(wide.mpf(exact))
    assert abs(wide.mpf(_log1p(exact)) - right) <= abs(right) * wide.mpf(10) ** -58


def test_outcomes_are_listed_unless_there_are_too_many() -> None:
    """All sets of 14 of 16,384 responses lose more than epsilon, which fits; of 15 they do not, nor triples of 60."""
    sizes = [Fraction(100 + n, 1000) for n in range(60)]

    def listed(number: int, gap: float) -> float | None:
        return _listed(Loss.of({Cell("pure", size): 1 for size in sizes[:number]}), gap)

    assert listed(14, 100.0) == pytest.approx(1.0, rel=1e-12)  # what no outcome exceeds by far is sure
    assert listed(15, 100.0) is None
    assert listed(60, 0.96) is None
    assert listed(60, 0.3) is not None


def test_responses_turn_as_their_masses_say() -> None:
    loss = Loss.of({Cell("pure", Fraction(1, 2)): 1, Cell("pure", Fraction(3)): 1})
    places, spacing, theta = np.array([255, 256, 300, 1023, 5000, 99_999]), 0.013, 0.7

    (group,) = loss.groups
    assert not isinstance(group, SphereGroup)
    turned, quickly = group.turned(theta, spacing * places), group.responses(theta, spacing, places)

    for size, row in zip((3.0, 0.5), quickly, strict=True):
        low = np.exp(-size * (1 + 2 * theta))
        expected = (1 + low * np.exp(-2j * size * spacing * places)) / (1 + low)
        assert row == pytest.approx(expected, rel=1e-11)
    assert quickly == pytest.approx(turned, rel=1e-11)
