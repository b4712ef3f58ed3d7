"""``{sum: COLUMN, clip: [low, high]}``: the sum of a clipped column in each cell."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar

import numpy as np
from pydantic import ConfigDict

from dprelease.catalog.aggregate import Quantity
from dprelease.catalog.table import Table
from dprelease.measures.base import Clipped, Estimate, Expected, Noisy
from dprelease.noise import Law

__all__ = ["Sum"]


class Sum(Clipped):
    """A sum of values rounded to the column's grid, then clipped. One row moves one cell by at most max(|low|, |high|).

    Noise is unbiased; clipping is not: what lies beyond the clip is counted as if it lay on it.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")
    sum: str

    def quantities(self, table: Table) -> tuple[Quantity, ...]:
        """One: the clipped sum in grid steps."""
        low, high, step = self.limits(table, self.sum)
        return (Quantity(kind="sum", column=self.sum, step=step, low=low, high=high),)

    def estimate(self, noisy: Sequence[Noisy], confidence: Fraction) -> Estimate:
        """The noisy sums in units of the column; the margin is exact by the noise law."""
        (summed,) = noisy
        value = summed.scaled(summed.values)
        return Estimate(
            value=value,
            standard_error=np.full_like(value, summed.scaled(np.sqrt(summed.law.variance))),
            margin=np.full_like(value, summed.scaled(float(summed.law.margin(confidence)))),
        )

    def expected(
        self, quantities: Sequence[Quantity], laws: Sequence[Law], confidence: Fraction, count: int | None
    ) -> Expected:
        """The same for every cell, whatever the data."""
        step = float(quantities[0].step)
        return Expected(float(np.sqrt(laws[0].variance)) * step, float(laws[0].margin(confidence)) * step)
