"""Intervals: cut where the possible numbers end, never moved, never shorter by rounding."""

from __future__ import annotations

import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Column
from dprelease.estimate import estimate, interval
from dprelease.estimate.intervals import outward_ends
from dprelease.measures import Noisy, Possible
from dprelease.measures.count import Count
from dprelease.measures.mean import Mean
from dprelease.measures.sum import Sum
from dprelease.noise import MECHANISMS

SEX = Column(name="sex", type="integer", keys=(1, 2))
LAW = MECHANISMS["discrete_laplace"].law(Fraction(10))  # its margin at 95 % is 30
CONFIDENCE = Fraction(95, 100)
COUNT = (Fraction(0), None)

finite = st.floats(-1e15, 1e15)
widths = st.floats(0, 1e15)
ends = st.one_of(st.none(), st.fractions(-1000, 1000, max_denominator=999))


def one(value: float, margin: float, possible: Possible, grid: str = "1/3") -> list[float]:
    return [float(end[0]) for end in interval(np.array([value]), np.array([margin]), possible, grid=Fraction(grid))]


@pytest.mark.parametrize(
    ("value", "expected"), [(100, [70, 130]), (30, [0, 60]), (10, [0, 40]), (-10, [0, 20]), (-30, [0, 0]), (-50, [0, 0])]
)  # fmt: skip
def test_a_count_is_cut_at_zero_and_stays_whole(value: float, expected: list[float]) -> None:
    assert one(value, 30, COUNT, grid="1/2") == expected


def test_it_is_not_centred_again_and_collapses_on_the_nearest_possible_number() -> None:
    assert one(1.5, 0.25, (Fraction(0), Fraction(1))) == [1.0, 1.0]
    assert one(0.875, 0.25, (Fraction(0), Fraction(1)), grid="1/8") == [0.625, 1.0]


def test_nothing_is_known_where_the_margin_is_not() -> None:
    value, margin = np.array([1.0, np.nan, 2.0]), np.array([np.nan, np.nan, 1.0])
    lower, upper = interval(value, margin, COUNT)
    assert np.isnan(lower).tolist() == np.isnan(upper).tolist() == [True, True, False]


@given(value=finite, margin=widths, low=ends, high=ends, share=st.fractions(-1, 1))
@example(value=5e-324, margin=0.0, low=None, high=None, share=Fraction(0))  # its text is more than what it holds
@example(value=-5e-324, margin=0.0, low=None, high=None, share=Fraction(0))
@example(value=5e-324, margin=5e-324, low=None, high=Fraction(1, 999), share=Fraction(1))
def test_every_possible_number_within_the_margin_is_within_the_interval(
    value: float, margin: float, low: Fraction | None, high: Fraction | None, share: Fraction
) -> None:
    """Exact rationals against the two doubles; the ends of what is possible as they are written."""
    if low is not None and high is not None and low > high:
        low, high = high, low
    truth = Fraction(value) + share * Fraction(margin)
    truth = truth if low is None else max(truth, low)
    truth = truth if high is None else min(truth, high)
    lower, upper = one(value, margin, (low, high))
    inside = abs(truth - Fraction(value)) <= Fraction(margin)
    if inside:
        assert Fraction(repr(lower)) <= truth <= Fraction(repr(upper))
    assert low is None or lower >= float(np.nextafter(float(low), -np.inf))
    assert high is None or upper <= float(np.nextafter(float(high), np.inf))


@given(value=st.integers(-(2**50), 2**50), margin=st.integers(0, 2**50))
def test_whole_numbers_and_halves_stay_what_they_are(value: int, margin: int) -> None:
    assert one(value, margin, (None, None), grid="1/2") == [value - margin, value + margin]
    for parts in (1, 2, 4):
        expected = [(value - margin) / parts, (value + margin) / parts]
        assert one(value / parts, margin / parts, (None, None), grid=f"1/{parts}") == expected


def test_a_number_too_large_for_a_double_loses_outward() -> None:
    lower, upper = one(2.0**60, 3.0, COUNT, grid="1/2")
    assert lower < 2**60 - 3
    assert upper > 2**60 + 3


def test_what_no_double_can_hold_is_the_largest_one() -> None:
    assert one(1.7e308, 1.7e308, (None, None)) == [pytest.approx(0, abs=1e300), sys.float_info.max]
    assert one(-1.7e308, 1.7e308, COUNT, grid="1/2")[0] == 0


@pytest.mark.parametrize("value", [5e-324, -5e-324, 1.5e-323, 2.2250738585072014e-308, 1e-300])
def test_numbers_too_small_for_a_relative_error_lose_outward_too(value: float) -> None:
    """The text 5e-324 is more than the number that the double holds: 2^-1074."""
    for margin in (0.0, abs(value), 5e-324):
        lower, upper = one(value, margin, (None, None))
        assert Fraction(repr(lower)) <= Fraction(value) - Fraction(margin)
        assert Fraction(value) + Fraction(margin) <= Fraction(repr(upper))
    assert one(0.0, 0.0, (None, None)) == [0.0, 0.0]


def test_an_end_reads_as_the_number_that_was_declared_or_lies_outside() -> None:
    tenth, third = Fraction(1, 10), Fraction(1, 3)
    assert one(0.0, 5.0, (-tenth, tenth)) == [-0.1, 0.1]
    lower, upper = one(0.0, 5.0, (-third, third))
    assert Fraction(lower) <= -third
    assert Fraction(upper) >= third


def test_a_published_table_has_intervals_and_says_which_are_cut() -> None:
    noisy = {"n": [Noisy(Quantity(kind="rows"), np.array([100, -3]), LAW)]}
    (found,) = estimate("q", "Q", (SEX,), {"n": Count(count="rows")}, noisy, confidence=CONFIDENCE).measures
    assert (found.lower.tolist(), found.upper.tolist()) == ([70.0, 0.0], [130.0, 27.0])
    assert found.cut.tolist() == [False, True]
    for numbers in (found.lower, found.upper):
        with pytest.raises(ValueError, match="read-only"):
            numbers[0] = 1.0


def test_what_is_withheld_has_no_interval() -> None:
    noisy = {"n": [Noisy(Quantity(kind="rows"), np.array([100, -3]), LAW)]}
    how = {"unreliable_above": Fraction(1, 2), "unreliable_show": "blank"}
    (found,) = estimate("q", "Q", (SEX,), {"n": Count(count="rows")}, noisy, confidence=CONFIDENCE, **how).measures  # type: ignore[arg-type] # keywords
    for numbers in (found.margin, found.lower, found.upper):
        assert np.isnan(numbers).tolist() == [False, True]
    assert found.cut.tolist() == [False, False]


def test_what_is_possible_can_be_said_by_the_caller() -> None:
    noisy = {"n": [Noisy(Quantity(kind="rows"), np.array([100, -3]), LAW)]}
    told = {"n": (Fraction(80), Fraction(120))}
    (found,) = estimate("q", "Q", (SEX,), {"n": Count(count="rows")}, noisy, confidence=CONFIDENCE, possible=told).measures  # fmt: skip
    assert (found.lower.tolist(), found.upper.tolist()) == ([80.0, 80.0], [120.0, 80.0])


def test_a_sum_of_decimals_has_ends_that_are_written_on_its_grid() -> None:
    """A hundredth is no double: the ends lie a hair outside, and read as the exact difference and sum."""
    pay = Quantity(kind="sum", column="x", step=Fraction(1, 100), low=-100, high=100)
    noisy = [Noisy(pay, np.array([3, 123456789]), LAW)]
    (found,) = estimate("q", "Q", (SEX,), {"s": Sum(sum="x")}, {"s": noisy}, confidence=CONFIDENCE).measures
    assert [f"{end:.2f}" for end in (*found.lower.tolist(), *found.upper.tolist())] == [
        "-0.27", "1234567.59", "0.33", "1234568.19",
    ]  # fmt: skip
    assert found.lower[1] <= 1234567.59 <= found.lower[1] + 1e-6
    assert not found.cut.any()


def test_a_mean_is_cut_at_its_clip() -> None:
    centred = Quantity(kind="sum", column="x", low=0, high=100, centre=50)
    noisy = [
        Noisy(centred, np.array([-400, 0]), LAW),
        Noisy(Quantity(kind="nonnull", column="x"), np.array([10, 900]), LAW),
    ]
    (found,) = estimate("q", "Q", (SEX,), {"m": Mean(mean="x")}, {"m": noisy}, confidence=CONFIDENCE).measures
    assert (found.value[0], found.lower[0]) == (10.0, 0.0)
    assert found.upper[0] == pytest.approx(10 + found.margin[0])
    assert found.cut.tolist() == [True, False]
    assert 49 < found.lower[1] < found.value[1] == 50 < found.upper[1] < 51


def test_known_ends_go_outward_by_what_the_middle_of_a_clip_has_lost() -> None:
    """30,000 - 29,999.9 is no better known than 30,000 is."""
    limits = (Fraction(0), Fraction(60_000))
    (low, empty), (high, _) = outward_ends(np.array([0.1, np.nan]), np.array([0.2, np.nan]), limits)
    assert low <= 0.1 - np.spacing(60_000.0)
    assert 0.2 + np.spacing(60_000.0) <= high < 0.2 + 1e-8
    assert np.isnan(empty)
    (low,), (high,) = outward_ends(np.array([0.0]), np.array([60_000.0]), limits)
    assert (low, high) == (0.0, 60_000.0)
