"""The law of a sum of two independent draws, for numbers that are put together from two measurements.

>>> from dprelease.noise import MECHANISMS
>>> one = MECHANISMS["discrete_laplace"].law(Fraction(10))
>>> one.margin(Fraction(95, 100)), SumLaw(one, one).margin(Fraction(95, 100))
(30, 41)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from dprelease.noise import Law
from dprelease.noise.mechanisms.discrete_gaussian import DiscreteGaussianLaw
from dprelease.noise.mechanisms.discrete_laplace import DiscreteLaplaceLaw

__all__ = ["SumLaw"]

Floats = npt.NDArray[np.float64]

_POINTS = 4096  # of the grid over one of the two draws; every integer of its bulk where the scale is below about 100
_EXACT = 2**14  # the largest scale of a discrete Gaussian that is summed point by point
_PAD = 1e-11  # relative; the sums below are of at most 2^20 positive doubles, each good to 1e-15


_Known = DiscreteLaplaceLaw | DiscreteGaussianLaw


@dataclass(frozen=True)
class SumLaw:
    """The law of X + weight Y, X and Y independent draws from symmetric laws on the integers.

    Attributes:
        first: Of X.
        second: Of Y.
        weight: A whole number; its sign changes nothing.
    """

    first: Law
    second: Law
    weight: int = 1

    @property
    def variance(self) -> float:
        """Variances of independent draws add up."""
        return self.first.variance + float(self.weight) ** 2 * self.second.variance

    @lru_cache(maxsize=1 << 14)  # noqa: B019 - laws are small frozen values, and the cache is bounded
    def margin(self, confidence: Fraction) -> int:
        """An m with P(|X + weight Y| <= m) >= confidence: the smallest, or larger by a hair where scales are large.

        The margins of two draws at half the error probability each, added up, are always enough (Bonferroni). For
        discrete Laplace and discrete Gaussian laws the smallest m below that is found by bisection on an upper bound
        of the tail. With w = |weight| and points y_0 < ... < y_n, P(X > m - w y) rises in y, so that
        P(X + w Y > m) = E[P(X > m - w Y)] is at most F_0 + sum_j (F_{j+1} - F_j) P(Y > y_j) + P(Y > y_n), with any
        rising F_j >= P(X > m - w y_j) (summation by parts). It is exact where the points are all integers.
        """
        alpha = 1 - confidence
        weight = abs(self.weight)
        if weight == 0:
            return self.first.margin(confidence)
        enough = self.first.margin(1 - alpha / 2) + weight * self.second.margin(1 - alpha / 2)
        first, second = self.first, self.second
        if not isinstance(first, _Known) or not isinstance(second, _Known):
            return enough
        points, beyond = _grid(second, alpha)
        low, high, within = -1, enough, max(1, enough >> 20)
        middle, step = round(NormalDist().inv_cdf(1 - float(alpha) / 2) * math.sqrt(self.variance)), 1
        while high - low > within:
            if within > 1 or not low < middle < high:
                middle = (low + high) // 2
            if 2 * _above(first, weight, middle, points, beyond) <= float(alpha) * (1 - _PAD):
                high, middle = middle, middle - step  # the guess is near: first one number after the other
            else:
                low, middle = middle, middle + step
            step *= 2
        return high


@lru_cache(maxsize=64)
def _grid(second: _Known, alpha: Fraction) -> tuple[Floats, Floats]:
    """Points over all but a millionth of alpha of a draw, and bounds of P(Y > y) at each."""
    reach = second.margin(1 - alpha / 10**6)
    points = np.linspace(-reach - 1, reach, _POINTS + 1).round()  # they rise: `unique`, without what that loads
    points = points[np.append(True, np.diff(points) > 0)]
    return points, _most_above(second, points)


def _above(first: _Known, weight: int, m: int, points: Floats, beyond: Floats) -> float:
    """An upper bound of P(X + weight Y > m), given P(Y > y) at the points y."""
    at = m - weight * points
    size = m + weight * np.abs(points)
    # Whole numbers up to 2^52 are exact in a double; beyond, a little less makes the bound larger.
    at = np.where(size > 2.0**52, np.floor(at - size * 2.0**-50), at)
    rising = np.maximum.accumulate(_most_above(first, at))
    parts = np.diff(rising) * beyond[:-1]
    return float(rising[0] + parts.sum() + beyond[-1])


def _most_above(law: _Known, at: Floats) -> Floats:
    """Upper bounds of P(noise > k) for whole numbers k of any sign; by symmetry 1 - P(noise > -k - 1)."""
    right = at >= 0
    size = np.where(right, at, -at - 1)
    least, most = _laplace(law, size) if isinstance(law, DiscreteLaplaceLaw) else _gaussian(law, size)
    return np.where(right, most, 1 - least)


def _laplace(law: DiscreteLaplaceLaw, size: Floats) -> tuple[Floats, Floats]:
    """Bounds of P(noise > k) = q^(k+1) / (1 + q), q = exp(-1 / scale), for k >= 0."""
    rate = 1 / float(law.scale)
    tail = np.exp(-rate * (size + 1)) / (1 + math.exp(-rate))
    # The exponent is wrong by at most 2^-52 of itself, and beyond 700 nothing counts.
    return tail * (1 - _PAD), tail * (1 + _PAD) + 1e-300


def _gaussian(law: DiscreteGaussianLaw, size: Floats) -> tuple[Floats, Floats]:
    """Bounds of P(noise > k) for k >= 0, by its lattice sums where the scale is not too large.

    For larger ones P(noise = j) = exp(-j^2 / (2 s^2)) / Z, with s sqrt(2 pi) <= Z <= s sqrt(2 pi) (1 + 1e-300)
    (Poisson summation; Canonne, Kamath and Steinke 2020, Fact 18); the falling summand lies between its integrals
    over [j, j + 1] and [j - 1, j], so that Q((k + 1) / s) (1 - 1e-300) <= P(noise > k) <= Q(k / s).
    """
    sigma = float(law.scale)
    if law.scale <= _EXACT:
        table = _lattice_tail(law.scale)
        found = table[np.minimum(size, len(table) - 1).astype(np.int64)]
        # The table ends at 14 scales or more; all that lies beyond is less than exp(-90).
        return np.maximum(found * (1 - _PAD) - 1e-39, 0), found * (1 + _PAD) + 1e-39
    return _normal_tail((size + 1) / sigma) * (1 - _PAD), _normal_tail(size / sigma) * (1 + _PAD) + 1e-300


@lru_cache(maxsize=64)
def _lattice_tail(scale: Fraction) -> Floats:
    """P(noise > k) for k = 0, 1, ... up to 14 scales, summed from the far end inwards so that no digit is lost."""
    sigma = float(scale)
    at = np.arange(1, int(14 * sigma) + 20, dtype=np.float64)
    tail = np.cumsum(np.exp(-(at * at) / (2 * sigma * sigma))[::-1])[::-1]
    shares: Floats = tail / (1 + 2 * tail[0])
    shares.flags.writeable = False
    return shares


def _normal_tail(at: Floats) -> Floats:
    """P(a standard normal variable > x), for x >= 0."""
    found: Floats = np.array([math.erfc(x) for x in (at / math.sqrt(2)).tolist()]) / 2
    return found
