"""For how many people a record of a sample stands: its survey weight, as a public clip and grid say it may count.

A record of weight w counts like w equal rows in one cell, and like no more of them than the clip, so that what holds
for a unit with that many rows in one cell holds for it (docs/proofs/weights.md).

>>> weighting = Weighting(column="PWGTP", step=Fraction(1), clip=500)
>>> weighting.row.in_units
Fraction(500, 1)
"""

from __future__ import annotations

from fractions import Fraction

from pydantic import Field

from dprelease.canonical import Value

__all__ = ["RowWeight", "Sampling", "Weighting"]


class RowWeight(Value):
    """What one record weighs: ``clip(round(value / step), 0, clip)`` steps, and 0 where it has no value.

    Rounding comes before clipping, halves away from zero, as for a sum. A weight that is null, not a number or below 0
    counts as 0, and one above the clip as the clip: a function of the row alone, which is defined for every row.

    Attributes:
        column: An integer or decimal column of the table.
        step: Its grid, the step of that column.
        clip: The most that a record weighs, in steps.
    """

    column: str
    step: Fraction = Field(gt=0)
    clip: int = Field(ge=1, lt=2**53)

    @property
    def in_units(self) -> Fraction:
        """The most that a record weighs."""
        return self.clip * self.step


class Sampling(Value):
    """A public model of how far a weighted number lies from that of the whole population because it is of a sample.

    It is declared, never measured: replicate weights would be many more draws.

    Attributes:
        deff: The design effect: how many times the variance of a simple random sample of that size.
        mean_weight: The mean weight of a record, the size of the population over that of the sample.
        fraction: The part of the population that is in the sample, by which its variance is less.
    """

    deff: Fraction = Field(gt=0)
    mean_weight: Fraction = Field(gt=0)
    fraction: Fraction = Field(default=Fraction(0), ge=0, lt=1)

    @property
    def of_one(self) -> Fraction:
        """The variance of an estimated total, per unit of that total: deff w (1 - f).

        Of a total T = sum of w_i over the records of a cell, each in the sample with the probability 1 / w by itself,
        the variance is the sum of w_i (w_i - 1), about w T (1 - f) for weights that are all w; the design effect says
        how many times that it is (Kish 1965, Survey Sampling, section 8.2).
        """
        return self.deff * self.mean_weight * (1 - self.fraction)


class Weighting(Value):
    """How the records of a table are weighted.

    Attributes:
        column: See :class:`RowWeight`, and so are ``step`` and ``clip``.
        step: See there.
        clip: See there.
        calibrated: Whether a record's weight may depend on the other records (adjusted for those who did not answer, or
            calibrated to known totals). The promise then is one given the weights of the others.
        sampling: The model of the sampling error; None: none is told.
    """

    column: str
    step: Fraction
    clip: int
    calibrated: bool = True
    sampling: Sampling | None = None

    @property
    def row(self) -> RowWeight:
        """What one record weighs."""
        return RowWeight(column=self.column, step=self.step, clip=self.clip)
