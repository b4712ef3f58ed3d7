"""The interval of a published number: its value with the margin on both sides, where the true number can be.

>>> low, high = interval(np.array([50.0, 10.0, -50.0]), np.full(3, 30.0), (Fraction(0), None), grid=Fraction(1))
>>> low.tolist(), high.tolist()
([20.0, 0.0, 0.0], [80.0, 40.0, 0.0])
>>> low, high = interval(np.array([-10.0, -50.0]), np.full(2, 30.0), (Fraction(0), None), nearest=True)
>>> low.tolist(), high.round(9).tolist()
([0.0, 0.0], [30.0, 30.0])
"""

from __future__ import annotations

import sys
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprelease.measures import Possible

__all__ = ["interval", "leans", "outward_ends", "was_cut"]

Floats = npt.NDArray[np.float64]

_LOST = 2.0**-46  # relative; some dozens of operations on doubles, each good to 2^-53
_LEAST = sys.float_info.min  # below it doubles lose more than their relative part
_WHOLE = 2.0**52  # so many steps and fewer add up without rounding
_AT_ONCE = 1 << 20  # cells; what is between takes little memory, whatever the size of the table


def interval(
    value: Floats, margin: Floats, possible: Possible, *, grid: Fraction | None = None, nearest: bool = False
) -> tuple[Floats, Floats]:
    """The two ends, which cover the true number at least as often as value -/+ margin does.

    Proof. The true number lies in ``possible`` for every data set. Where it also lies in value -/+ margin, it lies in
    the intersection. Where the intersection is empty, value -/+ margin does not hold the true number, so that nothing
    is lost by any answer; both ends are then the possible number that is nearest. The interval is never moved to a
    better place: its middle is not an estimate.

    With ``nearest`` it is the interval of the possible number that is nearest to the value, cut likewise. It is never
    a point, and never nearly one, where the margin is not: of a number below what is possible it says "at most a
    margin above the least", as it does of the least possible number itself. Proof: moving a number to the nearest of
    an interval brings it no farther from any number of the interval, so that wherever value -/+ margin holds the true
    number, this does. That the end is not lower than where the noise of the least number would put it in the middle
    is a power constraint (Cowan, Cranmer, Gross and Vitells 2011, arXiv 1105.3166): a lucky draw is no knowledge.

    What doubles lose goes outward: an end that is not exact is moved away from the value by more than the rounding
    of the value and the margin can be. An end of ``possible`` is the double whose shortest text is that number, or
    where there is none the next double outside.

    Args:
        value: Shape ``(cells,)``; NaN where nothing is published.
        margin: The margin of the same shape, of any strides: it may be one number for all cells.
        possible: The least and the largest that the true number can be.
        grid: Of which value and margin are multiples without any rounding: a fraction of 2, 4, 8 and so on; None: there
            is none. A hundredth is no double, so that its multiples are rounded.
        nearest: About the nearest possible number, and not about the value.

    Returns:
        Lower and upper ends, NaN where the value or the margin is.
    """
    low, high = _end(possible[0], down=True), _end(possible[1], down=False)
    known = _size(possible)
    lower, upper = np.empty(value.shape), np.empty(value.shape)
    for first in range(0, len(value), _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        middle = np.clip(value[part], low, high) if nearest else value[part]
        lower[part], upper[part] = _ends(middle, margin[part], low, high, known, grid)
    for each in (lower, upper):
        each.flags.writeable = False
    return lower, upper


def outward_ends(lower: Floats, upper: Floats, possible: Possible) -> tuple[Floats, Floats]:
    """The ends of intervals that are known already, moved outward by what doubles lose, and cut where numbers end.

    Args:
        lower: Shape ``(cells,)``; NaN where none is known.
        upper: Of the same shape.
        possible: The least and the largest that the true number can be.
    """
    low, high = _end(possible[0], down=True), _end(possible[1], down=False)
    with np.errstate(over="ignore"):
        # A mean is the middle of its clip and more: what it lost is a part of the clip, however small it is itself.
        lost = _LOST * np.maximum(np.maximum(np.abs(lower), np.abs(upper)), _size(possible))
        ends = np.clip(lower - lost, low, high) + 0.0, np.clip(upper + lost, low, high) + 0.0
    for each in ends:
        each.flags.writeable = False
    return ends


def _ends(
    value: Floats, margin: Floats, low: float, high: float, known: float, grid: Fraction | None
) -> tuple[Floats, Floats]:
    """The ends of some cells; ``known`` is the size of what ``low`` and ``high`` are."""
    with np.errstate(over="ignore"):  # what no double can hold is cut at the largest one
        lost = _LOST * np.abs(value) + _LOST * (margin + known)
        lost = np.where((value != 0) | (margin + known > 0), np.maximum(lost, _LEAST), 0.0)
        if grid is not None and grid.denominator.bit_count() == 1:
            lost = np.where((np.abs(value) + margin) * grid.denominator <= _WHOLE, 0.0, lost)
        lower = np.clip(value - margin - lost, low, high) + 0.0  # + 0.0: no negative zero
        upper = np.clip(value + margin + lost, low, high) + 0.0
    return lower, upper


def was_cut(value: Floats, margin: Floats, lower: Floats, upper: Floats) -> npt.NDArray[np.bool_]:
    """Where an end is nearer to the value than the margin, by more than rounding: the possible numbers end there."""
    with np.errstate(over="ignore", invalid="ignore"):
        hair = 4 * _LOST * (np.abs(value) + margin)
        return np.asarray((lower > value - margin + hair) | (upper < value + margin - hair))


def leans(value: Floats, margin: Floats, lower: Floats, upper: Floats) -> npt.NDArray[np.bool_]:
    """Where an end is nearer to the value than nine tenths of the margin, which is the distance of the farther one."""
    return np.asarray(np.minimum(value - lower, upper - value) < 0.9 * margin)


def _size(possible: Possible) -> float:
    """The size of the larger number that is known to limit what is possible."""
    return max((abs(float(end)) for end in possible if end is not None), default=0.0)


def _end(number: Fraction | None, *, down: bool) -> float:
    """An end of what is possible as a double: one that reads as that number, or the next one outside."""
    if number is None:
        return -sys.float_info.max if down else sys.float_info.max
    nearest = float(number)
    held, read = Fraction(nearest), Fraction(repr(nearest))
    inside = max(held, read) > number if down else min(held, read) < number
    if read != number and inside:
        return float(np.nextafter(nearest, -np.inf if down else np.inf))
    return nearest
