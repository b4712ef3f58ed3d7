"""From a Renyi curve to epsilon at a delta and to delta at an epsilon, over continuous orders.

Every order gives a valid bound, so that the search for the best one may use floats; the order that it finds is then
evaluated in 60 digits and rounded up. Orders are held as their excess over 1, from 2e-9 to 2e17.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dprelease.privacy.rounding import CONTEXT, log_of, real, upper

__all__ = ["RenyiCurve", "delta_at", "epsilon_at", "renyi_delta", "renyi_epsilon", "rough_renyi_epsilon"]

Floats = NDArray[np.float64]
Objective = Callable[[Floats, Floats], Floats]

_LOWEST, _HIGHEST = -20.0, 40.0  # natural logarithms of the excess
_COARSE = 1e5  # excess times epsilon, from which floats are off by 1e-11 and more in ln delta
_HIDDEN = 1e-9  # relative: a valley between the points of the grid counts where it is lower by more
_WIDE = 0.25  # of stretches between two kinks, in natural logarithms of the excess
_ROUNDS = 14  # each a quarter as wide as the one before: to 60 / 4^14 = 2e-7, and values to the square of that
_TINY = 1e-8  # below it, ln x - ln(1 + x) in floats is off by more than a millionth of epsilon
_LEAST = -10000  # natural logarithm of the smallest delta that is told apart from smaller ones


class RenyiCurve(Protocol):
    """An upper bound on the Renyi divergence at every order above 1."""

    @property
    def kinks(self) -> Floats:
        """The excesses between which the excess times the curve is convex, in any order; none where it always is."""
        ...

    def quick(self, excess: Floats) -> Floats:
        """In floats, at orders 1 + excess."""
        ...

    def certified(self, excess: float) -> Any:
        """A 60-digit real, not below the curve."""
        ...


def epsilon_at(renyi: Any, excess: float, delta: Fraction) -> Fraction:
    """Epsilon at delta from the Renyi divergence at one order a = 1 + excess, rounded up.

    ``R(a) + ln(1 - 1/a) - (ln delta + ln a) / (a - 1)`` (Canonne, Kamath and Steinke 2020, Proposition 12; also
    Balle et al. 2020, Theorem 21).
    """
    log, x = CONTEXT.log, real(excess)
    return upper(renyi + log(x / (1 + x)) - log(real(delta) * (1 + x)) / x)


def delta_at(renyi: Any, excess: float, epsilon: Fraction) -> Fraction:
    """Delta at epsilon from the Renyi divergence at one order a = 1 + excess, rounded up, at most 1.

    ``exp((a - 1)(R(a) - epsilon)) (1 - 1/a)^a / (a - 1)``: the same inequality, solved for delta. A delta below
    exp(-10000) is given as exp(-10000), for the digits of a rational that small would fill the memory.
    """
    x = real(excess)
    log_delta = x * (renyi - real(epsilon) + CONTEXT.log(x / (1 + x))) - CONTEXT.log1p(x)
    return Fraction(1) if log_delta >= 0 else min(Fraction(1), upper(CONTEXT.exp(max(log_delta, _LEAST))))


def renyi_epsilon(curve: RenyiCurve, delta: Fraction) -> Fraction:
    """The smallest epsilon that some order proves at this delta, rounded up.

    Args:
        curve: The Renyi divergence at every order.
        delta: Above 0.
    """
    if delta >= 1:
        return Fraction(0)
    excess, _ = _least_epsilon(curve, log_of(delta))
    return epsilon_at(curve.certified(excess), excess, delta)


def rough_renyi_epsilon(curve: RenyiCurve, log_delta: float) -> float:
    """The same in floats, to about 1e-9 relative, not rounded up: for the inside of a root search."""
    return max(0.0, _least_epsilon(curve, log_delta)[1])


def renyi_delta(curve: RenyiCurve, epsilon: Fraction) -> Fraction:
    """The smallest delta that some order proves at this epsilon, rounded up, at most 1."""
    target = float(epsilon)

    def objective(x: Floats, renyi: Floats) -> Floats:
        return x * (renyi - target + np.log(x) - np.log1p(x)) - np.log1p(x)

    excess, _ = _best(curve, objective)
    if excess * target > _COARSE:
        excess = _refined(curve, excess, epsilon)
    return delta_at(curve.certified(excess), excess, epsilon)


def _refined(curve: RenyiCurve, excess: float, epsilon: Fraction) -> float:
    """A better excess in 60 digits: next to the pure epsilon the best orders are so high that floats see only noise.

    The logarithm of the bound is x (R - epsilon) and something small; its floats are off by x R / 2^52. Any order is
    valid, so that this only makes the bound smaller.
    """

    def log_delta(t: float) -> Any:
        x = real(math.exp(t))
        return x * (curve.certified(float(x)) - real(epsilon) + CONTEXT.log(x / (1 + x))) - CONTEXT.log1p(x)

    middle = min((math.log(excess) + shift for shift in range(-6, 7)), key=log_delta)
    low, high = middle - 1, middle + 1
    for _ in range(40):
        left, right = low + (high - low) * 0.382, low + (high - low) * 0.618
        low, high = (low, right) if log_delta(left) <= log_delta(right) else (left, high)
    return min((excess, math.exp((low + high) / 2)), key=lambda each: log_delta(math.log(each)))


def _least_epsilon(curve: RenyiCurve, log_delta: float) -> tuple[float, float]:
    """The excess at which epsilon is smallest, and that; a tiny one again without the digits that cancel."""

    def objective(x: Floats, renyi: Floats) -> Floats:
        return renyi + np.log(x) - np.log1p(x) - (log_delta + np.log1p(x)) / x

    def tiny(x: Floats, renyi: Floats) -> Floats:
        return renyi - np.log1p(1 / x) - (log_delta + np.log1p(x)) / x

    found = _best(curve, objective)
    return found if found[1] > _TINY else _best(curve, tiny)


def _best(curve: RenyiCurve, objective: Objective) -> tuple[float, float]:
    """The excess at which the objective is smallest, and its value.

    The four lowest valleys of a coarse grid over all orders are each halved until the values around the lowest point
    differ by less than 1e-14. One valley is all that there is where the excess x times the curve is convex in x, as
    the logarithm of a moment and maxima and sums of such are: so are then both objectives (of epsilon x times itself,
    so that no value is taken on two sides of a higher one). A bounded range reaches its own epsilon in a kink that is
    none of these, and between two kinks there may be a valley that the grid steps over: see ``_between``.
    """

    def at(points: Floats) -> Floats:
        excess = np.exp(points)
        return objective(excess, curve.quick(excess))

    points = np.arange(_LOWEST, _HIGHEST + 0.5)
    values = at(points)
    valleys = _valleys(values)
    found = [_halved(at, points[max(0, k - 1) : k + 2], values[max(0, k - 1) : k + 2]) for k in valleys]
    point, value = min(found, key=lambda each: each[1])
    kinks = np.log(curve.kinks)
    kinks = kinks[(kinks > _LOWEST) & (kinks < _HIGHEST)]
    kinks = np.unique(kinks) if kinks.size else kinks  # it loads masked arrays, which nothing else needs
    if kinks.size:
        lower = _between(curve, objective, kinks, value)
        if lower[1] < value - _HIDDEN * abs(value):
            point, value = lower
    return math.exp(point), value


def _between(curve: RenyiCurve, objective: Objective, kinks: Floats, known: float) -> tuple[float, float]:
    """The lowest point of all stretches between two kinks, each of which has one valley, and its value.

    All are halved together, around the lowest of nine points. A curve rises with its order: a narrow stretch is left
    out where the objective of the curve at its lower end is at neither end below what is known.
    """
    low, high = np.concatenate([[_LOWEST], kinks]), np.concatenate([kinks, [_HIGHEST]])
    at_low = curve.quick(np.exp(low))
    least = np.minimum(*(objective(np.exp(end), at_low) for end in (low, high)))
    kept = (high - low > _WIDE) | (least < known)
    low, high = low[kept], high[kept]
    values, lowest = np.empty(0), np.empty(0)
    for _ in range(_ROUNDS):
        points = np.linspace(low, high, 9, axis=1)
        excess = np.exp(points.ravel())
        every = objective(excess, curve.quick(excess)).reshape(points.shape)
        k, rows = np.argmin(every, axis=1), np.arange(len(every))
        values, lowest = every[rows, k], points[rows, k]
        low, high = points[rows, np.maximum(k - 1, 0)], points[rows, np.minimum(k + 1, 8)]
    first = int(np.argmin(values))
    return float(lowest[first]), float(values[first])


def _valleys(values: Floats) -> NDArray[np.intp]:
    """The places of the lowest four values that are not above their neighbours, lowest first."""
    low, high = np.concatenate([[np.inf], values[:-1]]), np.concatenate([values[1:], [np.inf]])
    places = np.flatnonzero((values <= low) & (values <= high))
    return places[np.argsort(values[places], kind="stable")][:4]


def _halved(at: Callable[[Floats], Floats], points: Floats, values: Floats) -> tuple[float, float]:
    """The lowest point of a valley given by two or three points, the lowest of them inside or at an end."""
    for _ in range(45):
        middles = (points[:-1] + points[1:]) / 2
        points, values = np.concatenate([points, middles]), np.concatenate([values, at(middles)])
        order = np.argsort(points, kind="stable")
        points, values = points[order], values[order]
        k = int(np.argmin(values))
        near = slice(max(0, k - 1), k + 2)
        points, values = points[near], values[near]
        if values.max() - values.min() <= 1e-14 * abs(values.min()):
            break
    k = int(np.argmin(values))
    return float(points[k]), float(values[k])
