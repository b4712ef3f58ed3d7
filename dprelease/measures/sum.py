"""``{sum: COLUMN, clip: [low, high]}``: the sum of a clipped column in each cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Table
from dprelease.measures.base import Possible
from dprelease.measures.clipped import Summed, in_proportion
from dprelease.measures.estimates import Estimate, Expected, Noisy
from dprelease.measures.laws import SumLaw
from dprelease.measures.text import Formula, FormulaTerm, operand
from dprelease.noise import Law
from dprelease.words import marked, phrase

__all__ = ["Sum"]


class Sum(Summed):
    """A sum of values rounded to the column's grid, then clipped: one value moves one cell by max(|low|, |high|).

    A value is a row's, or with ``clip_per: unit_cell`` the sum of a unit's rows in the cell.

    Noise is unbiased; clipping is not: what lies beyond the clip is counted as if it lay on it. Where a mean or a
    variance of the same column and clip is measured, the sum can be had for nothing: the sum of values less the
    centre of the clip, and the centre as often as there are values.
    """

    kind: ClassVar[str] = "sum"
    plural: ClassVar[str] = marked("Sums")
    method: ClassVar[tuple[str, ...]] = ()
    held: ClassVar[bool] = False
    foreseen: ClassVar[Literal["always"]] = "always"
    direct: ClassVar[bool] = True
    weighs: ClassVar[bool] = True
    has_totals: ClassVar[bool] = True
    joined: ClassVar[Mapping[str, str]] = {
        "sum": marked(
            "A noisy sum of how far the values lie from the middle of the clip, plus the middle times a noisy count: "
            "{names}."
        )
    }
    sum: str

    def described(self, table: Table, unit: str) -> str:
        """In the unit of the column."""
        return self.of_values(phrase("sum"), self.unit_of(table), table, unit)

    def quantities(self, table: Table) -> tuple[Quantity, ...]:
        """One: the clipped sum in grid steps."""
        return (self.summed(table),)

    def alternatives(self, table: Table) -> tuple[tuple[Quantity, ...], ...]:
        """Also (centred sum, non-null values), unless the centre is 0: then the first is that sum already."""
        centred = self.centred(table)
        plain = self.quantities(table)
        if centred.centre == 0:
            return (plain,)
        return (plain, (centred, self.how_many(table)))

    def size(self, first: Quantity) -> int:
        """Two where the sum is centred: only another form is."""
        return 2 if first.centre else 1

    def bounds(self, quantities: Sequence[Quantity]) -> Possible:
        """On one side of 0 where the whole clip is; nothing where it has both signs.

        The margin is about the sum of clipped values (a row's, or with ``clip_per: unit_cell`` a unit's in the cell),
        each of which lies in the clip. A sum of numbers that are at least 0 is at least 0, and one of none is 0: a
        clip from 10 does not keep a sum from 0. A number of values is not known, so there is no other end.
        """
        first = quantities[0]
        return (Fraction(0) if first.low >= 0 else None, Fraction(0) if first.high <= 0 else None)

    def grid(self, quantities: Sequence[Quantity]) -> Fraction:
        """The step of the column, times that of the weights."""
        return quantities[0].grid

    def least_above_zero(self, quantities: Sequence[Quantity]) -> Fraction | None:
        """One step, where no value is negative."""
        return quantities[0].grid if quantities[0].low >= 0 else None

    def coefficients(self, quantities: Sequence[Quantity]) -> tuple[Fraction, ...]:
        """The step of a sum; of a count as often as it is taken, the centre times the step."""
        step = quantities[0].grid
        return (step, step * quantities[0].centre)[: len(quantities)]

    def weights(self, quantities: Sequence[Quantity], count: int | None) -> tuple[float, ...]:
        """The squared step of a sum; of a count as often as it is taken, squared."""
        unit = float(quantities[0].grid) ** 2
        return (unit, unit * float(quantities[0].centre) ** 2)[: len(quantities)]

    def estimate(self, noisy: Sequence[Noisy], confidence: Fraction) -> Estimate:
        """The noisy sums in units of the column; the margin is exact by the law of the noise."""
        summed = noisy[0]
        steps = summed.values.astype(np.float64)
        if len(noisy) == 2:
            steps = steps + float(summed.quantity.centre) * noisy[1].values
        value = steps * float(summed.quantity.grid)
        expected = _accuracy(summed.quantity, [part.law for part in noisy], confidence)
        return Estimate(
            value=value,
            standard_error=np.full_like(value, expected.standard_error),
            margin=np.full_like(value, expected.margin),
        )

    def formula(self, terms: Sequence[FormulaTerm]) -> Formula:
        """The sum in units of the column, with the centre as often as there are values."""
        summed = terms[0].quantity
        more = f" + {operand(summed.centre)} * {terms[1].name}" if len(terms) == 2 else ""
        return Formula(f"({terms[0].name}{more}) * {operand(summed.grid)}")

    def expected(
        self, quantities: Sequence[Quantity], laws: Sequence[Law], confidence: Fraction, count: int | None
    ) -> Expected:
        """The same for every cell, whatever the data; where noise chooses the clip in proportion to it."""
        return in_proportion(quantities[0], _accuracy(quantities[0], laws, confidence))


def _accuracy(summed: Quantity, laws: Sequence[Law], confidence: Fraction) -> Expected:
    law = laws[0] if len(laws) == 1 else SumLaw(laws[0], laws[1], summed.centre)
    step = float(summed.grid)
    return Expected(float(np.sqrt(law.variance)) * step, float(law.margin(confidence)) * step)
