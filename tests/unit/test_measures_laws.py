"""The law of a sum of two draws, against the convolution of the two laws written out."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.measures import laws
from dprelease.measures.laws import SumLaw
from dprelease.noise import JOINT_MECHANISMS, MECHANISMS

LEVELS = [Fraction(1, 2), Fraction(9, 10), Fraction(95, 100), Fraction(99, 100), Fraction(9999, 10000)]


def law(name: str, scale: str) -> Any:
    return MECHANISMS[f"discrete_{name}"].law(Fraction(scale))


def masses(one: Any, name: str) -> npt.NDArray[np.float64]:
    scale = float(one.scale)
    k = np.arange(-int(60 * scale) - 30, int(60 * scale) + 31)
    weight = np.exp(-np.abs(k) / scale) if name == "laplace" else np.exp(-(k**2) / (2 * scale**2))
    return np.asarray(weight / weight.sum())


def convolved(first: npt.NDArray[np.float64], second: npt.NDArray[np.float64], weight: int) -> npt.NDArray[np.float64]:
    """P(|X + weight Y| > m) for m = 0, 1, ..."""
    spaced = np.zeros(weight * (len(second) - 1) + 1)
    spaced[::weight] = second
    both = np.convolve(first, spaced)
    middle = len(both) // 2
    return np.asarray(2 * (np.cumsum(both[::-1])[::-1][middle + 1 :]))


CASES = [
    (("laplace", "10"), ("laplace", "10"), 1),
    (("laplace", "10"), ("gaussian", "3"), 1),
    (("gaussian", "25"), ("gaussian", "40"), 1),
    (("gaussian", "5"), ("gaussian", "1/2"), 3),
    (("laplace", "1/3"), ("laplace", "1/5"), 1),
    (("gaussian", "1/4"), ("gaussian", "1/4"), 1),
    (("gaussian", "20"), ("laplace", "2"), 7),
    (("laplace", "1"), ("gaussian", "7"), 4),
    (("gaussian", "30"), ("laplace", "3"), 20),
]


@pytest.mark.parametrize(("first", "second", "weight"), CASES)
def test_the_margin_is_the_smallest_that_holds(first: Any, second: Any, weight: int) -> None:
    one, other = law(*first), law(*second)
    beyond = convolved(masses(one, first[0]), masses(other, second[0]), weight)
    for level in LEVELS:
        smallest = int(np.argmax(beyond <= float(1 - level)))
        assert SumLaw(one, other, weight).margin(level) == smallest
        assert SumLaw(one, other, -weight).margin(level) == smallest


@pytest.mark.parametrize(
    ("first", "second", "weight", "excess"),
    [
        (("gaussian", "100000"), ("gaussian", "100000"), 1, 0.001),
        (("gaussian", "4831838208"), ("gaussian", "7"), 10**6, 0.001),
        (("gaussian", "1099511627776"), ("gaussian", "1048576"), 2**21, 0.002),
        (("gaussian", "3"), ("gaussian", "200000"), 1, 0.001),
    ],
)
def test_a_wide_margin_is_above_the_normal_one_by_a_hair(first: Any, second: Any, weight: int, excess: float) -> None:
    """Two discrete Gaussians of large scales add up to a normal law, whose margin is known."""
    both = SumLaw(law(*first), law(*second), weight)
    normal = 1.959963984540054 * both.variance**0.5
    assert normal <= both.margin(Fraction(95, 100)) <= normal * (1 + excess) + 2


def test_a_margin_grows_with_confidence_and_stays_below_both_margins_together() -> None:
    one, other = law("laplace", "1000000"), law("gaussian", "300000")
    both = SumLaw(one, other, 5)
    found = [both.margin(level) for level in LEVELS]
    assert found == sorted(found)
    for level, margin in zip(LEVELS, found, strict=True):
        half = 1 - (1 - level) / 2
        assert margin <= one.margin(half) + 5 * other.margin(half)


def test_nothing_of_the_second_draw_leaves_the_first() -> None:
    one, other = law("laplace", "12"), law("gaussian", "300")
    assert SumLaw(one, other, 0).margin(Fraction(95, 100)) == one.margin(Fraction(95, 100))
    assert SumLaw(one, other, 0).variance == one.variance


def test_a_law_without_a_known_tail_takes_both_margins_together() -> None:
    joint = JOINT_MECHANISMS["linf_knorm"].law(Fraction(10), 3)
    one = law("gaussian", "10")
    half = Fraction(975, 1000)
    assert SumLaw(one, joint, 2).margin(Fraction(95, 100)) == one.margin(half) + 2 * joint.margin(half)


@pytest.mark.parametrize(("first", "second"), [("40", "9"), ("9", "40"), ("300", "2"), ("1/2", "25")])
@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_tails_that_are_looked_up_are_those_of_each_point(name: str, first: str, second: str) -> None:
    one, other = law(name, first), law("gaussian", second)
    points, beyond = laws._grid(other, Fraction(1, 20))
    for m in (0, 3, 57, 400):
        rising = np.maximum.accumulate(laws._most_above(one, m - points))
        plain = float(rising[0] + (np.diff(rising) * beyond[:-1]).sum() + beyond[-1])
        assert laws._above(one, 1, m, points, beyond) == plain
