"""Names on a map: in each area that has room for its name, where it has the most.

Where a name stands follows from the shapes and the names alone, in whole numbers, so that every machine puts it in the
same place. An area whose name does not fit has none: its name and number are told by pointing, and stand in the table.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise

__all__ = ["Placed", "label_size", "name_placed"]

Ring = list[tuple[int, int]]
Span = tuple[int, int]
Placed = tuple[int, int]  # the middle of a name, and the line that it stands on
_RING = re.compile(r"M(-?\d+) (-?\d+)l([-\d ]+)z")
_PART_OF_WIDTH = 72  # a letter is so many times as high as the map is wide: about 12 pixels where it is widest
_LINES = 40  # that are looked at in an area


def label_size(width: int) -> int:
    """How high letters are, in the steps of a map of that width."""
    return max(1, width // _PART_OF_WIDTH)


def name_placed(path: str, name: str, size: int) -> Placed | None:
    """Where a name stands in an area; None: there is no room for it.

    Args:
        path: Of the area, as SVG has it: rings of whole steps, each corner from the one before.
        name: That is to stand there, on one line.
        size: How high its letters are.

    >>> name_placed("M0 0l100 0 0 40 -100 0z", "Ohio", 12), name_placed("M0 0l20 0 0 40 -20 0z", "Ohio", 12)
    ((50, 24), None)
    """
    rings = list(_rings(path))
    if not rings:
        return None
    top, bottom = min(y for ring in rings for _, y in ring), max(y for ring in rings for _, y in ring)
    wide = _wide(name, size)
    best: tuple[int, int, Placed] | None = None
    for step in range(1, _LINES):
        middle = top + (bottom - top) * step // _LINES
        spans = _inside(rings, middle - size // 2)
        for level in (middle, middle + size // 2):
            spans = list(_both(spans, _inside(rings, level)))
        for low, high in spans:
            # With half as much room again, if there is such a place, and then nearest to the middle of the area.
            rank = (min(high - low, wide * 3 // 2), -abs(2 * middle - top - bottom))
            if high - low >= wide and (best is None or rank > best[:2]):
                best = (*rank, ((low + high) // 2, middle + size // 3))
    return None if best is None else best[2]


def _wide(name: str, size: int) -> int:
    """How wide a name is at most, with room at both ends; signs of East Asia are as wide as they are high."""
    full = sum(unicodedata.east_asian_width(sign) in "WF" for sign in name)
    return (full * 10 + (len(name) - full) * 6 + 6) * size // 10


def _rings(path: str) -> Iterator[Ring]:
    for x, y, moves in _RING.findall(path):
        numbers = [int(each) for each in moves.split()]
        ring = [(int(x), int(y))]
        for right, down in zip(numbers[::2], numbers[1::2], strict=True):
            ring.append((ring[-1][0] + right, ring[-1][1] + down))
        yield ring


def _inside(rings: list[Ring], level: int) -> list[Span]:
    """The stretches of a line across, half a step below a level, that are inside; by the rule of even and odd."""
    crossed = []
    for ring in rings:
        for (x1, y1), (x2, y2) in pairwise([*ring, ring[0]]):
            if (y1 <= level) != (y2 <= level):
                crossed.append(x1 + (x2 - x1) * (2 * level + 1 - 2 * y1) // (2 * (y2 - y1)))
    crossed.sort()
    return list(zip(crossed[::2], crossed[1::2], strict=True))


def _both(one: list[Span], other: list[Span]) -> Iterator[Span]:
    for low, high in one:
        for start, end in other:
            if max(low, start) < min(high, end):
                yield max(low, start), min(high, end)
