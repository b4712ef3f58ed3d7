"""Advanced composition next to the plain sum: that one of its boxes fails has all of delta as its probability."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from dprelease.privacy.accountants.advanced import Advanced
from dprelease.privacy.event import (
    Approximate,
    Composed,
    DiscreteGaussian,
    Event,
    Gaussian,
    Repeated,
    Sensitivity,
)
from dprelease.privacy.theorems import single

F = Fraction
ADVANCED = Advanced()
ONE = Sensitivity.of_one_cell(1)


def composed(*parts: Event) -> Composed:
    return Composed(events=parts)


def gaussians(count: int, ratio: Fraction) -> Repeated:
    return Repeated(event=Gaussian(scale=1 / ratio, sensitivity=ONE), count=count)


# Next to a delta of 1e-4 plain sums are best for these. One direction let the deltas of all boxes add up, the other
# knew that the probability that any of them fails is smaller by half the square of that.
NEAR_THE_SUM = [
    (gaussians(13, F(26, 188)), F(1, 10**8)),
    (gaussians(13, F(4, 47)), F(1, 10**8)),
    (
        Repeated(
            event=DiscreteGaussian(scale=F(817, 2), sensitivity=Sensitivity.of_shifts((1,) * 5, (4, 3, 2, 1))), count=5
        ),
        F(1, 10**7),
    ),
    (
        composed(
            Gaussian(scale=F(98, 15), sensitivity=Sensitivity.of_one_cell(4)),
            gaussians(20, F(15, 98)),
            Approximate(epsilon=F(0), delta=F(1, 2**40)),
        ),
        F(1, 10**10),
    ),
    # what the draws reveal leaves but a tenth of delta to the boxes
    (composed(Approximate(epsilon=F(0), delta=F(6, 10**5)), gaussians(6, F(1, 20))), F(2, 3) * F(1, 10**4)),
]


@pytest.mark.parametrize(("event", "delta"), NEAR_THE_SUM, ids=range(len(NEAR_THE_SUM)))
def test_advanced_boxes_fail_together_as_seldom_as_both_directions_say(event: Event, delta: Fraction) -> None:
    for less in (ADVANCED.epsilon(event, delta) * F(2, 3), ADVANCED.epsilon(event, F(1, 10**4))):
        again = ADVANCED.epsilon(event, ADVANCED.delta(event, less))
        assert again <= less * (1 + F(1, 10**9)), float(again / less - 1)


@pytest.mark.parametrize("count", [1, 2, 13, 700])
def test_advanced_uses_all_of_delta_where_epsilons_add_up(count: int) -> None:
    """The plain sum is one of the bounds that it takes the smallest of, each box read where all of delta is used up."""
    delta, event = F(1, 10**2), gaussians(count, F(3))
    each = -math.expm1(math.log1p(-float(delta)) / count)
    summed = count * float(single.epsilon(gaussians(1, F(3)).event, F(each)))
    assert float(ADVANCED.epsilon(event, delta)) <= summed * (1 + 1e-12)


def test_roundings_at_a_tiny_delta_are_no_refusal() -> None:
    """A thousand shares of 1e-40 use up all but 1e-80 of it, and rounding up more than that."""
    event, delta = gaussians(1000, F(4)), F(1, 10**40)
    epsilon = ADVANCED.epsilon(event, delta)
    assert float(ADVANCED.delta(event, epsilon)) == pytest.approx(float(delta), rel=1e-9)
