"""Zero-concentrated differential privacy as (epsilon, delta) and back, at the best Renyi order.

A rho-zCDP mechanism has the Renyi curve R(a) = a rho. With it the best order of the conversion is the one root of
an increasing function, so that no grid is needed; as every order is valid, a root in floats is good enough, and the
figure at it is evaluated in 60 digits and rounded against the user.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from dprelease.errors import UnsupportedEvent
from dprelease.privacy.rounding import log_of, real
from dprelease.privacy.theorems.conversion import delta_at, epsilon_at

__all__ = ["best_excess", "rho_to_delta", "rho_to_epsilon", "rough_rho_to_epsilon", "rough_rho_to_log_delta"]


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
