"""No composition theorem claims less than the optimum, and the textbook form is refused before it would."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.errors import UnsupportedEvent
from dprelease.privacy.accountants.advanced import Advanced, drv_epsilon
from dprelease.privacy.accountants.basic import Basic
from dprelease.privacy.accountants.kov import (
    kov_closed_epsilon,
    kov_delta_unequal,
    kov_epsilon_unequal,
    kov_slack,
)
from dprelease.privacy.event import Approximate, Composed, Repeated
from tests.reference_comparisons import kov_epsilon
from tests.reference_textbook import textbook_epsilon, textbook_holds
from tests.tiers import few

F = Fraction
# epsilon upwards by one unit of the 29th digit at most: two figures that are equal may differ by that
UNIT = 1 + F(1, 10**27)

epsilons = st.integers(1, 3000).map(lambda n: F(n, 1000))
boxes = st.dictionaries(epsilons, st.integers(1, 20), min_size=1, max_size=3)
deltas = st.integers(1, 40).map(lambda n: F(1, 2**n))


@settings(max_examples=few(25), deadline=None)
@given(boxes=boxes, delta=deltas)
def test_the_optimum_is_never_above_another_theorem(boxes: dict[Fraction, int], delta: Fraction) -> None:
    optimum = kov_epsilon_unequal(boxes, [], delta)
    assert optimum <= drv_epsilon(boxes, delta) * UNIT
    assert optimum <= kov_closed_epsilon(boxes, delta) * UNIT
    assert optimum <= sum(e * n for e, n in boxes.items())
    event = Composed(events=tuple(Repeated(event=Approximate(epsilon=e), count=n) for e, n in boxes.items()))
    assert Advanced().epsilon(event, delta) == optimum
    assert Basic().epsilon(event, delta) >= optimum


@settings(max_examples=few(25), deadline=None)
@given(boxes=boxes, delta=deltas)
def test_delta_at_the_optimum_is_delta(boxes: dict[Fraction, int], delta: Fraction) -> None:
    optimum = kov_epsilon_unequal(boxes, [], delta)
    back = kov_delta_unequal(boxes, [], optimum)
    assert back <= delta
    if 0 < optimum < sum(e * n for e, n in boxes.items()):
        assert float(back / delta) == pytest.approx(1, abs=1e-12)


@settings(max_examples=few(20), deadline=None)
@given(boxes=boxes, own=st.integers(25, 60).map(lambda n: F(1, 2**n)), delta=deltas)
def test_boxes_with_deltas(boxes: dict[Fraction, int], own: Fraction, delta: Fraction) -> None:
    owns = {own: sum(boxes.values())}
    parts = tuple(Repeated(event=Approximate(epsilon=e, delta=own), count=n) for e, n in boxes.items())
    try:
        slack = kov_slack(owns, delta)
    except UnsupportedEvent:
        with pytest.raises(UnsupportedEvent):
            Advanced().epsilon(Composed(events=parts), delta)
        return
    found = Advanced().epsilon(Composed(events=parts), delta)
    alone = kov_epsilon_unequal(boxes, [], slack)
    assert alone <= found * UNIT
    assert found <= alone * UNIT
    assert found <= kov_closed_epsilon(boxes, slack) * UNIT
    if delta > own * sum(boxes.values()):
        assert found <= drv_epsilon(boxes, delta - own * sum(boxes.values())) * UNIT
        assert found <= Basic().epsilon(Composed(events=parts), delta)


@settings(max_examples=15, deadline=None)
@given(boxes=boxes, delta=deltas, more=epsilons)
def test_one_draw_more_or_a_larger_one_never_costs_less(
    boxes: dict[Fraction, int], delta: Fraction, more: Fraction
) -> None:
    before = kov_epsilon_unequal(boxes, [], delta)
    assert kov_epsilon_unequal([*[e for e, n in boxes.items() for _ in range(n)], more], [], delta) * UNIT >= before
    larger = {e + F(1, 97): n for e, n in boxes.items()}
    assert kov_epsilon_unequal(larger, [], delta) * UNIT >= before
    assert kov_epsilon_unequal(boxes, [], delta / 3) * UNIT >= before


@pytest.mark.parametrize(("count", "each"), [(120, "1.762"), (200, "1.023"), (500, "0.561"), (1000, "0.382")])
def test_the_textbook_form_is_refused_where_it_would_claim_too_little(count: int, each: str) -> None:
    """Those are, at delta 1e-6 and to 0.001, the smallest epsilons at which the form is below the optimum."""
    delta = F("1e-6")
    claim = float(F(each)) * (8 * count * 13.815510557964274) ** 0.5
    assert claim < float(kov_epsilon(F(each), F(0), count, delta))
    with pytest.raises(UnsupportedEvent):
        textbook_epsilon(F(each), count, delta)
    # and from the guard downwards it is never below the optimum
    holding = [F(n, 1000) for n in range(1, 2000, 7) if textbook_holds(F(n, 1000), count, delta)]
    assert holding
    assert max(holding) < F(each)
    for epsilon in holding[:: max(1, len(holding) // 5)] + holding[-1:]:
        claimed = textbook_epsilon(epsilon, count, delta)
        assert claimed >= kov_epsilon(epsilon, F(0), count, delta)
        assert claimed * UNIT >= drv_epsilon({epsilon: count}, delta)


def test_the_example_in_which_the_textbook_is_wrong() -> None:
    assert float(kov_epsilon(F(1), F(0), 1000, F("1e-6"))) == pytest.approx(591.1, abs=0.05)
    assert float(drv_epsilon({F(1): 1000}, F("1e-6"))) == pytest.approx(1884.5, abs=0.05)
