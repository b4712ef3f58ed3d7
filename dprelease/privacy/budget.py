"""What may be lost, in exact rationals, and how a rational is shown without flattering the guarantee.

>>> Budget(epsilon=Fraction(1), delta=Fraction(1, 10**9)).epsilon
Fraction(1, 1)
>>> round_up(Fraction(2, 3), 4)
'0.6667'
>>> round_up(Fraction(1, 10**9), 3)
'1e-9'
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Self

from pydantic import field_validator, model_validator

from dprelease.canonical import Value

__all__ = ["Budget", "Loss", "round_up"]

_LONGEST = 14_280  # bits: 4,300 digits, the longest whole number that Python turns into text
_BITS = 1_024  # after the point, of what is rounded up


class Budget(Value):
    """The total that a release, an account or a ceiling allows.

    Exactly one of ``epsilon`` and ``rho`` is given. ``rho`` is zero-concentrated differential privacy
    (Bun and Steinke 2016) and is spent exactly; ``delta`` is then where it is read as (epsilon, delta).

    Raises:
        ValueError: If a parameter is not positive (delta may be zero), delta is 1 or more, or both or
            neither of epsilon and rho are given.
    """

    epsilon: Fraction | None = None
    rho: Fraction | None = None
    delta: Fraction = Fraction(0)

    @property
    def limit(self) -> Fraction:
        """Its epsilon, or its rho: it has one of the two."""
        return self.epsilon if self.epsilon is not None else self.rho or Fraction(0)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.epsilon is None) == (self.rho is None):
            raise ValueError("a budget has exactly one of epsilon and rho")
        if self.limit <= 0:
            raise ValueError("epsilon and rho are greater than 0")
        if not 0 <= self.delta < 1:
            raise ValueError("delta is at least 0 and less than 1")
        return self


class Loss(Value):
    """An upper bound on what events cost: (epsilon, delta).

    What Python would refuse to write and read, such as the exact sum of ten thousand different epsilons, is rounded up.
    """

    epsilon: Fraction
    delta: Fraction

    @field_validator("epsilon", "delta")
    @classmethod
    def _short_enough(cls, value: Fraction) -> Fraction:
        if max(value.numerator.bit_length(), value.denominator.bit_length()) <= _LONGEST:
            return value
        return Fraction(-((-value.numerator << _BITS) // value.denominator), 1 << _BITS)

    @property
    def told(self) -> str:
        """The loss as a person reads it: six digits, rounded up.

        >>> Loss(epsilon=Fraction(1, 3), delta=Fraction(1, 10**9)).told
        'epsilon 0.333334 at delta 1e-9'
        """
        return f"epsilon {round_up(self.epsilon)} at delta {round_up(self.delta)}"


def round_up(value: Fraction, digits: int = 6) -> str:
    """Decimal text of a non-negative rational, rounded up to so many significant digits.

    Args:
        value: At least 0.
        digits: Significant digits that are kept; an exact value is never made longer than it needs.

    Returns:
        The smallest decimal with ``digits`` significant digits that is not below ``value``.
    """
    if value < 0:
        raise ValueError("only losses and scales are rounded up, and they are not negative")
    if value == 0:
        return "0"
    above, below = value.numerator, value.denominator
    # by bits, below the power of ten: Python writes no number of 4,300 digits, which sums of ten thousand draws have
    exponent = math.floor((above.bit_length() - below.bit_length() - 1) * 0.30103) - digits - 1
    # in whole numbers, value / 10^exponent: a plan of a thousand queries writes five thousand of these
    above, below = (above * 10**-exponent, below) if exponent < 0 else (above, below * 10**exponent)
    while above > 10**digits * below:
        below, exponent = 10 * below, exponent + 1
    whole = -(-above // below)
    text = str(whole).rstrip("0")
    exponent += len(str(whole)) - len(text)
    return _decimal(text, exponent)


def _decimal(digits: str, exponent: int) -> str:
    point = len(digits) + exponent
    if -5 < point <= 0:
        return "0." + "0" * -point + digits
    if 0 < point <= 16:
        return digits + "0" * exponent if exponent >= 0 else f"{digits[:point]}.{digits[point:]}"
    mantissa = digits if len(digits) == 1 else f"{digits[0]}.{digits[1:]}"
    return f"{mantissa}e{point - 1}"
