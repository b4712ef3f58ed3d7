"""From a Renyi curve to (epsilon, delta), over continuous orders."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from dprelease.privacy.rounding import CONTEXT, real, upper

__all__ = ["best_epsilon"]


def best_epsilon(
    quick: Callable[[float], float],
    exact: Callable[[Any], Any],
    delta: Fraction,
    guesses: tuple[float, ...] = (),
) -> Fraction:
    """The smallest epsilon that some order proves at this delta, rounded up.

    Source: Canonne, Kamath and Steinke 2020, Proposition 12 (also Balle et al. 2020): a mechanism with Renyi
    divergence R(a) of order a > 1 is (epsilon, delta)-DP for
    ``epsilon = R(a) + ln(1 - 1/a) - (ln delta + ln a) / (a - 1)``. Every order gives a valid bound, so the search
    may use floats; the order that it finds is then evaluated in 60 digits and rounded up.

    Args:
        quick: R as a float function.
        exact: R in the 60-digit context.
        delta: Greater than 0.
        guesses: Further orders worth trying.
    """
    log_delta = math.log(delta.numerator) - math.log(delta.denominator)

    def at(log_excess: float) -> float:
        order = 1 + math.exp(log_excess)
        return quick(order) + math.log1p(-1 / order) - (log_delta + math.log(order)) / (order - 1)

    points = [-12 + 0.25 * k for k in range(120)] + [math.log(guess - 1) for guess in guesses if guess > 1]
    points.sort()
    best = min(range(len(points)), key=lambda k: at(points[k]))
    left, right = points[max(0, best - 1)], points[min(len(points) - 1, best + 1)]
    for _ in range(80):
        third = (right - left) / 3
        if at(left + third) <= at(right - third):
            right -= third
        else:
            left += third
    order = 1 + real(math.exp((left + right) / 2))
    log = CONTEXT.log
    epsilon = exact(order) + log(1 - 1 / order) - (log(real(delta)) + log(order)) / (order - 1)
    return upper(epsilon)
