"""A number as whole steps of a grid, and its square as whole grains: exact functions of one value, in 64 bits."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import ceil, floor
from typing import Any

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Table
from dprelease.catalog.weight import RowWeight
from dprelease.engines.drivers import ibis
from dprelease.engines.duck.columns.computed_columns import INT64
from dprelease.engines.duck.units import our_name
from dprelease.engines.files.decimals import MOST, grid_name

__all__ = ["MOST", "clip", "squared", "steps", "weight_steps", "whole_limits"]


@cache
def _quotient() -> Any:
    """The whole quotient of two whole numbers, one at least 0 and the other above it: what DuckDB writes ``//``."""

    def divide(one: int, other: int) -> int: ...  # type: ignore[empty-body]

    return ibis.udf.scalar.builtin(divide)


def steps(rows: Any, table: Table, quantity: Quantity) -> Any:
    """A number to clipped grid steps; only looked at where it is not null.

    Integers on a grid of 1 stay integers, and decimals that were read have their steps beside them, from their own
    digits. Other integers are rounded in whole numbers where the clip begins at 0 or above and nothing leaves 64 bits:
    the nearest to v d / n, halves upward, is the whole part of (2 v d + n) / 2 n. Everything else (computed decimals,
    other integers on a coarser grid) goes through one double multiplication and one division, which is a function of
    the row alone; clipping to the ends as doubles comes before rounding, so that the cast to 64 bits always fits, and
    once more after it, so that the clip holds exactly. Computing rounds, so that a computed decimal that is less than
    2^-50 of itself below a half counts as that half.
    """
    column = table.column(str(quantity.column))
    low, high, name = quantity.low, quantity.high, our_name(table, column.name)
    if (known := grid_name(name, quantity.step)) in rows.columns:
        return clip(rows[known], low, high)
    value, ratio = rows[name], Fraction(quantity.step)
    if column.type == "integer" and quantity.step == 1:
        return clip(value, low, high)
    if column.type == "integer":
        least, most = _limits(quantity)
        value = clip(value, max(min(least, INT64), -INT64), max(min(most, INT64), -INT64))
        if whole_limits(quantity) is not None:
            nearest = _halves_upward(value, ratio)
            on_steps = least == low * ratio and most == high * ratio  # then the nearest steps lie between the same ends
            return nearest if on_steps else clip(nearest, low, high)
    scaled = value.cast("float64") * _double(ratio.denominator) / _double(ratio.numerator)
    if column.type == "decimal":
        nudged = scaled * ibis.literal(repr(1 + 2.0**-50)).cast("float64")
        scaled = ibis.ifelse(scaled.abs() < _double(2**48), nudged, scaled)
    nearest = ibis.greatest(ibis.least(scaled, _double(high)), _double(low)).round()
    return clip(nearest, low, high)


def _limits(quantity: Quantity) -> tuple[int, int]:
    """Whole numbers outside of which nothing lands inside the clip; they keep the product small."""
    return floor(quantity.low * quantity.step), ceil(quantity.high * quantity.step)


def whole_limits(quantity: Quantity) -> tuple[int, int] | None:
    """The same, where what is within them is rounded in whole numbers that stay in 62 bits; else None."""
    least, most = _limits(quantity)
    small = 2 * (most * quantity.step.denominator + quantity.step.numerator) <= MOST
    return (least, most) if least >= 0 and small else None


def _halves_upward(value: Any, step: Fraction) -> Any:
    """Whole numbers as steps of a grid, see :func:`steps`: rounding a double takes an engine four times as long."""
    raised = value.cast("int64") * (2 * step.denominator) + step.numerator
    return _quotient()(raised, ibis.literal(2 * step.numerator, type="int64"))


def weight_steps(rows: Any, table: Table, weight: RowWeight) -> Any:
    """How often every row counts, from 0 to the clip; a weight that is null, or below 0, is 0."""
    of_column = Quantity(kind="sum", column=weight.column, step=weight.step, low=0, high=weight.clip)
    return ibis.ifelse(rows[our_name(table, weight.column)].notnull(), steps(rows, table, of_column), 0).cast("int64")


def squared(centred: Any, quantity: Quantity) -> Any:
    """The square of a centred number of steps in grains, halves upward, in 64 bits and without integer division.

    Engines differ in what they make of the division of two integers. A double quotient below 2^31 is wrong by far
    less than 1, so its floor is the quotient or one beside it, and the exact remainder tells which.
    """
    grain = quantity.grain
    if grain == 1:
        return centred * centred
    size = centred.abs()
    double = size.cast("float64")
    near = (double * double / _double(grain) + _double(1) / _double(2)).floor().cast("int64")
    left = _remainder(size, near, quantity) + grain // 2
    return near + (left >= grain).cast("int64") - (left < 0).cast("int64")


def _remainder(size: Any, near: Any, quantity: Quantity) -> Any:
    """``size^2 - near * grain``, which is less than two grains in size.

    Squares beyond 2^61 are taken apart in base B = 2^31: with size = aB + b and grain = cB + d the remainder is
    (a^2 B + 2ab - near c) B + (b^2 - near d), where a < 2^15, near < 2^31 and grain < 2^60 keep every part in 64 bits.
    """
    base, grain = 2**31, quantity.grain
    if max(quantity.low - quantity.centre, quantity.high - quantity.centre, key=abs) ** 2 <= 2**61:
        return size * size - near * grain
    above = (size.cast("float64") / _double(base)).floor().cast("int64")  # exact: size is below 2^53
    below = size - above * base
    upper = above * above * base + 2 * above * below - near * (grain // base)
    return upper * base + (below * below - near * (grain % base))


def clip(value: Any, low: int, high: int) -> Any:
    """The nearest number within the limits; a null takes one of them, so that only values may be looked at."""
    return ibis.greatest(ibis.least(value, high), low)


def _double(number: int) -> Any:
    """A whole number as a double of the engine; a bare literal such as 100.0 would be a decimal there."""
    return ibis.literal(number, type="int64").cast("float64")
