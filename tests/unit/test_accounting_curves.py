"""The privacy profile and the trade-off curve: bounds everywhere, and hardly above the truth where that is known."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import pairwise
from statistics import NormalDist
from typing import cast

import pytest

from dprelease.plan.document import ReleasePlan
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.event import Approximate, Composed, Concentrated, DiscreteLaplace, Gaussian, Sensitivity
from dprelease.privacy.theorems import gaussian
from dprelease.publish.accounting.curves import Profile, fewest_misses, profile, profile_of, trade_off
from tests.planned import plan_of

NORMAL = NormalDist()
MU = Fraction(1, 2)
ONE = Composed(events=(Gaussian(scale=Fraction(2), sensitivity=Sensitivity.of_one_cell(1)),))
LAPLACE = Composed(events=(DiscreteLaplace(scale=Fraction(1), sensitivity=Sensitivity.of_one_cell(1)),))


@cache
def made() -> ReleasePlan:
    return plan_of()


@cache
def of_one() -> Profile:
    return profile(ONE, frozenset(), Fraction(2))


def test_the_profile_is_a_bound_at_every_epsilon_and_falls() -> None:
    last = 1.0
    for at in range(301):
        epsilon = at / 100
        truth, bound = float(gaussian.delta(MU**2, Fraction(at, 100))), of_one().delta(epsilon)
        assert truth <= bound <= last
        last = bound


def test_a_chord_is_little_above_the_curve() -> None:
    for epsilon in (0.0625, 0.4, 1.0, 1.9):
        assert of_one().delta(epsilon) <= 1.6 * float(gaussian.delta(MU**2, Fraction(repr(epsilon))))


def test_a_profile_that_is_a_hundredth_too_low_is_no_bound() -> None:
    low = Profile.of((epsilon, delta * Fraction(99, 100)) for epsilon, delta in of_one().points)
    assert any(low.delta(at / 100) < float(gaussian.delta(MU**2, Fraction(at, 100))) for at in range(301))


def test_the_profile_of_a_plan_promises_no_more_than_its_certified_loss() -> None:
    certified = made().loss[made().certified]
    found = profile_of(made())
    epsilon = found.epsilon(certified.delta)
    assert epsilon is not None
    assert epsilon >= certified.epsilon
    assert found.delta(float(certified.epsilon) * (1 - 1e-9)) >= float(certified.delta)
    assert (certified.epsilon, certified.delta) in found.points


def test_every_point_is_what_an_accountant_proves_rounded_up() -> None:
    for epsilon, delta in of_one().points:
        best = min(ACCOUNTANTS[name].delta(ONE, epsilon) for name in ("zcdp", "pld"))
        assert best <= delta <= best * (1 + Fraction(2, 10**5)) + Fraction(1, 10**30)


def test_the_whole_loss_is_worked_out_only_where_it_can_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a tiny loss delta has a million digits at most of the grid: the bound of zCDP is told as 10^-30 there."""
    asked: list[Fraction] = []
    whole = ACCOUNTANTS["pld"]

    class Spy:
        def delta(self, event: Composed, epsilon: Fraction) -> Fraction:
            asked.append(epsilon)
            return whole.delta(event, epsilon)

    monkeypatch.setitem(cast("dict[str, object]", ACCOUNTANTS), "pld", Spy())
    tiny = Composed(events=(Gaussian(scale=Fraction(10**6), sensitivity=Sensitivity.of_one_cell(1)),))
    found = profile(tiny, frozenset(), Fraction(1, 10**5))
    assert asked == [0]  # far out mu = 10^-6 loses e^-7000000
    assert found.points[-1][1] <= Fraction(1, 10**30)


def test_a_pure_draw_has_delta_zero_from_its_epsilon_on() -> None:
    found = profile(LAPLACE, frozenset({(Fraction(1), Fraction(0))}), Fraction(1))
    assert found.delta(1.0) == found.delta(7.0) == 0
    assert found.points[-1] == (Fraction(1), Fraction(0))
    assert found.delta(0.999) > 0


def test_a_delta_of_its_own_is_never_left() -> None:
    event = Composed(events=(*LAPLACE.events, Approximate(epsilon=Fraction(0), delta=Fraction(1, 1000))))
    found = profile(event, frozenset(), Fraction(1))
    assert found.delta(50.0) >= 1e-3
    assert trade_off(found.points, Fraction(0)) <= Fraction(999, 1000)


def test_a_draw_without_a_dominating_pair_has_the_bound_of_zcdp() -> None:
    event = Composed(events=(Concentrated(rho=Fraction(1, 8)),))
    found = profile(event, frozenset(), Fraction(2))
    assert len(found.points) > 10
    assert all(found.delta(float(e)) >= float(gaussian.delta(Fraction(1, 4), e)) for e, _ in found.points)


def exact_misses(alpha: float) -> float:
    """Of one Gaussian draw (Dong, Roth and Su 2022, equation 6)."""
    return NORMAL.cdf(NORMAL.inv_cdf(1 - alpha) - float(MU))


@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99])
def test_no_test_of_one_gaussian_has_fewer_misses_and_the_curve_is_close(alpha: float) -> None:
    found = float(trade_off(of_one().points, Fraction(repr(alpha))))
    assert exact_misses(alpha) - 0.003 <= found <= exact_misses(alpha)


def test_a_curve_from_deltas_that_are_too_small_is_above_the_exact_one() -> None:
    points = [(epsilon, delta * Fraction(9, 10)) for epsilon, delta in of_one().points]
    assert float(trade_off(points, Fraction(1, 4))) > exact_misses(0.25)


def test_randomized_response_has_its_two_lines_exactly() -> None:
    """One pair (epsilon, 0): 1 - 3 a up to the corner at 1/4, then (1 - a) / 3."""
    points = [(Fraction(math.log(3)), Fraction(0))]
    for alpha, misses in ((0, 1), (0.1, 0.7), (0.25, 0.25), (0.7, 0.1), (1, 0)):
        found = float(trade_off(points, Fraction(repr(alpha))))
        assert misses - 1e-9 <= found <= misses + 1e-12
    corners = fewest_misses(points)
    assert [round(alpha, 9) for alpha, _ in corners] == [0, 0.25, 1]
    assert [round(miss, 9) for _, miss in corners] == [1, 0.25, 0]


def test_the_corners_are_the_curve() -> None:
    corners = fewest_misses(of_one().points)
    assert corners[0][0] == 0
    assert corners[-1] == (1, 0)
    for (a1, m1), (a2, m2) in pairwise(corners):
        middle = (a1 + a2) / 2
        assert (m1 + m2) / 2 == pytest.approx(float(trade_off(of_one().points, Fraction(middle))), abs=1e-9)
        assert m2 <= m1
