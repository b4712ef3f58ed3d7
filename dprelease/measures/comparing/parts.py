"""The share of a number in a total that it is a part of: all shares that an exact test of the noise does not refuse.

With A' the noisy part and T' the noisy total, W(r) = A' - r T' is noise alone at the true share r (the argument is that
of ``tested.quotients``). Both are weighted sums of the same independent draws, so that W(r) is one, with the weights
a - r b: its law knows what the two have in common. For brackets of r, with r_0 in the middle and T the total's noise,

    |W(r)| <= |W(r_0)| + |r - r_0| |T|,

so that the margin of W(r_0) at an error probability of alpha - e, and half the bracket times that of T at e, are enough
for every r of it, whatever depends on what.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dprelease.measures.tested.brackets import Brackets, hull
from dprelease.noise.weighted_sums import WeightedLaw, reach_of_gaussians

__all__ = ["TwoSums", "share_reach", "share_sets"]

Floats = npt.NDArray[np.float64]

_FINE = 0.02  # of u, where the borders of brackets are c + s sinh(u)
_APART = Fraction(1, 200)  # of alpha: spent on the width of a bracket


class TwoSums(NamedTuple):
    """Two weighted sums of the same independent draws.

    Attributes:
        parts: Weight in the part, weight in the total, how many draws have both, and their variance (of Gaussian draws
            the square of their scale).
        gaussian: Whether the draws are discrete Gaussian; else they are discrete Laplace.
    """

    parts: tuple[tuple[float, float, int, float], ...]
    gaussian: bool

    def at(self, share: float) -> WeightedLaw:
        """The law of W(r)."""
        found = tuple((abs(a - share * b), times, variance) for a, b, times, variance in self.parts)
        return WeightedLaw(tuple(each for each in found if each[0]), self.gaussian)

    @property
    def total(self) -> WeightedLaw:
        """The law of the total's noise."""
        return WeightedLaw(tuple((abs(b), times, v) for _, b, times, v in self.parts if b), self.gaussian)

    @property
    def moments(self) -> tuple[float, float, float]:
        """The variance of the part, that of the total, and their covariance."""
        one = math.fsum(times * a * a * v for a, _, times, v in self.parts)
        two = math.fsum(times * b * b * v for _, b, times, v in self.parts)
        return one, two, math.fsum(times * a * b * v for a, b, times, v in self.parts)

    def error(self, share: Floats | float) -> Floats:
        """The standard deviation of W(r)."""
        one, two, both = self.moments
        share = np.asarray(share, dtype=np.float64)
        return np.sqrt(np.maximum(one - 2 * share * both + share**2 * two, 0.0))


def share_sets(part: Floats, total: Floats, sums: TwoSums, confidence: Fraction) -> tuple[Floats, Floats]:
    """The least and the largest share between 0 and 1 that the noise does not refuse.

    Where the noisy pair could not be true (the part is negative, or larger than the total) the set is joined with that
    of the nearest pair that could, so that none is empty.

    Args:
        part: The noisy parts, ``(cells,)``.
        total: The noisy totals of the same shape; where one is not above 0 nothing is said (NaN).
        sums: The noise of the two.
        confidence: How often the set holds the true share, at least, where the true total is not 0.
    """
    low, high = np.full(part.shape, np.nan), np.full(part.shape, np.nan)
    known = total > 0
    if not known.any():
        return low, high
    table = _brackets(sums, confidence)
    above, below = part[known], total[known]
    found = hull(above, below, table)
    moved = hull(np.clip(above, 0.0, below), below, table)
    low[known], high[known] = np.fmin(found[0], moved[0]), np.fmax(found[1], moved[1])
    return low, high


def share_reach(sums: TwoSums, share: float, confidence: Fraction) -> float:
    """A q with P(|W(r)| <= q) >= confidence at one share r.

    Args:
        sums: The noise of part and total.
        share: r.
        confidence: How often.
    """
    law = sums.at(share)
    error = math.sqrt(law.variance)
    if not law.gaussian or not error:
        return float(law.margin(confidence))
    return error * reach_of_gaussians(law, float(1 - confidence))


@lru_cache(maxsize=64)
def _brackets(sums: TwoSums, confidence: Fraction) -> Brackets:
    one, two, both = sums.moments
    centre = both / two
    spread = math.sqrt(max(one / two - centre**2, 0.0)) or 1.0
    low, high = math.asinh(-centre / spread), math.asinh((1 - centre) / spread)
    borders = centre + spread * np.sinh(np.linspace(low, high, max(2, math.ceil((high - low) / _FINE) + 1)))
    borders[0], borders[-1] = 0.0, 1.0
    first, last = borders[:-1], borders[1:]
    alpha = 1 - confidence
    beside = float(sums.total.margin(1 - alpha * _APART))
    near = [share_reach(sums, r, 1 - alpha * (1 - _APART)) for r in ((first + last) / 2).tolist()]
    return Brackets(first, last, np.array(near) + (last - first) / 2 * beside)
