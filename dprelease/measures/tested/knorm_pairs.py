"""Two numbers of one K-norm draw together: the probability that one is at least i while the other is y.

A draw of k integers is uniform on the ball of a radius R, P(R) in proportion to q^R times the number of points of that
ball, q = exp(-1 / scale) (docs/proofs/integer-knorm.md). Two of its coordinates x and y have a mass g(w) that depends
on one number alone: of the ball of counts w is the range of 0, x and y, and a ball of radius R >= w has
(R - w + 1) (R + 1)^(k - 2) - (R - w) R^(k - 2) points above them (vectors in shifts of [0, R]^k, those in two shifts
counted once); of the cube w = max(|x|, |y|) and there are (2 R + 1)^(k - 2). Summed over R by parts, the first is
(1 - q) times the double sum of q^R (R + 1)^(k - 2) from w on.

>>> from fractions import Fraction
>>> law = KNormLaw("count", Fraction(2), 2)
>>> float(KNormPair.of(law).at_least(np.array([-100.0]), np.array([0.0]))[0].round(6)) == round(law.mass(0), 6)
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dprelease.noise.mechanisms.knorm import KNormLaw
from dprelease.noise.mechanisms.lattice_ball import Ball

__all__ = ["KNormPair"]

Floats = npt.NDArray[np.float64]
_MOST = 1 << 17  # radii: beyond it the sums would take too long
_PAD = 1e-9  # relative; the sums are of at most 2^17 positive doubles, three times over, each good to 1e-15


@dataclass(frozen=True, eq=False)
class KNormPair:
    """The mass of two coordinates by w, and its sums from w on; zero at the end.

    Attributes:
        ball: The norm.
        mass: g(0), g(1), ... and a zero, upper bounds by a hair.
        above: G(w), the sum of g from w on.
    """

    ball: Ball
    mass: Floats
    above: Floats

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, law: KNormLaw) -> KNormPair | None:
        """The pairs of a law but for less than e^-70; None where there are too many radii, or no two numbers."""
        scale, others = float(law.scale), law.dimension - 2
        # From the peak at ``others * scale`` on the summands fall, in the end by 1 / scale in the exponent.
        size = math.ceil((2 * others + 100) * (scale + 1))
        if others < 0 or size > _MOST:
            return None
        radius = np.arange(size, dtype=np.float64)
        base = radius + 1 if law.ball == "count" else 2 * radius + 1
        logs = others * np.log(base) - radius / scale
        sums = _from_the_end(np.exp(logs - logs.max()))
        mass = np.append(_from_the_end(sums) if law.ball == "count" else sums, 0.0)
        pair = cls(law.ball, mass, _from_the_end(mass))
        ends = np.arange(-size, size + 1, dtype=np.float64)
        total = float(pair.at_least(np.full(ends.shape, -float(size)), ends).sum()) * (1 - _PAD)
        return cls(law.ball, mass / total, pair.above / total)

    def at_least(self, first: Floats, second: Floats) -> Floats:
        """P(x >= i, y = j) for whole numbers i and j, elementwise; an upper bound by a hair.

        It is the sum of g(w) over all x from i on. Where w is the range of 0, x and y, it is x - y for x above and
        y < 0, the larger one for x, y >= 0, and so on; each stretch of x on which w grows by 1 is a difference of G.
        """
        i, j = np.broadcast_arrays(first, second)
        size = np.abs(j)
        g = self._at(self.mass, size)
        if self.ball == "linf":
            within = np.clip(size - i + 1, 0, 2 * size + 1) * g
            return np.where(
                i > size,
                self._at(self.above, i),
                within + self._at(self.above, size + 1)
                + np.where(i < -size, self._at(self.above, size + 1) - self._at(self.above, 1 - i), 0.0),
            )  # fmt: skip
        # Of count balls: for j < 0 the range is -j for j <= x <= 0, x - j above, -x below; and so turned for j >= 0.
        low, high = np.where(j >= 0, 0.0, j), np.where(j >= 0, j, 0.0)
        above = self._at(self.above, np.maximum(i, high + 1) - low)  # x > high: w = x - low
        between = np.clip(high - np.maximum(i, low) + 1, 0, None) * g  # low <= x <= high: w = high - low
        below = np.where(i < low, self._at(self.above, size + 1) - self._at(self.above, high - i + 1), 0.0)
        return np.asarray(above + between + np.maximum(below, 0.0))

    @staticmethod
    def _at(numbers: Floats, place: Floats) -> Floats:
        return np.asarray(numbers[np.clip(place, 0, len(numbers) - 1).astype(np.int64)])


def _from_the_end(numbers: Floats) -> Floats:
    """For each place the sum of all from there on."""
    return np.asarray(np.cumsum(numbers[::-1])[::-1])
