"""Quantities on grids so fine that rounding to them cannot be seen: what a truth is worked out on."""

from __future__ import annotations

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Table
from dprelease.measures.variance import LARGEST_SQUARE
from dprelease.plan.explain.rounding import is_rounded

__all__ = ["unrounded"]

_PARTS = 10**10  # of a clip, without rounding


def unrounded(quantity: Quantity, table: Table) -> Quantity:
    """The same quantity on a grid so fine that rounding to it cannot be seen; one that changes no value stays.

    The clip keeps its ends. A clip is cut into 10^9 to 10^10 steps, of which 10^8 rows still add up within 62 bits.
    """
    if quantity.kind not in ("sum", "square", "quantile") or quantity.column is None:
        return quantity
    if not is_rounded(table.column(quantity.column), quantity.step):
        return quantity
    finer = 1
    while (quantity.high - quantity.low) * finer * 10 <= _PARTS:
        finer *= 10
    ends = {"low": quantity.low * finer, "high": quantity.high * finer, "centre": quantity.centre * finer}
    fine = quantity.model_copy(update={**ends, "step": quantity.step / finer})
    if quantity.kind != "square":
        return fine
    fine = fine.model_copy(update={"grain": 1, "offset": 0})
    fine = fine.model_copy(update={"grain": max(1, -(-fine.squares[1] // LARGEST_SQUARE))})
    return fine.model_copy(update={"offset": fine.squares[1] // 2})
