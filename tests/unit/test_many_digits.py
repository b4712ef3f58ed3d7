"""Rationals of more digits than Python turns into text: sums of ten thousand different losses have them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from dprelease.noise.mechanisms.knorm import least_margin
from dprelease.privacy.budget import Loss, round_up
from dprelease.privacy.rounding import real

LONG = Fraction(2 * 3**20_000 + 1, 3**20_001)  # 9,543 digits, just above 2/3


def test_a_loss_of_very_many_digits_is_rounded_up_and_read_back_as_itself() -> None:
    found = Loss(epsilon=LONG, delta=LONG / 10**9)
    assert LONG < found.epsilon < LONG * (1 + Fraction(1, 2**900))
    assert LONG / 10**9 < found.delta < LONG / 10**9 * (1 + Fraction(1, 2**900))
    assert Loss.model_validate_json(found.model_dump_json()) == found
    short = Fraction(2**14_000 + 1, 3**8_000)
    assert Loss(epsilon=short, delta=Fraction(0)).epsilon == short


@pytest.mark.parametrize("digits", [1, 6, 30])
@pytest.mark.parametrize("power", [-300, -7, 0, 1, 40])
def test_text_is_rounded_up_whatever_the_number_of_digits(digits: int, power: int) -> None:
    for value in (LONG, Fraction(1), Fraction(10**9 - 1, 10**9), Fraction(2**20_000, 3**12_618)):
        scaled = value * Fraction(10) ** power
        shown = Fraction(round_up(scaled, digits))
        assert scaled <= shown <= scaled * (1 + Fraction(10, 10**digits))
        assert len(str(shown.numerator).rstrip("0")) <= digits or shown.denominator > 1


@pytest.mark.parametrize(("rate", "square"), [(0.5, 0.0), (0.01, 0.0), (0.0, 1e-4), (0.001, 1e-6), (1e-5, 0.0)])
@pytest.mark.parametrize("left", [Fraction(1, 2), Fraction(1, 20), Fraction(1, 10**6)])
def test_the_least_margin_is_found_in_few_steps(rate: float, square: float, left: Fraction) -> None:
    """Of tails that fall like an exponential and like a normal law; halves take 8 to 42 steps."""
    asked: list[int] = []

    def tail(margin: int) -> Any:
        asked.append(margin)
        return real(math.exp(-rate * margin - square * margin * margin))

    found, steps = least_margin(tail, 1 - left), len(asked)
    assert tail(found) <= real(left)
    assert found == 0 or tail(found - 1) > real(left)
    assert steps <= 14


def test_the_least_margin_of_tails_with_steps_and_ends() -> None:
    ends = [1.0, 1.0, 0.4, 0.4, 0.4, 0.2, 0.0]
    for left in (0.5, 0.4, 0.3, 0.2, 0.1, 1e-9):
        found = least_margin(lambda margin: real(ends[min(margin, 6)]), 1 - Fraction(left))
        assert found == next(m for m, value in enumerate(ends) if value <= left)
