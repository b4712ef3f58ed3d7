"""Intervals of a quotient of two noisy numbers: all quotients that an exact test of the noise does not refuse.

Let A' and B' be two published numbers, linear in independent draws x_1, x_2, ... with public laws, so that A' - A is
the sum of a_i x_i and B' - B that of b_i x_i. At the true quotient r = A / B the number A' - r B' is
W(r) = sum (a_i - r b_i) x_i, whatever A and B are: its law depends on r alone. With any q(r) such that
P(|W(r)| > q(r)) <= alpha, the set of all r with |A' - r B'| <= q(r) holds the true quotient with probability
1 - alpha at least, for every data set in which B is not 0 (Fieller 1954, J. R. Stat. Soc. B 16; there for normal
noise, the argument needs no law). The quotient A' / B' is always in the set.

>>> from dprelease.noise import MECHANISMS
>>> law = MECHANISMS["discrete_laplace"].law(Fraction(2))
>>> part_and_whole = (Draw(law, 1.0, 0.0), Draw(law, 0.0, 1.0))
>>> low, high = quotients(np.array([30.0]), np.array([100.0]), part_and_whole, (0.0, 1.0), Fraction(95, 100))
>>> round(float(low[0]), 2), round(float(high[0]), 2)
(0.24, 0.36)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dprelease.measures.estimates import Estimate
from dprelease.measures.tested.brackets import Brackets, hull
from dprelease.measures.tested.quotient_reach import Draw, box_margins, reaches

__all__ = ["Draw", "NoisyQuotient", "quotients", "reach_at", "widest_reach", "with_ends"]

Floats = npt.NDArray[np.float64]

_FINE = 0.01  # of u, where the borders of brackets are r_c + s_0 sinh(u)
_RIM = 7.0  # the largest |u|: beyond it the noise of the upper number is less than 0.2 % of that of the lower one


class NoisyQuotient(NamedTuple):
    """A published number that is ``start + size * above / below``, of two noisy numbers in each cell.

    Attributes:
        above: The noisy upper numbers, ``(cells,)``.
        below: The noisy lower numbers of the same shape.
        draws: Every independent draw that is in one of them or both.
        possible: The least and the largest that the true quotient can be; None: nothing is known on that side.
        floor: The least that the true lower number can be; 0: that it is above 0 is all that is known.
        start: What a quotient of 0 is published as.
        size: By how much the number grows with the quotient.
    """

    above: Floats
    below: Floats
    draws: tuple[Draw, ...]
    possible: tuple[float | None, float | None]
    floor: float
    start: float
    size: float

    def tested(self, confidence: Fraction, *, cut: bool = True) -> tuple[Floats, Floats]:
        """The ends of the set of quotients: of those that are possible, or of all."""
        if not cut:
            return quotients(self.above, self.below, self.draws, (None, None), confidence)
        return quotients(self.above, self.below, self.draws, self.possible, confidence, self.floor)


def quotients(
    above: Floats,
    below: Floats,
    draws: Sequence[Draw],
    possible: tuple[float | None, float | None],
    confidence: Fraction,
    floor: float = 0.0,
) -> tuple[Floats, Floats]:
    """The least and the largest quotient that the noise does not refuse, among those that are possible.

    Where the two noisy numbers could not be true ones (their quotient is outside of what is possible), the set is
    joined with that of the nearest pair which could: a larger set is as valid, and none is empty. Where a part and a
    rest were drawn, the nearest pair has one of these two at 0, and is taken where nothing possible is in the set.

    Args:
        above: The noisy upper numbers, ``(cells,)``.
        below: The noisy lower numbers of the same shape; where one is not above 0 nothing is said.
        draws: Every independent draw that is in one of them or both.
        possible: The least and the largest that the true quotient can be; None: nothing is known on that side.
        confidence: How often the set holds the true quotient, at least.
        floor: The least that the true lower number can be; 0: that it is above 0 is all that is known.

    Returns:
        Lower and upper ends, infinite where there is none, NaN where nothing is said. What doubles lose in them is for
        whoever writes them down to add (``estimate.intervals.outward_ends``).
    """
    known = below > 0
    low, high = np.full(above.shape, np.nan), np.full(above.shape, np.nan)
    if not known.any():
        return low, high
    top, bottom = above[known], below[known]
    least, most = (-math.inf if possible[0] is None else possible[0], math.inf if possible[1] is None else possible[1])
    found = _sets(top, bottom, tuple(draws), (least, most), confidence, floor)
    if (least, most) == (0.0, 1.0) and all(each.above in (0.0, each.below) for each in draws):
        part, moved = np.maximum(top, 0.0), np.isnan(found[0])
        nearest = part, part + np.maximum(bottom - top, 0.0)
    else:
        nearest = np.clip(top / bottom, least, most) * bottom, bottom
        moved = (top < least * bottom) | (top > most * bottom)
    if moved.any():
        again = _sets(nearest[0][moved], nearest[1][moved], tuple(draws), (least, most), confidence, floor)
        found[0][moved] = np.fmin(found[0][moved], again[0])
        found[1][moved] = np.fmax(found[1][moved], again[1])
    low[known], high[known] = (np.clip(end, least, most) for end in found)
    return low, high


def reach_at(draws: Sequence[Draw], quotient: float, confidence: Fraction) -> float:
    """A q with P(|W(r)| <= q) >= confidence at one true quotient r.

    Args:
        draws: As of :func:`quotients`.
        quotient: r.
        confidence: How often.
    """
    return _reach_at(tuple(draws), quotient, confidence)


def widest_reach(draws: Sequence[Draw], ends: tuple[float, float], confidence: Fraction, below: float) -> float:
    """The largest distance of an end of the set from the quotient, over all possible quotients.

    With a noisy lower number B' it is q(r) / B' at one of the two ends of what is possible, which the set of some
    quotient just reaches; the set of a quotient nearer to the end is cut there.

    Args:
        draws: As of :func:`quotients`.
        ends: The least and the largest possible quotient.
        confidence: Of the set.
        below: The lower number.
    """
    return min(max(reach_at(draws, end, confidence) for end in ends) / below, ends[1] - ends[0])


def with_ends(found: Estimate, low: Floats, high: Floats) -> Estimate:
    """An estimate with the set as its interval; its margin is the distance of the farther end, blank without one."""
    bare = ~(np.isfinite(low) & np.isfinite(high))
    low, high = (np.where(bare | np.isnan(found.value), np.nan, end) for end in (low, high))
    low, high = np.fmin(low, found.value + low * 0), np.fmax(high, found.value + high * 0)
    margin = np.maximum(found.value - low, high - found.value)
    return replace(found, margin=margin, ends=(low, high))


@lru_cache(maxsize=1 << 12)
def _reach_at(draws: tuple[Draw, ...], quotient: float, confidence: Fraction) -> float:
    one = np.array([quotient])
    return float(reaches(draws, one, one, confidence)[0])


def _sets(
    above: Floats,
    below: Floats,
    draws: tuple[Draw, ...],
    limits: tuple[float, float],
    confidence: Fraction,
    floor: float,
) -> tuple[Floats, Floats]:
    """The ends of the sets; NaN where one is empty.

    A quotient r is refused by one test, and which one is settled before any number is seen. Within the rims it is that
    of the brackets, whose reach is never more than that of the box, m_A + |r| m_B, with m_A and m_B the margins of the
    two numbers' noise: so no bracket is needed where the box refuses r for all cells. Beyond the rims, where only the
    noise of the lower number matters, it is the box itself, with which the true numbers lie in A' -/+ m_A and
    B' -/+ m_B together: r is then no farther from 0 than A' -/+ m_A over the larger of B' - m_B and the floor.
    """
    near = _rims(draws, limits)
    m_above, m_below = box_margins(draws, 1 - confidence)
    surely, least = below - m_below, np.maximum(below - m_below, floor)
    right, left = (
        np.where(surely > 0, top / np.where(surely > 0, surely, 1.0), math.copysign(math.inf, side))
        for top, side in ((np.maximum(above + m_above, 0), 1), (np.minimum(above - m_above, 0), -1))
    )
    table = _table(draws, *_stretch(draws, near, float(left.min()), float(right.max())), confidence)
    low, high = hull(above, below, table)
    for side, rim, limit in ((1, near[1], limits[1]), (-1, -near[0], -limits[0])):
        if rim >= limit:
            continue
        top = side * above
        with np.errstate(divide="ignore", invalid="ignore"):
            farthest = np.where(least > 0, (top + m_above) / least, math.inf)
        farthest = np.minimum(np.where(top + m_above > 0, farthest, 0.0), limit)
        nearest = np.maximum(rim, (top - m_above) / (below + m_below))
        reached = farthest > rim
        ends = (low, high) if side > 0 else (-high, -low)
        found = np.where(reached, np.fmin(ends[0], nearest), ends[0]), np.where(reached, farthest, ends[1])
        low, high = found if side > 0 else (-found[1], -found[0])
    return low, high


def _shape(draws: Sequence[Draw]) -> tuple[float, float]:
    """C and s, with which the variance of W(r) is V_B ((r - c)^2 + s^2); s is 0 where the lower number is exact.

    c = C / V_B and s^2 = V_A / V_B - c^2, where C is the covariance of the two numbers: as a sum of squares, for the
    difference of two large numbers would lose all digits.
    """
    parts = [(each.above, each.below, each.law.variance) for each in draws]
    v_below = math.fsum(b * b * v for _, b, v in parts)
    if not v_below:
        return 0.0, 0.0
    centre = math.fsum(a * b * v for a, b, v in parts) / v_below
    spread = math.sqrt(math.fsum((a - centre * b) ** 2 * v for a, b, v in parts) / v_below)
    return centre, spread or abs(centre) or 1.0


def _rims(draws: Sequence[Draw], limits: tuple[float, float]) -> tuple[float, float]:
    """How far brackets can go: to what is possible, or to where only the noise of the lower number matters."""
    centre, spread = _shape(draws)
    far = spread * math.sinh(_RIM) if spread else math.inf
    return max(limits[0], min(centre - far, limits[1])), min(limits[1], max(centre + far, limits[0]))


def _stretch(draws: Sequence[Draw], near: tuple[float, float], left: float, right: float) -> tuple[float, float]:
    """From where to where brackets are needed, and a little more: so that tables of one step are often the same."""
    centre, spread = _shape(draws)
    if not spread:
        return near

    def rounded(end: float, side: int) -> float:
        halves = side * math.ceil(side * 2 * math.asinh((end - centre) / spread)) / 2
        return min(max(centre + spread * math.sinh(halves), near[0]), near[1])

    first = near[0] if left <= near[0] else rounded(left, -1)
    last = near[1] if right >= near[1] else rounded(right, 1)
    return first, max(first, last)


@lru_cache(maxsize=64)
def _table(draws: tuple[Draw, ...], first: float, last: float, confidence: Fraction) -> Brackets:
    """Brackets from ``first`` to ``last``, and what is enough in each.

    Their borders are c + s sinh(u) with even steps of u, so that the noise of W(r) grows by the same small part
    everywhere.
    """
    centre, spread = _shape(draws)
    if not spread:  # the law of W(r) is the same for all r
        return Brackets(np.array([first]), np.array([last]), reaches(draws, np.zeros(1), np.zeros(1), confidence))
    low, high = (math.asinh((end - centre) / spread) for end in (first, last))
    borders = centre + spread * np.sinh(np.linspace(low, high, max(2, math.ceil((high - low) / _FINE) + 1)))
    borders[0], borders[-1] = first, last
    return Brackets(borders[:-1], borders[1:], reaches(draws, borders[:-1], borders[1:], confidence))
