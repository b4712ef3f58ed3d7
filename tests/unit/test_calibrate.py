"""Calibration uses the budget up, and never exceeds it."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.errors import BudgetTooSmall, UnsupportedEvent
from dprelease.privacy.accountants.zcdp import total_rho
from dprelease.privacy.budget import Budget
from dprelease.privacy.calibrate import Demand, Family, calibrate, measured_loss
from dprelease.privacy.event import Composed, DiscreteGaussian, DiscreteLaplace, Event, Sensitivity

FAMILIES: tuple[Family, ...] = ("laplace", "gaussian")


def event_of(family: Family, demands: list[Demand], scales: tuple[Fraction, ...]) -> Composed:
    events: list[Event] = []
    for demand, scale in zip(demands, scales, strict=True):
        kind = DiscreteLaplace if family == "laplace" else DiscreteGaussian
        events.append(kind(scale=scale, sensitivity=demand.sensitivity))
    return Composed(events=tuple(events))


def demands_of(weights: list[int], reaches: list[int]) -> list[Demand]:
    total = sum(weights)
    pairs = zip(weights, reaches, strict=False)
    return [Demand(Sensitivity.of_one_cell(reach), Fraction(weight, total)) for weight, reach in pairs]


@settings(max_examples=25, deadline=None)
@given(
    weights=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    epsilon=st.fractions(min_value=Fraction(1, 50), max_value=8, max_denominator=50),
    family=st.sampled_from(FAMILIES),
    accounting=st.sampled_from(["auto", "basic", "advanced", "zcdp", "rdp"]),
)
def test_the_budget_is_used_up_and_never_exceeded(
    weights: list[int], epsilon: Fraction, family: Family, accounting: str
) -> None:
    demands = demands_of(weights, [1, 3, 100_000, 7, 1, 2])
    budget = Budget(epsilon=epsilon, delta=Fraction(1, 10**9))
    loss = measured_loss(
        accounting, event_of(family, demands, calibrate(demands, family, accounting, budget)), budget.delta
    )
    assert loss <= epsilon
    assert loss >= epsilon * Fraction(999, 1000)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_rho_budget_is_spent_as_rho(family: Family) -> None:
    demands = demands_of([1, 2], [1, 5])
    budget = Budget(rho=Fraction(1, 10), delta=Fraction(1, 10**9))
    spent = total_rho(event_of(family, demands, calibrate(demands, family, "auto", budget)))
    assert Fraction(999, 10_000) <= spent <= Fraction(1, 10)


def test_gaussian_noise_without_delta_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedEvent, match="Gaussian"):
        calibrate(demands_of([1], [1]), "gaussian", "rdp", Budget(epsilon=Fraction(1)))


def test_noise_beyond_the_lattice_is_refused() -> None:
    with pytest.raises(BudgetTooSmall, match="grid steps"):
        calibrate(demands_of([1], [2**52]), "laplace", "basic", Budget(epsilon=Fraction(1)))
