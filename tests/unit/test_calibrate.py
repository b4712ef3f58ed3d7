"""Calibration uses the budget up, and never exceeds it."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dprelease.errors import BudgetTooSmall, UnsupportedEvent
from dprelease.privacy.accountants import ACCOUNTANTS, smallest
from dprelease.privacy.accountants.zcdp import total_rho
from dprelease.privacy.budget import Budget
from dprelease.privacy.calibrate import largest_knob, measured_loss, near_knob, rough_loss
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
from dprelease.privacy.rounding import dyadic_up, sqrt_up
from tests.tiers import few

F = Fraction
DELTA = F(1, 10**9)
ACCOUNTINGS = ["auto", *ACCOUNTANTS]
CLOSE = 1 - F(3, 10**7)  # what may be left over of a budget
At = Callable[[Fraction], Event]


def laplace(*weights: int) -> At:
    """Draws whose epsilons are the knob times their weights."""
    shifts = (1, 3, 100_000, 7)

    def event_at(knob: Fraction) -> Event:
        return Composed(
            events=tuple(
                DiscreteLaplace(scale=dyadic_up(s / (w * knob)), sensitivity=Sensitivity.of_one_cell(s))
                for w, s in zip(weights, shifts, strict=False)
            )
        )

    return event_at


def gaussian(*weights: int) -> At:
    """Draws whose rhos are the knob times their weights."""
    shifts = (1, 3, 100_000, 7)

    def event_at(knob: Fraction) -> Event:
        return Composed(
            events=tuple(
                DiscreteGaussian(
                    scale=dyadic_up(sqrt_up(s * s / (2 * w * knob))), sensitivity=Sensitivity.of_one_cell(s)
                )
                for w, s in zip(weights, shifts, strict=False)
            )
        )

    return event_at


FAMILIES = {"laplace": laplace, "gaussian": gaussian}
families = pytest.mark.parametrize("family", list(FAMILIES))
accountings = pytest.mark.parametrize("accounting", ACCOUNTINGS)


def rises(event_at: At, accounting: str, low: Fraction, high: Fraction) -> bool:
    """Whether the loss rises from one knob to the other, at ten steps between them."""
    knobs = [low + (high - low) * F(n, 10) for n in range(11)]
    losses = [rough_loss(accounting, event_at(knob), DELTA) for knob in knobs]
    return losses == sorted(losses)


@families
@accountings
@settings(max_examples=few(5, 2))
@given(
    weights=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    epsilon=st.fractions(min_value=F(1, 50), max_value=8, max_denominator=50),
)
@example(weights=[3], epsilon=F(153, 20))  # noise of scale 0.8 on whole numbers: the loss rises, falls and rises again
def test_the_budget_is_used_up_and_never_exceeded(
    family: str, accounting: str, weights: list[int], epsilon: Fraction
) -> None:
    """The certified loss of PLDs wavers from knob to knob by some 5e-6 of itself, so that "used up" within 1e-5 is missed
    by a rare set of weights ([4, 4] and [2, 2] at 184/47 for `auto`). The examples are therefore fixed but at night."""
    event_at = FAMILIES[family](*weights)
    budget = Budget(epsilon=epsilon, delta=DELTA)
    knob = largest_knob(event_at, accounting, budget)
    assert epsilon * CLOSE <= measured_loss(accounting, event_at(knob), DELTA) <= epsilon
    assert measured_loss(accounting, event_at(knob * (1 + F(1, 10**5))), DELTA) > epsilon
    near = near_knob(event_at, accounting, budget)
    assert rough_loss(accounting, event_at(near), DELTA) == pytest.approx(float(epsilon), rel=1.01e-3)
    if rises(event_at, accounting, *sorted((near, knob))):
        assert float(near) == pytest.approx(float(knob), rel=3e-3)
    assert rough_loss(accounting, event_at(knob), DELTA) == pytest.approx(float(epsilon), rel=1e-3)


@accountings
def test_one_coarse_discrete_gaussian_fits_a_budget_at_several_knobs(accounting: str) -> None:
    losses = [measured_loss(accounting, gaussian(3)(F(n, 1000)), DELTA) for n in (234, 252, 264, 288)]
    fits = [loss <= F(153, 20) for loss in losses]
    assert fits == ([False] * 4 if accounting in ("zcdp", "rdp") else [True, False, True, False])


@families
def test_a_rho_budget_is_spent_as_rho(family: str) -> None:
    event_at = FAMILIES[family](1, 2)
    limit = F(1, 10)
    for accounting in ACCOUNTINGS:
        knob = largest_knob(event_at, accounting, Budget(rho=limit, delta=DELTA))
        assert limit * CLOSE <= total_rho(event_at(knob)) <= limit
    assert near_knob(event_at, "auto", Budget(rho=limit)) > 0


def test_pure_noise_at_delta_zero() -> None:
    for accounting in ("auto", "basic", "rdp", "pld"):
        knob = largest_knob(laplace(1, 3), accounting, Budget(epsilon=F(1)))
        assert float(knob) == pytest.approx(0.25, rel=3e-7)


@accountings
def test_what_is_fixed_is_paid_first(accounting: str) -> None:
    pinned = laplace(1)(F(1, 2))
    moving = laplace(2, 1)
    budget = Budget(epsilon=F(4, 5), delta=DELTA)

    def event_at(knob: Fraction) -> Event:
        return Composed(events=(pinned, moving(knob)))

    if accounting == "zcdp":
        with pytest.raises(BudgetTooSmall):  # the pinned draw alone is epsilon 3.2 to it
            largest_knob(event_at, accounting, budget)
        return
    knob = largest_knob(event_at, accounting, budget)
    assert F(4, 5) * CLOSE <= measured_loss(accounting, event_at(knob), DELTA) <= F(4, 5)
    assert knob < largest_knob(moving, accounting, budget)


@pytest.mark.thin(every=2)
@accountings
def test_a_budget_below_what_is_fixed_is_too_small(accounting: str) -> None:
    pinned = laplace(1)(F(1, 2))

    def event_at(knob: Fraction) -> Event:
        return Composed(events=(pinned, laplace(1)(knob)))

    for search in (largest_knob, near_knob):
        with pytest.raises(BudgetTooSmall) as caught:
            search(event_at, accounting, Budget(epsilon=F(1, 3), delta=DELTA))
        assert "raise epsilon" in caught.value.hint


@families
@pytest.mark.parametrize("accounting", ["auto", "rdp"])
def test_where_the_search_starts_does_not_matter(family: str, accounting: str) -> None:
    event_at, budget = FAMILIES[family](1, 1, 4), Budget(epsilon=F(1), delta=DELTA)
    expected = float(largest_knob(event_at, accounting, budget))
    for start in (F(1, 10**9), F(1, 7), F(10**6)):
        assert float(largest_knob(event_at, accounting, budget, start=start)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.thin(every=2)
@families
@pytest.mark.parametrize("error", [F(1, 3), F(1001, 1000), F(3)])
def test_a_rough_event_guides_and_never_decides(family: str, error: Fraction) -> None:
    event_at, budget = FAMILIES[family](1, 2), Budget(epsilon=F(1), delta=DELTA)
    knob = largest_knob(event_at, "auto", budget, roughly_at=lambda knob: event_at(knob * error))
    assert CLOSE <= measured_loss("auto", event_at(knob), DELTA) <= 1


@pytest.mark.thin(first=1)
@families
def test_a_larger_budget_is_less_noise(family: str) -> None:
    event_at = FAMILIES[family](1, 2)
    knobs = [largest_knob(event_at, "auto", Budget(epsilon=F(n, 10), delta=DELTA)) for n in (1, 2, 5, 20)]
    assert knobs == sorted(set(knobs))


@pytest.mark.parametrize("event_at", [laplace(1, 2), gaussian(1, 2)])
def test_auto_is_the_smallest_of_all(event_at: At) -> None:
    event = event_at(F(1, 3))
    found, least = measured_loss("auto", event, DELTA), smallest(event, DELTA)[1]
    assert least <= found <= least * (1 + F(1, 10**9))
    for name, accountant in ACCOUNTANTS.items():
        assert measured_loss(name, event, DELTA) == accountant.epsilon(event, DELTA)


def of_two_changes(knob: Fraction) -> Event:
    """A replaced row of a sum that is clipped to [-2, 5]: it moves one cell by 7, or two cells by 5."""
    sensitivity = Sensitivity.of_shifts((7,), (5, 5))
    return Repeated(event=DiscreteLaplace(scale=dyadic_up(10 / knob), sensitivity=sensitivity), count=100)


def of_range(knob: Fraction) -> Event:
    return Repeated(event=BoundedRange(epsilon=knob), count=100)


@pytest.mark.parametrize("event_at", [of_two_changes, of_range])
def test_auto_asks_the_others_where_the_loss_distribution_reads_randomized_response(event_at: At) -> None:
    event, budget = event_at(F(1, 20)), Budget(epsilon=F(1), delta=DELTA)
    pld, rdp = (ACCOUNTANTS[name].epsilon(event, DELTA) for name in ("pld", "rdp"))
    assert pld > rdp * F(21, 20)  # the fact that makes the rule necessary
    assert measured_loss("auto", event, DELTA) == smallest(event, DELTA)[1] == rdp
    assert largest_knob(event_at, "auto", budget) > largest_knob(event_at, "pld", budget) * F(21, 20)


def test_noise_that_moves_nothing_takes_any_knob() -> None:
    still = DiscreteLaplace(scale=F(1), sensitivity=Sensitivity.of_shifts())
    assert largest_knob(lambda _: still, "auto", Budget(epsilon=F(1))) >= 1


@accountings
def test_gaussian_noise_without_delta_is_refused_by_name(accounting: str) -> None:
    with pytest.raises(UnsupportedEvent) as caught:
        largest_knob(gaussian(1), accounting, Budget(epsilon=F(1)))
    assert "delta" in caught.value.hint


def test_what_no_accountant_can_take_is_refused() -> None:
    box = Approximate(epsilon=F(1), delta=F(1, 100))
    for accounting in ("auto", "zcdp", "rdp"):
        with pytest.raises(UnsupportedEvent):
            rough_loss(accounting, box, DELTA) if accounting != "auto" else measured_loss(accounting, box, DELTA)


@pytest.mark.parametrize("accounting", ["pld", "rdp"])
@pytest.mark.parametrize("fixed", [F(9, 10), F(9999, 10000)])
@pytest.mark.parametrize("rest", [laplace(1), gaussian(1)])
def test_what_fixed_draws_leave_is_found_in_a_few_steps(accounting: str, fixed: Fraction, rest: At) -> None:
    """Taken for a power of the knob, the loss of a budget that is all but fixed was said to fit no noise at all."""
    alone = DiscreteLaplace(scale=1 / fixed, sensitivity=Sensitivity.of_one_cell(1))
    asked: list[Fraction] = []

    def event_at(knob: Fraction) -> Event:
        asked.append(knob)
        return Composed(events=(alone, rest(knob)))

    knob = largest_knob(event_at, accounting, Budget(epsilon=F(1), delta=DELTA))

    assert CLOSE <= measured_loss(accounting, Composed(events=(alone, rest(knob))), DELTA) <= 1
    assert len(asked) <= 30


@pytest.mark.parametrize("event_at", [laplace(1, 1), gaussian(1, 1)])
def test_an_epsilon_far_below_its_delta_is_found_in_a_few_steps(event_at: At) -> None:
    """Epsilon is 0 up to some knob there, and then a line: the search went to and fro between the same two knobs."""
    asked: list[Fraction] = []

    def counted(knob: Fraction) -> Event:
        asked.append(knob)
        return event_at(knob)

    knob = near_knob(counted, "pld", Budget(epsilon=F(1, 10**10), delta=DELTA))

    assert rough_loss("pld", event_at(knob), DELTA) == pytest.approx(1e-10, rel=2e-3)
    assert len(asked) <= 40
