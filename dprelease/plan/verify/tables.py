"""The noise of one draw over several tables, derived again: tables are counted cell by cell, and caps are geometric.

Tables of one sum fit under caps (up, down) where their sum is up - down and no entries below zero of a table add up to
more than down. Their number f is a product over tables, and that of one table grows by a cell as W'(up, down) = W(up,
down) + sum over k >= 1 of W(up - k, down) + W(up, down - k): the new cell is 0, k or -k. The noise has the law of
tables under caps with the weight f(up, down) q^(up + down), q = exp(-1 / scale): summed over all caps that fit tables
it is q^norm / (1 - q^2). So every expectation is one of a polynomial in two independent geometric variables. Added up
where both have the sum S it is a polynomial in S, and sum over S of C(S, j) q^S = q^j / (1 - q)^(j + 1). Whole numbers
up to there, floats after.

Nothing here calls the mechanism; ``noise.mechanisms.tables_knorm`` has closed forms for all numbers of tables.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise
from math import comb, prod
from operator import mul

from dprelease.catalog.table import Catalog
from dprelease.estimate.workloads.design import WorkloadDraw
from dprelease.plan.document import Invariant, Measured, Step, Workload

__all__ = ["TablesNoise", "covers_together", "taken_together"]

_TOLERANCE = 1e-9
Grid = list[list[int]]


class TablesNoise:
    """The noise of one draw.

    Args:
        scale: Positive.
        sizes: The number of cells of each table.
    """

    def __init__(self, scale: Fraction, sizes: Sequence[int]) -> None:
        self._sizes, self._degree = tuple(sizes), sum(n - 1 for n in sizes)
        self._last = self._degree + 3  # squares and the sum over caps that have one sum make three degrees more
        self._rate = 1 / float(scale)
        self._one = -math.log(math.expm1(self._rate))
        steps = _line(_along(_product(self._sizes, self._last)))
        # Taken off all logarithms: the largest term of this sum, which may be beyond any float.
        self._beside = max(math.log(number) + self._one * j for j, number in enumerate(steps) if number > 0)
        self._all = self._summed(steps)

    def total_variance(self) -> float:
        """Of the sum of the noise in any table."""
        found = _product(self._sizes, self._last)
        return self._mean(_each(found, lambda up, down, number: (up - down) ** 2 * number)) / self._all

    def cell_variance(self, cells: int) -> float:
        """Of a cell of a table with so many."""
        fewer = _counted(cells - 1, self._last)
        below = [_squares(row) for row in fewer]
        above = [_squares(column) for column in _turned(fewer)]
        others = _product(_without(self._sizes, cells), self._last)
        own = _each(others, lambda up, down, number: (above[down][up] + below[up][down]) * number)
        return self._mean(own) / self._all

    def cell_tail(self, cells: int, margin: int) -> float:
        """The probability that a cell is further away from 0 than the margin: twice that of one side."""
        last, start = self._degree + 1, margin + 1
        fewer = _counted(cells - 1, self._last)
        over = [*accumulate(fewer, lambda one, other: [a + b for a, b in zip(one, other, strict=False)])]
        others = _moved(_without(self._sizes, cells), [(start, last - down) for down in range(last + 1)])
        values = [[over[up][down] * others[down][up] for down in range(last + 1 - up)] for up in range(last + 1)]
        return 2 * math.exp(-self._rate * start) * self._mean(values) / self._all

    def total_tail(self, margin: int) -> float:
        """The same of the total: the upper cap is the lower one, the margin and 1, and more."""
        size, start = self._degree, margin + 1
        steps = _differences(_moved(self._sizes, [(start + down, size) for down in range(size + 1)]))
        both = -math.log(math.expm1(2 * self._rate))
        found = math.fsum(
            _term(number, both * down + self._one * more - self._beside)
            for down, row in enumerate(steps)
            for more, number in enumerate(row)
            if number
        )
        # the sum of q^(2 down) over all
        return 2 * math.exp(-self._rate * start) * found / -math.expm1(-2 * self._rate) / self._all

    def _mean(self, values: Grid) -> float:
        """Of a polynomial in two independent geometric variables, up to a factor."""
        return self._summed(_line(_along(values)))

    def _summed(self, steps: Sequence[int]) -> float:
        """The sum of the steps times (q / (1 - q))^j: 1 - q times that of a polynomial in S with these differences."""
        return math.fsum(_term(number, self._one * j - self._beside) for j, number in enumerate(steps) if number)


def taken_together(workload: Workload, steps: Mapping[str, Measured], sizes: Sequence[int]) -> list[WorkloadDraw]:
    """What a draw over the tables of a workload says of its total and of each of its residuals; nothing without one."""
    found = []
    for take in workload.takes:
        step = steps[take.step]
        if isinstance(step, Invariant) or not step.tables:
            continue
        scale, cells_of = step.scale, tuple(table.cells for table in step.tables)
        named = {workload.attributes[at] for at in take.axes}
        cells = next(table.cells for table in step.tables if named <= set(table.by))
        whole, within = _variance(scale, cells_of, 1), prod(sizes[at] for at in take.axes)
        # A cell has the part whole / cells^2 of the total, and of a contrast of variance w the part w (1 - 1 / cells).
        contrast = (_variance(scale, cells_of, cells) - whole / cells**2) * cells / (cells - 1)
        found.append(WorkloadDraw(0, take.axes, bool(take.axes), contrast * cells / within if take.axes else whole))
    return found


def covers_together(
    workload: Workload, catalog: Catalog, step: Step, table: str, margin: Fraction, alpha: float
) -> bool:
    """Whether the numbers of a published table are within a margin as often as its confidence says.

    Args:
        workload: The workload of a plan, all of whose tables one draw hides.
        catalog: The catalog of the same plan.
        step: That draw.
        table: The name of the table.
        margin: In counts; errors are whole numbers.
        alpha: What the confidence leaves.
    """
    columns = workload.columns(*workload.place(table))
    cells = prod(catalog.tables[workload.table].column(name).cells for name in columns)
    whole = math.floor(margin)
    outside = _outside(step.scale, tuple(each.cells for each in step.tables), cells, whole)
    return outside <= alpha * (1 + _TOLERANCE)


@lru_cache(maxsize=8)
def _noise(scale: Fraction, sizes: tuple[int, ...]) -> TablesNoise:
    return TablesNoise(scale, sizes)


@lru_cache(maxsize=64)
def _variance(scale: Fraction, sizes: tuple[int, ...], cells: int) -> float:
    """Of a cell of a table with so many cells; of one that is a whole table, of the total."""
    law = _noise(scale, sizes)
    return law.total_variance() if cells == 1 else law.cell_variance(cells)


@lru_cache(maxsize=64)
def _outside(scale: Fraction, sizes: tuple[int, ...], cells: int, margin: int) -> float:
    law = _noise(scale, sizes)
    return law.total_tail(margin) if cells == 1 else law.cell_tail(cells, margin)


def _term(number: int, log: float) -> float:
    """A whole number other than 0, of any size, times exp(log)."""
    size = math.exp(math.log(abs(number)) + log)
    return size if number > 0 else -size


def _without(sizes: Sequence[int], one: int) -> tuple[int, ...]:
    left = list(sizes)
    left.remove(one)
    return tuple(left)


@lru_cache(maxsize=4)
def _counted(cells: int, last: int) -> Grid:
    """How many tables of so many cells fit under each pair of caps with a sum up to the last: cell after cell."""
    if cells == 1:
        return [[1] * (last + 1 - up) for up in range(last + 1)]
    found, above = list[list[int]](), [0] * (last + 1)
    for row in _counted(cells - 1, last):
        found.append([sum(each) for each in zip(row, above, accumulate(row, initial=0), strict=False)])
        above = [one + other for one, other in zip(row, above, strict=False)]
    return found


def _product(sizes: Sequence[int], last: int) -> Grid:
    found = [[1] * (last + 1 - up) for up in range(last + 1)]
    for cells, times in Counter(sizes).items():
        found = [
            [number * one**times for number, one in zip(row, own, strict=True)]
            for row, own in zip(found, _counted(cells, last), strict=True)
        ]
    return found


def _along(values: Grid) -> list[int]:
    """The sums over caps that have one sum, for each sum."""
    return [sum(values[up][total - up] for up in range(total + 1)) for total in range(len(values))]


def _turned(grid: Grid) -> Grid:
    """By lower cap what was by upper cap."""
    return [[grid[up][down] for up in range(len(grid) - down)] for down in range(len(grid))]


def _each(grid: Grid, number: Callable[[int, int, int], int]) -> Grid:
    return [[number(up, down, one) for down, one in enumerate(row)] for up, row in enumerate(grid)]


def _differences(values: Grid) -> Grid:
    """The forward differences at 0 in both directions: the coefficients in C(up, i) C(down, j).

    Those with i + j beyond the last place are 0, for all these numbers are polynomials of that degree at most; the
    others need no number beyond it either.
    """
    size = len(values)
    columns = [_line(row[: size - up]) for up, row in enumerate(values)]
    lines = [_line([columns[up][down] for up in range(size - down)]) for down in range(size)]
    return [[lines[down][up] for down in range(size - up)] for up in range(size)]


def _squares(values: list[int]) -> list[int]:
    """For each place the sum over k >= 1 of k^2 times the value k places before: k^2 = (k - 1)^2 + 2 (k - 1) + 1."""
    found, squares, times, ones = [], 0, 0, 0
    for value in values:
        squares, times = squares + 2 * times + ones, times + ones
        found.append(squares)
        ones += value
    return found


def _line(values: list[int]) -> list[int]:
    found = []
    while values:
        found.append(values[0])
        values = [after - before for before, after in pairwise(values)]
    return found


def _moved(sizes: Sequence[int], rows: Sequence[tuple[int, int]]) -> Grid:
    """For down = 0, 1, ...: how many tables fit under (start + more, down) for more up to a size; starts may be large.

    Args:
        sizes: Of the tables.
        rows: The start and the size for each down.
    """
    found = [[1] * (size + 1) for _, size in rows]
    chosen = {
        up: [comb(up, i) for i in range(max(sizes))] for start, size in rows for up in range(start, start + size + 1)
    }
    for cells, times in Counter(sizes).items():
        steps = _differences(_counted(cells, cells - 1)) if cells > 1 else [[1]]
        for down, (start, size) in enumerate(rows):
            along = [sum(number * comb(down, j) for j, number in enumerate(row)) for row in steps]
            for more in range(size + 1):
                found[down][more] *= sum(map(mul, along, chosen[start + more])) ** times
    return found
