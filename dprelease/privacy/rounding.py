"""From 60-digit arithmetic to exact rationals, always rounded against the user.

Every formula here is evaluated in one private mpmath context of 60 digits, whose elementary functions are
accurate to a few units in the last place; results then move by one unit of the 30th digit, upwards for losses
and scales. The error of a few hundred operations (below 1e-55 relative) is far inside that unit.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import floor, isqrt, log, log10
from typing import Any

import mpmath
from mpmath.libmp import from_int, mpf_div, mpf_pos, to_int

__all__ = ["CONTEXT", "dyadic_sqrt_up", "dyadic_up", "floor_shifted", "log_of", "real", "sqrt_up", "upper"]

CONTEXT: Any = mpmath.MPContext()
CONTEXT.dps = 60
_PRECISION: int = CONTEXT.prec
_DIGITS = 30
_LEAST = -4000  # the exponent below which nothing is told: Python itself refuses to read and write 4,300 digits


def real(value: Fraction | int | float) -> Any:
    """The 60-digit real of a rational."""
    exact = value if type(value) is Fraction else Fraction(value)
    # ``CONTEXT.mpf(above) / below`` without its conversions: a plan asks for tens of thousands
    above = mpf_pos(from_int(exact.numerator), _PRECISION, "n")
    return CONTEXT.make_mpf(mpf_div(above, from_int(exact.denominator), _PRECISION, "n"))


def floor_shifted(value: Any, bits: int) -> int:
    """The largest whole number that is at most a 60-digit real times 2^bits."""
    return int(to_int(CONTEXT.ldexp(value, bits)._mpf_, "f"))


def log_of(value: Fraction) -> float:
    """The natural logarithm of a positive rational of any size, as a float: for searches, never a result."""
    return log(value.numerator) - log(value.denominator)


def upper(value: Any) -> Fraction:
    """A rational that is not below a non-negative 60-digit real, and within 2e-29 relative of it.

    What is positive and below 10^-4000, such as a tail a million standard deviations out, becomes 10^-4000: as a
    rational of its own size it would take more memory and time than there is.
    """
    near = float(value)  # reals are slow to compare with other numbers
    if near <= 0 and value <= 0:
        return Fraction(0)
    exponent = _power_of_ten(value, near)
    if exponent < _LEAST:
        return Fraction(10) ** _LEAST
    unit, divisor = _unit(exponent + 1 - _DIGITS)
    return (int(to_int((value / divisor)._mpf_, "c")) + 1) * unit


def _power_of_ten(value: Any, near: float) -> int:
    """The exponent of the first digit; floats tell it where they are not near a power of ten."""
    if 1e-300 < near < 1e300:
        power = log10(near)
        if abs(power - round(power)) > 1e-9:
            return floor(power)
    return int(CONTEXT.floor(CONTEXT.log10(value)))


@lru_cache(maxsize=1 << 10)
def _unit(exponent: int) -> tuple[Fraction, Any]:
    unit = Fraction(10) ** exponent
    return unit, real(unit)


def sqrt_up(value: Fraction) -> Fraction:
    """A rational not below the square root, within 2^-60 relative of it."""
    return Fraction(*_sqrt_up(value.numerator, value.denominator))


def _sqrt_up(above: int, below: int) -> tuple[int, int]:
    shift = max(0, 128 + below.bit_length() - above.bit_length())
    shift += shift % 2
    return isqrt((above << shift) // below) + 1, 1 << (shift // 2)


def dyadic_sqrt_up(above: int, below: int) -> Fraction:
    """``dyadic_up`` of the root of a quotient, with no rational between: it makes the scales of all Gaussian draws."""
    return _dyadic_up(*_sqrt_up(above, below), 40)


def dyadic_up(value: Fraction, bits: int = 40) -> Fraction:
    """The smallest number of ``bits`` significant bits not below a positive rational; exactly a 64-bit float."""
    return _dyadic_up(value.numerator, value.denominator, bits)


def _dyadic_up(above: int, below: int, bits: int) -> Fraction:
    exponent = above.bit_length() - below.bit_length() - bits + 1
    # in whole numbers, value / 2^exponent: a plan of a thousand draws asks for ten thousand scales
    above, below = (above << -exponent, below) if exponent < 0 else (above, below << exponent)
    while above > below << bits:
        below, exponent = below << 1, exponent + 1
    whole = -(-above // below)
    return Fraction(whole, 1 << -exponent) if exponent < 0 else Fraction(whole << exponent)
