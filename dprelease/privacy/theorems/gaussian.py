"""The continuous Gaussian: one exact curve for any number of draws.

Gaussian draws with noise scales s_i and L2 sensitivities d_i are, together and also when chosen adaptively, exactly
one draw with mu^2 = sum (d_i / s_i)^2 (Dong, Roth and Su 2019, Corollary 2). Its curve is Theorem 8 of Balle
and Wang 2018:  delta(epsilon) = Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu).

It is *not* the curve of integer-valued (discrete) Gaussian noise: see `curves.lattice` and `curves.collapse`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from dprelease.errors import UnsupportedEvent
from dprelease.privacy.rounding import CONTEXT, log_of, real
from dprelease.privacy.theorems.inverse import Point, as_delta, certified, least_epsilon

__all__ = ["delta", "epsilon", "epsilon_quick", "log_delta_quick", "no_delta"]

_SURE = Fraction(1, 10**18)


def delta(mu_squared: Fraction, epsilon: Fraction) -> Fraction:
    """Delta at epsilon (which may be negative), rounded up: Balle and Wang 2018, Theorem 8.

    Within 1e-18 relative for mu above 1e-30; below, where the two terms cancel to their last digits, an upper bound
    with fewer correct digits.
    """
    return as_delta(_point(mu_squared, epsilon)[0])


def epsilon(mu_squared: Fraction, delta: Fraction) -> Fraction:
    """The smallest epsilon >= 0 at this delta, rounded up by less than one part in 10^12.

    Raises:
        UnsupportedEvent: At delta 0, where Gaussian noise has no finite epsilon.
    """
    if mu_squared == 0:
        return Fraction(0)
    if delta <= 0:
        raise no_delta()
    mu, log_delta = math.sqrt(mu_squared), log_of(delta)
    # 60 digits only where the floats cannot tell whether epsilon 0 is enough
    if log_delta_quick(mu, 0.0)[0] < log_delta + 1e-3 and as_delta(_point(mu_squared, Fraction(0))[0]) <= delta:
        return Fraction(0)
    guess = Fraction(epsilon_quick(mu, log_delta))
    found = least_epsilon(lambda e: _point(mu_squared, e), delta, guess, real(_SURE))
    return certified(lambda e: as_delta(_point(mu_squared, e)[0]), delta, found)


def log_delta_quick(mu: float, epsilon: float) -> tuple[float, float]:
    """In floats, about 1e-9 relative: ln delta, and exp(epsilon) Phi(-b) / delta, the falling rate of ln delta.

    With a = epsilon/mu - mu/2, b = a + mu and the Mills ratio M(x) = (1 - Phi(x)) / phi(x):
    delta = phi(a) (M(a) - M(b)). For guesses only: never a result.
    """
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if a < -30:
        return 0.0, 0.0
    above = _mills(b)
    # where the two nearly cancel, the integral of -M'(x) = 1 - x M(x) keeps the digits
    gap = _mills(a) - above if mu > 0.3 else mu * sum(w * (1 - x * _mills(x)) for w, x in _nodes(a, b))
    if gap <= 0:
        gap = mu / (1 + a * a)
    return -a * a / 2 - math.log(2 * math.pi) / 2 + math.log(gap), above / gap


def epsilon_quick(mu: float, log_delta: float) -> float:
    """In floats, epsilon >= 0 at ln delta: for guesses only.

    Newton on the concave ln delta from the right, where it cannot overshoot; delta <= exp(-a^2 / 2) bounds the start.
    """
    at = mu * mu / 2 + mu * math.sqrt(max(0.0, -2 * log_delta))
    for _ in range(60):
        value, rate = log_delta_quick(mu, at)
        if rate == 0:
            break
        following = max(0.0, at + (value - log_delta) / rate)
        if abs(following - at) <= 1e-12 * at:
            return following
        at = following
    return at


def _point(mu_squared: Fraction, epsilon: Fraction) -> Point:
    if mu_squared == 0:
        return -CONTEXT.expm1(real(epsilon)), CONTEXT.exp(real(epsilon))
    return _point_at(CONTEXT.sqrt(real(mu_squared)), real(epsilon))


def _point_at(mu: Any, eps: Any) -> Point:
    """Delta (not below the true one) and its slope, in 60 digits."""
    root = CONTEXT.sqrt(2)
    a, b = eps / mu - mu / 2, eps / mu + mu / 2
    first = CONTEXT.erfc(a / root) / 2
    second = CONTEXT.exp(eps) * CONTEXT.erfc(b / root) / 2
    # The two may cancel; an argument x = eps/mu with an error of 1e-59 x moves its term by 1e-59 x^2 relative.
    # The pad covers that with a factor of 10^7, also where the exact difference is below it.
    pad = first * (1 + a * a + b * b + abs(eps)) * CONTEXT.mpf(10) ** -52
    return first - second + pad, second


def no_delta() -> UnsupportedEvent:
    """The error for Gaussian noise, continuous or on integers, of which nothing is left of delta."""
    return UnsupportedEvent(
        "Gaussian noise has no finite epsilon at delta 0",
        hint="give the budget a delta, such as 1e-9, or write `noise: laplace`",
    )


def _mills(x: float) -> float:
    """(1 - Phi(x)) / phi(x): by erfc, and from 6 on by Laplace's continued fraction."""
    if x < 6:
        return math.sqrt(math.pi / 2) * math.exp(x * x / 2) * math.erfc(x / math.sqrt(2))
    tail = x
    for k in range(40, 0, -1):
        tail = x + k / tail
    return 1 / tail


_GAUSS = ((0.1739274225687269, 0.0694318442029737), (0.3260725774312731, 0.3300094782075719))


def _nodes(a: float, b: float) -> list[tuple[float, float]]:
    """Gauss-Legendre with four points on [a, b]; the weights add up to 1."""
    return [(w, a + (b - a) * x) for w, p in _GAUSS for x in (p, 1 - p)]
