"""How far one row moves the scores of clips, found by trying every small table, and not by the proof."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations_with_replacement

__all__ = ["spread_of_one_row"]

_VALUES = range(4)
_CLIPS = (1, 2, 3)
_ROWS = 3


@lru_cache(maxsize=1)
def spread_of_one_row() -> int:
    """The largest difference, over two clips, of how far their scores move when one row comes, goes or is another one.

    Over all tables of up to three rows of four values, three clips and every number of rows that could be wanted above
    them. A unit with t rows is t such changes, one after the other, and its scores move by at most t times as much.
    """
    tables = [rows for size in range(_ROWS + 1) for rows in combinations_with_replacement(_VALUES, size)]
    spread = 0
    for rows in tables:
        more = [(*rows, value) for value in _VALUES]
        others = [(*rows[:at], *rows[at + 1 :], value) for at in range(len(rows)) for value in _VALUES]
        for above in range(1, _ROWS + 2):
            before = _scores(rows, above)
            for neighbour in (*more, *others):
                moved = [after - score for after, score in zip(_scores(neighbour, above), before, strict=True)]
                spread = max(spread, max(moved) - min(moved))
    return spread


def _scores(rows: Sequence[int], above: int) -> list[int]:
    """By how many rows each clip misses: too many above it, or too few on and above it."""
    found = []
    for clip in _CLIPS:
        over, least = sum(row > clip for row in rows), sum(row >= clip for row in rows)
        found.append(over - above if over > above else above - least if least < above else 0)
    return found
