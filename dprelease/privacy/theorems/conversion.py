"""From a Renyi curve to epsilon at a delta and to delta at an epsilon, over continuous orders.

Every order gives a valid bound, so that the search for the best one may use floats; the order that it finds is then
evaluated in 60 digits and rounded up. Orders are held as their excess over 1, from 2e-9 to 2e17.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
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
_TINY = 1e-8  # below it, ln x - ln(1 + x) in floats is off by more than a millionth of epsilon
_LEAST = -10000  # natural logarithm of the smallest delta that is told apart from smaller ones


class RenyiCurve(Protocol):
    """An upper bound on the Renyi divergence at every order above 1."""

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


def renyi_epsilon(curve: RenyiCurve, delta: Fraction, guesses: Iterable[float] = ()) -> Fraction:
    """The smallest epsilon that some order proves at this delta, rounded up.

    Args:
        curve: The Renyi divergence at every order.
        delta: Above 0.
        guesses: Excesses worth trying besides the grid.
    """
    if delta >= 1:
        return Fraction(0)
    excess, _ = _least_epsilon(curve, log_of(delta), guesses)
    return epsilon_at(curve.certified(excess), excess, delta)


def rough_renyi_epsilon(curve: RenyiCurve, log_delta: float) -> float:
    """The same in floats, to about 1e-9 relative, not rounded up: for the inside of a root search."""
    return max(0.0, _least_epsilon(curve, log_delta)[1])


def renyi_delta(curve: RenyiCurve, epsilon: Fraction, guesses: Iterable[float] = ()) -> Fraction:
    """The smallest delta that some order proves at this epsilon, rounded up, at most 1."""
    target = float(epsilon)

    def objective(x: Floats, renyi: Floats) -> Floats:
        return x * (renyi - target + np.log(x) - np.log1p(x)) - np.log1p(x)

    excess, _ = _best(curve, objective, guesses)
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


def _least_epsilon(curve: RenyiCurve, log_delta: float, guesses: Iterable[float] = ()) -> tuple[float, float]:
    """The excess at which epsilon is smallest, and that; a tiny one again without the digits that cancel."""

    def objective(x: Floats, renyi: Floats) -> Floats:
        return renyi + np.log(x) - np.log1p(x) - (log_delta + np.log1p(x)) / x

    def tiny(x: Floats, renyi: Floats) -> Floats:
        return renyi - np.log1p(1 / x) - (log_delta + np.log1p(x)) / x

    found = _best(curve, objective, guesses)
    return found if found[1] > _TINY else _best(curve, tiny, guesses)


def _best(curve: RenyiCurve, objective: Objective, guesses: Iterable[float] = ()) -> tuple[float, float]:
    """The excess at which the objective is smallest, and its value.

    Minima of several bounds have several valleys, and maxima have kinks: the four lowest valleys of a coarse grid
    over all orders are each halved until the values around the lowest point differ by less than 1e-14.
    """

    def at(points: Floats) -> Floats:
        excess = np.exp(points)
        return objective(excess, curve.quick(excess))

    points = np.concatenate([np.arange(_LOWEST, _HIGHEST + 0.5), [math.log(guess) for guess in guesses]])
    points.sort()
    values = at(points)
    valleys = _valleys(values)
    found = [_halved(at, points[max(0, k - 1) : k + 2], values[max(0, k - 1) : k + 2]) for k in valleys]
    point, value = min(found, key=lambda each: each[1])
    for beside in valleys:
        lower = _hidden(at, points[beside], [each for each, _ in found])
        if lower[1] < value - _HIDDEN * abs(value):
            point, value = lower
    return math.exp(point), value


def _valleys(values: Floats) -> NDArray[np.intp]:
    """The places of the lowest four values that are not above their neighbours, lowest first."""
    low, high = np.concatenate([[np.inf], values[:-1]]), np.concatenate([values[1:], [np.inf]])
    places = np.flatnonzero((values <= low) & (values <= high))
    return places[np.argsort(values[places], kind="stable")][:4]


def _hidden(at: Callable[[Floats], Floats], middle: float, known: Iterable[float]) -> tuple[float, float]:
    """The lowest valley near a point that is none of the known ones, or a value of infinity.

    Where a bounded range reaches its own epsilon its curve has a kink, and two valleys may lie between two points of
    the coarse grid, of which halving sees one.
    """
    points = np.linspace(middle - 1, middle + 1, 65)
    values = at(points)
    new = [k for k in _valleys(values) if 0 < k < 64 and all(abs(points[k] - each) > 1 / 16 for each in known)]
    found = [_halved(at, points[k - 1 : k + 2], values[k - 1 : k + 2]) for k in new]
    return min(found, key=lambda each: each[1], default=(middle, math.inf))


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
