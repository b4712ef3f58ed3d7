"""Laws that every accountant obeys, whatever the events."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.errors import UnsupportedEvent
from dprelease.privacy.accountants import ACCOUNTANTS, losses, smallest
from dprelease.privacy.event import Composed, DiscreteGaussian, DiscreteLaplace, Event, Repeated, Sensitivity

DELTA = Fraction(1, 10**6)
ONE = Sensitivity.of_one_cell(1)
scales = st.fractions(min_value=Fraction(1, 4), max_value=2000, max_denominator=64)
atoms = st.builds(
    DiscreteLaplace, scale=scales, sensitivity=st.builds(Sensitivity.of_one_cell, st.integers(1, 5))
) | st.builds(DiscreteGaussian, scale=scales, sensitivity=st.builds(Sensitivity.of_one_cell, st.integers(1, 5)))
names = pytest.mark.parametrize("name", sorted(ACCOUNTANTS))


@names
@pytest.mark.parametrize("delta", [Fraction(0), DELTA])
def test_no_event_costs_nothing(name: str, delta: Fraction) -> None:
    assert ACCOUNTANTS[name].epsilon(Composed(), delta) == 0


@names
@given(parts=st.lists(atoms, min_size=1, max_size=4), extra=atoms)
def test_one_more_event_never_lowers_the_loss(name: str, parts: list[Event], extra: Event) -> None:
    accountant = ACCOUNTANTS[name]
    before = accountant.epsilon(Composed(events=tuple(parts)), DELTA)
    after = accountant.epsilon(Composed(events=(*parts, extra)), DELTA)
    # the search over orders is a float search: a part in 10^9 of slack is its resolution, not a loss of validity
    assert after >= before * (1 - Fraction(1, 10**9))


@names
@given(parts=st.lists(atoms, min_size=2, max_size=3))
def test_order_and_nesting_do_not_matter(name: str, parts: list[Event]) -> None:
    accountant = ACCOUNTANTS[name]
    expected = accountant.epsilon(Composed(events=tuple(parts)), DELTA)
    for order in permutations(parts):
        nested = Composed(events=(order[0], Composed(events=order[1:])))
        assert accountant.epsilon(nested, DELTA) == pytest.approx(float(expected), rel=1e-12)


@names
@given(event=atoms, count=st.integers(1, 20))
def test_repeated_equals_written_out(name: str, event: Event, count: int) -> None:
    accountant = ACCOUNTANTS[name]
    assert accountant.epsilon(Repeated(event=event, count=count), DELTA) == accountant.epsilon(
        Composed(events=(event,) * count), DELTA
    )


@given(parts=st.lists(atoms, min_size=1, max_size=5))
def test_the_smallest_is_never_above_basic(parts: list[Event]) -> None:
    event = Composed(events=tuple(parts))
    assert smallest(event, DELTA)[1] <= ACCOUNTANTS["basic"].epsilon(event, DELTA)


@given(parts=st.lists(atoms, min_size=1, max_size=5))
def test_rdp_is_never_above_zcdp(parts: list[Event]) -> None:
    """A pure draw's Renyi curve lies below a * epsilon^2 / 2, so RDP is at least as tight."""
    event = Composed(events=tuple(parts))
    rdp, zcdp = (float(ACCOUNTANTS[name].epsilon(event, DELTA)) for name in ("rdp", "zcdp"))
    assert rdp <= zcdp * (1 + 1e-7)


@names
def test_gaussian_noise_has_no_finite_epsilon_at_delta_zero(name: str) -> None:
    event = DiscreteGaussian(scale=Fraction(10), sensitivity=ONE)
    with pytest.raises(UnsupportedEvent) as caught:
        ACCOUNTANTS[name].epsilon(event, Fraction(0))
    assert "delta" in caught.value.hint
    assert losses(event, Fraction(0)) == {}


@given(event=atoms, factor=st.integers(2, 4))
def test_less_noise_costs_more(event: DiscreteLaplace | DiscreteGaussian, factor: int) -> None:
    louder = event.model_copy(update={"scale": event.scale / factor})
    for accountant in ACCOUNTANTS.values():
        assert accountant.epsilon(louder, DELTA) > accountant.epsilon(event, DELTA)
