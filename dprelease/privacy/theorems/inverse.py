"""From a privacy curve back to epsilon, with a certificate; and deltas as exact rationals.

A privacy curve is delta(epsilon) = max over events A of P(A) - exp(epsilon) Q(A). As a function of exp(epsilon) it
is a maximum of straight lines, so it is convex and falls: Newton's step in exp(epsilon) never jumps over the
root from the left, and on a lattice, where the curve is made of finitely many lines, it ends on the root.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from dprelease.privacy.rounding import CONTEXT, dyadic_up, floor_shifted, real, upper

__all__ = ["SMALLEST", "Point", "as_delta", "certified", "least_epsilon"]

SMALLEST = Fraction(1, 10**1000)
"""No positive delta is given smaller than this: rounding up keeps the rationals short."""

_BITS = 300  # after the point, where a logarithm is a series

_LOG_SMALLEST = CONTEXT.mpf(10) ** -1000

Point = tuple[Any, Any]
"""Delta, and exp(epsilon) times the probability of the same event under the other hypothesis; 60-digit reals."""


def as_delta(value: Any) -> Fraction:
    """A rational in [0, 1], not below a 60-digit real and within 2e-29 relative of it (or 1e-1000)."""
    if 1e-300 < float(value) < 1 - 1e-9:  # reals are slow to compare with other numbers
        return upper(value)
    if value <= 0:
        return Fraction(0)
    if value >= 1:
        return Fraction(1)  # it may be exp(10^20), which has no room as a rational
    return SMALLEST if value < _LOG_SMALLEST else min(Fraction(1), upper(value))


def certified(curve: Callable[[Fraction], Fraction], delta: Fraction, guess: Fraction, bits: int = 60) -> Fraction:
    """The first of guess, guess (1 + 2^-bits), guess (1 + 2^(2-bits)), ... at which the curve is at most delta.

    Args:
        curve: Upper bounds on delta for epsilon >= 0; it has to reach ``delta`` somewhere.
        delta: What may not be exceeded.
        guess: About the answer; not negative.
        bits: The size of the first step.
    """
    start = max(guess, Fraction(1, 10**40))
    epsilon, step = guess, start / 2**bits
    while curve(epsilon) > delta:
        epsilon, step = dyadic_up(start + step, 90), 4 * step
    return epsilon


def least_epsilon(
    curve: Callable[[Fraction], Point], delta: Fraction, guess: Fraction, precision: Fraction
) -> Fraction:
    """An epsilon >= 0 near the root of delta(epsilon) = delta; not yet certified.

    Args:
        curve: Delta and its slope at an epsilon, both up to a relative error well below ``precision``.
        delta: Greater than 0, at most delta(0).
        guess: Where to start.
        precision: Stop when the curve is this close to ``delta``, relative.
    """
    target, low, high = real(delta), Fraction(0), None
    epsilon = max(guess, low)
    for _ in range(200):
        value, slope = curve(epsilon)
        gap = (value - target) / target
        if abs(gap) <= precision:
            break
        if float(gap) > 0:
            low = epsilon
        else:
            high = epsilon
        following = _step(epsilon, value, target, slope)
        if following is None or following < low or (high is not None and following > high):
            following = (low + high) / 2 if high is not None else 2 * epsilon + 1
        following = dyadic_up(following, 110) if following > 0 else Fraction(0)
        if abs(following - epsilon) <= epsilon / 2**100:
            break
        epsilon = following
    return epsilon


def _step(epsilon: Fraction, value: Any, target: Any, slope: Any) -> Fraction | None:
    """Newton's step, or None where it has none.

    In exp(epsilon): ln(exp(epsilon) + gap exp(epsilon) / slope). Far off, and where that logarithm does not exist, in
    ln delta instead, which is about concave: it needs a step or two where the other needs one per unit of ln delta.
    """
    if min(float(slope), float(value)) <= 0 and min(slope, value) <= 0:
        return None
    gap = value - target
    far = gap > target or gap <= -slope
    move = CONTEXT.log(value / target) * value / slope if far else _log1p(gap / slope)
    if abs(float(move)) > 2**40:
        return None
    return epsilon + Fraction(floor_shifted(move, 180), 2**180)


def _log1p(value: Any) -> Any:
    """The logarithm of 1 + value; of a small value by its series in whole numbers, to 2^-230 of it.

    The 60 digits of a real are 203 bits, and its logarithm near 1 is worked out with twice as many.
    """
    if not 2**-60 < abs(float(value)) < 2**-8:
        return CONTEXT.log1p(value)
    whole = int(CONTEXT.ldexp(value, _BITS))
    power, total = whole, whole
    for k in range(2, 40):
        power = -(power * whole) >> _BITS
        if not power:
            break
        total += power // k
    return CONTEXT.ldexp(CONTEXT.mpf(total), -_BITS)
