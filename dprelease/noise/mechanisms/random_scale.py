"""Random-scale Gaussian noise: k counts of one cell and their total behind a Gaussian of one secret scale.

A row moves every 2 c_i - n by 1 or -1, and the rows n of its cell by 1: with n weighed by kappa, which is about the
fourth root of k, always by the same length. So the noise may be any that has no direction, and for up to some 200
counts a Gaussian is not the best of these. Noise with the density exp(-|w| / s) is Gaussian noise whose variance is
random, 2 s^2 times a Gamma((d + 1) / 2) variable, d = k + 1 (classical); here that variable is one of eight, by Gauss'
quadrature for its law. The table is the mechanism, whatever it was made from: what it costs is worked out for the table
(``privacy.theorems.joint.random_scale``).

For each cell one scale is drawn, then a discrete Gaussian vector w on a grid of 2^-20 rows; c_i + (w_i + w_0 / kappa)
/ 2 is published, rounded to whole numbers, and n + w_0 / kappa is dropped, so that n need not even be counted.
Everything is proved in docs/proofs/random-scale.md; the construction is the project's own.

>>> round(RandomScaleMechanism().law(Fraction(10), 50).variance ** 0.5, 3)
5.358
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dprelease.errors import BrokenPromiseError
from dprelease.noise.exact import Exact
from dprelease.noise.mechanisms.knorm import hidden_jointly, least_margin
from dprelease.noise.native.draws import sampler_of
from dprelease.noise.native.entropy import Entropy
from dprelease.noise.sampler import add_noise
from dprelease.privacy.event import RandomScale
from dprelease.privacy.rounding import CONTEXT

__all__ = [
    "FEWEST_SCALED",
    "RandomScaleLaw",
    "RandomScaleMechanism",
    "ScaleTable",
    "scale_noise",
    "scale_table",
]

FEWEST_SCALED = 40
"""From so many counts on it is tried: for fewer, other noise is as little, and its curve is less sharp."""

_DOUBLINGS = 3  # of the digits of a float, to more than 60
_NODES = 8  # more of them gain less than a part in 10,000
_PARTS = 1024  # stretches are whole parts of this many, so that a scale of 40 binary digits stays a float
_WHOLE = 1 << 48  # the sum of the weights
_EIGHTHS = 8  # kappa is a whole number of these
_SLIP = 1e-5  # relative, of a tail: floats, and a grid instead of a line
_LARGEST = 1 << 38  # rows: 12 deviations of the largest stretch, in steps of the grid, are below 2^63
_SUMMED = 30  # rows up to which a variance is summed value by value


class ScaleTable(NamedTuple):
    """Which scales there are.

    Attributes:
        total: kappa.
        stretches: What the scale is multiplied by, rising.
        weights: How likely each is; they add up to 2^48.
    """

    total: Fraction
    stretches: tuple[Fraction, ...]
    weights: tuple[int, ...]


@lru_cache(maxsize=1024)
def scale_table(dimension: int) -> ScaleTable:
    """The table for k counts: Gauss' quadrature with eight places of x^((d-1)/2) exp(-x), d = k + 1, rounded.

    The place x stands for the variance 2 x / (d + 1), whose mean is 1: ``scale`` is the root mean square of the noise.
    The places are the roots of the generalized Laguerre polynomial of the power a = (d - 1) / 2, which are the
    eigenvalues of the matrix of its recurrence (Golub and Welsch 1969), bettered in 60 digits by Newton's rule; a
    weight is one over the sum of the squares of the orthonormal polynomials at its place (Christoffel's numbers).

    Raises:
        BrokenPromiseError: If there are fewer than two counts.
    """
    if dimension < 2:
        raise BrokenPromiseError("noise of one random scale is for at least two counts")
    found = _quadrature(CONTEXT.mpf(dimension) / 2)
    weights = [max(1, int(CONTEXT.nint(_WHOLE * share))) for _, share in found]
    weights[weights.index(max(weights))] += _WHOLE - sum(weights)
    stretches = (Fraction(int(CONTEXT.nint(_PARTS * CONTEXT.sqrt(2 * x / (dimension + 2)))), _PARTS) for x, _ in found)
    root = math.isqrt(math.isqrt(dimension * (2 * _EIGHTHS) ** 4))  # twice the eighths of the fourth root, rounded down
    return ScaleTable(Fraction((root + 1) // 2, _EIGHTHS), tuple(stretches), tuple(weights))


def _quadrature(power: Any) -> list[tuple[Any, Any]]:
    """The places of Gauss' quadrature of x^power exp(-x), rising, each with its part of the whole."""
    middles, squares = [2 * j + 1 + power for j in range(_NODES)], [j * (j + power) for j in range(_NODES)]
    sides = np.sqrt(np.array(squares[1:], dtype=np.float64))
    near = np.linalg.eigvalsh(np.diag(np.array(middles, dtype=np.float64)) + np.diag(sides, 1) + np.diag(sides, -1))
    found = []
    for start in near.tolist():
        place = CONTEXT.mpf(start)
        for _ in range(_DOUBLINGS):
            value, slope, _ = _laguerre(place, middles, squares)
            place -= value / slope
        found.append((place, 1 / _laguerre(place, middles, squares)[2]))
    return found


def _laguerre(place: Any, middles: Sequence[Any], squares: Sequence[Any]) -> tuple[Any, Any, Any]:
    """The monic polynomial of the recurrence, its slope, and the sum of the squares of those before it, normed."""
    before, value, rise, slope = CONTEXT.mpf(0), CONTEXT.mpf(1), CONTEXT.mpf(0), CONTEXT.mpf(0)
    norm, total = CONTEXT.mpf(1), CONTEXT.mpf(0)
    for middle, square in zip(middles, squares, strict=True):
        norm *= square or 1
        total += value * value / norm
        away = place - middle
        before, value, rise, slope = value, away * value - square * before, slope, value + away * slope - square * rise
    return value, slope, total


@dataclass(frozen=True)
class RandomScaleLaw:
    """The law of the noise on one count, in grid steps; all counts of a draw have the same.

    Given the scale s it is normal, rounded to whole numbers, with the variance s^2 (1 + 1 / kappa^2) / 4, up to a part
    in a million for the grid.

    Attributes:
        scale: In rows, positive.
        dimension: How many counts share a draw, at least two.
    """

    scale: Fraction
    dimension: int

    @property
    def parts(self) -> tuple[tuple[float, float], ...]:
        """The standard deviation before it is rounded, for each scale, and the probability of that scale."""
        table = scale_table(self.dimension)
        one = float(self.scale) * math.sqrt(1 + 1 / float(table.total) ** 2) / 2
        return tuple((one * float(s), w / _WHOLE) for s, w in zip(table.stretches, table.weights, strict=True))

    @cached_property
    def variance(self) -> float:
        """The mean of the variances and 1/12 for the rounding; of little noise the sum over its values."""
        if self.parts[0][0] > 2:
            return math.fsum(share * (one * one + 1 / 12) for one, share in self.parts)
        reach = _SUMMED + math.ceil(12 * self.parts[-1][0])
        return 2 * math.fsum((2 * m + 1) * self.tail(m) for m in range(reach)) / 2

    def mass(self, value: int) -> float:
        """P(noise = value)."""
        if value == 0:
            return 1 - self.tail(0)
        return (self.tail(abs(value) - 1) - self.tail(abs(value))) / 2

    def tail(self, margin: int) -> float:
        """P(|noise| > margin), for a margin >= 0."""
        near = (margin + 0.5) / math.sqrt(2)
        return math.fsum(share * math.erfc(near / one) for one, share in self.parts)

    @lru_cache(maxsize=4096)  # noqa: B019 - laws are small frozen values, and the cache is bounded
    def margin(self, confidence: Fraction) -> int:
        """The smallest m with P(|noise| <= m) >= confidence, by bisection of the tail, rounded up.

        Raises:
            BrokenPromiseError: If the confidence is not below 1.
        """
        return least_margin(lambda margin: self.tail(margin) * (1 + _SLIP), confidence)


class RandomScaleMechanism:
    """Noise for k counts that one row changes by 0 or 1, all in the same direction: for some 30 to 200 of them."""

    name = "random_scale"

    def event(self, scale: Fraction, dimension: int, gauge: Fraction) -> RandomScale:
        """What it costs; ``gauge`` is the number of rows that one unit changes, a replaced one twice."""
        table = scale_table(dimension)
        return RandomScale(
            dimension=dimension,
            total=table.total,
            scale=scale,
            stretches=table.stretches,
            weights=table.weights,
            rows=-(-gauge.numerator // gauge.denominator),
        )

    def law(self, scale: Fraction, dimension: int) -> RandomScaleLaw:
        """The distribution of the noise on one count."""
        return _law(scale, dimension)

    def draw_joint(self, exacts: Sequence[Exact], scale: Fraction) -> tuple[npt.NDArray[np.int64], ...]:
        """Noisy values of k counts, with one fresh noise vector per cell from operating-system entropy.

        The sum saturates at the limits of 64 bits, after the noise; that is post-processing.

        Args:
            exacts: k boxes, each of shape ``(cells,)``.
            scale: In grid steps, a rational of at most 40 binary digits.

        Returns:
            k arrays of type ``int64``, each of shape ``(cells,)``, in the order of the boxes.

        Raises:
            BrokenPromiseError: If there are fewer than two boxes, their lengths differ, or the scale is not positive or
                has more digits.
        """
        return hidden_jointly(exacts, scale, lambda cells: scale_noise(scale, len(exacts), cells))


@lru_cache(maxsize=1024)
def _law(scale: Fraction, dimension: int) -> RandomScaleLaw:
    return RandomScaleLaw(scale, dimension)


def scale_noise(scale: Fraction, dimension: int, cells: int) -> list[list[int]]:
    """Independent noise vectors on ``dimension`` counts, one per cell, from operating-system entropy.

    The places of the table are drawn first, then, for all cells of one place together, discrete Gaussian variables of
    its scale. Of w, in steps of 2^-20 rows, a count gets (w_i + w_0 / kappa) / 2, rounded half up.
    """
    table = scale_table(dimension)
    if scale > _LARGEST:
        raise BrokenPromiseError("noise of one random scale does not fit into 64 bits of its grid at so large a scale")
    ends = list(accumulate(table.weights))
    scales = [scale * stretch * RandomScale.GRAIN for stretch in table.stretches]
    for each in scales:
        # All are made ready, for they are kept: that of the secret one alone would tell it to whoever sees the memory.
        sampler_of("gaussian", each)
    with Entropy() as entropy:
        places = [bisect_right(ends, entropy.below(_WHOLE)) for _ in range(cells)]
    eighths = int(table.total * _EIGHTHS)
    whole = 2 * eighths * RandomScale.GRAIN
    noise: list[list[int]] = [[] for _ in range(cells)]
    for place in set(places):
        own = [cell for cell in range(cells) if places[cell] == place]
        nothing = np.zeros(len(own) * (dimension + 1), dtype=np.int64)
        drawn = add_noise("gaussian", nothing, scales[place]).tolist()
        for at, cell in enumerate(own):
            total, *counts = drawn[at * (dimension + 1) : (at + 1) * (dimension + 1)]
            noise[cell] = [(2 * (eighths * each + _EIGHTHS * total) + whole) // (2 * whole) for each in counts]
    return noise
