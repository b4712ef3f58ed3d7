"""How far one unit with many rows can move what is drawn, derived again from its bounds alone.

Nothing of ``catalog.sensitivity`` is called. Where a unit has few rows, every way to spread them over cells is listed
(by vector partitions, not by the corners of a convex set); where it has many, sums of squares come from pairing blocks
of rows at the best price, and sums from the fewest rows that must coincide.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from dprelease.privacy.event import Sensitivity
from dprelease.privacy.unit import Neighboring

__all__ = ["Bounds", "derived", "half_point", "proved_shifts", "quantile_claims", "tail"]

_LISTED = 4  # up to so many rows of a unit every way to spread those of two units is tried
_COUNTED = 64  # up to so many rows partitions are counted; more have more of them than are ever claimed
_SUMMED = 1 << 16  # the largest scale of a discrete Gaussian whose tail is summed number by number

Vector = tuple[int, ...]


class Bounds(NamedTuple):
    """What one unit has at most: cells, rows in a cell, rows in all; and the number of cells (None: any)."""

    groups: int
    per_group: int
    rows: int
    cells: int | None


@lru_cache(maxsize=4096)  # the steps of a plan have few different bounds
def derived(bounds: Bounds, low: int, high: int, neighboring: Neighboring) -> Sensitivity:
    """The four norms where one contribution is between ``low`` <= 0 and ``high`` >= 0; the worst cases if listed."""
    if low == high:
        return Sensitivity(l0=0, l1=Fraction(0), l2_squared=Fraction(0), linf=Fraction(0))
    if bounds.rows <= _LISTED:
        return _listed(bounds, low, high, neighboring)
    add_remove = neighboring is Neighboring.ADD_REMOVE
    p, q = max(high, -low), 0 if add_remove else min(high, -low)
    groups, per_group, rows, cells = bounds
    room = groups if add_remove else 2 * groups if cells is None else min(2 * groups, cells)
    return Sensitivity(
        l0=room,
        l1=Fraction(p * rows if add_remove else _most(bounds, room, p, q)),
        l2_squared=Fraction(_blocks(bounds) * p * p if add_remove else _most_squared(bounds, room, p, q)),
        linf=Fraction(per_group * (p + q)),
    )


def _listed(bounds: Bounds, low: int, high: int, neighboring: Neighboring) -> Sensitivity:
    """Over every way to spread the rows of the old and the new unit, each row at an end of its interval.

    Units with all of their rows are enough: there is room for one more wherever one is missing, and no cell can then
    change by less, nor does a cell that could change stop to.
    """
    room = 2 * bounds.rows if bounds.cells is None else min(bounds.cells, 2 * bounds.rows)
    new = 0 if neighboring is Neighboring.ADD_REMOVE else bounds.rows
    changes = {
        tuple(sorted((max(m * high - n * low, n * high - m * low) for n, m in way), reverse=True))
        for way in _spread(bounds.rows, new, room, bounds.groups, bounds.groups, (bounds.per_group, bounds.per_group))
    }
    worst = [one for one in changes if not any(other != one and _within(one, other) for other in changes)]
    return Sensitivity(
        l0=max(len(change) for change in changes),
        l1=Fraction(max(sum(change) for change in changes)),
        l2_squared=Fraction(max(sum(c * c for c in change) for change in changes)),
        linf=Fraction(max(change[0] for change in changes)),
        shifts=tuple(sorted(worst)),
    )


def _within(small: Vector, large: Vector) -> bool:
    return len(small) <= len(large) and all(a <= b for a, b in zip(small, large, strict=False))


def _spread(
    old: int, new: int, room: int, old_cells: int, new_cells: int, largest: tuple[int, int], first: Vector | None = None
) -> Iterator[tuple[tuple[int, int], ...]]:
    """Ways to put ``old`` and ``new`` rows into ``room`` cells: pairs (of the old, of the new unit), falling."""
    if not old and not new:
        yield ()
        return
    if not room:
        return
    for pair in product(range(min(old, largest[0]), -1, -1), range(min(new, largest[1]), -1, -1)):
        n, m = pair
        if pair == (0, 0) or (first is not None and pair > first):
            continue
        left = (old_cells - (n > 0), new_cells - (m > 0))
        if min(left) >= 0:
            for others in _spread(old - n, new - m, room - 1, *left, largest, pair):
                yield (pair, *others)


def _blocks(bounds: Bounds) -> int:
    """The largest sum of squares of a unit's rows per cell: moving a row to a cell that has no fewer raises it."""
    full, rest = divmod(bounds.rows, bounds.per_group)
    return full * bounds.per_group**2 + rest**2


def _most(bounds: Bounds, room: int, p: int, q: int) -> int:
    """The largest sum of changes: q for every row, and p - q more for those of the unit that has more in the cell.

    Giving k cells to the one unit and the others to the other one, those are at most min(k r, t) and
    min((room - k) r, t) rows; the sum is concave in k and symmetric, so that an even split is best. Rows that do not
    fit there go where the other unit has more.
    """
    halves = (room // 2, room - room // 2)
    return q * 2 * bounds.rows + (p - q) * sum(min(k * bounds.per_group, bounds.rows) for k in halves)


def _most_squared(bounds: Bounds, room: int, p: int, q: int) -> int:
    """The largest sum of squares, from the blocks (full cells and one rest) of the two units.

    Blocks of n >= m rows in one cell give (p n + q m)^2 = p^2 n^2 + p^2 m^2 + [2 p q n m - (p^2 - q^2) m^2]: the
    bracket is the price of a pair. Of ``pairs`` pairs at most one has the one unit's rest and at most one the other
    unit's; all that is left is how many pairs there are, at least as many as the cells want, and the sum is linear
    in it.
    """
    r = bounds.per_group
    full, s = divmod(bounds.rows, r)
    blocks = full + (s > 0)

    def price(n: int, m: int) -> int:
        return 2 * p * q * n * m - (p * p - q * q) * m * m

    kinds = [(0, 0, full)]  # (pairs with a rest, their price, the most pairs of full cells besides)
    if s:
        kinds += [(1, price(s, s), full), (1, price(r, s), full - 1), (2, 2 * price(r, s), full - 1)]
    found = []
    for rests, value, others in kinds:
        fewest = max(0, 2 * blocks - room - rests)
        if fewest <= others:
            found += [value + count * price(r, r) for count in (fewest, others)]
    return 2 * p * p * _blocks(bounds) + max(found)


def proved_shifts(shifts: tuple[Vector, ...], bounds: Bounds, low: int, high: int, neighboring: Neighboring) -> bool:
    """Whether these are the worst cases: none that is missing, none that no unit reaches.

    None at all claims nothing, and passes for units that may have several rows.
    """
    if bounds.rows > 1 and not shifts:
        return True
    known = derived(bounds, low, high, neighboring)
    if bounds.rows <= _LISTED or not known.l0:
        return shifts == known.shifts
    p, q = max(high, -low), min(high, -low)
    return _worst(shifts, bounds, known.l0, p, None if neighboring is Neighboring.ADD_REMOVE else q)


def _worst(shifts: tuple[Vector, ...], bounds: Bounds, room: int, p: int, q: int | None) -> bool:
    """Whether these are the worst cases of a unit with many rows; ``q`` is None where units are added or removed."""
    groups, r, rows, _ = bounds
    if rows == groups * r:  # every cell is full: what counts is how many cells the two units share
        shared = [0] if q is None else [2 * groups - room] if q == 0 else range(2 * groups - room, groups + 1)
        if len(shared) != len(shifts):
            return False
        alone = groups if q is None else 2 * groups
        expected = {(r * (p + (q or 0)),) * both + (r * p,) * (alone - 2 * both) for both in shared}
        return set(shifts) == expected
    if q is not None:
        return False
    # Distinct partitions of all rows, none of them missing, for they are as many as there are.
    proper = all(
        len(shift) <= groups
        and sum(shift) == rows * p
        and all(0 < c <= r * p and c % p == 0 for c in shift)
        and list(shift) == sorted(shift, reverse=True)
        for shift in shifts
    )
    # In a box of groups by r, what a partition leaves out is one of what is left.
    part = min(rows, groups * r - rows)
    return proper and part <= _COUNTED and len(set(shifts)) == len(shifts) == _partitions(part, groups, r)


@lru_cache(maxsize=1 << 16)
def _partitions(rows: int, groups: int, most: int) -> int:
    """How many ways there are to write ``rows`` as a sum of at most ``groups`` numbers from 1 to ``most``."""
    if not rows:
        return 1
    if not groups or not most:
        return 0
    with_most = _partitions(rows - most, groups - 1, min(most, rows - most)) if rows >= most else 0
    return with_most + _partitions(rows, groups, min(most - 1, rows))


@lru_cache(maxsize=4096)
def quantile_claims(bounds: Bounds, at: Fraction, neighboring: Neighboring) -> frozenset[tuple[int, Fraction]]:
    """Pairs of rounds and spread that are proved: cells one by one, or a cell that is left with one that is entered.

    Draws of several cells cost what one draw of all their spreads together costs. Put together while they fit, of b
    draws that are left any two exceed one spread, so that all exceed b / 2 of them.
    """
    one, swapped = _score_spread(at, exchanged=False), _score_spread(at, exchanged=True)
    groups, r, rows, cells = bounds
    if neighboring is Neighboring.ADD_REMOVE:
        ways = [(groups, r * one)]
        total = rows * one
    else:
        room = 2 * groups if cells is None else min(cells, 2 * groups)
        ways = [(room, r * max(one, swapped)), (groups, 2 * r * one)]
        total = 2 * rows * one
    claims = set()
    for most, spread in ways:
        together = -(-2 * total // spread) - 1  # the largest b with b * spread < 2 * total
        claims.add((min(most, max(1, int(together))), spread))
    return frozenset(claims)


def _score_spread(at: Fraction, *, exchanged: bool) -> Fraction:
    """By how much one value more (or exchanged) changes two scores differently, at the utmost.

    The score at x is the largest of #{< x} - at n, #{> x} - (1 - at) n and 0. Let the value's weight grow from 0 to 1:
    the score's slope is that of the term that is largest. The first rises with x and is never positive at rank 1,
    the second falls and is never positive at rank 0: that leaves these pairs of terms at two places x < x'.
    """
    terms = {"second": at > 0, "zero": True, "first": at < 1}
    places = [(a, b) for i, a in enumerate(terms) for b in list(terms)[i:] if terms[a] and terms[b]]

    def slope(term: str, x: int, value: int) -> Fraction:
        return {"first": (value < x) - at, "zero": Fraction(0), "second": (value > x) - (1 - at)}[term]

    def apart(left: str, right: str, value: int) -> Fraction:
        return slope(left, 1, value) - slope(right, 3, value)  # x = 1, x' = 3; values on, between and beside them

    pairs = [[apart(left, right, value) for value in range(5)] for left, right in places]
    if exchanged:
        return max(abs(new - old) for each in pairs for new in each for old in each)
    return max(abs(change) for each in pairs for change in each)


@lru_cache(maxsize=4096)
def tail(mechanism: str, scale: Fraction, least: int) -> float:
    """The probability that the noise is at least ``least`` >= 1; for wide Gaussians an upper bound.

    There the sum over k >= m of a convex falling function is at most its integral from m - 1/2 on, and the sum over
    all k at least scale sqrt(2 pi).
    """
    width = float(scale)
    if mechanism == "laplace_threshold":
        return math.exp(-least / width) / (1 + math.exp(-1 / width))  # (1 - q) / (1 + q) (q^m + q^(m + 1) + ...)
    # The bound holds for every width; 40 widths out it is 0 in floats, as the sum is, which would be as long as that.
    if least > width and (width > _SUMMED or least > 40 * width + 40):
        return math.erfc((least - 0.5) / (width * math.sqrt(2))) / 2
    far = max(least, math.ceil(12 * width)) + math.ceil(12 * width) + 40
    masses = np.exp(-((np.arange(0, far + 1) / width) ** 2) / 2)
    # From the far end inwards, so that small tails keep their digits.
    return float(masses[least:][::-1].sum() / (2 * masses[1:][::-1].sum() + 1))


@lru_cache(maxsize=4096)
def half_point(epsilon: float, delta: float) -> int:
    """With how many units a coin that is (epsilon, delta)-private shows a key as likely as not, one coin per count.

    The coin of n + 1 units may be as likely as exp(epsilon) times that of n and delta, and as unlikely not to show as
    exp(-epsilon) times that, less delta; of several hundred thousand steps the closed form of the first is taken.
    """
    growth, chance, units = math.exp(epsilon), 0.0, 0
    if epsilon > 0:
        units = max(0, int(math.log1p(math.expm1(epsilon) / (delta * (1 + growth)) * (1 - delta)) / epsilon) - 2)
        chance = delta * math.expm1(units * epsilon) / math.expm1(epsilon)
    while chance < 0.5:
        chance = min(growth * chance + delta, 1 - (1 - chance - delta) / growth)
        units += 1
    return units
