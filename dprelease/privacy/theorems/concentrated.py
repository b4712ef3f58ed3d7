"""Zero-concentrated differential privacy as (epsilon, delta) and back, at the best Renyi order.

A rho-zCDP mechanism has the Renyi curve R(a) = a rho. With it the best order of the conversion is the one root of
an increasing function, so that no grid is needed; as every order is valid, a root in floats is good enough, and the
figure at it is evaluated in 60 digits and rounded against the user.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from dprelease.errors import PlanError, UnsupportedEvent
from dprelease.privacy.rounding import CONTEXT, log_of, real, upper
from dprelease.privacy.theorems.conversion import delta_at, epsilon_at

__all__ = [
    "best_excess",
    "bun_steinke_epsilon",
    "epsilon_to_rho",
    "laplace_rho",
    "response_rho",
    "rho_to_delta",
    "rho_to_epsilon",
    "rough_laplace_rho",
    "rough_rho_to_epsilon",
    "rough_rho_to_log_delta",
    "triple_rho",
]


def rho_to_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """Epsilon at delta for rho-zCDP, rounded up (Canonne, Kamath and Steinke 2020, Proposition 12).

    Raises:
        UnsupportedEvent: At delta 0, where zCDP alone implies no finite epsilon.
    """
    if rho == 0 or delta >= 1:
        return Fraction(0)
    if delta == 0:
        raise UnsupportedEvent(
            "zCDP implies no finite epsilon at delta 0",
            hint="give the budget a delta, such as 1e-9, or write `accounting: basic`",
        )
    excess = best_excess(log_of(rho), log_of(delta))
    return epsilon_at((1 + real(excess)) * real(rho), excess, delta)


def rho_to_delta(rho: Fraction, epsilon: Fraction) -> Fraction:
    """Delta at epsilon for rho-zCDP, rounded up, at most 1 (the same proposition, solved for delta).

    The logarithm of the bound is convex in the order a; its derivative is (2a - 1) rho - epsilon + ln(1 - 1/a).
    """
    if rho == 0:
        return Fraction(0)
    excess = _delta_excess(float(rho), float(epsilon))
    return delta_at((1 + real(excess)) * real(rho), excess, epsilon)


def epsilon_to_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest rho whose ``rho_to_epsilon`` at this delta is at most epsilon, rounded down.

    Any order a proves the rho for which its bound is epsilon, ``(epsilon - ln(1 - 1/a) + (ln delta + ln a)/(a - 1))
    / a``. At the best one rho = -ln(a delta) / (a - 1)^2, and there epsilon falls with a: one root.

    Raises:
        PlanError: If delta is 1 or more: any rho would do.
    """
    if delta >= 1:
        raise PlanError("a delta is below 1", hint="write a delta such as 1e-9")
    if delta == 0:
        return Fraction(0)
    log_delta, target = log_of(delta), float(epsilon)

    def excess_epsilon(t: float) -> float:
        x = math.exp(t)
        gap = -(log_delta + math.log1p(x))
        return target - ((1 + x) * gap / x**2 + t - math.log1p(x) + gap / x)

    x = real(math.exp(_root(excess_epsilon)))
    a = 1 + x
    best = (real(epsilon) - CONTEXT.log(x / a) + CONTEXT.log(a * real(delta)) / x) / a
    rho = max(Fraction(0), _below(upper(best)))
    # The conversion back finds its own order, not always this one to the last bit of a float.
    slack = Fraction(1, 10**16)
    while rho and rho_to_epsilon(rho, delta) > epsilon:
        rho, slack = rho * (1 - slack), slack * 4
    return rho


def bun_steinke_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """``rho + 2 sqrt(rho ln(1/delta))``, rounded up (Bun and Steinke 2016, Proposition 1.3); for comparison only.

    Raises:
        PlanError: If delta is not above 0.
    """
    if delta <= 0:
        raise PlanError("this conversion needs a delta above 0", hint="write a delta such as 1e-9")
    gap = max(-CONTEXT.log(real(delta)), CONTEXT.mpf(0))
    return upper(real(rho) + 2 * CONTEXT.sqrt(real(rho) * gap))


def best_excess(log_rho: float, log_delta: float) -> float:
    """The order, less 1, at which the curve a rho proves the smallest epsilon at delta; in floats.

    The derivative of the bound is rho + (ln delta + ln a) / (a - 1)^2 (the other terms cancel), so the best order
    is the root of ln(rho (a - 1)^2) = ln(-ln(delta a)), whose left side rises and whose right side falls.
    """

    def derivative(t: float) -> float:
        gap = -(log_delta + math.log1p(math.exp(t)))
        return log_rho + 2 * t - math.log(gap) if gap > 0 else math.inf

    return math.exp(_root(derivative))


def _delta_excess(rho: float, epsilon: float) -> float:
    def derivative(t: float) -> float:
        x = math.exp(t)
        return (2 * x + 1) * rho - epsilon + t - math.log1p(x)

    return math.exp(_root(derivative))


def _root(increasing: Callable[[float], float]) -> float:
    """Where an increasing function of the logarithm of the excess crosses zero, by halving."""
    low, high = -40.0, 200.0
    for _ in range(70):
        middle = (low + high) / 2
        if increasing(middle) < 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _below(rounded_up: Fraction) -> Fraction:
    return rounded_up * (1 - Fraction(3, 10**29))  # it was moved up by at most 2e-29 relative


def rough_rho_to_epsilon(rho: float, log_delta: float) -> float:
    """``rho_to_epsilon`` in floats, not rounded up; infinity where ln(delta) or rho is infinite."""
    if rho == 0 or log_delta >= 0:
        return 0.0
    if math.isinf(rho) or math.isinf(log_delta):
        return math.inf
    x = best_excess(math.log(rho), log_delta)
    return max(0.0, (1 + x) * rho + math.log(x) - math.log1p(x) - (log_delta + math.log1p(x)) / x)


def rough_rho_to_log_delta(rho: float, epsilon: float) -> float:
    """The logarithm of ``rho_to_delta`` in floats, not rounded up."""
    x = _delta_excess(rho, epsilon)
    return min(0.0, x * ((1 + x) * rho - epsilon + math.log(x) - math.log1p(x)) - math.log1p(x))


_TINY = Fraction(1, 10**15)  # losses below which the digits of a difference run out, and their square says it all


@lru_cache(maxsize=1 << 15)
def response_rho(epsilon: Fraction) -> Fraction:
    """A rho of every epsilon-private draw, least for randomized response: epsilon tanh(epsilon / 2), rounded up.

    docs/proofs/tight-rho.md, Theorem 1. Bun and Steinke 2016, Proposition 1.4, has epsilon^2 / 2, its limit for small
    epsilon.
    """
    return upper(real(epsilon) * CONTEXT.tanh(real(epsilon) / 2))


@lru_cache(maxsize=1 << 15)
def laplace_rho(scale: Fraction, shift: int) -> Fraction:
    """The least rho of discrete Laplace noise on one cell that moves by ``shift`` whole steps, rounded up.

    Its mean loss, h (c - 2 q (1 - q^c) / (1 - q^2)) with h = 1 / scale, q = exp(-h) and c the shift
    (docs/proofs/tight-rho.md, Theorem 1); for one step that is h tanh(h / 2).
    """
    if abs(shift) <= 1:
        return response_rho(abs(shift) / scale)
    if abs(shift) / scale < _TINY:
        return shift**2 / (2 * scale**2)
    h, c = real(1 / scale), abs(shift)
    return upper(h * (c - 2 * CONTEXT.exp(-h) * CONTEXT.expm1(-c * h) / CONTEXT.expm1(-2 * h)))


@lru_cache(maxsize=1 << 15)
def triple_rho(epsilon: Fraction, top: Fraction) -> Fraction:
    """The least rho of a draw that loses epsilon with chance a, -epsilon with a exp(-epsilon), else 0; rounded up.

    Its mean loss a epsilon (1 - exp(-epsilon)), where a is at least (1 + exp(-epsilon / 2))^-2
    (docs/proofs/tight-rho.md, Theorem 1), as ``lattice.knorm_top`` gives it.
    """
    return upper(-real(top * epsilon) * CONTEXT.expm1(-real(epsilon)))


def rough_laplace_rho(scale: float, shift: int) -> float:
    """``laplace_rho`` in floats, to about 1e-9 of itself."""
    h, c = 1 / scale, abs(shift)
    if c <= 1 or c * h < 1e-6:
        return c * h * math.tanh(c * h / 2)
    return h * (c - 2 * math.exp(-h) * math.expm1(-c * h) / math.expm1(-2 * h))
