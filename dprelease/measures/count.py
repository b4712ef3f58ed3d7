"""``{count: rows}`` or ``{count: COLUMN}``: how many rows, or how many with a value, fall in each cell."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Table
from dprelease.measures.base import Estimate, Expected, Measure, Noisy
from dprelease.measures.laws import SumLaw
from dprelease.noise import Law

__all__ = ["Count"]


class Count(Measure):
    """A count. One row moves one cell by at most 1; the noise is integer, so the count stays an integer.

    ``rows`` counts rows, ``units`` counts units (the same while every row is one unit), a column counts its
    non-null values. The estimate is unbiased; it may be negative.

    A column can also be counted as half the sum of two numbers: how many more values than nulls there are, and how
    many rows. Every row moves the first by exactly 1, whatever it holds, so k columns cost what one vector of
    length sqrt(k) does, and the rows are drawn once for all of them. It is the correlated Gaussian mechanism
    (Lebeda 2024, arXiv 2408.06853; Joseph and Yu 2024, arXiv 2309.15790) as integer queries: with the best split
    every count has standard deviation (1 + sqrt(k)) / (2 mu) instead of sqrt(k) / mu. Such a count may end in a half.
    """

    count: str

    def quantities(self, table: Table) -> tuple[Quantity, ...]:
        """One: the rows, or the non-null values of a column."""
        if self.count in ("rows", "units"):
            return (Quantity(kind="rows"),)
        return (Quantity(kind="nonnull", column=self.count),)

    def alternatives(self, table: Table) -> tuple[tuple[Quantity, ...], ...]:
        """For a column also (values less nulls, rows)."""
        plain = self.quantities(table)
        if plain[0].kind == "rows":
            return (plain,)
        return (plain, (Quantity(kind="balance", column=self.count), Quantity(kind="rows")))

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


def _accuracy(laws: Sequence[Law], confidence: Fraction) -> Expected:
    law = laws[0] if len(laws) == 1 else SumLaw(laws[0], laws[1])
    return Expected(float(np.sqrt(law.variance)) / len(laws), law.margin(confidence) / len(laws))
