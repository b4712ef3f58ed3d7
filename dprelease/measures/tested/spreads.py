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

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dprelease.measures.laws import NORMAL_STEPS, normal_table
from dprelease.measures.tested.brackets import Bools, Floats, Ints, first_kept
from dprelease.measures.tested.quotients import Draw, quotients
from dprelease.noise import Law
from dprelease.noise.mechanisms.discrete_gaussian import DiscreteGaussianLaw
from dprelease.noise.mechanisms.discrete_laplace import DiscreteLaplaceLaw

__all__ = ["BOX", "Moments", "spreads"]


Scales = tuple[float, Floats, Floats]

BOX = Fraction(1, 10)
"""Of alpha: what the box of margins gets, with which the set is cut."""

_OF_MEAN = Fraction(1, 10)  # of what is left: the set of means
_MEANS, _COARSE, _FINE = 8, 64, 24  # pieces of the means, of the variances, and of the piece at either end
_AT_ONCE = 1 << 14  # cells
_APART = 1.002  # the least ratio of two Laplace scales, to which the larger one is raised
_TINY = 1e-300  # in the place of a width of 0
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
    if kinds == {DiscreteGaussianLaw} and scales.min() < _NARROW:
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
        test = _Test(cells.part(at), first[at], last[at], scales, float(alpha * (1 - _OF_MEAN)))
        low[at], high[at] = test.ends(least[at], most[at])
    return low, high


class _Test:
    """The test of some cells: a rectangle of means and variances is refused if all of its pairs are."""

    def __init__(self, cells: Moments, first: Floats, last: Floats, scales: Floats, alpha: float) -> None:
        """Works out what does not depend on the variance, of all means and of halves of them down to single pieces.

        Args:
            cells: The noisy numbers, each with something to be said of it.
            first: The least mean of each cell.
            last: The largest one.
            scales: Of the three laws.
            alpha: The error probability.
        """
        self._scales, self._alpha, self._grain = scales, alpha, cells.grain
        self._laplace = isinstance(cells.laws[0], DiscreteLaplaceLaw)
        self._counts, base = cells.counts, cells.grain * cells.offset
        self._means = _pieces(first, last, _MEANS)
        self._centres = cells.sums / cells.counts
        squares, sums, counts = (each[:, None] for each in (cells.squares, cells.sums, cells.counts))
        m0, m1 = (np.ascontiguousarray(self._means[:, each]) for each in _halves(_MEANS))  # `take` wants them in a row
        turn = np.clip(sums / counts, m0, m1)  # U is a parabola in m, least there
        ends = [cells.grain * squares - 2 * m * sums + (base + m * m) * counts for m in (m0, m1, turn)]
        self._least, self._most = ends[2], np.maximum(ends[0], ends[1])  # of U, but for the variance
        self._size = np.maximum(np.abs(m0), np.abs(m1))
        nearest = np.where((m0 <= 0) & (m1 >= 0), 0.0, np.minimum(m0 * m0, m1 * m1))
        self._near, self._far = base + nearest, base + self._size * self._size
        self._lost = cells.grain * np.abs(squares) + 2 * self._size * np.abs(sums)

    def ends(self, least: Floats, most: Floats) -> tuple[Floats, Floats]:
        """The hull of the variances that are not refused: the outer ends of pieces, and of pieces of these."""
        borders = _pieces(least, most, _COARSE)
        rows = np.arange(len(least))
        lowest, before_end = self._first_kept(borders), self._first_kept(borders, from_end=True)
        none = lowest == _COARSE
        lowest, highest = np.where(none, 0, lowest), np.where(none, 0, _COARSE - 1 - before_end)
        low = self._end(borders[rows, lowest], borders[rows, lowest + 1], lower=True)
        high = self._end(borders[rows, highest], borders[rows, highest + 1], lower=False)
        low[none], high[none] = np.nan, np.nan
        return low, high

    def _end(self, left: Floats, right: Floats, *, lower: bool) -> Floats:
        """The outer end of the first piece of a piece that is kept; where none is, the inner end of all."""
        borders = _pieces(left, right, _FINE)
        found = self._first_kept(borders, from_end=not lower)
        return np.asarray(borders[np.arange(len(left)), found if lower else _FINE - found])

    def _first_kept(self, borders: Floats, *, from_end: bool = False) -> Ints:
        """Which piece of each cell, counted from one end, is the first one that may not be refused; all: none is.

        A rectangle that is refused is so in all of its parts, for these have no smaller a |U| and no larger weights.
        """

        def kept(rows: Ints, first: Ints, last: Ints) -> Bools:
            v0, v1 = borders[rows, first], borders[rows, last]
            found = self._possible(rows, np.zeros_like(rows), v0, v1)
            single = np.flatnonzero(found & (last == first + 1))
            found[single] = self._kept(rows[single], v0[single], v1[single])
            return found

        return first_kept(len(borders), borders.shape[1] - 1, kept, from_end=from_end)

    def _kept(self, rows: Ints, v0: Floats, v1: Floats) -> Bools:
        """Whether a pair of a mean and a variance may not be refused, by pieces of the means: the likeliest first."""
        left, right = self._means[rows, 0], self._means[rows, -1]
        share = (self._centres[rows] - left) / np.maximum(right - left, _TINY)
        found = self._possible(rows, _MEANS - 1 + np.clip(share * _MEANS, 0, _MEANS - 1).astype(np.int64), v0, v1)
        which = np.flatnonzero(~found)
        block = np.zeros_like(which)
        while which.size and block[0] < _MEANS - 1:
            which, block = np.repeat(which, 2), np.repeat(2 * block + 1, 2)
            block[1::2] += 1
            kept = self._possible(rows[which], block, v0[which], v1[which])
            which, block = which[kept], block[kept]
        found[which] = True
        return found

    def _possible(self, rows: Ints, block: Ints, v0: Floats, v1: Floats) -> Bools:
        """Whether some pair of a rectangle of means and variances may not be refused; all of shape ``(rows,)``.

        Args:
            rows: The cells.
            block: Of the means of each, in the order of :func:`_halves`.
            v0: The least variance.
            v1: The largest one.
        """
        at = rows * self._size.shape[1] + block
        least, most, size, near, far, lost = (
            each.take(at) for each in (self._least, self._most, self._size, self._near, self._far, self._lost)
        )
        counts = self._counts[rows]
        weight = np.maximum(np.abs(near - v1), np.abs(far - v0))
        lost = _ROUNDING * (lost + (far + v1) * counts)
        reach = np.maximum(np.maximum(least - v1 * counts, v0 * counts - most), 0.0)
        reach = reach - lost - (self._grain + 2 * size + weight)
        kept: Bools = np.asarray(reach <= 0)
        asked = np.flatnonzero(~kept)
        scales = self._grain * self._scales[0], 2 * size[asked] * self._scales[1], weight[asked] * self._scales[2]
        tail = _laplace_tail(scales, reach[asked]) if self._laplace else _normal_tail(scales, reach[asked])
        kept[asked] = tail > self._alpha
        return kept


def _halves(count: int) -> tuple[list[int], list[int]]:
    """The first and last border of blocks of pieces: of all, of the halves of each that is there, down to single ones.

    >>> _halves(4)
    ([0, 0, 2, 0, 1, 2, 3], [4, 2, 4, 1, 2, 3, 4])
    """
    first, last, size = [0], [count], count
    while size > 1:
        size //= 2
        first += range(0, count, size)
        last += range(size, count + 1, size)
    return first, last


def _pieces(first: Floats, last: Floats, count: int) -> Floats:
    """The borders of so many even pieces from the one to the other, ``(cells, count + 1)``."""
    borders = first[:, None] + (last - first)[:, None] * np.linspace(0.0, 1.0, count + 1)
    borders[:, -1] = last
    return np.asarray(borders)


def _normal_tail(scales: Scales, reach: Floats) -> Floats:
    """P(|Z| > t) of a sum of normal variables: the tail at the nearest point of a table below."""
    one, two, three = scales
    at, table = np.maximum(reach, 0.0) / np.sqrt(one * one + two * two + three * three), normal_table()
    return np.asarray(2 * table[np.minimum(at * NORMAL_STEPS, len(table) - 1).astype(np.int64)])


def _laplace_tail(scales: Scales, reach: Floats) -> Floats:
    """P(|L1 + L2 + L3| > t) of Laplace variables, by partial fractions; near scales are pulled apart, upwards."""
    other, *pair = scales
    less, more = np.minimum(*pair), np.maximum(*pair)
    one, two, three = np.minimum(less, other), np.maximum(less, np.minimum(more, other)), np.maximum(more, other)
    one = np.maximum(one, three * 1e-9)
    two = np.maximum(two, _APART * one)
    three = np.maximum(three, _APART * two)
    at = np.maximum(reach, 0.0)
    parts = [(each, each * each) for each in (one, two, three)]
    found = np.zeros(np.broadcast_shapes(one.shape, at.shape))
    for own, (_, squared) in zip((one, two, three), parts, strict=True):
        shares = [squared / (squared - each) for other, each in parts if other is not own]
        found = found + shares[0] * shares[1] * np.exp(-at / own)
    return found + 1e-9
