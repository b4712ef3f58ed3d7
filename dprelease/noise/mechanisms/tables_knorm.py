"""K-norm noise on several tables of counts at once: one draw of integer tables that all have one sum.

One row adds 1 to one cell of each of T tables. Noise x_1, ..., x_T on all integer tables of one sum has P(x)
proportional to exp(-||x|| / scale), ||x|| = max_t |x_t|_1: a row has the norm 1, so that it costs 1 / scale for all
tables together, where T draws of discrete Laplace noise cost T / scale. The noisy tables have one total, as the exact
ones have, so that nothing is left to reconcile between tables without a common attribute. The sampler, its law and what
it costs are proved in docs/proofs/joint-tables.md; the construction is the project's own.

>>> round(TablesKNorm().law(Fraction(1), (6,) * 5).cell_variance(6) ** 0.5, 3)
4.973
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.errors import BrokenPromiseError
from dprelease.noise.exact import Exact, open_exact
from dprelease.noise.mechanisms.knorm import least_margin, saturated
from dprelease.noise.mechanisms.lattice_tables import (
    dimension_of,
    numerator_of,
    point_under,
    products,
    rows_under,
    rows_within,
    squares_rows,
    sums_over_caps,
    tables_under,
    tail_rows,
)
from dprelease.noise.native.entropy import Below, Entropy, TiltedChoice, geometric
from dprelease.privacy.event import KNorm
from dprelease.privacy.newton import forward_differences, polynomial_series
from dprelease.privacy.rounding import CONTEXT, real

__all__ = ["TablesKNorm", "TablesLaw", "TablesSampler", "is_drawn"]

_EASY = 96  # dimensions
_MOST_DIMENSION, _MOST_WORK = 320, 3_000_000

# Everything that is summed is positive, so that a few hundred operations in 60 digits stay far inside this.
_PAD = CONTEXT.mpf(10) ** -50


@dataclass(frozen=True)
class TablesLaw:
    """The law of one draw, in counts.

    All cells of one table have one law, and so have all tables of one size. With V the variance of the total and w the
    *contrast variance* of a table of n cells, its cells have the covariance V / n^2 + w ([same cell] - 1 / n); cells of
    two tables, of n and m cells, have V / (n m).

    Attributes:
        scale: Positive.
        sizes: The number of cells of each table, each at least 2.
    """

    scale: Fraction
    sizes: tuple[int, ...]

    @property
    def variance(self) -> float:
        """The largest variance of a cell."""
        return max(map(self.cell_variance, set(self.sizes)))

    def margin(self, confidence: Fraction) -> int:
        """The least m that bounds any one cell with this confidence."""
        return max(self.cell_margin(cells, confidence) for cells in set(self.sizes))

    @cached_property
    def total_variance(self) -> float:
        """The variance of the total: E (up - down)^2."""
        return float(self._series(_total_squares(self.sizes)) / self._all)

    @lru_cache(maxsize=256)  # noqa: B019 - laws are small frozen values, and the cache is bounded
    def cell_variance(self, cells: int) -> float:
        """The variance of a cell of the tables with so many cells."""
        return float(self._series(_cell_squares(self.sizes, cells)) / self._all)

    def contrast_variance(self, cells: int) -> float:
        """What is left of a cell's variance without its part of the total's, for each (n - 1) / n of a contrast."""
        return (self.cell_variance(cells) - self.total_variance / cells**2) / (1 - 1 / cells)

    def cell_tail(self, cells: int, margin: int) -> float:
        """P(|cell| > margin), for a margin >= 0."""
        return float(self._cell_tail(cells, margin))

    def total_tail(self, margin: int) -> float:
        """P(|total| > margin), for a margin >= 0."""
        return float(self._total_tail(margin))

    @lru_cache(maxsize=256)  # noqa: B019 - as above
    def cell_margin(self, cells: int, confidence: Fraction) -> int:
        """The least m with P(|cell| <= m) >= confidence, by bisection of the exact tail.

        Raises:
            BrokenPromiseError: If the confidence is not below 1.
        """
        return least_margin(lambda margin: self._cell_tail(cells, margin) * (1 + _PAD), confidence)

    @lru_cache(maxsize=256)  # noqa: B019 - as above
    def total_margin(self, confidence: Fraction) -> int:
        """The same of the total."""
        return least_margin(lambda margin: self._total_tail(margin) * (1 + _PAD), confidence)

    @property
    def _rate(self) -> Any:
        return 1 / real(self.scale)

    @cached_property
    def _all(self) -> Any:
        return self._series(_counts(self.sizes))

    def _series(self, values: Sequence[int]) -> Any:
        return polynomial_series(values, self._rate)

    def _cell_tail(self, cells: int, margin: int) -> Any:
        """Twice the sum over caps from (margin + 1, 0) on of exp(-(up + down) / scale) times the tables over it."""
        start, values = margin + 1, dimension_of(self.sizes) + 1
        others = rows_under(_without(self.sizes, cells), ((start + left, values - left) for left in range(values)))
        found = self._series(sums_over_caps(products(_tail_rows(cells, values), others)))
        return 2 * found * CONTEXT.exp(-self._rate * start) / self._all

    def _total_tail(self, margin: int) -> Any:
        """Twice the sum over totals j > margin and caps (j + down, down), by differences in both."""
        q, degree, start = CONTEXT.exp(-self._rate), dimension_of(self.sizes), margin + 1
        rows = rows_under(self.sizes, ((start + more, min(more + 1, degree)) for more in range(2 * degree - 1)))
        columns = [forward_differences([rows[j + down][down] for down in range(degree)]) for j in range(degree)]
        each, both = 1 / -CONTEXT.expm1(-self._rate), 1 / -CONTEXT.expm1(-2 * self._rate)
        weights = [each * (q * each) ** j for j in range(degree)]
        found = CONTEXT.mpf(0)
        for down in range(degree):
            inner = forward_differences([column[down] for column in columns])
            found += CONTEXT.fdot(inner, weights) * both * (q * q * both) ** down
        return 2 * found * q**start / self._all


class TablesSampler:
    """One tuple of tables after the other, without rejection.

    The caps' sum S has P(S) proportional to A(S) exp(-S / scale), A as in :func:`numerator_of`: it is J + G_0 + ... +
    G_D, J on 0..D-1 with weights h_j exp(-j / scale) and D + 1 geometric variables. Given S the caps (up, S - up) have
    weights that are a polynomial in up, whose sums are known by differences. Given the caps the tables are independent.

    Args:
        scale: Positive.
        sizes: The number of cells of each table, each at least 2.
    """

    def __init__(self, scale: Fraction, sizes: Sequence[int]) -> None:
        self._scale, self._sizes, self._dimension = scale, tuple(sizes), dimension_of(sizes)
        weights = numerator_of(self._sizes)
        if min(weights) < 0:
            raise BrokenPromiseError("weights of joint tables are never negative, and one is")
        self._shift = TiltedChoice(weights, scale)

    def tables(self, below: Below) -> list[list[int]]:
        """One draw; ``below(n)`` is uniform on 0..n-1."""
        total = self._shift.draw(below) + sum(geometric(below, self._scale) for _ in range(self._dimension + 1))
        up = self._up(below, total)
        return [point_under(below, cells, up, total - up) for cells in self._sizes]

    def _up(self, below: Below, total: int) -> int:
        """The upper cap: the weights of 0, ..., P - 1 add up to sum over j of d_j C(P, j + 1)."""
        known = min(self._dimension - 1, total)
        steps = forward_differences([tables_under(self._sizes, up, total - up) for up in range(known + 1)])

        def before(up: int) -> int:
            return sum(step * comb(up, j + 1) for j, step in enumerate(steps))

        rank, low, high = below(before(total + 1)), 0, total
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if before(middle) <= rank else (low, middle - 1)
        return low


def is_drawn(sizes: Sequence[int], *, total: bool) -> bool:
    """Whether a plan draws such tables: whether their exact margins take about a second or less.

    The work for margins of cells goes with the square of the dimension and the cells of the largest table; that for
    margins of the total with the third power of the dimension.

    Args:
        sizes: The number of cells of each table.
        total: Whether margins of the total are wanted.
    """
    dimension = dimension_of(sizes)
    easy = dimension <= _MOST_DIMENSION and dimension**2 * max(sizes) <= _MOST_WORK
    return dimension <= _EASY or (easy and not total)


class TablesKNorm:
    """Noise for tables of counts of the same rows, each of which is in one cell of every table."""

    name = "tables_knorm"

    def event(self, scale: Fraction, gauge: Fraction) -> KNorm:
        """What it costs: exactly what one number with K-norm noise does; ``gauge`` is the norm that one unit moves."""
        return KNorm(ball="count", dimension=1, scale=scale, gauge=gauge)

    def law(self, scale: Fraction, sizes: tuple[int, ...]) -> TablesLaw:
        """The distribution of the noise on tables of these sizes."""
        return _law(scale, sizes)

    def draw_tables(self, exacts: Sequence[Exact], scale: Fraction) -> tuple[npt.NDArray[np.int64], ...]:
        """Noisy tables, with one fresh draw from operating-system entropy for all of them.

        The sums saturate at the limits of 64 bits, after the noise; that is post-processing.

        Args:
            exacts: One box for each table, of shape ``(cells,)``, at least 2 cells.
            scale: In counts, any positive rational; used exactly.

        Returns:
            One array of type ``int64`` for each table, in the order of the boxes.

        Raises:
            BrokenPromiseError: If there is no box, one has fewer than 2 cells, the tables have different totals, which
                tables of the same rows never have, or the scale is not positive.
        """
        values = [open_exact(exact) for exact in exacts]
        sizes = [len(cells) for cells in values]
        if scale <= 0 or not sizes or min(sizes) < 2:
            raise BrokenPromiseError("noise on tables needs a positive scale and tables of at least two cells")
        if len({sum(cells.tolist()) for cells in values}) != 1:
            # The noise of all tables has one sum, so that another total would show, whatever the noise.
            raise BrokenPromiseError("tables that are hidden together do not count the same rows")
        with Entropy() as entropy:
            noise = TablesSampler(scale, sizes).tables(entropy.below)
        return tuple(
            np.array([saturated(exact + one) for exact, one in zip(cells.tolist(), own, strict=True)], "i8")
            for cells, own in zip(values, noise, strict=True)
        )


@lru_cache(maxsize=1024)
def _law(scale: Fraction, sizes: tuple[int, ...]) -> TablesLaw:
    return TablesLaw(scale, tuple(sizes))


@lru_cache(maxsize=256)
def _counts(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sums_over_caps(rows_within(sizes, dimension_of(sizes) + 1)))


@lru_cache(maxsize=256)
def _total_squares(sizes: tuple[int, ...]) -> tuple[int, ...]:
    values = dimension_of(sizes) + 3
    squares = [[(up - down) ** 2 for down in range(values - up)] for up in range(values)]
    return tuple(sums_over_caps(products(squares, rows_within(sizes, values))))


@lru_cache(maxsize=256)
def _cell_squares(sizes: tuple[int, ...], cells: int) -> tuple[int, ...]:
    values = dimension_of(sizes) + 3
    others = rows_within(_without(sizes, cells), values)
    return tuple(sums_over_caps(products(squares_rows(cells, values), others)))


@lru_cache(maxsize=8)
def _tail_rows(cells: int, values: int) -> list[list[int]]:
    """A search for a margin asks for them at every step."""
    return tail_rows(cells, values)


def _without(sizes: Sequence[int], cells: int) -> list[int]:
    left = list(sizes)
    left.remove(cells)
    return left
