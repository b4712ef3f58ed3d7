"""The chance of the largest loss of a K-norm draw, as the verifier finds it: vectors counted norm by norm."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["top_mass"]

_NORMS = 2**13  # over the number of columns: the scale from which on not every norm is summed, but every so many


@lru_cache(maxsize=1 << 12)
def top_mass(ball: str, dimension: int, scale: Fraction) -> float:
    """The chance that a K-norm draw loses 1 / scale to the worst neighbour at norm 1: summed norm by norm.

    A vector of ``count`` noise is k + 1 columns, its norm r the distance of their ends. A neighbour raises j of them by
    one: the norm grows where one of these is at the top and one of the others at the bottom, ((r+1)^j - r^j)
    ((r+1)^(k+1-j) - r^(k+1-j)) vectors of norm r, for any j that one likes. Of ``linf`` noise the norm r grows where
    one of j moved numbers is at its end r already: (2r+1)^k - (2r+1)^(k-j) (2r)^j vectors. Every j is tried.
    """
    size, width = float(scale), dimension + (ball == "count")
    reach = math.ceil((width + 12 * math.sqrt(width) + 60) * (size + 1)) + 2
    stride = max(1, round(size * width / _NORMS))
    norms = np.arange(0, reach, stride, dtype=np.float64)
    with np.errstate(divide="ignore"):
        upper = np.log1p(norms if ball == "count" else 2 * norms)
        fall = np.log1p(1 / (norms if ball == "count" else 2 * norms))  # of the logarithm, from the end to below it
    weights = width * upper - norms / size
    weights = np.exp(weights - weights.max()) * stride
    weights[0] *= (stride + 1) / (2 * stride)  # by Euler and Maclaurin: half of it, and half of one that is not skipped

    def ends(number: int) -> NDArray[np.float64]:
        """The share of so many numbers of which not all stay below their end."""
        return np.asarray(-np.expm1(-number * fall))

    whole = -math.expm1(-1 / size) * float(((ends(width) if ball == "count" else 1) * weights).sum())
    moves = range(1, dimension + 1)
    if ball == "count":
        found = [float((ends(j) * ends(width - j) * weights).sum()) for j in moves]
    else:
        found = [float((ends(j) * weights).sum()) for j in moves]
    return max(found) / whole
