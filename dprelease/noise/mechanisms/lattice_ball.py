"""Integer points of the balls of two norms on Z^k: how many, which one, how many with a given coordinate.

``linf``: the largest absolute coordinate. ``count``: the largest positive part plus the largest negative part; its
unit ball is the hull of [0, 1]^k and [-1, 0]^k, all that one row can add to or take from k counts. Integers only.

A vector z is in the ``count`` ball of radius r exactly if z_i = u_i - u_0 for one vector u of k + 1 integers in 0..r
whose smallest is 0: u_0 is the largest negative part of z, and the largest u_i is then its norm. That one-to-one
picture gives the numbers below; docs/proofs/integer-knorm.md has every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

__all__ = ["Ball", "coordinate_points", "norm", "numerator", "points", "squares", "tail_points", "unrank"]

Ball = Literal["count", "linf"]


def norm(ball: Ball, vector: Sequence[int]) -> int:
    """The norm of an integer vector."""
    top, bottom = max(0, *vector), max(0, *(-value for value in vector))
    return top + bottom if ball == "count" else max(top, bottom)


def points(ball: Ball, dimension: int, radius: int) -> int:
    """The number M(r) of integer points of norm at most ``radius``: (2r+1)^k, or (r+1)^(k+1) - r^(k+1)."""
    if ball == "linf":
        return int((2 * radius + 1) ** dimension)
    return int((radius + 1) ** (dimension + 1) - radius ** (dimension + 1))


@lru_cache(maxsize=256)
def numerator(ball: Ball, dimension: int) -> tuple[int, ...]:
    """The numbers h_0..h_k with: sum over r of M(r) x^r = (h_0 + h_1 x + ... + h_k x^k) / (1 - x)^(k+1).

    ``count``: the Eulerian numbers A(k+1, j), with A(n+1, j) = (j+1) A(n, j) + (n+1-j) A(n, j-1). ``linf``: those
    of type B, with B(n+1, j) = (2j+1) B(n, j) + (2n+3-2j) B(n, j-1). None is negative, and h_0 = 1.
    """
    row = [1]
    if ball == "linf":
        for n in range(dimension):
            row = [
                (2 * j + 1) * kept + (2 * n + 3 - 2 * j) * moved
                for j, (kept, moved) in enumerate(zip([*row, 0], [0, *row], strict=True))
            ]
        return tuple(row)
    for n in range(1, dimension + 1):
        row = [
            (j + 1) * kept + (n + 1 - j) * moved
            for j, (kept, moved) in enumerate(zip([*row, 0], [0, *row], strict=True))
        ]
    return tuple(row)


def unrank(ball: Ball, dimension: int, radius: int, rank: int) -> list[int]:
    """The integer point of the ball with a given number, 0 <= rank < M(radius); every point has exactly one.

    ``count``: of u_0..u_k with smallest 0, let u_j be the first that is 0: those before it are in 1..r, those after
    it in 0..r, which is r^j (r+1)^(k-j) vectors.
    """
    if ball == "linf":
        return [digit - radius for digit in _digits(rank, [2 * radius + 1] * dimension)]
    first, block = 0, (radius + 1) ** dimension
    while rank >= block:
        rank -= block
        block = block * radius // (radius + 1)
        first += 1
    digits = _digits(rank, [radius] * first + [radius + 1] * (dimension - first))
    whole = [digit + 1 for digit in digits[:first]] + [0] + digits[first:]
    return [value - whole[0] for value in whole[1:]]


def _digits(rank: int, bases: Sequence[int]) -> list[int]:
    digits = []
    for base in bases:
        rank, digit = divmod(rank, base)
        digits.append(digit)
    return digits


def coordinate_points(ball: Ball, dimension: int, radius: int, value: int) -> int:
    """The number of points of the ball whose first coordinate is ``value``, |value| <= radius."""
    if ball == "linf":
        return int((2 * radius + 1) ** (dimension - 1))
    whole, inner = (radius + 1) ** (dimension - 1), radius ** (dimension - 1)
    return int(whole + (radius - abs(value)) * (whole - inner))


def tail_points(ball: Ball, dimension: int, radius: int, margin: int) -> int:
    """The number of points of the ball whose first coordinate is over ``margin``, 0 <= margin < radius."""
    over = radius - margin
    if ball == "linf":
        return int(over * (2 * radius + 1) ** (dimension - 1))
    whole, inner = (radius + 1) ** (dimension - 1), radius ** (dimension - 1)
    return int(over * whole + over * (over - 1) // 2 * (whole - inner))


def squares(ball: Ball, dimension: int, radius: int) -> int:
    """The sum over all points of the ball of the square of the first coordinate."""
    r = radius
    if ball == "linf":
        return int(r * (r + 1) * (2 * r + 1) // 3 * (2 * r + 1) ** (dimension - 1))
    whole, inner = (r + 1) ** (dimension - 1), r ** (dimension - 1)
    return int(r * (r + 1) * (2 * r + 1) // 3 * whole + r * r * (r * r - 1) // 6 * (whole - inner))
