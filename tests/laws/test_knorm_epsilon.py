"""What integer K-norm noise costs, by brute force: every neighbour, every answer in a box, exact log-ratios.

The probabilities are those of the sampler's own recipe (radius, then a uniform point of that ball), in 60 digits; the
neighbours are enumerated from rows, not from the formulas that are checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product
from math import comb
from typing import Any

import pytest

from dprelease.noise import JOINT_MECHANISMS
from dprelease.noise.mechanisms.knorm import gauge
from dprelease.noise.mechanisms.lattice_ball import Ball, numerator, points, unrank
from dprelease.privacy.accountants.base import pure_epsilon
from dprelease.privacy.event import KNorm
from dprelease.privacy.rounding import CONTEXT, real
from dprelease.privacy.unit import Neighboring

Vector = tuple[int, ...]
REACH = 4  # answers in a box this far around both data sets
TINY = CONTEXT.mpf(10) ** -40
BALLS: tuple[Ball, Ball] = ("count", "linf")


@cache
def first_radius(ball: Ball, k: int, most: int) -> dict[Vector, int]:
    """The smallest radius whose ball holds a point, read from the sampler's numbering of the points."""
    found: dict[Vector, int] = {}
    for radius in range(most + 1):
        for rank in range(points(ball, k, radius)):
            found.setdefault(tuple(unrank(ball, k, radius, rank)), radius)
    return found


@cache
def log_chance(ball: Ball, k: int, scale: Fraction, radius: int) -> Any:
    """ln P(z) for a point first in the ball of that radius: sum over r from there on of P(R = r) / M(r)."""
    q, h = CONTEXT.exp(-1 / real(scale)), numerator(ball, k)
    reach = radius + int(150 * scale) + 50

    def weight(r: int) -> Any:
        return sum(h[j] * comb(r - j + k, k) for j in range(min(r, k) + 1)) * q**r

    return CONTEXT.log(CONTEXT.fsum(weight(r) / points(ball, k, r) for r in range(radius, reach)))


def loss(ball: Ball, scale: Fraction, change: Vector) -> Any:
    """The largest |ln P(z) - ln P(z - change)| over a box of answers z."""
    k = len(change)
    radii = first_radius(ball, k, 2 * (2 * REACH if ball == "count" else REACH))
    losses = [CONTEXT.mpf(0)]
    for z in product(range(-REACH, REACH + 1), repeat=k):
        moved = tuple(a - b for a, b in zip(z, change, strict=True))
        if z in radii and moved in radii:
            losses.append(abs(log_chance(ball, k, scale, radii[z]) - log_chance(ball, k, scale, radii[moved])))
    return max(losses)


def tables(k: int, cells: int, rows: int) -> Iterator[tuple[Vector, ...]]:
    """The k counts of every cell, for every set of at most ``rows`` rows that one unit can have."""
    kinds = [(cell, bits) for cell in range(cells) for bits in product((0, 1), repeat=k)]
    for size in range(rows + 1):
        for chosen in combinations_with_replacement(kinds, size):
            yield tuple(
                tuple(sum(bits[i] for where, bits in chosen if where == cell) for i in range(k))
                for cell in range(cells)
            )


def changes(k: int, cells: int, rows: int, neighboring: Neighboring) -> set[tuple[Vector, ...]]:
    """What one unit can change: added or removed, or replaced by another one."""
    mine = set(tables(k, cells, rows))
    others = {((0,) * k,) * cells} if neighboring is Neighboring.ADD_REMOVE else mine
    return {
        tuple(tuple(sign * (a - b) for a, b in zip(x, y, strict=True)) for x, y in zip(one, other, strict=True))
        for one in mine
        for other in others
        for sign in (1, -1)
    }


@pytest.mark.thin
@pytest.mark.parametrize("neighboring", list(Neighboring))
@pytest.mark.parametrize(
    ("k", "cells", "rows"), [(1, 1, 1), (1, 2, 2), (2, 1, 1), (2, 2, 1), (2, 1, 2), (3, 1, 1), (3, 2, 1)]
)
@pytest.mark.parametrize("ball", BALLS)
def test_the_claimed_epsilon_holds_and_is_reached(
    ball: Ball, k: int, cells: int, rows: int, neighboring: Neighboring
) -> None:
    """Cells have independent noise, so that the loss of a change is the sum of the losses of its cells."""
    scale = Fraction(7, 3)
    event = JOINT_MECHANISMS[f"{ball}_knorm"].event(scale, k, gauge(ball, k, neighboring, cells, rows))
    assert isinstance(event, KNorm)
    claimed = pure_epsilon(event)
    assert claimed is not None
    cell_loss: dict[Vector, Any] = {}
    for change in changes(k, cells, rows, neighboring):
        for part in change:
            if part not in cell_loss:
                cell_loss[part] = loss(ball, scale, part)
    losses = [sum(cell_loss[part] for part in change) for change in changes(k, cells, rows, neighboring)]
    assert max(losses) <= real(claimed) + TINY
    assert max(losses) >= real(claimed) - TINY


@pytest.mark.parametrize("ball", BALLS)
def test_the_search_sees_a_gauge_that_is_too_small(ball: Ball) -> None:
    """Replacing a row is not adding one: the cost of the wrong relation is exceeded."""
    scale, k, cells = Fraction(2), 2, 2
    wrong = real(gauge(ball, k, Neighboring.ADD_REMOVE, cells) / scale)
    worst = max(
        sum(loss(ball, scale, part) for part in change) for change in changes(k, cells, 1, Neighboring.REPLACE_ONE)
    )
    assert worst > 1.9 * wrong


@pytest.mark.parametrize("k", [1, 2, 3, 60])
def test_gauges_of_the_two_relations(k: int) -> None:
    add, replace = Neighboring.ADD_REMOVE, Neighboring.REPLACE_ONE
    assert [gauge(ball, k, add, cells) for ball in BALLS for cells in (1, 9)] == [1, 1, 1, 1]
    assert gauge("linf", k, replace, 1) == 1
    assert gauge("count", k, replace, 1) == (1 if k == 1 else 2)
    assert [gauge(ball, k, replace, 2) for ball in BALLS] == [2, 2]
    assert gauge("count", k, replace, 5, rows=3) == 6


@pytest.mark.parametrize("ball", BALLS)
def test_one_quantity_is_discrete_laplace_noise(ball: Ball) -> None:
    scale = Fraction(5, 3)
    q = CONTEXT.exp(-1 / real(scale))
    for radius in range(6):
        ratio = CONTEXT.exp(log_chance(ball, 1, scale, radius) - log_chance(ball, 1, scale, 0))
        assert abs(ratio - q**radius) < TINY
