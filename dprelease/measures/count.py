"""``{count: rows}`` or ``{count: COLUMN}``: how many rows, or how many with a value, fall in each cell."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Table
from dprelease.measures.base import Estimate, Expected, Measure, Noisy
from dprelease.noise import Law

__all__ = ["Count"]


class Count(Measure):
    """A count. One row moves one cell by at most 1; the noise is integer, so the count stays an integer.

    ``rows`` counts rows, ``units`` counts units (the same while every row is one unit), a column counts its
    non-null values. The estimate is unbiased; it may be negative.
    """

    count: str

    def quantities(self, table: Table) -> tuple[Quantity, ...]:
        """One: the rows, or the non-null values of a column."""
        if self.count in ("rows", "units"):
            return (Quantity(kind="rows"),)
        return (Quantity(kind="nonnull", column=self.count),)

    def estimate(self, noisy: Sequence[Noisy], confidence: Fraction) -> Estimate:
        """The noisy counts; the margin is exact by the noise law."""
        (counted,) = noisy
        value = counted.values.astype(np.float64)
        return Estimate(
            value=value,
            standard_error=np.full_like(value, np.sqrt(counted.law.variance)),
            margin=np.full_like(value, counted.law.margin(confidence)),
        )

    def expected(
        self, quantities: Sequence[Quantity], laws: Sequence[Law], confidence: Fraction, count: int | None
    ) -> Expected:
        """The same for every cell, whatever the data."""
        (law,) = laws
        return Expected(float(np.sqrt(law.variance)), float(law.margin(confidence)))
