"""What is worked out once, and what is compared in floats: the digits are those of working it out anew, in 60 digits."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from dprelease.privacy.accountants import advanced, pld
from dprelease.privacy.accountants.advanced import Advanced
from dprelease.privacy.accountants.basic import Draws
from dprelease.privacy.event import Composed, DiscreteGaussian, Sensitivity
from dprelease.privacy.rounding import CONTEXT, floor_shifted, real, upper
from dprelease.privacy.theorems import inversion, loss_bound
from dprelease.privacy.theorems.inverse import as_delta
from dprelease.privacy.theorems.loss_bound import ComposedLoss
from dprelease.privacy.theorems.total_loss import CellLaw

DELTA = Fraction(1, 10**6)
DRAWS = [DiscreteGaussian(scale=Fraction(n), sensitivity=Sensitivity.of_one_cell(1)) for n in (20, 30, 41)]


def test_a_loss_under_advanced_composition_is_worked_out_once() -> None:
    advanced._epsilon_of.cache_clear()
    first = Advanced().epsilon(Composed(events=tuple(DRAWS)), DELTA)

    assert Advanced().epsilon(Composed(events=tuple(DRAWS)), DELTA) == first
    assert advanced._epsilon_of.cache_info().hits == 1
    assert Advanced().epsilon(Composed(events=tuple(DRAWS)), DELTA * 2) < first
    assert Advanced().epsilon(Composed(events=tuple(DRAWS[:2])), DELTA) < first


def test_draws_in_another_order_are_read_anew() -> None:
    """Sums of floats hang on the order: a plan must not have the digits of another one."""
    one, other = (
        advanced._Ordered(Draws.of("advanced", Composed(events=tuple(each)))) for each in (DRAWS, DRAWS[::-1])
    )

    assert one != other
    assert one == advanced._Ordered(one.draws)


def test_a_composed_loss_is_worked_out_once_and_anew_for_other_draws() -> None:
    loss_bound._epsilon_of.cache_clear()
    parts = Counter({CellLaw("bell", Fraction(20), 1): 2, CellLaw("bell", Fraction(30), 1): 1})
    first = ComposedLoss(parts).epsilon(DELTA)
    again = ComposedLoss(Counter(dict(reversed(parts.items())))).epsilon(DELTA)
    hits = loss_bound._epsilon_of.cache_info().hits
    fewer = ComposedLoss(Counter({CellLaw("bell", Fraction(20), 1): 2})).epsilon(DELTA)

    assert again == first
    assert hits == 1
    assert fewer < first
    assert ComposedLoss(parts, failures=((DELTA / 2, 1),)).epsilon(DELTA) > first


def test_draws_in_another_order_have_a_curve_of_their_own() -> None:
    one, other = (pld._losses(Composed(events=tuple(each)))[0] for each in (DRAWS, DRAWS[::-1]))

    assert one is pld._losses(Composed(events=tuple(DRAWS)))[0]
    assert one is not other


def test_neighbouring_points_of_a_curve_share_what_is_integrated() -> None:
    loss = ComposedLoss(Counter({CellLaw("bell", Fraction(300), 1): 1000}))
    near = [loss.delta(Fraction(1, 2) + Fraction(k, 10**4)) for k in range(3)]
    lines = loss._plain.total.contours

    assert len(lines) == 1
    assert near == [ComposedLoss(loss.parts).delta(Fraction(1, 2) + Fraction(k, 10**4)) for k in range(3)]
    for k in range(1, 60):
        loss.delta(Fraction(k, 40))
    assert len(lines) == inversion._KNOWN


@pytest.mark.parametrize("counts", [{300: 1000}, {300: 1000, 70: 1}, {9: 2, 30: 5000, 31: 7}])
def test_powers_of_what_is_nothing_in_floats_are_nothing(counts: dict[int, int]) -> None:
    """They are left out of the work, and every other one has the digits that it has among all."""
    total = ComposedLoss(Counter({CellLaw("bell", Fraction(scale), 1): n for scale, n in counts.items()}))._plain.total
    (family,) = total.families
    omega = np.linspace(0, 400, 5001)
    own = family.tilted(8.0, omega)
    fixed, growing = family.slack(8.0)
    bounds = np.abs(own) + (fixed[:, None] + np.multiply.outer(growing, omega))
    found, at_most = inversion._factors(family, 8.0, omega)

    assert 0 < np.count_nonzero(at_most) < len(omega)
    assert np.array_equal(found, inversion._power(own, family.counts).prod(axis=0))
    assert np.array_equal(at_most, (bounds ** family.counts[:, None]).prod(axis=0))


@pytest.mark.parametrize("power", [-4300, -1001, -308, -300, -40, -1, 0, 1, 29, 299, 310])
@pytest.mark.parametrize("digits", [1, 10, 999_999_999, 123_456_789_012_345])
def test_rounding_up_is_that_of_exact_comparisons(power: int, digits: int) -> None:
    value = CONTEXT.mpf(digits) * CONTEXT.mpf(10) ** power
    found = upper(value)

    if power > -3999:
        exact = Fraction(digits) * Fraction(10) ** power
        assert exact <= found <= exact * (1 + Fraction(3, 10**29))
        assert real(exact) == CONTEXT.mpf(exact.numerator) / exact.denominator
    else:
        assert 0 < found <= Fraction(digits, 10**3985)


@pytest.mark.parametrize("text", ["0", "-1", "1e-1001", "1e-400", "0.3", "0.9999999999", "1", "1e400", "inf"])
def test_a_delta_is_what_exact_comparisons_make_of_it(text: str) -> None:
    value = CONTEXT.mpf(text)
    found = as_delta(value)

    assert 0 <= found <= 1
    assert (found == 0) == (value <= 0)
    assert (found == 1) == (value >= 1)
    assert found >= Fraction(text) if 0 < value < 1 else True


@pytest.mark.parametrize("value", ["0", "1.5", "-1.5", "-1e-30", "3e20"])
def test_a_shifted_floor(value: str) -> None:
    for bits in (0, 3, 180):
        exact = Fraction(value) * 2**bits
        assert abs(floor_shifted(CONTEXT.mpf(value), bits) - exact) <= 1
    assert floor_shifted(CONTEXT.mpf("-1.5"), 0) == -2
    assert floor_shifted(CONTEXT.mpf("1.5"), 1) == 3
