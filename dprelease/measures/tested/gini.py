"""Gini coefficients from noisy counts along a grid: every coefficient that an exact test of the noise does not refuse.

With p_i the part of n values that lies in the classes up to i, of middles m_i that are d_i apart, the coefficient G is
the root of N - G S = 0, with S the sum of the middles of all values and N = n sum d_i p_i (1 - p_i). N is not linear in
the counts C_i, but as p (1 - p) is concave, n p^2 + (1 - 2 p) C is, for the true p, equal to it, and for another one
larger by n times the squared distance alone. So of the noisy counts C', with n' the last and p' = C' / n',

    sum d_i p'_i (n' - C'_i) - G S' + Q / n' = N - G S + Y,    Q = sum d_i (E_i - p_i E_n)^2,

where E is the noise, and Y is linear in it: sum d_i (1 - 2 p_i + G) E_i + (sum d_i p_i^2 - G m_n) E_n. What is not
known of p moves all by terms of the second order, which Q bounds. It holds for every data set, with no union over
classes (docs/proofs/quantiles-from-counts.md, section 7).

>>> round(trace_factor(Fraction(1, 200)), 2)
14.25
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dprelease.measures.prefix_counts import PrefixCounts
from dprelease.noise.mechanisms.discrete_gaussian import normal_margin

__all__ = ["Inequality", "gini", "trace_factor"]

Floats = npt.NDArray[np.float64]
_SECOND = Fraction(1, 10)  # of the error probability: for what is of the second order
_HALVINGS = 34  # to less than the hair below
_HAIR = 1e-9  # of the interval: thousands of sums of doubles lose far less
_LOST = 1e-7  # of a deviation: what the root of a difference of squares can lose to rounding


@lru_cache(maxsize=64)
def trace_factor(error: Fraction) -> float:
    """A c with P(|A Z|^2 > c trace(A A')) <= error for any A, and Z of independent sub-Gaussian numbers.

    Proof. Of independent Z with E exp(t Z_i) <= exp(t^2 / 2), as scaled discrete Gaussian draws have (Canonne, Kamath
    and Steinke 2020), and of a standard normal g beside, E exp(u |A Z|^2 / 2) = E exp(sqrt(u) g'A Z) <= E exp(u |A'g|^2
    / 2) = prod (1 - u v_i)^(-1/2), v_i the eigenvalues of A A', which is at most (1 - u trace)^(-1/2). With Markov, and
    u trace = 1 - 1/c, the probability is at most sqrt(c) exp(-(c - 1) / 2), which falls in c from 1 on.
    """
    low, high = 1.0, 2.0
    while math.sqrt(high) * math.exp(-(high - 1) / 2) > error:
        high *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if math.sqrt(middle) * math.exp(-(middle - 1) / 2) > error:
            low = middle
        else:
            high = middle
    return high


@dataclass(frozen=True, eq=False)
class Inequality:
    """Gini coefficients: each of shape ``(cells,)``, NaN where the noisy number of values, or their sum, is too small.

    Attributes:
        value: Nearly unbiased, moved into the interval.
        error: Its standard error to first order.
        lower: Where the interval begins, not below 0.
        upper: Where it ends, not above 1.
    """

    value: Floats
    error: Floats
    lower: Floats
    upper: Floats


def gini(prefixes: PrefixCounts, confidence: Fraction) -> Inequality:
    """The coefficient of the values of each cell, and an interval that holds it with the confidence.

    Args:
        prefixes: Of classes from 0 on.
        confidence: Of the interval.
    """
    known = prefixes.size >= 1
    blank = np.full(known.shape, np.nan)
    found = Inequality(blank, blank.copy(), blank.copy(), blank.copy())
    for cell in np.flatnonzero(known).tolist():
        one = _Cell(prefixes, prefixes.counts[cell])
        if one.sum <= 0:
            continue
        lower, upper = one.interval(confidence)
        found.value[cell] = min(max(one.value, lower), upper)
        found.error[cell] = one.error
        found.lower[cell], found.upper[cell] = lower, upper
    return found


class _Cell:
    """The test in one cell; everything in grid steps."""

    def __init__(self, prefixes: PrefixCounts, counts: Floats) -> None:
        """Works out what does not depend on the coefficient.

        Args:
            prefixes: Where the classes are, and their noise.
            counts: The noisy prefixes of the cell, ``(classes,)``, the last of which is 1 at least.
        """
        starts, ends = prefixes.starts.astype(np.float64), prefixes.ends.astype(np.float64)
        self._scale, self._smallest = float(prefixes.scale), prefixes.scale
        self._size, self._deviation_of_size = float(counts[-1]), math.sqrt(prefixes.variances[-1])
        middles = (starts + ends) / 2
        apart = np.append(np.diff(middles), 0.0)
        part = counts / self._size
        # The noise of N - G S is that of (one + G two)'E, and of what values may be away from their middles, away'E.
        one, two = apart * (1 - 2 * part), apart.copy()
        one[-1] += float(apart @ part**2)
        two[-1] -= float(middles[-1])
        away = _away(starts, ends)
        self._plain, self.sum = float(apart @ (part * (self._size - counts))), -float(two @ counts)
        self._away = float(away @ counts)
        spread = np.stack([one, two, away]) @ prefixes.drawn
        self._products = self._scale**2 * (spread @ spread.T)
        least = prefixes.variances
        most = np.maximum(least, least - 2 * prefixes.shared + least[-1])
        self._trace = float(apart @ most)
        self._mean_of_squares = float(apart @ (least - 2 * part * prefixes.shared + part**2 * least[-1]))

    @property
    def value(self) -> float:
        """With the mean of Q added, by which the coefficient of noisy counts is too small."""
        return min(max((self._plain + self._mean_of_squares / self._size) / self.sum, 0.0), 1.0)

    @property
    def error(self) -> float:
        """To first order."""
        return self._deviation(self.value, 0.0) / self.sum

    def _deviation(self, coefficient: float, away: float) -> float:
        weights = np.array([1.0, coefficient, away])
        return math.sqrt(max(float(weights @ self._products @ weights), 0.0))

    def interval(self, confidence: Fraction) -> tuple[float, float]:
        """The hull of the coefficients that neither side refuses.

        Each side refuses an interval of coefficients at most: the noise's deviation is convex in G, and what it is
        held against is linear. So the borders are found by halving between an end that is refused and one that is not.
        """
        error = 1 - confidence
        factor = trace_factor(error * _SECOND)
        reach = normal_margin(1 - error * (1 - _SECOND), self._smallest) * (1 + _HAIR)
        second = factor * self._trace / self._size
        beside = 2 * math.sqrt(factor) * self._trace / self._size + second * self._deviation_of_size / self._size
        beside += _LOST * math.sqrt(float(np.trace(self._products)))

        def too_small(coefficient: float) -> bool:
            moved = (1 + coefficient) * self._away
            noise = reach * (self._deviation(coefficient, -(1 + coefficient)) + beside)
            return self._plain - coefficient * self.sum - moved > noise

        def too_large(coefficient: float) -> bool:
            moved = (1 + coefficient) * self._away
            noise = reach * (self._deviation(coefficient, 1 + coefficient) + beside)
            return self._plain - coefficient * self.sum + second + moved < -noise

        lower = _border(too_small, 0.0, 1.0) if too_small(0.0) else 0.0
        upper = _border(too_large, 1.0, 0.0) if too_large(1.0) else 1.0
        value = self.value
        return min(max(lower - _HAIR, 0.0), value), max(min(upper + _HAIR, 1.0), value)


def _border(refused: Callable[[float], bool], inside: float, outside: float) -> float:
    """The last coefficient that is refused on the way from one end, which is, to the other; that end if all are."""
    if refused(outside):
        return outside
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        if refused(middle):
            inside = middle
        else:
            outside = middle
    return outside


def _away(starts: Floats, ends: Floats) -> Floats:
    """Weights of the prefixes: the sum of them, (1 + G) times, is how far N - G S may be from that of the middles.

    A value that moves by x moves N - G S by at most |2 r - 1 - G| x, with r its rank in the middle of its ties, from 0
    to 1. That is at most 1 + G; and over all values together (1 + G^2) / 2 of their number, for the mean of a convex
    function over the middles of n equal parts is not above its integral, nor is one of ties above that of their ranks.
    So where all classes are as wide (the last may be narrower) half of it is enough, as G^2 <= G.
    """
    half = (ends - starts) / 2
    if (half[:-1] == half[0]).all() and half[-1] <= half[0]:
        return np.append(np.zeros(len(half) - 1), half[0] / 2)
    return np.append(half[:-1] - half[1:], half[-1])
