"""Certified losses held against the exact privacy loss of the integer noise, summed over its lattice.

These are the tests that fail if a bound is wrong by a factor of two in either direction: delta at a claimed
epsilon is the hockey-stick divergence of two shifted lattices, computed here from the mass function alone.
"""

from __future__ import annotations

from fractions import Fraction
from math import comb
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.errors import UnsupportedEvent
from dprelease.privacy.accountants import ACCOUNTANTS
from dprelease.privacy.event import (
    Approximate,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Repeated,
    Sensitivity,
)
from dprelease.privacy.rounding import CONTEXT, real

from .exact import Law, black_box, cell, moved, together, worst_delta

F = Fraction


@pytest.mark.parametrize("scale", [2, 10, 37])
@pytest.mark.parametrize("shift", [1, 3])
def test_one_laplace_draw_costs_exactly_shift_over_scale(scale: int, shift: int) -> None:
    claimed = ACCOUNTANTS["basic"].epsilon(
        DiscreteLaplace(scale=F(scale), sensitivity=Sensitivity.of_one_cell(shift)), F(0)
    )
    law = cell("discrete_laplace", scale, shift)
    assert law.delta(float(claimed) + 1e-12) < 1e-12
    assert law.delta(float(claimed) * 0.98) > 1e-4


@pytest.mark.parametrize("scale", [1, 3, 20])
@pytest.mark.parametrize("shift", [1, 2])
@pytest.mark.parametrize("name", list(ACCOUNTANTS))
def test_one_gaussian_draw_is_within_its_claim_and_not_far_from_it(name: str, scale: int, shift: int) -> None:
    delta = F(1, 10**5)
    event = DiscreteGaussian(scale=F(scale), sensitivity=Sensitivity.of_one_cell(shift))
    claimed = float(ACCOUNTANTS[name].epsilon(event, delta))
    law = cell("discrete_gaussian", scale, shift)
    assert law.delta(claimed) <= float(delta) * (1 + 1e-9)
    nearly = 0.75 if name in ("zcdp", "rdp") else 1 - 1e-6
    assert law.delta(claimed * nearly) > float(delta)


# A draw, and every law that one unit's change can give it.
Draw = tuple[Event, list[Law]]


def _response(n: int, bits: int | None) -> Draw:
    box = Approximate(epsilon=F(n, 10), delta=F(0) if bits is None else F(1, 2**bits))
    return box, [black_box(box)]


def _noise(kind: type[DiscreteLaplace | DiscreteGaussian], scale: Fraction, shifts: list[tuple[int, ...]]) -> Draw:
    draw = kind(scale=scale, sensitivity=Sensitivity.of_shifts(*shifts))
    return draw, [moved(draw, shift) for shift in draw.sensitivity.shifts]


responses = st.builds(_response, st.integers(1, 20), st.none() | st.integers(30, 40))
vectors = st.lists(st.integers(1, 3), min_size=1, max_size=2).map(tuple)
one_change = st.lists(vectors, min_size=1, max_size=1)
changes = one_change | st.just([(2,), (1, 1)])
laplaces = st.builds(_noise, st.just(DiscreteLaplace), st.integers(4, 60).map(lambda n: F(n, 4)), changes)
gaussians = st.builds(_noise, st.just(DiscreteGaussian), st.integers(4, 40).map(lambda n: F(n, 4)), one_change)
wide = st.builds(_noise, st.just(DiscreteGaussian), st.integers(32, 40).map(lambda n: F(n, 2)), changes)
unequal = st.lists(responses | laplaces, min_size=1, max_size=3).flatmap(
    lambda some: (gaussians | wide).map(lambda one: [*some, one]) | st.just(some)
)


def by_all_changes(draws: list[Draw]) -> list[Law]:
    """The whole loss for every way in which one unit can move all draws."""
    ways: list[list[Law]] = [[]]
    for _, laws in draws:
        ways = [[*way, law] for way in ways for law in laws]
    return [together(way) for way in ways]


def least_epsilon(laws: list[Law], delta: float) -> float:
    low, high = 0.0, max(float(law.losses[law.losses < float("inf")].max()) for law in laws)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if worst_delta(laws, middle) > delta else (low, middle)
    return high


FEW, FULL = 12, 400  # examples on every commit, and in `make nightly`


@pytest.mark.slow
@pytest.mark.parametrize("examples", [FEW, pytest.param(FULL, marks=pytest.mark.nightly)])
def test_no_claim_about_unequal_draws_is_below_the_truth(examples: int) -> None:
    @settings(max_examples=examples)
    @given(draws=unequal, power=st.integers(2, 7))
    def holds(draws: list[Draw], power: int) -> None:
        no_claim_is_below_the_truth(draws, F(1, 10**power))

    holds()


def no_claim_is_below_the_truth(draws: list[Draw], delta: Fraction) -> None:
    event, laws = Composed(events=tuple(draw for draw, _ in draws)), by_all_changes(draws)
    found = {}
    for name, accountant in ACCOUNTANTS.items():
        try:
            found[name] = accountant.epsilon(event, delta)
        except UnsupportedEvent:
            continue
        assert worst_delta(laws, float(found[name])) <= float(delta) * (1 + 1e-7), name
        for part in (F(3, 10), F(4, 5)):
            epsilon = found[name] * part
            assert float(accountant.delta(event, epsilon)) >= worst_delta(laws, float(epsilon)) * (1 - 1e-7), name
    assert found
    if "pld" in found and all(len(laws) == 1 for _, laws in draws):
        assert float(found["pld"]) <= least_epsilon(laws, float(delta)) * (1 + 1e-6) + 1e-10


def composed_delta(epsilon: Fraction, draws: int, claimed: Fraction) -> Any:
    """Exact delta of equal discrete Laplace draws with shift 1: each is randomized response, so it is a binomial sum.

    Kairouz, Oh and Viswanath 2015, Theorem 3.3; in 60 digits, for the bounds can be tight to the last bit of a float.
    """
    top, limit = CONTEXT.exp(real(epsilon)), CONTEXT.exp(real(claimed))
    terms = (comb(draws, k) * max(top ** (draws - k) - limit * top**k, 0) for k in range(draws + 1))
    return sum(terms) / (1 + top) ** draws


@pytest.mark.parametrize("draws", [2, 8, 60])
@pytest.mark.parametrize("name", list(ACCOUNTANTS))
def test_several_laplace_draws_stay_within_every_claim(name: str, draws: int) -> None:
    epsilon, delta = F(1, 2), F(1, 10**4)
    event = Repeated(event=DiscreteLaplace(scale=F(2), sensitivity=Sensitivity.of_one_cell(1)), count=draws)
    claimed = ACCOUNTANTS[name].epsilon(event, delta)
    assert composed_delta(epsilon, draws, claimed) <= real(delta)
    if name == "rdp":  # a fifth less would be false
        assert composed_delta(epsilon, draws, claimed * F(4, 5)) > real(delta)
    if name in ("advanced", "pld"):  # these know the whole law
        assert composed_delta(epsilon, draws, claimed * (1 - F(1, 10**9))) > real(delta)


@pytest.mark.thin
@pytest.mark.parametrize("power", [20, 30])
@pytest.mark.parametrize(
    ("each", "draws"), [(F(1, 20), 1000), (F(1, 100), 2000), (F(1), 40), (F(2, 3), 200), (F(1, 2), 60)]
)
def test_a_loss_distribution_has_no_floor(each: Fraction, draws: int, power: int) -> None:
    """At deltas where a Fourier transform in floats sees only its own noise, to nine digits; both directions."""
    delta = F(1, 10**power)
    accountant = ACCOUNTANTS["pld"]
    event = Repeated(event=Approximate(epsilon=each), count=draws)
    claimed = accountant.epsilon(event, delta)
    assert claimed <= each * draws
    assert composed_delta(each, draws, claimed) <= real(delta)
    assert composed_delta(each, draws, claimed * (1 - F(1, 10**9))) > real(delta)
    epsilon = claimed * F(99, 100)
    truth = composed_delta(each, draws, epsilon)
    assert truth <= real(accountant.delta(event, epsilon)) <= truth * (1 + real(F(1, 10**9)))


@pytest.mark.parametrize("power", [20, 30])
def test_a_loss_distribution_has_no_floor_with_deltas_of_its_own(power: int) -> None:
    delta, own, each, draws = F(1, 10**power), F(1, 10 ** (power + 3)), F(1, 10), 300
    event = Repeated(event=Approximate(epsilon=each, delta=own), count=draws)
    claimed = ACCOUNTANTS["pld"].epsilon(event, delta)
    kept = real(1 - own) ** draws

    def truth(epsilon: Fraction) -> Any:
        return 1 - kept * (1 - composed_delta(each, draws, epsilon))

    assert truth(claimed) <= real(delta) <= truth(claimed * (1 - F(1, 10**9)))


def test_the_exact_laws_are_laws() -> None:
    """The oracle itself: masses add up to one, and so do they under the other hypothesis."""
    for law in (
        cell("discrete_laplace", 3, 2),
        cell("discrete_gaussian", 2.5, 3),
        together([cell("discrete_laplace", 3, 2), cell("discrete_gaussian", 2.5, 3)]),
    ):
        assert law.mass.sum() == pytest.approx(1, abs=1e-13)
        assert (law.mass * pow(2.718281828459045, -law.losses)).sum() == pytest.approx(1, abs=1e-9)
