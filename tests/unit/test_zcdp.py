"""zCDP: the conversions in both directions against figures of other tools, a plain minimum and one another."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.errors import PlanError, UnsupportedEvent
from dprelease.privacy.accountants.zcdp import Zcdp, exact_sum, total_rho
from dprelease.privacy.event import (
    Approximate,
    BoundedRange,
    Composed,
    Concentrated,
    DiscreteGaussian,
    Event,
    Gaussian,
    Parallel,
    Repeated,
    Sensitivity,
)
from dprelease.privacy.theorems.concentrated import response_rho, rho_to_delta, rho_to_epsilon
from dprelease.privacy.unit import Neighboring
from tests.reference_comparisons import bun_steinke_epsilon, epsilon_to_rho

ONE = Sensitivity.of_one_cell(1)
rhos = st.floats(min_value=-18, max_value=12).map(lambda log: Fraction(math.exp(log)))
deltas = st.floats(min_value=-90, max_value=-0.1).map(lambda log: Fraction(math.exp(log)))


@pytest.mark.parametrize(
    ("case", "rho", "delta", "epsilon"),
    [
        ("zcdp-eps-0.5-1e-06", "0.5", "1e-6", 5.221534444530169),
        ("zcdp-eps-0.1-1e-06", "0.1", "1e-6", 2.141938928385474),
        ("zcdp-eps-2.0-1e-05", "2", "1e-5", 10.724824112939174),
    ],
)
def test_epsilon_of_other_tools(case: str, rho: str, delta: str, epsilon: float) -> None:
    assert float(rho_to_epsilon(Fraction(rho), Fraction(delta))) == pytest.approx(epsilon, rel=1e-12), case


@pytest.mark.parametrize(
    ("case", "rho", "epsilon", "delta"),
    [
        ("zcdp-delta-0.5-4.0", "0.5", "4", 0.00019579541695772157),
        ("zcdp-delta-2.0-10.0", "2", "10", 4.872630732922501e-05),
        ("zcdp-delta-0.01-0.8", "0.01", "0.8", 1.5170236922056654e-09),
    ],
)
def test_delta_of_other_tools(case: str, rho: str, epsilon: str, delta: float) -> None:
    assert float(rho_to_delta(Fraction(rho), Fraction(epsilon))) == pytest.approx(delta, rel=1e-12), case


@pytest.mark.parametrize(
    ("case", "epsilon", "delta", "rho"),
    [
        ("zcdp-rho-10-1e-05", "10", "1e-5", 1.7826956163289516),
        ("zcdp-rho-1-1e-06", "1", "1e-6", 0.024355970359538372),
    ],
)
def test_rho_of_other_tools(case: str, epsilon: str, delta: str, rho: float) -> None:
    assert float(epsilon_to_rho(Fraction(epsilon), Fraction(delta))) == pytest.approx(rho, rel=1e-12), case


def test_bun_and_steinke_is_the_looser_closed_form() -> None:
    rho, delta = Fraction(1, 2), Fraction(1, 10**6)  # case zcdp-bs
    assert float(bun_steinke_epsilon(rho, delta)) == pytest.approx(5.756521769756932, rel=1e-12)
    assert bun_steinke_epsilon(rho, delta) > rho_to_epsilon(rho, delta)
    with pytest.raises(PlanError):
        bun_steinke_epsilon(rho, Fraction(0))


@pytest.mark.parametrize(
    ("rho", "delta"), [(0.5, 1e-6), (1e-6, 1e-12), (2e4, 0.3), (3.0, 0.9), (1e-3, 1e-40), (1e-9, 0.5)]
)
def test_the_order_is_the_best_one(rho: float, delta: float) -> None:
    x = np.exp(np.linspace(-20, 40, 600_001))
    epsilon = (1 + x) * rho + np.log(x) - np.log1p(x) - (np.log(delta) + np.log1p(x)) / x
    ours = float(rho_to_epsilon(Fraction(rho), Fraction(delta)))
    assert ours == pytest.approx(max(0.0, float(epsilon.min())), rel=1e-9)


@given(rho=rhos, delta=deltas)
def test_delta_undoes_epsilon(rho: Fraction, delta: Fraction) -> None:
    epsilon = rho_to_epsilon(rho, delta)
    if epsilon > 0:
        assert float(rho_to_delta(rho, epsilon)) == pytest.approx(float(delta), rel=1e-9)


@given(epsilon=st.fractions(min_value=Fraction(1, 10**6), max_value=1000, max_denominator=10**6), delta=deltas)
def test_rho_is_the_largest_that_epsilon_allows(epsilon: Fraction, delta: Fraction) -> None:
    rho = epsilon_to_rho(epsilon, delta)
    assert rho_to_epsilon(rho, delta) <= epsilon
    assert rho_to_epsilon(rho * (1 + Fraction(1, 10**9)), delta) > epsilon


@given(rho=rhos, delta=deltas)
def test_floats_are_near(rho: Fraction, delta: Fraction) -> None:
    exact = float(Zcdp().epsilon(Concentrated(rho=rho), delta))
    assert Zcdp().rough_epsilon(Concentrated(rho=rho), float(delta)) == pytest.approx(exact, rel=1e-9, abs=1e-12)


def test_the_ends() -> None:
    tenth = Fraction(1, 10)
    assert rho_to_epsilon(Fraction(0), Fraction(0)) == rho_to_delta(Fraction(0), Fraction(0)) == 0
    assert rho_to_epsilon(tenth, Fraction(1)) == 0
    assert 0 < rho_to_delta(tenth, Fraction(0)) < 1
    assert rho_to_delta(Fraction(100), Fraction(0)) > Fraction(99, 100)
    assert rho_to_delta(Fraction(1, 10**9), Fraction(100)) == Fraction(1, 10**4000)  # the least that is ever told
    assert epsilon_to_rho(Fraction(1), Fraction(0)) == 0
    assert epsilon_to_rho(Fraction(0), Fraction(1, 10**9)) > 0
    with pytest.raises(PlanError):
        epsilon_to_rho(Fraction(1), Fraction(1))
    with pytest.raises(UnsupportedEvent) as caught:
        rho_to_epsilon(tenth, Fraction(0))
    assert "delta" in caught.value.hint


def test_rho_is_exact_and_adds_up() -> None:
    draws = [DiscreteGaussian(scale=Fraction(10 + k, 7), sensitivity=ONE) for k in range(101)]
    rhos_of_draws = [Fraction(49, 2 * (10 + k) ** 2) for k in range(101)]
    assert total_rho(Composed(events=tuple(draws))) == sum(rhos_of_draws) == exact_sum(rhos_of_draws)
    assert total_rho(Composed()) == exact_sum([]) == 0
    mixed = Composed(
        events=(BoundedRange(epsilon=Fraction(2)), Repeated(event=Approximate(epsilon=Fraction(1)), count=3))
    )
    assert total_rho(mixed) == Fraction(1, 2) + 3 * response_rho(Fraction(1))


def test_gaussians_collapse_to_one() -> None:
    """Case gauss-collapse: mu = sqrt(2 rho)."""
    pairs = [(10, 1), (20, 2), (5, 1), (40, 3)]
    draws = tuple(Gaussian(scale=Fraction(s), sensitivity=Sensitivity.of_one_cell(c)) for s, c in pairs)
    assert math.sqrt(2 * total_rho(Composed(events=draws))) == pytest.approx(0.25617376914899, rel=1e-12)


def test_parallel_parts() -> None:
    """Case parallel-replace: a changed record leaves one part and enters another."""
    parts = tuple(Concentrated(rho=Fraction(n, 10)) for n in (1, 3, 2))
    assert total_rho(Parallel(events=parts, neighboring=Neighboring.REPLACE_ONE)) == Fraction(1, 2)
    assert total_rho(Parallel(events=parts)) == Fraction(3, 10)


@pytest.mark.parametrize("wrap", [lambda e: e, lambda e: Parallel(events=(e,)), lambda e: Repeated(event=e, count=2)])
def test_a_delta_of_its_own_is_taken_off(wrap: Callable[[Event], Event]) -> None:
    """What reveals with probability D and else is rho-zCDP is private at D + (1 - D) delta_rho."""
    own, bare = wrap(Approximate(epsilon=Fraction(1), delta=Fraction(1, 100))), wrap(Approximate(epsilon=Fraction(1)))
    shown = 1 - Fraction(99, 100) ** (2 if isinstance(own, Repeated) else 1)
    assert total_rho(own) == total_rho(bare)
    for delta in (Fraction(1, 10), Fraction(1, 50)):
        left = (delta - shown) / (1 - shown)
        assert Zcdp().epsilon(own, delta) == rho_to_epsilon(total_rho(bare), left)
        assert Zcdp().rough_epsilon(own, float(delta)) == pytest.approx(float(Zcdp().epsilon(own, delta)), rel=1e-9)
    assert Zcdp().delta(own, Fraction(1)) == shown + (1 - shown) * rho_to_delta(total_rho(bare), Fraction(1))
    with pytest.raises(UnsupportedEvent, match="use up") as caught:
        Zcdp().epsilon(own, shown / 2)
    assert "give the budget a delta of at least" in caught.value.hint
    with pytest.raises(UnsupportedEvent, match="use up all"):
        Zcdp().epsilon(own, shown)
    assert Zcdp().rough_epsilon(own, float(shown / 2)) == math.inf


def test_a_reveal_alone_has_no_rho() -> None:
    reveal = Approximate(epsilon=Fraction(0), delta=Fraction(1, 100))
    assert total_rho(reveal) == 0
    assert Zcdp().epsilon(reveal, Fraction(1, 100)) == 0
    assert Zcdp().delta(reveal, Fraction(0)) == Fraction(1, 100)
