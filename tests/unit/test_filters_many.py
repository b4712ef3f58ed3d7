"""An account adds up draws of every kind that a release makes, over many releases."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dprelease.errors import UnsupportedEvent
from dprelease.privacy.accountants.rho import zcdp_rho
from dprelease.privacy.accountants.zcdp import total_rho
from dprelease.privacy.event import (
    Approximate,
    BoundedRange,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Repeated,
    Sensitivity,
)
from dprelease.privacy.filters import account_loss
from dprelease.privacy.theorems.concentrated import laplace_rho, response_rho, rho_to_epsilon

F = Fraction
DELTA = F(1, 10**6)
ROWS = Sensitivity(l0=7, l1=F(30), l2_squared=F(150), linf=F(6))


def selection(noise: type[DiscreteLaplace | DiscreteGaussian], delta: Fraction) -> Event:
    counts = noise(scale=F(10), sensitivity=Sensitivity.of_shifts((1, 1, 1)))
    return Composed(events=(counts, Approximate(epsilon=F(0), delta=delta)))


QUANTILES = Repeated(event=BoundedRange(epsilon=F(1, 5)), count=4)
RELEASES: list[Event] = [
    selection(DiscreteLaplace, F(1, 10**7)),
    QUANTILES,
    DiscreteLaplace(scale=F(100), sensitivity=ROWS),
    Approximate(epsilon=F(1, 10), delta=F(1, 10**7)),
]


def test_basic_adds_epsilons_and_deltas() -> None:
    loss = account_loss("basic", RELEASES, DELTA)
    assert loss.epsilon == F(3, 10) + F(4, 5) + F(3, 10) + F(1, 10)
    assert loss.delta == DELTA
    with pytest.raises(UnsupportedEvent, match="2e-07 of the account, which has 1e-07"):
        account_loss("basic", RELEASES, F(1, 10**7))
    with pytest.raises(UnsupportedEvent, match="key selection"):
        account_loss("basic", RELEASES[:1], F(0))
    assert account_loss("basic", RELEASES[1:3], F(0)).epsilon == F(4, 5) + F(3, 10)
    with pytest.raises(UnsupportedEvent, match="basic composition"):
        account_loss("basic", [selection(DiscreteGaussian, F(1, 10**9))], DELTA)


def test_zcdp_adds_rho_and_reads_it_at_what_reveals_leave() -> None:
    events = [*RELEASES, selection(DiscreteGaussian, F(1, 10**7)), DiscreteGaussian(scale=F(50), sensitivity=ROWS)]
    wide = zcdp_rho(DiscreteLaplace(scale=F(100), sensitivity=ROWS))
    assert F(149, 20000) < wide < F(150, 20000)
    pure = 3 * laplace_rho(F(10), 1) + wide + response_rho(F(1, 10))
    rho = F(3, 200) + 4 * F(1, 200) + F(150, 5000) + pure
    assert total_rho(Composed(events=tuple(events))) == rho
    shown = 1 - (1 - F(1, 10**7)) ** 3
    loss = account_loss("zcdp", events, DELTA)
    assert loss.epsilon == rho_to_epsilon(rho, (DELTA - shown) / (1 - shown))
    assert loss.delta == DELTA
    assert account_loss("zcdp", RELEASES[1:3], DELTA).epsilon == rho_to_epsilon(F(4, 200) + wide, DELTA)
    for delta in (F(2, 10**7), F(3, 10**7) - F(1, 10**13)):
        with pytest.raises(UnsupportedEvent):
            account_loss("zcdp", events, delta)


def test_with_a_part_of_delta_kept_nothing_depends_on_what_is_revealed() -> None:
    """The part is fixed when the account is opened: every path then stops before the same two bounds."""
    some, none = [*RELEASES], RELEASES[1:3]
    kept = F(3, 10**7)
    for events in (some, none):
        loss = account_loss("zcdp", events, DELTA, kept=kept)
        assert loss.epsilon == rho_to_epsilon(total_rho(Composed(events=tuple(events))), DELTA - kept)
    with pytest.raises(UnsupportedEvent, match="has 1e-07 for them"):
        account_loss("zcdp", some, DELTA, kept=F(1, 10**7))


def test_whoever_turns_from_noise_to_reveals_after_a_look_gains_less_than_the_deltas_granted() -> None:
    """Why ``kept`` is there, and the bound without it, listed exactly.

    First half of rho by two points; where the loss came out high the rest of rho, else reveals at all of delta. Each
    path alone would pass at delta; together they exceed it, by no more than the reveals.
    """
    import math

    size, delta = 1.0, 0.05
    upper = 0.6
    mass = math.expm1(upper - size) / math.expm1(-size)

    def second(first: float, epsilon: float) -> float:
        return sum(
            share * max(0.0, -math.expm1(epsilon - first - loss))
            for loss, share in ((upper, mass), (upper - size, 1 - mass))
        )

    def noise_only(epsilon: float) -> float:
        return mass * second(upper, epsilon) + (1 - mass) * second(upper - size, epsilon)

    low, high = 0.0, 2.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if noise_only(middle) > delta else (low, middle)
    turned = mass * second(upper, high) + (1 - mass) * delta
    assert delta < turned <= 2 * delta
