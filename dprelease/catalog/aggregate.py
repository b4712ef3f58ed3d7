"""The one thing that an engine computes: a bounded exact number per public cell, on an integer grid."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from dprelease.canonical import Value
from dprelease.catalog.table import Table
from dprelease.privacy.event import Sensitivity
from dprelease.privacy.unit import Neighboring

__all__ = ["BoundedAggregate", "Quantity", "sensitivity"]


class Quantity(Value):
    """What one row contributes to its cell, as an integer.

    ``rows`` contributes 1; ``nonnull`` contributes 1 where ``column`` is not null; ``sum`` contributes
    ``clip(round(value / step), low, high) - centre`` where ``column`` is not null. Rounding comes first, then
    clipping, so that no contribution leaves ``[low - centre, high - centre]``. Halves round away from zero.

    Attributes:
        kind: One of the three.
        column: The column that is counted or summed.
        step: The grid of a sum, in units of the column.
        low: The lower clip of a sum, in steps.
        high: The upper clip of a sum, in steps.
        centre: What is subtracted from every clipped value of a sum, in steps.
    """

    kind: Literal["rows", "nonnull", "sum"]
    column: str | None = None
    step: Fraction = Fraction(1)
    low: int = 0
    high: int = 1
    centre: int = 0

    @property
    def contribution(self) -> tuple[int, int]:
        """The least and the largest that one row can contribute, a row that is skipped (0) included."""
        if self.kind != "sum":
            return (0, 1)
        return (min(0, self.low - self.centre), max(0, self.high - self.centre))


class BoundedAggregate(Value):
    """A quantity of a table, summed in every cell of the full cross product of the keys of ``by``.

    The cells are in row-major order of the columns of ``by`` and of their keys: the last column runs fastest.
    """

    table: str
    by: tuple[str, ...]
    quantity: Quantity


def sensitivity(aggregate: BoundedAggregate, table: Table, neighboring: Neighboring) -> Sensitivity:
    """How far one unit can move the cells of an aggregate, in grid steps, where every row is one unit.

    Proof. One row contributes c in [a, b] (a <= 0 <= b, for it may be skipped) to at most one cell.
    Add or remove one row: one cell changes by c, so every norm is max(-a, b).
    Replace one row: either both rows are in one cell, which changes by at most b - a, or they are in two
    cells, which change by c and -c'. With one cell only the first is possible. The maxima of the two cases are
    L1: max(b - a, 2m); squared L2: max((b - a)^2, 2m^2); Linf: b - a, with m = max(-a, b). A row that leaves
    the cells (or enters them) is the case c' = 0 (or c = 0).
    """
    low, high = aggregate.quantity.contribution
    most = max(-low, high)
    if neighboring is Neighboring.ADD_REMOVE:
        return Sensitivity.of_one_cell(most)
    spread = high - low
    if table.cells(aggregate.by) == 1:
        return Sensitivity.of_one_cell(spread)
    return Sensitivity(
        l0=2,
        l1=Fraction(max(spread, 2 * most)),
        l2_squared=Fraction(max(spread * spread, 2 * most * most)),
        linf=Fraction(spread),
    )
