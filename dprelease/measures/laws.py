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
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dprelease.noise import Law
from dprelease.noise.mechanisms.discrete_gaussian import DiscreteGaussianLaw
from dprelease.noise.mechanisms.discrete_laplace import DiscreteLaplaceLaw
from dprelease.noise.mechanisms.knorm import KNormLaw
from dprelease.noise.mechanisms.total_residual import TotalResidualLaw
from dprelease.noise.weighted_sums import WeightedLaw

__all__ = [
    "NORMAL_STEPS",
    "DrawBlocks",
    "KnownLaw",
    "SharedLaw",
    "SumLaw",
    "draw_blocks",
    "normal_table",
    "tail_above",
]

Floats = npt.NDArray[np.float64]

_POINTS = 4096  # of the grid over one of the two draws; every integer of its bulk where the scale is below about 100
_EXACT = 2**14  # the largest scale of a discrete Gaussian that is summed point by point
NORMAL_STEPS = 4096  # of the table of the normal tail, a standard deviation
_PAD = 1e-11  # relative; the sums below are of at most 2^20 positive doubles, each good to 1e-15


KnownLaw = DiscreteLaplaceLaw | DiscreteGaussianLaw
"""Of draws for every number by itself: two of them are independent."""

SharedLaw = KNormLaw | TotalResidualLaw
"""Of one number of a draw of several: two of them may be of one draw, and depend on each other."""


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
    def margin(self, confidence: Fraction) -> float:
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
        if isinstance(self.first, WeightedLaw) and isinstance(self.second, WeightedLaw):
            return self.first.plus(self.second, weight).margin(confidence)
        enough = self.first.margin(1 - alpha / 2) + weight * self.second.margin(1 - alpha / 2)
        first, second = self.first, self.second
        if not isinstance(first, KnownLaw) or not isinstance(second, KnownLaw):
            return enough
        points, beyond = _grid(second, alpha)
        low, high, within = -1, int(enough), max(1, int(enough) >> 20)
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
def _grid(second: KnownLaw, alpha: Fraction) -> tuple[Floats, Floats]:
    """Points over all but a millionth of alpha of a draw, and bounds of P(Y > y) at each."""
    reach = second.margin(1 - alpha / 10**6)
    points = _whole(reach, _POINTS)
    return points, _most_above(second, points)


def _whole(reach: int, most: int) -> Floats:
    """At most so many whole numbers and one, evenly from -reach - 1 to reach, each once."""
    if 2 * reach + 1 <= most:
        return np.arange(-reach - 1, reach + 1, dtype=np.float64)
    points = np.linspace(-reach - 1, reach, most + 1).round()
    return np.asarray(points[np.append(True, np.diff(points) > 0)])  # they rise: `unique`, without what that loads


def _above(first: KnownLaw, weight: int, m: int, points: Floats, beyond: Floats) -> float:
    """An upper bound of P(X + weight Y > m), given P(Y > y) at the points y."""
    top, last = m - weight * int(points[0]), m - weight * int(points[-1])
    if weight == 1 and top - last == len(points) - 1 and 0 <= top < _POINTS:
        # One whole number after the other: each tail is looked up, on the right of 0 and on the left of it.
        least, most = _tails(first, -(-max(top + 1, -last) // 256) * 256)
        rising = most[max(last, 0) : top + 1][::-1]
        rising = rising if last >= 0 else np.concatenate([rising, 1 - least[:-last]])
    else:
        at, size = m - weight * points, m + weight * np.abs(points)
        # Whole numbers up to 2^52 are exact in a double; beyond, a little less makes the bound larger.
        rising = _most_above(first, np.where(size > 2.0**52, np.floor(at - size * 2.0**-50), at))
    rising = np.maximum.accumulate(rising)
    parts = (rising[1:] - rising[:-1]) * beyond[:-1]
    return float(rising[0] + parts.sum() + beyond[-1])


@lru_cache(maxsize=4)
def _tails(law: KnownLaw, size: int) -> tuple[Floats, Floats]:
    """Lower and upper bounds of P(noise > k) for k = 0, 1, ..., size - 1."""
    at = np.arange(size, dtype=np.float64)
    return _laplace(law, at) if isinstance(law, DiscreteLaplaceLaw) else _gaussian(law, at)


def _most_above(law: KnownLaw, at: Floats) -> Floats:
    """Upper bounds of P(noise > k) for whole numbers k of any sign; by symmetry 1 - P(noise > -k - 1)."""
    return _survival(law, at)[1]


def _survival(law: KnownLaw, at: Floats) -> tuple[Floats, Floats]:
    """Lower and upper bounds of the same."""
    right = at >= 0
    size = np.where(right, at, -at - 1)
    least, most = _laplace(law, size) if isinstance(law, DiscreteLaplaceLaw) else _gaussian(law, size)
    return np.where(right, least, 1 - most), np.where(right, most, 1 - least)


def _one_of_several(law: SharedLaw, at: Floats) -> tuple[Floats, Floats]:
    """The same of one number of a draw, by the tail of both sides."""
    tails = {size: law.tail(size) / 2 for size in {int(k) if k >= 0 else int(-k) - 1 for k in at.tolist()}}
    upper = np.array([tails[int(k)] if k >= 0 else 1 - tails[int(-k) - 1] for k in at.tolist()])
    return upper - _PAD * np.maximum(upper, 1 - upper), upper * (1 + _PAD)


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


class DrawBlocks(NamedTuple):
    """A draw in blocks of its values: nearly all of it.

    Attributes:
        first: The first whole number of each block.
        last: Its last one.
        mass: An upper bound of the probability of each.
        beyond: One of the probability of all values above the last block, and as well of those below the first.
    """

    first: Floats
    last: Floats
    mass: Floats
    beyond: float


@lru_cache(maxsize=64)
def draw_blocks(law: KnownLaw | SharedLaw, alpha: Fraction) -> DrawBlocks:
    """All but a millionth of alpha of a draw, in at most 4,096 blocks; each is one number where the scale is small.

    Of one number of a draw of several there are at most 512, for their tails take longer.
    """
    reach, shared = law.margin(1 - alpha / 10**6), isinstance(law, SharedLaw)
    borders = _whole(reach, _POINTS // 8 if shared else _POINTS)
    least, most = _one_of_several(law, borders) if isinstance(law, SharedLaw) else _survival(law, borders)
    return DrawBlocks(borders[:-1] + 1, borders[1:], most[:-1] - least[1:], float(most[-1]))


def tail_above(law: KnownLaw, at: Floats) -> Floats:
    """An upper bound of P(noise > x) for real x, elementwise; for many numbers at once."""
    whole = np.floor(at)
    size = np.where(whole >= 0, whole, -whole - 1)
    if isinstance(law, DiscreteLaplaceLaw) or law.scale <= _EXACT:
        least, most = _laplace(law, size) if isinstance(law, DiscreteLaplaceLaw) else _gaussian(law, size)
        return np.where(whole >= 0, most, 1 - least)
    # As in _gaussian, by a table of the normal tail: a value between two of its points takes the bound at the lower
    # one, and below 0 the larger of P = 1 - P(noise > size).
    table, far = normal_table(), len(normal_table()) - 1
    steps = size * (NORMAL_STEPS / float(law.scale))
    down = table[np.minimum(steps, far).astype(np.int64)]
    up = table[np.minimum((size + 1) * (NORMAL_STEPS / float(law.scale)) + 1, far).astype(np.int64)]
    return np.where(whole >= 0, down * (1 + _PAD) + 1e-300, 1 - np.where(steps < far - 1, up, 0.0) * (1 - _PAD))


@lru_cache(maxsize=1)
def normal_table() -> Floats:
    """The tail of the standard normal law at 0, 1 / 4096, 2 / 4096, ... up to 38, beyond which no double has it."""
    return _normal_tail(np.arange(38 * NORMAL_STEPS) / NORMAL_STEPS)
