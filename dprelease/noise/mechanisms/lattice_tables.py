"""Integer points of tables that all have one sum: how many, which one, how many with a given cell.

The norm of integer tables x_1, ..., x_T of one sum is the largest sum of sizes of a table, max_t |x_t|_1; its unit ball
is the hull of all that one row can add to or take from T tables of counts. Points are told by two *caps*: x fits under
(up, down) if its sum is up - down and no table has entries below zero that add up to less than -down. With s the sum
and d the largest sum of entries below zero of a table it fits under (s + j, j) for all j >= d, and its norm is s + 2 d.
So tables that fit under the same caps are independent of one another. Every count below is a sum of products of
binomials without a minus sign; docs/proofs/joint-tables.md has every step. Integers only.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import comb, prod

from dprelease.noise.native.entropy import Below

__all__ = [
    "dimension_of",
    "numerator_of",
    "point_under",
    "squares_under",
    "tables_under",
    "tail_under",
    "under",
]


def under(cells: int, up: int, down: int) -> int:
    """How many tables of so many cells fit under caps >= 0: sum over i of C(n-1, i) C(up, i) C(down+n-1-i, n-1-i)."""
    n = cells - 1
    return sum(comb(n, i) * comb(up, i) * comb(down + n - i, n - i) for i in range(cells))


def tail_under(cells: int, up: int, down: int, margin: int) -> int:
    """How many of them have a first cell over the margin >= 0, for at least two cells."""
    n, left = cells - 2, up - margin - 1
    if left < 0:
        return 0
    return sum(comb(n, i) * comb(left + 1, i + 1) * comb(down + n - i, n - i) for i in range(cells - 1))


def squares_under(cells: int, up: int, down: int) -> int:
    """The sum over them of the square of the first cell, for at least two cells."""
    n = cells - 2

    def above(cap: int, other: int) -> int:
        return sum(
            comb(n, i) * comb(other + n - i, n - i) * (comb(cap, i + 1) + 3 * comb(cap, i + 2) + 2 * comb(cap, i + 3))
            for i in range(cells - 1)
        )

    return above(up, down) + above(down, up)


def tables_under(sizes: Sequence[int], up: int, down: int) -> int:
    """How many tuples of tables of these sizes fit under the caps."""
    known = {n: under(n, up, down) for n in set(sizes)}
    return prod(known[n] for n in sizes)


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
    values = [sum(tables_under(sizes, up, r - up) for up in range(r + 1)) for r in range(dimension)]
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
