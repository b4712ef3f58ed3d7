"""One draw of integer-valued noise on one cell that moves by a whole number: the exact curve, by lattice sums.

For noise X on the integers and a shift s > 0 the curve is the largest, over events A, of
P(X in A) - exp(epsilon) P(X + s in A). Both noises here are log-concave, so the privacy loss
l(k) = ln P(X = k) - ln P(X = k + s) rises with k, and the best event is a tail {k >= t}, t the first integer with
l(t) > epsilon. With S(t) = P(X >= t):

    delta(epsilon) = S(t) - exp(epsilon) S(t + s) = max over all integers u of S(u) - exp(epsilon) S(u + s).

(Canonne, Kamath and Steinke 2020, Theorem 7, for the discrete Gaussian.) The second form shows that delta grows with
the shift, for S(u + s) falls in s: the largest possible shift is the worst one. Both noises are symmetric, so the
sign of the shift does not matter.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import floor, isqrt, log, pi, sqrt
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dprelease.privacy.newton import exact_reals, forward_differences, horner
from dprelease.privacy.rounding import CONTEXT, dyadic_up, log_of, real, upper
from dprelease.privacy.theorems import gaussian
from dprelease.privacy.theorems.inverse import Point, as_delta, certified, least_epsilon

__all__ = ["LARGEST_SCALE", "gaussian_delta", "gaussian_epsilon", "knorm_top", "laplace_delta", "laplace_epsilon"]

Floats = npt.NDArray[np.float64]

LARGEST_SCALE = 20_000
"""The largest scale whose discrete Gaussian is summed (a quarter of a million terms); beyond it `curves.collapse`."""

_PAD = 1 + CONTEXT.mpf(10) ** -12
# Of a delta in floats: its sum is off by 1e-12, and a logarithm or an exponent up to 2,000 by 1e-12, too; that is far
# more than all of these together, its pad and its rounding.
_UNCLEAR = 1e-9
_NORMAL = 2  # from this scale on the sum over all integers is scale sqrt(2 pi), to 1e-33
_ALONE = 3  # and from this one on it is that in 60 digits, to 1e-77
_TWO_PI, _FAINT, _LEFT_OUT = 2 * CONTEXT.pi, CONTEXT.mpf(10) ** -58, 1 - CONTEXT.mpf(10) ** -55
_LOG_ROOT = log(2 * pi) / 2
_ROOT = sqrt(2 * pi)
_CUT = 80  # terms below exp(-80) of the largest are bounded together, not summed
_NEAR_CUT = (
    48  # where _UNCLEAR is close enough; what is left out is bounded and added, so that no delta is told smaller
)


@lru_cache(maxsize=1 << 6)  # an epsilon is certified here, and then once more by who asked for it
def gaussian_delta(scale: Fraction, shift: int, epsilon: Fraction) -> Fraction:
    """Delta of one discrete Gaussian draw, P(k) proportional to exp(-k^2 / (2 scale^2)), rounded up by 1e-12 relative.

    Args:
        scale: At most ``LARGEST_SCALE``.
        shift: By how much the cell moves.
        epsilon: At least 0.

    Raises:
        ValueError: If the scale is too large to sum.
    """
    return as_delta(_gaussian_point(scale, abs(shift), epsilon)[0])


def gaussian_within(scale: Fraction, shift: int, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether :func:`gaussian_delta` is at most this delta: told in floats where these two are not near.

    Raises:
        ValueError: If the scale is too large to sum.
    """
    if shift and delta and _NORMAL <= scale <= LARGEST_SCALE:
        if not epsilon and (1 + _ROOT * float(scale)) * float(delta) < 1 - _UNCLEAR:
            return False  # at epsilon 0 delta is at least P(0), for the shift moves something across 0; see ``_total``
        value, exponent, _, _ = _gaussian_sum(scale, abs(shift), epsilon, _NEAR_CUT)
        if value > 0 and exponent < 1000:  # then no sum here is near ``inverse.SMALLEST``
            gap = log(value) - float(exponent) - log(float(scale)) - _LOG_ROOT - log_of(delta)
            if abs(gap) > _UNCLEAR:
                return gap < 0
    return as_delta(_gaussian_point(scale, abs(shift), epsilon)[0]) <= delta


def gaussian_epsilon(scale: Fraction, shift: int, delta: Fraction) -> Fraction:
    """The smallest epsilon >= 0 at this delta > 0, rounded up; certified by ``gaussian_delta``.

    Raises:
        ValueError: If the scale is too large to sum.
        UnsupportedEvent: At delta 0.
    """
    moved = abs(shift)
    if gaussian_within(scale, moved, Fraction(0), delta):
        return Fraction(0)
    if delta == 0:
        raise gaussian.no_delta()
    guess = Fraction(gaussian.epsilon_quick(float(moved / scale), log(delta.numerator) - log(delta.denominator)))
    found = least_epsilon(lambda e: _gaussian_point(scale, moved, e), delta, guess, real(Fraction(1, 10**13)))
    return certified(lambda e: gaussian_delta(scale, moved, e), delta, found, bits=42)


def laplace_delta(scale: Fraction, shift: int, epsilon: Fraction) -> Fraction:
    """Delta of one discrete Laplace draw, P(k) proportional to exp(-|k| / scale), exact, rounded up.

    With a = 1 / scale and q = exp(-a): S(t) = 1 - q^(1 - t) / (1 + q) for t <= 0, and q^t / (1 + q) from t = 1 on.
    For epsilon < a s the first t with a (2 t + s) > epsilon lies in (-s, 0], so that
    delta = [(1 - exp(epsilon - a (t + s))) + q (1 - q^(-t))] / (1 + q): two terms that are not negative. From
    epsilon = a s on it is 0.
    """
    return as_delta(_laplace_point(scale, abs(shift), epsilon)[0])


def laplace_epsilon(scale: Fraction, shift: int, delta: Fraction) -> Fraction:
    """The smallest epsilon >= 0 at this delta, rounded up; at delta 0 it is shift / scale."""
    moved = abs(shift)
    pure = moved / scale
    if delta == 0 or laplace_delta(scale, moved, Fraction(0)) <= delta:
        return pure if delta == 0 else Fraction(0)
    # on the last piece, epsilon >= (s - 2) / scale, delta is (1 - exp(epsilon - s / scale)) / (1 + q)
    kept = -real(delta) * (1 + CONTEXT.exp(-real(1 / scale)))
    found = upper(real(pure) + CONTEXT.log1p(kept)) if kept > -1 else Fraction(0)
    if found * scale <= moved - 2:
        start = upper(real(pure) + 2 * CONTEXT.log1p(-real(delta)))
        found = least_epsilon(lambda e: _laplace_point(scale, moved, e), delta, start, real(Fraction(1, 10**25)))
    return min(pure, certified(lambda e: laplace_delta(scale, moved, e), delta, found))


def _laplace_point(scale: Fraction, shift: int, epsilon: Fraction) -> Point:
    if epsilon * scale >= shift:
        return CONTEXT.mpf(0), CONTEXT.mpf(0)
    first = floor((epsilon * scale - shift) / 2) + 1
    q = CONTEXT.exp(-real(1 / scale))
    log_slope = real(epsilon - (first + shift) / scale)
    value = -CONTEXT.expm1(log_slope) - q * CONTEXT.expm1(real(first / scale))
    return value / (1 + q), CONTEXT.exp(log_slope) / (1 + q)


@lru_cache(maxsize=1 << 6)  # a search ends where its answer is then certified
def _gaussian_point(scale: Fraction, shift: int, epsilon: Fraction) -> Point:
    """Delta, padded, and its slope: the sums over P(c), a 60-digit real; the padding is 1e-12 of delta."""
    if scale > LARGEST_SCALE:
        raise ValueError(f"a discrete Gaussian of scale {float(scale):g} is not summed; the limit is {LARGEST_SCALE}")
    if shift == 0:
        return CONTEXT.mpf(0), CONTEXT.mpf(0)
    value, exponent, weight, loss = _gaussian_sum(scale, shift, epsilon)
    peak = _peak(scale, exponent)
    return value * peak * _PAD, float((weight * np.exp(-loss)).sum()) * peak


@lru_cache(maxsize=1 << 6)  # the points of one search have the same
def _peak(scale: Fraction, exponent: Fraction) -> Any:
    """The largest probability in the sum, exp(-exponent) over the sum over all whole numbers."""
    return CONTEXT.exp(-real(exponent)) / _total(scale)


def _gaussian_sum(
    scale: Fraction, shift: int, epsilon: Fraction, cut: int = _CUT
) -> tuple[float, Fraction, Floats, Floats]:
    """Delta over the largest probability P(c) in it, c^2 / (2 scale^2), and of each term P(k) / P(c) and x_k.

    Delta is the sum over k >= t of P(k) (1 - exp(-x_k)) with x_k = l(k) - epsilon = x_t + (k - t) s / scale^2, where
    l(k) = (2 k s + s^2) / (2 scale^2); x_t is an exact rational before it becomes a float, so every x_k > 0 has a
    relative error of a few 2^-53. Relative to the largest P(c) in the sum, P(k) / P(c) is exp of a product of exact
    integers and of one float, below ``_CUT`` in size: its relative error is at most 80 * 4 * 2^-53 < 4e-14. All
    terms are positive, numpy adds them pairwise, and what is cut off to the right is bounded: so 1e-12 covers the
    error with a factor of ten. Rationals are taken as two whole numbers each: a plan asks for thousands of sums.
    """
    above, below = scale.numerator**2, scale.denominator**2  # of the square of the scale
    over, under = epsilon.numerator, epsilon.denominator
    first = (2 * over * above - shift**2 * under * below) // (2 * under * below * shift) + 1
    top = max(first, 0)
    # from the far left only 13 scales are summed: what is dropped is below exp(-84), far inside the pad
    start = max(first, -(13 * scale.numerator // scale.denominator + 1))
    last = isqrt(top * top + 2 * cut * above // below) + 1
    step = np.arange(start - top, last - top + 1, dtype=np.float64)
    weight = np.exp(step * (step + 2.0 * top) * (-below / (2 * above)))
    beyond = float(weight[-1]) * (1 + 1.2534 * float(scale))  # sum_j exp(-j^2/(2 scale^2)) <= 1 + scale sqrt(pi/2)
    excess = ((2 * start + shift) * shift * below * under - 2 * above * over) / (2 * above * under)
    loss = excess + (step - step[0]) * (shift * below / above)
    value = float((weight * -np.expm1(-loss)).sum()) + beyond
    return value, Fraction(top * top * below, 2 * above), weight, loss


@lru_cache(maxsize=1 << 14)
def _total(scale: Fraction) -> Any:
    """A lower bound of the sum over all integers k of exp(-k^2 / (2 scale^2)), within 1e-55 relative.

    Directly, or by Poisson summation scale sqrt(2 pi) (1 + 2 sum_m exp(-2 pi^2 scale^2 m^2)); both have only
    positive terms, so leaving terms out makes delta larger.
    """
    square = real(scale) ** 2
    if scale >= _ALONE:
        return CONTEXT.sqrt(_TWO_PI * square) * _LEFT_OUT
    rate, front = 1 / (2 * square), CONTEXT.mpf(1)
    if scale >= 1:
        rate, front = 2 * CONTEXT.pi**2 * square, CONTEXT.sqrt(_TWO_PI * square)
    total = CONTEXT.mpf(1)
    for m in range(1, 40):
        term = 2 * CONTEXT.exp(-rate * m * m)
        total += term
        if term < _FAINT:
            break
    return front * total * _LEFT_OUT


@lru_cache(maxsize=1 << 14)
def knorm_top(ball: Literal["count", "linf"], dimension: int, scale: Fraction) -> Fraction:
    """The chance that one K-norm draw loses all of its epsilon 1 / scale to a neighbour at norm 1; rounded up.

    The norm of a whole vector moves by -1, 0 or 1, so that the loss is epsilon with chance a, minus epsilon with chance
    a exp(-epsilon), and 0 else. The neighbour whose a is largest dominates all others, and so does any a above it
    (docs/proofs/tight-rho.md, section 3). With q = exp(-epsilon) and n = k + 1:

    - ``count``: a = sum over r of q^r ((r+1)^(n-j) - r^(n-j)) ((r+1)^j - r^j) / Z, j = floor(n / 2), with
      Z = (1 - q) sum of q^r ((r+1)^n - r^n);
    - ``linf``: a = sum over r of q^r ((2r+1)^k - (2r)^k) / Z, Z = (1 - q) sum of q^r (2r+1)^k.

    Returns:
        With at most 53 bits; at least (1 + exp(-epsilon / 2))^-2, which the largest rho needs, and at most
        1 / (1 + exp(-epsilon)), the chance of randomized response.
    """
    epsilon = real(1 / scale)
    x = 1 / CONTEXT.expm1(epsilon)  # the sum over r of q^r C(r, i) is x^i / (1 - q)
    above, below = (horner(each, x) for each in _differences(ball, dimension))
    found = above / (below * -CONTEXT.expm1(-epsilon))
    least, most = (1 + CONTEXT.exp(-epsilon / 2)) ** -2, 1 / (1 + CONTEXT.exp(-epsilon))
    return dyadic_up(min(upper(max(found, least)), upper(most)), 53)


@lru_cache(maxsize=256)
def _differences(ball: Literal["count", "linf"], dimension: int) -> tuple[list[Any], list[Any]]:
    """The forward differences at 0 of both polynomials in r of ``knorm_top``, none of which is negative."""
    n = dimension + 1
    j = n // 2
    if ball == "count":
        above = [((r + 1) ** (n - j) - r ** (n - j)) * ((r + 1) ** j - r**j) for r in range(n)]
        below = [(r + 1) ** n - r**n for r in range(n)]
    else:
        above = [(2 * r + 1) ** dimension - (2 * r) ** dimension for r in range(n)]
        below = [(2 * r + 1) ** dimension for r in range(n)]
    return exact_reals(forward_differences(above)), exact_reals(forward_differences(below))
