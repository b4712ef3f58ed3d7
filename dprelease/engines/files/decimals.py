"""Decimals as whole steps of a grid, exactly: from the digits of each value, halves away from zero.

A decimal is read as the nearest double, which is what conditions, bins and expressions see. That is not enough to round
by: 1.005 as a double is a little less, and would be 1.00 on a grid of 0.01. So the steps are found here, where the text
of a value is still at hand, and go through an engine beside the double, as 64-bit integers under a name of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import MAX_EMAX, MIN_EMIN, ROUND_DOWN, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dprelease.catalog.table import Catalog, Column, Table
from dprelease.engines.files.values import BLANKS

__all__ = ["BY", "MOST", "Grids", "Texts", "exact_steps", "grid_name", "grids_read", "on_grid"]

MOST = 2**62  # no number of steps, and no total, leaves [-MOST, MOST]
BY = "_by_"  # in the name of every column of steps, and of no other
_SURE = 2.0**49  # from so many steps on a double does not tell two halves apart
_LOST = 2.0**-49  # relative; a nearest double, two roundings and those of the step are less than a quarter of it
_DIGITS = 1500  # more than what comes to the digits of a text: a double's size, a step's and a sum's

Grids = Mapping[str, tuple[Fraction, ...]]
Texts = Callable[[npt.NDArray[np.int64]], Sequence[str | None]]


def grids_read(catalog: Catalog, table: Table) -> Grids:
    """The grids that the decimals of a table's source are rounded to, by column in the order of the table.

    Args:
        catalog: Has the tables that borrow columns of this one, each with a grid of its own for them.
        table: That is read.
    """
    lent = {
        (name, step)
        for other in catalog.tables.values()
        for join in other.private_joins
        if join.table == table.name
        for name in join.add
        for column in other.columns
        if column.name == name
        for step in column.grids
    }
    grids = {}
    for column in table.columns:
        if column.in_source and column.type == "decimal":
            more = sorted(step for name, step in lent if name == column.name)
            grids[column.name] = tuple(dict.fromkeys((*column.grids, *more)))
    return grids


def grid_name(name: str, step: Fraction) -> str:
    """Our name of the steps of a column on a grid, from our name of the column."""
    return f"{name}{BY}{step.numerator}_{step.denominator}"


def on_grid(column: Column, values: Any, step: Fraction, texts: Texts) -> Any:
    """Values as whole steps, halves away from zero, within ``MOST`` of zero; a null stays one.

    Nearly all are found in doubles. Proof: let x be the number that a text says and v the nearest double, so that v = x
    (1 + d) with |d| <= 2^-53; |v| d / s, where s is the step as a rational of two doubles, is off by at most five such
    factors. Where the double quotient is farther than 2^-49 of itself from every half, x / s lies on the same side of
    all of them. All others are rounded by their digits.

    Args:
        column: The declaration: numbers outside its range have been moved into it, or are null.
        values: Doubles, as they were read, within the range.
        step: The step of the grid.
        texts: The digits at some positions, as they were read.

    Returns:
        An Arrow array of 64-bit integers of the same length.
    """
    known = values.is_valid().to_numpy(zero_copy_only=False)
    numbers = values.fill_null(0.0).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore", invalid="ignore"):
        size = np.abs(numbers * float(step.denominator) / float(step.numerator))
        near = np.abs(size - np.floor(size) - 0.5) <= size * _LOST
        odd = known & (~np.isfinite(size) | (size >= _SURE) | near)
        steps = np.where(odd, 0.0, np.floor(size + 0.5)).astype(np.int64) * np.sign(numbers).astype(np.int64)
    at = np.flatnonzero(odd)
    if len(at):
        known_steps: dict[str, int] = {}
        for place, text in zip(at.tolist(), texts(at), strict=True):
            if text is not None:
                if text not in known_steps:
                    known_steps[text] = exact_steps(text, column, step)
                steps[place] = known_steps[text]
    return pa.array(steps, pa.int64(), mask=~known)


def exact_steps(text: str, column: Column, step: Fraction) -> int:
    """The steps of one number, from its digits alone.

    >>> cents = Fraction(1, 100)
    >>> price = Column(name="price", type="decimal")
    >>> [exact_steps(text, price, cents) for text in ("1.005", "124.945", "+2.675", "-1005e-3", "1.00499" + "9" * 30)]
    [101, 12495, 268, -101, 100]

    Args:
        text: A number whose nearest double is finite.
        column: Its range is applied before anything is rounded.
        step: The step of the grid.
    """
    stripped = text.strip(BLANKS)
    exact = Context(prec=len(stripped) + _DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN, rounding=ROUND_DOWN, traps=[])
    number = exact.create_decimal(stripped)
    if column.range is not None:
        for limit, beyond in ((column.range.low, -1), (column.range.high, 1)):
            scaled = exact.multiply(number, Decimal(limit.denominator))
            if exact.compare(scaled, Decimal(limit.numerator)) == beyond:
                return rounded_steps(limit / step)
    # floor(|x| d / n + 1/2) as a quotient of whole numbers of some decimal place
    above = exact.add(exact.multiply(exact.abs(number), Decimal(2 * step.denominator)), Decimal(step.numerator))
    whole = exact.divide_int(above, Decimal(2 * step.numerator))
    size = MOST if exact.compare(whole, Decimal(MOST)) >= 0 else int(whole)
    return -size if number < 0 else size


def rounded_steps(steps: Fraction) -> int:
    """A rational number of steps as a whole one, halves away from zero."""
    size = min(MOST, (2 * abs(steps.numerator) + steps.denominator) // (2 * steps.denominator))
    return -size if steps < 0 else size
