"""What is drawn of a table in every period of a series: its own whole numbers and those of the periods before it.

Let x_t be the table of whole numbers of period t, of one shape in all periods. With the numbers c_0, ..., c_(b-1) of a
*band* the draw of period t hides

    ``c_0 x_t + c_1 x_(t-1) + ... + c_(b-1) x_(t-b+1)``,

a table before the first period being 0. Over all periods that is a lower triangular matrix times the tables, with the
band in every column, so that it has an inverse, and what is known of period t never changes afterwards. A row of period
j is in the draws of j to j + b - 1 at most, whose squared changes add up to the square of the band, however long the
series goes on. Proof: docs/proofs/series.md. The numbers are found in ``catalog.series.best_band``.

>>> band = Band(coefficients=(3879, 989, 670))
>>> band.squared, band.growth
(16473662, 5538)
"""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from dprelease.canonical import GrownValue, Value
from dprelease.privacy.event import Sensitivity

__all__ = ["GRAIN", "MOST_PERIODS", "Band", "BandDraw", "SumOf", "lengths_of", "sum_name"]

SumOf = int | Literal["ytd", "total"]
"""Which periods a sum is of: the last ones, so many; all since January, with the newest; all of the series."""

GRAIN = 2**12
"""About the norm of a band: the lattice of the noise is so fine."""

MOST_PERIODS = 24  # that one draw reads
_LEAST, _LARGEST_ENTRY = 2**10, 2**20
_LARGEST = 2**61  # so large the exact numbers may be: the noise has the rest of 64 bits


def lengths_of(which: SumOf, year: int, horizon: int | None = None) -> tuple[int, ...]:
    """Of how many periods a sum is, each as often as the others: 1 to ``year`` for ``ytd``, and so on for ``total``.

    Args:
        which: The sum.
        year: How many periods a year has.
        horizon: How many periods the series has at most; ``total`` asks for it.
    """
    if isinstance(which, int):
        return (which,)
    return tuple(range(1, (year if which == "ytd" else horizon or 1) + 1))


def sum_name(measure: str, which: SumOf) -> str:
    """The name of a sum of periods of a measure, as it is published.

    >>> sum_name("visits", 12), sum_name("visits", "ytd")
    ('visits_last_12', 'visits_ytd')
    """
    return f"{measure}_last_{which}" if isinstance(which, int) else f"{measure}_{which}"


class Band(Value):
    """By which whole numbers the tables of the last periods are weighted in a draw, the newest first.

    Attributes:
        coefficients: c_0, ..., c_(b-1).

    Raises:
        ValueError: If there are none or too many, the newest table is not in the draw by a positive number, the lattice
            is too coarse, or a number is too large.
    """

    coefficients: tuple[int, ...]

    @model_validator(mode="after")
    def _is_sound(self) -> Self:
        if not 1 <= len(self.coefficients) <= MOST_PERIODS:
            raise ValueError(f"a draw reads one period at least and {MOST_PERIODS} at most")
        if self.coefficients[0] < 1:
            raise ValueError("the newest period is in its draw by a positive number, so that the band has an inverse")
        if self.squared < _LEAST**2 or max(map(abs, self.coefficients)) > _LARGEST_ENTRY:
            raise ValueError(f"the lattice of a band is as fine as {_LEAST}, and it has no huge numbers")
        return self

    @property
    def periods(self) -> int:
        """How many periods one draw reads at most: b."""
        return len(self.coefficients)

    @property
    def squared(self) -> int:
        """S, the sum of the squares of its numbers."""
        return sum(each * each for each in self.coefficients)

    @property
    def growth(self) -> int:
        """The sum of the sizes of its numbers: by so much an exact number can be larger than those of a period."""
        return sum(map(abs, self.coefficients))

    @property
    def most_rows(self) -> int:
        """The largest number of one period with which all fit: larger ones are clamped to it before they are added."""
        return _LARGEST // self.growth

    def over(self, periods: int) -> Fraction:
        """What a unit with rows in so many consecutive periods costs, over what one with rows in one period does.

        As a rho, for the same rows in each: the squares of all draws that it moves, over S. Independent noise on every
        period costs such a unit as many times as it has periods.
        """
        moved = [sum(self.coefficients[max(0, at - periods + 1) : at + 1]) for at in range(self.periods + periods - 1)]
        return Fraction(sum(each * each for each in moved), self.squared)

    def reach(self, one: Sensitivity, *, replaced: bool = False, signed: bool = False) -> Sensitivity:
        """How far one unit of one period can move all draws of a series together, in steps of the lattice.

        A unit that comes or goes has rows in one period; it may move the table of that period in another way every time
        that it is read, by late rows or others that stay, and by no more than ``one`` at any time. Where units are
        replaced there are two, of one period or of two, each of which comes or goes:
        ``|a - b|^2 <= |a|^2 + |b|^2`` where no number of a and b is negative, and twice that for any.

        Args:
            one: How far a unit that comes or goes can move the table of its period, once.
            replaced: Whether a unit takes the place of another one.
            signed: Whether what a unit adds to a cell can be negative.

        Returns:
            The norms over all draws, with no worst cases listed: they are no absolute values of one table.
        """
        below = signed or min(self.coefficients) < 0
        units = 2 if replaced else 1
        return Sensitivity(
            l0=units * one.l0 * sum(1 for each in self.coefficients if each),
            l1=units * one.l1 * self.growth,
            l2_squared=units * (units if below else 1) * one.l2_squared * self.squared,
            linf=Fraction((units if below else 1) * one.linf * max(map(abs, self.coefficients))),
        )


class BandDraw(GrownValue):
    """One draw of a series.

    Attributes:
        band: By which every draw of the series weights its periods.
        number: Which draw it is, the first one being 1; so many periods there are.
        skipped: Periods before its own of which nothing was ever read: the next one takes the place of each.
    """

    LATER: ClassVar[tuple[str, ...]] = ("skipped",)
    band: Band
    number: int = Field(ge=1)
    skipped: tuple[str, ...] = ()

    @property
    def read(self) -> tuple[int, ...]:
        """The numbers of the periods that it reads, its own first: those before the first period are not there."""
        return self.band.coefficients[: self.number]
