"""``{count: rows}``, ``{count: units}``, ``{count: COLUMN}``, ``{count_distinct: COLUMN}``: how many in each cell."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Table
from dprelease.measures.base import Estimate, Expected, Measure, Noisy, Possible
from dprelease.measures.laws import SumLaw
from dprelease.noise import Law

__all__ = ["Count", "CountDistinct"]


class Count(Measure):
    """A count, unbiased; the noise is integer, so it stays an integer, and it may be negative.

    ``rows`` counts rows, ``units`` counts the different units among them (the same where every row is a unit), a
    column counts its non-null values.

    A column can also be counted as half the sum of two numbers: how many more values than nulls there are, and how
    many rows. Every row moves the first by exactly 1, whatever it holds, so k columns cost what one vector of
    length sqrt(k) does, and the rows are drawn once for all of them. It is the correlated Gaussian mechanism
    (Lebeda 2024, arXiv 2408.06853; Joseph and Yu 2024, arXiv 2309.15790) as integer queries: with the best split
    every count has standard deviation (1 + sqrt(k)) / (2 mu) instead of sqrt(k) / mu. Such a count may end in a half.
    A count with a ``where`` of its own has no such rows to share, and is not offered in that form.
    """

    count: str

    def quantities(self, table: Table) -> tuple[Quantity, ...]:
        """One: the rows, the units, or the non-null values of a column."""
        if self.count == "units" and table.unit_id is not None:
            return (Quantity(kind="units", where=self.where),)
        if self.count in ("rows", "units"):
            return (Quantity(kind="rows", where=self.where),)
        return (Quantity(kind="nonnull", column=self.count, where=self.where),)

    def alternatives(self, table: Table) -> tuple[tuple[Quantity, ...], ...]:
        """For a column also (values less nulls, rows)."""
        plain = self.quantities(table)
        if plain[0].kind != "nonnull" or self.where is not None:
            return (plain,)
        return (plain, (Quantity(kind="balance", column=self.count), Quantity(kind="rows")))

    def within(self, quantities: Sequence[Quantity]) -> Possible:
        """At least 0: rows, units or values are counted, also where the count is half the sum of two numbers."""
        return (Fraction(0), None)

    def weights(self, quantities: Sequence[Quantity], count: int | None) -> tuple[float, ...]:
        """1 of a count; a quarter of each of two numbers whose half sum it is."""
        return (1.0,) if len(quantities) == 1 else (0.25, 0.25)

    def estimate(self, noisy: Sequence[Noisy], confidence: Fraction) -> Estimate:
        """The noisy counts; the margin is exact by the noise law, or by that of the sum of two draws."""
        value = np.asarray(np.mean([part.values for part in noisy], axis=0, dtype=np.float64))
        expected = _accuracy([part.law for part in noisy], confidence)
        return Estimate(
            value=value,
            standard_error=np.full_like(value, expected.standard_error),
            margin=np.full_like(value, expected.margin),
        )

    def expected(
        self, quantities: Sequence[Quantity], laws: Sequence[Law], confidence: Fraction, count: int | None
    ) -> Expected:
        """The same for every cell, whatever the data."""
        return _accuracy(laws, confidence)


class CountDistinct(Measure):
    """How many different values of a column occur in each cell; unbiased, and it may be negative.

    One row more or less moves it by at most 1, as it moves a count of rows.
    """

    count_distinct: str

    def quantities(self, table: Table) -> tuple[Quantity, ...]:
        """One: the different non-null values of the column."""
        return (Quantity(kind="distinct", column=self.count_distinct, where=self.where),)

    def within(self, quantities: Sequence[Quantity]) -> Possible:
        """At least 0: it is the size of a set."""
        return (Fraction(0), None)

    def weights(self, quantities: Sequence[Quantity], count: int | None) -> tuple[float, ...]:
        """1: it is the measurement itself."""
        return (1.0,)

    def estimate(self, noisy: Sequence[Noisy], confidence: Fraction) -> Estimate:
        """The noisy counts; the margin is exact by the noise law."""
        value = noisy[0].values.astype(np.float64)
        told = _accuracy([noisy[0].law], confidence)
        return Estimate(
            value=value,
            standard_error=np.full_like(value, told.standard_error),
            margin=np.full_like(value, told.margin),
        )

    def expected(
        self, quantities: Sequence[Quantity], laws: Sequence[Law], confidence: Fraction, count: int | None
    ) -> Expected:
        """The same for every cell, whatever the data."""
        return _accuracy(laws, confidence)


def _accuracy(laws: Sequence[Law], confidence: Fraction) -> Expected:
    law = laws[0] if len(laws) == 1 else SumLaw(laws[0], laws[1])
    return Expected(float(np.sqrt(law.variance)) / len(laws), law.margin(confidence) / len(laws))
