"""The privacy profile of a mechanism of which only its bounded range is known.

A mechanism has range e if, for any two neighbours, its privacy loss lies in some interval of length e (Durfee and
Rogers 2019; Dong, Durfee and Rogers 2020). The exponential mechanism, Gumbel noisy max and quantiles are such
mechanisms. The envelope below is at least the profile of every pair with that range, and the supremum of them.

It is a derivation of our own, proved twice in ``docs/proofs/bounded-range.md``. ``curves.single`` reads it for one
draw; ``pld`` composes the pair whose profile it is (``pld.laws.Ramp``).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dprelease.privacy.rounding import CONTEXT, real, upper

__all__ = ["delta", "epsilon"]


def delta(epsilon: Fraction, x: Fraction) -> Fraction:
    """The smallest delta for which every mechanism of range ``epsilon`` is (x, delta)-differentially private.

    For ``|x| <= epsilon`` it is ``(e^(epsilon/2) - e^(x/2))^2 / (e^epsilon - 1)``; above it is 0; below, where
    the loss is certain to be larger than x, ``1 - e^x``.

    Args:
        epsilon: The range, at least 0: the length of the interval that holds the privacy loss.
        x: Where the profile is wanted; may be negative.

    Returns:
        A rational in [0, 1], rounded up, within 2e-29 relative.

    Raises:
        ValueError: If the range is negative.

    Source:
        ``docs/proofs/bounded-range.md``, Theorem 1.
    """
    _check_range(epsilon)
    if x >= epsilon:
        return Fraction(0)
    if x <= -epsilon:
        return _probability(-CONTEXT.expm1(real(x)))
    # The square of a difference of nearly equal powers, written with expm1 so that no digit is lost.
    gap = CONTEXT.expm1(real(epsilon - x) / 2)
    return _probability(CONTEXT.exp(real(x)) * gap * gap / CONTEXT.expm1(real(epsilon)))


def epsilon(range_: Fraction, delta: Fraction) -> Fraction:
    """The smallest epsilon for which every mechanism of that range is (epsilon, delta)-differentially private.

    Solving the profile for x: ``2 ln(e^(range/2) - sqrt(delta (e^range - 1)))``, and 0 where that is negative.

    Args:
        range_: The range, at least 0.
        delta: At least 0 and less than 1.

    Returns:
        A rational in [0, range], rounded up.

    Raises:
        ValueError: If an argument is outside its bounds.

    Source:
        ``docs/proofs/bounded-range.md``, Theorem 1.
    """
    _check_range(range_)
    if not 0 <= delta < 1:
        raise ValueError("delta is at least 0 and less than 1")
    # (e^(range/2) - 1)^2 / (e^range - 1) = tanh(range/4) is the profile at 0.
    if real(delta) >= CONTEXT.tanh(real(range_) / 4):
        return Fraction(0)
    # range + 2 ln(1 - sqrt(delta (1 - e^-range))): the same root with the range taken out of the logarithm.
    root = CONTEXT.sqrt(real(delta) * -CONTEXT.expm1(-real(range_)))
    return min(upper(real(range_) + 2 * CONTEXT.log1p(-root)), range_)


def _check_range(value: Fraction) -> None:
    if value < 0:
        raise ValueError("a range is at least 0")


def _probability(value: Any) -> Fraction:
    return min(upper(value), Fraction(1))
