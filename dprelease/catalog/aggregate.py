"""The one thing that an engine computes: a bounded exact number per public cell, on an integer grid."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from pydantic import Field

from dprelease.canonical import Value
from dprelease.catalog.table import Table
from dprelease.privacy.event import Sensitivity
from dprelease.privacy.unit import Neighboring

__all__ = ["BoundedAggregate", "Quantity", "sensitivity"]


class Quantity(Value):
    """What one row contributes to its cell, as an integer.

    ``rows`` contributes 1; ``nonnull`` contributes 1 where ``column`` is not null; ``balance`` contributes 1 where
    ``column`` is not null and -1 where it is; ``sum`` contributes ``clip(round(value / step), low, high) - centre``
    where ``column`` is not null; ``square`` contributes that number squared, divided by ``grain`` (halves upward) and
    less ``offset``, where ``column`` is not null. Where nothing is said, a row contributes 0. Rounding to steps comes
    before clipping, so that no contribution of a sum leaves ``[low - centre, high - centre]``; there halves round
    away from zero.

    Attributes:
        kind: One of the five.
        column: The column that is counted or summed.
        step: The grid of a sum or a square, in units of the column.
        low: Their lower clip, in steps.
        high: Their upper clip, in steps.
        centre: What is subtracted from every clipped value, in steps.
        grain: The grid of a square, in squared steps.
        offset: What is subtracted from every square, in grains; half of the largest halves the sensitivity.
    """

    kind: Literal["rows", "nonnull", "balance", "sum", "square"]
    column: str | None = None
    step: Fraction = Fraction(1)
    low: int = 0
    high: int = 1
    centre: int = 0
    grain: int = Field(default=1, ge=1)
    offset: int = 0

    @property
    def grid(self) -> Fraction:
        """One whole step of the sum, in units of the column (of their square, for squares); 1 for counts."""
        if self.kind == "square":
            return self.step * self.step * self.grain
        return self.step if self.kind == "sum" else Fraction(1)

    @property
    def contribution(self) -> tuple[int, int]:
        """The least and the largest that one row can contribute, a row that is skipped (0) included."""
        if self.kind == "balance":
            return (-1, 1)
        if self.kind == "square":
            least, most = self.squares
            return (min(0, least - self.offset), max(0, most - self.offset))
        if self.kind == "sum":
            return (min(0, self.low - self.centre), max(0, self.high - self.centre))
        return (0, 1)

    @property
    def squares(self) -> tuple[int, int]:
        """The least and the largest square of a clipped, centred value, in grains, before ``offset`` is taken off.

        The square of x falls up to x = 0 and rises from there, and rounding keeps order: the largest is at an end
        of the clip, the least at the centre, or at the end that is nearer to it where the clip leaves it out.
        """
        ends = [self.in_grains(end - self.centre) for end in (self.low, self.high)]
        return (0 if self.low <= self.centre <= self.high else min(ends), max(ends))

    def in_grains(self, centred: int) -> int:
        """The square of a centred number of steps as a whole number of grains, halves upward.

        >>> [Quantity(kind="square", grain=4).in_grains(x) for x in (-3, -1, 0, 1, 2)]
        [2, 0, 0, 0, 1]
        """
        # floor(s / g + 1/2) without a fraction: for an odd g no s / g ends in a half, so g // 2 will do.
        return (centred * centred + self.grain // 2) // self.grain


class BoundedAggregate(Value):
    """A quantity of a table, summed in every cell of the full cross product of the keys of ``by``.

    The cells are in row-major order of the columns of ``by`` and of their keys: the last column runs fastest.
    """

    table: str
    by: tuple[str, ...]
    quantity: Quantity


def sensitivity(aggregate: BoundedAggregate, table: Table, neighboring: Neighboring) -> Sensitivity:
    """How far one unit can move the cells of an aggregate, in grid steps, where every row is one unit.

    Proof. One row contributes c in [a, b] (a <= 0 <= b, for it may be skipped) to at most one cell; m = max(-a, b).
    Add or remove one row: one cell changes by c, and |c| <= m: the shift (m) covers it.
    Replace one row: either both rows are in one cell, which changes by at most b - a: the shift (b - a) covers it;
    or they are in two cells, which change by c and -c', both at most m in size: the shift (m, m) covers it, whichever
    is larger. With one cell only the first is possible. A row that leaves the cells (or enters them) is the case
    c' = 0 (or c = 0). So every change, sorted by size, is at most one of these shifts in every coordinate, and each
    shift is itself a change (the rows that contribute a and b exist, and so does a row that is skipped).
    All four norms grow with every coordinate's size, so their maxima are those of the shifts.
    Where b - a = m, the shift (b - a) is covered by (m, m) and dropped.
    """
    low, high = aggregate.quantity.contribution
    most, spread = max(-low, high), high - low
    if neighboring is Neighboring.ADD_REMOVE:
        return Sensitivity.of_shifts((most,))
    if table.cells(aggregate.by) == 1:
        return Sensitivity.of_shifts((spread,))
    return Sensitivity.of_shifts((spread,), (most, most))
