"""One draw of continuous Laplace noise on one cell."""

from __future__ import annotations

from fractions import Fraction

from dprelease.privacy.rounding import CONTEXT, real, upper
from dprelease.privacy.theorems.inverse import as_delta

__all__ = ["delta", "epsilon"]


def delta(scale: Fraction, shift: Fraction, epsilon: Fraction) -> Fraction:
    """Delta at epsilon >= 0 of Laplace noise of this scale when the cell moves by ``shift``, exact, rounded up.

    With e = shift / scale the loss at x is (|x + shift| - |x|) / scale, which rises from -e to e; it exceeds
    epsilon < e exactly on x > x0 = (epsilon - e) scale / 2 <= 0, and
    P(X > x0) - exp(epsilon) P(X > x0 + shift) = 1 - exp(x0 / scale)/2 - exp(epsilon - (x0 + shift) / scale)/2
    = 1 - exp((epsilon - e) / 2). From e on it is 0.
    """
    gap = abs(shift) / scale - epsilon
    return as_delta(-CONTEXT.expm1(-real(gap) / 2)) if gap > 0 else Fraction(0)


def epsilon(scale: Fraction, shift: Fraction, delta: Fraction) -> Fraction:
    """The smallest epsilon at this delta < 1, rounded up: shift / scale + 2 ln(1 - delta), or 0."""
    pure = abs(shift) / scale
    return min(pure, upper(real(pure) + 2 * CONTEXT.log1p(-real(delta))))
