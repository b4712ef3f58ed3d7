"""Intervals of a variance: all variances that an exact test of the noise does not refuse, at some possible mean.

Three noisy numbers S2', S1' and N' of a cell are of squares (in grains of g, each less an offset o), of values and of
rows. With the true mean m = S1 / N and the true variance v = g (S2 / N + o) - m^2 the number

    U(m, v) = g S2' - 2 m S1' + (g o + m^2 - v) N'

is noise alone, g X2 - 2 m X1 + (g o + m^2 - v) Y: the true numbers make it N (v + m^2 - 2 m^2 + m^2 - v) = 0.
So a pair (m, v) is refused where |U| is larger than this noise is but with probability alpha_2. The interval has every
v that some m of a set M does not refuse, where M holds the true mean with probability 1 - alpha_1
(``tested.quotients``): it holds the true v with probability 1 - alpha_1 - alpha_2, whatever the data are. U is flat in
m where it is least, so that not knowing m costs little.

The tail of the noise is that of three independent continuous variables of the same scales. A discrete Laplace variable
X and a continuous one L of its scale can be drawn so that |X - L| <= 1, for with q = exp(-1 / scale) and k >= 0
P(L > k + 1) = q^(k+1) / 2 <= P(X > k) = q^(k+1) / (1 + q) <= P(L > k) = q^k / 2. So can a discrete Gaussian variable
and a normal one (``measures.laws``: Q((k + 1) / s) <= P(X > k) <= Q(k / s), but for less than exp(-2 pi^2 s^2)). So |U|
exceeds t with at most the probability that the continuous sum exceeds t less the sizes of the three weights. Tails of
symmetric unimodal sums rise with each scale (Anderson 1955), so that over a rectangle of means and variances the
largest weights and the least |U| bound all of its tests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dprelease.measures.laws import NORMAL_STEPS, normal_table
from dprelease.measures.tested.quotients import Draw, quotients
from dprelease.noise import Law
from dprelease.noise.mechanisms.discrete_gaussian import DiscreteGaussianLaw
from dprelease.noise.mechanisms.discrete_laplace import DiscreteLaplaceLaw

__all__ = ["BOX", "Moments", "spreads"]

Floats = npt.NDArray[np.float64]

BOX = Fraction(1, 10)
"""Of alpha: what the box of margins gets, with which the set is cut."""

_OF_MEAN = Fraction(1, 10)  # of what is left: the set of means
_MEANS, _COARSE, _FINE = 8, 64, 24  # pieces of the means, of the variances, and of the piece at either end
_AT_ONCE = 128  # cells beside all pieces
_APART = 1.002  # the least ratio of two Laplace scales, to which the larger one is raised
_NARROW = 4  # the least scale of a discrete Gaussian: exp(-2 pi^2 16) is below 1e-137
_ROUNDING = 2.0**-46  # relative; what doubles lose in U


class Moments(NamedTuple):
    """The noisy numbers of cells, and how they are made; values in steps from the centre of the clip.

    Attributes:
        squares: S2', ``(cells,)``.
        sums: S1'.
        counts: N'; where it is below 1 or NaN nothing is said.
        grain: g.
        offset: o, in grains.
        means: The least and the largest that a mean can be.
        laws: Of the noise on the three.
    """

    squares: Floats
    sums: Floats
    counts: Floats
    grain: float
    offset: float
    means: tuple[float, float]
    laws: Sequence[Law]

    def part(self, which: npt.NDArray[np.intp]) -> Moments:
        """Some of the cells."""
        return self._replace(squares=self.squares[which], sums=self.sums[which], counts=self.counts[which])


def spreads(cells: Moments, least: Floats, most: Floats, confidence: Fraction) -> tuple[Floats, Floats] | None:
    """The least and the largest variance within a box that the noise does not refuse.

    Args:
        cells: The noisy numbers.
        least: Of each cell the lower end of an interval that holds its variance but with probability ``BOX`` times what
            the confidence leaves; in squared steps.
        most: The upper end.
        confidence: How often set and box hold the variance together, at least.

    Returns:
        Both ends, ``(cells,)``, NaN where nothing is said or nothing is left; None for laws that are not tested.
    """
    kinds = {type(law) for law in cells.laws}
    if kinds not in ({DiscreteLaplaceLaw}, {DiscreteGaussianLaw}):
        return None
    scales = np.array([float(law.scale) for law in cells.laws])  # type: ignore[attr-defined]  # both have one
    laplace = kinds == {DiscreteLaplaceLaw}
    if not laplace and scales.min() < _NARROW:
        return None
    alpha = (1 - confidence) * (1 - BOX)
    known = cells.counts >= 1
    low, high = np.full(least.shape, np.nan), np.full(least.shape, np.nan)
    draws = (Draw(cells.laws[1], 1.0, 0.0), Draw(cells.laws[2], 0.0, 1.0))
    counts = np.where(known, cells.counts, np.nan)
    first, last = quotients(cells.sums, counts, draws, cells.means, 1 - alpha * _OF_MEAN)
    places = np.flatnonzero(known & np.isfinite(first) & np.isfinite(last) & (least <= most))
    for start in range(0, len(places), _AT_ONCE):
        at = places[start : start + _AT_ONCE]
        test = _Test(cells.part(at), first[at], last[at], scales, laplace, float(alpha * (1 - _OF_MEAN)))
        low[at], high[at] = test.ends(least[at], most[at])
    return low, high


class _Test(NamedTuple):
    """The test of some cells: a rectangle of means and variances is refused if all of its pairs are."""

    cells: Moments
    first: Floats
    last: Floats
    scales: Floats
    laplace: bool
    alpha: float

    def ends(self, least: Floats, most: Floats) -> tuple[Floats, Floats]:
        """The hull of the variances that are not refused: the outer ends of pieces, and of pieces of these."""
        share = np.linspace(0.0, 1.0, _COARSE + 1)
        borders = least[:, None] + (most - least)[:, None] * share
        borders[:, -1] = most
        kept = self._kept(borders[:, :-1], borders[:, 1:])
        none = ~kept.any(axis=1)
        rows = np.arange(len(least))
        lowest, highest = kept.argmax(axis=1), _COARSE - 1 - kept[:, ::-1].argmax(axis=1)
        low = self._end(borders[rows, lowest], borders[rows, lowest + 1], lower=True)
        high = self._end(borders[rows, highest], borders[rows, highest + 1], lower=False)
        low[none], high[none] = np.nan, np.nan
        return low, high

    def _end(self, left: Floats, right: Floats, *, lower: bool) -> Floats:
        """The outer end of the first piece of a piece that is kept; where none is, the inner end of all."""
        share = np.linspace(0.0, 1.0, _FINE + 1)
        borders = left[:, None] + (right - left)[:, None] * share
        borders[:, -1] = right
        kept = self._kept(borders[:, :-1], borders[:, 1:])
        rows, some = np.arange(len(left)), kept.any(axis=1)
        if lower:
            return np.where(some, borders[rows, kept.argmax(axis=1)], right)
        return np.where(some, borders[rows, _FINE - kept[:, ::-1].argmax(axis=1)], left)

    def _kept(self, left: Floats, right: Floats) -> npt.NDArray[np.bool_]:
        """Whether a pair of a mean and a variance of each piece may not be refused; ``(cells, pieces)``."""
        share = np.linspace(0.0, 1.0, _MEANS + 1)
        means = self.first[:, None] + (self.last - self.first)[:, None] * share
        kept = np.zeros(left.shape, dtype=bool)
        for m0, m1 in zip(means.T[:-1, :, None], means.T[1:, :, None], strict=True):
            kept |= self._possible(m0, m1, left, right)
        return kept

    def _possible(self, m0: Floats, m1: Floats, v0: Floats, v1: Floats) -> npt.NDArray[np.bool_]:
        cells = self.cells
        squares, sums, counts = (each[:, None] for each in (cells.squares, cells.sums, cells.counts))
        grain, base = cells.grain, cells.grain * cells.offset
        turn = np.clip(sums / counts, m0, m1)  # U is a parabola in m, least there
        ends = [grain * squares - 2 * m * sums + (base + m * m) * counts for m in (m0, m1, turn)]
        lowest, highest = ends[2] - v1 * counts, np.maximum(ends[0], ends[1]) - v0 * counts
        size = np.maximum(np.abs(m0), np.abs(m1))
        nearest = np.where((m0 <= 0) & (m1 >= 0), 0.0, np.minimum(m0 * m0, m1 * m1))
        weight = np.maximum(np.abs(base + nearest - v1), np.abs(base + size * size - v0))
        lost = _ROUNDING * (grain * np.abs(squares) + 2 * size * np.abs(sums) + (base + size * size + v1) * counts)
        reach = np.maximum(np.maximum(lowest, -highest), 0.0) - lost - (grain + 2 * size + weight)
        scales = np.stack(
            np.broadcast_arrays(grain * self.scales[0], 2 * size * self.scales[1], weight * self.scales[2])
        )
        tail = _laplace_tail(scales, reach) if self.laplace else _normal_tail(scales, reach)
        return np.asarray((reach <= 0) | (tail > self.alpha))


def _normal_tail(scales: Floats, reach: Floats) -> Floats:
    """P(|Z| > t) of a sum of normal variables: the tail at the nearest point of a table below."""
    at, table = np.maximum(reach, 0.0) / np.sqrt((scales**2).sum(axis=0)), normal_table()
    return np.asarray(2 * table[np.minimum(at * NORMAL_STEPS, len(table) - 1).astype(np.int64)])


def _laplace_tail(scales: Floats, reach: Floats) -> Floats:
    """P(|L1 + L2 + L3| > t) of Laplace variables, by partial fractions; near scales are pulled apart, upwards."""
    one, two, three = np.sort(scales, axis=0)
    one = np.maximum(one, three * 1e-9)
    two = np.maximum(two, _APART * one)
    three = np.maximum(three, _APART * two)
    at = np.maximum(reach, 0.0)
    found = np.zeros(np.broadcast_shapes(one.shape, at.shape))
    for own, *others in ((one, two, three), (two, one, three), (three, one, two)):
        share = math.prod((own**2 / (own**2 - other**2) for other in others), start=np.ones(own.shape))
        found = found + share * np.exp(-at / own)
    return found + 1e-9
