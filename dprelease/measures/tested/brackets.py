"""Numbers by pieces of a line: of each how much noise is enough, and which are the outermost that are not refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Bools", "Brackets", "Floats", "Ints", "first_kept", "hull"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_AT_ONCE = 4096  # cells
_BLOCKS = 4  # of all pieces, with which a search begins


class Brackets(NamedTuple):
    """For each bracket of quotients ``[first, last]`` a ``reach`` that is enough for every quotient in it.

    Brackets rise, and each begins where the one before it ends.
    """

    first: Floats
    last: Floats
    reach: Floats


def hull(above: Floats, below: Floats, brackets: Brackets) -> tuple[Floats, Floats]:
    """The least and the largest quotient of all brackets that the test does not refuse; NaN where it refuses all.

    What a bracket leaves begins no earlier than it does: so the least of all is what the first one leaves that leaves
    anything, and the largest what the last one does.

    Args:
        above: The noisy upper numbers, ``(cells,)``.
        below: The noisy lower numbers of the same shape, each above 0.
        brackets: Of the noise of both.
    """
    low, high = np.empty(above.shape), np.empty(above.shape)
    largest = _running_largest(brackets.reach)
    count = len(brackets.reach)
    for start in range(0, len(above), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        top, bottom = above[part], below[part]

        def kept(rows: Ints, first: Ints, last: Ints, top: Floats = top, bottom: Floats = bottom) -> Bools:
            reach = largest[np.frexp(last - first)[1] - 1, first]
            least = np.maximum((top[rows] - reach) / bottom[rows], brackets.first[first])
            return np.asarray(least <= np.minimum((top[rows] + reach) / bottom[rows], brackets.last[last - 1]))

        low_at = first_kept(len(top), count, kept)
        some = low_at < count
        low_at = np.where(some, low_at, 0)
        high_at = np.where(some, count - 1 - first_kept(len(top), count, kept, from_end=True), 0)
        least = np.maximum((top - brackets.reach[low_at]) / bottom, brackets.first[low_at])
        most = np.minimum((top + brackets.reach[high_at]) / bottom, brackets.last[high_at])
        low[part], high[part] = np.where(some, least, np.nan), np.where(some, most, np.nan)
    return low, high


def first_kept(cells: int, pieces: int, kept: Callable[[Ints, Ints, Ints], Bools], *, from_end: bool = False) -> Ints:
    """Which piece of each cell, counted from one end, is the first one that is not refused; ``pieces``: none is.

    Args:
        cells: How many there are.
        pieces: Of every cell.
        kept: Of some cells, with the first piece of each and the one behind its last, whether a block is not refused.
            A block that is refused is so in every part of it. Blocks have lengths of powers of 2.
        from_end: Whether the last piece is the first one.
    """
    at = np.zeros(cells, dtype=np.int64)
    step = np.full(cells, 1 << max(0, (pieces // _BLOCKS).bit_length() - 1), dtype=np.int64)
    rows = np.arange(cells)
    while rows.size:
        first, size = at[rows], step[rows]
        too_far = first + size > pieces
        while too_far.any():
            size = np.where(too_far, size // 2, size)
            too_far = first + size > pieces
        last = first + size
        found = kept(rows, pieces - last, pieces - first) if from_end else kept(rows, first, last)
        at[rows] = np.where(found, first, last)
        step[rows] = np.where(found, size // 2, size)
        rows = rows[~(found & (size == 1)) & (at[rows] < pieces)]
    return at


def _running_largest(reach: Floats) -> Floats:
    """In row k the largest of the 2^k numbers that begin at a place; of fewer where there are no more."""
    rows = [reach]
    while 1 << len(rows) <= len(reach):
        half = 1 << (len(rows) - 1)
        beyond = np.concatenate([rows[-1][half:], np.full(half, -math.inf)])
        rows.append(np.maximum(rows[-1], beyond))
    return np.stack(rows)
