"""Rounding goes against the user, and by no more than it must."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.privacy.budget import Budget, round_up
from dprelease.privacy.rounding import CONTEXT, dyadic_up, real, sqrt_up, upper

positive = st.fractions(min_value=Fraction(1, 10**18), max_value=10**18)


@given(value=positive, digits=st.integers(1, 12))
def test_shown_text_is_never_below_the_value_and_at_most_one_last_digit_above(value: Fraction, digits: int) -> None:
    shown = Fraction(round_up(value, digits))
    assert value <= shown <= value * (1 + Fraction(10) ** (1 - digits))


@given(value=positive)
def test_upper_bounds_a_real_closely(value: Fraction) -> None:
    assert value <= upper(real(value)) <= value * (1 + Fraction(1, 10**28))


@given(power=st.integers(-400, 400), off=st.integers(5, 45), sign=st.sampled_from([-1, 0, 1]))
def test_upper_finds_the_first_digit_near_a_power_of_ten(power: int, off: int, sign: int) -> None:
    """The rounding is by the 30th digit, which is another one on the two sides of a power of ten."""
    value = real(Fraction(10) ** power * (1 + Fraction(sign, 10**off)))
    unit = Fraction(10) ** (int(CONTEXT.floor(CONTEXT.log10(value))) - 29)
    assert upper(value) == (int(CONTEXT.ceil(value / real(unit))) + 1) * unit


@pytest.mark.parametrize("power", ["-4001", "-1e4", "-1e9", "-1e30"])
def test_what_is_too_small_to_be_written_is_told_as_more(power: str) -> None:
    """The tail of a threshold a million standard deviations out, say; a rational of that size took minutes and fails."""
    found = upper(CONTEXT.mpf(10) ** CONTEXT.mpf(power))
    assert found == Fraction(1, 10**4000) == Fraction(str(found))


@given(value=positive)
def test_a_dyadic_scale_is_a_float_not_below_the_value(value: Fraction) -> None:
    scale = dyadic_up(value)
    assert Fraction(float(scale)) == scale
    assert value <= scale <= value * (1 + Fraction(1, 2**38))
    unit = Fraction(2) ** (value.numerator.bit_length() - value.denominator.bit_length() - 39)
    unit *= 2 if value > unit * 2**40 else 1
    assert scale == -(-value // unit) * unit  # as it is said in rationals


@given(value=positive)
def test_a_root_is_not_below_the_true_one(value: Fraction) -> None:
    root = sqrt_up(value)
    assert root * root >= value
    assert root * root <= value * (1 + Fraction(1, 2**58))


def test_the_context_is_not_the_global_one() -> None:
    """Another user of mpmath in the same process cannot lower our precision."""
    import mpmath

    assert CONTEXT is not mpmath.mp
    assert CONTEXT.dps == 60


@pytest.mark.parametrize(
    "wrong",
    [
        {"delta": "0"},
        {"epsilon": "1", "rho": "1"},
        {"epsilon": "0"},
        {"epsilon": "-1"},
        {"epsilon": "1", "delta": "1"},
    ],
)
def test_a_budget_that_promises_nothing_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"exactly one|greater than 0|less than 1"):
        Budget(**{name: Fraction(text) for name, text in wrong.items()})
