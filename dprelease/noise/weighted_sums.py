"""The law of a weighted sum of independent draws, which is what a reconciled or added-up number's noise is.

S = sum c_j X_j has independent X_j, all discrete Laplace or all discrete Gaussian, and public weights c_j. Its standard
error is 1 in what follows. How far it is from 0 is bounded without taking it for normal.

**Discrete Laplace draws, any weights** (:func:`widest`). The moment generating function of X_j, of variance v_j, is
``1 / (1 - v_j (cosh l - 1))``, which is that of the difference of two geometric variables. With the parts
``a_j = c_j^2 v_j`` of a variance of 1, and v the least of the v_j, ``v_j (cosh(l c_j) - 1) <= a_j v (cosh(l / sqrt(v))
- 1)``, because ``(cosh(x sqrt(a)) - 1) / a`` rises in a and ``v (cosh(l / sqrt(v)) - 1)`` falls in v (power series). As
``prod (1 - y_j) >= 1 - sum y_j``,

    P(|S| > t) <= 2 exp(-l t) / (1 - v (cosh(l / sqrt(v)) - 1)),

and it is at most ``1 / t^2`` (Chebyshev).

**Discrete Laplace draws, given weights** (:func:`reach_of_sum`): by the characteristic function
``prod 1 / (1 + v_j (1 - cos(c_j u)))``. Let Z be normal of standard deviation h. Where S is above t + 3 h, S + Z is
above t with a probability of Phi(3) at least, so that ``P(|S| > t + 3 h) <= P(|S + Z| > t) / Phi(3)``. Wrapped around a
circle of length 2 L, S + Z has the Fourier series ``1 / (2 L) + sum_k cos(pi k x / L) phi(pi k / L) / L``, whose sum
over [-t, t] exceeds P(|S + Z| <= t) by P(|S + Z| > 2 L - t) at most; that is taken off by the first bound.

**Discrete Gaussian draws** (:func:`normal_reach`): each of scale s has the characteristic function
``sum_k g(s (u - 2 pi k)) / sum_k g(2 pi k s)`` with ``g(x) = exp(-x^2 / 2)`` (Poisson summation): the normal one,
repeated. With S + Z as above, and phi the product of these, the inversion formula says

    |P(|S + Z| > t) - 2 Q(t / sqrt(1 + h^2))| <= (2 / pi) int_0^oo |phi(u) - g(u)| g(h u) / u du,

whatever t is: the ripple of S at h. It is tiny where what surrounds the largest weights is a few steps wide. So
``P(|S| > t + 3 h)`` is at most ``(2 Q(t / sqrt(1 + h^2)) + ripple) / Phi(3)``; the best h of a few is taken. It is also
at most ``2 exp(-t^2 / 2)`` (sub-Gaussian: Canonne, Kamath and Steinke 2020, Proposition 3.1 with section 2).
Of a single number P(|S + Z| > t) is worked out by the series above, too, with these characteristic functions.

**Their combinations** A S + B T, S and T independent: with Z of h times the standard deviation of the whole, the
ripple is at most the sum of both, because ``|a b - a' b'| <= |a - a'| + |b - b'|`` for numbers of size 1 at most, and h
times the whole is at least h times each part. So one number is enough for every quotient (``tested.quotient_reach``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["RoundedLaw", "WeightedLaw", "normal_reach", "reach_of_gaussians", "reach_of_sum", "widest"]

Floats = npt.NDArray[np.float64]

_H = 0.01  # the standard deviation of Z, in standard errors of S
_ENDS = 6.0  # standard deviations of the characteristic function of Z, beyond which it is below 2e-8
_TINY, _SLIGHT = 1e-10, 1e-6
_MOST_TERMS = 10**7
_FAR = 30.0  # what is wrapped around is below exp(-30)
_SMOOTHED = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4)  # values of h that are tried for Gaussian draws
_FINE = 0.04  # of u; no part of phi - g is narrower than 1
_LEAST = 1e-9  # of a ripple: what doubles lose is far less
_WIDE = 8.0  # a scale
_COUNTED = 4096.0  # the largest standard error of a sum of whole numbers whose law is worked out number by number


@dataclass(frozen=True)
class WeightedLaw:
    """The law of a number that is a weighted sum of independent draws, in grid steps.

    Attributes:
        parts: (weight, how many draws have it, their variance); of Gaussian draws the square of their scale, which
            bounds it.
        gaussian: Whether the draws are discrete Gaussian; else they are discrete Laplace.
    """

    parts: tuple[tuple[float, int, float], ...]
    gaussian: bool

    @property
    def variance(self) -> float:
        """Variances of independent draws add up."""
        return math.fsum(times * weight**2 * variance for weight, times, variance in self.parts)

    @property
    def is_whole(self) -> bool:
        """Whether it is a plain sum of draws, and so of whole numbers."""
        return all(weight == 1 for weight, _, _ in self.parts)

    def margin(self, confidence: Fraction) -> float:
        """An m with P(|S| <= m) >= confidence; a whole number where the sum is one."""
        return _margin(self, confidence)

    @property
    def beyond(self) -> Floats | None:
        """Upper bounds of P(|S| > m) for m = 0, 1, ... of a plain sum that is summed up number by number; else None."""
        return _beyond(self) if self.is_whole and 0 < math.sqrt(self.variance) <= _COUNTED else None

    def plus(self, other: WeightedLaw, times: int) -> WeightedLaw:
        """The law of this number and so many times another one, which is independent of it; draws of one kind."""
        more = tuple((times * weight, number, variance) for weight, number, variance in other.parts)
        return WeightedLaw((*self.parts, *more), self.gaussian)

    @property
    def ripples(self) -> tuple[float, ...]:
        """Of Gaussian draws the ripple at each h (the module says of what)."""
        return _ripples(self)


@dataclass(frozen=True)
class RoundedLaw:
    """The law of a weighted sum of draws that was rounded, in grid steps.

    Attributes:
        noise: Of the weighted sum.
        rounding: How far rounding can move it at most.
    """

    noise: WeightedLaw
    rounding: float

    @property
    def variance(self) -> float:
        """An upper bound of the mean squared error: the noise, moved as far as rounding can move it."""
        return (math.sqrt(self.noise.variance) + self.rounding) ** 2

    def margin(self, confidence: Fraction) -> float:
        """An m with P(|error| <= m) >= confidence."""
        return self.noise.margin(confidence) + self.rounding


@lru_cache(maxsize=1 << 12)
def _margin(law: WeightedLaw, confidence: Fraction) -> float:
    error, alpha = math.sqrt(law.variance), float(1 - confidence)
    if not error:
        return 0.0
    if law.is_whole and error <= _COUNTED:
        return _counted(law, alpha)
    if law.gaussian:
        found = error * min(normal_reach(law.ripples, alpha), reach_of_gaussians(law, alpha))
    else:
        weights, times, variances = (np.array(column, dtype=np.float64) for column in zip(*law.parts, strict=True))
        least = float(variances.min())
        found = error * min(reach_of_sum(weights, times, variances, confidence), widest(least, confidence))
    return math.ceil(found) if law.is_whole else found


def _counted(law: WeightedLaw, alpha: float) -> float:
    """The least m with P(|S| > m) <= alpha of a sum of whole numbers, by the transform of its characteristic function.

    It is wrapped around more than fifty standard errors, and 1e-12 is added to each probability for what that and
    doubles lose: of Laplace draws less than exp(-30) lies beyond (:func:`widest`).
    """
    return float(np.argmax(np.append(_beyond(law), 0.0) <= alpha))


@lru_cache(maxsize=64)
def _beyond(law: WeightedLaw) -> Floats:
    """Upper bounds of P(|S| > m) for m = 0, 1, ... (see :func:`_counted`)."""
    size = 1 << math.ceil(math.log2(60 * math.sqrt(law.variance) + 64))
    turn = np.arange(size // 2 + 1) * (2 * math.pi / size)
    mass = np.fft.irfft(_characteristic(law, turn, 1.0), size)
    both = mass[1 : size // 2] + mass[: size // 2 : -1]  # of m and -m, m from 1
    beyond: Floats = np.cumsum(both[::-1])[::-1] + 1e-12
    beyond.flags.writeable = False
    return beyond


def reach_of_gaussians(law: WeightedLaw, alpha: float) -> float:
    """The bound of discrete Gaussian draws for given weights, in standard errors, as :func:`reach_of_sum` finds it.

    What is wrapped around is sub-Gaussian: at a distance of ten and more it is below exp(-40).
    """
    most = math.sqrt(2 * math.log(2 / alpha))
    half = (most + 10) / 2 + 1
    at = np.arange(1, math.ceil(_ENDS / _H * half / math.pi) + 1) * (math.pi / half)
    law_of = _characteristic(law, at, math.sqrt(law.variance)) * np.exp(-((at * _H) ** 2) / 2) * 2 / (at * half)
    low, high, allowed = 0.0, most, alpha * NormalDist().cdf(3) * (1 - 1e-6) - _LEAST
    while high - low > 1e-4:
        middle = (low + high) / 2
        outside = 1 - middle / half - float(np.sum(np.sin(at * middle) * law_of))
        low, high = (low, middle) if outside <= allowed else (middle, high)
    return min(most, high + 3 * _H)


def _characteristic(law: WeightedLaw, at: npt.NDArray[np.floating[Any]], error: float) -> Floats:
    """The characteristic function of the sum, in so many grid steps each, at some points."""
    logs = np.zeros(at.shape)
    for weight, times, variance in law.parts:
        turn = weight / error * at
        if law.gaussian:
            logs += times * np.log(np.maximum(_of_gaussian(turn, math.sqrt(variance)), 1e-300))
        else:
            logs -= times * np.log1p(2 * variance * np.sin(turn / 2) ** 2)
    return np.asarray(np.exp(logs))


def _of_gaussian(turn: npt.NDArray[np.floating[Any]], scale: float) -> Floats:
    """The characteristic function of one discrete Gaussian draw."""
    if scale < 0.5:  # nearly all of it is in a few points
        each = np.arange(1, 12)
        mass = np.exp(-(each**2) / (2 * scale**2)) if scale else np.zeros(len(each))
        found = (1 + 2 * np.cos(turn[:, None] * each) @ mass) / (1 + 2 * mass.sum())
        return np.asarray(found)
    near = turn - 2 * math.pi * np.rint(turn / (2 * math.pi))
    # The next copy is below a double's last place of the copies before it. That of wide noise has none: its own one is
    # below 1e-137 where the next one begins to be larger.
    most = 0 if scale >= _WIDE else 1 if scale >= 1 else 3
    copies = np.arange(-most, most + 1) * (2 * math.pi)
    added = sum(np.exp(-((scale * (near - copy)) ** 2) / 2) for copy in copies)
    return np.asarray(added / np.exp(-((scale * copies) ** 2) / 2).sum())


@lru_cache(maxsize=1 << 12)
def _ripples(law: WeightedLaw) -> tuple[float, ...]:
    error = math.sqrt(law.variance)
    if not law.gaussian or not error:
        return (math.inf if error else 0.0,) * len(_SMOOTHED)
    at = np.arange(1, math.ceil(_ENDS / min(_SMOOTHED) / _FINE)) * _FINE
    apart = np.abs(_characteristic(law, at, error) - np.exp(-(at**2) / 2)) / at
    found = ((2 / math.pi) * _FINE * float((apart * np.exp(-((h * at) ** 2) / 2)).sum()) for h in _SMOOTHED)
    beyond = 2e-8  # of a g(h u) that is below that
    return tuple(1.01 * each + beyond + _LEAST for each in found)


def normal_reach(ripples: Sequence[float], alpha: float) -> float:
    """How many standard errors are enough for a sum of discrete Gaussian draws, given its ripple at each h.

    Args:
        ripples: As of :attr:`WeightedLaw.ripples`; of a combination of several sums, those of all added up.
        alpha: How often it may be farther away, at most.
    """
    found = math.sqrt(2 * math.log(2 / alpha))
    for h, ripple in zip(_SMOOTHED, ripples, strict=True):
        left = alpha * NormalDist().cdf(3) * (1 - 1e-9) - ripple
        if left > 0:
            found = min(found, math.sqrt(1 + h * h) * NormalDist().inv_cdf(1 - left / 2) + 3 * h)
    return found


def widest(least: float, confidence: Fraction) -> float:
    """The bound for any weights.

    Args:
        least: The least variance of a draw.
        confidence: Above 0 and below 1.
    """
    alpha, found = float(1 - confidence), 1 / math.sqrt(float(1 - confidence))
    for step in range(1, 200):
        rate, left = _moment(least, step / 200)
        found = min(found, math.log(2 / (alpha * left)) / rate)
    return found


def _moment(least: float, part: float) -> tuple[float, float]:
    """The l at which ``v (cosh(l / sqrt(v)) - 1)`` is this part of 1, and 1 less that part."""
    times = part / least
    if times < _TINY:
        rate = 2 * math.asinh(math.sqrt(times / 2))  # the same, of which 1 + times keeps few digits
    else:
        rate = math.acosh(1 + times) if times < math.inf else math.log(2 * part) - math.log(least)
    return math.sqrt(least) * rate, 1 - part


def reach_of_sum(weights: Floats, times: Floats, variances: Floats, confidence: Fraction) -> float:
    """The bound of discrete Laplace draws for given weights, in standard errors.

    Args:
        weights: Of any size.
        times: How many draws have each.
        variances: The variance of each of them.
        confidence: Above 0 and below 1.
    """
    total = float(np.sum(times * weights**2 * variances))
    if not total:
        return 0.0
    alpha, weights = float(1 - confidence), weights / math.sqrt(total)
    rate, left = _moment(float(variances.min()), 0.5)
    most = 1 / math.sqrt(alpha)
    beyond = 2 / left * math.exp(min(0.0, (rate * _H) ** 2 / 2 - _FAR))
    half = (most + _FAR / rate) / 2 + 1
    count = math.ceil(_ENDS / _H * half / math.pi)
    if count > _MOST_TERMS:  # nearly all of the law is in one point, and the series has no end
        return most
    at = np.arange(1, count + 1) * (math.pi / half)
    logs = -((at * _H) ** 2) / 2
    for weight, number, variance in zip(weights.tolist(), times.tolist(), variances.tolist(), strict=True):
        turn = weight * at
        # where the cosine keeps few digits of what it lacks of 1, the square of the sine of half the angle has them
        lacks = np.where(np.abs(turn) < _SLIGHT, 2 * np.sin(turn / 2) ** 2, 1 - np.cos(turn))
        logs -= number * np.log1p(variance * lacks)
    law = np.exp(logs) * 2 / (at * half)

    def outside(t: float) -> float:
        return 1 - t / half - float(np.sum(np.sin(at * t) * law)) + beyond

    low, high, allowed = 0.0, most, alpha * NormalDist().cdf(3) * (1 - 1e-6)
    if outside(high) > allowed:
        return most
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if outside(middle) <= allowed else (middle, high)
    return high + 3 * _H
