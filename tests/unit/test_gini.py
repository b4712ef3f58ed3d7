"""Gini coefficients of counts without noise: the interval holds that of the values, wherever in their classes they lie."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest

from dprelease.measures import PrefixCounts
from dprelease.measures.tested.gini import gini, trace_factor

HELD = Fraction(95, 100)


def exact(found: list[int]) -> Fraction:
    """The mean distance of all pairs over twice the mean."""
    pairs = sum(abs(one - other) for one in found for other in found)
    return Fraction(pairs, 2 * len(found) * sum(found))


def still(tables: list[list[int]], starts: list[int], last: int) -> PrefixCounts:
    """The classes of values without noise; the scale is that of a draw whose law is normal."""
    edges = [*starts[1:], last + 1]
    counts = np.array([[sum(value < edge for value in found) for edge in edges] for found in tables], dtype=np.float64)
    none = np.zeros(len(starts))
    return PrefixCounts(np.array(starts), last, counts, none, none, Fraction(50), none[:, None])


def test_of_single_values_it_is_the_coefficient_itself() -> None:
    tables = [list(each) for each in combinations_with_replacement(range(5), 4) if sum(each)]
    found = gini(still(tables, [*range(5)], 4), HELD)
    wanted = np.array([float(exact(each)) for each in tables])
    assert len(tables) == 69
    for ends in (found.value, found.lower, found.upper):
        np.testing.assert_allclose(ends, wanted, atol=1e-6)


@pytest.mark.parametrize("starts", [[0, 3, 6], [0, 3, 6, 9], [0, 1, 5], [2, 3, 8], [2, 6]])
def test_of_classes_of_several_values_all_coefficients_of_such_values_are_held(starts: list[int]) -> None:
    """Every multiset of four values from the first class on, of which many are counted alike."""
    tables = [list(each) for each in combinations_with_replacement(range(starts[0], 10), 4) if sum(each)]
    found = gini(still(tables, starts, 9), HELD)
    wanted = np.array([float(exact(each)) for each in tables])
    known = ~np.isnan(found.value)
    assert known.sum() >= len(tables) - 1  # all values in a class of 0 alone have no sum
    assert ((found.lower <= wanted + 1e-9) & (wanted <= found.upper + 1e-9))[known].all()
    assert (found.upper - found.lower)[known].min() < 0.95  # it says something of some


def test_nothing_is_said_of_nobody_and_of_those_who_have_nothing() -> None:
    found = gini(still([[], [0, 0, 0]], [0, 1, 2], 2), HELD)
    assert np.isnan([found.value, found.error, found.lower, found.upper]).all()


def test_the_bound_of_squares_is_one_for_a_single_normal_number_and_for_many() -> None:
    """The probability that a sum of squares exceeds so many times its mean, by the law of chi squared of one number."""
    for error in (Fraction(1, 200), Fraction(1, 1000), Fraction(1, 10)):
        factor = trace_factor(error)
        assert math.erfc(math.sqrt(factor / 2)) <= error
        assert math.sqrt(factor) * math.exp(-(factor - 1) / 2) <= error
        assert math.sqrt(factor - 1e-3) * math.exp(-(factor - 1.001) / 2) > error
