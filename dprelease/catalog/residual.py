"""The residual of a table of counts: its contrasts along some of its axes, as whole numbers.

The residual query of a table x with axes b is grain (identity (x) (x)_{i in b} (n_i I - 1 1^T)) x: along each axis of b
every entry times the number of keys, less the sum over the axis; the other axes only tell *slices* apart, each of which
is contrasted by itself. Divided by ``divisor`` it is the centred table of ResidualPlanner (Xiao, He, Zhang and Kifer
2023, "An optimal and scalable matrix mechanism for noisy marginals under convex loss functions"). As it is integer, it
can be hidden with integer noise. Proofs: docs/proofs/residual-draws.md.

>>> Residual(shape=(51, 2, 10), axes=(1, 2), grain=52).divisor
1040
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from math import prod
from typing import Self

from pydantic import Field, model_validator

from dprelease.canonical import Value
from dprelease.privacy.event import Sensitivity
from dprelease.privacy.unit import Neighboring

__all__ = ["Residual", "grain_for", "residual_sensitivity"]

_LEAST_DIVISOR = 1024  # epsilon is then within 2 parts in 10^6 of continuous noise (docs/proofs/residual-draws.md, 4)
_LARGEST = 2**61  # so large the exact numbers may be: the noise has the rest of 64 bits


class Residual(Value):
    """Which contrasts of a table of counts are drawn.

    Attributes:
        shape: How many keys each column of the step's ``by`` has.
        axes: The positions of the columns that are contrasted, rising; none: the table itself.
        grain: Every contrast is multiplied by it, so that the lattice of the noise is fine.

    Raises:
        ValueError: If a column has no keys, the axes do not rise or do not exist, or a contrasted one has one key:
            that query is zero, and nothing is worth drawing.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    grain: int = Field(ge=1)

    @model_validator(mode="after")
    def _is_sound(self) -> Self:
        if min(self.shape, default=1) < 1:
            raise ValueError("every column of a residual has at least one key")
        if list(self.axes) != sorted(set(self.axes)) or not all(0 <= at < len(self.shape) for at in self.axes):
            raise ValueError("the axes of a residual are rising positions in its shape")
        if min(self.contrasted, default=2) < 2:
            raise ValueError("a column with one key has no contrasts: leave it out of the axes of a residual")
        return self

    @property
    def contrasted(self) -> tuple[int, ...]:
        """How many keys each contrasted column has."""
        return tuple(self.shape[at] for at in self.axes)

    @property
    def slices(self) -> int:
        """How many parts of the table are contrasted, each by itself."""
        return prod(self.shape) // prod(self.contrasted)

    @property
    def divisor(self) -> int:
        """The answer divided by it is in rows: grain times the number of cells of a slice."""
        return self.grain * prod(self.contrasted)

    def of_nodes(self, count: int) -> Residual:
        """The same contrasts of so many keys of the first column, which is none of the contrasted ones.

        A slice lies in one key of that column and is contrasted by itself, so that this query is the whole one's part
        for these keys, number by number; grain, divisor and ``most_rows`` are those of the whole one.

        Raises:
            ValueError: If there is no first column, or it is contrasted.
        """
        if not self.shape or 0 in self.axes:
            raise ValueError("a residual is cut along its first column, where that is not contrasted")
        return Residual(shape=(count, *self.shape[1:]), axes=self.axes, grain=self.grain)

    @property
    def most_rows(self) -> int:
        """The largest count of one cell with which every number fits; of larger ones contrasts are clamped.

        No contrast of a table with counts in [-M, M] is larger than grain M prod 2 (n_i - 1), and nothing that is
        made on the way: an axis turns [-K, K] into [-2 (n - 1) K, 2 (n - 1) K] by way of n K <= 2 (n - 1) K.
        """
        return _LARGEST // (self.grain * prod(2 * (n - 1) for n in self.contrasted))


def grain_for(shape: tuple[int, ...], axes: tuple[int, ...]) -> int:
    """The smallest grain with which the lattice of the noise is fine enough to cost nothing.

    >>> grain_for((51, 2, 10), (1, 2)), grain_for((51,), ()), grain_for((40, 40), (0, 1))
    (52, 1024, 1)
    """
    return -(-_LEAST_DIVISOR // prod(shape[at] for at in axes))


def residual_sensitivity(residual: Residual, rows: int, neighboring: Neighboring, each: int = 1) -> Sensitivity:
    """How far one unit can move the residual of a table of counts, in steps of its lattice.

    Every row adds at most ``each`` to one cell or counts nowhere; a unit has at most ``rows`` rows, in any cells, also
    all in one.

    Proof, in short (docs/proofs/residual-draws.md). A unit changes the table by u - v with u, v >= 0 and at most
    ``rows`` times ``each`` in each (v = 0 or u = 0 for add or remove). A norm is convex in (u, v), so that it is
    largest at a corner: all rows of u in one cell a, all of v in one cell c, or none. Rows in a alone move the answer
    by the column of a, entries prod of n_i - 1 (where the cell has the key of a) or -1: L1 = prod 2 (n_i - 1), L2^2 =
    prod n_i (n_i - 1), Linf = prod (n_i - 1). Rows in a and c of different slices: twice the sums. Of one slice, with
    different keys along the axes D: two columns meet, and columns of one axis with different keys have the inner
    product -n_i, so that L2^2 = 2 (prod n_i (n_i - 1) - prod_D (-n_i) prod_{not D} n_i (n_i - 1)), largest where D is
    the axis with the fewest keys, alone; so is Linf. For L1 every D is tried. The number of changed cells is not
    convex: every slice that a row is in changes as a whole.

    All four norms are reached, each by itself, where a unit's rows may all be in one cell.

    Args:
        residual: The query.
        rows: The most rows of one unit that count (``Limits.rows``).
        neighboring: Which tables are neighbours.
        each: The most that one row adds: the clip of its weight.

    Returns:
        The norms; ``shifts`` is empty, for the accountants read such fine lattices by their norms.

    Raises:
        ValueError: If ``rows`` is not positive.
    """
    if rows < 1:
        raise ValueError("a unit has at least one row")
    apart = residual.slices > 1
    replaced = neighboring is Neighboring.REPLACE_ONE
    l1, l2_squared, linf = _norms(tuple(sorted(residual.contrasted)), apart, replaced)
    reach = rows * each * residual.grain
    return Sensitivity(
        l0=prod(residual.contrasted) * min(residual.slices, 2 * rows if replaced else rows),
        l1=Fraction(reach * l1),
        l2_squared=Fraction(reach**2 * l2_squared),
        linf=Fraction(reach * linf),
    )


@lru_cache(maxsize=4096)  # the residuals of a plan have few different sizes
def _norms(sizes: tuple[int, ...], apart: bool, replaced: bool) -> tuple[int, int, int]:
    """L1, L2^2 and Linf for one row and grain 1; ``apart``: whether there are several slices; ``sizes`` rise."""
    l1, l2_squared, linf = (
        prod(2 * (n - 1) for n in sizes),
        prod(n * (n - 1) for n in sizes),
        prod(n - 1 for n in sizes),
    )
    if not replaced:
        return l1, l2_squared, linf
    if not sizes:
        return (2, 2, 1) if apart else (1, 1, 1)
    fewest = sizes[0]
    # n (n - 1) + n = n^2, and n - 1 + 1 = n, in place of the fewest n's own factor
    most_l2, most_linf = 2 * l2_squared // (fewest - 1) * fewest, linf // (fewest - 1) * fewest
    if apart:  # no two columns differ by more than the sum of their norms
        return 2 * l1, most_l2, most_linf
    most_l1 = max(prod(2 * (n - 1) for n in same) * _distance(differ) for differ, same in _parted(sizes))
    return max(l1, most_l1), most_l2, most_linf


def _parted(sizes: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Every way to choose axes along which two cells differ, and the others; equal sizes are not told apart."""
    for count in range(1, len(sizes) + 1):
        for differ in set(combinations(sizes, count)):
            yield differ, tuple((Counter(sizes) - Counter(differ)).elements())


def _distance(sizes: tuple[int, ...]) -> int:
    """The L1 distance of the columns of two cells of one slice whose keys differ along all of these axes."""
    pairs = Counter({(1, 1): 1})  # entries of the two columns, and how many cells have them
    for n in sizes:
        met: Counter[tuple[int, int]] = Counter()
        for (one, other), count in pairs.items():
            met[one * (n - 1), -other] += count
            met[-one, other * (n - 1)] += count
            met[-one, -other] += count * (n - 2)
        pairs = met
    return sum(abs(one - other) * count for (one, other), count in pairs.items())
