"""Quotients by brackets: of each how much noise is enough, and from all of them what a noisy pair does not refuse."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Brackets", "hull"]

Floats = npt.NDArray[np.float64]

_AT_ONCE = 2048  # cells beside all brackets


class Brackets(NamedTuple):
    """For each bracket of quotients ``[first, last]`` a ``reach`` that is enough for every quotient in it."""

    first: Floats
    last: Floats
    reach: Floats


def hull(above: Floats, below: Floats, brackets: Brackets) -> tuple[Floats, Floats]:
    """The least and the largest quotient of all brackets that the test does not refuse; NaN where it refuses all.

    Args:
        above: The noisy upper numbers, ``(cells,)``.
        below: The noisy lower numbers of the same shape, each above 0.
        brackets: Of the noise of both.
    """
    low, high = np.empty(above.shape), np.empty(above.shape)
    for start in range(0, len(above), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        top, bottom = above[part, None], below[part, None]
        least = np.maximum((top - brackets.reach) / bottom, brackets.first)
        most = np.minimum((top + brackets.reach) / bottom, brackets.last)
        within = least <= most
        low[part] = np.where(within, least, math.inf).min(axis=1)
        high[part] = np.where(within, most, -math.inf).max(axis=1)
    empty = low > high
    low[empty], high[empty] = np.nan, np.nan
    return low, high
