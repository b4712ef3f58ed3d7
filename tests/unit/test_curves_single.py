"""One draw of any kind: the right theorem, certified both ways, never below what it must be."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import pytest

from dprelease.errors import UnsupportedEvent
from dprelease.noise.mechanisms.random_scale import RandomScaleMechanism
from dprelease.privacy.event import (
    Approximate,
    BoundedRange,
    Composed,
    Concentrated,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    KNorm,
    Laplace,
    Parallel,
    Repeated,
    Sensitivity,
    TotalResidual,
)
from dprelease.privacy.theorems import gaussian, lattice, single
from dprelease.privacy.theorems.concentrated import rho_to_epsilon

ONE = Sensitivity.of_one_cell(1)
THREE = Sensitivity.of_one_cell(3)
PAIR = Sensitivity.of_shifts((1, 1), (2,))
MANY = Sensitivity.of_shifts((1, 1, 1, 1, 1))
UNKNOWN = Sensitivity(l0=2, l1=Fraction(2), l2_squared=Fraction(2), linf=Fraction(1))
NOTHING = Sensitivity.of_shifts()

PURE: list[Event] = [
    *(DiscreteLaplace(scale=Fraction(3), sensitivity=s) for s in (ONE, THREE, PAIR, UNKNOWN)),
    *(Laplace(scale=Fraction(3), sensitivity=s) for s in (ONE, PAIR, UNKNOWN)),
    KNorm(ball="linf", dimension=3, scale=Fraction(3), gauge=Fraction(2)),
    TotalResidual(dimension=3, share=Fraction(1, 3), scale=Fraction(3), rows=2),
    TotalResidual(dimension=2, share=Fraction(1, 3), scale=Fraction(1, 2), rows=1),
    Approximate(epsilon=Fraction(1)),
    BoundedRange(epsilon=Fraction(1, 5)),
    BoundedRange(epsilon=Fraction(4)),
]
OTHER: list[Event] = [
    *(Gaussian(scale=Fraction(3), sensitivity=s) for s in (ONE, PAIR, UNKNOWN)),
    *(
        DiscreteGaussian(scale=Fraction(scale), sensitivity=s)
        for scale in (1, 3, 16, 130, 2001, 2**16)
        for s in (ONE, PAIR, MANY, UNKNOWN)
    ),
    RandomScaleMechanism().event(Fraction(20), 40, Fraction(1)),
    RandomScaleMechanism().event(Fraction(20), 12, Fraction(2)),
    Concentrated(rho=Fraction(1, 10)),
    Approximate(epsilon=Fraction(1), delta=Fraction(1, 10**13)),
]


def label(atom: Event) -> str:
    return f"{atom.kind}-{getattr(atom, 'scale', '')}-{getattr(getattr(atom, 'sensitivity', None), 'shifts', '')}"


@pytest.mark.thin
@pytest.mark.parametrize("atom", PURE + OTHER, ids=label)
@pytest.mark.parametrize("delta", ["1e-2", "1e-6", "1e-12"])
def test_epsilon_is_certified_and_close(atom: Event, delta: str) -> None:
    goal = Fraction(delta)
    found = single.epsilon(atom, goal)
    assert single.delta(atom, found) <= goal
    assert found == 0 or single.delta(atom, found * (1 - Fraction(1, 10**6))) > goal


@pytest.mark.parametrize("atom", PURE + OTHER, ids=label)
def test_curves_fall(atom: Event) -> None:
    values = [single.delta(atom, Fraction(k, 5)) for k in range(12)]
    assert all(0 <= b <= a <= 1 for a, b in pairwise(values))


@pytest.mark.parametrize("atom", PURE, ids=label)
def test_pure_draws_keep_their_epsilon(atom: Event) -> None:
    pure = single.epsilon(atom, Fraction(0))
    assert single.delta(atom, pure) == 0
    assert single.epsilon(atom, Fraction(1, 10**500)) <= pure
    for k in range(4):
        assert single.delta(atom, pure * k / 4) <= single.response_delta(pure, pure * k / 4)


def test_randomized_response_is_what_it_says() -> None:
    """Two outcomes, by hand: e^e / (1 + e^e) against 1 / (1 + e^e)."""
    for pure, x in ((1.0, 0.5), (0.1, 0.0), (3.0, 2.5)):
        p = math.exp(pure) / (1 + math.exp(pure))
        by_hand = p - math.exp(x) * (1 - p)
        assert float(single.response_delta(Fraction(pure), Fraction(x))) == pytest.approx(by_hand, rel=1e-12)
        assert float(single.response_epsilon(Fraction(pure), Fraction(by_hand))) == pytest.approx(x, abs=1e-12)


def test_discrete_laplace_with_a_unit_shift_is_randomized_response() -> None:
    """The pure bound is exact there, and only there: for a shift of three the lattice curve is lower."""
    one, three = (DiscreteLaplace(scale=Fraction(2), sensitivity=s) for s in (ONE, THREE))
    x = Fraction(1, 5)
    assert float(single.delta(one, x)) == pytest.approx(float(single.response_delta(Fraction(1, 2), x)), rel=1e-14)
    assert single.delta(three, x) < single.response_delta(Fraction(3, 2), x) * Fraction(99, 100)


def test_the_worst_of_several_shifts_counts() -> None:
    both = DiscreteGaussian(scale=Fraction(20), sensitivity=PAIR)
    assert single.delta(both, Fraction(1, 10)) >= lattice.gaussian_delta(Fraction(20), 2, Fraction(1, 10))


@pytest.mark.parametrize("sensitivity", [ONE, PAIR, MANY, UNKNOWN])
@pytest.mark.parametrize("scale", [1, 16, 200, 3000])
def test_a_discrete_gaussian_is_never_above_zcdp_and_about_the_gaussian(scale: int, sensitivity: Sensitivity) -> None:
    atom, delta = DiscreteGaussian(scale=Fraction(scale), sensitivity=sensitivity), Fraction(1, 10**7)
    found = single.epsilon(atom, delta)
    rho = sensitivity.l2_squared / (2 * atom.scale**2)
    assert found <= rho_to_epsilon(rho, delta) * (1 + Fraction(1, 10**9))
    if scale >= 16:
        plain = gaussian.epsilon(2 * rho, delta)
        assert (
            plain * (1 - Fraction(1, scale)) <= found <= plain * (1 + Fraction(1, scale * scale) + Fraction(1, 10**7))
        )


def test_both_roads_of_the_discrete_gaussian_meet_at_the_switch() -> None:
    """Summed up to scale 2,000, collapsed beyond: no jump larger than the collapse costs."""
    below, above = (
        single.epsilon(DiscreteGaussian(scale=scale, sensitivity=ONE), Fraction(1, 10**8)) * scale
        for scale in (Fraction("1999.999"), Fraction("2000.001"))
    )
    assert float(above / below) == pytest.approx(1, abs=3e-6)


def test_nothing_that_moves_costs_nothing() -> None:
    for kind in (DiscreteLaplace, DiscreteGaussian, Laplace, Gaussian):
        atom = kind(scale=Fraction(2), sensitivity=NOTHING)
        assert single.delta(atom, Fraction(0)) == single.epsilon(atom, Fraction(0)) == 0
    assert single.epsilon(Concentrated(rho=Fraction(0)), Fraction(0)) == 0


def test_an_approximate_draw_pays_its_own_delta_first() -> None:
    atom = Approximate(epsilon=Fraction(1), delta=Fraction(1, 10**6))
    assert single.delta(atom, Fraction(1)) == Fraction(1, 10**6)
    assert single.epsilon(atom, Fraction(1, 10**6)) == 1
    with pytest.raises(UnsupportedEvent, match="smaller delta"):
        single.epsilon(atom, Fraction(1, 10**7))
    mixed = float(single.delta(atom, Fraction(1, 2)))
    assert mixed == pytest.approx(
        1e-6 + (1 - 1e-6) * float(single.response_delta(Fraction(1), Fraction(1, 2))), rel=1e-12
    )


@pytest.mark.parametrize(
    "atom",
    [
        Gaussian(scale=Fraction(1), sensitivity=ONE),
        DiscreteGaussian(scale=Fraction(1), sensitivity=ONE),
        Concentrated(rho=Fraction(1)),
    ],
    ids=label,
)
def test_no_pure_epsilon_is_refused(atom: Event) -> None:
    with pytest.raises(UnsupportedEvent, match="delta 0"):
        single.epsilon(atom, Fraction(0))


def test_compositions_are_an_accountants_business() -> None:
    draw = DiscreteLaplace(scale=Fraction(1), sensitivity=ONE)
    for event in (Parallel(events=(draw,)), Composed(events=(draw,)), Repeated(event=draw, count=2)):
        for delta in (Fraction(0), Fraction(1, 10)):
            with pytest.raises(UnsupportedEvent, match="single draw"):
                single.epsilon(event, delta)
        with pytest.raises(UnsupportedEvent, match="single draw"):
            single.delta(event, Fraction(1))


def test_arguments_out_of_range_are_refused() -> None:
    draw = DiscreteLaplace(scale=Fraction(1), sensitivity=ONE)
    with pytest.raises(ValueError, match="epsilon"):
        single.delta(draw, Fraction(-1))
    for delta in (Fraction(-1), Fraction(2)):
        with pytest.raises(ValueError, match="delta"):
            single.epsilon(draw, delta)


@pytest.mark.parametrize("scale", [64, 131, 1000, 9999])
@pytest.mark.parametrize("reach", [1, 40])
@pytest.mark.parametrize("digits", [3, 9, 14])
def test_the_near_epsilon_is_certified_and_near(scale: int, reach: int, digits: int) -> None:
    atom = DiscreteGaussian(scale=Fraction(scale), sensitivity=Sensitivity.of_one_cell(reach))
    delta = Fraction(1, 10**digits)
    near = single.near_epsilon(atom, delta)
    assert single.delta(atom, near) <= delta
    assert float(near) <= float(single.epsilon(atom, delta)) * (1 + 1e-4)
