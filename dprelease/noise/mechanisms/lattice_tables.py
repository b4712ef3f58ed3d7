"""Integer points of tables that all have one sum: how many, which one, how many with a given cell.

The norm of integer tables x_1, ..., x_T of one sum is the largest sum of sizes of a table, max_t |x_t|_1; its unit ball
is the hull of all that one row can add to or take from T tables of counts. Points are told by two *caps*: x fits under
(up, down) if its sum is up - down and no table has entries below zero that add up to less than -down. With s the sum
and d the largest sum of entries below zero of a table it fits under (s + j, j) for all j >= d, and its norm is s + 2 d.
So tables that fit under the same caps are independent of one another. Every count below is a sum of products of
binomials without a minus sign; docs/proofs/joint-tables.md has every step. Integers only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from math import comb, prod
from operator import mul

from dprelease.noise.native.entropy import Below

__all__ = [
    "dimension_of",
    "numerator_of",
    "point_under",
    "products",
    "rows_under",
    "rows_within",
    "squares_rows",
    "sums_over_caps",
    "tables_under",
    "tail_rows",
    "under",
]

Row = list[int]


def under(cells: int, up: int, down: int) -> int:
    """How many tables of so many cells fit under caps >= 0: sum over i of C(n-1, i) C(up, i) C(down+n-1-i, n-1-i)."""
    return _paired(_ups(cells, up), _downs(cells, down))


def tables_under(sizes: Sequence[int], up: int, down: int) -> int:
    """How many tuples of tables of these sizes fit under the caps."""
    known = {n: under(n, up, down) for n in set(sizes)}
    return prod(known[n] for n in sizes)


def tail_rows(cells: int, values: int) -> list[Row]:
    """How many tables under caps have a first cell over a margin; the first of the upper caps is the margin and 1."""
    n = cells - 2
    ups = [[comb(n, i) * comb(left + 1, i + 1) for i in range(cells - 1)] for left in range(values)]
    return _triangle(ups, [_downs(cells - 1, down) for down in range(values)])


def squares_rows(cells: int, values: int) -> list[Row]:
    """The sum over tables under caps of the square of the first cell: of those above 0, and of those below."""
    n = cells - 2
    squares = [
        [comb(n, i) * (comb(cap, i + 1) + 3 * comb(cap, i + 2) + 2 * comb(cap, i + 3)) for i in range(cells - 1)]
        for cap in range(values)
    ]
    others = [_downs(cells - 1, cap) for cap in range(values)]
    above = [one + other for one, other in zip(squares, others, strict=True)]
    return _triangle(above, [other + one for one, other in zip(squares, others, strict=True)])


def rows_under(sizes: Sequence[int], caps: Iterable[tuple[int, int]]) -> list[Row]:
    """How many tuples of tables of these sizes fit under caps: what a law is summed from, and no sampler asks.

    Args:
        sizes: The number of cells of each table.
        caps: Of each row its upper cap, and for how many lower caps, 0 and more, it is.
    """
    found = [(up, [1] * length) for up, length in caps]
    for cells, times in Counter(sizes).items():
        one = _one_table(cells)
        found = [(up, [a * b**times for a, b in zip(row, one.row(up, len(row)), strict=False)]) for up, row in found]
    return [row for _, row in found]


def rows_within(sizes: Sequence[int], values: int) -> list[Row]:
    """The same for all caps that add up to less than a number."""
    return rows_under(sizes, ((up, values - up) for up in range(values)))


def products(rows: Sequence[Row], others: Sequence[Row]) -> list[Row]:
    """Two such numbers of the same caps, times one another."""
    return [[one * other for one, other in zip(*pair, strict=True)] for pair in zip(rows, others, strict=True)]


def sums_over_caps(rows: Sequence[Row]) -> list[int]:
    """For S = 0, 1, ...: the sum over caps (up, S - up) of such numbers."""
    return [sum(rows[up][total - up] for up in range(total + 1)) for total in range(len(rows))]


class _OneTable:
    """How many tables of so many cells fit under caps, by upper cap; laws ask for the same ones again and again."""

    def __init__(self, cells: int) -> None:
        self._cells, self._known, self._lower = cells, dict[int, Row](), list[Row]()

    def row(self, up: int, length: int) -> Row:
        """For that upper cap and so many lower caps, or more; rows are replaced and never changed."""
        known = self._known.get(up, [])
        if len(known) < length:
            if len(self._lower) < length:
                self._lower = [_downs(self._cells, down) for down in range(length)]
            own = _ups(self._cells, up)
            known = [*known, *(_paired(own, other) for other in self._lower[len(known) : length])]
            self._known[up] = known
        return known


@lru_cache(maxsize=16)
def _one_table(cells: int) -> _OneTable:
    return _OneTable(cells)


def _triangle(ups: Sequence[Row], downs: Sequence[Row]) -> list[Row]:
    """Products of a row for each upper cap and one for each lower cap, where both add up to less than there are."""
    return [[_paired(own, other) for other in downs[: len(ups) - at]] for at, own in enumerate(ups)]


def _ups(cells: int, up: int) -> Row:
    """What ``under`` has of the upper cap, for each i."""
    return [comb(cells - 1, i) * comb(up, i) for i in range(cells)]


def _downs(cells: int, down: int) -> Row:
    """What ``under`` has of the lower cap, for each i."""
    n = cells - 1
    return [comb(down + n - i, n - i) for i in range(cells)]


def _paired(own: Row, other: Row) -> int:
    return sum(map(mul, own, other))


def dimension_of(sizes: Sequence[int]) -> int:
    """The dimension of tables of one sum: sum of (n - 1), and 1."""
    return sum(n - 1 for n in sizes) + 1


@lru_cache(maxsize=64)
def numerator_of(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The numbers h_0..h_(D-1): sum over r of A(r) x^r = (h_0 + ... + h_(D-1) x^(D-1)) / (1 - x)^(D+1).

    A(r) is how many tuples fit under caps that add up to r, each counted under each of them, and D the dimension. None
    is negative (Stanley 1980: they are the h*-vector of a lattice polytope).
    """
    dimension = dimension_of(sizes)
    values = sums_over_caps(rows_within(sizes, dimension))
    for _ in range(dimension + 1):
        values = [after - before for before, after in pairwise([0, *values])]
    return tuple(values)


def point_under(below: Below, cells: int, up: int, down: int) -> list[int]:
    """One of the tables under the caps, each as likely; ``below(n)`` is uniform on 0..n-1.

    First what its entries below zero add up to: with j at the most there are ``under(cells, s + j, j)``, s the sum.
    Then how many entries are above zero, where they are, and how both sums are divided.
    """
    total = up - down
    rank, low, high = below(under(cells, up, down)), max(0, -total), down
    while low < high:
        middle = (low + high) // 2
        if under(cells, total + middle, middle) > rank:
            high = middle
        else:
            low = middle + 1
    plus, minus = total + low, low
    places = _subset(below, cells, _above_zero(below, cells, plus, minus))
    own = iter(_parts(below, plus, len(places), least=1))
    other = iter(_parts(below, minus, cells - len(places), least=0))
    return [next(own) if at in places else -next(other) for at in range(cells)]


def _above_zero(below: Below, cells: int, plus: int, minus: int) -> int:
    """How many entries are above zero: with i of them there are C(n, i) C(plus-1, i-1) C(minus+n-i-1, n-i-1) tables."""
    ways = [comb(cells, i) * _divided(plus, i, 1) * _divided(minus, cells - i, 0) for i in range(cells + 1)]
    rank, number = below(sum(ways)), 0
    while rank >= ways[number]:
        rank -= ways[number]
        number += 1
    return number


def _divided(total: int, parts: int, least: int) -> int:
    """In how many ways a total is a sum of so many numbers that are at least 0 or 1, in order."""
    if parts == 0:
        return int(total == 0)
    free = total - least * parts
    return comb(free + parts - 1, parts - 1) if free >= 0 else 0


def _parts(below: Below, total: int, parts: int, least: int) -> list[int]:
    """One of them, each as likely: the gaps between parts - 1 bars."""
    if parts == 0:
        return []
    length = total - least * parts + parts - 1
    bars = [-1, *sorted(_subset(below, length, parts - 1)), length]
    return [after - before - 1 + least for before, after in pairwise(bars)]


def _subset(below: Below, size: int, count: int) -> set[int]:
    """``count`` of the numbers 0..size-1, each set as likely (Floyd; Bentley, CACM 30(9), 1987)."""
    found: set[int] = set()
    for last in range(size - count, size):
        number = below(last + 1)
        found.add(last if number in found else number)
    return found
