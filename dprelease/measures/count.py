"""``{count: rows}``, ``{count: units}``, ``{count: COLUMN}``, ``{count_distinct: COLUMN}``: how many in each cell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Table
from dprelease.catalog.weight import RowWeight
from dprelease.measures.base import Measure, Possible
from dprelease.measures.estimates import Estimate, Expected, Noisy
from dprelease.measures.laws import SumLaw
from dprelease.measures.text import Formula, FormulaTerm, operand, weighed
from dprelease.noise import Law
from dprelease.words import marked, phrase

__all__ = ["Count", "CountDistinct"]


class _Counting(Measure):
    """What both kinds of counts share: they are whole and at least 0, and a row more moves them by at most 1."""

    held: ClassVar[bool] = False
    foreseen: ClassVar[Literal["always"]] = "always"
    is_count: ClassVar[bool] = True

    def size(self, first: Quantity) -> int:
        """Two for a count that is the sum of two numbers, or half of it."""
        return 2 if first.kind in ("balance", "rest") else 1

    def bounds(self, quantities: Sequence[Quantity]) -> Possible:
        """At least 0: it is the size of a set, also where it is the sum of two numbers, or half of it."""
        return (Fraction(0), None)

    def grid(self, quantities: Sequence[Quantity]) -> Fraction:
        """1, or 1/2 for half the sum of two numbers; the step of the weights as often."""
        return quantities[0].grid / _over(quantities[0])

    def least_above_zero(self, quantities: Sequence[Quantity]) -> Fraction:
        """1: the true number is whole; the step of the weights."""
        return quantities[0].grid

    def coefficients(self, quantities: Sequence[Quantity]) -> tuple[Fraction, ...]:
        """1 of a count, or of each of a part and a rest; a half of two numbers whose half sum it is; times the grid."""
        return (quantities[0].grid / _over(quantities[0]),) * len(quantities)

    def weights(self, quantities: Sequence[Quantity], count: int | None) -> tuple[float, ...]:
        """The squares of :meth:`coefficients`."""
        grid, over = quantities[0].grid, _over(quantities[0])
        each = (grid.numerator / (grid.denominator * over)) ** 2  # a quotient of integers is rounded once
        return (each,) * len(quantities)

    def estimate(self, noisy: Sequence[Noisy], confidence: Fraction) -> Estimate:
        """The noisy counts; the margin is exact by the noise law, or by that of the sum of two draws."""
        quantities = [part.quantity for part in noisy]
        steps = np.sum([part.values for part in noisy], axis=0, dtype=np.float64) / _over(quantities[0])
        value = np.asarray(steps * float(quantities[0].grid), dtype=np.float64)
        expected = _accuracy(quantities, [part.law for part in noisy], confidence)
        return Estimate(
            value=value,
            standard_error=np.full_like(value, expected.standard_error),
            margin=np.full_like(value, expected.margin),
        )

    def formula(self, terms: Sequence[FormulaTerm]) -> Formula:
        """The number itself, the sum of two or half of it, in steps of the weights where it has some."""
        grid, over = terms[0].quantity.grid, _over(terms[0].quantity)
        text = " + ".join(term.name for term in terms)
        text = text if over == 1 else f"({text}) / {over}"
        return Formula(text if grid == 1 else f"({text}) * {operand(grid)}")

    def expected(
        self, quantities: Sequence[Quantity], laws: Sequence[Law], confidence: Fraction, count: int | None
    ) -> Expected:
        """The same for every cell, whatever the data."""
        return _accuracy(quantities, laws, confidence)


class Count(_Counting):
    """A count, unbiased; the noise is integer, so it stays an integer, and it may be negative.

    ``rows`` counts rows, ``units`` counts the different units among them (the same where every row is a unit), a
    column counts its non-null values. Where rows have weights it is the sum of the weights of what is counted, an
    estimate of how many there are in the population; units have none.

    All but the number of all rows can also be told as half the sum of two numbers: how many more of the rows count
    than do not (its balance), and how many rows there are. Every row moves the first by exactly 1, whatever it holds,
    so k counts cost what one vector of length sqrt(k) does, and the rows are drawn once for all of them. It is the
    correlated Gaussian mechanism (Lebeda 2024, arXiv 2408.06853; Joseph and Yu 2024, arXiv 2309.15790) as integer
    queries: with the best split every count has standard deviation (1 + sqrt(k)) / (2 mu) instead of sqrt(k) / mu. Such
    a count may end in a half.

    The whole of a share can also be told as the sum of its part and of the rest (``PlannedRatio.parts_of_whole``).
    """

    kind: ClassVar[str] = "count"
    plural: ClassVar[str] = marked("Counts")
    method: ClassVar[tuple[str, ...]] = ()
    words: ClassVar[tuple[str, ...]] = ("rows", "units")
    direct: ClassVar[bool] = True
    joined: ClassVar[Mapping[str, str]] = {
        "balance": marked(
            "Half the sum of two noisy numbers, of all rows and of those that count less those that do not, so that it "
            "may end in a half: {names}."
        ),
        "rest": marked("The sum of two noisy numbers, of the part of a share and of the rest of its whole: {names}."),
    }
    other_form: ClassVar[Literal["centred"]] = "centred"
    weighs: ClassVar[bool] = True
    has_totals: ClassVar[bool] = True
    count: str

    @property
    def counted(self) -> str:
        """What is counted."""
        return self.count

    @property
    def sampled_as(self) -> Literal["total"] | None:
        """A total, unless it is one of records."""
        return None if self.weighted is False else "total"

    @property
    def adds_rows(self) -> bool:
        """Not of units: each counts once in a cell."""
        return self.count != "units"

    def described(self, table: Table, unit: str) -> str:
        """What is counted; of rows also who is one, where that is only declared."""
        weight = self.row_weight(table)
        if weight is not None:
            if self.column is None:
                return phrase("weighted number of records") + weighed(weight)
            return phrase(
                "weighted number of records in which {column} has a value", column=table.column(self.count).shown
            ) + weighed(weight)
        if self.count == "units" and table.unit_id is not None:
            return phrase("number of units: each {unit} once in a cell", unit=unit)
        if self.column is None and table.unit_id is not None:
            return phrase("number of rows")
        if self.column is None:
            return phrase("number of rows; a row is declared to be one {unit}", unit=unit)
        return phrase("number of rows in which {column} has a value", column=table.column(self.count).shown)

    def quantities(self, table: Table) -> tuple[Quantity, ...]:
        """One: the rows, the units, or the non-null values of a column."""
        if self.count == "units" and table.unit_id is not None:
            return (_plain("units", None, self.where, None),)
        weight = self.row_weight(table)
        if self.count in ("rows", "units"):
            return (_plain("rows", None, self.where, weight),)
        return (_plain("nonnull", self.count, self.where, weight),)

    def alternatives(self, table: Table) -> tuple[tuple[Quantity, ...], ...]:
        """But for the number of all rows or units also (those that count less those that do not, all)."""
        (plain,) = self.quantities(table)
        return ((plain,),) if plain.column is None and plain.where is None else ((plain,), _centred(plain))


class CountDistinct(_Counting):
    """How many different values of a column occur in each cell; unbiased, and it may be negative.

    One row more or less moves it by at most 1, as it moves a count of rows.
    """

    kind: ClassVar[str] = "count_distinct"
    plural: ClassVar[str] = marked("Numbers of different values")
    method: ClassVar[tuple[str, ...]] = ()
    count_distinct: str

    def described(self, table: Table, unit: str) -> str:
        """The number of the column's different values, in words."""
        return phrase("number of different values of {column}", column=table.column(self.count_distinct).shown)

    def quantities(self, table: Table) -> tuple[Quantity, ...]:
        """One: the different non-null values of the column."""
        return (Quantity(kind="distinct", column=self.count_distinct, where=self.where),)


def _over(first: Quantity) -> int:
    """By what the sum of its numbers is divided: of a balance and all rows by two, of a rest and a part by one."""
    return 2 if first.kind == "balance" else 1


@lru_cache(maxsize=1 << 14)  # a plan asks for each count some ten times: in each form, and for the verifier
def _plain(
    kind: Literal["units", "rows", "nonnull"], column: str | None, where: str | None, weight: RowWeight | None
) -> Quantity:
    return Quantity(kind=kind, column=column, where=where, weight=weight)


@lru_cache(maxsize=1 << 14)
def _centred(plain: Quantity) -> tuple[Quantity, Quantity]:
    """The balance of a count, and all rows or units of the cell: it is half of their sum."""
    units = plain.kind == "units"
    per: Literal["row", "unit_cell"] = "unit_cell" if units else "row"
    balance = Quantity(kind="balance", column=plain.column, where=plain.where, per=per, weight=plain.weight)
    return balance, Quantity(kind="units" if units else "rows", weight=plain.weight)


def _accuracy(quantities: Sequence[Quantity], laws: Sequence[Law], confidence: Fraction) -> Expected:
    law = laws[0] if len(laws) == 1 else SumLaw(laws[0], laws[1])
    grid = quantities[0].grid
    unit = grid.numerator / (grid.denominator * _over(quantities[0]))  # a quotient of integers is rounded once
    return Expected(math.sqrt(law.variance) * unit, law.margin(confidence) * unit)
