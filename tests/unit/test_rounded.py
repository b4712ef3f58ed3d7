"""Rounding to a base after the noise: intervals hold what they held and the number, errors are told with it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.estimate import PublishedMeasure, PublishedTable, statuses
from dprelease.publish.rounded import rounded_tables
from tests.unit.test_figures import visits


def measured(
    value: float, lower: float, upper: float, margin: float, *, unadjusted: np.ndarray[Any, Any] | None = None
) -> PublishedMeasure:
    value_, error, margin_, lower_, upper_ = (np.array([each], float) for each in (value, 10.0, margin, lower, upper))
    no = np.zeros(1, dtype=bool)
    return PublishedMeasure(
        "n", None, value_, error, margin_, lower_, upper_, statuses(no, no), 0, True, unadjusted=unadjusted, held=True
    )


def rounded(measure: PublishedMeasure, base: Fraction) -> PublishedMeasure:
    plan = visits()
    figures = plan.publish.figures
    assert figures is not None
    figures = figures.model_copy(update={"bases": {"t": {"n": base}}})
    shown = plan.model_copy(update={"publish": plan.publish.model_copy(update={"figures": figures})})
    table = PublishedTable("t", "", (), (), (measure,), Fraction(95, 100), 1)
    return rounded_tables(shown, [table])[0].measures[0]


@given(
    value=st.floats(-1e9, 1e9),
    below=st.floats(0, 1e6),
    above=st.floats(0, 1e6),
    base=st.sampled_from(["1", "5", "10", "1000", "7", "0.01", "0.25", "0.003"]),
)
def test_rounded_intervals_hold_what_the_exact_ones_held_and_the_rounded_number(
    value: float, below: float, above: float, base: str
) -> None:
    step, exact = Fraction(base), measured(value, value - below, value + above, max(below, above))
    found = rounded(exact, step)
    low, number, high = (Fraction(repr(float(each[0]))) for each in (found.lower, found.value, found.upper))
    assert low <= number <= high
    assert found.lower[0] <= exact.lower[0]
    assert found.upper[0] >= exact.upper[0]
    assert all((each / step).denominator == 1 for each in (low, number, high))
    assert abs(number - Fraction(value)) <= step / 2 * (1 + Fraction(1, 10**9)) + Fraction(1, 10**6)
    assert low > Fraction(exact.lower[0]) - step * (1 + Fraction(1, 10**6))
    assert Fraction(repr(float(found.margin[0]))) >= max(number - low, high - number)


def test_ties_go_to_the_even_multiple_and_the_margin_is_the_farther_end() -> None:
    found = [rounded(measured(value, value - 16, value + 16, 16), Fraction(10)) for value in (5, 15, 25, 35, 1234)]
    assert [each.value[0] for each in found] == [0, 20, 20, 40, 1230]
    assert (found[-1].lower[0], found[-1].upper[0], found[-1].margin[0]) == (1210, 1250, 20)
    assert found[-1].standard_error[0] == pytest.approx((100 + 102 / 12) ** 0.5)


def test_a_zero_whose_interval_does_not_hold_zero_is_low() -> None:
    assert rounded(measured(2, 1, 3, 1), Fraction(5)).low == [True]
    assert rounded(measured(2, 0, 4, 2), Fraction(5)).low == [False]
    assert rounded(measured(-38, 0, 37, 37), Fraction(100)).low == [False]


def test_an_adjusted_number_is_rounded_and_its_estimate_is_not() -> None:
    moved = measured(7, 3, 11, 4, unadjusted=np.array([6.25]))
    found = rounded(moved, Fraction(5))
    assert (found.value[0], found.lower[0], found.upper[0]) == (5, 0, 15)
    assert (found.unadjusted, found.standard_error[0], found.margin[0]) == (moved.unadjusted, 10, 4)
