"""All tables of one sum in a box, listed one by one, and the law of noise on them, from its definition alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise, product

import numpy as np
import numpy.typing as npt

__all__ = ["Listed", "listed", "rows_of"]

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Listed:
    """Every tuple of tables of one sum whose norm is at most some number.

    Attributes:
        sizes: The number of cells of each table.
        points: One table after the other, shape (points, all cells).
        norms: The largest sum of sizes of a table, shape (points,).
    """

    sizes: tuple[int, ...]
    points: Integers
    norms: Integers

    def law(self, scale: Fraction) -> Floats:
        """The probability of each, as if there were no others."""
        weights = np.exp(-self.norms / float(scale))
        return np.asarray(weights / weights.sum())

    def norm(self, points: Integers) -> Integers:
        """The norm of any points."""
        edges = np.cumsum((0, *self.sizes))
        each = [np.abs(points[:, low:high]).sum(axis=1) for low, high in pairwise(edges)]
        return np.asarray(np.max(each, axis=0))


@lru_cache(maxsize=8)
def listed(sizes: tuple[int, ...], largest: int) -> Listed:
    """All of them with a norm up to this."""
    by_sum: list[dict[int, list[tuple[int, ...]]]] = []
    for cells in sizes:
        own: dict[int, list[tuple[int, ...]]] = {}
        for table in product(range(-largest, largest + 1), repeat=cells):
            if sum(map(abs, table)) <= largest:
                own.setdefault(sum(table), []).append(table)
        by_sum.append(own)
    found = [
        sum(tables, ())
        for total in range(-largest, largest + 1)
        for tables in product(*(own.get(total, []) for own in by_sum))
    ]
    points = np.array(found, dtype=np.int64)
    blank = Listed(sizes, points, np.zeros(0, dtype=np.int64))
    return Listed(sizes, points, blank.norm(points))


def rows_of(sizes: Sequence[int]) -> Integers:
    """What each kind of row adds: 1 in one cell of every table; shape (kinds, all cells)."""
    edges = np.cumsum((0, *sizes))
    kinds = list(product(*(range(cells) for cells in sizes)))
    found = np.zeros((len(kinds), int(edges[-1])), dtype=np.int64)
    for at, kind in enumerate(kinds):
        found[at, [edge + place for edge, place in zip(edges, kind, strict=False)]] = 1
    return found
